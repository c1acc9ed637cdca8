#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real NCCL, torch symmetric memory and the stand-in all-reduce on two GPUs, injected: counts, labels against NCCL's own log, durations
against CUDA events, waiting against a known delay, overlap. Prints a table, exits 1 when a check failed.

    tests/gpu/two_gpus.py build/dev [--keep FOLDER] [--overhead]

--keep: short segments of some scenarios are compressed into FOLDER (test data). --overhead: also the table of step times.
"""
import argparse
import collections
import lzma
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import json

import gpu

FAILURES = []
HERE = pathlib.Path(__file__).resolve().parent
BYTES = 43008
PER_STEP = 122


def check(name, good, detail=""):
    print(f"{'ok  ' if good else 'FAIL'} {name}{': ' + detail if detail else ''}", flush=True)
    if not good:
        FAILURES.append(name)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def torch_ranks(tools, mode, directory, scenario, *arguments, **more):
    """Both ranks of nccl_ranks.py; returns (truths, NCCL's log of rank 0)."""
    given = {k: v for k, v in more.items() if v is not None}
    base = gpu.environment(tools, mode, directory, **given) if mode else dict(gpu.environment(tools, None, ""), **given)
    base.update(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), NCCL_NVLS_ENABLE="0",
                TORCH_SYMM_MEM_DISABLE_MULTICAST="1")
    logs = [os.path.join(tools.work, f"nccl.{r}.log") for r in range(2)]
    ranks = []
    for r in range(2):
        env = dict(base, RANK=str(r), NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="COLL,TUNING", NCCL_DEBUG_FILE=logs[r])
        ranks.append(subprocess.Popen([sys.executable, str(HERE / "nccl_ranks.py"), scenario, *map(str, arguments)], env=env,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    outputs = reaped(ranks, 75)
    for p, (_, err) in zip(ranks, outputs):
        if p.returncode:
            raise RuntimeError(f"{scenario}: rank failed with {p.returncode}: {err[-1500:]}")
    with open(logs[0], encoding="utf-8", errors="replace") as file:
        log = file.read()
    return [json.loads(out.splitlines()[-1]) for out, _ in outputs], log


def reaped(ranks, seconds):
    """Ends what is left of the ranks, and returns what they wrote."""
    until = time.monotonic() + seconds
    outputs = []
    for p in ranks:
        try:
            outputs.append(p.communicate(timeout=max(0.1, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            for each in ranks:
                each.kill()
            raise RuntimeError(f"not ended within {seconds} s: {[each.communicate()[1][-3000:] for each in ranks]}") from None
    return outputs


def standin_ranks(tools, env, *arguments, late_us=0):
    with tempfile.TemporaryDirectory() as exchange:
        ranks = [subprocess.Popen([str(tools.workload), "--kind", "ar", "--ipc", "2", "--rank", str(r), "--device", str(r),
                                   "--exchange", exchange, *map(str, arguments),
                                   *(["--late-us", str(late_us)] if late_us and r == 1 else [])],
                                  env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for r in range(2)]
        outputs = [out for out, _ in reaped(ranks, 60)]
    if any(p.returncode for p in ranks):
        raise RuntimeError(f"stand-in ranks ended with {[p.returncode for p in ranks]}")
    return [json.loads(out) for out in outputs]


def collectives(objects, **want):
    return [o for o in objects if o["kind"] == "collective" and all(o[k] == v for k, v in want.items())]


def logged(log):
    """(operation, bytes) -> set of (algorithm, protocol) that NCCL says it chose."""
    found = collections.defaultdict(set)
    for name, size, algorithm, protocol in re.findall(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)", log):
        found[name, int(size)].add((algorithm.lower(), protocol.lower()))
    return found


def microseconds(found):
    return [(o["end_ns"] - o["start_ns"]) / 1e3 for o in found]


def keep(folder, directory, name, truths):
    """Segments as test data, and what the programs themselves say that they ran."""
    if folder is None:
        return
    for path in sorted(pathlib.Path(directory).glob("*.seg")):
        target = pathlib.Path(folder) / f"{name}.{path.name}.xz"
        target.write_bytes(lzma.compress(path.read_bytes(), preset=6))
        print(f"     kept {target.name}, {target.stat().st_size} bytes", flush=True)
    (pathlib.Path(folder) / f"{name}.truth.json").write_text(json.dumps(truths, indent=1) + "\n")


def graph(tools, args, name, **more):
    with tempfile.TemporaryDirectory() as directory:
        truths, log = torch_ranks(tools, "full", directory, "graph", "--steps", 12, COLLSCOPE_RING_MIB=1, **more)
        objects = gpu.dump(tools, directory)
        keep(args.keep, directory, name, truths)
    chosen = logged(log)
    for r in range(2):
        seen = collectives(objects, rank=r, bytes=BYTES, impl="nccl")
        replayed = [o for o in seen if o["graph"] is not None]
        want = PER_STEP * (truths[r]["steps"] + 1)  # one eager pass before the capture
        check(f"{name} rank {r}: every all-reduce, with its size", len(seen) == want, f"{len(seen)} of {want}")
        check(f"{name} rank {r}: replays", len(replayed) == PER_STEP * truths[r]["steps"], str(len(replayed)))
        labels = {(o["algorithm"], o["protocol"]) for o in seen}
        check(f"{name} rank {r}: algorithm and protocol as NCCL's log", labels == chosen["AllReduce", BYTES],
              f"{labels}, log {chosen['AllReduce', BYTES]}")
        check(f"{name} rank {r}: one communicator", len({o["communicator"] for o in seen}) == 1)
    big = microseconds(collectives(objects, rank=0, bytes=truths[0]["event_bytes"]))
    mean, theirs = statistics.mean(big) if big else 0, truths[0]["event_us"]
    check(f"{name}: durations against CUDA events", len(big) == truths[0]["event_calls"] and abs(mean - theirs) <= 0.03 * theirs,
          f"{len(big)} of 64 MiB, mean {mean:.2f} us, events {theirs:.2f} us")
    times = microseconds(o for o in collectives(objects, rank=0, bytes=BYTES) if o["graph"] is not None)
    if len(times) > 1:
        waits_us = [o["wait_ns"] / 1e3 for o in collectives(objects, bytes=BYTES) if o["wait_ns"] is not None]
        print(f"     {name}: replayed all-reduce p50 {statistics.median(times):.1f} us, p99 {statistics.quantiles(times, n=100)[98]:.1f}"
              f" us, wait p50 {statistics.median(waits_us or [0]):.1f} us; step {truths[0]['step_ms_p50']:.2f} ms", flush=True)


def sweep(tools):
    with tempfile.TemporaryDirectory() as directory:
        truths, log = torch_ranks(tools, "full", directory, "sweep")
        objects = gpu.dump(tools, directory)
    chosen = logged(log)
    for op, name in (("all_reduce", "AllReduce"), ("all_gather", "AllGather"), ("reduce_scatter", "ReduceScatter")):
        for size, calls in truths[0]["calls"]:
            seen = collectives(objects, rank=0, op=op, bytes=size)
            labels = {(o["algorithm"], o["protocol"]) for o in seen}
            want = chosen[name, size] or chosen[name, size // 2]
            check(f"sweep {op} {size}", len(seen) >= calls and labels == want, f"{len(seen)} of {calls}, {labels}, log {want}")


def grouped(tools):
    with tempfile.TemporaryDirectory() as directory:
        truths, _ = torch_ranks(tools, "full", directory, "grouped", "--steps", 50)
        objects = gpu.dump(tools, directory)
    seen = collectives(objects, rank=0, op="all_reduce", bytes=4 * BYTES)
    check("grouped: one kernel with the sum of four", len(seen) == truths[0]["groups"], f"{len(seen)} of {truths[0]['groups']}")


def two_comms(tools, args):
    with tempfile.TemporaryDirectory() as directory:
        truths, _ = torch_ranks(tools, "full", directory, "two-comms", "--steps", 50, COLLSCOPE_RING_MIB=1)
        objects = gpu.dump(tools, directory)
        keep(args.keep, directory, "two-communicators", truths)
    seen = collectives(objects, rank=0, bytes=8 << 20)
    by_comm = collections.Counter(o["communicator"] for o in seen)
    check("two communicators: counted apart", sorted(by_comm.values()) == [truths[0]["calls_per_comm"]] * 2, str(dict(by_comm)))
    # Independent: intersect the intervals of the two communicators here.
    spans = collections.defaultdict(list)
    for o in seen:
        spans[o["communicator"]].append((o["start_ns"], o["end_ns"]))
    a, b = (sorted(s) for s in spans.values()) if len(spans) == 2 else ([], [])
    want = sum(max(0, min(x[1], y[1]) - max(x[0], y[0])) for x in a for y in b)
    have = sum(o["overlap_collective_ns"] or 0 for o in seen if o["communicator"] == list(spans)[0])
    check("two communicators: overlap", want > 0 and abs(have - want) <= 0.01 * want, f"{have / 1e3:.0f} us, recomputed {want / 1e3:.0f} us")


def eager(tools):
    """No graph: by correlation id while collscope holds the subscription."""
    with tempfile.TemporaryDirectory() as directory:
        truths, log = torch_ranks(tools, "full", directory, "eager", "--steps", 20)
        objects = gpu.dump(tools, directory)
    for r in range(2):
        seen = collectives(objects, rank=r, bytes=BYTES, impl="nccl")
        want = PER_STEP * truths[r]["steps"]
        check(f"eager rank {r}: every all-reduce, with its size", len(seen) == want, f"{len(seen)} of {want}")
    labels = {(o["algorithm"], o["protocol"]) for o in collectives(objects, bytes=BYTES)}
    check("eager: algorithm and protocol as NCCL's log", labels == logged(log)["AllReduce", BYTES], str(labels))


def copy(tools):
    profiled = torch_ranks(tools, None, "", "copy", "--steps", 100, "--profile")[0][0]
    with tempfile.TemporaryDirectory() as directory:
        torch_ranks(tools, "full", directory, "copy", "--steps", 100)
        objects = gpu.dump(tools, directory)
    seen = [o for o in collectives(objects, rank=0, bytes=BYTES) if o["graph"] is not None]
    check("copy: same count as torch.profiler", len(seen) == profiled["profiled_count"], f"{len(seen)} of {profiled['profiled_count']}")
    known = [o for o in seen if o["overlap_copy_ns"] is not None]
    under = [o for o in known if o["overlap_copy_ns"]]
    have, want = sum(o["overlap_copy_ns"] for o in known) / 1e3 / max(1, len(known)), profiled["profiled_copy_us"]
    # Two runs of one program on two GPUs: they differ among themselves by this much.
    check("copy: overlap against torch.profiler", abs(have - want) <= 0.1 * want, f"{have:.3f} us a kernel, torch.profiler {want:.3f} us")
    alone = [o for o in known if not o["overlap_copy_ns"]]
    if under and alone:
        print(f"     copy: p50 {statistics.median(microseconds(under)):.1f} us under a copy, "
              f"{statistics.median(microseconds(alone)):.1f} us without", flush=True)


def waits(name, objects, late_us, impl, tolerance_us):
    seen = [o for o in collectives(objects, bytes=BYTES, impl=impl) if o["graph"] is not None and o["wait_ns"] is not None]
    early = [o["wait_ns"] / 1e3 for o in seen if o["rank"] == 0]
    late = [o["wait_ns"] / 1e3 for o in seen if o["rank"] == 1]
    if not early or not late:
        check(f"{name}: ranks matched", False, f"{len(early)} and {len(late)}")
        return
    have = statistics.median(early)
    check(f"{name}: rank 0 waits for the delay", abs(have - late_us) <= tolerance_us, f"{have:.1f} us of {late_us} us")
    check(f"{name}: rank 1 does not", statistics.median(late) <= 3, f"{statistics.median(late):.1f} us")
    last = collections.Counter(o["rank"] for o in seen if o["last_arrival"])
    check(f"{name}: the last is rank 1", last[1] > 0.95 * sum(last.values()), str(dict(last)))


def late(tools, args):
    with tempfile.TemporaryDirectory() as directory:
        truths, _ = torch_ranks(tools, "full", directory, "late", "--steps", 12, "--late-us", 80, "--standins", tools.standins,
                                COLLSCOPE_RING_MIB=1)
        keep(args.keep, directory, "late-rank", truths)
        waits("late (NCCL)", gpu.dump(tools, directory), 80, "nccl", 3)
    with tempfile.TemporaryDirectory() as directory:
        standin_ranks(tools, gpu.environment(tools, "full", directory), "--steps", "60", "--sync", late_us=80)
        waits("late (stand-in)", gpu.dump(tools, directory), 80, "vllm_custom", 3)


def slow_start(tools):
    """Rank 1 launches each step 2 ms late: the first all-reduce of the step waits for it, the others do not."""
    with tempfile.TemporaryDirectory() as directory:
        truths, _ = torch_ranks(tools, "full", directory, "slow-start", "--steps", 50)
        objects = gpu.dump(tools, directory)
    seen = [o for o in collectives(objects, rank=0, bytes=BYTES) if o["graph"] is not None and o["wait_ns"] is not None]
    first = [o["wait_ns"] / 1e3 for o in seen if o["ordinal"] == 0]
    rest = [o["wait_ns"] / 1e3 for o in seen if o["ordinal"]]
    have, want = statistics.median(first or [0]), truths[1]["sleep_us"]
    check("slow start: the first all-reduce waits", abs(have - want) <= 0.1 * want, f"{have:.0f} us of {want:.0f} us, {len(first)} steps")
    check("slow start: the others do not", statistics.median(rest or [1e9]) <= 10, f"{statistics.median(rest or [0]):.1f} us")


def symmetric(tools):
    for scenario in ("symm-one-shot", "symm-two-shot"):
        with tempfile.TemporaryDirectory() as directory:
            truths, _ = torch_ranks(tools, "full", directory, scenario, "--steps", 12)
            objects = gpu.dump(tools, directory)
        for r in range(2):
            seen = [o for o in collectives(objects, rank=r, impl="torch_symm_mem") if o["graph"] is not None]
            sizes = collections.Counter(o["bytes"] for o in seen)
            check(f"{scenario} rank {r}", sizes == {BYTES: PER_STEP * truths[r]["steps"]}, str(dict(sizes)))


def standin(tools, args):
    with tempfile.TemporaryDirectory() as directory:
        truths = standin_ranks(tools, gpu.environment(tools, "full", directory, COLLSCOPE_RING_MIB=1), "--steps", 12, "--sync")
        objects = gpu.dump(tools, directory)
        keep(args.keep, directory, "custom-one-shot", truths)
    for r in range(2):
        seen = collectives(objects, rank=r, impl="vllm_custom", bytes=BYTES)
        check(f"stand-in over peer memory rank {r}", len(seen) == truths[r]["all_reduce_total"],
              f"{len(seen)} of {truths[r]['all_reduce_total']}")


STATES = [("not injected", None, {}), ("off", "off", {}), ("sample, 1 % of the time deep", "sample",
                                                           {"COLLSCOPE_PERIOD_MS": 1000, "COLLSCOPE_WINDOW_MS": 10, "COLLSCOPE_BUDGET": 1}), ("full", "full", {})]


def overhead(tools):
    def one(kind, mode, more, sync):
        with tempfile.TemporaryDirectory() as directory:
            if kind == "stand-in":
                env = gpu.environment(tools, mode, directory, **more)
                return standin_ranks(tools, env, "--seconds", 3, *(["--sync"] if sync else []))[0]
            truths, _ = torch_ranks(tools, mode, directory, kind, "--steps", 500, *([] if sync else ["--ahead"]), **more)
            return truths[0]

    print("\n| loop | state | waiting p50 ms | ahead mean ms | waiting | ahead |\n|---|---|---|---|---|---|")
    for kind in ("graph", "symm-one-shot", "stand-in"):
        base = None
        for name, mode, more in STATES:
            p50, ahead = one(kind, mode, more, True)["step_ms_p50"], one(kind, mode, more, False)["step_ms_mean"]
            base = base or (p50, ahead)
            print(f"| {kind} | {name} | {p50:.3f} | {ahead:.3f} | {100 * (p50 / base[0] - 1):+.1f} % | {100 * (ahead / base[1] - 1):+.1f} % |",
                  flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--keep")
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--only", help="comma-separated names of scenarios")
    args = parser.parse_args()
    if args.keep:
        pathlib.Path(args.keep).mkdir(parents=True, exist_ok=True)
    tools = gpu.Tools(args.build)
    tools.compile()
    steps = {
        "graph": lambda: graph(tools, args, "nccl-graph"),
        "stand-in": lambda: standin(tools, args),
        "late": lambda: late(tools, args),
        "slow start": lambda: slow_start(tools),
        "eager": lambda: eager(tools),
        "two communicators": lambda: two_comms(tools, args),
        "through host memory": lambda: graph(tools, args, "nccl-host-memory", NCCL_P2P_DISABLE="1"),
        "sweep": lambda: sweep(tools),
        "grouped": lambda: grouped(tools),
        "copy": lambda: copy(tools),
        "symmetric memory": lambda: symmetric(tools),
    }
    if args.overhead:
        steps["overhead"] = lambda: overhead(tools)
    for name, step in steps.items():
        if args.only and name not in args.only.split(","):
            continue
        begin = time.monotonic()
        try:
            step()
        except Exception as error:  # one broken check must not hide the others
            check(f"{name} raised", False, repr(error)[:8000])
        print(f"     {name}: {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{len(FAILURES)} failed" if FAILURES else "all passed")
    sys.exit(1 if FAILURES else 0)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real NCCL, torch symmetric memory and the stand-in all-reduce on two GPUs, injected: counts, labels against NCCL's own log, durations
against CUDA events, waiting against a known delay, overlap. Prints a table, exits 1 when a check failed.

    tests/gpu/two_gpus.py build/dev [--keep FOLDER] [--overhead]

--keep: short segments of some scenarios are compressed into FOLDER (test data). --overhead: also the table of step times.
"""
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
from gpu import check
import truths as must
from truths import BYTES, PER_STEP, collectives, microseconds

HERE = pathlib.Path(__file__).resolve().parent


def check_all(name, found):
    for what, good, detail in found:
        check(f"{name}: {what}", good, detail)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def torch_ranks(tools, mode, directory, scenario, *arguments, **more):
    """Both ranks of nccl_ranks.py; returns what each says of itself, the first one with what NCCL's log says it chose."""
    given = {k: v for k, v in more.items() if v is not None}
    base = gpu.environment(tools, mode, directory, **given) if mode else dict(gpu.environment(tools, None, ""), **given)
    base.update(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), NCCL_NVLS_ENABLE="0",
                TORCH_SYMM_MEM_DISABLE_MULTICAST="1")
    logs = [os.path.join(tools.work, f"nccl.{r}.log") for r in range(2)]
    ranks = []
    for r in range(2):
        env = dict(base, RANK=str(r), NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,COLL,TUNING", NCCL_DEBUG_FILE=logs[r])
        ranks.append(subprocess.Popen([sys.executable, "nccl_ranks.py", scenario, *map(str, arguments)], env=env, cwd=HERE,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    outputs = reaped(ranks, 75)
    for p, (_, err) in zip(ranks, outputs):
        if p.returncode:
            raise RuntimeError(f"{scenario}: rank failed with {p.returncode}: {err[-1500:]}")
    with open(logs[0], encoding="utf-8", errors="replace") as file:
        log = file.read()
    truths = [json.loads(out.splitlines()[-1]) for out, _ in outputs]
    truths[0].update(logged(log))
    return truths


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


def logged(log):
    """What NCCL says of itself. chosen: by operation and bytes, algorithm and protocol; asked: operation, count, datatype, reduction (NCCL's
    numbers) and ranks of each kind of call; communicators: their hashes."""
    found = collections.defaultdict(set)
    for name, size, algorithm, protocol in re.findall(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)", log):
        found[f"{name} {size}"].add((algorithm.lower(), protocol.lower()))
    asked = re.findall(r"(\w+): opCount \S+ sendbuff \S+ recvbuff \S+ (?:acc \S+ )?count (\d+) datatype (\d+) op (\d+) root \d+ comm \S+ "
                       r"\[nranks=(\d+)\]", log)
    return {"chosen": {key: sorted(value) for key, value in found.items()},
            "asked": sorted({(name, *map(int, numbers)) for name, *numbers in asked}),
            "communicators": sorted({f"{int(each, 16):016x}" for each in re.findall(r"commId 0x([0-9a-f]+)", log)})}


def gpu_uuids():
    done = subprocess.run(["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True, check=True)
    return [bytes.fromhex(line.strip().removeprefix("GPU-").replace("-", "")) for line in done.stdout.splitlines()]


def keep(folder, directory, name, truths):
    """Segments as test data, and what the programs themselves say that they ran. Whose GPUs they were is nobody's business."""
    if folder is None:
        return
    uuids = gpu_uuids()
    for path in sorted(pathlib.Path(directory).glob("*.seg")):
        target = pathlib.Path(folder) / f"{name}.{path.name}.xz"
        content = path.read_bytes()
        for number, uuid in enumerate(uuids):
            content = content.replace(uuid, bytes([number + 1]) * 16)
        target.write_bytes(lzma.compress(content, preset=6))
        print(f"     kept {target.name}, {target.stat().st_size} bytes", flush=True)
    (pathlib.Path(folder) / f"{name}.truth.json").write_text(json.dumps(truths, indent=1) + "\n")


def graph(tools, args, name, **more):
    with tempfile.TemporaryDirectory() as directory:
        truths = torch_ranks(tools, "full", directory, "graph", "--steps", 12, COLLSCOPE_RING_MIB=1, **more)
        objects = gpu.dump(tools, directory)
        keep(args.keep, directory, name, truths)
    check_all(name, must.graph(objects, truths))
    times = microseconds(o for o in collectives(objects, rank=0, bytes=BYTES) if o["graph"] is not None)
    if len(times) > 1:
        waits_us = [o["wait_ns"] / 1e3 for o in collectives(objects, bytes=BYTES) if o["wait_ns"] is not None]
        print(f"     {name}: replayed all-reduce p50 {statistics.median(times):.1f} us, p99 {statistics.quantiles(times, n=100)[98]:.1f}"
              f" us, wait p50 {statistics.median(waits_us or [0]):.1f} us; step {truths[0]['step_ms_p50']:.2f} ms", flush=True)


def sweep(tools):
    with tempfile.TemporaryDirectory() as directory:
        truths = torch_ranks(tools, "full", directory, "sweep")
        objects = gpu.dump(tools, directory)
    for op, name in (("all_reduce", "AllReduce"), ("all_gather", "AllGather"), ("reduce_scatter", "ReduceScatter")):
        for size, calls in truths[0]["calls"]:
            seen = collectives(objects, rank=0, op=op, bytes=size)
            labels = {(o["algorithm"], o["protocol"]) for o in seen}
            want = must.chosen(truths[0], name, size) or must.chosen(truths[0], name, size // 2)
            check(f"sweep {op} {size}", len(seen) >= calls and labels == want, f"{len(seen)} of {calls}, {labels}, log {want}")


def grouped(tools):
    with tempfile.TemporaryDirectory() as directory:
        truths = torch_ranks(tools, "full", directory, "grouped", "--steps", 50)
        objects = gpu.dump(tools, directory)
    seen = collectives(objects, rank=0, op="all_reduce", bytes=4 * BYTES)
    check("grouped: one kernel with the sum of four", len(seen) == truths[0]["groups"], f"{len(seen)} of {truths[0]['groups']}")


def two_comms(tools, args):
    with tempfile.TemporaryDirectory() as directory:
        truths = torch_ranks(tools, "full", directory, "two-comms", "--steps", 50, COLLSCOPE_RING_MIB=1)
        objects = gpu.dump(tools, directory)
        keep(args.keep, directory, "two-communicators", truths)
    check_all("two communicators", must.two_communicators(objects, truths))


def eager(tools):
    """No graph: by correlation id while collscope holds the subscription."""
    with tempfile.TemporaryDirectory() as directory:
        truths = torch_ranks(tools, "full", directory, "eager", "--steps", 20)
        objects = gpu.dump(tools, directory)
    for r in range(2):
        seen = collectives(objects, rank=r, bytes=BYTES, impl="nccl")
        want = PER_STEP * truths[r]["steps"]
        check(f"eager rank {r}: every all-reduce, with its size", len(seen) == want, f"{len(seen)} of {want}")
    labels = {(o["algorithm"], o["protocol"]) for o in collectives(objects, bytes=BYTES)}
    check("eager: algorithm and protocol as NCCL's log", labels == must.chosen(truths[0], "AllReduce", BYTES), str(labels))


def other_sources(tools):
    """The same labels without the plugin (NVTX tells), and without NVTX too (the launch's parameters tell)."""
    for source, more in (("nvtx", {"COLLSCOPE_NCCL": "0"}), ("launch_parameters", {"COLLSCOPE_NCCL": "0", "NCCL_NVTX_DISABLE": "1"})):
        with tempfile.TemporaryDirectory() as directory:
            truths = torch_ranks(tools, "full", directory, "graph", "--steps", 12, **more)
            objects = gpu.dump(tools, directory)
        for r in range(2):
            # Parameters tell no rank.
            seen = collectives(objects, pid=truths[r]["pid"], bytes=BYTES, impl="nccl")
            want = PER_STEP * (truths[r]["steps"] + 1)
            check(f"{source} rank {r}: every size", len(seen) == want, f"{len(seen)} of {want}")
            told = {(o["size_from"], o["op"], o["dtype"]) for o in seen}
            check(f"{source} rank {r}: where from", told == {(source, "all_reduce", "bfloat16")}, str(told))
            reductions = {o["reduction"] for o in seen}
            check(f"{source} rank {r}: reduction", reductions <= ({"sum"} if source == "nvtx" else {"sum", None}), str(reductions))


def copy(tools):
    profiled = torch_ranks(tools, None, "", "copy", "--steps", 100, "--profile")[0]
    with tempfile.TemporaryDirectory() as directory:
        torch_ranks(tools, "full", directory, "copy", "--steps", 100)
        objects = gpu.dump(tools, directory)
    seen = [o for o in collectives(objects, rank=0, bytes=BYTES) if o["graph"] is not None]
    check("copy: same count as torch.profiler", len(seen) == profiled["profiled_count"], f"{len(seen)} of {profiled['profiled_count']}")
    known = [o for o in seen if o["overlap_copy_ns"] is not None]
    under = [o for o in known if o["overlap_copy_ns"]]
    have, want = sum(o["overlap_copy_ns"] for o in known) / 1e3 / max(1, len(known)), profiled["profiled_copy_us"]
    # Two runs of a program on two GPUs, one of them under another profiler, are not alike: 0.67 and 0.59 us were seen. check.py has the
    # exact comparison, where all is on one GPU.
    check("copy: overlap against torch.profiler", abs(have - want) <= 0.25 * want, f"{have:.3f} us a kernel, torch.profiler {want:.3f} us")
    alone = [o for o in known if not o["overlap_copy_ns"]]
    if under and alone:
        print(f"     copy: p50 {statistics.median(microseconds(under)):.1f} us under a copy, "
              f"{statistics.median(microseconds(alone)):.1f} us without", flush=True)


def late(tools, args):
    with tempfile.TemporaryDirectory() as directory:
        truths = torch_ranks(tools, "full", directory, "late", "--steps", 12, "--late-us", 80, "--standins", tools.standins,
                                COLLSCOPE_RING_MIB=1)
        keep(args.keep, directory, "late-rank", truths)
        check_all("late (NCCL)", must.late(gpu.dump(tools, directory), 80, "nccl", 3))
    with tempfile.TemporaryDirectory() as directory:
        standin_ranks(tools, gpu.environment(tools, "full", directory), "--steps", "60", "--sync", late_us=80)
        check_all("late (stand-in)", must.late(gpu.dump(tools, directory), 80, "vllm_custom", 3))


def slow_start(tools):
    """Rank 1 launches each step 2 ms late: the first all-reduce of the step waits for it, the others do not."""
    with tempfile.TemporaryDirectory() as directory:
        truths = torch_ranks(tools, "full", directory, "slow-start", "--steps", 50)
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
            truths = torch_ranks(tools, "full", directory, scenario, "--steps", 12)
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
    check_all("stand-in over peer memory", must.standin(objects, truths))


STATES = [("not injected", None), ("off", "off"), ("CUPTI subscriber alone (floor)", "bare:subscribe"), ("sample", "sample"), ("full", "full")]


def overhead(tools, loops):
    """Step times of rank 0. Sample mode is as shipped and runs for longer, to have windows."""
    def one(kind, mode):
        with tempfile.TemporaryDirectory() as directory:
            seconds = 10 if mode == "sample" else 2
            if kind == "stand-in":
                env = gpu.environment(tools, mode, directory)
                # Some 5 ms a step.
                waiting, ahead = (standin_ranks(tools, env, "--steps", 100 * seconds, *sync)[0] for sync in (["--sync"], []))
                return waiting["step_ms_p50"], ahead["step_ms_mean"]
            truths = torch_ranks(tools, mode, directory, kind, "--steps", 150 * seconds, "--both")
            return truths[0]["step_ms_p50"], truths[0]["ahead"]["step_ms_mean"]

    print("\n| loop | state | waiting p50 ms | ahead mean ms | waiting | ahead |\n|---|---|---|---|---|---|")
    for kind in loops:
        base = None
        for name, mode in STATES:
            p50, ahead = one(kind, mode)
            base = base or (p50, ahead)
            print(f"| {kind} | {name} | {p50:.3f} | {ahead:.3f} | {100 * (p50 / base[0] - 1):+.1f} % | {100 * (ahead / base[1] - 1):+.1f} % |",
                  flush=True)


def main():
    parser = gpu.arguments_of(__doc__)
    parser.add_argument("--keep")
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--loops", default="graph,symm-one-shot,stand-in", help="those of --overhead")
    parser.add_argument("--only", help="comma-separated names of scenarios")
    args = parser.parse_args()
    if args.keep:
        pathlib.Path(args.keep).mkdir(parents=True, exist_ok=True)
    tools = gpu.Tools(args.build, gpus=2, modules=["torch"])
    tools.compile()
    steps = {
        "graph": lambda: graph(tools, args, "nccl-graph"),
        "stand-in": lambda: standin(tools, args),
        "late": lambda: late(tools, args),
        "slow start": lambda: slow_start(tools),
        "eager": lambda: eager(tools),
        "other sources": lambda: other_sources(tools),
        "two communicators": lambda: two_comms(tools, args),
        "through host memory": lambda: graph(tools, args, "nccl-host-memory", NCCL_P2P_DISABLE="1"),
        "sweep": lambda: sweep(tools),
        "grouped": lambda: grouped(tools),
        "copy": lambda: copy(tools),
        "symmetric memory": lambda: symmetric(tools),
    }
    if args.overhead:
        steps["overhead"] = lambda: overhead(tools, args.loops.split(","))
    for name, step in steps.items():
        if args.only and name not in args.only.split(","):
            continue
        begin = time.monotonic()
        try:
            step()
        except Exception as error:  # one broken check must not hide the others
            check(f"{name} raised", False, repr(error)[:8000])
        print(f"     {name}: {time.monotonic() - begin:.0f} s", flush=True)
    gpu.finish()


main()

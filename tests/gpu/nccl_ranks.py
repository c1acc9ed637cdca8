#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a tensor-parallel group on real GPUs, with torch.distributed and NCCL. Started once per rank by two_gpus.py with RANK,
WORLD_SIZE, MASTER_ADDR and MASTER_PORT set. Prints one JSON object of truth.

    nccl_ranks.py SCENARIO [--steps N] [--bytes N] [--late-us N] [--slow-start-ms N] [--standins LIBRARY] [--profile]

Scenarios: graph (122 all-reduces a step in a CUDA graph), eager (the same without a graph), sweep (eager, 4 KiB to 64 MiB, three
operations), grouped, two-comms (two communicators on two streams at once), copy (a host-to-device copy beside the first
all-reduces of each step), late (rank 1 holds its stream for a known time before each all-reduce), slow-start (rank 1 launches
each step late), symm-one-shot, symm-two-shot (torch symmetric memory in a CUDA graph).

--profile: the loop runs under torch.profiler, and the truth has the mean duration and overlap that its trace tells.
"""
import argparse
import bisect
import ctypes
import faulthandler
import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist

HIDDEN = 3584


def rank_setup():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    return rank


def timed_loop(replay, steps, sync):
    times = []
    torch.cuda.synchronize()
    dist.barrier()
    begin = time.perf_counter()
    last = begin
    for i in range(steps):
        replay(i)
        if sync or i % 32 == 31:
            torch.cuda.synchronize()
            now = time.perf_counter()
            times.append((now - last) * 1e3 / (1 if sync else 32))
            last = now
    torch.cuda.synchronize()
    return {"step_ms_p50": statistics.median(times) if times else 0.0,
            "step_ms_mean": (time.perf_counter() - begin) * 1e3 / steps}


GRAPHS = []


def make_graph(body):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        body()
    torch.cuda.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        body()
    torch.cuda.synchronize()
    dist.barrier()
    GRAPHS.append(graph)
    return graph


def union(spans):
    merged = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def under(span, merged):
    at = max(0, bisect.bisect([m[0] for m in merged], span[0]) - 1)
    total = 0
    while at < len(merged) and merged[at][0] < span[1]:
        total += max(0, min(span[1], merged[at][1]) - max(span[0], merged[at][0]))
        at += 1
    return total


def profiled(loop):
    """Runs loop under torch.profiler: what NCCL's kernels did by its trace, in us a kernel."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        loop()
        torch.cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profiler.export_chrome_trace(file.name)
        with open(file.name, encoding="utf-8") as trace:
            events = [e for e in json.load(trace)["traceEvents"] if e.get("cat") in ("kernel", "gpu_memcpy")]
    spans = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["name"].startswith("ncclDevKernel") and "bf16" in e["name"]]
    copies = union((e["ts"], e["ts"] + e["dur"]) for e in events if e["cat"] == "gpu_memcpy" and "HtoD" in e["name"])
    return {"profiled_count": len(spans), "profiled_us": sum(e - b for b, e in spans) / max(1, len(spans)),
            "profiled_copy_us": sum(under(s, copies) for s in spans) / max(1, len(spans))}


def event_us(body, repeats):
    """Mean time of body on a busy stream by CUDA events: back to back, so gaps hide behind a first long kernel."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda._sleep(20_000_000)
    begin.record()
    for _ in range(repeats):
        body()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3 / repeats


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=43008)
    parser.add_argument("--layers", type=int, default=61)
    parser.add_argument("--late-us", type=int, default=80)
    parser.add_argument("--slow-start-ms", type=float, default=2)
    parser.add_argument("--standins", help="libstandins.so, for late")
    parser.add_argument("--both", action="store_true", help="time the loop twice: waiting for each step, then running ahead")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    faulthandler.dump_traceback_later(60)
    rank = rank_setup()
    torch.manual_seed(rank)
    x = torch.randn(args.bytes // 2 // HIDDEN, HIDDEN, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(HIDDEN, HIDDEN, device="cuda", dtype=torch.bfloat16) * 0.01
    truth = {"scenario": args.scenario, "rank": rank, "pid": os.getpid(), "bytes": args.bytes, "steps": args.steps}
    count = args.layers * 2

    if args.scenario in ("graph", "eager", "late", "slow-start", "copy"):
        host = torch.empty(16 << 20, dtype=torch.uint8, pin_memory=True)
        target = torch.empty_like(host, device="cuda")
        copies = torch.cuda.Stream()
        standins = ctypes.CDLL(args.standins) if args.scenario == "late" and rank == 1 else None
        sleeps = []

        def body():
            main = torch.cuda.current_stream()
            y = x
            for i in range(count):
                # Not at the start of a step, where ranks wait for each other by chance.
                if args.scenario == "copy" and i == count // 4:
                    copies.wait_stream(main)
                    with torch.cuda.stream(copies):
                        target.copy_(host, non_blocking=True)
                y = torch.tanh((y @ w) @ w)
                if standins:
                    standins.cs_standins_hold(ctypes.c_uint(args.late_us), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
                dist.all_reduce(y)
            if args.scenario == "copy":
                main.wait_stream(copies)
            return y

        graph = make_graph(body) if args.scenario != "eager" else None

        def replay(_):
            if args.scenario == "slow-start" and rank == 1:
                before = time.perf_counter()
                time.sleep(args.slow_start_ms / 1e3)
                sleeps.append((time.perf_counter() - before) * 1e6)
            if graph:
                graph.replay()
            else:
                body()

        if args.profile:
            truth.update(profiled(lambda: timed_loop(replay, args.steps, True)))
        else:
            truth.update(timed_loop(replay, args.steps, True))
        if args.both:
            truth["ahead"] = timed_loop(replay, args.steps, False)
        truth["all_reduce_per_step"] = count
        truth["sleep_us"] = statistics.median(sleeps) if sleeps else 0
        if args.scenario == "graph":
            # 64 MiB: some hundred microseconds each, so that the gaps between launches do not count.
            big = torch.ones(32 << 20, device="cuda", dtype=torch.bfloat16)
            truth["event_bytes"] = 64 << 20
            truth["event_calls"] = 50
            truth["event_us"] = event_us(lambda: dist.all_reduce(big), 50)
    elif args.scenario == "sweep":
        truth["calls"] = []
        size = 4096
        while size <= 64 << 20:
            full = torch.ones(size // 2, device="cuda", dtype=torch.bfloat16)
            part = torch.ones(size // 2 // dist.get_world_size(), device="cuda", dtype=torch.bfloat16)
            for _ in range(10):
                dist.all_reduce(full)
                dist.all_gather_into_tensor(full, part)
                dist.reduce_scatter_tensor(part, full)
            truth["calls"].append([size, 10])
            size *= 4
        torch.cuda.synchronize()
    elif args.scenario == "grouped":
        tensors = [torch.ones(21504, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
        for _ in range(args.steps):
            with dist._coalescing_manager(device=torch.device("cuda", rank)):
                for t in tensors:
                    dist.all_reduce(t)
        torch.cuda.synchronize()
        truth["groups"] = args.steps
    elif args.scenario == "two-comms":
        groups = [dist.new_group(list(range(dist.get_world_size()))) for _ in range(2)]
        streams = [torch.cuda.Stream() for _ in range(2)]
        big = [torch.ones(4 << 20, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
        for i in range(args.steps):
            for k in range(2):
                with torch.cuda.stream(streams[k]):
                    dist.all_reduce(big[k], group=groups[k])
            torch.cuda.synchronize()
            del i
        truth["calls_per_comm"] = args.steps
    elif args.scenario.startswith("symm-"):
        import torch.distributed._symmetric_memory as symm_mem
        name = dist.group.WORLD.group_name
        t = symm_mem.empty(args.bytes // 2 // HIDDEN, HIDDEN, device="cuda", dtype=torch.bfloat16)
        symm_mem.rendezvous(t, name)
        t.copy_(x)
        op = torch.ops.symm_mem.one_shot_all_reduce if args.scenario == "symm-one-shot" else torch.ops.symm_mem.two_shot_all_reduce_

        def body():
            for _ in range(count):
                y = torch.tanh((t @ w) @ w)
                t.copy_(y)
                op(t, "sum", name)

        graph = make_graph(body)
        truth.update(timed_loop(lambda _: graph.replay(), args.steps, True))
        if args.both:
            truth["ahead"] = timed_loop(lambda _: graph.replay(), args.steps, False)
        truth["all_reduce_per_step"] = count
    else:
        parser.error(f"unknown scenario {args.scenario}")
    truth["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    dist.barrier()
    torch.cuda.synchronize()
    print(json.dumps(truth), flush=True)
    # NCCL's destroy waits until no graph holds a collective of the communicator any more.
    for graph in GRAPHS:
        graph.reset()
    dist.destroy_process_group()


main()

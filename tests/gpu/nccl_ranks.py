#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a tensor-parallel group on real GPUs, with torch.distributed and NCCL. Started once per rank by two_gpus.py with RANK,
WORLD_SIZE, MASTER_ADDR and MASTER_PORT set. Prints one JSON object of truth.

    nccl_ranks.py SCENARIO [--steps N] [--bytes N] [--late-us N]

Scenarios: graph (122 all-reduces a step in a CUDA graph), sweep (eager, 4 KiB to 64 MiB, three operations), grouped, two-comms
(two communicators on two streams at once), copy (host-to-device copies under the all-reduces), late (rank 1 spins first),
symm-one-shot, symm-two-shot (torch symmetric memory in a CUDA graph).
"""
import argparse
import json
import os
import statistics
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
    parser.add_argument("--ahead", action="store_true")
    args = parser.parse_args()
    rank = rank_setup()
    torch.manual_seed(rank)
    x = torch.randn(args.bytes // 2 // HIDDEN, HIDDEN, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(HIDDEN, HIDDEN, device="cuda", dtype=torch.bfloat16) * 0.01
    truth = {"scenario": args.scenario, "rank": rank, "pid": os.getpid(), "bytes": args.bytes, "steps": args.steps}
    count = args.layers * 2

    if args.scenario in ("graph", "late", "copy"):
        host = torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True) if args.scenario == "copy" else None
        target = torch.empty_like(host, device="cuda") if host is not None else None
        copies = torch.cuda.Stream()
        cycles = int(args.late_us * 1.98e3) if args.scenario == "late" and rank == 1 else 0

        def body():
            y = x
            for _ in range(count):
                y = torch.tanh((y @ w) @ w)
                if cycles:
                    torch.cuda._sleep(cycles)
                dist.all_reduce(y)
            return y

        graph = make_graph(body)

        def replay(_):
            if host is not None:
                with torch.cuda.stream(copies):
                    target.copy_(host, non_blocking=True)
            graph.replay()

        truth.update(timed_loop(replay, args.steps, not args.ahead))
        truth["all_reduce_per_step"] = count
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
        truth.update(timed_loop(lambda _: graph.replay(), args.steps, not args.ahead))
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

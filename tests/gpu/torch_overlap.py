#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks' all-reduces beside products on a third stream and a copy from the host on a fourth, in one CUDA graph, 100 replays. With
--profile: under torch.profiler; prints, computed here from its trace, the mean time that the first rank's all-reduce overlaps
with products, with copies and with the other rank's all-reduce, and its mean duration, in us. Without: just the program."""
import bisect
import ctypes
import json
import sys
import tempfile

import torch

REPLAYS = 100
ROUNDS = 4

lib = ctypes.CDLL(sys.argv[1])
lib.cs_standins_all_reduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
lib.cs_standins_setup()
lib.cs_standins_spin_us(120)
x = torch.randn(64, 3584, device="cuda", dtype=torch.bfloat16)
w = torch.randn(3584, 3584, device="cuda", dtype=torch.bfloat16) * 0.01
host = torch.empty(3 << 20, dtype=torch.uint8, pin_memory=True)
target = torch.empty_like(host, device="cuda")
first, second, products, copies = (torch.cuda.Stream() for _ in range(4))


def step():
    main = torch.cuda.current_stream()
    for _ in range(ROUNDS):
        for stream in (first, second, products, copies):
            stream.wait_stream(main)
        lib.cs_standins_all_reduce(first.cuda_stream, second.cuda_stream)
        with torch.cuda.stream(products):
            y = x
            for _ in range(3):
                y = torch.tanh(y @ w)
        with torch.cuda.stream(copies):
            target.copy_(host, non_blocking=True)
        for stream in (first, second, products, copies):
            main.wait_stream(stream)


warm = torch.cuda.Stream()
with torch.cuda.stream(warm):
    torch.tanh(x @ w)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
torch.cuda.synchronize()


def replay():
    for _ in range(REPLAYS):
        graph.replay()
        torch.cuda.synchronize()


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


if "--profile" not in sys.argv:
    replay()
    sys.exit()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
    replay()
with tempfile.NamedTemporaryFile(suffix=".json") as file:
    profiler.export_chrome_trace(file.name)
    with open(file.name, encoding="utf-8") as trace:
        events = [e for e in json.load(trace)["traceEvents"] if e.get("cat") in ("kernel", "gpu_memcpy")]
reduces = [e for e in events if "cross_device_reduce" in e["name"]]
stream = min(e["args"]["stream"] for e in reduces)
span = {id(e): (e["ts"], e["ts"] + e["dur"]) for e in events}
mine = [span[id(e)] for e in reduces if e["args"]["stream"] == stream]
others = [union(span[id(e)] for e in reduces if e["args"]["stream"] != stream),
          union(span[id(e)] for e in events if e["cat"] == "kernel" and "cross_device_reduce" not in e["name"]),
          union(span[id(e)] for e in events if e["cat"] == "gpu_memcpy")]
collective, compute, copy = (sum(under(s, merged) for s in mine) / len(mine) for merged in others)
print(json.dumps({"count": len(mine), "duration_us": sum(e - b for b, e in mine) / len(mine), "compute_us": compute, "copy_us": copy,
                  "collective_us": collective}))

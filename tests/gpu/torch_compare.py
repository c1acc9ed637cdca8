#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The stand-in all-reduce inside a torch CUDA graph, 50 replays of 20. With --profile: under torch.profiler, printing how many
and their median duration in us, taken from its own trace; without: just the program, for an injected run."""
import ctypes
import json
import statistics
import sys
import tempfile

import torch

lib = ctypes.CDLL(sys.argv[1])
lib.cs_standins_all_reduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
x = torch.randn(6, 3584, device="cuda", dtype=torch.bfloat16)
w = torch.randn(3584, 3584, device="cuda", dtype=torch.bfloat16) * 0.01
lib.cs_standins_setup()
lib.cs_standins_spin_us(60)
side = torch.cuda.Stream()


def step():
    y = x
    for _ in range(20):
        y = torch.tanh(y @ w)
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        lib.cs_standins_all_reduce(main.cuda_stream, side.cuda_stream)
        main.wait_stream(side)
    return y


warm = torch.cuda.Stream()
with torch.cuda.stream(warm):
    torch.tanh(x @ w)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = step()
torch.cuda.synchronize()


def replay():
    for _ in range(50):
        graph.replay()
    torch.cuda.synchronize()


if "--profile" in sys.argv:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        replay()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profiler.export_chrome_trace(file.name)
        with open(file.name, encoding="utf-8") as trace:
            events = json.load(trace)["traceEvents"]
    durations = [e["dur"] for e in events if e.get("cat") == "kernel" and "cross_device_reduce" in e.get("name", "")]
    print(len(durations), f"{statistics.median(durations):.3f}")
else:
    replay()
    print(float(out.float().abs().mean()))

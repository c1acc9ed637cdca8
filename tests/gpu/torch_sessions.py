#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.profiler beside collscope: waits until collscope has given up CUPTI's subscription (or, not injected, not at all), records ten
sessions, then goes on until collscope has sampled a good deal again. Prints one JSON object: GPU events per session, and what
collscope has seen after the last session: deep windows, kernels, records without valid times, its state and reason.

    torch_sessions.py [COLLSCOPE_COMMAND]
"""
import json
import os
import subprocess
import sys
import time

import torch

command = sys.argv[1] if len(sys.argv) > 1 else None
x = torch.randn(256, 2048, device="cuda", dtype=torch.bfloat16)
w = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) * 0.01
with torch.cuda.stream(torch.cuda.Stream()):
    torch.tanh(x @ w)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x
    for _ in range(50):
        y = torch.tanh(y @ w)


def work(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        graph.replay()
        torch.cuda.synchronize()
        time.sleep(0.03)


def status():
    done = subprocess.run([command, "status", "--json"], capture_output=True, text=True, check=False)
    return next((p for p in json.loads(done.stdout)["processes"] if p["pid"] == os.getpid()), None) if done.stdout else None


def wait_for(good, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        work(1)
        state = status()
        if state is not None and good(state):
            return state
    return status()


result = {"injected": command is not None}
if command:
    # While it learns labels it holds the subscription.
    result["subscribed_before"] = wait_for(lambda p: not p["subscribed"], 60)["subscribed"]
sessions = []
for _ in range(10):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(20):
            graph.replay()
        torch.cuda.synchronize()
    sessions.append(sum(e.device_type == torch.autograd.DeviceType.CUDA for e in profiler.events()))
    work(0.3)
result["gpu_events"] = sessions
if command:
    def bad_times(state):
        return state["records_lost"].get("bad_timestamp", 0)

    # More kernels than it takes to find that their times are bad, and to go dormant for that.
    before = status()
    after = wait_for(lambda p: p["state"] == "dormant" or (p["windows"]["deep"] > before["windows"]["deep"] + 1 and
                                                           p["kernels_seen"] > before["kernels_seen"] + 3000 and
                                                           p["state"] not in ("yielded", "dormant")), 90)
    work(3)
    after = status()
    result.update(state_after=after["state"], reason_after=after["reason"],
                  deep_windows_after=after["windows"]["deep"] - before["windows"]["deep"],
                  kernels_after=after["kernels_seen"] - before["kernels_seen"],
                  bad_times_after=bad_times(after) - bad_times(before))
print(json.dumps(result))

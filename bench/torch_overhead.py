#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same PyTorch loop alone, under torch.profiler the whole time, and under collscope, one after the other, several times: what each makes
of its step times. Prints a Markdown table.

    bench/torch_overhead.py build/dev [--repeats 2]
"""
import collections
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "gpu"))
import gpu  # noqa: E402

STATES = {"alone": (None, False), "torch.profiler, always on": (None, True), "collscope, sample": ("sample", False),
          "collscope, full": ("full", False)}
STEPS = 400


def loop(profiled):
    import torch  # in the measured process only
    x = torch.randn(64, 2048, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) * 0.01
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.tanh(x @ w)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        y = x
        for _ in range(300):
            y = torch.tanh(y @ w)

    def steps():
        times = []
        for _ in range(STEPS):
            before = time.perf_counter()
            graph.replay()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - before) * 1e3)
        begin = time.perf_counter()
        for i in range(STEPS):
            graph.replay()
            if i % 32 == 31:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        return {"waiting": statistics.median(times), "p99": statistics.quantiles(times, n=100)[98],
                "ahead": (time.perf_counter() - begin) * 1e3 / STEPS}

    steps()
    if profiled:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
            result = steps()
    else:
        result = steps()
    print(json.dumps(result))


def main():
    if sys.argv[1:2] == ["--loop"]:
        loop(sys.argv[2] == "profiled")
        return
    parser = gpu.arguments_of(__doc__)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    tools = gpu.Tools(args.build, modules=["torch"])
    results = collections.defaultdict(list)
    for _ in range(args.repeats):
        for name, (mode, profiled) in STATES.items():
            with tempfile.TemporaryDirectory() as directory:
                done = subprocess.run([sys.executable, __file__, "--loop", "profiled" if profiled else "plain"], check=True, text=True,
                                      env=gpu.environment(tools, mode, directory), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
            results[name].append(json.loads(done.stdout.splitlines()[-1]))
    mid = {name: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for name, runs in results.items()}
    print("\n| state | waiting p50 ms | waiting p99 ms | ahead mean ms | waiting | ahead |\n|---|---|---|---|---|---|")
    for name, run in mid.items():
        print(f"| {name} | {run['waiting']:.3f} | {run['p99']:.3f} | {run['ahead']:.3f} | {100 * (run['waiting'] / mid['alone']['waiting'] - 1):+.1f} % "
              f"| {100 * (run['ahead'] / mid['alone']['ahead'] - 1):+.1f} % |", flush=True)


if __name__ == "__main__":
    main()

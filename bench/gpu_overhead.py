#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Step times of the decode-like workload on a real GPU: not injected, bare CUPTI, and every mode; the CPU waiting for each step
and running ahead. All in one run, interleaved, so that the ratios hold whatever the machine does.

    bench/gpu_overhead.py build/dev [--seconds 4] [--repeats 3]

Prints the Markdown table of docs/overhead.md.
"""
import argparse
import collections
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "gpu"))
import gpu  # noqa: E402

STATES = [
    ("not injected", None, {}),
    ("off", "off", {}),
    ("CUPTI subscriber alone (floor)", "bare:subscribe", {}),
    ("sample, 1 % of the time deep", "sample", {"COLLSCOPE_PERIOD_MS": 1000, "COLLSCOPE_WINDOW_MS": 10, "COLLSCOPE_BUDGET": 1}),
    ("CUPTI kernel tracing, empty consumer", "bare:kernel", {}),
    ("full", "full", {}),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kinds", default="ar,gemm")
    args = parser.parse_args()
    tools = gpu.Tools(args.build)
    tools.compile()
    result = collections.defaultdict(list)
    for kind in args.kinds.split(","):
        for _ in range(args.repeats):
            for sync in (True, False):
                for name, mode, more in STATES:
                    with tempfile.TemporaryDirectory() as directory:
                        env = gpu.environment(tools, mode, directory, **more) if mode else gpu.environment(tools, None, "")
                        truth, _ = gpu.workload(tools, env, "--kind", kind, "--seconds", args.seconds,
                                                *(["--sync"] if sync else []))
                        result[kind, sync, name].append(truth)
    for kind in args.kinds.split(","):
        print(f"\n{kind}: {result[kind, True, STATES[0][0]][0]['nodes']} nodes a step\n")
        print("| state | waiting p50 ms | waiting p99 ms | launch p50 ms | ahead mean ms | waiting | ahead |")
        print("|---|---|---|---|---|---|---|")

        def mid(sync, name, key):
            return statistics.median(t[key] for t in result[kind, sync, name])

        for name, _, _ in STATES:
            p50, ahead = mid(True, name, "step_ms_p50"), mid(False, name, "step_ms_mean")
            print(f"| {name} | {p50:.3f} | {mid(True, name, 'step_ms_p99'):.3f} | {mid(True, name, 'launch_ms_p50'):.3f} "
                  f"| {ahead:.3f} | {100 * (p50 / mid(True, STATES[0][0], 'step_ms_p50') - 1):+.1f} % "
                  f"| {100 * (ahead / mid(False, STATES[0][0], 'step_ms_mean') - 1):+.1f} % |")


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Step times of decode-like loops on a real GPU: not injected, bare CUPTI, and every mode; the CPU waiting for each step and running
ahead. All in one run, the states taking turns, so that the ratios hold whatever the machine does.

    bench/gpu_overhead.py build/dev [--device 0] [--seconds 1.5] [--repeats 4] [--loops ar61,gemm10,...] [--beside NAME=LIBRARY] [--json FILE]

A loop is the workload's kind and its number of layers (tests/gpu/workload.cu). --beside: one more state, another profiler that is loaded by
CUDA_INJECTION64_PATH. Prints the Markdown tables of docs/overhead.md and, below each, the bars that it must stay under; exits 1 when one
is not met.
"""
import collections
import json
import pathlib
import re
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "gpu"))
import gpu  # noqa: E402

# Sample mode is as shipped: windows and budget by default. It has to run for long enough to have some.
SAMPLE_SECONDS = 12
# Demand mode leaves CUPTI 30 s after the last graph; this much faster here, while every state's loop warms up: a GPU that has just begun
# is up to 2 % slower.
HASTE = 60
WARM_SECONDS = 1.5
STATES = {
    "not injected": (None, {}),
    "off": ("off", {}),
    "demand": ("demand", {"CS_TEST_HASTE": HASTE}),
    "CUPTI subscriber alone (floor)": ("bare:subscribe", {}),
    "sample": ("sample", {}),
    "CUPTI kernel tracing, empty consumer": ("bare:kernel", {}),
    "full": ("full", {}),
}


def environment_of(tools, name, directory, args):
    if args.beside and name == args.beside[0]:
        return None, dict(gpu.environment(tools, None, ""), CUDA_INJECTION64_PATH=args.beside[1])
    mode, more = STATES[name]
    return mode, gpu.environment(tools, mode, directory, **more) if mode else gpu.environment(tools, None, "")


def one(tools, name, loop, sync, args):
    kind, layers = re.fullmatch(r"([a-z]+)(\d+)", loop).groups()
    seconds = SAMPLE_SECONDS if name == "sample" else args.seconds
    with tempfile.TemporaryDirectory() as directory:
        mode, env = environment_of(tools, name, directory, args)
        truth, _ = gpu.workload(tools, env, "--kind", kind, "--layers", layers, "--device", args.device, "--seconds", seconds,
                                "--warm-seconds", WARM_SECONDS, *(["--sync"] if sync else []))
        if mode and not mode.startswith("bare:"):
            state = gpu.status(tools, directory).get("processes", [{}])
            truth["library"] = state[0] if state else {}
    return truth


class Result:
    """Medians over the repeats."""

    def __init__(self):
        self.runs = collections.defaultdict(list)

    def mid(self, sync, name, key):
        return statistics.median(t[key] for t in self.runs[sync, name])

    def spread(self, sync, name, key):
        values = [t[key] for t in self.runs[sync, name]]
        return (max(values) - min(values)) / statistics.median(values)

    def ratio(self, sync, name, against="not injected"):
        key = "step_ms_p50" if sync else "step_ms_mean"
        return self.mid(sync, name, key) / self.mid(sync, against, key) - 1


def table(loop, result, names):
    nodes = result.runs[True, "not injected"][0]["nodes"]
    print(f"\n{loop}: {nodes} nodes a step\n")
    print("| state | waiting p50 ms | waiting p99 ms | launch p50 ms | ahead mean ms | ahead p99 ms | waiting | ahead |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        print(f"| {name} | {result.mid(True, name, 'step_ms_p50'):.3f} | {result.mid(True, name, 'step_ms_p99'):.3f} "
              f"| {result.mid(True, name, 'launch_ms_p50'):.3f} | {result.mid(False, name, 'step_ms_mean'):.3f} "
              f"| {result.mid(False, name, 'step_ms_p99'):.3f} | {100 * result.ratio(True, name):+.1f} % "
              f"| {100 * result.ratio(False, name):+.1f} % |", flush=True)


def bars(result, names):
    """(what, measured, most, noise) in percent. What the state that is compared with differs by from repeat to repeat is allowed on top: below
    it a difference means nothing. A bare CUPTI subscriber's differs by 3 %, since its cost per launch depends on where the process runs."""
    def noise(sync, against="not injected"):
        return 100 * result.spread(sync, against, "step_ms_p50" if sync else "step_ms_mean")

    for name in ("off", "demand"):
        if name in names:
            for sync in (True, False):
                yield f"{name}, {'waiting' if sync else 'ahead'}", 100 * result.ratio(sync, name), 0.5, noise(sync)
    floor = "CUPTI subscriber alone (floor)"
    if "sample" in names:
        yield "sample, ahead", 100 * result.ratio(False, "sample"), 1.0, noise(False)
    if {"sample", floor} <= set(names):
        yield "sample, waiting, over the floor", 100 * result.ratio(True, "sample", floor), 1.0, noise(True, floor)
    if not {"full", "CUPTI kernel tracing, empty consumer"} <= set(names):
        return
    for sync in (True, False):
        yield (f"full over the empty consumer, {'waiting' if sync else 'ahead'}",
               100 * result.ratio(sync, "full", "CUPTI kernel tracing, empty consumer"), 10.0, noise(sync))


def main():
    parser = gpu.arguments_of(__doc__)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--loops", default="ar61,gemm10,gemm61,gemm300")
    parser.add_argument("--without", default="", help="states to leave out, as the table names them, with ; between")
    parser.add_argument("--beside", metavar="NAME=LIBRARY", type=lambda text: text.split("=", 1), help="another profiler's injection library")
    parser.add_argument("--json", help="every run, into this file")
    args = parser.parse_args()
    tools = gpu.Tools(args.build)
    tools.compile()
    without = args.without.split(";")
    names = [name for name in STATES if name not in without] + ([args.beside[0]] if args.beside else [])
    missed, every = 0, {}
    for loop in args.loops.split(","):
        result = Result()
        for repeat in range(args.repeats):
            for sync in (True, False):
                for name in names:
                    # Long runs need fewer repeats to be steady.
                    if name != "sample" or repeat % 2 == 0:
                        result.runs[sync, name].append(one(tools, name, loop, sync, args))
        table(loop, result, names)
        print()
        for what, have, most, noise in bars(result, names):
            good = have <= most + noise
            missed += not good
            print(f"{'ok  ' if good else 'MISS'} {what}: {have:+.2f} %, at most {most:+.1f} % (repeats differ by {noise:.2f} %)", flush=True)
        every[loop] = [{"state": name, "sync": sync, **run} for (sync, name), runs in result.runs.items() for run in runs]
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if missed else 0)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A long run in full mode, with copies and sets among the graph's nodes: memory of host and GPU stays flat, no invalid times beyond the
edges of windows, nothing lost, the program's output what it must be. Every kernel is seen, but those that ran while tracing rested as CUPTI's
buffers ran short, which is counted and timed.

    tests/gpu/soak.py build/dev [--kernels 100000000 | --seconds N] [--device 0]

Prints a line every ten seconds, then the verdict; exits 1 when a check failed.
"""
import json
import os
import subprocess
import tempfile
import time

import gpu
from gpu import check

MIB = 1 << 20


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def gpu_bytes(device):
    done = subprocess.run(["nvidia-smi", "-i", str(device), "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[0]) * MIB


def check_kernels(state, truth):
    """None is missing unless tracing rested; then no more than the program launched in the time without tracing."""
    total, seen, rests = truth["kernels_total"], state["kernels_seen"], state["tracing_rests"]
    if not rests:
        check("every kernel seen", seen == total, f"{seen} of {total}")
        return
    # Launches come in bursts: the program goes 32 of them ahead, then waits for the GPU.
    off_s = state["trace_ns"]["off"] / 1e9
    most = off_s * total / truth["wall_s"] + 2 * 32 * truth["kernels_per_step"]
    check(f"every kernel seen but in {rests} rests", total - most <= seen <= total,
          f"{seen} of {total}, {100 * (1 - seen / total):.2f} % not; {off_s:.1f} s of {truth['wall_s']:.0f} without tracing")


def main():
    parser = gpu.arguments_of(__doc__)
    parser.add_argument("--kernels", type=int, default=100_000_000)
    parser.add_argument("--seconds", type=float, help="for so long, whatever number of kernels that makes")
    parser.add_argument("--device", type=int, default=0)
    args = parser.parse_args()
    tools = gpu.Tools(args.build)
    tools.compile()
    loop = ["--kind", "tiny", "--layers", "122", "--copies", "--device", str(args.device)]
    plain, _ = gpu.workload(tools, gpu.environment(tools, None, ""), *loop, "--steps", 2000)
    check("alone: output right", plain["output_right"])
    length = ["--seconds", str(args.seconds)] if args.seconds else ["--steps", str(args.kernels // plain["kernels_per_step"] + 1)]
    samples = []
    with tempfile.TemporaryDirectory() as directory:
        env = gpu.environment(tools, "full", directory)
        with open(os.path.join(directory, "truth.out"), "w+", encoding="utf-8") as out:
            process = subprocess.Popen([str(tools.workload), *loop, *length], env=env, stdout=out, stderr=subprocess.PIPE,
                                       text=True)
            while process.poll() is None:
                time.sleep(10)
                state = gpu.status(tools, directory).get("processes", [{}])[0]
                if process.poll() is None and state:
                    samples.append((resident_bytes(process.pid), gpu_bytes(args.device), state["kernels_seen"]))
                    print(f"     {state['kernels_seen'] / 1e6:.0f} million kernels, host {samples[-1][0] / MIB:.0f} MiB, GPU "
                          f"{samples[-1][1] / MIB:.0f} MiB", flush=True)
            out.seek(0)
            truth = json.loads(out.read() or "{}")
        state = gpu.status(tools, directory)["processes"][0]
    check("ended well", process.returncode == 0, process.stderr.read()[-500:])
    check("output right", truth.get("output_right") is True)
    check_kernels(state, truth)
    lost = {cause: count for cause, count in state["records_lost"].items() if count}
    check("nothing lost", not lost, str(lost))
    # Flat from the second sample on: the first may come before all is allocated.
    for index, what in ((0, "host"), (1, "GPU")):
        values = [sample[index] for sample in samples[1:]]
        if values:
            check(f"{what} memory flat", max(values) - min(values) <= 8 * MIB, f"{min(values) / MIB:.0f} to {max(values) / MIB:.0f} MiB")
    step = 100 * (truth.get("step_ms_mean", 0) / plain["step_ms_mean"] - 1)
    print(f"     {truth.get('kernels_total', 0) / 1e6:.1f} million kernels in {truth.get('wall_s', 0):.0f} s")
    print(f"     step {plain['step_ms_mean']:.3f} ms alone, {truth.get('step_ms_mean', 0):.3f} ms in full mode ({step:+.1f} %), "
          f"CPU of the library {state.get('cpu_ns', 0) / 1e9:.1f} s of {truth.get('wall_s', 0):.0f} s")
    gpu.finish()


main()

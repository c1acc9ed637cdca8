#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Somebody's PyTorch program (newcomer_train.py) with and without collscope, by the one environment variable and by `collscope run`: the same
output, the same exit status, nothing on standard error that was not there without it, and in the segments kernels of every rank and, of
two ranks or more, their collectives: NCCL launches none for one rank alone.

    tests/gpu/newcomer.py build/dev
"""
import collections
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

import gpu
from gpu import check

PROGRAM = pathlib.Path(__file__).resolve().parent / "newcomer_train.py"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(env, *prefix):
    done = subprocess.run([*prefix, sys.executable, str(PROGRAM), str(free_port())], env=env, capture_output=True, text=True, check=False,
                          timeout=240)
    # Times, addresses and process ids differ from run to run.
    lines = collections.Counter(re.sub(r"0x[0-9a-f]+|\d+", "N", line) for line in done.stderr.splitlines())
    return done.returncode, done.stdout, lines, done.stderr


def main():
    tools = gpu.Tools(gpu.arguments_of(__doc__).parse_args().build, modules=["torch"])
    plain_env = dict(gpu.environment(tools, None, ""), NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1")
    world, _ = gpu.listed_gpus()
    # Compiled code is cached by the first run; the others find it.
    plain = run(plain_env)
    check("alone", plain[0] == 0, plain[3][-500:] if plain[0] else plain[1].splitlines()[0])
    for how in ("variable", "collscope run"):
        with tempfile.TemporaryDirectory() as directory:
            env = dict(plain_env, COLLSCOPE_DIR=directory, COLLSCOPE_EXPORTER="off")
            prefix = []
            if how == "variable":
                env["CUDA_INJECTION64_PATH"] = str(tools.library)
                env["COLLSCOPE_MODE"] = "full"
            else:
                prefix = [str(tools.command), "run", "--library", str(tools.library), "--mode", "full", "--"]
            beside = run(env, *prefix)
            objects = gpu.dump(tools, directory)
            processes = gpu.status(tools, directory)["processes"]
        check(f"{how}: same exit status and output", beside[:2] == plain[:2], beside[3][-500:] if beside[:2] != plain[:2] else "")
        more = beside[2] - plain[2]
        check(f"{how}: nothing more on standard error", not more, str(list(more)[:3]))
        kernels = sorted(p["kernels_seen"] for p in processes if p["kernels_seen"])
        check(f"{how}: kernels of every rank", len(kernels) == world, f"{kernels} of {world} ranks")
        lost = [p["records_lost"] for p in processes if any(p["records_lost"].values())]
        check(f"{how}: nothing lost", not lost, str(lost))
        seen = collections.Counter((o["rank"], o["graph"] is not None) for o in objects
                                   if o["kind"] == "collective" and o["op"] == "all_reduce" and o["bytes"] is not None)
        if world > 1:
            check(f"{how}: all-reduces of every rank, in graphs and out", set(seen) == {(r, graph) for r in range(world) for graph in (False, True)},
                  str(dict(seen)))
    gpu.finish()


main()

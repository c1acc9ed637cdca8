#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own tools, and JAX's profiler, on a program that is traced by collscope: the program's output and what the tool finds are the same as
without collscope. ncu refuses to start beside any CUDA_INJECTION64_PATH and says so. Prints what collscope says of itself beside each, for the table of docs/coexistence.md. Tools that are not here are skipped.

    tests/gpu/other_tools.py build/dev [--only ncu,...]
"""
import gzip
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import gpu
from gpu import check

# No kernel of it waits for another one: tools that replay or serialise kernels would wait for ever.
LOOP = ["--kind", "gemm", "--layers", "4", "--steps", "20", "--sync"]
SECONDS = 90

TOOLS = {
    "ncu": (["ncu", "--clock-control", "none", "--kernel-name", "regex:decode_normalise", "--launch-count", "3", "--metrics",
             "gpu__time_duration.sum"], r"gpu__time_duration\.sum"),
    "compute-sanitizer": (["compute-sanitizer", "--tool", "memcheck"], r"ERROR SUMMARY: \d+ errors?"),
    "cuda-gdb": (["cuda-gdb", "-batch", "-ex", "set confirm off", "-ex", "run", "--args"], r"exited normally"),
}


def run(command, env):
    """(exit status, the program's JSON, all else)"""
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
    found = re.search(r'\{"kind".*\}', done.stdout)
    return done.returncode, json.loads(found[0]) if found else {}, done.stdout.replace(found[0], "") if found else done.stdout


def told(tools, directory):
    processes = gpu.status(tools, directory).get("processes", [])
    return [f"{p['state']} ({p['reason'] or 'no reason'}), {p['kernels_seen']} kernels" for p in processes] or ["no segment"]


def nvidia_tool(tools, name):
    prefix, finding = TOOLS[name]
    command = [*prefix, str(tools.workload), *LOOP]
    status, truth, text = run(command, gpu.environment(tools, None, ""))
    alone = (status, truth.get("checksum"), re.findall(finding, text))
    check(f"{name}: works alone", bool(truth) and bool(alone[2]), "" if alone[2] else text[-400:])
    for mode in ("sample", "full"):
        with tempfile.TemporaryDirectory() as directory:
            status, truth, text = run(command, gpu.environment(tools, mode, directory))
            state = told(tools, directory)
        if name == "ncu" and "unset CUDA_INJECTION64_PATH" in text:
            check(f"{name}, {mode}: refuses to start and says why", status == 1 and not truth)
            continue
        check(f"{name}, {mode}: program and tool as alone", (status, truth.get("checksum"), re.findall(finding, text)) == alone,
              f"{(status, re.findall(finding, text)[:3])}, alone {(alone[0], alone[2][:3])}")
        for line in state + [line for line in text.splitlines() if "collscope" in line]:
            print(f"     {line}", flush=True)


def jax_events(folder):
    """Kernels of the GPU in one session's trace: what stands in the rows of its streams."""
    (path,) = pathlib.Path(folder).rglob("*.trace.json.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    gpus = {e["pid"] for e in events if e.get("name") == "process_name" and "GPU" in e["args"]["name"]}
    streams = {(e["pid"], e["tid"]) for e in events if e.get("name") == "thread_name" and e["pid"] in gpus and "Stream" in e["args"]["name"]}
    return sum(e.get("ph") == "X" and (e["pid"], e["tid"]) in streams for e in events)


def jax_program(command):
    import jax  # in the measured process only
    import jax.numpy as jnp
    x = jax.random.normal(jax.random.key(0), (256, 2048), dtype=jnp.bfloat16)

    @jax.jit
    def step(x):
        for _ in range(20):
            x = jnp.tanh(x @ jnp.ones((2048, 2048), jnp.bfloat16))
        return x

    def work(seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            step(x).block_until_ready()
            time.sleep(0.02)

    work(1)
    while command and any(p["subscribed"] for p in json.loads(subprocess.run([command, "status", "--json"], capture_output=True, text=True,
                                                                             check=False).stdout or '{"processes": []}')["processes"]):
        work(1)
    counts = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                for _ in range(20):
                    step(x).block_until_ready()
            counts.append(jax_events(folder))
        work(1)
    print(json.dumps(counts))


def jax_tool(tools):
    def one(env, *arguments):
        done = subprocess.run([sys.executable, __file__, "--jax", *arguments], env=dict(env, XLA_PYTHON_CLIENT_PREALLOCATE="false"),
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else done.stderr[-600:]

    alone = one(gpu.environment(tools, None, ""))
    check("jax: works alone", isinstance(alone, list) and min(alone) > 0, str(alone))
    with tempfile.TemporaryDirectory() as directory:
        beside = one(gpu.environment(tools, "sample", directory, COLLSCOPE_PERIOD_MS=1000, COLLSCOPE_BUDGET=1, CS_TEST_HASTE=20),
                     str(tools.command))
        state = told(tools, directory)
    check("jax, sample: as many GPU events in three sessions", beside == alone, f"{beside}, alone {alone}")
    for line in state:
        print(f"     {line}", flush=True)


def main():
    if sys.argv[1:2] == ["--jax"]:
        jax_program(sys.argv[2] if len(sys.argv) > 2 else None)
        return
    parser = gpu.arguments_of(__doc__)
    parser.add_argument("--only", default=",".join([*TOOLS, "jax"]))
    args = parser.parse_args()
    tools = gpu.Tools(args.build)
    tools.compile()
    for name in args.only.split(","):
        if not (importlib.util.find_spec("jax") if name == "jax" else shutil.which(name)):
            print(f"skip {name}: not here", flush=True)
            continue
        try:
            if name == "jax":
                jax_tool(tools)
            else:
                nvidia_tool(tools, name)
        except Exception as error:  # one broken check must not hide the others
            check(f"{name} raised", False, repr(error)[:600])
    gpu.finish()


main()

# SPDX-License-Identifier: Apache-2.0
"""What the GPU checks share: building the workload, running it injected, reading records back."""
import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAILURES = []


def missing(what):
    """Ends with 2: nothing was checked, since something that is needed for it is not here."""
    print(f"{pathlib.Path(sys.argv[0]).name}: {what}", file=sys.stderr)
    sys.exit(2)


def arguments_of(text):
    """A parser whose help is the script's docstring, with the one argument that all of them take."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build/dev", help="folder of the build that is checked (default: %(default)s)")
    return parser


def check(name, good, detail=""):
    """A line of the report; a failure is remembered until finish()."""
    print(f"{'ok  ' if good else 'FAIL'} {name}{': ' + detail if detail else ''}", flush=True)
    if not good:
        FAILURES.append(name)


def finish():
    """The verdict, and the exit status: 1 when a check failed."""
    print(f"{len(FAILURES)} failed" if FAILURES else "all passed")
    sys.exit(1 if FAILURES else 0)


def listed_gpus():
    """How many nvidia-smi lists, and what it said."""
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines()), (done.stdout + done.stderr).strip().splitlines()


def require(gpus=1, modules=()):
    """GPUs as nvidia-smi lists them, and Python modules for the measured programs."""
    if not shutil.which("nvidia-smi"):
        missing("no NVIDIA GPU here (nvidia-smi not found)")
    found, said = listed_gpus()
    if found < gpus:
        missing(f"{gpus} GPUs are needed, nvidia-smi lists {found}" if found else
                f"no NVIDIA GPU here (nvidia-smi: {said[0] if said else 'lists none'})")
    for name in modules:
        if not importlib.util.find_spec(name):
            missing(f"the Python module {name} is needed ({sys.executable} finds none)")


class Tools:
    """Paths of what is under test, and the built workload. Ends with 2 where something is missing that require() names."""

    def __init__(self, build, gpus=1, modules=()):
        require(gpus, modules)
        self.build = pathlib.Path(build).resolve()
        self.library = self.build / "injector" / "libcollscope.so"
        self.command = self.build / "src" / "cli" / "collscope"
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="collscope-gpu-"))
        self.workload = self.work / "workload"
        self.standins = self.work / "libstandins.so"
        self.bare = self.work / "libbare_cupti.so"
        self.layouts = self.work / "layouts"
        self.layouts_before = self.work / "liblayouts_before.so"
        for path in (self.library, self.command):
            if not path.exists():
                missing(f"{path} is missing; build first (scripts/test)")

    def compile(self):
        """Builds the CUDA programs, or takes those of CS_GPU_PREBUILT, a folder."""
        names = [self.workload, self.standins, self.bare, self.layouts, self.layouts_before]
        prebuilt = os.environ.get("CS_GPU_PREBUILT")
        if prebuilt:
            for path in names:
                shutil.copy(pathlib.Path(prebuilt) / path.name, path)
            return
        nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
        if not nvcc:
            missing("nvcc not found, neither in PATH nor in /usr/local/cuda/bin: a CUDA toolkit is needed")
        arch = os.environ.get("CS_GPU_ARCH", "native")
        here = ROOT / "tests" / "gpu"
        base = [nvcc, "-std=c++17", "-O2", f"-arch={arch}"]
        jobs = [
            subprocess.Popen(base + ["-o", str(self.workload), str(here / "workload.cu")]),
            subprocess.Popen(base + ["-shared", "-Xcompiler", "-fPIC", "-o", str(self.standins), str(here / "standins_lib.cu")]),
            subprocess.Popen(base + ["-o", str(self.layouts), str(here / "layouts.cu")]),
            subprocess.Popen(base + ["-shared", "-Xcompiler", "-fPIC", "-o", str(self.layouts_before),
                                     str(here / "layouts_before.cu")]),
        ]
        if any([job.wait() for job in jobs]):
            sys.exit("nvcc failed: what it said is above")
        include = pathlib.Path(nvcc).resolve().parents[1] / "include"
        subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", f"-I{include}",
                        f"-I{include.parent}/extras/CUPTI/include", "-o", str(self.bare),
                        str(ROOT / "bench" / "bare_cupti.c"), "-lpthread", "-ldl"], check=True)


def environment(tools, mode, directory, **more):
    """mode None: not injected; "bare:X": the bare CUPTI library; else a COLLSCOPE_MODE."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("COLLSCOPE_") and k != "CUDA_INJECTION64_PATH"}
    if mode is None:
        return env
    if mode.startswith("bare:"):
        env["CUDA_INJECTION64_PATH"] = str(tools.bare)
        env["BARE_CUPTI"] = mode[5:]
        return env
    env["CUDA_INJECTION64_PATH"] = str(tools.library)
    env["COLLSCOPE_DIR"] = str(directory)
    env["COLLSCOPE_EXPORTER"] = "off"
    env["COLLSCOPE_MODE"] = mode
    env.update({k: str(v) for k, v in more.items()})
    return env


def workload(tools, env, *arguments, timeout=120):
    """Runs the workload to its end; returns (truth, stderr)."""
    done = subprocess.run([str(tools.workload), *map(str, arguments)], env=env, capture_output=True, text=True,
                          timeout=timeout, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"workload failed with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout), done.stderr


def dump(tools, directory):
    """Every object that `collscope dump` prints for the segments in directory."""
    env = dict(os.environ, COLLSCOPE_DIR=str(directory))
    done = subprocess.run([str(tools.command), "dump", "--format", "jsonl"], env=env, capture_output=True, text=True,
                          check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"dump failed with {done.returncode}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def status(tools, directory):
    env = dict(os.environ, COLLSCOPE_DIR=str(directory))
    done = subprocess.run([str(tools.command), "status", "--json"], env=env, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.stdout.strip() else {}


def median(values):
    return statistics.median(values) if values else float("nan")

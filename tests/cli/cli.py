# SPDX-License-Identifier: Apache-2.0
"""What the process tests of the command share: the command, segments to look at, temporary run directories."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

COMMAND = os.environ["CS_COMMAND"]
WRITER = os.environ["CS_WRITER"]
MESSAGE_BYTES = 43008
KERNEL = "_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li2EEEv"


class Writer:
    """A traced process. Ended (its segment stays) or, with hold=1, running until close()."""

    def __init__(self, directory, **options):
        words = [WRITER, directory] + [f"{k}={v}" for k, v in options.items()]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        words = self.process.stdout.readline().split()
        assert words and words[0] == "ready", words
        self.path, self.base_ns = words[1], int(words[2])
        self.requests = []
        if not options.get("hold"):
            self.close()

    def write_more(self):
        """The launches once more; returns when they are in the ring, with the time of the first."""
        self.process.stdin.write("w")
        self.process.stdin.flush()
        word, base_ns = self.process.stdout.readline().split()
        assert word == "wrote"
        return int(base_ns)

    def close(self):
        if self.process.stdin.closed:
            return
        self.process.stdin.close()
        self.requests = [tuple(map(int, line.split()[1:])) for line in self.process.stdout]
        self.process.stdout.close()
        self.process.wait(timeout=20)


class Test(unittest.TestCase):
    """`self.dir` is an empty run directory that the command looks at."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith("COLLSCOPE_") and k not in ("CUDA_INJECTION64_PATH", "NO_COLOR")}
        self.env.update(COLLSCOPE_DIR=self.dir, LC_ALL="C.UTF-8")

    def write(self, **options):
        writer = Writer(self.dir, **options)
        self.addCleanup(writer.close)
        return writer

    def run_command(self, *words, status=0, **more):
        """Runs the command, checks its exit status; gives the finished process."""
        more.setdefault("env", self.env)
        done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL, **more)
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout[-500:]}{done.stderr[-1500:]}")
        return done

    def run_as_another_user(self, *words, status=0):
        """As run_command, for who does not own the segments. Only root can be somebody else."""
        if os.geteuid() != 0:
            self.skipTest("only root can be somebody else")
        folder = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, folder)
        os.chmod(folder, 0o755)
        os.chmod(self.dir, 0o755)
        done = subprocess.run([shutil.copy(COMMAND, folder), *map(str, words)], env=self.env, capture_output=True, text=True, timeout=60,
                              check=False, stdin=subprocess.DEVNULL, cwd="/", user=65534, group=65534, extra_groups=[])
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout[-500:]}{done.stderr[-1500:]}")
        return done

    def dump(self, *words, status=0):
        done = self.run_command("dump", *words, status=status)
        return [json.loads(line) for line in done.stdout.splitlines()]


def of_kind(objects, kind):
    return [o for o in objects if o["kind"] == kind]

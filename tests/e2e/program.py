# SPDX-License-Identifier: Apache-2.0
"""A rank that goes on until it is told to end, so that a test can wait for what it has to."""
import pathlib
import re
import subprocess
import tempfile

from node import FAKES, INJECTOR, clean_environment, scenario_path, wait_for

ENDLESS = 10**7  # steps; a test that fails ends the process long before
END_S = 120  # to leave: a failure, not a speed


class Program:
    """scenario_rank, injected; it follows orders (tests/fakes/scenario/orders.h) unless `steps` says how many to play."""

    def __init__(self, directory, *flags, steps=None, cupti="13", rank=0, scenario="small", **env):
        self.temporary = tempfile.TemporaryDirectory(prefix="collscope-program-")
        self.folder = pathlib.Path(self.temporary.name)
        variables = {"LD_LIBRARY_PATH": f"{FAKES / 'cuda'}:{FAKES / f'cupti{cupti}'}", "COLLSCOPE_DIR": directory,
                     "COLLSCOPE_EXPORTER": "off", "CUDA_INJECTION64_PATH": INJECTOR, **env}
        orders = () if steps else ("--orders",)
        with open(self.folder / "out", "wb") as out, open(self.folder / "err", "wb") as err:
            self.process = subprocess.Popen(
                [str(FAKES / "scenario_rank"), "--rank", str(rank), "--steps", str(steps or ENDLESS), *orders, "--load",
                 f"libcupti.so.{cupti[:2]}", *flags, str(scenario_path(scenario))],
                env=clean_environment(**variables), stdin=subprocess.PIPE, stdout=out, stderr=err)
        self.pid = self.process.pid

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.temporary.cleanup()

    def output(self):
        return (self.folder / "out").read_text()

    def errors(self):
        return (self.folder / "err").read_text()

    def wait_for(self, condition, what):
        """As long as it lives; a failure says what it has said so far."""
        def met():
            if self.process.poll() is not None:
                raise AssertionError(f"it has ended with {self.process.returncode}")
            return condition()
        try:
            return wait_for(met, what)
        except AssertionError as failure:
            raise AssertionError(f"{failure}; the library has said:\n{self.errors()}") from None

    def wait_for_word(self, words):
        """The library has said so."""
        self.wait_for(lambda: words in self.errors(), words)

    def order(self, letter):
        """Returns at which step it was followed."""
        before = self.output().count("at step")
        self.process.stdin.write(letter.encode())
        self.process.stdin.flush()
        return int(self.wait_for(lambda: re.findall(r"at step (\d+)\n", self.output())[before:], f"order {letter}")[0])

    def profile(self):
        return self.order("p")

    def stop_profiler(self):
        """Kernels that it recorded in all sessions, and steps of this one."""
        self.order("s")
        return tuple(map(int, re.findall(r"profiler: (\d+) kernels, \d+ of another clock, (\d+) steps", self.output())[-1]))

    def go_on(self, steps):
        begin = self.order("n")
        wait_for(lambda: self.order("n") >= begin + steps, f"{steps} more steps")

    def kill(self):
        self.process.kill()

    def end(self):
        """Lets it end; (exit status, its output without the answers to orders, its errors)."""
        self.process.stdin.close()
        status = self.process.wait(END_S)
        return status, re.sub(r"at step \d+\n", "", self.output()), self.errors()

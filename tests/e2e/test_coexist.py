#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Beside another tool that traces: the host program lives, whenever the tool comes and whatever collscope does then."""
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

from node import COMMAND, FAKES, INJECTOR, clean_environment, scenario_path, wait_for

HASTE = 30  # the quiet time is one second, a step back two (HACKING.md)
KERNELS_PER_STEP = 25  # of the scenario "small"


class Beside(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="collscope-e2e-")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name) / "run"
        self.directory.mkdir(mode=0o700)

    def start(self, *flags, steps, cupti="13", **env):
        variables = {"LD_LIBRARY_PATH": f"{FAKES / 'cuda'}:{FAKES / f'cupti{cupti}'}", "COLLSCOPE_DIR": self.directory,
                     "COLLSCOPE_MODE": "demand", "COLLSCOPE_EXPORTER": "off", "COLLSCOPE_LOG": "info",
                     "CUDA_INJECTION64_PATH": INJECTOR, "CS_TEST_HASTE": HASTE, **env}
        process = subprocess.Popen([str(FAKES / "scenario_rank"), "--rank", "0", "--steps", str(steps), "--load",
                                    f"libcupti.so.{cupti}", *flags, str(scenario_path("small"))],
                                   env=clean_environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def end(self, process):
        """It has ended well: (what it said, what the library said)."""
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, output + errors)
        return output, errors

    def collscope(self, *words, status=0):
        done = subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False,
                              env=clean_environment(COLLSCOPE_DIR=self.directory))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def status(self):
        return json.loads(self.collscope("status", "--json").stdout)["processes"][0]

    def segments(self):
        return list(self.directory.glob("*.seg"))


class DemandModeLeavesCupti(Beside):
    """cuptiFinalize ends a process in which anybody has traced: at its next graph launch, status 1, "unspecified launch
    failure"."""

    def profiled(self, when, **env):
        """Steps from..to under the profiler, a thousand in all, five seconds; CUPTI could go after one."""
        output, errors = self.end(self.start("--profile", when, steps=1000, **env))
        first, last = map(int, when.split(":"))
        self.assertGreaterEqual(int(re.search(r"profiler: (\d+) kernels", output)[1]), (last - first) * KERNELS_PER_STEP * 0.8)
        return errors

    def test_nobody_traces(self):
        for cupti in ("12", "13"):
            with self.subTest(cupti=cupti):
                _, errors = self.end(self.start(steps=700, cupti=cupti))
                self.assertIn("CUPTI has left", errors)

    def test_traced_before(self):
        errors = self.profiled("20:100")
        self.assertIn("CUPTI stays", errors)
        self.assertIn("CUPTI stays", self.collscope("status").stdout)

    def test_traces_meanwhile(self):
        self.assertIn("CUPTI stays", self.profiled("100:900"))

    def test_traces_after(self):
        self.assertIn("CUPTI has left", self.profiled("600:900"))

    def test_twice(self):
        """It has traced, stopped, and CUPTI's callbacks are its own still."""
        self.assertIn("CUPTI stays", self.profiled("5:10", cupti="12"))

    def test_a_trace_of_ours_before(self):
        process = self.start(steps=1200)
        wait_for(self.segments, "segment")
        self.collscope("trace", "--seconds", "500ms")
        _, errors = self.end(process)
        self.assertIn("CUPTI stays", errors)

    def test_a_trace_of_ours_after(self):
        """CUPTI comes back for it, and the labels are still right."""
        process = self.start(steps=1600)
        wait_for(self.segments, "segment")
        wait_for(lambda: self.status()["state"] == "idle", "labels are learnt")
        self.collscope("trace", "--seconds", "1", "--wait")
        _, errors = self.end(process)
        self.assertIn("CUPTI has left", errors)
        lines = map(json.loads, self.collscope("dump", "--format", "jsonl").stdout.splitlines())
        sizes = [line["bytes"] for line in lines if line["kind"] == "collective"]
        self.assertGreater(len(sizes), 100)
        self.assertEqual(set(sizes), {43008, 14336})


if __name__ == "__main__":
    unittest.main(verbosity=2)

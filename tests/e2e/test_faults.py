#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CUPTI fails at each of its calls in turn, once and for good: the host program ends as if nothing had happened, and the
library says it in a line: at most one for a call that fails once; when everything fails from then on, one for what is
missing and one for giving up."""
import concurrent.futures
import itertools
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from node import COMMAND, clean_environment, wait_for
from program import Program
from test_host import host

STEPS = 2
RESULTS = {"unknown": "999", "not initialised": "15", "invalid operation": "7", "multiple subscribers": "39"}
MODES = ("full", "sample", "demand")
CUPTIS = ("12", "13")
KINDS = {"once": ("CS_FAKE_CUPTI_FAIL", 1), "from then on": ("CS_FAKE_CUPTI_FAIL_FROM", 2)}
# All of them, some 11,000 processes, take five minutes: CS_TEST_EXHAUSTIVE=1. Else each of the 48 combinations fails every 13th call, each
# beginning with another one; a sanitizer makes every process start slow.
STRIDE = 1 if os.environ.get("CS_TEST_EXHAUSTIVE") else 52 if os.environ.get("CS_SANITIZE") else 13
AT_ONCE = 12  # they sleep most of the time


def play(mode, cupti, **env):
    """A run in which everything happens that the library does in its life: it opens windows, gives up its subscription (and
    in demand mode CUPTI) when no graph has come for a while, which CS_TEST_HASTE makes 30 ms."""
    with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as directory:
        env = {"COLLSCOPE_MODE": mode, "COLLSCOPE_PERIOD_MS": "100", "COLLSCOPE_WINDOW_MS": "30", "COLLSCOPE_FLUSH_MS": "20",
               "COLLSCOPE_BUDGET": "1", "CS_TEST_HASTE": "1000", **env}
        return host(directory, "--linger", "0.25", cupti=cupti, steps=STEPS, **env)


class Faults(unittest.TestCase):
    def count_calls(self, mode, cupti):
        with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as directory:
            calls = pathlib.Path(directory) / "calls"
            status, output, errors = play(mode, cupti, CS_FAKE_CUPTI_CALLS=calls)
            self.assertEqual((status, errors), (0, ""))
            return int(calls.read_text()), output

    def every(self, attempts, expected):
        """attempts: (mode, cupti, kind, name of the result, number of the call)."""
        def run(attempt):
            mode, cupti, kind, name, number = attempt
            return attempt, play(mode, cupti, **{KINDS[kind][0]: str(number), "CS_FAKE_CUPTI_FAIL_RESULT": RESULTS[name]})

        with concurrent.futures.ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            for attempt, (status, output, errors) in pool.map(run, attempts):
                with self.subTest(attempt):
                    self.assertEqual((status, output), (0, expected), errors)
                    self.assertLessEqual(len(errors.splitlines()), KINDS[attempt[2]][1], errors)
                    self.assertTrue(all(line.startswith("collscope: ") for line in errors.splitlines()), errors)

    def test_every_combination(self):
        attempts = []
        for mode, cupti in itertools.product(MODES, CUPTIS):
            calls, expected = self.count_calls(mode, cupti)
            for kind, name in itertools.product(KINDS, RESULTS):
                first = 1 + 5 * len(attempts) % STRIDE
                attempts += [(mode, cupti, kind, name, number) for number in range(first, calls + 5, STRIDE)]
        self.every(attempts, expected)

    def test_each_call_fails_once(self):
        calls, expected = self.count_calls("full", "13")
        self.every([("full", "13", "once", "unknown", number) for number in range(1, calls + 1, 1 + STRIDE // 13)], expected)


class Watchdogs(unittest.TestCase):
    """What the library watches in CUPTI's records, and that it stops, for good, and says why."""

    def status(self, directory):
        done = subprocess.run([COMMAND, "status", "--json"], capture_output=True, text=True, check=True,
                              env=clean_environment(COLLSCOPE_DIR=directory))
        segment, = json.loads(done.stdout)["processes"]
        return segment

    def check(self, reason, errors, segment):
        if reason:
            self.assertEqual(len(errors.splitlines()), 1, errors)
            self.assertIn(reason, errors)
            self.assertIn(reason, segment["reason"])
        else:
            self.assertEqual((errors, segment["reason"]), ("", None))

    def watched(self, reason, *flags, **options):
        with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as directory:
            plain = host(directory, *flags, injected=False, **options)[:2]
            status, output, errors = host(directory, *flags, **options)
            self.assertEqual((status, output), plain, errors)
            segment = self.status(directory)
            self.check(reason, errors, segment)
            return segment

    def played(self, reason, *flags, windows, **env):
        """It plays until it has said so, or for so many windows, and on; (STATUS, steps)."""
        with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as directory:
            program = Program(directory, *flags, **env)
            try:
                if reason:
                    program.wait_for_word(reason)
                wait_for(lambda: list(pathlib.Path(directory).glob("*.seg")) and self.status(directory)["windows"]["deep"] >= windows, "windows")
                program.go_on(100)
                status, output, errors = program.end()
            finally:
                program.close()
            self.assertEqual(status, 0, errors)
            self.assertRegex(output, r"\Arank 0: \d+ steps\n\Z")
            segment = self.status(directory)
            self.check(reason, errors, segment)
            return segment, int(output.split()[2])

    def test_times_are_lost(self):
        """From record 500 on all times are 0, as when CUPTI no longer recycles its device buffers."""
        for mode in ("full", "sample"):
            with self.subTest(mode):
                segment, steps = self.played("no valid times", windows=0, CS_FAKE_CUPTI_ZERO_FROM="500", COLLSCOPE_MODE=mode,
                                             COLLSCOPE_PERIOD_MS="100", COLLSCOPE_WINDOW_MS="60", COLLSCOPE_BUDGET="1",
                                             COLLSCOPE_FLUSH_MS="20")
                self.assertGreater(segment["records_lost"]["bad_timestamp"], 500)
                # What came after is not traced any more.
                self.assertLess(segment["kernels_seen"], (steps - 100) * 25)

    def test_a_few_times_are_lost(self):
        """The last 400 of 2900 records: counted, and no reason to stop."""
        segment = self.watched(None, "--linger", "1.2", steps=100, CS_FAKE_CUPTI_ZERO_FROM="2501")
        self.assertEqual(segment["records_lost"]["bad_timestamp"], 400)
        self.assertEqual(segment["kernels_seen"], 2500)

    def test_gpu_memory_grows(self):
        """In windows alone: a CUPTI that leaks. Everywhere: the server's own. Unasked, or under another number: not watched."""
        leak = {"COLLSCOPE_MODE": "sample", "COLLSCOPE_PERIOD_MS": "1000", "COLLSCOPE_WINDOW_MS": "50",
                "COLLSCOPE_BUDGET": "1", "COLLSCOPE_DEVICE_GROWTH_MIB": "8", "CS_FAKE_CUPTI_LEAK_KIB": "1536"}
        rows = [("GPU memory grew by", (), {}), (None, ("--grow=16",), {}), (None, (), {"COLLSCOPE_DEVICE_GROWTH_MIB": "0"}),
                (None, (), {"COLLSCOPE_DEVICE_GROWTH_MIB": "256"}), (None, (), {"CS_FAKE_NVML_PID": "1"}),
                (None, (), {"CS_FAKE_CUPTI_LEAK_KIB": "0"})]
        with concurrent.futures.ThreadPoolExecutor(max_workers=len(rows)) as pool:
            # Eight windows in a row show it, of which the last is not settled; where nothing is to be seen there are more.
            futures = [pool.submit(self.played, reason, *flags, windows=7 if reason else 10, **{**leak, **more})
                       for reason, flags, more in rows]
            for future, (reason, flags, more) in zip(futures, rows):
                with self.subTest(flags=flags, **more):
                    future.result()

    def test_gpu_memory_counts_contexts(self):
        """What CUPTI may take is a cap for each context: four of them."""
        with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as directory:
            self.assertEqual(host(directory, "--contexts=2", "--gpus=1", "--linger", "3", "--exit=_exit")[0], 5)
            self.assertEqual(self.status(directory)["device_memory_bytes"], 4 * 12 << 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CUPTI fails at each of its calls in turn, once and for good: the host program ends as if nothing had happened, and the
library says it in a line: at most one for a call that fails once; when everything fails from then on, one for what is
missing and one for giving up."""
import concurrent.futures
import os
import pathlib
import tempfile
import unittest

from test_host import host

STEPS = 3
STRIDE = 4 if os.environ.get("CS_SANITIZE") else 1  # a sanitizer makes every process start slow
RESULTS = {"unknown": "999", "not initialised": "15", "invalid operation": "7"}


def attempt(number, variable, result, mode, cupti):
    with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as directory:
        env = {variable: str(number), "CS_FAKE_CUPTI_FAIL_RESULT": result, "COLLSCOPE_MODE": mode,
               "COLLSCOPE_PERIOD_MS": "100", "COLLSCOPE_WINDOW_MS": "30", "COLLSCOPE_FLUSH_MS": "20"}
        return number, host(directory, "--linger", "0.2", cupti=cupti, steps=STEPS, **env)


class Faults(unittest.TestCase):
    def count_calls(self, mode, cupti):
        with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as directory:
            calls = pathlib.Path(directory) / "calls"
            status, self.expected, errors = host(
                directory, "--linger", "0.2", cupti=cupti, steps=STEPS, CS_FAKE_CUPTI_CALLS=calls, COLLSCOPE_MODE=mode,
                COLLSCOPE_PERIOD_MS="100", COLLSCOPE_WINDOW_MS="30", COLLSCOPE_FLUSH_MS="20")
            self.assertEqual((status, errors), (0, ""))
            return int(calls.read_text())

    def every(self, numbers, variable, result, mode, cupti="13", lines=1):
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            for number, (status, output, errors) in pool.map(
                    lambda number: attempt(number, variable, result, mode, cupti), numbers):
                with self.subTest(call=number, result=result, mode=mode):
                    self.assertEqual((status, output), (0, self.expected), errors)
                    self.assertLessEqual(len(errors.splitlines()), lines, errors)
                    self.assertTrue(all(line.startswith("collscope: ") for line in errors.splitlines()), errors)

    def test_each_call_fails_once(self):
        calls = self.count_calls("full", "13")
        self.every(range(1, calls + 1, STRIDE), "CS_FAKE_CUPTI_FAIL", "999", "full")

    def test_each_call_and_all_after_it_fail(self):
        for name, result in RESULTS.items():
            with self.subTest(name):
                calls = self.count_calls("sample", "13")
                self.every(range(1, calls + 1, 7 * STRIDE), "CS_FAKE_CUPTI_FAIL_FROM", result, "sample", lines=2)

    def test_each_call_fails_once_on_cupti_12(self):
        calls = self.count_calls("sample", "12")
        self.every(range(1, calls + 1, 5 * STRIDE), "CS_FAKE_CUPTI_FAIL", "999", "sample", "12")


if __name__ == "__main__":
    unittest.main(verbosity=2)

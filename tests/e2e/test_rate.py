#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole library in one process at full rate: many threads launch as fast as they can while others capture, contexts come
and go, signals come, and the library traces, flushes, opens and closes windows. Made for the sanitizers, which end a process
at the first thing that is wrong; without them it is checked that nothing is lost and nothing is different."""
import os
import unittest

from test_matrix import Row

# A sanitizer takes ten times as long.
LAUNCHES = 400 if os.environ.get("CS_SANITIZE") else 4000
THREADS = 8
FAST = {"COLLSCOPE_FLUSH_MS": "10", "COLLSCOPE_PERIOD_MS": "100", "COLLSCOPE_WINDOW_MS": "40", "COLLSCOPE_BUDGET": "1",
        "CS_TEST_HASTE": "1000"}


class Rate(unittest.TestCase):
    def run_one(self, mode, *flags, scenario="small", **options):
        row = Row(f"--threads={THREADS}", f"--launches={LAUNCHES}", *flags, scenario=scenario, plain=False,
                  COLLSCOPE_MODE=mode, **{**FAST, **options})
        code, output = row.injected
        self.assertEqual((code, row.lines), (0, []), row.errors)
        self.assertIn(f"threads: {3 * THREADS * LAUNCHES} launches", output)
        self.assertEqual(row.segment["state"], "exited")
        return row.segment

    def test_full(self):
        for cupti in ("12", "13"):
            with self.subTest(cupti=cupti):
                segment = self.run_one("full", "--contexts=2", "--gpus=2", "--storm", "--linger", "0.5", cupti=cupti)
                self.assertEqual({cause: count for cause, count in segment["records_lost"].items() if count}, {})
                # Four of five launches of a thread are kernels; the rest is the scenario's and the contexts'.
                self.assertEqual(segment["kernels_seen"], 3 * THREADS * LAUNCHES * 4 // 5 + 20 * 25 + 4 * 20 * 4)

    def test_windows(self):
        segment = self.run_one("sample", "--contexts=1", "--gpus=1", "--reset", "--storm", "--linger", "0.5")
        self.assertGreater(segment["windows"]["deep"], 1)

    def test_demand_and_finalize(self):
        self.run_one("demand", "--linger", "0.5")

    def test_many_captures(self):
        """Threads that capture graphs at once, and update them, before those that launch."""
        self.run_one("full", scenario="captures", steps=5)


if __name__ == "__main__":
    unittest.main(verbosity=2)

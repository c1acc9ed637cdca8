#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eager NCCL kernels in sample mode, once the subscription was given up: their sizes come from the plugin's launches and the
records of the launch calls, and none is another's."""
import unittest

from node import NodeTest
from together import run_together

QUIET_S = 1  # 30 s by CS_TEST_HASTE
LATE_S = 4  # the worker looks thirty times a second; a busy machine lets it do so within that
AT_ONCE = 4  # they wait most of the time


class Eager(NodeTest):
    CUPTI = "13"
    ENVIRONMENT = {}

    @classmethod
    def prepare(cls):
        cls.node.play("eager", mode="sample", cupti=cls.CUPTI, flags=("--events", "--linger", "2", "--steps", "1800"), CS_TEST_HASTE=30,
                      COLLSCOPE_BUDGET=1, COLLSCOPE_PERIOD_MS=400, COLLSCOPE_WINDOW_MS=100, **cls.ENVIRONMENT)
        # Two begin at one moment, of different operations; ends are late at the edge of a window.
        events = {(rank["pid"], event["start_ns"], event["op"]): event
                  for rank in cls.node.truth["ranks"] for event in rank["events"]}
        begun = min(start for _, start, _ in events)
        cls.pairs = [(line, events[line["pid"], line["start_ns"], line["op"]]) for line in cls.node.dump("collective")
                     if line["graph"] is None]
        # The last graph is made before the first step.
        cls.late = [pair for pair in cls.pairs if pair[0]["start_ns"] > begun + (QUIET_S + LATE_S) * 10**9]

    def test_no_size_is_anothers(self):
        for line, event in self.pairs:
            if line["bytes"] is not None:
                self.assertEqual((line["bytes"], line["communicator"]), (event["bytes"], event["communicator"]))

    def test_sizes_are_known_after_learning(self):
        self.assertGreater(len(self.late), 100)
        unknown = [line for line, _ in self.late if line["bytes"] is None]
        self.check_unknown(len(unknown) / len(self.late))

    def check_unknown(self, share):
        # What was launched before its window began.
        self.assertLess(share, 0.2)

    def test_host_saw_nothing(self):
        self.assertEqual("".join(self.node.errors()), "")


class EagerCupti12(Eager):
    CUPTI = "12"


class EagerWithDrops(Eager):
    """Kernels' records and calls' records are dropped alike; a call that is missing shifts nobody."""
    ENVIRONMENT = {"CS_FAKE_CUPTI_DROP": 7}

    def check_unknown(self, share):
        self.assertGreater(share, 0.05)
        self.assertLess(share, 0.5)


class EagerWithoutPlugin(Eager):
    """NCCL 2.27 tells of no launch: unknown, with nothing held against it."""
    ENVIRONMENT = {"COLLSCOPE_NCCL": 0}

    def check_unknown(self, share):
        self.assertEqual(share, 1)


def load_tests(loader, _tests, _pattern):
    return run_together(loader, (Eager, EagerCupti12, EagerWithDrops, EagerWithoutPlugin), AT_ONCE)


if __name__ == "__main__":
    unittest.main()

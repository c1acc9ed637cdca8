#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sampling in real processes on the fake driver: what the governor makes of steps whose length and cost are known. Moments are
those of records and of the scenario, so that a busy machine changes none of what is asserted."""
import json
import unittest

from node import LongTest, begin_early, total, wait_for

S = 10**9
MS = 10**6


class Sampled(LongTest):
    SCENARIO = None
    ENVIRONMENT = {}

    @classmethod
    def prepare(cls):
        cls.node.play(cls.SCENARIO, mode="sample", flags=("--linger", "2"), CS_FAKE_CUPTI_EDGES="0", **cls.ENVIRONMENT)
        cls.begin_ns = cls.node.truth["ranks"][0]["begin_ns"]
        cls.windows = sorted((w for w in cls.node.dump("window") if w["depth"] == "deep"), key=lambda w: w["start_ns"])
        cls.collectives = cls.node.dump("collective")
        cls.status = json.loads(cls.node.collscope("status", "--json"))["processes"]


class Budget(Sampled):
    """A window of 100 ms every 500 ms would lose 3 % of step time; 1 % of a minute is 600 ms."""
    SCENARIO = "dear"
    ENVIRONMENT = {"COLLSCOPE_PERIOD_MS": "500", "COLLSCOPE_WINDOW_MS": "100"}

    def test_what_was_lost(self):
        rank = self.node.truth["ranks"][0]
        self.assertGreater(rank["lost_ns"], 0)
        self.assertLessEqual(rank["lost_ns"] - self.overdue() * 900_000, 600 * MS)

    def overdue(self):
        """Collectives, two in each step that lost 1.8 ms, after the time of their window: a worker that does not run ends none."""
        status, = self.status
        late = [(w["start_ns"] + status["window_ns"] + 20 * MS, w["end_ns"]) for w in self.windows]
        return sum(begin <= c["start_ns"] < end for begin, end in late for c in self.collectives)

    def test_the_period_has_grown(self):
        status, = self.status
        self.assertGreater(status["step_ratio_ppm"], 1_000_000)
        self.assertGreaterEqual(status["period_ns"], 1 * S)


class EagerCost(Sampled):
    """Where no graph is launched, the first collective after a pause begins a step: its cost is measured too."""
    SCENARIO = "dear-eager"
    ENVIRONMENT = {"COLLSCOPE_PERIOD_MS": "500", "COLLSCOPE_BUDGET": "0.05"}

    def test_it_is_measured(self):
        status, = self.status
        self.assertGreater(status["step_ratio_ppm"], 1_050_000)
        self.assertLessEqual(self.node.truth["ranks"][0]["lost_ns"], 3 * S)


class QuickStart(Sampled):
    """With the default period of 10 s: numbers of several windows in the first 15 s of traffic."""
    SCENARIO = "long"

    def test_windows_come_soon(self):
        for gpu in (0, 1):
            seen = [c["start_ns"] - self.begin_ns for c in self.collectives if c["gpu"] == gpu]
            moments = {ns // (2 * S) for ns in seen if ns < 15 * S}
            self.assertLess(min(seen), 5 * S)
            self.assertGreaterEqual(len(moments), 3)

    def test_windows_hold_whole_steps(self):
        """Three steps of 0.4 s take a window of 1.6 s; the launches told how long they are. Half of it, and again, where a busy
        machine made traced steps so much longer that a minute does not pay for it."""
        for status in self.status:
            measured = max((status["step_ratio_ppm"] or 0) / 1e6 - 1, 0)
            window_ns = 1600 * MS
            while measured * window_ns > 0.75 * 600 * MS:
                window_ns //= 2
            self.assertEqual(status["window_ns"], window_ns)
        self.assertGreaterEqual(len(self.node.dump("step")), 4)

    def test_the_scrape_has_them(self):
        self.node.start_exporter()
        steps = "collscope_step_duration_seconds_count"
        metrics = wait_for(lambda: (now := self.node.scrape()) and total(now, steps) >= 4 and now, "steps")
        self.assertGreater(total(metrics, "collscope_collective_duration_seconds_count"), 0)


class Eager(Sampled):
    """No launch of a graph tells how long steps are: the records of the windows do."""
    SCENARIO = "long-eager"

    def test_windows_hold_whole_steps(self):
        for status in self.status:
            self.assertGreaterEqual(status["window_ns"], 800 * MS)
        self.assertGreaterEqual(len(self.node.dump("step")), 2)


class Burst(Sampled):
    """Waiting for work is no tracing, and the first of it is seen."""
    SCENARIO = "burst"

    def test_idle_time_is_not_traced_time(self):
        for status in self.status:
            self.assertLess(status["trace_ns"]["deep"], 5 * S)
            self.assertGreater(status["trace_ns"]["off"], 8 * S)

    def test_the_burst_is_seen(self):
        burst_ns = self.begin_ns + 9 * S
        for gpu in (0, 1):
            after = [c["start_ns"] - burst_ns for c in self.collectives if c["gpu"] == gpu and c["start_ns"] >= burst_ns]
            self.assertLess(min(after), 3 * S)


load_tests, setUpModule = begin_early(Budget, EagerCost, QuickStart, Eager, Burst)

if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole path on the fake driver: what the ranks did (their own truth), what /metrics and the command say of it."""
import collections
import threading
import time
import unittest

from node import NodeTest, by, size_label, total, wait_for

KEYS = ("gpu", "rank", "op", "impl", "size")
DURATION = "collscope_collective_duration_seconds"


class Counted:
    """Looks that every fully traced scenario has to stand."""

    def test_every_collective_is_counted(self):
        self.assertEqual(by(self.metrics, DURATION + "_count", *KEYS), self.node.expected("count", *KEYS))

    def test_every_byte_is_counted(self):
        self.assertEqual(by(self.metrics, "collscope_collective_bytes_total", *KEYS),
                         self.node.expected("bytes_total", *KEYS))

    def test_sums_of_time(self):
        expected = self.node.expected("duration_ns", *KEYS)
        found = by(self.metrics, DURATION + "_sum", *KEYS)
        self.assertEqual(set(found), set(expected))
        for key, nanoseconds in expected.items():
            self.assertAlmostEqual(found[key], nanoseconds / 1e9, delta=1e-8)

    def test_every_bucket(self):
        """Not one collective in a bucket other than its own, whatever its phase."""
        found = collections.defaultdict(collections.Counter)
        for labels, value in self.metrics[DURATION + "_bucket"]:
            found[tuple(labels[key] for key in KEYS)][float(labels["le"])] += value
        expected = collections.defaultdict(lambda: [0] * 21)
        for rank in self.node.truth["ranks"]:
            for one in rank["classes"]:
                key = (str(rank["rank"]), str(rank["rank"]), one["op"], one["impl"], size_label(one["bytes"]))
                expected[key] = [a + b for a, b in zip(expected[key], one["buckets"])]
        self.assertEqual(set(found), set(expected))
        for key, buckets in expected.items():
            cumulative = [sum(buckets[:i + 1]) for i in range(21)]
            self.assertEqual([found[key][le] for le in sorted(found[key])], cumulative, key)

    def test_phases_are_right_or_unknown(self):
        keys = (*KEYS, "phase")
        truth = self.node.expected("count", *keys)
        found = by(self.metrics, DURATION + "_count", *keys)
        for key, value in found.items():
            if key[-1] != "unknown":
                self.assertLessEqual(value, truth[key], key)
        known = sum(value for key, value in found.items() if key[-1] != "unknown")
        expected = sum(value for key, value in truth.items() if key[-1] != "unknown")
        self.assertGreaterEqual(known, 0.8 * expected)

    def test_nothing_is_lost(self):
        self.assertEqual(total(self.metrics, "collscope_records_lost_total"), 0)
        self.assertEqual(total(self.metrics, "collscope_collectives_unlabelled_total"), 0)

    def test_host_saw_nothing(self):
        for rank, text in enumerate(self.node.errors()):
            self.assertEqual(text, "")
            self.assertEqual((self.node.output / f"rank-{rank}.out").read_text(),
                             f"rank {rank}: {self.node.truth['ranks'][rank]['steps']} steps\n")


class Small(Counted, NodeTest):
    CUPTI = "13"

    @classmethod
    def prepare(cls):
        cls.node.play("small", cupti=cls.CUPTI, flags=("--events", "--linger", "1"))
        cls.node.start_exporter()
        cls.metrics = cls.scrape_when_counted()

    def test_dump_lines_are_the_events(self):
        expected = sorted((rank["rank"], event["start_ns"], event["end_ns"], event["bytes"], event["impl"], event["op"])
                          for rank in self.node.truth["ranks"] for event in rank["events"])
        lines = self.node.dump("collective")
        found = sorted((line["rank"], line["start_ns"], line["end_ns"], line["bytes"], line["impl"], line["op"])
                       for line in lines)
        self.assertEqual(found, expected)
        pids = {rank["rank"]: rank["pid"] for rank in self.node.truth["ranks"]}
        for line in lines:
            self.assertEqual((line["pid"], line["gpu"]), (pids[line["rank"]], line["rank"]))
            self.assertEqual((line["dtype"], line["size_from"], line["world"]), ("bfloat16", "nccl_profiler", 2))

    def incomplete(self):
        """Steps that the end of a window may have cut: counted as such, in no step family."""
        return total(self.metrics, "collscope_exporter_steps_incomplete_total")

    def test_graph_steps_are_launches(self):
        """Every launch is a step, or is said to be incomplete."""
        launches = sum(one["launches"] for rank in self.node.truth["ranks"] for one in rank["sequences"]
                       if not one["eager"])
        counts = collections.Counter(line["collectives"] for line in self.node.dump("step"))
        self.assertEqual(set(counts), {8, 2})
        self.assertEqual(sum(counts.values()) + self.incomplete(), launches)
        self.assertLessEqual(self.incomplete(), 4)

    def test_overlap_with_the_copy(self):
        expected = sum(one["overlap_ns"]["copy"] for rank in self.node.truth["ranks"] for one in rank["classes"])
        found = total(self.metrics, "collscope_collective_overlap_seconds_total", **{"with": "copy"})
        self.assertGreater(expected, 0)
        launches = sum(rank["steps"] for rank in self.node.truth["ranks"])
        self.assertLessEqual(found, expected / 1e9 * 1.001)
        self.assertGreaterEqual(found, expected / 1e9 * (0.999 - self.incomplete() / launches))

    def test_process_is_known(self):
        pids = {labels["pid"] for labels, _ in self.metrics["collscope_process_info"]}
        self.assertEqual(pids, {str(rank["pid"]) for rank in self.node.truth["ranks"]})


class SmallOnCupti12(Small):
    CUPTI = "12"


class Implementations(Counted, NodeTest):
    """Every implementation by its real mangled name and parameter layout: the size is exact."""

    @classmethod
    def prepare(cls):
        cls.node.play("implementations", flags=("--linger", "1"))
        cls.node.start_exporter()
        cls.metrics = cls.scrape_when_counted()


class NvtxOnly(NodeTest):
    """Without the profiler plugin (NCCL before 2.28, or switched off) the size comes from NCCL's NVTX payload."""

    @classmethod
    def prepare(cls):
        cls.node.play("small", flags=("--linger", "1", "--steps", "20"), COLLSCOPE_NCCL="0")

    def test_labels_come_from_nvtx(self):
        self.assertEqual({rank["nccl_plugin"] for rank in self.node.truth["ranks"]}, {"none"})
        lines = self.node.dump("collective")
        self.assertEqual(len(lines), sum(rank["collectives"] for rank in self.node.truth["ranks"]))
        self.assertEqual({(line["bytes"], line["size_from"], line["reduction"]) for line in lines},
                         {(43008, "nvtx", "sum"), (14336, "nvtx", "sum")})


class LateRank(NodeTest):
    """Rank 3 of 4 comes 80 us late to every collective, GPUs' clocks are up to 50 us apart."""

    @classmethod
    def prepare(cls):
        cls.node.play("late", flags=("--linger", "1"))
        cls.node.start_exporter()
        cls.metrics = cls.scrape_when_counted()

    def test_wait_is_found_in_spite_of_the_clocks(self):
        found = by(self.metrics, "collscope_collective_wait_seconds_sum", "rank")
        counts = by(self.metrics, "collscope_collective_wait_seconds_count", "rank")
        for rank in self.node.truth["ranks"]:
            key = (str(rank["rank"]),)
            expected = sum(one["wait_ns"] for one in rank["classes"]) / sum(one["count"] for one in rank["classes"])
            self.assertGreater(counts[key], 0)
            self.assertAlmostEqual(found[key] / counts[key] * 1e9, expected, delta=3000)

    def test_last_arrival_is_the_late_rank(self):
        arrivals = by(self.metrics, "collscope_collective_last_arrivals_total", "rank")
        self.assertGreater(arrivals[("3",)], 0)
        self.assertEqual(sum(arrivals.values()), arrivals[("3",)])


class TwoServers(NodeTest):
    """Two groups of four on one node: the late rank of one is nobody's trouble in the other."""

    @classmethod
    def prepare(cls):
        cls.node.play("groups", flags=("--linger", "1"))
        cls.node.start_exporter()
        cls.metrics = cls.scrape_when_counted()

    def test_who_came_last(self):
        waits = collections.Counter()
        for labels, value in self.metrics["collscope_collective_wait_seconds_sum"]:
            waits[labels["gpu"]] += value
        truth = {str(rank["rank"]): sum(one["wait_ns"] for one in rank["classes"]) / 1e9
                 for rank in self.node.truth["ranks"]}
        for gpu, expected in truth.items():
            self.assertAlmostEqual(waits[gpu], expected, delta=0.2 * expected + 0.005, msg=gpu)
        arrivals = by(self.metrics, "collscope_collective_last_arrivals_total", "gpu")
        self.assertEqual(sum(arrivals[(str(gpu),)] for gpu in range(4, 8)), arrivals[("6",)])


class VllmV1(Counted, NodeTest):
    """Piecewise graphs and eager kernels: many launches make one step."""

    @classmethod
    def prepare(cls):
        cls.node.play("vllm-v1", flags=("--linger", "1"))
        cls.node.start_exporter()
        cls.metrics = cls.scrape_when_counted()


class VllmV2(Counted, NodeTest):
    @classmethod
    def prepare(cls):
        cls.node.play("vllm-v2", flags=("--linger", "1"))
        cls.node.start_exporter()
        cls.metrics = cls.scrape_when_counted()


class Hang(NodeTest):
    """A rank that hangs before collective 57 of the verify graph, the others inside it: said within a short while."""

    @classmethod
    def prepare(cls):
        cls.node.start_exporter()
        cls.thread = threading.Thread(target=cls.node.play, args=("hang",), kwargs={"flags": ("--linger", "25")})
        cls.thread.start()
        cls.addClassCleanup(cls.thread.join)

    def test_stall_is_said(self):
        stalled = wait_for(lambda: [labels for labels, value in (self.node.scrape() or {}).get(
            "collscope_stalled_collective_seconds", []) if value >= 10], "a stalled collective in /metrics")
        self.assertEqual({(labels["op"], labels["impl"]) for labels in stalled}, {("all_reduce", "nccl")})


class Demand(NodeTest):
    """Labels are learnt at capture, then CUPTI is finalized; asked for, a window still finds every label, and the process
    lives on (a finalize after that would kill it at its next graph launch)."""

    @classmethod
    def prepare(cls):
        cls.thread = threading.Thread(target=cls.node.play, args=("small",),
                                      kwargs={"mode": "demand", "flags": ("--seconds", "45", "--linger", "1")})
        cls.thread.start()
        cls.addClassCleanup(cls.thread.join)

    def test_window_after_finalize(self):
        time.sleep(35)
        self.assertEqual(self.node.dump("collective"), [])
        self.node.collscope("trace", "--seconds", "2", "--all", "--wait")
        self.thread.join()
        self.assertEqual([rank["exit"] for rank in self.node.truth["ranks"]], [0, 0])
        lines = self.node.dump("collective")
        self.assertEqual({line["rank"] for line in lines}, {0, 1})
        self.assertEqual({(line["bytes"], line["impl"], line["size_from"]) for line in lines},
                         {(43008, "nccl", "nccl_profiler"), (14336, "nccl", "nccl_profiler")})


class Sample(NodeTest):
    """Windows: what is recorded is a part of what happened, each record true and labelled."""

    @classmethod
    def prepare(cls):
        cls.node.play("small", mode="sample", flags=("--events", "--linger", "1", "--steps", "600"),
                      COLLSCOPE_PERIOD_MS="500", COLLSCOPE_WINDOW_MS="100", COLLSCOPE_BUDGET="1")

    def test_records_are_events(self):
        events = {(rank["rank"], event["start_ns"], event["end_ns"]): event
                  for rank in self.node.truth["ranks"] for event in rank["events"]}
        lines = self.node.dump("collective")
        self.assertGreater(len(lines), 0)
        self.assertLess(len(lines), len(events))
        for line in lines:
            event = events[(line["gpu"], line["start_ns"], line["end_ns"])]
            self.assertEqual((line["bytes"], line["impl"]), (event["bytes"], event["impl"]))


class Founding(Counted, NodeTest):
    """122 NCCL all-reduces of 42 KiB per verify step on 8 ranks: some 28 ms of the 32 ms step is communication."""

    @classmethod
    def prepare(cls):
        cls.node.play("founding", flags=("--seconds", "3", "--linger", "1"))
        cls.node.start_exporter()
        cls.metrics = cls.scrape_when_counted()

    def test_exposed_time_of_a_verify_step(self):
        exposed = total(self.metrics, "collscope_step_exposed_collective_seconds_sum", phase="verify")
        steps = total(self.metrics, "collscope_step_exposed_collective_seconds_count", phase="verify")
        self.assertGreater(steps, 0)
        verify = [one for rank in self.node.truth["ranks"] for one in rank["classes"] if one["graph"] == "verify"]
        launches = sum(rank["steps"] for rank in self.node.truth["ranks"])
        expected = sum(one["duration_ns"] for one in verify) / launches / 1e9
        self.assertAlmostEqual(exposed / steps, expected, delta=expected * 0.01)
        self.assertGreater(expected, 0.025)

    def test_collectives_of_a_step(self):
        found = total(self.metrics, "collscope_step_collectives_sum", phase="verify")
        steps = total(self.metrics, "collscope_step_collectives_count", phase="verify")
        self.assertEqual(found, 122 * steps)


class FoundingCustom(Counted, NodeTest):
    """The custom all-reduce under contention: its time beside copies has a series of its own."""

    @classmethod
    def prepare(cls):
        cls.node.play("founding-custom", flags=("--seconds", "2", "--linger", "1"))
        cls.node.start_exporter()
        cls.metrics = cls.scrape_when_counted()

    def test_contention_is_its_own_series(self):
        name = "collscope_collective_contended_duration_seconds"
        mean = {with_: total(self.metrics, name + "_sum", **{"with": with_}) /
                max(1, total(self.metrics, name + "_count", **{"with": with_})) for with_ in ("none", "copy")}
        self.assertGreater(mean["copy"], 340e-6)
        self.assertLess(mean["none"], 40e-6)


if __name__ == "__main__":
    unittest.main(verbosity=2)

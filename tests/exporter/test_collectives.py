#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the records of several streams, ranks and processes come to: matching, overlap, implementations, and that none counts twice."""
import re
import time
import unittest

from exporter import AT_ONCE, COPY, COPY_FROM_HOST, COPY_TO_HOST, DEEP, TRACE, US, Case, pick, run_together, wait_for


class Collectives(Case):
    def test_other_nodes(self):
        """Two of four ranks are here: matched, counted as partial, nobody blamed; the communicator's sums are there to compare."""
        begin = time.time_ns() - 20 * 10**9
        for rank, duration in ((0, 100 * US), (1, 140 * US)):
            writer, label = self.rank(rank, 4)
            for i in range(4):
                end = begin + i * 500 * US
                writer.collective(label, end - duration, end, 43008, node=i + 1)
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 8)
        samples = server.samples()
        for rank, duration in ((0, 100 * US), (1, 140 * US)):
            mine = {"gpu": str(rank), "rank": str(rank)}
            self.assertEqual(pick(samples, "collectives_partial_total", **mine), 4)
            self.assertEqual(pick(samples, "collectives_unmatched_total", **mine), 0)
            self.assertAlmostEqual(pick(samples, "communicator_collective_seconds_total", **mine), 4 * duration / 1e9, 12)
        for name in ("collective_wait_seconds_count", "collective_transfer_seconds_count", "collective_last_arrivals_total",
                     "collective_transfer_bytes_total", "collectives_matched_total"):
            self.assertNotIn("collscope_" + name, {n for n, _ in samples})

    def test_copies_by_direction(self):
        """80 us of a copy from the host and 50 us of one to it lie under an all-reduce of 200 us, 30 us of them at once."""
        begin = time.time_ns() - 20 * 10**9
        writer, label = self.rank(0, 2)
        writer.collective(label, begin, begin + 200 * US, 43008)
        writer.busy(COPY, begin + 10 * US, begin + 90 * US, stream=9, flags=COPY_FROM_HOST)
        writer.busy(COPY, begin + 60 * US, begin + 110 * US, stream=10, flags=COPY_TO_HOST)
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 1)
        samples = server.samples()
        for direction, us in (("from_host", 80), ("to_host", 50)):
            self.assertAlmostEqual(pick(samples, "collective_copy_overlap_seconds_total", direction=direction), us / 1e6, 12)
        self.assertAlmostEqual(pick(samples, "collective_overlap_seconds_total", **{"with": "copy"}), 100 / 1e6, 12)
        self.assertEqual(pick(samples, "collective_contended_duration_seconds_count", **{"with": "copy"}), 1)

    def test_collectives_of_two_streams(self):
        """Two communicators' all-reduces run at once for 60 us: a series of its own says how long they took beside each other."""
        begin = time.time_ns() - 20 * 10**9
        writer, label = self.rank(0, 2)
        other = writer.say("communicator", "def", 0, 2)
        second = int(writer.say("label", "all_reduce", "nccl", 43008, 0, 2, other, 0))
        for i in range(3):
            at = begin + i * 1000 * US
            writer.collective(label, at, at + 100 * US, 43008, node=1)
            writer.collective(second, at + 40 * US, at + 240 * US, 43008, node=2, stream=4)
            writer.collective(label, at + 400 * US, at + 430 * US, 43008, node=3)
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 9)
        samples = server.samples()
        self.assertAlmostEqual(pick(samples, "collective_overlap_seconds_total", **{"with": "collective"}), 2 * 3 * 60 / 1e6, 12)
        beside = {"with": "collective", "op": "all_reduce", "size": "65536"}
        self.assertEqual(pick(samples, "collective_contended_duration_seconds_count", **beside), 6)
        self.assertAlmostEqual(pick(samples, "collective_contended_duration_seconds_sum", **beside), 3 * (100 + 200) / 1e6, 12)
        beside["with"] = "none"
        self.assertEqual(pick(samples, "collective_contended_duration_seconds_count", **beside), 3)
        self.assertAlmostEqual(pick(samples, "collective_contended_duration_seconds_sum", **beside), 3 * 30 / 1e6, 12)
        for comm, count in (("0000000000000abc", 6), ("0000000000000def", 3)):
            self.assertEqual(pick(samples, "communicator_collectives_total", comm=comm), count)

    def test_another_implementation(self):
        """NCCL, vLLM's own and NCCL again at one size, on a rank that is not the first: each switch has a line, what alternates has not,
        and neither has another element type or a size that nobody knows."""
        writer = self.writer()
        writer.say("gpu", 3)
        writer.say("rank", 3, 8)
        nccl, own, half, large, unsized = (int(writer.say("label", "all_reduce", impl, size, 3, 8, 0, 0, dtype)) for impl, size, dtype in (
            ("nccl", 43008, "bfloat16"), ("vllm_custom", 43008, "bfloat16"), ("vllm_custom", 43008, "float16"),
            ("vllm_custom", 8 << 20, "bfloat16"), ("vllm_custom", "unknown", "bfloat16")))
        begin = time.time_ns() - 100 * 10**9

        def ran(label, seconds, size=43008):
            start = begin + round(seconds * 10**9)
            writer.collective(label, start, start + 50 * US, size)

        for i in range(3):
            ran(nccl, i)
        ran(half, 3)
        ran(large, 4, 8 << 20)
        ran(unsized, 5, 2**64 - 1)
        ran(own, 10)
        ran(own, 11)
        ran(nccl, 20)
        for i in range(1, 51):
            ran(own if i % 2 else nccl, 20 + i / 100)
        ran(own, 25)
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 60)
        found = re.findall(r"Another implementation .*?op=(\w+) size=(\d+) dtype=(\w+) phase=\w+ now=(\w+) before=(\w+) changes=(\d+) "
                           r"gpu=(\d+) rank=(\d+) pid=(\d+)", server.output())
        same = ("all_reduce", "65536", "bfloat16")
        who = ("3", "3", str(writer.process.pid))
        self.assertEqual(found, [(*same, "vllm_custom", "nccl", "1", *who), (*same, "nccl", "vllm_custom", "1", *who),
                                 (*same, "vllm_custom", "nccl", "51", *who)])

    def test_counters_move_on(self):
        """Counted once, whatever is added while the exporter runs, and the reader's losses are there too."""
        writer, label = self.rank(0, 1)
        server = self.exporter()
        now = time.time_ns() - 60 * 10**9
        writer.collective(label, now, now + 50 * US, 43008)
        writer.say("repeat", 499, 100 * US)
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 500)
        writer.say("repeat", 500, 100 * US)
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 1000)
        writer.say("repeat", 5000, 100 * US)  # more than the ring holds, at once
        wait_for(lambda: pick(server.samples(), "records_total", kind="collective") == 6000)
        wait_for(lambda: pick(s := server.samples(), "collective_duration_seconds_count")
                 + pick(s, "records_lost_total", cause="ring_overrun") == 6000)

    def test_restart_of_the_exporter(self):
        """The ring is read and counted again, as much as it holds; what the process counts by itself goes on."""
        writer, label = self.rank(0, 1)
        writer.say("status", TRACE + DEEP, 1_250_000_000)
        now = time.time_ns() - 60 * 10**9
        writer.collective(label, now, now + 50 * US, 43008)
        server = self.exporter()
        for more, total in ((610, 611), (600, 1211)):  # of 1024 places
            writer.say("repeat", more, 100 * US)
            wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == total)
            again = total if total <= 1024 else 1024
            server.stop()
            server = self.exporter()
            wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == again)
            samples = server.samples()
            self.assertEqual(pick(samples, "records_total", kind="collective"), total)
            self.assertEqual(pick(samples, "trace_seconds_total", depth="deep"), 1.25)
            self.assertEqual(pick(samples, "records_lost_total"), 0)

    def test_backlogs_of_different_length(self):
        """Two processes, each with more records than one read takes: those of the last second of one, of ten minutes of the other."""
        begins = (600, 100_000 * US), (1, 90 * US)
        for gpu, (seconds, period) in enumerate(begins):
            writer = self.writer(16384)
            writer.say("gpu", gpu)
            label = int(writer.say("label", "all_reduce", "nccl", 43008, 0, 1, 0, 0))
            start = time.time_ns() - seconds * 10**9
            writer.collective(label, start, start + 50 * US, 43008)
            writer.say("repeat", 5999, period)
        server = self.exporter()
        wait_for(lambda: sum(pick(server.samples(), "collective_duration_seconds_count", gpu=str(gpu)) for gpu in range(2)) == 12000)
        self.assertEqual(pick(server.samples(), "exporter_observations_dropped_total"), 0)

    def test_limit(self):
        """Room for 100 time series: the rest is folded and counted; nothing is lost."""
        writer, _ = self.rank(0, 1)
        now = time.time_ns() - 10 * 10**9
        for i in range(30):
            label = int(writer.say("label", "all_reduce", "nccl", 2**i, 0, 1, 1, 0))
            writer.collective(label, now + i * 1000 * US, now + i * 1000 * US + 50 * US, 2**i, correlation=i + 1)
        server = self.exporter("--collscope.max-series=100")
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 30)
        samples = server.samples()
        self.assertLessEqual(pick(samples, "exporter_series"), 100)
        self.assertGreater(pick(samples, "exporter_folded_total"), 0)
        self.assertGreater(pick(samples, "collective_duration_seconds_count", size="other", rank="other"), 0)


def load_tests(loader, _tests, _pattern):
    return run_together(loader, (Collectives,), AT_ONCE)


if __name__ == "__main__":
    unittest.main()

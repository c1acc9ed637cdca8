#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole path on the fake driver: what the ranks did (their own truth), what /metrics and the command say of it."""
import collections
import concurrent.futures
import json
import re
import time
import unittest

from node import LongTest, NodeTest, begin_early, by, size_label, total

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
        self.assertEqual({key: value for key, value in by(self.metrics, "collscope_records_lost_total", "rank", "cause").items() if value}, {})
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

    def rows_of_the_truth(self):
        """{(op, impl, bytes, phase): durations of its events, sorted}. Until the graphs' signatures are known, and where a window cuts
        a step, the phase is unknown, as the dump says of the same collective; else it has to be the true one."""
        said = {(line["rank"], line["start_ns"]): line["phase"] for line in self.node.dump("collective")}
        durations = collections.defaultdict(list)
        unknown = 0
        for rank in self.node.truth["ranks"]:
            for event in rank["events"]:
                phase = said[rank["rank"], event["start_ns"]]
                self.assertIn(phase, (event["phase"], "unknown"))
                unknown += phase == "unknown"
                durations[event["op"], event["impl"], event["bytes"], phase].append(event["end_ns"] - event["start_ns"])
        self.assertLess(unknown, sum(map(len, durations.values())) / 10)
        return {key: sorted(values) for key, values in durations.items()}

    @staticmethod
    def nearest_rank(values, percent):
        return values[(len(values) * percent + 99) // 100 - 1]

    def test_status_has_the_columns_of_the_truth(self):
        status = json.loads(self.node.collscope("status", "--collectives", "--json"))
        found = {(row["op"], row["impl"], row["bytes"], row["phase"]):
                 (row["dtype"], row["count"], row["p50_ns"], row["p99_ns"], row["sum_ns"]) for row in status["collectives"]}
        truth = self.rows_of_the_truth()
        self.assertEqual(found, {key: ("bfloat16", len(values), self.nearest_rank(values, 50), self.nearest_rank(values, 99), sum(values))
                                 for key, values in truth.items()})
        # Traced: from each rank's first collective on, to the end of its windows at the latest.
        spans = [(min(event["start_ns"] for event in rank["events"]), max(event["end_ns"] for event in rank["events"]))
                 for rank in self.node.truth["ranks"]]
        self.assertGreaterEqual(status["traced_ns"], sum(end - start for start, end in spans))
        self.assertLessEqual(status["traced_ns"], sum(time.time_ns() - start for start, _ in spans))
        for row in status["collectives"]:
            self.assertAlmostEqual(row["gpu_time_share"], row["sum_ns"] / status["traced_ns"], places=5)

    def test_status_prints_them(self):
        rows = [re.split(r" {2,}", line.strip()) for line in self.node.collscope("status", "--collectives").splitlines() if line]
        (at,) = [i for i, row in enumerate(rows) if row[0] == "OP"]
        self.assertEqual(rows[at], ["OP", "IMPL", "SIZE", "DTYPE", "PHASE", "COUNT", "P50", "P99", "MEAN WAIT", "BUS BW", "GPU TIME",
                                    "ALGORITHM"])
        truth = self.rows_of_the_truth()
        unit_ns = {"ns": 1, "us": 1000, "ms": 10**6}
        printed = rows[at + 1:at + 1 + len(truth)]
        self.assertEqual({(row[0], row[1], row[2], row[4]) for row in printed},
                         {(op, impl, f"{size // 1024} KiB", phase) for op, impl, size, phase in truth})
        for row in printed:
            (values,) = [v for (op, impl, size, phase), v in truth.items() if (op, impl, f"{size // 1024} KiB", phase) == (*row[:3], row[4])]
            self.assertEqual((row[3], row[5]), ("bfloat16", str(len(values))))
            for cell, percent in ((row[6], 50), (row[7], 99)):
                number, unit = cell.split()
                last_digit = 10 ** -len(number.partition(".")[2])
                self.assertAlmostEqual(float(number), self.nearest_rank(values, percent) / unit_ns[unit], delta=0.51 * last_digit)
            self.assertRegex(row[10], r"^\d+\.\d %$")
        rows = json.loads(self.node.collscope("status", "--collectives", "--json"))["collectives"]
        share = 100 * sum(row["matched"] for row in rows) / sum(map(len, truth.values()))
        self.assertGreater(share, 80)
        self.assertIn(f"MEAN WAIT, BUS BW: from the {share:.1f} % of the collectives that were seen on every rank.",
                      self.node.collscope("status", "--collectives"))
        # by falling time
        times = [float(row[10].split()[0]) for row in printed]
        self.assertEqual(times, sorted(times, reverse=True))

    def test_steps_are_those_of_the_truth(self):
        """Which steps there are is the dump's to say; what was in them is the truth's."""
        steps = collections.defaultdict(list)
        for line in self.node.dump("step"):
            steps[line["phase"]].append(line)
        status = json.loads(self.node.collscope("status", "--collectives", "--json"))
        self.assertEqual({row["phase"] for row in status["steps"]}, set(steps))
        events = {rank["rank"]: rank["events"] for rank in self.node.truth["ranks"]}
        for row in status["steps"]:
            lines = steps[row["phase"]]
            within = [[event for event in events[line["rank"]] if line["start_ns"] <= event["start_ns"] < line["end_ns"]]
                      for line in lines]
            durations = sorted(line["end_ns"] - line["start_ns"] for line in lines)
            spent_ns = sum(event["end_ns"] - event["start_ns"] for step in within for event in step)  # one stream: none overlap
            self.assertEqual((row["count"], row["sum_ns"], row["p50_ns"], row["p99_ns"]),
                             (len(lines), sum(durations), self.nearest_rank(durations, 50), self.nearest_rank(durations, 99)))
            self.assertAlmostEqual(row["collectives"], sum(map(len, within)) / len(lines), places=4)
            self.assertEqual(row["mean_collective_ns"], spent_ns // len(lines))
            if row["phase"] == "draft":
                self.assertEqual((row["collectives"], row["mean_exposed_ns"]), (2, spent_ns // len(lines)))
                self.assertAlmostEqual(row["exposed_share"], spent_ns / sum(durations), places=5)
        (verify,) = [row for row in status["steps"] if row["phase"] == "verify"]
        classes = [one for rank in self.node.truth["ranks"] for one in rank["classes"] if one["graph"] == "verify"]
        exposed_ns = sum(one["duration_ns"] - one["overlap_ns"]["copy"] for one in classes)
        launches = sum(rank["steps"] for rank in self.node.truth["ranks"])
        self.assertEqual(verify["collectives"], 8)
        self.assertAlmostEqual(verify["mean_exposed_ns"], exposed_ns / launches, delta=0.01 * exposed_ns / launches)
        rows = [re.split(r" {2,}", line.strip()) for line in self.node.collscope("status", "--collectives").splitlines() if line]
        (at,) = [i for i, row in enumerate(rows) if row[0] == "PHASE"]
        self.assertEqual(rows[at], ["PHASE", "STEPS", "P50", "P99", "COLLECTIVES", "IN COLLECTIVES", "EXPOSED", "EXPOSED %"])
        printed = {row[0]: row for row in rows[at + 1:at + 1 + len(steps)]}
        self.assertEqual(list(printed), [row["phase"] for row in status["steps"]])
        self.assertEqual((printed["verify"][1], printed["verify"][4], printed["verify"][7]),
                         (str(verify["count"]), "8", f"{100 * verify['exposed_share']:.1f} %"))

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


class Captures(Counted, NodeTest):
    """Graphs captured on several threads at once, and executables updated from a second capture: every size is the one of the
    graph that runs."""

    @classmethod
    def prepare(cls):
        cls.node.play("captures", flags=("--linger", "1"))
        cls.node.start_exporter()
        cls.metrics = cls.scrape_when_counted()


class CapturesOnCupti12(NodeTest):
    """No event tells what an update changed: what was updated is unknown, never of the first capture's size."""
    UPDATED = {"nccl": 720896, "vllm_custom": 1376256}

    @classmethod
    def prepare(cls):
        cls.node.play("captures", cupti="12", flags=("--linger", "1"))

    def test_right_or_unknown(self):
        expected = collections.Counter()
        for (impl, size), count in ((((one["impl"], one["bytes"])), one["count"])
                                    for rank in self.node.truth["ranks"] for one in rank["classes"]):
            expected[impl, None if self.UPDATED.get(impl) == size else size] += count
        found = collections.Counter((line["impl"], line["bytes"]) for line in self.node.dump("collective"))
        self.assertEqual(found, expected)


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


class TensorrtLlm(Counted, NodeTest):
    """Target and drafts in one graph: each launch is two steps."""
    SIZES = {"43008": "verify", "32768": "verify", "14336": "draft", "8192": "draft"}

    @classmethod
    def prepare(cls):
        cls.node.play("trtllm", flags=("--linger", "1"))
        cls.node.start_exporter()
        cls.metrics = cls.scrape_when_counted()

    def test_phases_are_right_or_unknown(self):
        """By position in the graph; the truth knows the graph alone. Unknown before it has come eight times."""
        found = by(self.metrics, DURATION + "_count", "size", "phase")
        phases = {size_label(int(size)): phase for size, phase in self.SIZES.items()}
        self.assertLessEqual({phase for _, phase in found}, {"verify", "draft", "unknown"})
        for (size, phase), _ in found.items():
            self.assertIn(phase, (phases[size], "unknown"), size)
        known = sum(value for (_, phase), value in found.items() if phase != "unknown")
        self.assertGreaterEqual(known, 0.8 * sum(found.values()))

    def test_two_steps_a_launch(self):
        counts = collections.Counter((line["phase"], line["collectives"]) for line in self.node.dump("step")
                                     if line["phase"] != "unknown")
        self.assertEqual(set(counts), {("verify", 81), ("draft", 9)})
        self.assertLessEqual(abs(counts[("verify", 81)] - counts[("draft", 9)]), 2)
        self.assertGreater(counts[("draft", 9)], 150)


class LateRank(NodeTest):
    """Rank 3 of 8 comes 80 us late to every collective, GPUs' clocks are up to 50 us apart."""

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

    def test_transfer_within_the_stated_uncertainty(self):
        ranks = self.node.truth["ranks"]
        expected = sum(one["duration_ns"] - one["wait_ns"] for rank in ranks for one in rank["classes"]) / \
            sum(one["count"] for rank in ranks for one in rank["classes"])
        found = total(self.metrics, "collscope_collective_transfer_seconds_sum") / \
            total(self.metrics, "collscope_collective_transfer_seconds_count")
        stated = {labels["gpu"]: value for labels, value in self.metrics["collscope_clock_uncertainty_seconds"]}
        self.assertEqual(len(stated), len(ranks))
        # Waits and transfers are differences on one clock each: right to what the ends jitter by, which is what is stated.
        self.assertAlmostEqual(found * 1e9, expected, delta=max(max(stated.values()) * 1e9, 100))
        self.assertLess(max(stated.values()), 10e-6)

    def test_bandwidth(self):
        sums = [total(self.metrics, f"collscope_collective_transfer_{name}_total") for name in ("bytes", "bus_bytes")]
        count = total(self.metrics, "collscope_collective_transfer_seconds_count")
        self.assertEqual(sums, [count * 43008, count * 43008 * 2 * 7 / 8])

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


class Vllm(Counted):
    """What the steps are, all of them: phase, collectives, launches."""

    def passes(self):
        return collections.Counter((line["phase"], line["collectives"], line["launches"]) for line in self.node.dump("step"))

    def iterations(self):
        return sum(rank["steps"] for rank in self.node.truth["ranks"])


class VllmV1(Vllm, NodeTest):
    """A target with its logits' gather behind it; the drafter's two passes of two piecewise graphs each."""

    @classmethod
    def prepare(cls):
        cls.node.play("vllm-v1", flags=("--linger", "1"))
        cls.node.start_exporter()
        cls.metrics = cls.scrape_when_counted()

    def test_three_passes_an_iteration(self):
        count = self.iterations()
        self.assertEqual(self.passes(), {("verify", 82, 1): count, ("draft_extend", 3, 2): count, ("draft", 3, 2): count})


class VllmV2(Vllm, NodeTest):
    @classmethod
    def prepare(cls):
        cls.node.play("vllm-v2", flags=("--linger", "1"))
        cls.node.start_exporter()
        cls.metrics = cls.scrape_when_counted()

    def test_three_passes_an_iteration(self):
        """The draft's prefill has no marker of its own: it is told by the graphs' signature, from its first launch on."""
        count = self.iterations()
        self.assertEqual(self.passes(), {("verify", 81, 1): count, ("draft_extend", 3, 1): count, ("draft", 6, 1): count})


class Rules(NodeTest):
    """The user's rules: by marker kernel, tokens and collectives, bytes and launches; the same in the command and the exporter."""
    TEXT = """hidden 7168
draft_extend after=_prepare_prefill*   # no marker of ours
prefill tokens=3 collectives=80..      # 43,008 bytes of bfloat16
decode bytes=..14K launches=1 before=_combine*
verify bytes=..14K                     # the last one: nothing comes after it
"""

    @classmethod
    def prepare(cls):
        cls.node.play("vllm-v2", flags=("--linger", "1"))
        cls.rules = cls.node.output / "rules"
        cls.rules.write_text(cls.TEXT)
        cls.node.start_exporter(f"--collscope.steps={cls.rules}")
        cls.metrics = cls.scrape_when_counted()
        cls.count = sum(rank["steps"] for rank in cls.node.truth["ranks"])

    def test_dump(self):
        text = self.node.collscope("dump", "--format", "jsonl", "--steps", str(self.rules), "--kind", "step")
        found = collections.Counter((line["phase"], line["phase_rule"], line["phase_line"], line["collectives"])
                                    for line in map(json.loads, text.splitlines()))
        ranks = len(self.node.truth["ranks"])
        self.assertEqual(found, {("prefill", "user", 3, 81): self.count, ("draft_extend", "user", 2, 3): self.count,
                                 ("decode", "user", 4, 6): self.count - ranks, ("verify", "user", 5, 6): ranks})

    def test_text(self):
        text = self.node.collscope("dump", "--format", "text", "--steps", str(self.rules), "--kind", "step")
        self.assertEqual(len(re.findall(r"phase=prefill by=user:3 ", text)), self.count)
        text = self.node.collscope("dump", "--format", "text", "--kind", "step")
        self.assertEqual(len(re.findall(r"phase=verify by=marker:_rejection_kernel ", text)), self.count)

    def test_exporter(self):
        ranks = len(self.node.truth["ranks"])
        self.assertEqual(by(self.metrics, DURATION + "_count", "phase"),
                         {("prefill",): 81 * self.count, ("draft_extend",): 3 * self.count,
                          ("decode",): 6 * (self.count - ranks), ("verify",): 6 * ranks})


class Demand(LongTest):
    """Labels are learnt at capture, then CUPTI is finalized; asked for, a window still finds every label, and the process
    lives on (a finalize after that would kill it at its next graph launch)."""

    @classmethod
    def prepare(cls):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            playing = pool.submit(cls.node.play, "small", mode="demand", flags=("--seconds", "45", "--linger", "1"))
            time.sleep(35)
            cls.before = cls.node.dump("collective")
            cls.node.collscope("trace", "--seconds", "2", "--all", "--wait")
            playing.result()

    def test_window_after_finalize(self):
        self.assertEqual(self.before, [])
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


class SampleBusy(LongTest):
    """GPUs that work two thirds of the time: windows open and close over running kernels, whose records CUPTI damages, one at
    least in each. None of those comes out."""

    @classmethod
    def prepare(cls):
        cls.node.play("verify", mode="sample", flags=("--events", "--linger", "1"),
                      COLLSCOPE_PERIOD_MS="500", COLLSCOPE_WINDOW_MS="100", COLLSCOPE_BUDGET="1", CS_FAKE_CUPTI_EDGES="2")

    test_records_are_events = Sample.test_records_are_events

    def test_damage_was_there(self):
        processes = json.loads(self.node.collscope("status", "--json"))["processes"]
        self.assertGreater(sum(process["records_lost"]["bad_timestamp"] for process in processes), 10)


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

    def test_status_says_the_headline(self):
        """122 all-reduces a verify step, and how much of it they are."""
        (verify,) = [row for row in json.loads(self.node.collscope("status", "--collectives", "--json"))["steps"]
                     if row["phase"] == "verify"]
        truth = [one for rank in self.node.truth["ranks"] for one in rank["classes"] if one["graph"] == "verify"]
        spent_ns = sum(one["duration_ns"] for one in truth) / sum(rank["steps"] for rank in self.node.truth["ranks"])
        self.assertEqual(verify["collectives"], 122)
        self.assertAlmostEqual(verify["mean_exposed_ns"], spent_ns, delta=spent_ns * 0.01)
        self.assertAlmostEqual(verify["exposed_share"], spent_ns * verify["count"] / verify["sum_ns"], delta=0.01)

    def test_phases_by_sglangs_markers(self):
        """build_tree ends a draft and begins a verify, the verify kernel begins a draft-extend."""
        rules = collections.Counter((line["phase"], line["phase_rule"], line["collectives"])
                                    for line in self.node.dump("step"))
        marked = {key[::2] for key in rules if key[1] == "marker"}
        self.assertEqual(marked, {("draft", 4), ("verify", 122), ("draft_extend", 2)})
        # Beside a window's edge there may be no marker; what was captured tells all of these.
        self.assertGreaterEqual(sum(n for key, n in rules.items() if key[1] == "marker"), 0.9 * sum(rules.values()))
        self.assertLessEqual({key[1] for key in rules}, {"marker", "signature"})
        self.assertEqual({key[::2] for key in rules}, marked)

    def test_status_says_what_decided(self):
        expected = collections.Counter((line["pid"], line["phase"], line["phase_rule"], line["phase_line"], line["phase_name"])
                                       for line in self.node.dump("step"))
        processes = json.loads(self.node.collscope("status", "--json", "--long"))["processes"]
        found = {(process["pid"], row["phase"], row["phase_rule"], row["phase_line"], row["phase_name"]): row["steps"]
                 for process in processes for row in process["phases"]}
        self.assertEqual(found, expected)

    def test_first_steps(self):
        """From the very first launch on."""
        first = {}
        for line in sorted(self.node.dump("step"), key=lambda line: line["start_ns"]):
            first.setdefault(line["rank"], []).append(line["phase"])
        self.assertEqual({rank: phases[:6] for rank, phases in first.items()},
                         dict.fromkeys(range(8), ["draft", "verify", "draft_extend"] * 2))

    def test_collectives_of_a_step(self):
        found = total(self.metrics, "collscope_step_collectives_sum", phase="verify")
        steps = total(self.metrics, "collscope_step_collectives_count", phase="verify")
        self.assertEqual(found, 122 * steps)


class Wrapped(NodeTest):
    """A ring that holds the last second alone: what it begins in the middle of is not taken for a whole step."""

    @classmethod
    def prepare(cls):
        cls.node.play("founding", flags=("--seconds", "4", "--linger", "1"), COLLSCOPE_RING_MIB="1")
        cls.collectives = cls.node.dump("collective")

    def test_steps_are_whole(self):
        steps = self.node.dump("step")
        by_phase = collections.defaultdict(set)
        for step in steps:
            by_phase[step["phase"]].add(step["collectives"])
        self.assertEqual(by_phase, {"verify": {122}, "draft": {4}, "draft_extend": {2}})
        for rank in self.node.truth["ranks"]:
            self.assertGreater(sum(step["pid"] == rank["pid"] for step in steps), 10)
            # It had been written over.
            self.assertLess(sum(line["pid"] == rank["pid"] for line in self.collectives), rank["collectives"])


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


load_tests, setUpModule = begin_early(Demand, SampleBusy)

if __name__ == "__main__":
    unittest.main(verbosity=2)

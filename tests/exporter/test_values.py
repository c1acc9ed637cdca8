#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks whose records are known: what is served of them, to the last digit, in each format, and as docs/metrics.md has it."""
import json
import math
import re
import signal
import subprocess
import tempfile
import time
import unittest

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter import AT_ONCE, OPENMETRICS, PROTOBUF, ROOT, US, Case, pick, run_together, wait_for
from protobuf import decode, decode_families, unzigzag, varints


class Values(Case):
    """Two ranks, 5 steps of 4 all-reduces of 42 KiB. Rank 1 arrives 40 us before rank 0 at each; another stream of rank 0 computes for
    the first 30 us of each step's first one."""

    STEPS, EACH = 5, 4
    COMM = "0000000000000abc"
    DURATION = {0: 100 * US, 1: 140 * US}

    def setUp(self):
        super().setUp()
        begin = time.time_ns() - 20 * 10**9
        for rank, duration in self.DURATION.items():
            writer, label = self.rank(rank, 2)
            for step in range(self.STEPS):
                for i in range(self.EACH):
                    end = begin + step * 10_000 * US + i * 500 * US + 200 * US
                    writer.collective(label, end - duration, end, 43008, node=i + 1, correlation=step + 1)
                    if rank == 0 and i == 0:
                        writer.busy(0, end - duration - 10 * US, end - duration + 30 * US)
        self.server = self.exporter()
        wait_for(lambda: pick(self.server.samples(), "collective_duration_seconds_count") == 2 * self.STEPS * self.EACH)

    def test_collectives(self):
        samples = self.server.samples()
        count = self.STEPS * self.EACH
        for rank, duration in self.DURATION.items():
            labels = {"gpu": str(rank), "rank": str(rank), "op": "all_reduce", "impl": "nccl", "size": "65536"}
            self.assertEqual(pick(samples, "collective_duration_seconds_count", **labels), count)
            self.assertAlmostEqual(pick(samples, "collective_duration_seconds_sum", **labels), count * duration / 1e9, 12)
            self.assertEqual(pick(samples, "collective_bytes_total", **labels), count * 43008)
            for bound in ("5e-06", "7.5e-05", "0.0001", "0.00015", "+Inf"):
                expected = count if duration / 1e9 <= float(bound) else 0
                self.assertEqual(pick(samples, "collective_duration_seconds_bucket", le=bound, **labels), expected, bound)
            del labels["size"]
            self.assertEqual(pick(samples, "collectives_unlabelled_total", gpu=str(rank)), 0)
            waited = duration - min(self.DURATION.values())
            self.assertEqual(pick(samples, "collective_wait_seconds_count", **labels), count)
            self.assertAlmostEqual(pick(samples, "collective_wait_seconds_sum", **labels), count * waited / 1e9, 12)
            self.assertEqual(pick(samples, "collective_last_arrivals_total", rank=str(rank)), count if waited == 0 else 0)
            self.assertEqual(pick(samples, "collectives_unmatched_total", rank=str(rank)), 0)
        self.assertEqual(pick(samples, "collective_transfer_seconds_count", op="all_reduce", size="65536"), count)
        self.assertAlmostEqual(pick(samples, "collective_transfer_seconds_sum"), count * 100 * US / 1e9, 12)
        self.assertEqual(pick(samples, "collective_transfer_bytes_total", op="all_reduce", size="65536"), count * 43008)
        # Two ranks: 2 (2 - 1) / 2 times.
        self.assertEqual(pick(samples, "collective_transfer_bus_bytes_total", op="all_reduce", size="65536"), count * 43008)
        for rank, duration in self.DURATION.items():
            mine = {"rank": str(rank), "gpu": str(rank)}
            self.assertEqual(pick(samples, "collectives_matched_total", **mine), count)
            self.assertEqual(pick(samples, "collectives_partial_total", **mine), 0)
            comm = {"op": "all_reduce", "comm": self.COMM, **mine}
            self.assertEqual(pick(samples, "communicator_collectives_total", **comm), count)
            self.assertAlmostEqual(pick(samples, "communicator_collective_seconds_total", **comm), count * duration / 1e9, 12)

    def test_old_backlog_turns_no_time_back(self):
        """A process comes with more records from long ago than one read takes: what was learnt of the others' clocks stays."""
        def known():
            return {labels for name, labels in self.server.samples() if name == "collscope_clock_uncertainty_seconds"}

        wait_for(known)
        before = known()
        self.server.process.send_signal(signal.SIGSTOP)
        writer = self.writer(16384)
        writer.say("gpu", 2)
        label = int(writer.say("label", "all_reduce", "nccl", 43008, 0, 1, 0, 0))
        start = time.time_ns() - 600 * 10**9
        writer.collective(label, start, start + 50 * US, 43008)
        writer.say("repeat", 9999, 100 * US)
        self.server.process.send_signal(signal.SIGCONT)
        wait_for(lambda: pick(self.server.samples(), "collective_duration_seconds_count", gpu="2") == 10000)
        self.assertEqual(known(), before)

    def test_overlap(self):
        samples = self.server.samples()
        total = self.STEPS * self.EACH * self.DURATION[0]
        beside = self.STEPS * 30 * US
        self.assertAlmostEqual(pick(samples, "collective_overlap_seconds_total", rank="0", **{"with": "compute"}), beside / 1e9, 12)
        self.assertAlmostEqual(pick(samples, "collective_overlap_seconds_total", rank="0", **{"with": "none"}), (total - beside) / 1e9, 12)
        for other in ("copy", "collective"):
            self.assertEqual(pick(samples, "collective_overlap_seconds_total", **{"with": other}), 0)
        self.assertEqual(pick(samples, "collective_contended_duration_seconds_count", **{"with": "compute"}), self.STEPS)
        self.assertEqual(pick(samples, "collective_contended_duration_seconds_count", **{"with": "none"}),
                         2 * self.STEPS * self.EACH - self.STEPS)

    def test_steps(self):
        wait_for(lambda: pick(self.server.samples(), "step_duration_seconds_count") == 2 * self.STEPS)
        samples = self.server.samples()
        self.assertEqual(pick(samples, "step_collectives_count"), 2 * self.STEPS)
        self.assertEqual(pick(samples, "step_collectives_sum"), 2 * self.STEPS * self.EACH)
        for rank, duration in self.DURATION.items():
            spent = self.STEPS * self.EACH * duration
            self.assertAlmostEqual(pick(samples, "step_collective_seconds_sum", rank=str(rank)), spent / 1e9, 12)
            hidden = self.STEPS * 30 * US if rank == 0 else 0
            self.assertAlmostEqual(pick(samples, "step_exposed_collective_seconds_sum", rank=str(rank)), (spent - hidden) / 1e9, 12)

    def test_same_in_openmetrics(self):
        # What moves on with time alone: the exporter's own, and how old the clocks' offsets are.
        moving = ("exporter", "trace", "clock_uncertainty")

        def flat(families):
            return {(s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples
                    if s.name.startswith("collscope_") and not any(each in s.name for each in moving)}
        text = flat(parse_text(self.server.text()))
        openmetrics = flat(parse_openmetrics(self.server.text(Accept=OPENMETRICS)))
        self.assertEqual(text, openmetrics)
        self.assertGreater(len(text), 200)

    def test_native_histogram(self):
        """The buckets that protobuf carries, against 2^(i/8) worked out in floating point."""
        families = list(decode_families(self.server.get(Accept=PROTOBUF)[2]))
        family = next(f for f in families if f[1] == [b"collscope_collective_duration_seconds"])
        self.assertEqual(len(family[4]), 2)
        for metric in map(decode, family[4]):
            labels = {decode(l)[1][0].decode(): decode(l)[2][0].decode() for l in metric[1]}
            histogram = decode(metric[7][0])
            self.assertEqual(histogram[1], [self.STEPS * self.EACH])
            self.assertEqual(unzigzag(histogram[5][0]), 3)
            span = decode(histogram[12][0])
            index = math.ceil(math.log2(self.DURATION[int(labels["rank"])] / 1e9) * 8)
            self.assertEqual((unzigzag(span[1][0]), span[2][0]), (index, 1))
            self.assertEqual([unzigzag(d) for d in varints(histogram[13][0])], [self.STEPS * self.EACH])
            self.assertEqual(len(histogram[3]), 20)

    def test_promtool(self):
        done = subprocess.run(["promtool", "check", "metrics"], input=self.server.text(), capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_documented(self):
        """docs/metrics.md names every family with its type and labels, and no other."""
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", (ROOT / "docs" / "metrics.md").read_text(), re.M)
        documented = {name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
        self.assertEqual(len(rows), len(documented), "a family stands there twice")
        served = {}
        for family in parse_openmetrics(self.server.text(Accept=OPENMETRICS)):
            suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
            served[family.name + suffix] = (family.type, frozenset(k for s in family.samples for k in s.labels if k != "le"))
        self.assertEqual(set(documented), set(served))
        for name, (kind, labels) in served.items():
            self.assertEqual(documented[name][0], kind, name)
            if labels:
                self.assertEqual(documented[name][1], labels, name)

    def test_documented_queries(self):
        """Each query of docs/metrics.md is PromQL to Prometheus' own parser and asks for families that are served."""
        text = (ROOT / "docs" / "metrics.md").read_text()
        queries = []
        for block in re.findall(r"```promql\n(.*?)```", text, re.S):
            for query in re.split(r"^#.*$|\n(?=\S)", block, flags=re.M):
                if query and query.strip():
                    queries.append(query.strip())
        self.assertGreater(len(queries), 15)
        served = set(re.findall(r"^# TYPE (\w+)", self.server.text(), re.M))
        for family in re.findall(r"collscope_\w+", " ".join(queries)):
            self.assertTrue(family in served or re.sub(r"_(bucket|sum|count)$", "", family) in served, family)
        rules = "groups: [{name: documented, rules: [" + ", ".join(
            '{record: q%d, expr: %s}' % (i, json.dumps(q)) for i, q in enumerate(queries)) + "]}]"
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            file.write(rules)
            file.flush()
            done = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def load_tests(loader, _tests, _pattern):
    return run_together(loader, (Values,), AT_ONCE)


if __name__ == "__main__":
    unittest.main()

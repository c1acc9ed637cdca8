#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps: their phases and durations, what tracing costs them, and the one that stands still."""
import re
import tempfile
import time
import unittest

from exporter import (AT_ONCE, COLLECTIVE, DEEP, GRAPH_LAUNCH, HOST_LAUNCH, IN_GRAPH, LIGHT, MARK, MARKER, STEP_RATIOS, STEP_RATIO_PPM, US,
                      WINDOW, Case, pick, run_together, wait_for)


class Steps(Case):
    def test_rules(self):
        """Each condition of a rule file decides one launch; the last one has none that fits."""
        writer, label = self.rank(0, 1)
        small = int(writer.say("label", "all_reduce", "nccl", 14336, 0, 1, 1, 0))
        marker, name = int(writer.say("name", "my_marker_kernel")), int(writer.say("name", "ingest 7"))
        begin = time.time_ns() - 20 * 10**9
        for launch, (count, which, size) in enumerate(((3, label, 43008), (3, label, 43008), (5, label, 43008), (3, small, 14336),
                                                       (4, small, 14336), (2, label, 43008))):
            at = begin + launch * 50_000 * US
            if launch == 0:
                writer.say("record", MARK, 0, 0, 0, name, at - 500 * US, at - 100 * US, 77, 0, 0, 0, 0)
                writer.say("record", HOST_LAUNCH, 0, 0, 0, 0, at - 400 * US, at - 390 * US, 77, 0, 1, 20, 0)
            if launch == 1:
                writer.say("record", MARKER, 0, 0, 0, marker, at - 50 * US, at - 40 * US, 0, 0, 0, 0, 3)
            for i in range(count):
                start = at + i * 300 * US
                writer.collective(which, start, start + 100 * US, size, node=i + 1, correlation=launch + 1, graph=20 + launch)
        with tempfile.NamedTemporaryFile("w") as rules:
            rules.write("prefill range=ingest*\ndraft_extend after=my_marker*\nverify collectives=5\ndecode bytes=14K launches=1 "
                        "collectives=..3\ndraft collectives=4\n")
            rules.flush()
            server = self.exporter(f"--collscope.steps={rules.name}")
            wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 20)
            found = {phase: pick(server.samples(), "collective_duration_seconds_count", phase=phase)
                     for phase in ("prefill", "draft_extend", "verify", "decode", "draft", "unknown")}
        self.assertEqual(found, {"prefill": 3, "draft_extend": 3, "verify": 5, "decode": 3, "draft": 4, "unknown": 2})

    def test_light_steps(self):
        """Ten light steps and ten deep ones of one graph: all have a duration, the deep ones collectives."""
        writer, label = self.rank(0, 1)
        at = time.time_ns() - 60 * 10**9
        light = at
        for i in range(10):
            writer.say("record", GRAPH_LAUNCH, 0, 0, 0, 0, at, at + 2000 * US, 0, 0, i + 1, 7, 3)
            at += 3000 * US
        writer.say("record", WINDOW, LIGHT, 0, 0, 1, light, at, 10, 0, 0, 0, 0)
        deep = at
        for i in range(10):
            writer.collective(label, at + 500 * US, at + 600 * US, 43008, node=1, correlation=i + 11)
            writer.collective(label, at + 2500 * US, at + 2600 * US, 43008, node=2, correlation=i + 11)
            at += 3000 * US
        writer.say("record", WINDOW, DEEP, 0, 0, 2, deep, at, 10, 0, 0, 0, 0)
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "step_duration_seconds_count") == 20)
        self.assertEqual(pick(server.samples(), "step_collectives_count"), 10)

    def test_perturbation(self):
        """The process has measured it; no sample before that."""
        writer, _ = self.rank(0, 1)
        server = self.exporter()
        wait_for(lambda: any(n == "collscope_process_info" for n, _ in server.samples()))
        self.assertFalse(any(n == "collscope_step_perturbation_ratio" for n, _ in server.samples()))
        writer.say("status", STEP_RATIO_PPM, 1050000)
        wait_for(lambda: any(n == "collscope_step_perturbation_ratio" for n, _ in server.samples()))
        self.assertAlmostEqual(
            pick(server.samples(), "step_perturbation_ratio", gpu="0", rank="0", phase="unknown"), 0.05, 9)

    def test_perturbation_by_phase(self):
        """Measured by graph; what the graphs are for is known from steps. Two of one phase: the worse one."""
        writer, label = self.rank(0, 1)
        at = time.time_ns() - 60 * 10**9
        correlation = 0
        for _ in range(40):
            # Three small launches of graph 8 (or 9), one of twenty collectives of graph 7.
            for graph, collectives in ((8, 3), (9, 3), (8, 3), (7, 20)):
                correlation += 1
                for node in range(collectives):
                    writer.collective(label, at, at + 20 * US, 43008, node=(graph << 32) + node + 1,
                                      correlation=correlation, graph=graph)
                    at += 50 * US
                at += 2000 * US
        writer.say("status", STEP_RATIOS + 2, 7 << 32 | 32 << 16 | 10500)
        writer.say("status", STEP_RATIOS + 3, 8 << 32 | 9 << 16 | 14500)
        writer.say("status", STEP_RATIOS + 5, 9 << 32 | 9 << 16 | 11000)
        writer.say("status", STEP_RATIOS + 9, 0 << 32 | 20 << 16 | 12000)
        writer.say("status", STEP_RATIO_PPM, 1450000)
        server = self.exporter()

        def ratios():
            return {dict(l)["phase"]: round(v, 6) for (n, l), v in server.samples().items()
                    if n == "collscope_step_perturbation_ratio"}
        wait_for(lambda: ratios() == {"verify": 0.05, "draft_extend": 0.45, "unknown": 0.2})

    def test_stall(self):
        """A graph of 4 all-reduces ran whole 3 times; the fourth launch stopped after 2, 30 s ago, and tracing still looks."""
        writer, label = self.rank(5, 8)
        begin = time.time_ns() - 30 * 10**9
        for step in range(4):
            for i in range(4 if step < 3 else 2):
                start = begin + (step - 4) * 10_000 * US + i * 500 * US
                writer.collective(label, start, start + 100 * US, 43008, node=i + 1, correlation=step + 1)
        patient = self.exporter("--collscope.stall=10m")
        wait_for(lambda: pick(patient.samples(), "collective_duration_seconds_count", gpu="5") == 14)
        self.assertFalse(any("stalled" in name for name, _ in patient.samples()))
        patient.stop()
        server = self.exporter("--collscope.stall=20s")
        wait_for(lambda: pick(server.samples(), "stalled_collective_seconds", gpu="5", rank="5", op="all_reduce", impl="nccl") > 25)

    def test_stalls_are_said_once(self):
        """Two GPUs of one process stand still, each since a moment of its own; one goes on and stops again."""
        writer, label = self.rank(5, 8)
        writer.say("gpu", 6)
        begin = time.time_ns() - 10 * 10**9

        def launch(gpu, step, end, first=0):
            for i in range(first, end):
                start = begin + (step * 10_000 + gpu * 777 + i * 500) * US
                writer.say("record", COLLECTIVE, IN_GRAPH, gpu, 0, label, start, start + 100 * US, 43008, i + 1, 10 * gpu + step + 1, 7 + gpu,
                           3 + gpu)

        for step in range(4):
            launch(0, step, 4 if step < 3 else 2)
            launch(1, step, 4 if step < 3 else 1)
        server = self.exporter("--collscope.stall=2s")

        def said():
            return re.findall(r"A rank stands still.* collective=(\d+) ", server.output())

        wait_for(lambda: len(said()) == 2)
        begin = time.time_ns() - 50 * 10**6
        launch(0, 3, 4, first=2)
        launch(0, 4, 3)
        # A look a second: by the time that this is said, the other GPU has been looked at again.
        wait_for(lambda: len(said()) > 2)
        self.assertEqual(sorted(said()[:2]), ["1", "2"])
        self.assertEqual(said()[2:], ["3"])

    def test_hole_at_the_end_of_a_dead_ring(self):
        """A writer was killed between reserving its last slot and filling it. Time goes on for the others: one is served, one stands still."""
        dead, label = self.rank(0, 1)
        at = time.time_ns() - 40 * 10**9
        dead.collective(label, at, at + 100 * US, 43008)
        dead.say("reserve", 1)
        dead.kill()
        still, label = self.rank(1, 8)
        for step in range(4):
            for i in range(4 if step < 3 else 2):
                start = at + (step * 10_000 + i * 500) * US
                still.collective(label, start, start + 100 * US, 43008, node=i + 1, correlation=step + 1)
        live, label = self.rank(2, 1)
        server = self.exporter("--collscope.linger=1h", "--collscope.stall=20s")
        wait_for(lambda: pick(server.samples(), "records_lost_total", gpu="0", cause="ring_hole") == 1)
        for i in range(3):
            start = time.time_ns() - 50 * 10**6
            live.collective(label, start, start + 100 * US, 43008, node=1, correlation=i + 1)
            wait_for(lambda i=i: pick(server.samples(), "collective_duration_seconds_count", gpu="2") == i + 1)
        wait_for(lambda: pick(server.samples(), "stalled_collective_seconds", gpu="1", rank="1") > 35)
        wait_for(lambda: re.search(r"A rank stands still.* rank=1 ", server.output()))
        self.assertEqual(pick(server.samples(), "collective_duration_seconds_count", gpu="0"), 1)

    def test_after_the_clock_was_set_back(self):
        """An exporter that starts then finds records from an hour ahead before those of now, and takes the latter as ever."""
        writer, label = self.rank(5, 8)

        def launch(begin, correlation, count):
            for i in range(count):
                start = begin + i * 500 * US
                writer.collective(label, start, start + 100 * US, 43008, node=i + 1, correlation=correlation)

        for begin in (time.time_ns() + 3600 * 10**9, time.time_ns() - 60 * 10**9):
            for step in range(4):
                launch(begin + step * 10_000 * US, step + 1 + begin % 1000, 4 if step < 3 else 2)
        server = self.exporter("--collscope.stall=20s")
        wait_for(lambda: pick(server.samples(), "stalled_collective_seconds", gpu="5", rank="5", op="all_reduce", impl="nccl") > 25)
        self.assertEqual(pick(server.samples(), "step_duration_seconds_count", gpu="5"), 3)


def load_tests(loader, _tests, _pattern):
    return run_together(loader, (Steps,), AT_ONCE)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that stand still on the fake driver: who is said to, where, and who is not, by the command, /metrics and the exporter's log."""
import collections
import concurrent.futures
import contextlib
import json
import os
import re
import signal
import time
import unittest

from node import LongTest, begin_early, total, wait_for


class Still(LongTest):
    """Plays a scenario beside a running exporter and keeps what the command, /metrics and the exporter's log say of ranks that
    stand still."""
    HANGS = True
    FLAGS = ("--linger", "100")  # a limit

    @classmethod
    def look(cls):
        cls.status = json.loads(cls.node.collscope("status", "--json"))
        cls.text = cls.node.collscope("status")
        cls.gauges = (cls.node.scrape() or {}).get("collscope_stalled_collective_seconds", [])
        cls.log = [dict(re.findall(r"(\w+)=(\S+)", line)) for line in cls.node.exporter_log().splitlines()
                   if "A rank stands still" in line]

    @classmethod
    def all_say(cls, count):
        cls.look()
        return len(cls.status["stalls"]) == len(cls.gauges) == len(cls.log) == count

    @classmethod
    def play_until(cls, done, what, *words, **how):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            playing = pool.submit(cls.node.play, *words, flags=cls.FLAGS, **how)
            try:
                cls.node.start_exporter()
                wait_for(lambda: len(list(cls.node.directory.glob("*.seg"))) == 4, "four traced processes")
                wait_for(done, what)
            finally:
                cls.kill_hung()
            playing.result()

    @classmethod
    def watch(cls, seconds, *words, **how):
        """Plays for so long and keeps in cls.seen all that was ever said of ranks that stand still."""
        cls.seen = []
        begin = time.monotonic()

        def look_long_enough():
            cls.look()
            cls.seen += cls.status["stalls"] + cls.gauges + cls.log
            return time.monotonic() - begin > seconds
        cls.play_until(look_long_enough, "time passes", *words, **how)

    @classmethod
    def kill_hung(cls):
        """Somebody kills a server that hangs: when everything has been seen, however long that took."""
        if cls.HANGS:
            for segment in cls.node.directory.glob("*.seg"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(segment.name.split("-")[0]), signal.SIGKILL)

    def check_rank(self, stall, behind, ordinal, ended=None):
        """One rank's stall in the status, and the same in the log. Each launch before was a step."""
        pid = self.node.truth["ranks"][stall["rank"]]["pid"]
        self.assertEqual((stall["pid"], stall["gpu"]), (pid, stall["rank"]))
        self.assertEqual((stall["ordinal"], stall["op"], stall["impl"], stall["bytes"], stall["behind"]),
                         (ordinal, "all_reduce", "nccl", 43008, behind))
        self.assertEqual(stall["step"], 61)
        last = 121 if ordinal == 0 else ordinal - 1
        self.assertEqual((stall["last_ordinal"], stall["last_op"], stall["last_impl"]), (last, "all_reduce", "nccl"))
        self.assertGreater(stall["node"], 0)
        self.assertGreater(stall["last_node"], 0)
        self.assertNotEqual(stall["node"], stall["last_node"])
        self.assertEqual(stall["ended_rank"], ended)
        self.assertGreaterEqual(stall["for_ns"], 10_000_000_000)
        line = [line for line in self.log if line["pid"] == str(pid)][0]
        self.assertEqual({key: line[key] for key in ("rank", "step", "collective", "op", "impl", "bytes", "others_wait_for_it")},
                         {"rank": str(stall["rank"]), "step": "61", "collective": str(ordinal), "op": "all_reduce", "impl": "nccl",
                          "bytes": "43008", "others_wait_for_it": "yes" if behind else "no"})
        self.assertEqual({key: line[key] for key in ("node", "last_collective", "last_node", "ended_rank")},
                         {"node": str(stall["node"]), "last_collective": str(last), "last_node": str(stall["last_node"]),
                          "ended_rank": "none" if ended is None else str(ended)})
        self.assertGreaterEqual(int(line["seconds"]), 10)
        self.assertRegex(self.text, f"{pid}: rank {stall['rank']} stands still for .* before the end of collective {ordinal} of step 61 "
                         rf"\(all_reduce nccl, 42 KiB, node {stall['node']} of graph \d+\); ended last: collective {last} "
                         rf"\(all_reduce nccl, node {stall['last_node']}\)"
                         + (f"; rank {ended} of the group has ended" if ended is not None else "")
                         + ("; it is behind, the others wait for it" if behind else "") + "\n")


class Hang(Still):
    """Rank 2 of 4 hangs before collective 57 of the verify graph, the others inside it."""

    @classmethod
    def prepare(cls):
        cls.play_until(lambda: cls.all_say(4), "all four ranks are said to stand still", "hang")

    def test_the_collective_and_who_is_behind(self):
        self.assertEqual(sorted(stall["rank"] for stall in self.status["stalls"]), [0, 1, 2, 3])
        for stall in self.status["stalls"]:
            self.check_rank(stall, stall["rank"] == 2, 57)

    def test_metrics(self):
        self.assertEqual(sorted(labels["rank"] for labels, _ in self.gauges), ["0", "1", "2", "3"])
        for labels, value in self.gauges:
            self.assertEqual((labels["gpu"], labels["op"], labels["impl"]), (labels["rank"], "all_reduce", "nccl"))
            self.assertGreaterEqual(value, 10)

    def test_said_once(self):
        self.assertEqual(len(self.log), 4)


class HangFirst(Still):
    """The same in the very first launch of all: what the graph was captured with tells how far it is from its end, and that
    collective 57 is an all-reduce of 42 KiB."""
    CUPTI = "13"

    @classmethod
    def prepare(cls):
        cls.play_until(lambda: cls.all_say(4), "all four ranks are said to stand still", "hang-first", cupti=cls.CUPTI)
        cls.graphs = cls.node.dump("graph")

    def test_the_collective_and_who_is_behind(self):
        self.assertEqual(sorted(stall["rank"] for stall in self.status["stalls"]), [0, 1, 2, 3])
        for stall in self.status["stalls"]:
            self.assertEqual((stall["ordinal"], stall["op"], stall["impl"], stall["bytes"], stall["step"], stall["behind"]),
                             (57, "all_reduce", "nccl", 43008, 1, stall["rank"] == 2))
            self.assertEqual((stall["last_ordinal"], stall["last_op"]), (56, "all_reduce"))
            self.assertIsNone(stall["node"])
            self.assertRegex(self.text, rf"{stall['pid']}: rank {stall['rank']} stands still for .* before the end of collective 57 of step 1 "
                             r"\(all_reduce nccl, 42 KiB\); ended last: collective 56 ")
        self.assertEqual({(line["step"], line["collective"], line["bytes"]) for line in self.log}, {("1", "57", "43008")})

    def test_what_was_captured(self):
        self.assertEqual(sorted(line["pid"] for line in self.graphs), sorted(rank["pid"] for rank in self.node.truth["ranks"]))
        for line in self.graphs:
            self.assertEqual((line["collectives"], line["ordinal"], line["count"], line["op"], line["impl"], line["bytes"]),
                             (122, 0, 122, "all_reduce", "nccl", 43008))
            self.assertGreater(line["node"] >> 32, 0)
            self.assertEqual(line["node"] >> 32, line["graph"])
            self.assertEqual(line["start_ns"], line["end_ns"])


class HangFirstOnCupti12(HangFirst):
    CUPTI = "12"


class HangBetweenWindows(Still):
    """In sample mode it hangs in the middle between two windows: that the ranks stand still is said all the same, from
    windows in which the GPU works and no kernel ends. Where they stand is not known."""
    WINDOWS = {"mode": "sample", "COLLSCOPE_PERIOD_MS": "5000", "COLLSCOPE_WINDOW_MS": "100"}

    @classmethod
    def prepare(cls):
        cls.play_until(lambda: cls.all_say(4), "all four ranks are said to stand still", "hang-late", **cls.WINDOWS)

    def test_they_stand_still(self):
        self.assertEqual(sorted(stall["rank"] for stall in self.status["stalls"]), [0, 1, 2, 3])
        for stall in self.status["stalls"]:
            self.assertGreaterEqual(stall["for_ns"], 10_000_000_000)
            self.assertEqual((stall["ordinal"], stall["op"], stall["step"], stall["behind"]), (None, None, None, False))
            self.assertEqual((stall["last_op"], stall["last_impl"]), ("all_reduce", "nccl"))
            self.assertRegex(self.text, f"{stall['pid']}: rank {stall['rank']} stands still for .* since a moment at which nothing was traced")
        self.assertEqual(sorted(line["rank"] for line in self.log), ["0", "1", "2", "3"])
        for line in self.log:
            self.assertEqual((line["collective"], line["step"], line["op"]), ("unknown", "unknown", "unknown"))
        for labels, value in self.gauges:
            self.assertEqual((labels["op"], labels["impl"]), ("unknown", "unknown"))
            self.assertGreaterEqual(value, 10)


class IdleBetweenWindows(Still):
    """The same without the hang, and then nothing to do: windows with nothing in them, and a GPU that rests."""
    HANGS = False
    FLAGS = ("--steps", "280", "--linger", "24")

    @classmethod
    def prepare(cls):
        cls.watch(27, "hang-late", **HangBetweenWindows.WINDOWS)

    def test_nothing_is_said(self):
        self.assertEqual(self.seen, [])

    def test_it_was_looked_at(self):
        self.assertGreater(min(process["records"]["still"] for process in self.status["processes"]), 0)


class Idle(Still):
    """The same server without the hang, which then has nothing to do for longer than it takes to call a rank stalled."""
    HANGS = False
    FLAGS = ("--steps", "60", "--linger", "20")

    @classmethod
    def prepare(cls):
        cls.watch(17, "hang")
        cls.rested_ns = time.time_ns() - max(line["end_ns"] for line in cls.node.dump("collective"))

    def test_nothing_is_said(self):
        self.assertGreater(self.rested_ns, 12_000_000_000)
        self.assertEqual(self.seen, [])


class Died(Still):
    """Rank 1 of 4 is killed between two steps: the others wait in the next one's first collective, and none is behind."""

    @classmethod
    def prepare(cls):
        cls.play_until(lambda: cls.all_say(3), "the ranks that are left are said to stand still", "died")
        # Now: an exporter removes the segment of a process that has been dead for a minute.
        cls.collectives = cls.node.dump("collective")

    def test_the_living_wait(self):
        self.assertEqual(sorted(stall["rank"] for stall in self.status["stalls"]), [0, 2, 3])
        for stall in self.status["stalls"]:
            self.check_rank(stall, False, 0, ended=1)

    def test_the_dead_is_no_stall(self):
        self.assertEqual(sorted(labels["rank"] for labels, _ in self.gauges), ["0", "2", "3"])
        dead = self.node.truth["ranks"][1]
        self.assertEqual(dead["exit"], -9)
        alive = {process["pid"]: process["alive"] for process in self.status["processes"]}
        self.assertEqual(alive, {rank["pid"]: rank["rank"] != 1 for rank in self.node.truth["ranks"]})

    def test_what_it_did_is_counted(self):
        lines = [line for line in self.collectives if line["pid"] == self.node.truth["ranks"][1]["pid"]]
        self.assertEqual({(line["bytes"], line["impl"], line["op"]) for line in lines}, {(43008, "nccl", "all_reduce")})
        # All but what had not been handed over when it died: the end of it, whatever that is on this machine.
        self.assertGreater(len(lines), 0)
        self.assertEqual(len({(line["correlation"], line["node"]) for line in lines}), len(lines))
        launches = sorted({line["correlation"] for line in lines})
        self.assertEqual(launches, list(range(launches[0], launches[0] + len(launches))))
        self.assertLessEqual(len(launches), 60)
        self.assertLessEqual(len(lines), 122 * len(launches))


class StarvedExporter(LongTest):
    """An exporter that does not run for longer than a stall has not seen ranks that stood still."""

    @classmethod
    def prepare(cls):
        cls.node.start_exporter("--collscope.stall=1s")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            playing = pool.submit(cls.node.play, "verify", flags=("--seconds", "9", "--linger", "1"))
            wait_for(lambda: total(cls.node.scrape() or collections.defaultdict(list), "collscope_collective_duration_seconds_count"),
                     "the first collectives are counted")
            # Only a launch that is under way when it stops looks like one that hangs: more than once.
            for _ in range(3):
                cls.node.exporter.send_signal(signal.SIGSTOP)
                time.sleep(2.1)
                cls.node.exporter.send_signal(signal.SIGCONT)
                time.sleep(0.3)
            playing.result()
        cls.metrics = cls.scrape_when_counted()

    def test_nothing_is_said(self):
        self.assertNotIn("stands still", self.node.exporter_log())


load_tests, setUpModule = begin_early(Hang, HangFirst, HangFirstOnCupti12, HangBetweenWindows, Idle, IdleBetweenWindows, Died,
                                      StarvedExporter)

if __name__ == "__main__":
    unittest.main(verbosity=2)

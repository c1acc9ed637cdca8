#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Another NCCL profiler plugin in the same process: it is told everything, and our labels are what they are without it."""
import collections
import os
import pathlib
import re
import unittest

from node import INJECTOR, NodeTest
from together import run_together

AT_ONCE = 3  # they wait most of the time
PLUGINS = pathlib.Path(os.environ["CS_CHAINED_PLUGINS"])


class Chained(NodeTest):
    """NCCL 2.28 and a plugin of the interface version that it speaks itself, 5."""
    NCCL, VERSION = "2.28.9", 5
    # One all-reduce: GroupApi, CollApi, KernelLaunch, Group, Coll; two changes of GroupApi's state.
    EVENTS, STATES = 5, 2
    SIZE_FROM = "nccl_profiler"
    CAPTURED = 10  # collectives of the scenario's graphs, each captured once

    @classmethod
    def prepare(cls):
        cls.report = pathlib.Path(cls.node.temporary.name) / "report"
        cls.node.play("small", flags=("--linger", "1", "--steps", "20", "--nccl", cls.NCCL), COLLSCOPE_NCCL_CHAIN="1",
                      NCCL_PROFILER_PLUGIN=PLUGINS / f"libchained_plugin_{cls.VERSION}.so", CHAINED_REPORT=cls.report)

    def test_our_labels_are_there(self):
        lines = self.node.dump("collective")
        expected = collections.Counter()
        for rank in self.node.truth["ranks"]:
            for one in rank["classes"]:
                expected[rank["rank"], one["bytes"]] += one["count"]
        self.assertEqual(collections.Counter((line["rank"], line["bytes"]) for line in lines), expected)
        self.assertEqual({(line["size_from"], line["reduction"], line["dtype"], line["world"]) for line in lines},
                         {(self.SIZE_FROM, "sum", "bfloat16", 2)})

    def test_the_other_plugin_heard_everything(self):
        events, states = self.EVENTS * self.CAPTURED, self.STATES * self.CAPTURED
        line = f"version {self.VERSION} init 1 start {events} stop {events} state {states} finalize 1"
        self.assertEqual(self.report.read_text().splitlines(), [line] * len(self.node.truth["ranks"]))

    def test_nothing_was_said(self):
        self.assertEqual(self.node.errors(), ["", ""])


class ChainedOldPlugin(Chained):
    """A plugin that knows no API events; before version 5 an event of these is a Group or a Coll."""
    VERSION, EVENTS, STATES = 4, 2, 0


class ChainedOldestPlugin(Chained):
    VERSION, EVENTS, STATES = 1, 2, 0


class ChainedInspector(Chained):
    """The newest NCCL with the plugin that ships with it, which has version 5 alone."""
    NCCL = "2.31.2"


class ChainedOldNccl(Chained):
    """The oldest NCCL that tells of captured collectives on one node. NVTX comes first, so it is the size's source."""
    NCCL, VERSION, EVENTS, STATES = "2.27.5", 3, 2, 0
    SIZE_FROM = "nvtx"


class Refused(NodeTest):
    """What cannot be forwarded to is said in one line, and our own labels are not touched."""
    LINE = r'Cannot forward to the NCCL profiler plugin ".*": .*No such file or directory'

    @classmethod
    def plugin(cls):
        return "/nonexistent/libplugin.so"

    @classmethod
    def prepare(cls):
        cls.node.play("small", flags=("--linger", "1", "--steps", "20"), COLLSCOPE_NCCL_CHAIN="1",
                      NCCL_PROFILER_PLUGIN=cls.plugin())

    def test_one_line_and_every_label(self):
        for text in self.node.errors():
            self.assertEqual(len(text.splitlines()), 1, text)
            self.assertRegex(text, self.LINE)
        lines = self.node.dump("collective")
        self.assertEqual(len(lines), sum(rank["collectives"] for rank in self.node.truth["ranks"]), self.node.dump("loss"))
        self.assertEqual({line["size_from"] for line in lines}, {"nccl_profiler"})


class RefusedNewer(Refused):
    LINE = re.escape("This NCCL speaks profiler interface 5, ") + '".*" ' + re.escape("only newer ones (from 7 on)")

    @classmethod
    def plugin(cls):
        return PLUGINS / "libchained_plugin_7.so"


class RefusedOurselves(Refused):
    """By a second name of the same file."""
    LINE = "it is collscope itself"

    @classmethod
    def plugin(cls):
        link = pathlib.Path(cls.node.temporary.name) / "libother.so"
        link.symlink_to(INJECTOR.resolve())
        return link


def load_tests(loader, _tests, _pattern):
    cases = (Chained, ChainedOldPlugin, ChainedOldestPlugin, ChainedInspector, ChainedOldNccl, Refused, RefusedNewer, RefusedOurselves)
    return run_together(loader, cases, AT_ONCE)


if __name__ == "__main__":
    unittest.main()

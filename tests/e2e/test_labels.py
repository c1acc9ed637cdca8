#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every label against the truth: NCCL in all its releases, grouped calls, several communicators, symmetric kernels, the lives
of graphs. A record is found by its times; what a label says is right, or unknown where nobody could have told it."""
import collections
import unittest

from node import NodeTest
from together import run_together

AT_ONCE = 4  # they wait most of the time
FIELDS = ("op", "impl", "bytes", "dtype", "algorithm", "protocol", "communicator", "rank", "world")


def what_a_label_says(line):
    """One line of `collscope dump`, in the words of the truth."""
    said = {field: line[field] for field in FIELDS}
    if said["op"] == "unknown":
        said["op"] = None
    return said


class Labels(NodeTest):
    """Plays a scenario and compares what is said of each collective."""
    SCENARIO = "nccl"
    NCCL = None
    FLAGS = ()
    CUPTI = "13"
    ENVIRONMENT = {}
    # What NCCL tells after a launch comes before its record does; on a busy machine too.
    DELAY_MS = 1500

    @classmethod
    def prepare(cls):
        release = ("--nccl", cls.NCCL) if cls.NCCL else ()
        cls.node.play(cls.SCENARIO, cupti=cls.CUPTI, flags=("--events", "--linger", "2.5", *release, *cls.FLAGS),
                      CS_FAKE_CUPTI_DELAY_MS=cls.DELAY_MS, **cls.ENVIRONMENT)
        cls.lines = cls.node.dump("collective")

    def known(self, event):
        """What can be known of a collective; a subclass leaves out what nobody tells."""
        said = {field: event[field] for field in FIELDS if field != "rank"}
        said["rank"] = event["comm_rank"]
        if said["op"] == "unknown":
            said["op"] = None
        return said

    def test_every_label(self):
        events = {(rank["pid"], event["start_ns"], event["end_ns"]): event
                  for rank in self.node.truth["ranks"] for event in rank["events"]}
        self.assertGreater(len(events), 0)
        wrong = collections.Counter()
        for line in self.lines:
            event = events.pop((line["pid"], line["start_ns"], line["end_ns"]))
            self.assertEqual(line["graph"] is None, event["eager"])
            known = self.known(event)
            for field, said in what_a_label_says(line).items():
                if said != known[field]:
                    wrong[event["graph"], field, said, known[field], line["kernel"], event["bytes"]] += 1
        self.assertEqual(wrong, {}, "\n" + "\n".join(f"{count} x {what}" for what, count in wrong.items()))
        self.assertEqual(events, {})

    def test_host_saw_nothing(self):
        self.assertEqual("".join(self.node.errors()), "")


class Nccl(Labels):
    """One release for each version of the profiler plugin's interface."""
    PLUGIN = None

    def test_plugin_was_asked(self):
        self.assertEqual({rank["nccl_plugin"] for rank in self.node.truth["ranks"]}, {self.PLUGIN})


def without(said, *fields):
    return {**said, **dict.fromkeys(fields)}


def names_type(event):
    """The kernel's name has the element type: not of what moves as bytes, and not of integers, which run as unsigned ones."""
    return not event["copies"] and event["dtype"] != "int32"


class NvtxAlone:
    """What is known without a word of the plugin: NVTX has the bytes, the kernel's name the type and whether it is a tree."""

    def of_nvtx(self, event):
        said = without(super().known(event), "protocol")
        if event["algorithm"] != "tree":
            said["algorithm"] = None
        if event["works"] > 1 or not names_type(event):
            said["dtype"] = None
        return self.of_group(event, said) if event["group_kernels"] else said

    @staticmethod
    def of_group(event, said):
        """A name is of one of the collectives in a kernel; which kernel of a group holds what is not told."""
        if event["works"] > 1 or event["group_kernels"] > 1:
            said = without(said, "dtype", "algorithm")
        if event["group_kernels"] > 1:
            said = without(said, "bytes")
        if event["group_comms"] > 1:
            # A line says those of the process then, which are those of its largest communicator: here all ranks.
            said = {**without(said, "communicator"), "rank": event["rank"], "world": 4}
        return without(said, "op") if event["group_mixed"] else said

    def of_old_nvtx(self, event):
        """Up to 2.24 without the communicator; the number of ranks makes the size of what is gathered and scattered."""
        said = without(self.of_nvtx(event), "communicator", "rank", "world")
        return without(said, "bytes") if event["op"] in ("all_gather", "reduce_scatter") else said


class V1(NvtxAlone, Nccl):
    """While a captured graph lives, nothing is told of eager collectives either."""
    NCCL = "2.23.4"
    PLUGIN = "v1"

    def known(self, event):
        return self.of_old_nvtx(event)


class AfterTheLaunch:
    """What is known of the plugin alone before it told of calls: what moves as bytes has lost its type by then."""

    def of_late_events(self, event):
        said = super().known(event)
        return without(said, "dtype") if event["copies"] else said

    def of_old_late_events(self, event):
        """Up to 2.24 nobody tells the number of ranks."""
        said = without(self.of_late_events(event), "world")
        return without(said, "bytes") if event["op"] in ("all_gather", "reduce_scatter") else said


class V1Eager(AfterTheLaunch, Nccl):
    """Without graphs the plugin tells of each collective."""
    SCENARIO = "nccl-eager"
    NCCL = "2.23.4"
    PLUGIN = "v1"

    def known(self, event):
        return self.of_old_late_events(event)


class V2(NvtxAlone, AfterTheLaunch, Nccl):
    """The plugin is told nothing of captured collectives."""
    NCCL = "2.24.3"
    PLUGIN = "v2"

    def known(self, event):
        return self.of_old_late_events(event) if event["eager"] else self.of_old_nvtx(event)


class V2WithCommunicators(NvtxAlone, AfterTheLaunch, Nccl):
    """2.25: NVTX has the communicator."""
    NCCL = "2.25.1"
    PLUGIN = "v2"

    def known(self, event):
        return self.of_late_events(event) if event["eager"] else self.of_nvtx(event)


class V3(V2WithCommunicators):
    NCCL = "2.26.5"
    PLUGIN = "v3"


class V4(AfterTheLaunch, Nccl):
    NCCL = "2.27.5"
    PLUGIN = "v4"

    def known(self, event):
        return self.of_late_events(event)


class V5(Nccl):
    NCCL = "2.28.9"
    PLUGIN = "v5"


class V6(Nccl):
    NCCL = "2.30.4"
    PLUGIN = "v6"


class V7(Nccl):
    NCCL = "2.31.2"
    PLUGIN = "v7"


class TensorExpert(Labels):
    """Two communicators and more in one process, calls in groups."""
    SCENARIO = "tensor-expert"


class TensorExpertV4(AfterTheLaunch, TensorExpert):
    NCCL = "2.27.5"

    def known(self, event):
        return self.of_late_events(event)


class TensorExpertV7(TensorExpert):
    NCCL = "2.31.2"


class TensorExpertNvtx(NvtxAlone, TensorExpert):
    """Without the plugin."""
    ENVIRONMENT = {"COLLSCOPE_NCCL": "0"}

    def known(self, event):
        return self.of_nvtx(event)


class Symmetric27(Labels):
    """The plugin is told nothing of kernels on symmetric memory: NVTX has the bytes, the name has all else. One kernel for each
    call of a group: which has which size is not told."""
    SCENARIO = "symmetric-2-27"
    NCCL = "2.27.5"

    def known(self, event):
        said = super().known(event)
        return without(said, "bytes") if event["group_kernels"] > 1 else said


class Symmetric28(Labels):
    """The plugin is told of the calls. Those of a group share a kernel."""
    SCENARIO = "symmetric"
    NCCL = "2.28.9"


class Symmetric28Nvtx(Symmetric28):
    """Without the plugin: NVTX and the name have as much of a symmetric kernel, and less of another."""
    ENVIRONMENT = {"COLLSCOPE_NCCL": "0"}

    def known(self, event):
        said = super().known(event)
        return said if event["impl"] == "nccl_symmetric" else without(said, "protocol")


class Symmetric31(Labels):
    """And of what was launched; there is a second kernel of each variant."""
    SCENARIO = "symmetric"
    NCCL = "2.31.2"


class Lives(Labels):
    """Graphs between their capture and their launches."""
    SCENARIO = "lives"
    CHANGED = {"node_set": 0, "exec_set": 13}  # from which step on

    def known(self, event):
        """A node that is given to NCCL's kernel by hand has what its parameters and the kernel's name say."""
        said = super().known(event)
        if event["impl"] != "nccl" or event["step"] < self.CHANGED.get(event["graph"], 1 << 60):
            return said
        said = without(said, "communicator", "protocol")
        return said if event["algorithm"] == "tree" else without(said, "algorithm")


class LivesOnCupti12(Lives):
    """No event tells what an update changed: from then on there is the kernel's name."""
    CUPTI = "12"

    def known(self, event):
        said = super().known(event)
        if event["graph"] != "update" or event["step"] < 17:
            return said
        return without(said, "bytes", "communicator", "protocol")


class Threads(Labels):
    """Eight threads capture at once, each with communicators of its own: nobody's calls wait for another's."""
    SCENARIO = "threads"


class ThreadsV4(AfterTheLaunch, Threads):
    NCCL = "2.27.5"

    def known(self, event):
        return self.of_late_events(event)


class Parameters(Labels):
    """Neither plugin nor NVTX: NCCL's block of work has the elements, the kernel's name the operation, type and tree."""
    FLAGS = ("--settle", "1.5")
    ENVIRONMENT = {"COLLSCOPE_NCCL": "0", "COLLSCOPE_NVTX": "0"}

    def known(self, event):
        said = without(super().known(event), "protocol", "communicator", "rank", "world")
        if not names_type(event):
            said["dtype"] = None
        if event["algorithm"] != "tree":
            said["algorithm"] = None
        # What is gathered or scattered is as many times as large as there are ranks.
        return without(said, "bytes") if event["op"] in ("all_gather", "reduce_scatter") else said

    def test_where_sizes_come_from(self):
        sources = {line["size_from"] for line in self.lines if line["bytes"] is not None}
        self.assertLessEqual(sources, {"launch_parameters"})


class Parameters23(Parameters):
    NCCL = "2.23.4"


class Parameters30(Parameters):
    NCCL = "2.30.4"


class Parameters31(Parameters):
    """A layout that nobody has read: no size."""
    NCCL = "2.31.2"

    def known(self, event):
        return without(super().known(event), "bytes")


class ParametersOfGroups(Parameters):
    """Several collectives in one block: of one function and type they add up."""
    SCENARIO = "tensor-expert"

    def known(self, event):
        said = super().known(event)
        same = event["algorithm"] and event["protocol"] and event["dtype"] and not said["op"] is None
        return said if same else without(said, "op", "bytes", "dtype", "algorithm")


def load_tests(loader, _tests, _pattern):
    cases = [case for case in globals().values() if isinstance(case, type) and issubclass(case, Labels)]
    return run_together(loader, [case for case in cases if case not in (Labels, Nccl)], AT_ONCE)


if __name__ == "__main__":
    unittest.main(verbosity=2)

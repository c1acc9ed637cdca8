#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""As many graph nodes as a server has at most, captured on several threads at once: every one of them keeps its size."""
import collections
import concurrent.futures
import json
import re
import time
import unittest

from node import NodeTest, wait_for

RANKS = 2
THREADS = 8
GRAPHS = 32
NODES = 6400  # of each graph, all of them collectives
SIZES = 64
RING_MIB = 16  # holds one replay of all
# What docs/overhead.md allows, with a ring of the default size.
MEMORY_BYTES = (32 - 8 + RING_MIB) << 20
LINE = re.compile(rb'"pid":(\d+).*?"start_ns":(\d+).*?"bytes":(\d+|null).*?"node":(\d+|null)')


def sizes_of(graph):
    """Messages of a graph, in its order: any two neighbours differ, and so do any two graphs' beginnings."""
    return [1024 * ((2 * graph + at % 4) % SIZES + 1) for at in range(NODES)]


def write_scenario(path):
    """One in eight is NCCL's, on communicators that several threads share; the others are custom all-reduces."""
    lines = ["scenario crowd", f"ranks {RANKS}", "steps 1", "period_us 1000000", f"capture_threads {THREADS}"]
    lines += [f"comm c{number} size {RANKS}" for number in range(4)]
    for number in range(SIZES):
        impl = f"nccl comm c{number // 8 % 4}" if number % 8 == 1 else "vllm_custom"
        lines.append(f"op a{number} collective impl {impl} bytes {1024 * (number + 1)} us 2")
    for graph in range(GRAPHS):
        lines += [f"graph g{graph} phase decode", f"repeat {NODES // 4}"]
        lines += [f"run a{size // 1024 - 1}" for size in sizes_of(graph)[:4]]
        lines += ["end", "end"]
    lines += ["step", *(f"launch g{graph}" for graph in range(GRAPHS)), "end"]
    path.write_text("\n".join(lines) + "\n")


class Crowd(NodeTest):
    most = collections.Counter()  # by process, what status said at any time

    @classmethod
    def prepare(cls):
        scenario = cls.node.directory.parent / "crowd.scn"
        write_scenario(scenario)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            playing = pool.submit(cls.node.play, scenario.with_suffix(""), flags=("--linger", "4"),
                                  COLLSCOPE_RING_MIB=RING_MIB)
            wait_for(lambda: playing.done() or len(list(cls.node.directory.glob("*.seg"))) == RANKS, "traced processes")
            # With sanitizers the capture takes its time.
            while not playing.done() and not cls.all_recorded():
                time.sleep(0.2)
            playing.result()
        cls.all_recorded()
        cls.found = collections.defaultdict(list)
        lines = cls.node.collscope("dump", "--kind", "collective").encode()
        for pid, start, size, node in LINE.findall(lines):
            cls.found[int(pid)].append((int(start), size, node))

    @classmethod
    def all_recorded(cls):
        cls.processes = json.loads(cls.node.collscope("status", "--json"))["processes"]
        for process in cls.processes:
            for key in ("nodes_labelled", "host_memory_bytes"):
                cls.most[process["pid"], key] = max(cls.most[process["pid"], key], process[key])
        return (len(cls.processes) == RANKS and
                all(process["records"]["collective"] == GRAPHS * NODES for process in cls.processes))

    def test_there_are_as_many(self):
        self.assertGreaterEqual(GRAPHS * NODES, 200_000)
        for process in self.processes:
            self.assertGreaterEqual(self.most[process["pid"], "nodes_labelled"], GRAPHS * NODES)

    def test_every_size(self):
        """In the order in which they ran."""
        expected = [size for graph in range(GRAPHS) for size in sizes_of(graph)]
        self.assertEqual(set(self.found), {rank["pid"] for rank in self.node.truth["ranks"]})
        for pid, records in self.found.items():
            found = sorted(records)
            self.assertEqual(len(found), len(expected))
            self.assertEqual(len({node for _, _, node in found}), len(expected))
            wrong = [(at, size, known) for at, ((_, size, _), known) in enumerate(zip(found, expected))
                     if size != b"%d" % known]
            self.assertEqual((len(wrong), wrong[:10]), (0, []), pid)

    def test_nothing_is_lost(self):
        for process in self.processes:
            self.assertEqual(set(process["records_lost"].values()), {0}, process["records_lost"])
            self.assertEqual(set(process["unlabelled"].values()), {0}, process["unlabelled"])

    def test_memory(self):
        for process in self.processes:
            self.assertLessEqual(self.most[process["pid"], "host_memory_bytes"], MEMORY_BYTES)

    def test_host_saw_nothing(self):
        self.assertEqual("".join(self.node.errors()), "")


if __name__ == "__main__":
    unittest.main(verbosity=2)

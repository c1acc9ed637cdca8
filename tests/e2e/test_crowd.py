#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""As many graph nodes as a server has at most, captured on several threads at once: every one of them keeps its size."""
import collections
import concurrent.futures
import json
import re
import signal
import subprocess
import unittest

from node import COMMAND, NodeTest, clean_environment, wait_for

RANKS = 2
THREADS = 8
GRAPHS = 32
NODES = 6400  # of each graph, all of them collectives
SIZES = 64
MEMORY_BYTES = 32 << 20  # what docs/overhead.md allows
LINE = re.compile(rb'"pid":(\d+).*?"start_ns":(\d+).*?"bytes":(\d+|null).*?"node":(\d+|null)')


def sizes_of(graph):
    """Messages of a graph, in its order: any two neighbours differ, and so do any two graphs' beginnings."""
    return [1024 * ((2 * graph + at % 4) % SIZES + 1) for at in range(NODES)]


def write_scenario(path):
    """Custom all-reduces and NCCL's in turn; NCCL's on communicators that several threads share."""
    lines = ["scenario crowd", f"ranks {RANKS}", "steps 1", "period_us 1000000", f"capture_threads {THREADS}"]
    lines += [f"comm c{number} size {RANKS}" for number in range(4)]
    for number in range(SIZES):
        impl = f"nccl comm c{number % 4}" if number % 2 else "vllm_custom"
        lines.append(f"op a{number} collective impl {impl} bytes {1024 * (number + 1)} us 7")
    for graph in range(GRAPHS):
        lines += [f"graph g{graph} phase decode", f"repeat {NODES // 4}"]
        lines += [f"run a{size // 1024 - 1}" for size in sizes_of(graph)[:4]]
        lines += ["end", "end"]
    lines += ["step", *(f"launch g{graph}" for graph in range(GRAPHS)), "end"]
    path.write_text("\n".join(lines) + "\n")


def count_lines(path):
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


class Crowd(NodeTest):
    @classmethod
    def prepare(cls):
        scenario = cls.node.directory.parent / "crowd.scn"
        write_scenario(scenario)
        output = scenario.with_suffix(".jsonl")
        with concurrent.futures.ThreadPoolExecutor(1) as pool, output.open("wb") as file:
            playing = pool.submit(cls.node.play, scenario.with_suffix(""), flags=("--linger", "4"))
            wait_for(lambda: playing.done() or len(list(cls.node.directory.glob("*.seg"))) == RANKS, "traced processes")
            # A ring of the default size holds less than one replay of all graphs: it is read meanwhile.
            following = subprocess.Popen([COMMAND, "dump", "--follow", "--kind", "collective"], stdout=file,
                                         env=clean_environment(COLLSCOPE_DIR=cls.node.directory))
            try:
                wait_for(lambda: playing.done() or cls.all_recorded(), "every replayed node is recorded")
                playing.result()
                wait_for(lambda: count_lines(output) >= RANKS * GRAPHS * NODES, "every record is read")
            finally:
                following.send_signal(signal.SIGINT)
                following.wait()
        cls.found = collections.defaultdict(list)
        for pid, start, size, node in LINE.findall(output.read_bytes()):
            cls.found[int(pid)].append((int(start), size, node))

    @classmethod
    def all_recorded(cls):
        cls.processes = json.loads(cls.node.collscope("status", "--json"))["processes"]
        return (len(cls.processes) == RANKS and
                all(process["records"]["collective"] == GRAPHS * NODES for process in cls.processes))

    def test_there_are_as_many(self):
        self.assertGreaterEqual(GRAPHS * NODES, 200_000)
        self.assertEqual([process["nodes_labelled"] for process in self.processes], RANKS * [GRAPHS * NODES])

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
            self.assertLessEqual(process["host_memory_bytes"], MEMORY_BYTES)

    def test_host_saw_nothing(self):
        self.assertEqual("".join(self.node.errors()), "")


if __name__ == "__main__":
    unittest.main(verbosity=2)

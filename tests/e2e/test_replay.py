#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Segments of two real GPUs (tests/data/two_gpus): what is known of those runs must be told by this build, too."""
import json
import lzma
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "gpu"))
import truths as must  # noqa: E402

DATA = ROOT / "tests" / "data" / "two_gpus"
COMMAND = os.environ["CS_COMMAND"]


class Replay(unittest.TestCase):
    def replay(self, name):
        """What `collscope dump` prints for the segments of that name, and what their programs said of themselves."""
        with tempfile.TemporaryDirectory(prefix="collscope-replay-") as directory:
            kept = sorted(DATA.glob(f"{name}.*.seg.xz"))
            self.assertEqual(len(kept), 2)
            for path in kept:
                target = pathlib.Path(directory) / path.name.removeprefix(f"{name}.").removesuffix(".xz")
                target.write_bytes(lzma.decompress(path.read_bytes()))
                target.chmod(0o600)
            done = subprocess.run([COMMAND, "dump", "--format", "jsonl"], env=dict(os.environ, COLLSCOPE_DIR=directory),
                                  capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        objects = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([o for o in objects if o["kind"] == "loss"], [])
        return objects, json.loads((DATA / f"{name}.truth.json").read_text())

    def hold(self, found):
        for what, good, detail in found:
            with self.subTest(what):
                self.assertTrue(good, detail)

    def test_nccl_in_a_graph(self):
        self.hold(must.graph(*self.replay("nccl-graph")))

    def test_nccl_through_host_memory(self):
        self.hold(must.graph(*self.replay("nccl-host-memory")))

    def test_custom_one_shot(self):
        self.hold(must.standin(*self.replay("custom-one-shot")))

    def test_two_communicators_at_once(self):
        self.hold(must.two_communicators(*self.replay("two-communicators")))

    def test_late_rank(self):
        self.hold(must.late(self.replay("late-rank")[0], 80, "nccl", 3))


if __name__ == "__main__":
    unittest.main()

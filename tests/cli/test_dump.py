# SPDX-License-Identifier: Apache-2.0
"""collscope dump: exactly what was written comes out, of running and of dead processes."""
import json
import os
import pathlib
import subprocess
import threading
import time
import unittest

import cli

LAUNCHES, PER_LAUNCH = 3, 10


class Dump(cli.Test):
    def check_records(self, objects, writer, rank=0):
        """Every record of segment_writer.c, value by value."""
        graph = [o for o in cli.of_kind(objects, "collective") if o["impl"] == "vllm_custom"]
        expected = []
        at = writer.base_ns
        for launch in range(LAUNCHES):
            for i in range(PER_LAUNCH):
                expected.append((at, at + 200000 + i, 500 + launch, 1000 + i))
                at += 250000
            at += 2000000
        self.assertEqual(sorted((o["start_ns"], o["end_ns"], o["correlation"], o["node"]) for o in graph), expected)
        for o in graph:
            fixed = {k: o[k] for k in ("pid", "gpu", "rank", "world", "op", "impl", "bytes", "dtype", "reduction", "algorithm",
                                       "protocol", "graph", "stream", "kernel", "communicator", "size_from", "fused", "part")}
            self.assertEqual(fixed, {
                "pid": writer.pid, "gpu": 3 + rank, "rank": rank, "world": 2, "op": "all_reduce", "impl": "vllm_custom",
                "bytes": cli.MESSAGE_BYTES, "dtype": "bfloat16", "reduction": "sum", "algorithm": "one_shot", "protocol": None,
                "graph": 9, "stream": 7, "kernel": cli.KERNEL, "communicator": "fedcba9876543210",
                "size_from": "launch_parameters", "fused": False, "part": False})
        (eager,) = [o for o in cli.of_kind(objects, "collective") if o["impl"] == "nccl"]
        self.assertEqual((eager["op"], eager["bytes"], eager["graph"], eager["node"], eager["dtype"], eager["start_ns"]),
                         ("all_gather", None, None, None, None, at))
        (mark,) = cli.of_kind(objects, "mark")
        self.assertEqual((mark["name"], mark["thread"], mark["nesting"], mark["start_ns"], mark["end_ns"]),
                         ('decode "step"', 4242, 1, writer.base_ns, at))
        (launch,) = cli.of_kind(objects, "host_launch")
        self.assertEqual((launch["graph"], launch["correlation"], launch["op"], launch["bytes"]), (9, 500, None, None))
        (window,) = cli.of_kind(objects, "window")
        self.assertEqual((window["depth"], window["window"], window["graph_launches"], window["foreign"], window["start_ns"]),
                         ("deep", 1, 3, False, writer.base_ns - 1000))
        (loss,) = cli.of_kind(objects, "loss")
        self.assertEqual((loss["cause"], loss["count"], loss["start_ns"], loss["end_ns"]), ("cupti_dropped", 5, at + 89000, at + 90000))

    def test_impossible_times(self):
        """Of a hundred years from now: nothing can be made of them, and that is said."""
        self.write(launches=LAUNCHES, collectives=PER_LAUNCH, age_ms=-100 * 365 * 86400_000)
        for words in (["dump"], ["status", "--collectives"]):
            done = self.run_command(*words)
            self.assertRegex(done.stderr, r"warn: ([0-9]+ records are left out, as their|1 record is left out, as its) time cannot be, or for want of memory\n")
        self.assertEqual(cli.of_kind(self.dump(), "collective"), [])

    def test_clock_set_back(self):
        """Two ranks, of each the records of an hour ahead before those of now: all are steps, matched with each other."""
        writers = [self.write(rank=rank, world=2, launches=LAUNCHES, collectives=PER_LAUNCH, age_ms=-3600_000, hold=1) for rank in range(2)]
        for writer in writers:
            writer.write_more()
        steps = [o for o in self.dump("--kind", "step") if o["collectives"] == PER_LAUNCH]
        for writer in writers:
            self.assertEqual(len([o for o in steps if o["pid"] == writer.pid]), 2 * LAUNCHES)

    def test_rule_by_range(self):
        """The range holds the first launch's call and, as the others' calls were not seen, their steps."""
        self.write()
        rules = pathlib.Path(self.dir).with_name("rules")
        rules.write_text("prefill range=decode*\n")
        objects = self.dump("--steps", str(rules))
        steps = [(o["phase"], o["phase_rule"], o["phase_line"]) for o in cli.of_kind(objects, "step") if o["graph"]]
        self.assertEqual(steps, LAUNCHES * [("prefill", "user", 1)])

    def test_dead_process(self):
        writer = self.write()
        objects = self.dump()
        self.check_records(objects, writer)
        (process,) = cli.of_kind(objects, "process")
        self.assertEqual((process["pid"], process["alive"], process["rank"], process["world"], process["command"],
                          process["segment"], process["nccl"], process["pod"]),
                         (writer.pid, False, 0, 2, 'server "quoted" \\ é', writer.path, "2.28.9", None))

    def test_running_process(self):
        writer = self.write(hold=1)
        objects = self.dump()
        self.check_records(objects, writer)
        self.assertTrue(cli.of_kind(objects, "process")[0]["alive"])

    def test_steps_hold_the_launches(self):
        writer = self.write()
        objects = self.dump()
        steps = [s for s in cli.of_kind(objects, "step") if s["graph"] == 9]
        self.assertEqual(len(steps), LAUNCHES)
        graph = [o for o in cli.of_kind(objects, "collective") if o["graph"] == 9]
        for step in steps:
            inside = [o for o in graph if o["step"] == step["step"]]
            self.assertEqual(len(inside), PER_LAUNCH)
            self.assertEqual({o["correlation"] for o in inside}, {step["correlation"]})
            self.assertEqual(step["collectives"], PER_LAUNCH)
            self.assertEqual(sorted(o["ordinal"] for o in inside), list(range(PER_LAUNCH)))
            self.assertEqual(step["start_ns"], min(o["start_ns"] for o in inside))
            self.assertEqual(step["pid"], writer.pid)

    def test_several_processes(self):
        writers = [self.write(rank=1), self.write(rank=0, hold=1)]
        objects = self.dump()
        for rank, writer in ((1, writers[0]), (0, writers[1])):
            self.check_records([o for o in objects if o["pid"] == writer.pid], writer, rank=rank)
        mine = self.dump("--pid", writers[0].pid)
        self.assertEqual({o["pid"] for o in mine}, {writers[0].pid})
        self.check_records(mine, writers[0], rank=1)

    def test_kinds(self):
        self.write()
        self.assertEqual({o["kind"] for o in self.dump("--kind", "window", "-k", "mark")}, {"window", "mark"})
        self.assertEqual(len(self.dump("-kcollective")), LAUNCHES * PER_LAUNCH + 1)

    def test_since(self):
        self.write(age_ms=3600_000)
        young = self.write(age_ms=1000)
        objects = self.dump("--since", "10m", "--kind", "collective")
        self.assertEqual({o["pid"] for o in objects}, {young.pid})
        self.assertEqual(len(objects), LAUNCHES * PER_LAUNCH + 1)
        self.assertEqual(self.dump("--since", "1ns", "--kind", "collective"), [])

    def test_text(self):
        writer = self.write()
        text = self.run_command("dump", "--format", "text").stdout
        lines = [l for l in text.splitlines() if " collective:" in l]
        self.assertEqual(len(lines), LAUNCHES * PER_LAUNCH + 1)
        self.assertIn(f"pid={writer.pid} collective: gpu=3 rank=0 all_reduce vllm_custom 42 KiB bfloat16", lines[0])
        self.assertIn("loss: cause=cupti_dropped count=5", text)

    def test_follow_ends_with_its_process(self):
        writer = self.write()
        self.check_records(self.dump("--follow", "--pid", writer.pid), writer)

    def follow(self, writer, *words):
        process = subprocess.Popen([cli.COMMAND, "dump", "--follow", "--pid", str(writer.pid), *words], env=self.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.assertEqual(json.loads(process.stdout.readline())["kind"], "process")
        return process

    @staticmethod
    def rest(process):
        """Not communicate(): it forgets what readline() has read ahead. Both texts fit into the pipes."""
        out, err = process.stdout.read(), process.stderr.read()
        process.stdout.close()
        process.stderr.close()
        process.wait(timeout=60)
        return out, err

    def test_follow_sees_what_comes_later(self):
        writer = self.write(hold=1)
        process = self.follow(writer)
        base_ns = writer.write_more()
        writer.close()
        out, err = self.rest(process)
        self.assertEqual((process.returncode, err), (0, ""))
        seen = [o for o in map(json.loads, out.splitlines()) if o["kind"] == "collective" and o["graph"] == 9]
        self.assertEqual(len(seen), 2 * LAUNCHES * PER_LAUNCH)
        self.assertEqual(len([o for o in seen if o["start_ns"] >= base_ns]), LAUNCHES * PER_LAUNCH)

    @staticmethod
    def has_segments(process):
        """Mapped or open by the command: what keeps the memory of a file that has been removed."""
        def target(link):
            try:
                return os.readlink(link)
            except FileNotFoundError:
                return ""
        proc = pathlib.Path(f"/proc/{process.pid}")
        return ".seg" in (proc / "maps").read_text() or any(".seg" in target(link) for link in (proc / "fd").iterdir())

    def wait_for(self, reached, what):
        deadline = time.monotonic() + 60
        while not reached():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def test_follow_lets_go_of_processes_that_end(self):
        """Whether their files stay or are removed. All that they wrote comes out, once."""
        process = subprocess.Popen([cli.COMMAND, "dump", "--follow"], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        lines, counts = [], {}
        reader = threading.Thread(target=lambda: lines.extend(process.stdout))
        reader.start()

        def seen(kind):
            return [o for o in map(json.loads, list(lines)) if o["kind"] == kind]

        def collectives():
            return {pid: len([o for o in seen("collective") if o["pid"] == pid and o["graph"] == 9]) for pid in counts}

        # The first ones have been forgotten, which takes five seconds, before the last ones' results come, which takes two.
        for turn in range(4):
            writers = [self.write(hold=1, rank=rank, launches=LAUNCHES, collectives=PER_LAUNCH) for rank in range(2)]
            self.wait_for(lambda: {w.pid for w in writers} <= {o["pid"] for o in seen("process")}, "two processes")
            self.assertTrue(self.has_segments(process))
            writers[1].write_more()
            for rank, writer in enumerate(writers):
                counts[writer.pid] = (1 + rank) * LAUNCHES * PER_LAUNCH
                writer.close()
                if turn != 1:
                    os.unlink(writer.path)
            self.wait_for(lambda: not self.has_segments(process), "the files closed")
            self.wait_for(lambda: collectives() == counts, "all collectives")
        self.assertEqual(sorted(o["pid"] for o in seen("process")), sorted(counts))
        process.kill()
        reader.join()
        self.assertNotIn("error: ", process.stderr.read())
        process.stdout.close()
        process.stderr.close()
        process.wait(timeout=60)

    def test_follow_survives_a_file_that_shrinks(self):
        writer = self.write(hold=1)
        process = self.follow(writer)
        os.truncate(writer.path, 8192)
        _, err = self.rest(process)
        self.assertEqual(process.returncode, 2)
        self.assertIn("Cannot read segment", err)

    def test_nothing(self):
        done = self.run_command("dump", status=1)
        self.assertEqual(done.stdout, "")
        self.assertIn("No traced process", done.stderr)
        self.run_command("dump", "--dir", os.path.join(self.dir, "none"), status=1)

    def test_old_records_are_overwritten_and_the_rest_is_whole(self):
        writer = self.write(launches=600, collectives=10)
        seen = [o for o in self.dump("-k", "collective") if o["impl"] == "vllm_custom"]
        ring = 4096 - 5  # the writer's slots, less the other records
        self.assertGreater(len(seen), ring - 64)
        self.assertLessEqual(len(seen), ring)
        self.assertEqual({o["bytes"] for o in seen}, {cli.MESSAGE_BYTES})
        self.assertEqual({o["correlation"] for o in seen} - set(range(500, 1100)), set())
        self.assertEqual(writer.process.returncode, 0)
        self.assertLess(time.time_ns() - max(o["end_ns"] for o in seen), 3600e9)

    def test_bad_rule_file(self):
        self.write()
        done = self.run_command("dump", "--steps", os.path.join(self.dir, "none.rules"), status=2)
        self.assertIn("none.rules", done.stderr)


unittest.main()

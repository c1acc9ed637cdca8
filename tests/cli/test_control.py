# SPDX-License-Identifier: Apache-2.0
"""collscope trace, pause, resume: what arrives in the control block, and what is said when it does not."""
import errno
import os
import time
import unittest

import cli

TRACE, PAUSE, RESUME = 1, 2, 3


class Control(cli.Test):
    def test_trace_all_at_one_moment(self):
        writers = [self.write(rank=r, hold=1) for r in range(3)]
        before = time.time_ns()
        self.assertIn("Tracing 3 processes for 2.00 s", self.run_command("trace", "--seconds", 2, "--all").stderr)
        for writer in writers:
            writer.close()
        requests = {tuple(w.requests) for w in writers}
        self.assertEqual(len(requests), 1, "every process got the same request")
        ((command, from_ns, until_ns),) = requests.pop()
        self.assertEqual((command, until_ns - from_ns), (TRACE, 2_000_000_000))
        self.assertGreater(from_ns, before)

    def test_trace_wait(self):
        writer = self.write(hold=1)
        self.run_command("trace", "-s", "300ms", "--wait")
        returned = time.time_ns()
        writer.close()
        self.assertGreaterEqual(returned, writer.requests[0][2])

    def test_pause_and_resume_one(self):
        chosen, other = self.write(rank=0, hold=1), self.write(rank=1, hold=1)
        self.run_command("pause", "--pid", chosen.pid)
        self.run_command("resume", "-p", chosen.pid)
        chosen.close()
        other.close()
        self.assertEqual([r[0] for r in chosen.requests], [PAUSE, RESUME])
        self.assertEqual(other.requests, [])

    def test_which_of_several(self):
        writers = [self.write(rank=r, hold=1) for r in range(2)]
        self.assertIn("--all", self.run_command("pause", status=2).stderr)
        self.run_command("pause", "--all", "--pid", writers[0].pid, status=2)
        for writer in writers:
            writer.close()
            self.assertEqual(writer.requests, [])

    def test_refusal(self):
        self.write(hold=1, answer=errno.ENOTSUP)
        good = self.write(rank=1, hold=1)
        done = self.run_command("trace", "--seconds", "1", "--all", status=2)
        self.assertIn("refuses", done.stderr)
        self.assertIn("Tracing 1 process ", done.stderr)
        good.close()
        self.assertEqual(len(good.requests), 1)

    def test_no_answer(self):
        writer = self.write(hold=1, answer=-1)
        self.assertIn(f"Process {writer.pid} has not answered", self.run_command("pause", status=2).stderr)

    def test_nobody(self):
        self.run_command("pause", "--all", status=1)
        dead = self.write()
        self.run_command("trace", "--seconds", "1", "--pid", dead.pid, status=1)

    def test_usage(self):
        for words in (["trace"], ["trace", "--seconds", "0"], ["trace", "--seconds", "x"], ["trace", "--seconds", "-1"],
                      ["pause", "--seconds", "1"], ["pause", "--pid", "x"], ["resume", "now"]):
            done = self.run_command(*words, status=2)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    @unittest.skipIf(os.geteuid() == 0, "root may write everything")
    def test_read_only_segment(self):
        writer = self.write(hold=1)
        os.chmod(writer.path, 0o400)
        self.assertIn("user of that process", self.run_command("pause", status=2).stderr)


unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""collscope trace, pause, resume: what arrives in the control block, and what is said when it does not."""
import errno
import os
import time
import unittest

import cli

TRACE, PAUSE, RESUME, CANCEL = 1, 2, 3, 4


class Control(cli.Test):
    def asked(self, writer):
        """Its requests, but for tries of a trace that were too late for somebody: taken back, and made again."""
        kept = []
        for request in writer.requests:
            kept.append(request)
            if [r[0] for r in kept[-3:]] == [TRACE, CANCEL, TRACE]:
                self.assertEqual(kept[-3][1:3], kept[-2][1:3], "the same trace")
                del kept[-3:-1]
        return kept

    def test_trace_all_at_one_moment(self):
        writers = [self.write(rank=r, hold=1) for r in range(3)]
        before = time.time_ns()
        self.assertIn("Tracing 3 processes for 2.00 s", self.run_command("trace", "--seconds", 2, "--all").stderr)
        for writer in writers:
            writer.close()
        requests = {tuple(self.asked(w)) for w in writers}
        self.assertEqual(len(requests), 1, "every process got the same request")
        ((command, from_ns, until_ns, share),) = requests.pop()
        self.assertEqual((command, until_ns - from_ns, share), (TRACE, 2_000_000_000, 0))
        self.assertGreater(from_ns, before)

    def test_trace_wait(self):
        writer = self.write(hold=1)
        self.run_command("trace", "-s", "300ms", "--wait")
        returned = time.time_ns()
        writer.close()
        self.assertGreaterEqual(returned, self.asked(writer)[0][2])

    def test_pause_and_resume_one(self):
        # Two servers; what is no NCCL communicator has the same hash in both.
        chosen, other = self.write(rank=0, hold=1, group=1), self.write(rank=1, hold=1, group=2)
        self.run_command("pause", "--pid", chosen.pid)
        self.run_command("resume", "-p", chosen.pid)
        chosen.close()
        other.close()
        self.assertEqual([r[0] for r in self.asked(chosen)], [PAUSE, RESUME])
        self.assertEqual(other.requests, [])

    def test_which_of_several(self):
        writers = [self.write(rank=r, hold=1) for r in range(2)]
        self.assertIn("--all", self.run_command("pause", status=2).stderr)
        self.run_command("pause", "--all", "--pid", writers[0].pid, status=2)
        for writer in writers:
            writer.close()
            self.assertEqual(writer.requests, [])

    def refused(self, error, says, *words, **options):
        """One of two processes answers with this error: none traces, the other has taken it back."""
        self.write(hold=1, answer=error, **options)
        good = self.write(rank=1, hold=1)
        done = self.run_command("trace", "--seconds", "1", "--all", *words, status=2)
        self.assertRegex(done.stderr, says)
        self.assertIn("Nothing is traced: all 2 processes", done.stderr)
        good.close()
        requests = self.asked(good)
        # One that was not on the processor in time finds only what takes it back.
        self.assertIn([request[0] for request in requests], ([TRACE, CANCEL], [CANCEL]))
        self.assertEqual(len({request[1:3] for request in requests}), 1, "the same trace")

    def test_refusal(self):
        self.refused(errno.ENOTSUP, "Process .* refuses: Operation not supported")

    def test_busy(self):
        self.refused(errno.EBUSY, "refuses: it is yielded: Another tool", state=4, reason="Another tool has CUPTI")

    def test_paused_is_said_once(self):
        for rank in range(3):
            self.write(rank=rank, hold=1, answer=errno.EBUSY, state=5, reason="Paused on request")
        said = self.run_command("trace", "--seconds", "1", "--all", status=2).stderr.splitlines()
        self.assertEqual(len(said), 2, said)
        self.assertIn("All 3 processes are paused: `collscope resume --all` first", said[0])

    def test_one_of_several_is_paused(self):
        paused = self.write(hold=1, answer=errno.EBUSY, state=5, group=1)
        self.write(rank=1, hold=1, group=1)
        self.assertIn(f"Process {paused.pid} is paused: `collscope resume --pid {paused.pid}` first",
                      self.run_command("trace", "--seconds", "1", "--pid", paused.pid, status=2).stderr)

    def test_traced_already(self):
        writers = [self.write(rank=rank, hold=1, answer=errno.EALREADY, asked_ms=3600000) for rank in range(2)]
        said = self.run_command("trace", "--seconds", "1", "--all", status=2).stderr
        self.assertRegex(said, r"All 2 processes are traced on request already, until \d\d:\d\d:\d\dZ \(in (1 h 00 m|59 m \d\d s)\): "
                               r"wait, or end that trace with --replace")
        for writer in writers:
            writer.close()
            self.assertEqual([r[0] for r in self.asked(writer)], [TRACE, CANCEL])

    def test_replace(self):
        writer = self.write(hold=1, asked_ms=3600000)
        self.run_command("trace", "--seconds", "1", "--replace", "--budget", "0.5")
        writer.close()
        self.assertEqual([r[3] for r in self.asked(writer)], [(1 << 32) + 500000])

    def test_pause_says_how_many_it_paused(self):
        paused = [self.write(rank=rank, hold=1, state=5) for rank in range(2)]
        said = "collscope: info: Nothing to pause: all 2 processes were paused already"
        self.assertEqual(self.run_command("pause", "--all").stderr, said + "\n")
        self.assertEqual(self.run_command("pause", "--all", "--release").stderr,
                         said + "; CUPTI's subscription is given up as far as it was held\n")
        self.assertIn("Nothing to pause: the process was paused already\n", self.run_command("pause", "--pid", paused[0].pid, "--only").stderr)
        running = self.write(rank=2, hold=1)
        self.assertEqual(self.run_command("pause", "--all").stderr, "collscope: info: Paused 1 of 3 processes: the others were paused already\n")
        self.assertEqual(self.run_command("pause", "--pid", running.pid, "--only").stderr, "collscope: info: Paused 1 process\n")
        for writer, asked in zip(paused + [running], (4, 3, 2)):
            writer.close()
            self.assertEqual([request[0] for request in writer.requests], [PAUSE] * asked, "all are asked: who knows what has changed meanwhile")

    def test_pause_tells_of_the_trace_that_it_ends(self):
        self.write(rank=0, hold=1, asked_ms=3600000)
        self.write(rank=1, hold=1)
        self.assertRegex(self.run_command("pause", "--all").stderr,
                         r"That ended the trace of 1 process that was to go on until \d\d:\d\d:\d\dZ \(in ")
        self.assertNotIn("ended the trace", self.run_command("resume", "--all").stderr)

    def test_too_long(self):
        self.refused(errno.ERANGE, r"may be traced for 5\.00 s at most \(COLLSCOPE_TRACE_MAX_S\)", trace_max_s=5)

    def test_too_long_for_one_that_has_only_begun(self):
        """It had not said yet what it allows when it was found."""
        self.refused(errno.ERANGE, r"may be traced for 5\.00 s at most", trace_max_s=5, late=1)

    def test_not_allowed(self):
        self.refused(errno.EPERM, "COLLSCOPE_TRACE_MAX_S=0")

    def test_what_all_answer_is_said_once(self):
        for number, (options, says) in enumerate((
                ({"answer": errno.ERANGE, "trace_max_s": 5},
                 "All 3 processes refuse: they may be traced for 5.00 s at most (COLLSCOPE_TRACE_MAX_S)"),
                ({"answer": errno.EPERM}, "All 3 processes refuse: they may not be traced on request (COLLSCOPE_TRACE_MAX_S=0)"),
                ({"answer": errno.EBUSY, "state": 4, "reason": "Another tool has CUPTI"},
                 "All 3 processes refuse: they are yielded: Another tool has CUPTI"))):
            writers = [self.write(rank=rank, hold=1, group=number + 1, **options) for rank in range(3)]
            said = self.run_command("trace", "--seconds", "1", "--all", status=2).stderr.splitlines()
            self.assertEqual(said, ["collscope: error: " + says, "collscope: error: Nothing is traced: all 3 processes have to begin together"])
            for writer in writers:
                writer.close()
                os.unlink(writer.path)

    def test_what_differs_is_said_apart(self):
        for rank, most in enumerate((5, 7, 5)):
            self.write(rank=rank, hold=1, answer=errno.ERANGE, trace_max_s=most)
        said = self.run_command("trace", "--seconds", "9", "--all", status=2).stderr
        self.assertIn("2 of 3 processes refuse: they may be traced for 5.00 s at most", said)
        self.assertRegex(said, r"Process \d+ refuses: it may be traced for 7\.00 s at most")

    def test_resume_tells_whom(self):
        running = [self.write(rank=rank, hold=1) for rank in range(2)]
        self.assertEqual(self.run_command("resume", "--all").stderr, "collscope: info: Nothing to resume: no process was paused\n")
        self.assertIn("the process was not paused", self.run_command("resume", "--pid", running[0].pid, "--only").stderr)
        paused = self.write(rank=2, hold=1, state=5)
        self.assertIn("Resumed 1 of 3 processes: the others were not paused", self.run_command("resume", "--all").stderr)
        self.assertIn("Resumed 1 process\n", self.run_command("resume", "--pid", paused.pid, "--only").stderr)
        for writer in running + [paused]:
            writer.close()
            self.assertEqual({r[0] for r in self.asked(writer)}, {RESUME}, "all are asked: who knows what has changed meanwhile")

    def test_several_dormant(self):
        for rank in range(2):
            self.write(rank=rank, hold=1, answer=-1, state=6, reason="no libcupti.so was found")
        self.assertEqual(self.run_command("pause", "--all", status=2).stderr,
                         "collscope: error: 2 processes are dormant: no libcupti.so was found\n")

    def test_dormant(self):
        """It answers nobody, so it is not asked; the others are traced."""
        dormant = self.write(hold=1, answer=-1, state=6, group=1, reason="no libcupti.so was found")
        good = self.write(rank=1, hold=1, group=2)
        done = self.run_command("trace", "--seconds", "1", "--all", status=2)
        self.assertIn(f"Process {dormant.pid} is dormant: no libcupti.so was found", done.stderr)
        self.assertIn("Tracing 1 process ", done.stderr)
        self.assertIn("is dormant", self.run_command("pause", "--pid", dormant.pid, status=2).stderr)
        good.close()
        self.assertEqual([request[0] for request in self.asked(good)], [TRACE])

    def test_no_answer(self):
        """A stopped process finds the cancellation, not the request, when it goes on; the other one is asked twice, for the
        second start is later."""
        silent = self.write(hold=1, answer=-1)
        good = self.write(rank=1, hold=1)
        done = self.run_command("trace", "--seconds", "1", "--all", status=2)
        self.assertIn(f"Process {silent.pid} has not answered", done.stderr)
        with open(silent.path, "rb") as segment:
            data = segment.read(8192)
        section = next(data[i:i + 32] for i in range(240, 752, 32) if data[i] == 1)
        offset = int.from_bytes(section[8:16], "little")
        self.assertEqual(int.from_bytes(data[offset + 8:offset + 16], "little"), CANCEL)
        good.close()
        self.assertEqual([request[0] for request in good.requests], [TRACE, CANCEL, TRACE, CANCEL])

    def test_pause_holds_for_the_others(self):
        silent = self.write(hold=1, answer=-1)
        good = self.write(rank=1, hold=1)
        done = self.run_command("pause", "--all", status=2)
        self.assertIn(f"Process {silent.pid} has not answered", done.stderr)
        self.assertIn("Paused 1 process", done.stderr)
        good.close()
        self.assertEqual([request[0] for request in self.asked(good)], [PAUSE])

    def test_pause_tells_of_the_subscription(self):
        writer = self.write(hold=1, subscribed=1)
        self.assertIn(f"Process {writer.pid} still holds CUPTI's subscription", self.run_command("pause").stderr)
        self.run_command("pause", "--release")
        writer.close()
        self.assertEqual([(r[0], r[3]) for r in self.asked(writer)], [(PAUSE, 0), (PAUSE, 1)])
        free = self.write(hold=1, subscribed=0)
        self.assertNotIn("subscription", self.run_command("pause", "--pid", free.pid).stderr)

    def test_budget(self):
        writer = self.write(hold=1)
        self.run_command("trace", "--seconds", "1", "--budget", "0.025")
        writer.close()
        self.assertEqual(self.asked(writer)[0][3], 25000)

    def test_group(self):
        """--pid takes the ranks of the same NCCL communicator along, --only does not."""
        ranks = [self.write(rank=r, hold=1, group=1) for r in range(2)]
        others = [self.write(rank=0, hold=1, group=2), self.write(rank=1, hold=1)]
        self.assertIn("Tracing 2 processes", self.run_command("trace", "--seconds", "1", "--pid", ranks[0].pid).stderr)
        self.run_command("pause", "--pid", ranks[1].pid, "--only")
        for writer in ranks + others:
            writer.close()
        self.assertEqual([[r[0] for r in self.asked(w)] for w in ranks + others], [[TRACE], [TRACE, PAUSE], [], []])

    def test_one_that_is_not_there(self):
        writer = self.write(hold=1, group=1)
        self.assertIn(f'No traced process of pid 1 in "{self.dir}"\n', self.run_command("pause", "--pid", writer.pid, "--pid", 1, status=1).stderr)
        writer.close()
        self.assertEqual(writer.requests, [])

    def test_nobody(self):
        self.run_command("pause", "--all", status=1)
        dead = self.write()
        self.run_command("trace", "--seconds", "1", "--pid", dead.pid, status=1)

    def test_usage(self):
        for words in (["trace"], ["trace", "--seconds", "0"], ["trace", "--seconds", "x"], ["trace", "--seconds", "-1"],
                      ["pause", "--seconds", "1"], ["pause", "--pid", "x"], ["pause", "--only"],
                      ["trace", "--seconds", "1", "--budget", "0"], ["trace", "--seconds", "1", "--budget", "1.5"], ["resume", "now"]):
            done = self.run_command(*words, status=2)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    @unittest.skipIf(os.geteuid() == 0, "root may write everything")
    def test_read_only_segment(self):
        writer = self.write(hold=1)
        os.chmod(writer.path, 0o400)
        self.assertIn("run this as the user of that process", self.run_command("pause", status=2).stderr)


unittest.main()

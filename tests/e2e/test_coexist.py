#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Beside another tool that traces: the host program lives, whenever the tool comes and whatever collscope does then."""
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from node import COMMAND, clean_environment, scenario_path, wait_for
from program import Program
from together import run_together

HASTE = 30  # the quiet time is one second, a step back two (HACKING.md)
KERNELS_PER_STEP = 25  # of the scenario "small"
OPEN_BUFFER = 2500  # kernels in a window's open buffer, 512 KiB, which are lost to both when another tool comes
AT_ONCE = 6  # they wait most of the time


class Beside(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="collscope-e2e-")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name) / "run"
        self.directory.mkdir(mode=0o700)

    def start(self, *flags, **options):
        options = {"COLLSCOPE_MODE": "demand", "COLLSCOPE_LOG": "info", "CS_TEST_HASTE": HASTE, **options}
        program = Program(self.directory, *flags, **options)
        self.addCleanup(program.close)
        return program

    def end(self, program):
        """It has ended well: (what it said, what the library said)."""
        status, output, errors = program.end()
        self.assertEqual(status, 0, output + errors)
        return output, errors

    def collscope(self, *words, status=0):
        done = subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False,
                              env=clean_environment(COLLSCOPE_DIR=self.directory))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def processes(self):
        return json.loads(self.collscope("status", "--json").stdout)["processes"]

    def status(self):
        return self.processes()[0]

    def segments(self):
        return list(self.directory.glob("*.seg"))

    def dump(self, kind):
        return list(map(json.loads, self.collscope("dump", "--kind", kind).stdout.splitlines()))

    def collectives(self):
        return self.dump("collective")

    def wait_for_windows(self, more=2):
        before = self.status()["windows"]["deep"] if self.segments() else 0
        wait_for(lambda: self.segments() and self.status()["windows"]["deep"] >= before + more, "windows")

    def assert_longer_each_time(self, errors, seconds):
        """At least twice; more often where a session went on for longer than it waited."""
        said = list(map(int, re.findall(r"looking again in (\d+) s", errors)))
        self.assertGreaterEqual(len(said), 2)
        self.assertEqual(said, [seconds[min(i, len(seconds) - 1)] for i in range(len(said))])

    def settled_kernels(self):
        """How many were seen when no more of them come; the program launches on. Two looks alone may be of a library's thread that
        stands still."""
        seen = []

        def none_came():
            seen.append(self.status()["kernels_seen"])
            time.sleep(1)
            return len(seen) >= 3 and len(set(seen[-3:])) == 1
        wait_for(none_came, "no more records")
        return seen[-1]


class DemandModeLeavesCupti(Beside):
    """cuptiFinalize ends a process in which anybody has traced: at its next graph launch, status 1, "unspecified launch
    failure". So each of these launches on after the verdict."""
    VERDICT = {True: "CUPTI has left", False: "CUPTI stays"}

    def verdict(self, program, leaves):
        program.wait_for_word(self.VERDICT[leaves])
        program.go_on(50)

    def ends(self, program, leaves):
        _, errors = self.end(program)
        self.assertIn(self.VERDICT[leaves], errors)
        self.assertNotIn(self.VERDICT[not leaves], errors)
        return errors

    def check_profiler(self, kernels, steps):
        self.assertGreaterEqual(kernels, steps * KERNELS_PER_STEP * 0.8)

    def profiled_before(self, when, **env):
        """By a profiler that comes with the first step and has gone when the quiet time, of ten seconds, is over."""
        program = self.start("--profile", when, CS_TEST_HASTE=3, **env)
        self.verdict(program, leaves=False)
        kernels, _, steps = map(int, re.search(r"profiler: (\d+) kernels, (\d+) of another clock, (\d+) steps", program.output()).groups())
        self.check_profiler(kernels, steps)
        return self.ends(program, leaves=False)

    def test_nobody_traces(self):
        for cupti in ("12", "13"):
            with self.subTest(cupti=cupti):
                program = self.start(cupti=cupti)
                self.verdict(program, leaves=True)
                self.ends(program, leaves=True)

    def test_traced_before(self):
        self.profiled_before("20:100")
        self.assertIn("CUPTI stays", self.collscope("status").stdout)

    def test_traced_before_by_a_tool_with_a_name(self):
        errors = self.profiled_before("20:100", NV_NSIGHT_INJECTION_PORT_BASE="49152")
        for said in (errors, self.collscope("status", "--long").stdout):
            self.assertIn("as perhaps Nsight Compute (NV_NSIGHT_INJECTION_PORT_BASE is set) may have traced with it", said)

    def test_traces_meanwhile(self):
        program = self.start("--profile", "20:0", CS_TEST_HASTE=3)  # until it is told to stop
        self.verdict(program, leaves=False)
        program.stop_profiler()
        program.go_on(20)
        self.ends(program, leaves=False)

    def test_traces_after(self):
        program = self.start()
        self.verdict(program, leaves=True)
        program.profile()
        program.go_on(300)
        self.check_profiler(*program.stop_profiler())
        self.ends(program, leaves=True)

    def test_twice(self):
        """It has traced, stopped, and CUPTI's callbacks are its own still."""
        self.profiled_before("5:10", cupti="12")

    def test_traced_before_and_its_clock_stays(self):
        """A trace that was asked for took its place, and then could not begin: we have traced nothing, but the proof is gone."""
        program = self.start("--ticks", CS_TEST_HASTE=3, CS_FAKE_CUPTI_CLOCK_STUCK="1")
        wait_for(self.segments, "segment")
        program.profile()
        program.go_on(50)
        self.check_profiler(*program.stop_profiler())
        self.collscope("trace", "--seconds", "1")
        program.wait_for_word("which cannot be set back")
        self.verdict(program, leaves=False)
        self.ends(program, leaves=False)

    def test_a_trace_of_ours_before(self):
        program = self.start(CS_TEST_HASTE=1)  # half a minute to ask in
        wait_for(self.segments, "segment")
        self.collscope("trace", "--seconds", "500ms")
        self.verdict(program, leaves=False)
        self.assertIn("as collscope has traced with it", self.ends(program, leaves=False))

    def test_a_trace_of_ours_after(self):
        """CUPTI comes back for it, and the labels are still right."""
        program = self.start()
        self.verdict(program, leaves=True)
        self.collscope("trace", "--seconds", "1", "--wait")
        wait_for(lambda: len(self.collectives()) > 100, "collectives")
        self.ends(program, leaves=True)
        self.assertEqual({line["bytes"] for line in self.collectives()}, {43008, 14336})


class Requests(Beside):
    """collscope trace: all of them from the same moment, or none."""

    def ranks(self, count):
        scenario = self.directory.parent / "ranks.scn"
        scenario.write_text(scenario_path("small").read_text().replace("ranks 2\n", f"ranks {count}\n"))
        programs = [self.start(rank=rank, scenario=scenario.with_suffix("")) for rank in range(count)]
        wait_for(lambda: len(self.segments()) == count, "segments")
        return programs

    def asked_from(self):
        """from_ns of every control block: docs/segment-format.md."""
        found = set()
        for path in self.segments():
            header = path.read_bytes()[:4096]
            section = next(header[i:i + 32] for i in range(240, 752, 32) if header[i] == 1)
            with open(path, "rb") as segment:
                segment.seek(struct.unpack_from("<Q", section, 8)[0] + 16)
                found.add(struct.unpack("<Q", segment.read(8))[0])
        return found

    def windows(self):
        """(pid, first, last moment) of each traced stretch."""
        return [(line["pid"], line["start_ns"], line["end_ns"]) for line in self.dump("window")]

    def test_eight_begin_together(self):
        programs = self.ranks(8)
        self.assertIn("Tracing 8 processes", self.collscope("trace", "--seconds", "2", "--all", "--wait").stderr)
        for program in programs:
            self.end(program)
        pids = {program.pid for program in programs}
        begin_ns, = self.asked_from()
        traced = [window for window in self.windows() if window[2] > begin_ns]
        self.assertEqual({pid for pid, _, _ in traced}, pids)
        for pid, first, _ in traced:
            self.assertGreaterEqual(first, begin_ns, pid)
        # All at once at some moment.
        firsts = [min(first for pid, first, _ in traced if pid == one) for one in pids]
        lasts = [max(last for pid, _, last in traced if pid == one) for one in pids]
        self.assertLess(max(firsts), min(lasts))
        # A first try that was too late for somebody may have begun elsewhere before it was taken back.
        self.assertLess({pid for pid, _, last in self.windows() if last <= begin_ns}, pids)

    def test_one_is_stopped(self):
        """Neither the others nor, when it goes on, the stopped one trace. A command that comes too late to take the request back before
        its moment ends what the others have begun: that would go on for five minutes."""
        programs = self.ranks(3)
        os.kill(programs[1].pid, signal.SIGSTOP)
        try:
            said = self.collscope("trace", "--seconds", "300", "--all", status=2).stderr
        finally:
            os.kill(programs[1].pid, signal.SIGCONT)
        self.assertIn(f"Process {programs[1].pid} has not answered", said)
        self.assertIn("Nothing is traced", said)
        wait_for(lambda: {process["depth"] for process in self.processes()} == {"off"}, "nobody traces")
        over_ns = time.time_ns()
        for program in programs:
            program.go_on(200)
            self.end(program)
        windows = self.windows()
        self.assertNotIn(programs[1].pid, [pid for pid, _, _ in windows])
        self.assertEqual([window for window in windows if window[2] > over_ns], [])

    def test_a_second_one(self):
        """It is refused, unless it says that it takes the first one's place; a pause says what it ends."""
        program = self.start()
        wait_for(self.segments, "segment")
        self.assertIsNone(self.status()["request_until_ns"])
        self.collscope("trace", "--seconds", "60")
        first = wait_for(lambda: (now := self.status())["state"] == "tracing" and now, "the trace has begun")
        self.assertIn(f"Process {program.pid} is traced on request already, until ",
                      self.collscope("trace", "--seconds", "30", status=2).stderr)
        self.assertEqual(self.status()["request_until_ns"], first["request_until_ns"])
        self.collscope("trace", "--seconds", "300", "--replace")
        self.assertGreater(self.status()["request_until_ns"], first["request_until_ns"] + 200_000_000_000)
        self.assertIn("That ended the trace of 1 process", self.collscope("pause").stderr)
        self.assertIsNone(self.status()["request_until_ns"])
        self.assertIn(f"Process {program.pid} is paused: `collscope resume --all` first",
                      self.collscope("trace", "--seconds", "1", status=2).stderr)
        self.assertIn(": Resumed 1 process\n", self.collscope("resume").stderr)
        wait_for(lambda: self.status()["state"] != "paused", "it goes on")
        self.assertIn("Nothing to resume: the process was not paused", self.collscope("resume").stderr)

    def test_budget(self):
        """0.09 of step time where tracing is taken to cost 0.45: a fifth of every second."""
        program = self.start()
        wait_for(self.segments, "segment")
        self.collscope("trace", "--seconds", "5", "--budget", "0.09", "--wait")
        self.end(program)
        status = self.status()
        self.assertGreaterEqual(status["windows"]["deep"], 4)
        self.assertLess(status["trace_ns"]["deep"], 2_500_000_000)

    def test_of_an_idle_server(self):
        """Nothing comes that shows whose the buffers are; CUPTI says it, and nobody has to wait for work with the kinds on."""
        program = self.start("--linger", "300", steps=20, CS_TEST_HASTE=1)
        wait_for(lambda: self.segments() and self.status()["graph_launches"] >= 40, "all steps")
        self.collscope("trace", "--seconds", "500ms")
        program.wait_for(lambda: (now := self.status())["windows"]["deep"] and now["state"] != "tracing", "its end")

    def test_limit(self):
        for limit, says in (("2", "2.00 s at most"), ("0", "COLLSCOPE_TRACE_MAX_S=0")):
            program = self.start(COLLSCOPE_TRACE_MAX_S=limit)
            wait_for(lambda: self.segments() and self.status()["pid"] == program.pid, "segment")
            self.assertIn(says, self.collscope("trace", "--seconds", "3", "--pid", str(program.pid), status=2).stderr)
            program.go_on(100)
            self.end(program)
            self.assertEqual(self.windows(), [])
            self.segments()[0].unlink()

    def test_another_tool_has_cupti(self):
        # A verdict on a window in which it came takes three windows without a buffer, of three seconds each.
        self.start("--profile", "20:0", COLLSCOPE_MODE="sample", COLLSCOPE_PERIOD_MS="300",
                   COLLSCOPE_WINDOW_MS="50", COLLSCOPE_BUDGET="1", CS_TEST_HASTE="1")
        wait_for(lambda: self.segments() and self.status()["state"] == "yielded", "yielded")
        said = self.collscope("trace", "--seconds", "1", status=2).stderr
        self.assertIn("refuses: it is yielded: Another tool", said)


class Ended(Beside):
    """The other tool's session has ended. It switches off the kinds for everybody then and keeps CUPTI's callbacks; of neither does
    CUPTI tell."""

    def kernels_come(self, program):
        """More than a buffer of those that are there already."""
        before = self.status()["kernels_seen"]
        program.wait_for(lambda: self.status()["kernels_seen"] > before + 2 * OPEN_BUFFER, "kernels")

    def given_way(self, program):
        program.wait_for(lambda: self.status()["state"] == "yielded", "given way")

    def test_within_a_trace_of_ours(self):
        """Which had taken its buffers."""
        program = self.start("--profile", "20:0", CS_TEST_HASTE=3)
        program.wait_for(lambda: self.segments() and program.order("n") > 50, "steps")
        self.collscope("trace", "--seconds", "200")
        self.kernels_come(program)
        program.stop_profiler()
        self.kernels_come(program)
        self.end(program)

    def test_before_a_trace_of_ours(self):
        """Nobody wants the kinds that are left on when its callbacks are met: they go off when we are back, as nothing is to be traced."""
        program = self.start(CS_TEST_HASTE=3, COLLSCOPE_STEP_BACK_S="12")
        wait_for(self.segments, "segment")
        self.collscope("trace", "--seconds", "500ms", "--wait")
        program.profile()
        program.go_on(50)
        program.stop_profiler()
        self.collscope("trace", "--seconds", "6")
        self.given_way(program)
        program.wait_for(lambda: self.status()["state"] in ("learning", "idle"), "back")
        program.go_on(100)
        seen = self.status()["kernels_seen"]
        program.go_on(1000)
        self.assertEqual(self.status()["kernels_seen"], seen)
        _, errors = self.end(program)
        self.assertEqual(errors.count("has taken over CUPTI's buffers"), 1, errors)

    def test_before_the_first_window(self):
        """It has set CUPTI's clock, and its callbacks are there still: we have traced nothing yet, and register again all the same."""
        program = self.start("--ticks", "--profile", "1:60", COLLSCOPE_MODE="sample", COLLSCOPE_PERIOD_MS="2000",
                             COLLSCOPE_WINDOW_MS="50", COLLSCOPE_BUDGET="1")
        program.wait_for(lambda: self.segments() and self.collectives(), "collectives")
        self.end(program)


class Pause(Beside):
    def test_in_the_middle_of_a_window(self):
        """The window ends at once, and nothing is traced after it."""
        program = self.start(CS_TEST_HASTE=1)
        wait_for(self.segments, "segment")
        self.collscope("trace", "--seconds", "300")
        wait_for(lambda: self.status()["depth"] == "deep", "the trace has begun")
        said = self.collscope("pause").stderr
        self.assertIn("still holds CUPTI's subscription", said)
        paused = wait_for(lambda: (now := self.status())["depth"] == "off" and now["state"] == "paused" and now, "paused")
        self.assertTrue(paused["subscribed"])
        seen = self.settled_kernels()
        # The trace's windows, one per slice of the time on the wall, are counted once their buffers are back.
        opened = len(self.dump("window_open"))
        self.assertGreater(opened, 0)
        wait_for(lambda: self.status()["windows"]["deep"] == opened, "the windows are counted")
        program.go_on(200)
        later = self.status()
        self.assertEqual((later["depth"], later["kernels_seen"], later["windows"]["deep"]), ("off", seen, opened))
        self.assertEqual(len(self.dump("window_open")), opened)
        self.collscope("pause", "--release")
        self.assertFalse(self.status()["subscribed"])

    def test_when_another_tool_is_only_thought_of(self):
        """Nothing has ended yet, and CUPTI does not answer whose the buffers are: the kinds stay on, until it asks us for one."""
        program = self.start(CS_TEST_HASTE=1, CS_FAKE_CUPTI_DELAY_MS="3000", CS_FAKE_CUPTI_FAIL_NAME="cuptiActivityEnableAndDump")
        wait_for(self.segments, "segment")
        self.collscope("trace", "--seconds", "300")
        wait_for(lambda: self.status()["depth"] == "deep", "the trace has begun")
        self.collscope("pause")
        program.go_on(1000)
        seen = self.settled_kernels()
        program.go_on(1000)
        self.assertEqual(self.status()["kernels_seen"], seen)
        self.end(program)

    def test_when_another_tool_has_just_come(self):
        """Our records are so new that nothing shows it: the kinds go off, and on again when the buffers do not come back."""
        program = self.start(CS_TEST_HASTE=1)
        wait_for(self.segments, "segment")
        self.collscope("trace", "--seconds", "300")
        wait_for(lambda: self.status()["last_record_end_ns"], "records")
        begin = program.profile()
        self.collscope("pause")
        program.wait_for(lambda: self.status()["reason"] == "Paused on request; another tool has CUPTI", "given way")
        self.assertEqual(self.status()["state"], "paused")
        over = program.order("n")
        program.go_on(300)
        kernels, steps = program.stop_profiler()
        self.assertGreater(kernels, (begin + steps - over) * KERNELS_PER_STEP)
        self.assertIn("Resumed 1 process", self.collscope("resume").stderr)
        self.end(program)

    def test_when_another_tool_came_within_it(self):
        """The buffers are away: its kinds stay on, ours do not come back."""
        program = self.start(CS_TEST_HASTE=1)
        wait_for(self.segments, "segment")
        self.collscope("trace", "--seconds", "300")
        wait_for(lambda: self.status()["last_record_end_ns"], "records")
        program.profile()
        seen = self.settled_kernels()
        self.collscope("pause")
        state = wait_for(lambda: self.status()["state"] == "paused" and self.status(), "paused")
        self.assertEqual((state["depth"], state["kernels_seen"]), ("off", seen))
        program.go_on(300)
        kernels, steps = program.stop_profiler()
        self.end(program)
        self.assertGreater(kernels, steps * KERNELS_PER_STEP - OPEN_BUFFER)
        self.assertEqual(self.status()["kernels_seen"], seen)


    def test_right_before_another_tool(self):
        """Its session is over by the time at which we would have looked: nothing goes on, as it came after the window's end."""
        program = self.start(scenario="sparse", CS_TEST_HASTE=1)
        wait_for(self.segments, "segment")
        self.collscope("trace", "--seconds", "300")
        wait_for(lambda: self.status()["last_record_end_ns"], "records")
        self.collscope("pause")
        program.profile()
        before, _ = program.stop_profiler()
        program.go_on(8)
        program.profile()
        kernels, steps = program.stop_profiler()
        self.assertLessEqual(kernels - before, steps * KERNELS_PER_STEP)
        self.assertEqual(self.status()["reason"], "Paused on request")
        self.end(program)

    def test_kinds_left_on_go_off(self):
        """Paused we do not come back; but nobody may be there who wants the kinds, and its callbacks keep all that comes."""
        program = self.start(CS_TEST_HASTE=3, COLLSCOPE_STEP_BACK_S="30", COLLSCOPE_LOG="debug")  # ten, for the pause to come in
        wait_for(self.segments, "segment")
        self.collscope("trace", "--seconds", "500ms", "--wait")
        program.profile()
        program.go_on(50)
        before, _ = program.stop_profiler()
        begin = program.order("n")
        self.collscope("trace", "--seconds", "6")
        program.wait_for(lambda: self.status()["state"] == "yielded", "given way")
        self.collscope("pause")
        program.wait_for_word("are off: the time to step back is over")
        over = program.order("n")
        program.go_on(1000)
        program.profile()
        kernels, steps = program.stop_profiler()
        self.assertLess(kernels - before, (over - begin + steps + 200) * KERNELS_PER_STEP)
        self.assertEqual(self.status()["state"], "paused")
        self.end(program)


class HardlyAnyCpu(Beside):
    """Whether work goes on does not show in the time of the processor: the host waits for the GPU."""

    def test_is_noticed_all_the_same(self):
        program = self.start(scenario="sparse", COLLSCOPE_MODE="sample", COLLSCOPE_PERIOD_MS="300", COLLSCOPE_WINDOW_MS="50",
                             COLLSCOPE_BUDGET="1", COLLSCOPE_STEP_BACK_S="1800")
        program.wait_for_word("torch.profiler sees the GPU from now on")  # until then launches are seen
        self.wait_for_windows()
        begin = program.profile()
        program.wait_for_word("looking again in")
        given_way = program.order("n")
        program.go_on(8)
        kernels, steps = program.stop_profiler()
        self.assertGreaterEqual(kernels, (begin + steps - given_way) * KERNELS_PER_STEP)
        self.end(program)


class BackOff(Beside):
    def test_longer_each_time(self):
        program = self.start(COLLSCOPE_MODE="sample", COLLSCOPE_PERIOD_MS="300", COLLSCOPE_WINDOW_MS="50", COLLSCOPE_BUDGET="1",
                             COLLSCOPE_STEP_BACK_S="3", CS_TEST_HASTE=3)
        for session in range(2):
            self.wait_for_windows()
            program.profile()
            program.wait_for(lambda: program.errors().count("looking again in") > session, "given way")
            program.stop_profiler()
        _, errors = self.end(program)
        self.assert_longer_each_time(errors, (1, 2, 5, 10))


class Clock(Beside):
    """The other tool sets CUPTI's clock at each of its sessions, and leaves it there, as torch.profiler does."""

    def beside(self, *flags, **env):
        """Four seconds to step back, in which a session has to end, then eight; the subscription, by which launches are seen, is
        held for ten."""
        env = {"COLLSCOPE_MODE": "sample", "COLLSCOPE_PERIOD_MS": "300", "COLLSCOPE_WINDOW_MS": "50", "COLLSCOPE_BUDGET": "1",
               "COLLSCOPE_STEP_BACK_S": "12", "CS_TEST_HASTE": "3", **env}
        return self.start("--ticks", *flags, **env)

    def session(self, program):
        """Of the profiler: collscope has windows before it, and gives way."""
        self.wait_for_windows()
        given_way = program.errors().count("looking again in")
        program.profile()
        program.wait_for(lambda: program.errors().count("looking again in") > given_way, "given way")
        program.go_on(20)
        program.stop_profiler()

    def comes_back(self, program):
        """It traces again: collectives of windows from now on."""
        program.wait_for(lambda: self.status()["state"] in ("tracing", "sampling"), "back")
        now_ns = time.time_ns()
        program.wait_for(lambda: sum(line["start_ns"] >= now_ns for line in self.collectives()) > 100, "collectives of new windows")

    def check_profiler(self, output, sessions):
        said = re.findall(r"profiler: (\d+) kernels, (\d+) of another clock", output)
        self.assertEqual(len(said), sessions)
        self.assertGreater(int(said[0][0]), 0)
        self.assertEqual({strange for _, strange in said}, {"0"})

    def bad_times(self):
        return self.status()["records_lost"].get("bad_timestamp", 0)

    def test_is_set_back(self):
        """After a session, and again after the next one; each tool has its own clock while it traces."""
        program = self.beside()
        for _ in range(2):
            self.session(program)
            self.comes_back(program)
        output, errors = self.end(program)
        self.check_profiler(output, 2)
        self.assertEqual(errors.count("going back to CLOCK_REALTIME"), 2, errors)
        self.assertNotIn("has set CUPTI's clock", errors)
        self.assertNotIn("is off in this process", errors)
        # One at the edge of a window, and what comes while a session has the clock.
        self.assertLess(self.bad_times(), self.status()["windows"]["deep"] + 30)

    def test_comes_within_a_window_soon_followed_by_the_next(self):
        """The kinds went off with the first, sooner than its buffers were missed; the next begins with the clock, which is not ours."""
        program = self.beside(COLLSCOPE_PERIOD_MS="1000", COLLSCOPE_WINDOW_MS="700", COLLSCOPE_STEP_BACK_S="60")
        self.wait_for_windows()
        program.wait_for(lambda: self.status()["depth"] == "off", "between two windows")
        program.wait_for(lambda: self.status()["depth"] == "deep", "the next window")
        begin = program.profile()
        program.wait_for_word("looking again in")
        given_way = program.order("n")
        program.go_on(400)
        kernels, steps = program.stop_profiler()
        # Left to themselves the kinds would be off from the window's end on.
        self.assertGreater(kernels, (begin + steps - given_way) * KERNELS_PER_STEP - OPEN_BUFFER)
        output, _ = self.end(program)
        self.check_profiler(output, 1)

    def test_left_alone_during_a_session(self):
        """It comes between two windows: collscope sees its clock, and that the buffers are its own."""
        program = self.beside(COLLSCOPE_PERIOD_MS="1000", COLLSCOPE_WINDOW_MS="20", COLLSCOPE_STEP_BACK_S="60")
        self.session(program)
        output, errors = self.end(program)
        self.check_profiler(output, 1)
        self.assertIn("has taken over CUPTI's buffers", errors)
        self.assertNotIn("CLOCK_REALTIME", errors)

    def test_cupti_does_not_tell(self):
        """Only the records show it."""
        program = self.beside(CS_FAKE_CUPTI_CLOCK_HIDDEN="1")
        self.session(program)
        program.wait_for_word("has set CUPTI's clock")
        self.comes_back(program)
        output, errors = self.end(program)
        self.check_profiler(output, 1)
        self.assertEqual(errors.count("has set CUPTI's clock"), 1, errors)

    def test_cannot_be_set_back(self):
        """It goes on trying, at longer and longer intervals."""
        program = self.beside(CS_FAKE_CUPTI_CLOCK_STUCK="1")
        self.session(program)
        program.wait_for(lambda: program.errors().count("which cannot be set back; looking again in") > 1, "two tries")
        _, errors = self.end(program)
        self.assert_longer_each_time(errors, (4, 8, 20, 40))
        self.assertNotIn("is off in this process", errors)

    def test_no_times_afterwards(self):
        """As CUPTI 13.0 is said to do: not for good, either. The times end within the session, which has some 5000 records."""
        program = self.beside("--profile", "200:400", CS_FAKE_CUPTI_ZERO_FROM="6000")
        program.wait_for_word("records have no times (CUPTI 13.1 mends that); looking again")
        _, errors = self.end(program)
        self.assertNotIn("is off in this process", errors)


class Shared(Beside):
    """COLLSCOPE_CUPTI_V2=auto, on CUPTI 13.3 and driver r610."""

    def start(self, *flags, **env):
        env = {"COLLSCOPE_CUPTI_V2": "auto", "CS_FAKE_DRIVER_VERSION": "13030", "COLLSCOPE_MODE": "sample",
               "COLLSCOPE_PERIOD_MS": "300", "COLLSCOPE_WINDOW_MS": "50", "COLLSCOPE_BUDGET": "1", **env}
        return super().start(*flags, cupti="13.3", **env)

    def session(self, program, steps=200):
        """Of the profiler: (kernels that it recorded, those that were launched meanwhile)."""
        program.profile()
        program.go_on(steps)
        kernels, steps = program.stop_profiler()
        return kernels, steps * KERNELS_PER_STEP

    def kinds(self):
        windows = [line for line in self.dump("window") if line["depth"] == "deep"]
        return len(windows), sum(bool(line["foreign"]) for line in windows)

    def test_both_trace_at_once(self):
        """In sample mode: no window is foreign, and no kernel is lost to the other."""
        program = self.start("--shares")
        program.wait_for_word("the subscription, which is shared, stays")
        self.wait_for_windows()
        program.profile()
        self.wait_for_windows(5)
        kernels, steps = program.stop_profiler()
        self.assertEqual(kernels, steps * KERNELS_PER_STEP)
        self.wait_for_windows()
        _, errors = self.end(program)
        self.assertNotIn("Another tool", errors)
        deep, foreign = self.kinds()
        self.assertGreater(deep, 5)
        self.assertEqual(foreign, 0)
        self.assertGreater(self.status()["kernels_seen"], deep * KERNELS_PER_STEP)

    def test_full_mode_sees_every_kernel(self):
        output, _ = self.end(self.start("--shares", "--profile", "100:300", steps=400, COLLSCOPE_MODE="full"))
        self.assertEqual(int(re.search(r"profiler: (\d+) kernels", output)[1]), 200 * KERNELS_PER_STEP)
        self.assertGreaterEqual(self.status()["kernels_seen"], 400 * KERNELS_PER_STEP)
        self.assertEqual({line["bytes"] for line in self.collectives()}, {43008, 14336})

    def test_one_that_does_not_share_sees_nothing(self):
        """Nor does it harm; that is why this is off by default."""
        program = self.start()
        self.wait_for_windows()
        kernels, _ = self.session(program)
        self.assertEqual(kernels, 0)
        _, errors = self.end(program)
        self.assertNotIn("Another tool", errors)
        self.assertEqual(self.kinds()[1], 0)

    def test_it_was_there_first_and_does_not_share(self):
        program = self.start("--subscribe")
        wait_for(lambda: self.segments() and self.status()["state"] == "yielded", "yielded")
        program.go_on(100)
        _, errors = self.end(program)
        self.assertIn("CUPTI does not let itself be shared", errors)
        self.assertIn("Another tool uses CUPTI", errors)

    def test_refused(self):
        """Whatever the reason: as on older ones. An older driver is not even asked."""
        for env in ({"CS_FAKE_CUPTI_FAIL_NAME": "cuptiSubscribe_v2"}, {"CS_FAKE_DRIVER_VERSION": "13000"},
                    {"COLLSCOPE_CUPTI_V2": "off"}):
            with self.subTest(env=env):
                # By its clock it is noticed at the next window, also beside a program with as little work for the CPU as this.
                program = self.start("--ticks", COLLSCOPE_STEP_BACK_S="1800", **env)
                program.wait_for_word("torch.profiler sees the GPU from now on")
                begin = program.profile()
                # Within a window: at its end the kinds go off, until the next one.
                program.wait_for_word("looking again in")
                given_way = program.order("n")
                program.go_on(400)
                kernels, steps = program.stop_profiler()
                self.assertGreater(kernels, (begin + steps - given_way) * KERNELS_PER_STEP - OPEN_BUFFER)
                _, errors = self.end(program)
                self.assertEqual("let itself be shared" in errors, "CS_FAKE_CUPTI_FAIL_NAME" in env)

    def test_demand_mode_does_not_leave(self):
        """Nobody can tell whether the others have traced."""
        program = self.start("--shares", "--profile", "10:100", COLLSCOPE_MODE="demand")
        program.wait_for_word("CUPTI stays in the process, as it is shared")
        wait_for(lambda: self.status()["state"] == "idle", "labels are learnt")
        self.assertTrue(self.status()["subscribed"])
        self.collscope("trace", "--seconds", "1", "--wait")
        wait_for(lambda: self.status()["kernels_seen"] > 100 * KERNELS_PER_STEP, "kernels")
        self.end(program)

    def test_resumed_it_is_shared_again(self):
        self.start()
        self.wait_for_windows()
        self.collscope("pause", "--release")
        self.assertFalse(self.status()["subscribed"])
        seen = self.settled_kernels()
        self.collscope("resume")
        wait_for(lambda: self.status()["kernels_seen"] > seen, "windows again")
        self.assertTrue(self.status()["subscribed"])

    def test_released_it_is_free_for_any_tool(self):
        """Which then decides that it is shared no more."""
        program = self.start()
        self.wait_for_windows()
        self.collscope("pause", "--release")
        seen = self.settled_kernels()
        kernels, launched = self.session(program, steps=100)
        self.collscope("resume")
        wait_for(lambda: self.status()["kernels_seen"] > seen, "windows again")
        self.assertFalse(self.status()["subscribed"])
        _, errors = self.end(program)
        self.assertEqual(kernels, launched)
        self.assertIn("CUPTI does not let itself be shared", errors)


def load_tests(loader, _tests, _pattern):
    return run_together(loader, (DemandModeLeavesCupti, Requests, Ended, Pause, BackOff, Clock, Shared), AT_ONCE)


if __name__ == "__main__":
    unittest.main(verbosity=2)

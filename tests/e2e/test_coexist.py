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

from node import COMMAND, FAKES, INJECTOR, clean_environment, scenario_path, wait_for

HASTE = 30  # the quiet time is one second, a step back two (HACKING.md)
KERNELS_PER_STEP = 25  # of the scenario "small"


class Beside(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="collscope-e2e-")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name) / "run"
        self.directory.mkdir(mode=0o700)

    def start(self, *flags, steps, cupti="13", rank=0, scenario=None, **env):
        variables = {"LD_LIBRARY_PATH": f"{FAKES / 'cuda'}:{FAKES / f'cupti{cupti}'}", "COLLSCOPE_DIR": self.directory,
                     "COLLSCOPE_MODE": "demand", "COLLSCOPE_EXPORTER": "off", "COLLSCOPE_LOG": "info",
                     "CUDA_INJECTION64_PATH": INJECTOR, "CS_TEST_HASTE": HASTE, **env}
        process = subprocess.Popen([str(FAKES / "scenario_rank"), "--rank", str(rank), "--steps", str(steps), "--load",
                                    f"libcupti.so.{cupti[:2]}", *flags, str(scenario or scenario_path("small"))],
                                   env=clean_environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def end(self, process):
        """It has ended well: (what it said, what the library said)."""
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, output + errors)
        return output, errors

    def collscope(self, *words, status=0):
        done = subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False,
                              env=clean_environment(COLLSCOPE_DIR=self.directory))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def status(self):
        return json.loads(self.collscope("status", "--json").stdout)["processes"][0]

    def segments(self):
        return list(self.directory.glob("*.seg"))


class DemandModeLeavesCupti(Beside):
    """cuptiFinalize ends a process in which anybody has traced: at its next graph launch, status 1, "unspecified launch
    failure"."""

    def profiled(self, when, **env):
        """Steps from..to under the profiler, a thousand in all, five seconds; CUPTI could go after one."""
        output, errors = self.end(self.start("--profile", when, steps=1000, **env))
        first, last = map(int, when.split(":"))
        self.assertGreaterEqual(int(re.search(r"profiler: (\d+) kernels", output)[1]), (last - first) * KERNELS_PER_STEP * 0.8)
        return errors

    def test_nobody_traces(self):
        for cupti in ("12", "13"):
            with self.subTest(cupti=cupti):
                _, errors = self.end(self.start(steps=700, cupti=cupti))
                self.assertIn("CUPTI has left", errors)

    def test_traced_before(self):
        errors = self.profiled("20:100")
        self.assertIn("CUPTI stays", errors)
        self.assertIn("CUPTI stays", self.collscope("status").stdout)

    def test_traced_before_by_a_tool_with_a_name(self):
        errors = self.profiled("20:100", NV_NSIGHT_INJECTION_PORT_BASE="49152")
        for said in (errors, self.collscope("status", "--long").stdout):
            self.assertIn("as perhaps Nsight Compute (NV_NSIGHT_INJECTION_PORT_BASE is set) may have traced with it", said)

    def test_traces_meanwhile(self):
        self.assertIn("CUPTI stays", self.profiled("100:900"))

    def test_traces_after(self):
        self.assertIn("CUPTI has left", self.profiled("600:900"))

    def test_twice(self):
        """It has traced, stopped, and CUPTI's callbacks are its own still."""
        self.assertIn("CUPTI stays", self.profiled("5:10", cupti="12"))

    def test_a_trace_of_ours_before(self):
        process = self.start(steps=1200)
        wait_for(self.segments, "segment")
        self.collscope("trace", "--seconds", "500ms")
        _, errors = self.end(process)
        self.assertIn("CUPTI stays", errors)
        self.assertIn("as collscope has traced with it", errors)

    def test_a_trace_of_ours_after(self):
        """CUPTI comes back for it, and the labels are still right."""
        process = self.start(steps=1600)
        wait_for(self.segments, "segment")
        wait_for(lambda: self.status()["state"] == "idle", "labels are learnt")
        self.collscope("trace", "--seconds", "1", "--wait")
        _, errors = self.end(process)
        self.assertIn("CUPTI has left", errors)
        lines = map(json.loads, self.collscope("dump", "--format", "jsonl").stdout.splitlines())
        sizes = [line["bytes"] for line in lines if line["kind"] == "collective"]
        self.assertGreater(len(sizes), 100)
        self.assertEqual(set(sizes), {43008, 14336})


class Requests(Beside):
    """collscope trace: all of them from the same moment, or none."""

    def ranks(self, count, steps):
        scenario = self.directory.parent / "ranks.scn"
        scenario.write_text(scenario_path("small").read_text().replace("ranks 2\n", f"ranks {count}\n"))
        processes = [self.start(steps=steps, rank=rank, scenario=scenario) for rank in range(count)]
        wait_for(lambda: len(self.segments()) == count, "segments")
        return processes

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
        """Traced stretch of each process: pid -> (first start, last end)."""
        found = {}
        for line in map(json.loads, self.collscope("dump", "--kind", "window").stdout.splitlines()):
            first, last = found.get(line["pid"], (line["start_ns"], line["end_ns"]))
            found[line["pid"]] = (min(first, line["start_ns"]), max(last, line["end_ns"]))
        return found

    def test_eight_begin_together(self):
        processes = self.ranks(8, steps=1600)
        self.assertIn("Tracing 8 processes", self.collscope("trace", "--seconds", "2", "--all", "--wait").stderr)
        for process in processes:
            self.end(process)
        begin_ns, = self.asked_from()
        windows = self.windows()
        self.assertEqual(set(windows), {process.pid for process in processes})
        for pid, (first, _) in windows.items():
            self.assertGreaterEqual(first, begin_ns, pid)
        self.assertLess(max(first for first, _ in windows.values()), min(last for _, last in windows.values()))

    def test_one_is_stopped(self):
        """Neither the others nor, when it goes on, the stopped one trace."""
        processes = self.ranks(3, steps=2400)
        os.kill(processes[1].pid, signal.SIGSTOP)
        try:
            said = self.collscope("trace", "--seconds", "20", "--all", status=2).stderr
        finally:
            os.kill(processes[1].pid, signal.SIGCONT)
        self.assertIn(f"Process {processes[1].pid} has not answered", said)
        self.assertIn("Nothing is traced", said)
        for process in processes:
            self.end(process)
        self.assertEqual(self.windows(), {})

    def test_a_second_one(self):
        """It is refused, unless it says that it takes the first one's place; a pause says what it ends."""
        process = self.start(steps=2400)
        wait_for(self.segments, "segment")
        self.assertIsNone(self.status()["request_until_ns"])
        self.collscope("trace", "--seconds", "60")
        first = self.status()
        self.assertEqual(first["state"], "tracing")
        self.assertIn(f"Process {process.pid} is traced on request already, until ",
                      self.collscope("trace", "--seconds", "30", status=2).stderr)
        self.assertEqual(self.status()["request_until_ns"], first["request_until_ns"])
        self.collscope("trace", "--seconds", "300", "--replace")
        self.assertGreater(self.status()["request_until_ns"], first["request_until_ns"] + 200_000_000_000)
        self.assertIn("That ended the trace of 1 process", self.collscope("pause").stderr)
        self.assertIsNone(self.status()["request_until_ns"])
        self.assertIn(f"Process {process.pid} is paused: `collscope resume --all` first",
                      self.collscope("trace", "--seconds", "1", status=2).stderr)
        process.kill()

    def test_budget(self):
        """0.09 of step time where tracing is taken to cost 0.45: a fifth of every second."""
        process = self.start(steps=1600)
        wait_for(self.segments, "segment")
        self.collscope("trace", "--seconds", "5", "--budget", "0.09", "--wait")
        self.end(process)
        status = self.status()
        self.assertGreaterEqual(status["windows"]["deep"], 4)
        self.assertLess(status["trace_ns"]["deep"], 2_500_000_000)

    def test_limit(self):
        for limit, says in (("2", "2.00 s at most"), ("0", "COLLSCOPE_TRACE_MAX_S=0")):
            process = self.start(steps=400, COLLSCOPE_TRACE_MAX_S=limit)
            wait_for(lambda: self.segments() and self.status()["pid"] == process.pid, "segment")
            self.assertIn(says, self.collscope("trace", "--seconds", "3", "--pid", str(process.pid), status=2).stderr)
            self.end(process)
            self.assertEqual(self.windows(), {})
            self.segments()[0].unlink()

    def test_another_tool_has_cupti(self):
        # A verdict on a window in which it came takes three windows without a buffer, of three seconds each.
        self.start("--profile", "20:5000", steps=5000, COLLSCOPE_MODE="sample", COLLSCOPE_PERIOD_MS="300",
                   COLLSCOPE_WINDOW_MS="50", COLLSCOPE_BUDGET="1", CS_TEST_HASTE="1")
        wait_for(lambda: self.segments() and self.status()["state"] == "yielded", "yielded")
        said = self.collscope("trace", "--seconds", "1", status=2).stderr
        self.assertIn("refuses: it is yielded: Another tool", said)


class Pause(Beside):
    def test_in_the_middle_of_a_window(self):
        """The window ends at once, and nothing is traced after it."""
        process = self.start(steps=2000, CS_TEST_HASTE=1)
        wait_for(self.segments, "segment")
        self.collscope("trace", "--seconds", "60")
        wait_for(lambda: self.status()["depth"] == "deep", "the trace has begun")
        said = self.collscope("pause").stderr
        self.assertIn("still holds CUPTI's subscription", said)
        paused = wait_for(lambda: self.status()["depth"] == "off" and self.status(), "no depth")
        self.assertEqual((paused["state"], paused["subscribed"]), ("paused", True))
        time.sleep(1)  # what was under way has come
        seen = self.status()["kernels_seen"]
        time.sleep(2)
        later = self.status()
        self.assertEqual((later["depth"], later["kernels_seen"], later["windows"]["deep"]), ("off", seen, later["windows"]["deep"]))
        self.collscope("pause", "--release")
        self.assertFalse(self.status()["subscribed"])
        process.kill()

    def test_when_another_tool_came_within_it(self):
        """The buffers are away: its kinds stay on, ours do not come back."""
        process = self.start("--profile", "700:1900", steps=2000, CS_TEST_HASTE=1)
        wait_for(self.segments, "segment")
        self.collscope("trace", "--seconds", "60")
        wait_for(lambda: self.status()["last_record_end_ns"], "records")
        seen = -1
        while seen != self.status()["kernels_seen"]:  # none comes any more
            seen = self.status()["kernels_seen"]
            time.sleep(0.7)
        self.collscope("pause")
        state = wait_for(lambda: self.status()["state"] in ("yielded", "paused") and self.status(), "paused")
        self.assertEqual((state["depth"], state["kernels_seen"]), ("off", seen))
        output, _ = self.end(process)
        # Of 1200 steps; what was in our open buffer is lost to both.
        self.assertGreater(int(re.search(r"profiler: (\d+) kernels", output)[1]), 1100 * KERNELS_PER_STEP)
        self.assertEqual(self.status()["kernels_seen"], seen)


class BackOff(Beside):
    def test_longer_each_time(self):
        process = self.start("--profile", "100:350", "--profile", "1200:1800", steps=1900, COLLSCOPE_MODE="sample",
                             COLLSCOPE_PERIOD_MS="300", COLLSCOPE_WINDOW_MS="50", COLLSCOPE_BUDGET="1", COLLSCOPE_STEP_BACK_S="3",
                             CS_TEST_HASTE=3)
        _, errors = self.end(process)
        self.assertRegex(errors, "(?s)looking again in 1 s.*looking again in 2 s")


class Clock(Beside):
    """The other tool sets CUPTI's clock at each of its sessions, and leaves it there, as torch.profiler does."""

    def beside(self, *sessions, steps, **env):
        """A second to step back, then two; the subscription, by which launches are seen, is held for ten."""
        flags = [word for session in sessions for word in ("--profile", session)]
        env = {"COLLSCOPE_MODE": "sample", "COLLSCOPE_PERIOD_MS": "300", "COLLSCOPE_WINDOW_MS": "50", "COLLSCOPE_BUDGET": "1",
               "COLLSCOPE_STEP_BACK_S": "3", "CS_TEST_HASTE": "3", **env}
        return self.start("--ticks", *flags, steps=steps, **env)

    def check_profiler(self, output, sessions):
        said = re.findall(r"profiler: (\d+) kernels, (\d+) of another clock", output)
        self.assertEqual(len(said), sessions)
        self.assertGreater(int(said[0][0]), 0)
        self.assertEqual({strange for _, strange in said}, {"0"})

    def bad_times(self):
        return self.status()["records_lost"].get("bad_timestamp", 0)

    def collectives_since(self, start_ns):
        lines = map(json.loads, self.collscope("dump", "--kind", "collective").stdout.splitlines())
        return sum(line["start_ns"] >= start_ns for line in lines)

    def test_is_set_back(self):
        """After a session, and again after the next one; each tool has its own clock while it traces."""
        process = self.beside("200:400", "1300:1500", steps=2800)
        for session in range(2):
            wait_for(lambda: self.segments() and self.status()["state"] == "yielded", f"session {session}")
            wait_for(lambda: self.status()["state"] in ("tracing", "sampling"), f"back after session {session}")
        now_ns = time.time_ns()
        output, errors = self.end(process)
        self.check_profiler(output, 2)
        self.assertEqual(errors.count("going back to CLOCK_REALTIME"), 2, errors)
        self.assertNotIn("has set CUPTI's clock", errors)
        self.assertNotIn("is off in this process", errors)
        self.assertGreater(self.collectives_since(now_ns), 100)
        self.assertLess(self.bad_times(), 50)  # one at the edge of a window

    def test_left_alone_during_a_session(self):
        """It comes between two windows: collscope sees its clock, and that the buffers are its own."""
        process = self.beside("200:1200", steps=1400, COLLSCOPE_PERIOD_MS="1000", COLLSCOPE_WINDOW_MS="20", COLLSCOPE_STEP_BACK_S="60")
        output, errors = self.end(process)
        self.check_profiler(output, 1)
        self.assertIn("has taken over CUPTI's buffers", errors)
        self.assertNotIn("CLOCK_REALTIME", errors)

    def test_cupti_does_not_tell(self):
        """Only the records show it."""
        process = self.beside("200:500", steps=3000, CS_FAKE_CUPTI_CLOCK_HIDDEN="1")
        wait_for(lambda: self.segments() and "has set CUPTI's clock" in (self.status()["reason"] or ""), "strange times are seen")
        wait_for(lambda: self.status()["state"] in ("tracing", "sampling"), "back")
        now_ns = time.time_ns()
        output, errors = self.end(process)
        self.check_profiler(output, 1)
        self.assertEqual(errors.count("has set CUPTI's clock"), 1, errors)
        self.assertGreater(self.collectives_since(now_ns), 100)

    def test_cannot_be_set_back(self):
        """It goes on trying, at longer and longer intervals."""
        _, errors = self.end(self.beside("200:400", steps=3000, CS_FAKE_CUPTI_CLOCK_STUCK="1"))
        self.assertRegex(errors, "(?s)which cannot be set back; looking again in 2 s.*which cannot be set back; looking again in 5 s")
        self.assertNotIn("is off in this process", errors)

    def test_no_times_afterwards(self):
        """As CUPTI 13.0 is said to do: not for good, either."""
        _, errors = self.end(self.beside("200:400", steps=2400, CS_FAKE_CUPTI_ZERO_FROM="6000"))
        self.assertIn("records have no times (CUPTI 13.1 mends that); looking again", errors)
        self.assertNotIn("is off in this process", errors)


class Shared(Beside):
    """COLLSCOPE_CUPTI_V2=auto, on CUPTI 13.3 and driver r610."""

    def start(self, *flags, steps, **env):
        env = {"COLLSCOPE_CUPTI_V2": "auto", "CS_FAKE_DRIVER_VERSION": "13030", "COLLSCOPE_MODE": "sample",
               "COLLSCOPE_PERIOD_MS": "300", "COLLSCOPE_WINDOW_MS": "50", "COLLSCOPE_BUDGET": "1", **env}
        return super().start(*flags, steps=steps, cupti="13.3", **env)

    def profiled(self, output):
        return int(re.search(r"profiler: (\d+) kernels", output)[1])

    def kinds(self):
        lines = map(json.loads, self.collscope("dump").stdout.splitlines())
        windows = [line for line in lines if line["kind"] == "window" and line["depth"] == "deep"]
        return len(windows), sum(bool(line["foreign"]) for line in windows)

    def test_both_trace_at_once(self):
        """In sample mode: no window is foreign, and no kernel is lost to the other."""
        output, errors = self.end(self.start("--shares", "--profile", "400:1000", steps=1400))
        self.assertEqual(self.profiled(output), 600 * KERNELS_PER_STEP)
        self.assertIn("the subscription, which is shared, stays", errors)
        self.assertNotIn("Another tool", errors)
        deep, foreign = self.kinds()
        self.assertGreater(deep, 5)
        self.assertEqual(foreign, 0)
        self.assertGreater(self.status()["kernels_seen"], deep * KERNELS_PER_STEP)

    def test_full_mode_sees_every_kernel(self):
        output, _ = self.end(self.start("--shares", "--profile", "100:300", steps=400, COLLSCOPE_MODE="full"))
        self.assertEqual(self.profiled(output), 200 * KERNELS_PER_STEP)
        self.assertGreaterEqual(self.status()["kernels_seen"], 400 * KERNELS_PER_STEP)
        lines = map(json.loads, self.collscope("dump", "--kind", "collective").stdout.splitlines())
        self.assertEqual({line["bytes"] for line in lines}, {43008, 14336})

    def test_one_that_does_not_share_sees_nothing(self):
        """Nor does it harm; that is why this is off by default."""
        output, errors = self.end(self.start("--profile", "100:500", steps=700))
        self.assertEqual(self.profiled(output), 0)
        self.assertNotIn("Another tool", errors)
        self.assertEqual(self.kinds()[1], 0)

    def test_it_was_there_first_and_does_not_share(self):
        process = self.start("--subscribe", steps=300)
        wait_for(self.segments, "segment")
        self.assertEqual(self.status()["state"], "yielded")
        _, errors = self.end(process)
        self.assertIn("CUPTI does not let itself be shared", errors)
        self.assertIn("Another tool uses CUPTI", errors)

    def test_refused(self):
        """Whatever the reason: as on older ones. An older driver is not even asked."""
        for env in ({"CS_FAKE_CUPTI_FAIL_NAME": "cuptiSubscribe_v2"}, {"CS_FAKE_DRIVER_VERSION": "13000"},
                    {"COLLSCOPE_CUPTI_V2": "off"}):
            with self.subTest(env=env):
                output, errors = self.end(self.start("--profile", "400:600", steps=700, **env))
                self.assertEqual("let itself be shared" in errors, "CS_FAKE_CUPTI_FAIL_NAME" in env)
                self.assertIn("torch.profiler sees the GPU from now on", errors)
                # Of 200 steps; what lies in a window's open buffer when it comes, 512 KiB, is lost to both.
                self.assertGreater(self.profiled(output), 200 * KERNELS_PER_STEP - 2500)

    def test_demand_mode_does_not_leave(self):
        """Nobody can tell whether the others have traced."""
        process = self.start("--shares", "--profile", "10:100", steps=1600, COLLSCOPE_MODE="demand")
        wait_for(lambda: self.segments() and self.status()["state"] == "idle", "labels are learnt")
        self.assertTrue(self.status()["subscribed"])
        self.collscope("trace", "--seconds", "1", "--wait")
        _, errors = self.end(process)
        self.assertIn("CUPTI stays in the process, as it is shared", errors)
        self.assertGreater(self.status()["kernels_seen"], 100 * KERNELS_PER_STEP)

    def test_resumed_it_is_shared_again(self):
        process = self.start(steps=2400)
        wait_for(lambda: self.segments() and self.status()["windows"]["deep"] > 1, "windows")
        self.collscope("pause", "--release")
        self.assertFalse(self.status()["subscribed"])
        time.sleep(1)
        seen = self.status()["kernels_seen"]
        self.collscope("resume")
        wait_for(lambda: self.status()["kernels_seen"] > seen, "windows again")
        self.assertTrue(self.status()["subscribed"])
        process.kill()

    def test_released_it_is_free_for_any_tool(self):
        """Which then decides that it is shared no more."""
        process = self.start("--profile", "700:800", steps=2400)
        wait_for(lambda: self.segments() and self.status()["windows"]["deep"] > 1, "windows")
        self.collscope("pause", "--release")
        time.sleep(4)
        seen = self.status()["kernels_seen"]
        self.collscope("resume")
        wait_for(lambda: self.status()["kernels_seen"] > seen, "windows again")
        self.assertFalse(self.status()["subscribed"])
        output, errors = self.end(process)
        self.assertEqual(self.profiled(output), 100 * KERNELS_PER_STEP)
        self.assertIn("CUPTI does not let itself be shared", errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library in real processes on the fake driver: what it records equals the truth, and whatever goes wrong, the
program's exit status and output are what they are without it."""
import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from together import run_together

RUNNER = pathlib.Path(__file__).resolve().parent.parent / "fakes" / "run_scenario"
OPTIONS = None
DEADLINE_S = 60  # for things that come late on a busy machine; never a speed
HUNG_S = 300
AT_ONCE = 5  # they wait most of the time


class Host(unittest.TestCase):
    numbers = itertools.count()

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="collscope-host-")
        self.root = pathlib.Path(self.folder.name)
        self.run_dir = self.root / "run"

    def tearDown(self):
        self.folder.cleanup()

    def play(self, *env, scenario="small", steps=60, linger=0.6, cupti="13", status=0, extra=()):
        """Plays a scenario with the library; returns (truth, what ranks wrote to standard error)."""
        output = self.root / f"out-{next(self.numbers)}"
        command = [sys.executable, str(RUNNER), "--fakes", str(OPTIONS.fakes), "--injector", str(OPTIONS.injector),
                   "--cupti", cupti, "--steps", str(steps), "--linger", str(linger), "--output", str(output), *extra]
        settings = {"COLLSCOPE_DIR": str(self.run_dir), "COLLSCOPE_EXPORTER": "off", "COLLSCOPE_MODE": "full"}
        settings.update(pair.split("=", 1) for pair in env)
        for name, value in settings.items():
            command += ["--env", f"{name}={value}"]
        done = subprocess.run(command + [scenario], capture_output=True, text=True, timeout=HUNG_S, check=False)
        errors = "".join(path.read_text() for path in sorted(output.glob("*.err")))
        self.assertEqual(done.returncode, status, done.stderr + errors)
        self.assertNotIn("MISUSE", errors)
        return json.loads(done.stdout), errors

    def segments(self):
        text = subprocess.run([str(OPTIONS.reader), str(self.run_dir)], check=True, capture_output=True, text=True).stdout
        return sorted((json.loads(line) for line in text.splitlines()), key=lambda segment: segment["path"])

    def check_nothing_lost(self, segment):
        # By cause, so that a failure says which.
        self.assertEqual({cause: count for cause, count in segment["lost"].items() if count}, {})

    def check_truth(self, truth, segments):
        self.assertEqual(len(segments), len(truth["ranks"]))
        expected = sorted((rank["collectives"], sum(c["duration_ns"] for c in rank["classes"]),
                           sum(c["bytes_total"] for c in rank["classes"]), rank["compute"], rank["copies"])
                          for rank in truth["ranks"])
        seen = sorted((s["collectives"], s["collective_ns"], s["collective_bytes"], s["compute"] + s["markers"], s["copies"])
                      for s in segments)
        self.assertEqual(seen, expected)

    def test_full_mode_sees_everything(self):
        for cupti in ("12", "13"):
            with self.subTest(cupti=cupti):
                self.run_dir = self.root / f"run-{cupti}"
                truth, errors = self.play(cupti=cupti)
                self.check_truth(truth, self.segments())
                self.assertEqual(errors, "")
                for segment in self.segments():
                    self.assertEqual(segment["state"], "exited")
                    self.check_nothing_lost(segment)
                    self.assertLessEqual(segment["host_memory"], 32 << 20)

    def test_sample_mode_opens_windows(self):
        truth, _ = self.play("COLLSCOPE_MODE=sample", "COLLSCOPE_PERIOD_MS=400", "COLLSCOPE_WINDOW_MS=100",
                             "COLLSCOPE_BUDGET=1", "CS_FAKE_CUPTI_EDGES=0", steps=1000)
        for segment, rank in zip(self.segments(), truth["ranks"]):
            self.assertGreater(segment["windows"][2], 2)
            self.assertGreater(segment["collectives"], 0)
            self.assertLess(segment["collectives"], rank["collectives"])
            self.check_nothing_lost(segment)
            self.assertEqual(segment["foreign"], 0)
            # Measured: 20 steps in each window, 60 between two. The fake's steps take no longer when traced.
            self.assertGreaterEqual(segment["step_ratio_ppm"], 1000000)
            # Switched on after a graph was made, CUPTI's GRAPH_TRACE ends the process.
            self.assertEqual((segment["windows"][1], segment["launches"]), (0, 0))

    def test_damaged_edge_records_are_counted(self):
        self.play("COLLSCOPE_MODE=sample", "COLLSCOPE_PERIOD_MS=200", "COLLSCOPE_WINDOW_MS=50", "COLLSCOPE_BUDGET=1",
                  steps=300)
        for segment in self.segments():
            self.assertLessEqual(segment["lost"]["bad_timestamp"], segment["windows"][2] + 1)

    def test_off_does_nothing(self):
        _, errors = self.play("COLLSCOPE_MODE=off")
        self.assertEqual(errors, "")
        self.assertFalse(self.run_dir.exists())

    def test_demand_unasked_records_nothing(self):
        self.play("COLLSCOPE_MODE=demand")
        for segment in self.segments():
            self.assertEqual(segment["collectives"], 0)
            self.assertEqual(segment["windows"], [0, 0, 0])

    def test_cupti_drops_are_counted(self):
        self.play("CS_FAKE_CUPTI_DROP=10")
        for segment in self.segments():
            self.assertGreater(segment["lost"]["cupti_dropped"], 0)

    def test_no_cupti(self):
        _, errors = self.play(cupti="none")
        self.assertEqual(errors.count("Collective profiling is off in this process"), 2)
        self.assertEqual(self.segments(), [])  # what held the reason is removed at exit

    def test_unusable_run_directory(self):
        (self.root / "file").write_text("")
        _, errors = self.play(f"COLLSCOPE_DIR={self.root}/file/run")
        self.assertEqual(errors.count("the run directory"), 2)

    def test_another_tool_holds_cupti(self):
        for cupti in ("12", "13"):
            with self.subTest(cupti=cupti):
                self.run_dir = self.root / f"run-{cupti}"
                _, errors = self.play("CS_FAKE_CUPTI_BUSY=Nsight", cupti=cupti)
                self.assertEqual(errors.count("Another tool uses CUPTI"), 2)
                for segment in self.segments():
                    self.assertEqual(segment["collectives"], 0)
                    self.assertIn("Another tool uses CUPTI", segment["reason"])
                    self.assertEqual("Nsight" in segment["reason"], cupti == "13")

    def test_another_tool_that_cupti_does_not_name(self):
        """Before CUDA 13 CUPTI says no more than that it is in use, and later neither of a tool that gave no name."""
        suspect = "perhaps Nsight Systems (NSYS_PROFILING_SESSION_ID is set)"
        for cupti, name in (("12", "Nsight"), ("13", "<not provided>")):
            with self.subTest(cupti=cupti):
                self.run_dir = self.root / f"run-{cupti}"
                _, errors = self.play(f"CS_FAKE_CUPTI_BUSY={name}", "NSYS_PROFILING_SESSION_ID=1", cupti=cupti)
                self.assertEqual(errors.count(f"uses CUPTI in this process: {suspect};"), 2)
                for segment in self.segments():
                    self.assertIn(f"Another tool uses CUPTI: {suspect};", segment["reason"])

    def test_killed_in_the_middle(self):
        scenario = self.root / "die.scn"
        text = (RUNNER.parent / "scenarios" / "small.scn").read_text()
        scenario.write_text(text.replace("ranks 2\n", "ranks 2\nrank 1 die_step 200\n")
                            .replace("period_us 5000", "period_us 20000"))
        self.play(scenario=str(scenario), steps=220)
        killed = [segment for segment in self.segments() if segment["state"] != "exited"]
        self.assertEqual(len(killed), 1)
        self.assertEqual(killed[0]["alive"], 0)
        self.assertGreater(killed[0]["collectives"], 200)  # of 2000 in four seconds, handed over ten times a second

    def test_exit_without_destroying_the_context(self):
        truth, _ = self.play(extra=["--leave"])
        self.check_truth(truth, self.segments())

    def play_all(self, plays):
        """Several at once: they sleep most of the time."""
        with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
            futures = {env: pool.submit(self.play, *env, **options) for env, options in plays.items()}
            for env, future in futures.items():
                with self.subTest(env):
                    future.result()

    def test_every_failing_call(self):
        """CUPTI fails its Nth call, and from the Nth call on: the program ends as it does without us."""
        self.play_all({(f"{kind}={number}", "COLLSCOPE_LOG=error"): {"steps": 4, "linger": 0.1}
                       for kind in ("CS_FAKE_CUPTI_FAIL", "CS_FAKE_CUPTI_FAIL_FROM")
                       for number in list(range(1, 30)) + [40, 80, 150]})

    def test_every_failing_function(self):
        names = ("cuptiGetVersion", "cuptiSubscribe", "cuptiEnableCallback", "cuptiActivityRegisterCallbacks",
                 "cuptiActivityEnable", "cuptiActivityDisable", "cuptiActivityFlushAll", "cuptiGetDeviceId",
                 "cuptiActivityGetNextRecord", "cuptiActivityGetNumDroppedRecords", "cuptiActivitySetAttribute",
                 "cuptiGetGraphNodeId", "cuptiGetGraphId", "cuptiGetGraphExecId", "cuptiGetStreamIdEx", "cuptiGetContextId",
                 "cuptiGetTimestamp", "cuptiActivityGetAttribute", "cuptiActivityEnableAndDump", "cuptiGetResultString",
                 "cuptiSubscribe_v2", "cuptiUnsubscribe", "cuptiFinalize")
        self.play_all({(f"CS_FAKE_CUPTI_FAIL_NAME={name}", f"COLLSCOPE_MODE={mode}", "CS_TEST_HASTE=1000"):
                       {"steps": 20, "linger": 0.3} for name in names for mode in ("full", "demand")})

    def test_failing_answer_to_who_is_there(self):
        """The subscription is taken, and the call that would tell by whom fails as well."""
        _, errors = self.play("CS_FAKE_CUPTI_BUSY=Nsight", "CS_FAKE_CUPTI_FAIL_NAME=cuptiSubscribe_v2", "CS_TEST_HASTE=1000",
                              steps=20, linger=0.3)
        self.assertEqual(errors.count("Another tool uses CUPTI"), 2)

    def test_failing_text_of_a_failure(self):
        """CUPTI refuses to trace, and has no word for it."""
        _, errors = self.play("CS_FAKE_CUPTI_FAIL_NAME=cuptiActivityEnable,cuptiGetResultString", "COLLSCOPE_MODE=full",
                              steps=800, linger=0.3)
        self.assertEqual(errors.count("CUPTI does not trace here (unknown error)"), 2)

    def test_small_pool(self):
        truth, _ = self.play("COLLSCOPE_BUFFERS=4", "CS_FAKE_CUPTI_DELAY_MS=50", steps=200)
        self.check_truth(truth, self.segments())

    def rank_command(self, *arguments, cupti="13", **env):
        """One process of the small scenario on its own, without the runner: command and environment."""
        settings = {**os.environ, "COLLSCOPE_DIR": str(self.run_dir), "COLLSCOPE_EXPORTER": "off",
                    "CUDA_INJECTION64_PATH": str(OPTIONS.injector.resolve()),
                    "LD_LIBRARY_PATH": f"{OPTIONS.fakes}/cuda:{OPTIONS.fakes}/cupti{cupti}", **env}
        command = [str(OPTIONS.fakes / "scenario_rank"), "--rank", "0", "--load", f"libcupti.so.{cupti}", *arguments,
                   str(RUNNER.parent / "scenarios" / "small.scn")]
        return command, settings

    def rank(self, *arguments, **env):
        command, settings = self.rank_command(*arguments, **env)
        return subprocess.run(command, env=settings, capture_output=True, text=True, timeout=HUNG_S, check=False)

    def wait_for_segment(self, condition, what):
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            segments = self.segments() if self.run_dir.exists() else []
            if segments and condition(segments[0]):
                return
            time.sleep(0.2)
        self.fail(f"not within {DEADLINE_S} s: {what}")

    def test_program_without_a_context(self):
        done = self.rank("--init-only", COLLSCOPE_MODE="full")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.segments(), [])

    def test_fork(self):
        done = self.rank("--fork", "--steps", "40", "--linger", "0.4", COLLSCOPE_MODE="full")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([segment["collectives"] for segment in self.segments()], [400])

    def test_profiler_takes_the_buffers(self):
        """After a window another tool has replaced the buffer callbacks: it gets its records, we say so and stand back."""
        command, settings = self.rank_command("--orders", "--steps", "1000000", COLLSCOPE_MODE="sample", COLLSCOPE_PERIOD_MS="1000",
                                              COLLSCOPE_WINDOW_MS="100", COLLSCOPE_BUDGET="1")
        process = subprocess.Popen(command, env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def order(letter):
            process.stdin.write(letter)
            process.stdin.flush()
            return int(process.stdout.readline().removeprefix("at step "))
        try:
            self.wait_for_segment(lambda segment: segment["collectives"] > 0, "a window")
            begin = order("p")
            self.wait_for_segment(lambda segment: "Another tool" in segment["reason"], "another tool is noticed")
            noticed = order("n")
            while order("n") < noticed + 400:
                time.sleep(0.1)
            output, errors = process.communicate("s", timeout=HUNG_S)
        finally:
            process.kill()
            process.wait()
        self.assertEqual((process.returncode, errors), (0, ""))
        segment, = self.segments()
        self.assertGreater(segment["foreign"], 0)
        self.assertEqual(segment["lost"]["foreign_owner"], 1)
        kernels, steps = (int(output.split(word)[0].split()[-1]) for word in (" kernels", " steps\nat"))
        # 25 kernels a step (15 of compute, 10 collectives), from when it was noticed on: had it come within a window, that one's end would have
        # switched off its kinds until the next. What was in an open buffer, 512 KiB, is lost to both, and at the end what the fake's GPU has not
        # come to: on a busy machine it is a dozen steps behind.
        buffer = (512 << 10) / 216
        self.assertGreaterEqual(kernels, (begin + steps - noticed) * 25 - 2 * buffer)

    def test_founding_scenario_two_seconds(self):
        truth, errors = self.play(scenario="founding", steps=40, linger=1.0)
        self.check_truth(truth, self.segments())
        self.assertEqual(errors, "")


def load_tests(loader, _tests, _pattern):
    return run_together(loader, (Host,), AT_ONCE)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser()
    parser.add_argument("--injector", required=True, type=pathlib.Path)
    parser.add_argument("--fakes", required=True, type=pathlib.Path)
    parser.add_argument("--reader", required=True, type=pathlib.Path)
    OPTIONS, rest = parser.parse_known_args()
    for name in [name for name in os.environ if name.startswith(("COLLSCOPE_", "CS_FAKE_", "CUDA_INJECTION"))]:
        del os.environ[name]
    # In a forked child without threads the leak checker cannot do its work, and says so on standard error.
    # The program itself leaves without cleaning up. The last word of a kind counts.
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    signal.alarm(580)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()

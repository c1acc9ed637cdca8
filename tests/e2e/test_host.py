#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The host program notices nothing: whatever goes wrong, its output and exit status are those of a run without the
library, at most one clear line on standard error says what is off, and nothing is left behind."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from node import COMMAND, EXPORTER, FAKES, INJECTOR, Node, clean_environment, scenario_path, total, wait_for
from program import Program
from together import run_together

STEPS = 20
HUNG_S = 300  # a failure, not a speed
AT_ONCE = 5  # they wait most of the time


def host(directory, *flags, cupti="13", injected=True, prefix=(), steps=STEPS, scenario="small", **env):
    """Rank 0 of a scenario, alone: (exit status, standard output, standard error)."""
    libraries = [str(FAKES / "cuda")] + ([] if cupti == "none" else [str(FAKES / f"cupti{cupti}")])
    variables = {"LD_LIBRARY_PATH": ":".join(libraries), "COLLSCOPE_DIR": directory, "COLLSCOPE_MODE": "full",
                 "COLLSCOPE_EXPORTER": "off"}
    if cupti == "none":
        variables["COLLSCOPE_CUPTI_PATH"] = "/nonexistent/libcupti.so"
    else:
        flags = ("--load", f"libcupti.so.{cupti}", *flags)
    if injected:
        variables["CUDA_INJECTION64_PATH"] = INJECTOR
    if {"--leave", "--fork", "--init-only"} & set(flags):
        variables["ASAN_OPTIONS"] = "detect_leaks=0"  # the program itself leaves without cleaning up
    variables.update(env)
    done = subprocess.run([*prefix, str(FAKES / "scenario_rank"), "--rank", "0", "--steps", str(steps), *flags,
                           str(scenario_path(scenario))],
                          env=clean_environment(**variables), capture_output=True, text=True, check=False,
                          timeout=HUNG_S)
    return done.returncode, done.stdout, done.stderr


class Host(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="collscope-e2e-")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name) / "run"
        self.directory.mkdir(mode=0o700)

    def segments(self):
        return sorted(self.directory.glob("*.seg"))

    def status(self):
        done = subprocess.run([COMMAND, "status", "--json"], capture_output=True, text=True, check=True,
                              env=clean_environment(COLLSCOPE_DIR=self.directory))
        return json.loads(done.stdout)["processes"][0]

    def same_as_without(self, *flags, lines=0, says="", directory=None, **options):
        """Runs with and without the library; returns what the injected one wrote to standard error."""
        plain = host(self.directory, *flags, **{**options, "injected": False})
        status, output, errors = host(directory or self.directory, *flags, **options)
        self.assertEqual((status, output), plain[:2], errors)
        self.assertEqual(len(errors.splitlines()), lines, errors)
        for word in says.split():
            self.assertIn(word, errors)
        return errors

    def test_traced(self):
        self.same_as_without()
        self.assertEqual(len(self.segments()), 1)

    def test_off(self):
        self.same_as_without(COLLSCOPE_MODE="off")
        self.assertEqual(self.segments(), [])

    def test_unusable_run_directory(self):
        self.same_as_without(directory="/dev/null/run", lines=1, says="collscope run directory COLLSCOPE_DIR")
        self.assertIn("relative cannot be used (the path is not absolute);", self.same_as_without(directory="relative", lines=1))

    def test_run_directory_too_long(self):
        """Nobody asked for the default one: nothing is recorded, and that is said."""
        too_long = f"{self.directory}/{'x/' * 256}"
        self.same_as_without(directory=too_long, lines=2, says="COLLSCOPE_DIR longer 511 off")

    def test_full_file_system(self):
        """The segment does not fit: no SIGBUS later, one line now."""
        where = self.directory / "small"
        where.mkdir()
        script = f'mount -t tmpfs -o size=64k,mode=700 none {where} && exec "$@"'
        prefix = ("unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh")
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
            self.skipTest("may not mount a tmpfs in a namespace of its own")
        self.same_as_without(directory=where, prefix=prefix, lines=1, says="collscope")

    def test_no_cupti(self):
        self.same_as_without(cupti="none", lines=1, says="collscope libcupti")

    def test_dormant_process_has_a_name(self):
        """All that there is of it is a segment that says why: it has to say of whom, too."""
        program = Program(self.directory, CS_FAKE_CUPTI_FAIL_NAME="cuptiSubscribe", POD_NAMESPACE="serving", POD_NAME="llm-0")
        self.addCleanup(program.close)
        program.wait_for(self.segments, "segment")
        state = self.status()
        self.assertEqual((state["state"], state["command"], state["pod"]), ("dormant", "scenario_rank", "serving/llm-0"))
        self.assertIn("refuses callbacks", state["reason"])
        text = subprocess.run([COMMAND, "status", "--long"], capture_output=True, text=True, check=True,
                              env=clean_environment(COLLSCOPE_DIR=self.directory)).stdout
        self.assertRegex(text, r"(?m)^\d+  .*scenario_rank")
        self.assertRegex(text, r"(?m)^  records +0$")

    def test_tool_outside_holds_cupti(self):
        self.same_as_without(CS_FAKE_CUPTI_BUSY="Nsight Systems", lines=1, says="collscope Nsight")

    def test_tool_inside_holds_cupti(self):
        self.same_as_without("--subscribe", lines=1, says="collscope CUPTI")

    def test_no_context_leaves_nothing(self):
        self.same_as_without("--init-only")
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_fork_without_exec(self):
        """The children leave through exit() and its handlers; they neither trace nor touch the parent's segment."""
        _, output, _ = host(self.directory, "--fork")
        self.assertEqual(output, f"child ended with 3\nrank 0: {STEPS} steps\nchild ended with 3\n")
        self.same_as_without("--fork")

    def test_exit_without_destroying_the_context(self):
        self.same_as_without("--leave")

    def profiled(self, **env):
        """Share of 240,000 kernels that a profiler inside the program recorded while the library was there."""
        status, output, errors = host(self.directory, "--profile", "100:600", steps=620, scenario="busy", **env)
        self.assertEqual((status, errors), (0, ""))
        return int(re.search(r"profiler: (\d+) kernels", output)[1]) / 240000

    def windows_opened(self):
        done = subprocess.run([COMMAND, "dump", "--kind", "window_open"], capture_output=True, text=True, check=True,
                              env=clean_environment(COLLSCOPE_DIR=self.directory))
        return done.stdout.count('"deep"')

    def profiled_between_windows(self):
        """How many of how many kernels a profiler missed that came when a window was over and left before the next; None: one came
        meanwhile after all."""
        for segment in self.segments():
            segment.unlink()  # of the program before
        program = Program(self.directory, COLLSCOPE_MODE="sample", COLLSCOPE_PERIOD_MS="600000",
                          scenario="busy")  # the first windows are 2.3 s apart
        try:
            program.wait_for(lambda: self.segments() and self.status()["windows"]["deep"] >= 1, "a window")
            over = self.status()["windows"]["deep"]
            program.profile()
            program.go_on(100)
            kernels, steps = program.stop_profiler()
            return (steps * 480 - kernels, steps * 480) if self.windows_opened() == over else None
        finally:
            program.close()

    def test_profiler_between_windows(self):
        """torch.profiler takes over CUPTI's buffers when no window is open: it sees every kernel. Soon after a window it lacks what goes
        into the buffer of 512 KiB that was open then, no more."""
        self.assertEqual(self.profiled(COLLSCOPE_MODE="demand"), 1)
        for _ in range(20):  # for a machine that stops the program for seconds, again and again
            session = self.profiled_between_windows()
            if session:
                break
        self.assertIsNotNone(session, "no session between two windows")
        missed, of = session
        self.assertGreaterEqual(missed, 0)
        self.assertLess(missed, (512 << 10) / 216)
        self.assertGreater(of, 48000)

    def test_profiler_while_windows_come(self):
        """A window that is open when the profiler comes ends its kinds; the next find out that CUPTI is not theirs, and leave
        them on. Had they not, the profiler would see a sixth."""
        share = self.profiled(COLLSCOPE_MODE="sample", COLLSCOPE_PERIOD_MS="300", COLLSCOPE_WINDOW_MS="50", COLLSCOPE_BUDGET="1")
        self.assertGreater(share, 0.5)

    def test_profiler_comes_within_a_window(self):
        """Its kinds go off with the window, and on again when the window's buffers do not come back to us."""
        program = Program(self.directory, COLLSCOPE_MODE="demand")
        self.addCleanup(program.close)
        wait_for(self.segments, "segment")
        subprocess.run([COMMAND, "trace", "--seconds", "3"], check=True, capture_output=True,
                       env=clean_environment(COLLSCOPE_DIR=self.directory))
        program.wait_for(lambda: self.status()["depth"] == "deep", "the window is open")
        begin = program.profile()
        program.wait_for(lambda: self.status()["depth"] == "off", "the window is over")
        over = program.order("n")
        program.go_on(1500)
        kernels, _ = program.stop_profiler()
        # Left to themselves the kinds would be off since the window's end; of a step they bring 25 kernels.
        self.assertGreater(kernels, (over - begin + 100) * 25)
        self.assertEqual(program.end()[0], 0)

    def test_profiler_in_full_tracing(self):
        """What lies in the library's open buffer when the profiler comes is lost to both: one buffer of 512 KiB."""
        self.assertGreater(self.profiled(), 1 - 2 * (512 << 10) / 216 / 240000)

    def test_dropped_records_are_said(self):
        self.same_as_without("--linger", "1", CS_FAKE_CUPTI_DROP="10")
        self.assertEqual(self.status()["records_lost"]["cupti_dropped"] // 10, 5)  # of 520 kernels and copies

    def test_buffers_run_short(self):
        """CUPTI hands over more slowly than records come: tracing rests until it has, and goes on. Nobody is taken for another tool."""
        # Some three seconds' records fit into what there is, and eight seconds' more could be asked for before there is none left, should the
        # machine stop the worker meanwhile.
        program = Program(self.directory, COLLSCOPE_MODE="full", COLLSCOPE_BUFFERS="4", COLLSCOPE_FLUSH_MS="1000",
                          CS_FAKE_CUPTI_HOARD_MS="5000")
        self.addCleanup(program.close)
        program.wait_for(lambda: self.segments() and self.status()["tracing_rests"] >= 2 and self.status()["windows"]["deep"] >= 3, "two rests")
        status, output, errors = program.end()
        self.assertEqual((status, errors), (0, ""))
        steps = int(re.fullmatch(r"rank 0: (\d+) steps\n", output)[1])
        state = self.status()
        self.assertEqual(state["state"], "exited")
        self.assertEqual(state["foreign_windows"], 0)
        self.assertEqual(state["windows_skipped"], 0)
        # What CUPTI got when the pool was empty has been read like the rest.
        self.assertEqual({cause: count for cause, count in state["records_lost"].items() if count and cause != "bad_timestamp"}, {})
        # Some of the 25 kernels of each step were seen, not all.
        self.assertGreater(state["kernels_seen"], 15_000)
        self.assertLess(state["kernels_seen"], steps * 25)

    def test_profiler_while_tracing_rests(self):
        """What CUPTI had not handed over by then goes to the profiler: nothing comes back, and that is not waited for for ever."""
        program = Program(self.directory, COLLSCOPE_MODE="full", COLLSCOPE_BUFFERS="4", COLLSCOPE_FLUSH_MS="1000",
                          CS_FAKE_CUPTI_HOARD_MS="5000", CS_TEST_HASTE="30")
        self.addCleanup(program.close)
        program.wait_for(lambda: self.segments() and self.status()["tracing_rests"] >= 1, "a rest")
        program.profile()
        program.wait_for(lambda: self.status()["state"] == "yielded", "given way")
        before = self.status()["windows"]["deep"]
        self.assertGreater(program.stop_profiler()[0], 0)
        program.wait_for(lambda: self.status()["windows"]["deep"] > before, "tracing again")
        self.assertEqual(program.end()[0], 0)

    def test_exit_beside_a_question(self):
        """The server is idle, the library asks NVML whether the GPU is, and the program exits before the answer: it comes first."""
        self.same_as_without("--linger", "1.2", CS_FAKE_NVML_SLOW="1", CS_TEST_HASTE="1000")

    def test_fifo_for_a_library(self):
        """Opening one waits for a writer for ever; it is no library."""
        fifo = self.directory / "fifo"
        os.mkfifo(fifo)
        self.same_as_without(COLLSCOPE_CUPTI_PATH=str(fifo), lines=1, says="COLLSCOPE_CUPTI_PATH regular file")
        self.same_as_without(COLLSCOPE_NCCL_PLUGIN=str(fifo), lines=1, says="plugin regular file")
        self.same_as_without(COLLSCOPE_NVTX_TOOL=str(fifo), lines=1, says="NVTX regular file")

    def test_nobody_reads_standard_error(self):
        """A warning neither ends the host (SIGPIPE) nor holds it up (a full pipe)."""
        for full in (False, True):
            with self.subTest(full=full):
                reading, writing = os.pipe()
                os.set_blocking(writing, False)
                while full:
                    try:
                        os.write(writing, bytes(4096))
                    except BlockingIOError:
                        break
                os.set_blocking(writing, True)
                if not full:
                    os.close(reading)
                env = clean_environment(LD_LIBRARY_PATH=f"{FAKES / 'cuda'}:{FAKES / 'cupti13'}", COLLSCOPE_DIR=self.directory,
                                        COLLSCOPE_MODE="bogus", COLLSCOPE_NCCL_PLUGIN="/none", COLLSCOPE_EXPORTER="off",
                                        CUDA_INJECTION64_PATH=INJECTOR)
                done = subprocess.run([str(FAKES / "scenario_rank"), "--rank", "0", "--load", "libcupti.so.13", "--steps", "20",
                                       str(scenario_path("small"))], env=env, stdout=subprocess.DEVNULL, stderr=writing, check=False,
                                      timeout=HUNG_S)
                os.close(writing)
                if full:
                    os.close(reading)
                self.assertEqual(done.returncode, 0)

    def test_odd_values_in_the_environment(self):
        self.same_as_without(COLLSCOPE_RING_MIB="3", COLLSCOPE_NONSENSE="1", COLLSCOPE_FLUSH_MS="-1", lines=3,
                             says="COLLSCOPE_RING_MIB COLLSCOPE_NONSENSE COLLSCOPE_FLUSH_MS")

    def test_signals_of_the_host_reach_the_host(self):
        """The library's thread blocks all signals: SIGTERM ends the program as ever."""
        libraries = f"{FAKES / 'cuda'}:{FAKES / 'cupti13'}"
        process = subprocess.Popen(
            [str(FAKES / "scenario_rank"), "--rank", "0", "--linger", "30", "--load", "libcupti.so.13",
             str(scenario_path("small"))],
            env=clean_environment(LD_LIBRARY_PATH=libraries, COLLSCOPE_DIR=self.directory, COLLSCOPE_MODE="full",
                                  COLLSCOPE_EXPORTER="off", CUDA_INJECTION64_PATH=INJECTOR),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        wait_for(self.segments, "segment")
        process.terminate()
        self.assertEqual(process.wait(timeout=HUNG_S), -signal.SIGTERM)


def processes_with(argument):
    """Ids of the processes that have the argument on their command line."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if argument in path.read_text(encoding="utf-8", errors="replace").split("\0"):
                found.append(int(path.parent.name))
    return found


class ExporterDies(unittest.TestCase):
    """The exporter that a traced process started is killed: within half a minute there is another, and only one."""

    def test_it_is_started_again(self):
        node = Node()
        self.addCleanup(node.close)
        lock = node.directory / "exporter.lock"

        def exporter():
            text = lock.read_text(encoding="ascii") if lock.exists() else ""
            return int(re.search(r"pid (\d+)", text)[1]) if "address" in text else None

        variables = {"LD_LIBRARY_PATH": f"{FAKES / 'cuda'}:{FAKES / 'cupti13'}", "COLLSCOPE_DIR": node.directory,
                     "COLLSCOPE_MODE": "full", "COLLSCOPE_EXPORTER": "auto", "COLLSCOPE_EXPORTER_PATH": EXPORTER,
                     "COLLSCOPE_LISTEN": "127.0.0.1:0", "CUDA_INJECTION64_PATH": INJECTOR}
        for _ in range(2):
            rank = subprocess.Popen([str(FAKES / "scenario_rank"), "--rank", "0", "--linger", "100", "--load",
                                     "libcupti.so.13", str(scenario_path("small"))], env=clean_environment(**variables),
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(rank.wait)
            self.addCleanup(rank.kill)
        first = wait_for(exporter, "exporter")
        os.kill(first, signal.SIGKILL)
        second = wait_for(lambda: exporter() != first and exporter(), "another exporter")
        self.addCleanup(os.kill, second, signal.SIGKILL)
        # One that has lost the race leaves, and none comes after it.
        wait_for(lambda: processes_with(f"--collscope.dir={node.directory}") == [second], "one exporter")
        time.sleep(2)
        self.assertEqual(processes_with(f"--collscope.dir={node.directory}"), [second])


class PortTaken(unittest.TestCase):
    """The exporter that a traced process started cannot listen: the process says so, once, and not that it serves."""

    def test_it_is_told(self):
        node = Node()
        self.addCleanup(node.close)
        with socket.create_server(("127.0.0.1", 0)) as other:
            address = f"127.0.0.1:{other.getsockname()[1]}"
            variables = {"LD_LIBRARY_PATH": f"{FAKES / 'cuda'}:{FAKES / 'cupti13'}", "COLLSCOPE_DIR": node.directory, "COLLSCOPE_LOG": "info",
                         "COLLSCOPE_MODE": "full", "COLLSCOPE_EXPORTER": "auto", "COLLSCOPE_EXPORTER_PATH": EXPORTER,
                         "COLLSCOPE_LISTEN": address, "CUDA_INJECTION64_PATH": INJECTOR}
            with tempfile.TemporaryFile("w+") as said:
                rank = subprocess.Popen([str(FAKES / "scenario_rank"), "--rank", "0", "--linger", "100", "--load", "libcupti.so.13",
                                         str(scenario_path("small"))], env=clean_environment(**variables),
                                        stdout=subprocess.DEVNULL, stderr=said)
                self.addCleanup(rank.wait)
                self.addCleanup(rank.kill)

                def lines():
                    said.seek(0)
                    return [line for line in said.read().splitlines() if "xporter" in line]

                wait_for(lines, "a warning")
                self.assertEqual(lines(), [f'collscope: warn: The exporter that was started does not run, so nobody serves metrics: '
                                           f'"{node.directory}/exporter.log" says why, and so does collscope status.'])
            done = subprocess.run([COMMAND, "status"], capture_output=True, text=True, check=True,
                                  env=clean_environment(COLLSCOPE_DIR=node.directory))
            self.assertIn(f"\nexporter: did not start: cannot listen on {address}: Address already in use; ", done.stdout)


class Killed(unittest.TestCase):
    """SIGKILL in the middle of a window: what was written stays readable, and goes away in time."""

    def test_segment_of_a_killed_process(self):
        node = Node()
        self.addCleanup(node.close)
        node.play("killed")
        self.assertEqual([rank["exit"] for rank in node.truth["ranks"]], [0, -signal.SIGKILL])
        lines = node.dump("collective")
        killed = [line for line in lines if line["pid"] == node.truth["ranks"][1]["pid"]]
        self.assertGreater(len(killed), 100)
        self.assertEqual({(line["bytes"], line["impl"]) for line in killed}, {(43008, "nccl")})
        node.start_exporter("--collscope.linger=1s")
        wait_for(lambda: (metrics := node.scrape()) and total(metrics, "collscope_collective_duration_seconds_count") > 0, "collectives")
        wait_for(lambda: not list(node.directory.glob("*.seg")), "segments are removed")
        left = [path.name for path in node.directory.iterdir() if path.name != "exporter.lock"]
        self.assertEqual(left, [])


class Hygiene(unittest.TestCase):
    def test_exported_symbols_are_the_entry_points(self):
        symbols = subprocess.run(["nm", "-D", "--defined-only", str(INJECTOR)], capture_output=True, text=True,
                                 check=True).stdout
        names = {line.split()[-1].split("@")[0] for line in symbols.splitlines()}
        expected = {"InitializeInjection", "InitializeInjectionNvtx2", "InitializeInjectionNvtxExtension"}
        expected |= {f"ncclProfiler_v{version}" for version in range(1, 8)}
        self.assertEqual(names, expected)

    def test_needed_libraries(self):
        if os.environ.get("CS_SANITIZE"):
            self.skipTest("a sanitizer's runtime is needed too")
        text = subprocess.run(["readelf", "-d", str(INJECTOR)], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", text))
        self.assertLessEqual(needed, {"libc.so.6", "libpthread.so.0", "libdl.so.2"})

    def test_exporter_is_there(self):
        self.assertTrue(os.access(EXPORTER, os.X_OK))


def load_tests(loader, _tests, _pattern):
    return run_together(loader, (ExporterDies, PortTaken, Killed, Host, Hygiene), AT_ONCE)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The host-safety matrix: one real process per row, with the library and without. Exit status and output (which tells what
work was done) are the same, the segment says what became of the library, and standard error has a line only where something
is off."""
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from node import COMMAND, FAKES, INJECTOR, ROOT, clean_environment, scenario_path, wait_for
from test_host import host

PROGRAMS = pathlib.Path(os.environ["CS_E2E_PROGRAMS"])
PYTHON_HOST = pathlib.Path(__file__).parent / "programs" / "python_host.py"
SANITIZE = os.environ.get("CS_SANITIZE")
COLLECTIVES = 200  # of 20 steps of the small scenario
NOBODY = 65534
# Programs of the matrix leave without cleaning up, and one of them has a library loaded before the sanitizer's.
ASAN = {"ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0:handle_segv=0:handle_abort=0",
        "TSAN_OPTIONS": "exitcode=66:halt_on_error=1:report_thread_leaks=0:handle_segv=0:"
                        f"suppressions={ROOT / 'tests' / 'tsan.supp'}"}


def status(directory):
    """Every process that has left a segment; the command ends with 1 when there is none."""
    done = subprocess.run([COMMAND, "status", "--json"], capture_output=True, text=True, check=False,
                          env=clean_environment(COLLSCOPE_DIR=directory))
    return json.loads(done.stdout)["processes"] if done.returncode == 0 else []


def may(*prefix):
    """Whether this machine lets us run a program like that."""
    return subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0


class Row:
    """One program, with the library and without."""

    def __init__(self, *flags, directory=None, plain=True, **options):
        with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as temporary:
            own = pathlib.Path(temporary) / "run"
            own.mkdir(mode=0o700)
            options = {"COLLSCOPE_FLUSH_MS": "20", **ASAN, **options}
            # Some rows are about what the library does alone.
            self.plain = (0, f"rank 0: {options.get('steps', 20)} steps\n")
            if plain:
                self.plain = host(own, *flags, **{**options, "injected": False})[:2]
            code, output, self.errors = host(directory or own, *flags, **options)
            self.injected = (code, output)
            self.segments = status(own)
            self.lines = self.errors.splitlines()
            self.left = sorted(path.name for path in own.iterdir())

    @property
    def segment(self):
        segment, = self.segments
        return segment


class Matrix(unittest.TestCase):
    maxDiff = None

    def rows(self, rows, check):
        """rows: {name: (flags, options)}; several at once."""
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            made = {name: pool.submit(Row, *flags, **options) for name, (flags, options) in rows.items()}
            for name, future in made.items():
                with self.subTest(name):
                    row = future.result()
                    self.assertEqual(row.injected, row.plain, row.errors)
                    check(name, row)

    def test_threads_contexts_gpus(self):
        extra = {"threads": 8 * 3 * 16, "small stacks": 8 * 3 * 16, "many threads": 64 * 3 * 4, "contexts": 3 * 20 * 2, "gpus": 3 * 20 * 2,
                 "everything": 8 * 3 * 16 + 5 * 20 * 2, "reset": 20 * 2 + 2, "storm": 8 * 3 * 16, "libraries closed": 2}
        flags = {"threads": ("--threads=8",), "small stacks": ("--threads=8", "--small-stack"),
                 "many threads": ("--threads=64", "--launches=10"), "contexts": ("--contexts=3",), "gpus": ("--gpus=3",),
                 "everything": ("--threads=8", "--contexts=2", "--gpus=3"), "reset": ("--reset",),
                 "storm": ("--storm", "--threads=8"), "libraries closed": ("--dlclose",)}

        def check(name, row):
            self.assertEqual(row.lines, [])
            self.assertEqual((row.segment["state"], row.segment["alive"], row.segment["reason"]), ("exited", False, None))
            self.assertEqual({cause: count for cause, count in row.segment["records_lost"].items() if count}, {})
            self.assertEqual(row.segment["records"]["collective"], COLLECTIVES + extra[name], json.dumps(row.segment))
            self.assertLessEqual(row.segment["host_memory_bytes"], 32 << 20)

        for cupti in ("12", "13"):
            self.rows({name: ((*flags[name], "--linger", "0.3"), {"cupti": cupti}) for name in flags}, check)

    def test_other_modes(self):
        """The same things while windows open and close, and while nothing is traced."""
        def check(_, row):
            self.assertEqual((row.lines, row.segment["state"]), ([], "exited"))

        flags = ("--threads=8", "--contexts=1", "--gpus=2", "--reset", "--storm")
        self.rows({mode: (flags, {"COLLSCOPE_MODE": mode, "COLLSCOPE_PERIOD_MS": "100", "COLLSCOPE_WINDOW_MS": "10",
                                  "COLLSCOPE_BUDGET": "1"}) for mode in ("sample", "demand")}, check)

    def test_exit_paths(self):
        """Handlers run: the state says exited. They do not: the segment stays, readable, and nobody holds it."""
        handlers = {"exit", "thread", "pthread_exit"}

        def check(name, row):
            self.assertEqual(row.lines, [])
            self.assertEqual((row.segment["state"], row.segment["alive"]), ("exited" if name in handlers else "ended", False))
            self.assertGreater(row.segment["records"]["collective"], 0)

        names = handlers | {"_exit", "quick_exit", "abort", "term", "segv"}
        # Without handlers only what was handed over before is there: in three seconds, on any machine.
        self.rows({name: ((f"--exit={name}", "--linger", "0.4" if name in handlers else "3"), {}) for name in sorted(names)}, check)

    def test_fork_and_exec(self):
        def check(_, row):
            self.assertEqual(row.lines, [])
            self.assertEqual([(segment["state"], segment["records"]["collective"]) for segment in row.segments],
                             [("exited", COLLECTIVES)] * 2)

        self.rows({"exec": (("--fork-exec", "--linger", "0.3"), {})}, check)

    @unittest.skipIf(SANITIZE, "a sanitizer's runtime must come first in a process, python's is another's program")
    def test_python_multiprocessing(self):
        """Children of fork have no segment of their own and leave the parent's alone; all others have one."""
        def run(directory, how, injector):
            directory.mkdir(mode=0o700, exist_ok=True)
            env = clean_environment(LD_LIBRARY_PATH=f"{FAKES / 'cuda'}:{FAKES / 'cupti13'}", COLLSCOPE_DIR=directory,
                                    COLLSCOPE_MODE="full", COLLSCOPE_EXPORTER="off", COLLSCOPE_FLUSH_MS="10",
                                    CUDA_INJECTION64_PATH=injector)
            done = subprocess.run([sys.executable, "-B", str(PYTHON_HOST), how], env=env, capture_output=True, text=True,
                                  check=False, timeout=120)
            return done.returncode, done.stdout, done.stderr

        # Kernels by the children; the parent launches 200.
        hows = {"fork": 0, "spawn": 60, "forkserver": 60, "subprocess": 0}
        with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as temporary, \
                concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
            root = pathlib.Path(temporary)
            plain = {how: pool.submit(run, root / how, how, "none") for how in hows}
            injected = {how: pool.submit(run, root / how, how, INJECTOR) for how in hows}
            for how, kernels in hows.items():
                with self.subTest(how):
                    self.assertEqual(injected[how].result(), plain[how].result())
                    self.assertEqual(plain[how].result()[::2], (0, ""))
                    segments = status(root / how)
                    # Two workers of a pool take what comes: one may have launched all.
                    self.assertIn(len(segments), (2, 3) if kernels else (1,))
                    self.assertEqual(sum(segment["kernels_seen"] for segment in segments), 200 + kernels)
                    self.assertEqual(max(segment["kernels_seen"] for segment in segments), 200)

    def test_address_space(self):
        """ulimit -v and -d: what the program has is left to it. With less than the library and CUPTI may need, the library does
        nothing but say so; under the least ones it is not even loaded."""
        if SANITIZE:
            self.skipTest("a sanitizer reserves terabytes")

        def check(name, row):
            if int(name.split()[1]) >= 1024:
                self.assertEqual((row.lines, row.segment["records"]["collective"]), ([], COLLECTIVES))
                return
            self.assertEqual(row.segments, [])
            ours = [line for line in row.lines if line.startswith("collscope: ")]
            self.assertLessEqual(len(ours), 1, row.lines)
            if row.injected[0] == 0 and int(name.split()[1]) >= 9:
                self.assertIn(f"ulimit -{'v' if name[0] == 'a' else 'd'}", row.errors)

        self.rows({f"{kind} {mib}": ((), {"prefix": ("prlimit", f"--{kind}={mib << 20}", "--")})
                   for kind, least in (("as", 5), ("data", 1)) for mib in [*range(least, 16), 24, 32, 48, 96, 256, 500, 1024]}, check)

    def as_nobody(self, directory):
        """A prefix under which the kernel's limits and permissions count, and a directory that belongs to nobody."""
        if os.getuid() != 0:
            return ()
        prefix = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        os.chown(directory, NOBODY, NOBODY)
        os.chmod(pathlib.Path(directory).parent, 0o711)
        if not may(*prefix, "sh", "-c", f"test -r {INJECTOR} && test -x {FAKES / 'scenario_rank'} && test -x {directory}"):
            self.skipTest("nobody may not read the build")
        return prefix

    def test_no_thread_to_be_had(self):
        """RLIMIT_NPROC: the worker cannot be created. The program creates none either."""
        with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as temporary:
            run = pathlib.Path(temporary) / "run"
            run.mkdir(mode=0o700)
            prefix = (*self.as_nobody(run), "prlimit", "--nproc=1", "--")
            if not may(*prefix):
                self.skipTest("RLIMIT_NPROC=1 lets nothing start here")
            row = Row(directory=run, prefix=prefix)
            self.assertEqual(row.injected, row.plain, row.errors)
            self.assertEqual(len(row.lines), 1, row.errors)
            self.assertIn("cannot start a thread", row.errors)
            segment, = status(run)
            self.assertEqual(segment["state"], "exited")
            self.assertIn("cannot start a thread", segment["reason"])

    def unwritable(self, directory, prefix):
        row = Row(directory=directory, prefix=prefix)
        self.assertEqual(row.injected, row.plain, row.errors)
        self.assertEqual(len(row.lines), 1, row.errors)
        self.assertRegex(row.errors, "cannot be used|cannot create a segment")

    def test_read_only_file_system(self):
        with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as where:
            script = f'mount --bind {where} {where} && mount -o remount,bind,ro {where} && exec "$@"'
            prefix = ("unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh")
            if not may(*prefix):
                self.skipTest("may not mount in a namespace of its own")
            os.chmod(where, 0o700)
            self.unwritable(where, prefix)

    def test_directory_without_permission(self):
        with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as temporary:
            run = pathlib.Path(temporary) / "run"
            run.mkdir(mode=0o700)
            prefix = self.as_nobody(run)
            os.chmod(run, 0o500)
            self.unwritable(run, prefix)
            os.chmod(run, 0o700)

    def test_full_file_system(self):
        """At every size from nothing to enough: nothing half done is left, and no SIGBUS comes when the ring is written."""
        def check(name, row):
            self.assertLessEqual(len(row.lines), 1, row.errors)
            self.assertEqual(len(row.lines), 0 if name == "32m" else 1, row.errors)

        with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as where:
            rows = {}
            for options in ("size=4k", "size=64k", "size=1m", "size=7m", "size=32m", "size=32m,nr_inodes=1"):
                script = f'mount -t tmpfs -o {options},mode=700 none {where} && "$@"; code=$?; ls -A {where} >&2; exit $code'
                prefix = ("unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh")
                rows[options.split("size=")[1]] = ((), {"prefix": prefix, "directory": where})
            if not may(*rows["4k"][1]["prefix"]):
                self.skipTest("may not mount in a namespace of its own")

            def check_and_look(name, row):
                # The last lines of standard error are what is left in the file system.
                left = [line for line in row.lines if not line.startswith("collscope: ")]
                row.lines = [line for line in row.lines if line.startswith("collscope: ")]
                # In 7 MiB there is room for the small segment that holds the reason.
                self.assertEqual(len(left), 1 if name in ("7m", "32m") else 0, left)
                check(name, row)

            self.rows(rows, check_and_look)

    def test_system_calls_refused(self):
        """As seccomp filters of container runtimes do it. None of these is needed; where one is missed there is a way round."""
        def check(_, row):
            self.assertEqual(row.lines, [], row.errors)
            self.assertEqual((row.segment["state"], row.segment["records"]["collective"]), ("exited", COLLECTIVES))

        rows = {}
        for error in ("EPERM", "ENOSYS"):
            for calls in ("memfd_create", "renameat2", "fallocate", "prctl", "sched_setscheduler", "membarrier", "openat2",
                          "memfd_create,renameat2,fallocate,prctl"):
                rows[f"{error} {calls}"] = ((), {"prefix": (str(PROGRAMS / "refuse"), error, calls), "plain": False})
        rows["ENOSYS clone3"] = ((), {"prefix": (str(PROGRAMS / "refuse"), "ENOSYS", "clone3"), "plain": False})
        if not may(*rows["EPERM memfd_create"][1]["prefix"]):
            self.skipTest("this kernel allows no seccomp filter")
        self.rows(rows, check)

    def test_no_way_to_name_a_segment(self):
        row = Row(prefix=(str(PROGRAMS / "refuse"), "EPERM", "renameat2,linkat"))
        if row.plain[0] == 77:
            self.skipTest("this kernel allows no seccomp filter")
        self.assertEqual(row.injected, row.plain)
        self.assertEqual((len(row.lines), row.left), (1, []), row.errors)
        self.assertIn("cannot create a segment", row.errors)

    def test_clock_is_set(self):
        """An hour forward and back in the middle of the windows: they go on opening, and none counts as that long. More than a day: no time can be
        trusted, which is counted, and after a thousand such records the library gives up. The program runs on.
        The library alone sees the step (programs/clock_step.c says why that is what happens)."""
        def check(name, row):
            segment = row.segment
            self.assertEqual(segment["state"], "exited")
            if abs(int(name.split()[0])) > 86400:  # no record's time can be trusted any more
                self.assertGreater(segment["records_lost"]["bad_timestamp"], 0)
                self.assertLessEqual(len(row.lines), 1, row.errors)
                if row.lines:
                    self.assertIn("no valid times", segment["reason"])
                return
            self.assertEqual(row.lines, [])
            self.assertGreater(segment["windows"]["deep"], 4, name)
            self.assertLess(sum(segment["trace_ns"].values()), 600e9, name)
            self.assertGreater(segment["records"]["collective"], 0)

        options = {"COLLSCOPE_MODE": "sample", "COLLSCOPE_PERIOD_MS": "100", "COLLSCOPE_WINDOW_MS": "60", "COLLSCOPE_BUDGET": "1",
                   "CS_TEST_CLOCK_AFTER_MS": "300", "LD_PRELOAD": str(PROGRAMS / "libclock_step.so"), "steps": 1000, "plain": False}
        self.rows({f"{seconds:+} s": ((), {**options, "CS_TEST_CLOCK_STEP_S": str(seconds)})
                   for seconds in (0, 3600, -3600, 90000, -90000, 1)}, check)

    def begin(self, directory, *flags, **env):
        process = subprocess.Popen(
            [str(FAKES / "scenario_rank"), "--rank", "0", "--load", "libcupti.so.13", *flags, str(scenario_path("small"))],
            env=clean_environment(**{"LD_LIBRARY_PATH": f"{FAKES / 'cuda'}:{FAKES / 'cupti13'}", "COLLSCOPE_DIR": directory,
                                     "COLLSCOPE_MODE": "full", "COLLSCOPE_EXPORTER": "off", "CUDA_INJECTION64_PATH": INJECTOR,
                                     **ASAN, **env}),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def test_stopped_and_continued(self):
        """SIGSTOP in the middle of tracing, SIGCONT: in full mode every collective is there."""
        with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as temporary:
            for mode, steps in (("full", 200), ("sample", 1000)):  # five seconds, of which four are left for windows
                with self.subTest(mode):
                    directory = pathlib.Path(temporary) / mode
                    directory.mkdir(mode=0o700)
                    process = self.begin(directory, "--steps", str(steps), COLLSCOPE_MODE=mode, COLLSCOPE_PERIOD_MS="100",
                                         COLLSCOPE_WINDOW_MS="50", COLLSCOPE_BUDGET="1")
                    wait_for(lambda where=directory: list(where.glob("*.seg")), "segment")
                    for _ in range(2):
                        time.sleep(0.15)
                        process.send_signal(signal.SIGSTOP)
                        time.sleep(0.3)
                        process.send_signal(signal.SIGCONT)
                    output, errors = process.communicate(timeout=60)
                    self.assertEqual((process.returncode, output, errors), (0, f"rank 0: {steps} steps\n", ""))
                    segment, = status(directory)
                    self.assertEqual(segment["state"], "exited")
                    if mode == "full":
                        self.assertEqual(segment["records"]["collective"], 2000)
                    else:
                        self.assertGreater(segment["windows"]["deep"], 3)

    def test_terminated_in_the_middle(self):
        """SIGTERM while many threads launch: the program dies of it, at once, as ever."""
        with tempfile.TemporaryDirectory(prefix="collscope-e2e-") as directory:
            process = self.begin(directory, "--threads=16", "--launches=100000", "--storm")
            wait_for(lambda: list(pathlib.Path(directory).glob("*.seg")), "segment")
            time.sleep(0.3)
            process.terminate()
            process.communicate(timeout=20)
            self.assertEqual(process.returncode, -signal.SIGTERM)
            segment, = status(directory)
            self.assertEqual((segment["alive"], segment["state"]), (False, "ended"))

    def test_200_threads_fit_into_the_memory(self):
        for cupti in ("12", "13"):
            with self.subTest(cupti=cupti):
                row = Row("--threads=200", "--launches=200", cupti=cupti, plain=False, scenario="small", steps=5)
                self.assertEqual(row.injected, (0, "rank 0: 5 steps\nthreads: 120000 launches\n"), row.errors)
                self.assertLessEqual(row.segment["host_memory_bytes"], 32 << 20)
                self.assertGreaterEqual(row.segment["host_memory_bytes"], 16 << 20)


if __name__ == "__main__":
    if not shutil.which("prlimit"):
        sys.exit("test_matrix: prlimit (util-linux) is missing")
    unittest.main(verbosity=2)

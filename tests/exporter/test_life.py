#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The exporter as a program: how it starts, what it says when it cannot, and how it ends."""
import contextlib
import json
import os
import pathlib
import re
import resource
import shlex
import signal
import socket
import subprocess
import time
import unittest
import unittest.mock
import urllib.request

from exporter import AT_ONCE, DEADLINE_S, EXPORTER, Case, run_together, wait_for


class Life(Case):
    def fails(self, *flags):
        done = subprocess.run([EXPORTER, *flags], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        return done.returncode, done.stderr

    def test_clear_failures(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            code, text = self.fails(f"--collscope.dir={self.directory}", f"--web.listen-address={address}")
            self.assertEqual(code, 1)
            self.assertIn(address, text)
            self.assertIn("--web.listen-address", text)
        code, text = self.fails("--colscope.dir=/x")
        self.assertEqual(code, 2)
        self.assertIn("did you mean --collscope.dir?", text)
        file = pathlib.Path(self.directory) / "file"
        file.write_text("")
        code, text = self.fails(f"--collscope.dir={file}", "--web.listen-address=127.0.0.1:0")
        self.assertEqual(code, 1)
        self.assertIn(str(file), text)
        code, text = self.fails("--collscope.dir=relative", "--web.listen-address=127.0.0.1:0")
        self.assertEqual(code, 1)
        self.assertIn("absolute", text)
        for address in ("nonsense", "127.0.0.1:65536", "127.0.0.1:99999"):
            code, text = self.fails(f"--collscope.dir={self.directory}", f"--web.listen-address={address}")
            self.assertEqual(code, 2)
            self.assertIn(f'--web.listen-address needs HOST:PORT, [IPV6]:PORT or :PORT with a port from 0 to 65535, not "{address}"', text)
            # Whoever started it with this variable finds the reason in its log.
            with unittest.mock.patch.dict(os.environ, {"COLLSCOPE_LISTEN": address}):
                code, text = self.fails(f"--collscope.dir={self.directory}")
            self.assertEqual(code, 1)
            self.assertIn("HOST:PORT", text)
        code, text = self.fails(f"--collscope.dir={self.directory}", "--web.listen-address=127.0.0.1:0", f"--collscope.steps={self.directory}/none")
        self.assertEqual(code, 1)
        self.assertIn(f"--collscope.steps {self.directory}/none: cannot use the step rules: ", text)
        self.assertNotIn("Listening", text)

    def test_second_instance(self):
        server = self.exporter()
        code, text = self.fails(f"--collscope.dir={self.directory}", "--web.listen-address=127.0.0.1:0")
        self.assertEqual(code, 1)
        self.assertIn("%s:%d" % server.address, text)
        code, text = self.fails("--collscope.auto", f"--collscope.dir={self.directory}", "--web.listen-address=127.0.0.1:0")
        self.assertEqual((code, text), (0, ""))

    def test_unknown_variable(self):
        """Said by who was started with it, and by an exporter that a traced process started not once more."""
        for flags, lines in (((), 1), (("--collscope.auto", "--log.level=warn"), 0)):
            with unittest.mock.patch.dict(os.environ, {"COLLSCOPE_STALLS": "3", "COLLSCOPE_RING_MIB": "99"}):
                server = self.exporter(*flags)
            said = server.output()
            self.assertEqual(said.count("level=warn"), lines, said)
            self.assertEqual(said.count("COLLSCOPE_STALLS; did you mean COLLSCOPE_STALL_S?"), lines, said)
            server.stop()

    def test_wrong_values_of_variables(self):
        """Each is said, with what holds instead, and none keeps it from serving; none that a flag takes the place of is said."""
        wrong = {"COLLSCOPE_STALL_S": "2m", "COLLSCOPE_STEPS": "/" * 600, "COLLSCOPE_LISTEN": "x" * 200 + ":1"}
        sentences = ("COLLSCOPE_STALL_S is 2m, which is not one of its values (1 to 86400); using 10.",
                     "COLLSCOPE_STEPS is longer than 511 bytes; it is ignored.")
        for flags, said in (((), (1, 1)), (("--collscope.stall=5s",), (0, 1)), (("--collscope.auto", "--log.level=warn"), (0, 0))):
            with unittest.mock.patch.dict(os.environ, wrong):
                server = self.exporter(*flags)
            self.assertEqual(tuple(map(server.output().count, sentences)), said, server.output())
            self.assertNotIn("COLLSCOPE_LISTEN", server.output())
            server.stop()

    def test_output_that_does_not_arrive(self):
        for flag in ("--help", "--version"):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([EXPORTER, flag], stdout=full, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr, "collscope-exporter: cannot write to standard output: No space left on device\n")

    def test_log_of_a_silent_start(self):
        """Started with nothing but /dev/null, it says beside the segments why it cannot serve; a good start leaves no file."""
        log = pathlib.Path(self.directory) / "exporter.log"
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            done = subprocess.run([EXPORTER, "--collscope.auto", f"--collscope.dir={self.directory}", f"--web.listen-address={address}"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(address, log.read_text())
        done = subprocess.run([EXPORTER, "--collscope.auto", "--collscope.linger=1ms", f"--collscope.dir={self.directory}",
                               "--web.listen-address=127.0.0.1:0"], stderr=subprocess.DEVNULL, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(list(pathlib.Path(self.directory).iterdir()), [])

    def test_log_of_odd_names(self):
        """Whatever a path holds, readers of either format get it back as it is, in one field."""
        self.directory = os.path.join(self.directory, 'my "runs" pid=7 \\ é')
        os.mkdir(self.directory)
        (pathlib.Path(self.directory) / "7-7.seg").write_bytes(b"x" * 8192)
        writer = self.writer()
        for form, read in (("logfmt", lambda line: dict(field.split("=", 1) for field in shlex.split(line))), ("json", json.loads)):
            server = self.exporter("--log.level=debug", f"--log.format={form}")
            server.get("/a%22%20pid=7%5C")
            lines = {line["msg"]: line for line in map(read, server.stop()[1].splitlines())}
            self.assertEqual(lines["Following a process"]["segment"], str(writer.path))
            self.assertIn(f"{self.directory}/7-7.seg", lines["A segment cannot be used"]["error"])
            answers = [line for line in lines.values() if line["msg"] == "Answered a request"]
            self.assertEqual([(line["path"], line["status"]) for line in answers], [('/a" pid=7\\', "404")])
            self.assertEqual(set(lines["Following a process"]), {"time", "level", "component", "msg", "pid", "command", "segment"})

    def test_started_without_standard_descriptors(self):
        """The next file that it opens takes a free number, and would get the log: the lock file, here."""
        self.writer()
        server = subprocess.Popen(["sh", "-c", 'exec "$@" <&- 2>&-', "sh", EXPORTER, f"--collscope.dir={self.directory}",
                                   "--web.listen-address=127.0.0.1:0"], stdout=subprocess.DEVNULL)
        self.addCleanup(lambda: server.poll() is None and (server.kill(), server.wait()))
        lock = pathlib.Path(self.directory) / "exporter.lock"
        wait_for(lambda: lock.exists() and "address" in lock.read_text())
        host, port = re.search(r"address (.*):(\d+)", lock.read_text()).groups()
        text = ""

        def follows():
            nonlocal text
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=DEADLINE_S) as answer:
                text = answer.read().decode()
            return "collscope_process_info{" in text
        wait_for(follows)
        self.assertEqual(lock.read_bytes(), f"pid {server.pid}\naddress {host}:{port}\n".encode())
        server.terminate()
        self.assertEqual(server.wait(DEADLINE_S), 0)

    @unittest.skipIf("thread" in os.environ.get("CS_SANITIZE", ""), "ThreadSanitizer's own start needs a file")
    def test_files_may_not_grow(self):
        """Under ulimit -f it serves, and says what cannot be written; its log, when that is a file, is cut off. The address is written
        when it can be: as on a file system that is full for a while."""
        self.writer()
        server = subprocess.Popen(["sh", "-c", 'ulimit -S -f 0 && exec "$@"', "sh", EXPORTER, f"--collscope.dir={self.directory}",
                                   "--web.listen-address=127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (server.poll() is None and server.kill(), server.wait(), server.stderr.close()))
        said = server.stderr.readline() + server.stderr.readline()
        host, port = re.search(r"address=(.*):(\d+)", said).groups()
        self.assertRegex(said, 'level=warn .*exporter.lock.* error="File too large"')
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=DEADLINE_S) as answer:
            self.assertIn("collscope_build_info", answer.read().decode())
        lock = pathlib.Path(self.directory) / "exporter.lock"
        self.assertEqual(lock.read_bytes(), b"")
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, resource.prlimit(server.pid, resource.RLIMIT_FSIZE)[1:] * 2)
        wait_for(lambda: lock.read_bytes() == f"pid {server.pid}\naddress {host}:{port}\n".encode())
        server.terminate()
        self.assertEqual(server.wait(DEADLINE_S), 0)
        self.assertEqual(server.stderr.read().count("exporter.lock"), 1)

    def test_service_manager(self):
        """READY=1 once it answers, STOPPING=1 before it goes, WATCHDOG=1 in between."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(self.directory + "/notify")
            manager.settimeout(DEADLINE_S)
            environment = {**os.environ, "NOTIFY_SOCKET": self.directory + "/notify", "WATCHDOG_USEC": "200000"}
            process = subprocess.Popen([EXPORTER, f"--collscope.dir={self.directory}", "--web.listen-address=127.0.0.1:0", "--log.level=error"],
                                       env=environment)
            self.assertIn(b"READY=1", manager.recv(1000))
            self.assertIn(b"WATCHDOG=1", manager.recv(1000))
            process.terminate()
            said = b""
            while b"STOPPING=1" not in said:
                said = manager.recv(1000)
            self.assertEqual(process.wait(DEADLINE_S), 0)

    def test_signals(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            server = self.exporter()
            self.assertEqual(server.stop(how)[0], 0)
            self.assertFalse((pathlib.Path(self.directory) / "exporter.lock").exists())

    def test_automatic(self):
        """Stays while a writer lives, leaves when the last one is gone, and takes its files along."""
        writer, _ = self.rank(0, 1)
        server = self.exporter("--collscope.auto", "--collscope.linger=1500ms")  # ends between two looks
        time.sleep(2.5)
        self.assertIsNone(server.process.poll())
        writer.kill()
        self.assertEqual(server.process.wait(DEADLINE_S), 0)
        self.assertEqual(list(pathlib.Path(self.directory).iterdir()), [])


def load_tests(loader, _tests, _pattern):
    return run_together(loader, (Life,), AT_ONCE)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""collscope run: environment, exit status, signals, and the exporter it starts."""
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

import cli

PRINT = "import json, os; print(json.dumps(dict(os.environ)))"


def wait_for(path, seconds=20):
    """Bounded wait for something that is going to happen; the test does not depend on how soon."""
    for _ in range(seconds * 100):
        if os.path.exists(path):
            return True
        time.sleep(0.01)
    return False


class Run(cli.Test):
    def setUp(self):
        super().setUp()
        self.library = os.path.join(self.dir, "libcollscope.so")
        os.symlink(os.path.join(os.environ["CS_BUILD"], "injector", "libcollscope.so"), self.library)
        self.env["COLLSCOPE_EXPORTER"] = "off"

    def run_program(self, *words, options=(), status=0, **more):
        return self.run_command("run", "--library", self.library, *options, "--", *words, status=status, **more)

    def environment(self, *options, **more):
        return json.loads(self.run_program(sys.executable, "-c", PRINT, options=options, **more).stdout)

    def test_exit_status(self):
        for status in (0, 1, 2, 77, 125, 255):
            self.run_program("sh", "-c", f"exit {status}", status=status)

    def test_environment(self):
        env = self.environment("--mode", "full", "--ring-mib=16", "--budget", "0.02")
        self.assertEqual(env["CUDA_INJECTION64_PATH"], self.library)
        self.assertEqual((env["COLLSCOPE_MODE"], env["COLLSCOPE_RING_MIB"], env["COLLSCOPE_BUDGET"], env["COLLSCOPE_DIR"]),
                         ("full", "16", "0.02", self.dir))
        self.assertEqual(self.environment("--no-exporter", "--exporter", "auto", "--no-exporter")["COLLSCOPE_EXPORTER"], "off")

    def test_relative_paths_become_absolute(self):
        env = self.environment("--catalog", "rules.tbl", "--dir", "x", cwd=self.dir)
        self.assertEqual(env["COLLSCOPE_CATALOG"], os.path.join(self.dir, "rules.tbl"))
        self.assertEqual(env["COLLSCOPE_DIR"], os.path.join(self.dir, "x"))

    def test_too_long_a_directory(self):
        too_long = f"{self.dir}/{'x/' * 256}"
        done = self.run_command("run", "--library", self.library, "--", "echo", "runs",
                                env={**self.env, "COLLSCOPE_EXPORTER": "auto", "COLLSCOPE_DIR": too_long})
        self.assertEqual(done.stdout, "runs\n")
        self.assertEqual(done.stderr, "collscope: warn: COLLSCOPE_DIR is longer than 511 bytes; nothing is recorded.\n")
        done = self.run_command("run", "--dir", too_long, "--", "true", status=125)
        self.assertIn("--dir: COLLSCOPE_DIR is longer than 511 bytes. See", done.stderr)

    def test_bad_values_run_nothing(self):
        touched = os.path.join(self.dir, "touched")
        for option in (["--mode", "everything"], ["--ring-mib", "3"], ["--budget", "2"], ["--mode"], ["--modee", "full"], ["-x"]):
            done = self.run_command("run", "--library", self.library, *option, "--", "touch", touched, status=125)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertFalse(os.path.exists(touched))
        self.assertIn('did you mean "--mode"', self.run_command("run", "--mod", "full", "--", "true", status=125).stderr)

    def test_wrong_environment_is_told(self):
        """In the words of the library, which says it in each rank's own log; nothing is stopped by it."""
        for name, value, said in (
                ("COLLSCOPE_MODE", "ful", "COLLSCOPE_MODE is ful, which is not one of its values (off|demand|sample|full); using sample."),
                ("COLLSCOPE_MOED", "full", "There is no variable COLLSCOPE_MOED; did you mean COLLSCOPE_MODE?"),
                ("COLLSCOPE_DIR", "relative", 'Cannot use the run directory "relative", so nothing will be recorded: the path is not absolute; '
                 "name another with --dir or COLLSCOPE_DIR"),
                ("COLLSCOPE_RING_MIB", "3", "COLLSCOPE_RING_MIB is 3, which is not one of its values (1 to 16, power of two); using 8."),
                ("COLLSCOPE_MODE", "full", None), ("COLLSCOPE_MODE", "", None)):
            done = self.run_program("echo", "runs", env={**self.env, name: value})
            self.assertEqual((done.stdout, done.stderr), ("runs\n", f"collscope: warn: {said}\n" if said else ""))
        # An option takes the place of what is wrong.
        done = self.run_program("true", options=["--mode", "full"], env={**self.env, "COLLSCOPE_MODE": "ful"})
        self.assertEqual(done.stderr, "")
        done = self.run_program("true", options=["--mode", "off"], env={**self.env, "COLLSCOPE_EXPORTER": "no"})
        self.assertEqual(done.stderr, "collscope: warn: COLLSCOPE_EXPORTER is no, which is not one of its values (off|auto); using auto.\n")

    def test_command_not_there(self):
        plain = os.path.join(self.dir, "plain")
        with open(plain, "w", encoding="ascii") as file:
            file.write("x")
        self.run_program("no-such-command-anywhere", status=127)
        self.run_program(os.path.join(self.dir, "none"), status=127)
        self.run_program(plain, status=126)
        self.run_program(self.dir, status=126)
        self.run_command("run", status=125)
        self.run_command("run", "--", status=125)
        self.assertIn("none.so", self.run_command("run", "--library", "none.so", "--", "true", status=125).stderr)

    def test_library_that_is_none(self):
        touched, pipe = os.path.join(self.dir, "touched"), os.path.join(self.dir, "pipe")
        os.mkfifo(pipe)
        with open(os.path.join(os.environ["CS_BUILD"], "injector", "libcollscope.so"), "rb") as file:
            image = bytearray(file.read())
        image[18:20] = struct.pack("<H", 243)  # e_machine
        foreign, short = os.path.join(self.dir, "foreign.so"), os.path.join(self.dir, "short.so")
        with open(foreign, "wb") as file:
            file.write(image)
        with open(short, "wb") as file:
            file.write(image[:18] + struct.pack("<H", {"x86_64": 62, "aarch64": 183}[os.uname().machine]) + image[20:5000])
        for path, says in (("/etc/passwd", "no shared object"), ("/dev/null", "no shared object"), (pipe, "no shared object"),
                           (cli.COMMAND, "no libcollscope.so, as it has no InitializeInjection"), (foreign, "for another machine"),
                           (short, "no InitializeInjection"), (self.dir, "Is a directory")):
            done = self.run_command("run", "--library", path, "--", "touch", touched, status=125)
            self.assertIn(says, done.stderr)
            self.assertIn(f'"{path}"', done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertFalse(os.path.exists(touched))

    def test_command_words_are_not_options(self):
        done = self.run_command("run", "--library", self.library, "echo", "--help", "--", "-x")
        self.assertEqual(done.stdout, "--help -- -x\n")
        self.assertEqual(self.run_program("printf", "%s\\n", "--mode").stdout, "--mode\n")

    def test_same_process(self):
        process = subprocess.Popen([cli.COMMAND, "run", "--library", self.library, "--", "sh", "-c", "echo $$; exec cat"],
                                   env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.assertEqual(int(process.stdout.readline()), process.pid)
        process.communicate()

    def test_signals(self):
        script = "import signal, sys; signal.signal(signal.SIGTERM, lambda *a: sys.exit(42)); print('up', flush=True); signal.pause()"
        for number, status in ((signal.SIGTERM, 42), (signal.SIGINT, None), (signal.SIGKILL, -9)):
            process = subprocess.Popen([cli.COMMAND, "run", "--library", self.library, "--", sys.executable, "-c", script],
                                       env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            process.stdout.readline()
            process.send_signal(number)
            process.stdout.close()
            returned = process.wait(timeout=20)
            if status is not None:
                self.assertEqual(returned, status)
            else:
                self.assertIn(returned, (-signal.SIGINT, 1))

    def test_descriptors(self):
        """A closed stdout is closed for the command too, and no descriptor of ours is left open."""
        listing = self.run_program("sh", "-c", "ls /proc/$$/fd")
        self.assertEqual(listing.stdout.split()[:3], ["0", "1", "2"])
        self.assertLessEqual(set(listing.stdout.split()), {"0", "1", "2", "3", "255"})
        shell = subprocess.run(["sh", "-c", f'"{cli.COMMAND}" run --library "{self.library}" -- sh -c "test -e /proc/\\$\\$/fd/1" >&-'],
                               env=self.env, check=False)
        self.assertEqual(shell.returncode, 1)

    def test_other_tool_is_named(self):
        self.env["CUDA_INJECTION64_PATH"] = "/opt/other.so"
        done = self.run_program("true")
        self.assertEqual(done.stderr, 'collscope: warn: CUDA_INJECTION64_PATH named another tool, "/opt/other.so", which will not be loaded\n')
        self.env["CUDA_INJECTION64_PATH"] = self.library
        self.assertEqual(self.run_program("true").stderr, "")

    def test_finds_its_parts(self):
        """Installed, in one folder, and in a build tree; the library's own folder for the exporter."""
        for library in ("bin", "lib/collscope", "lib"):
            root = os.path.join(self.dir, "install-" + library.replace("/", "-"))
            os.makedirs(os.path.join(root, "bin"))
            os.makedirs(os.path.join(root, library), exist_ok=True)
            command = shutil.copy(cli.COMMAND, os.path.join(root, "bin", "collscope"))
            path = shutil.copy(self.library, os.path.join(root, library))
            done = subprocess.run([command, "run", "--", "printenv", "CUDA_INJECTION64_PATH"], env=self.env, capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.stdout.strip(), os.path.realpath(path), done.stderr)
        tree = os.path.join(self.dir, "build/dev")
        os.makedirs(os.path.join(tree, "src/cli"))
        os.makedirs(os.path.join(tree, "injector"))
        command = shutil.copy(cli.COMMAND, os.path.join(tree, "src/cli/collscope"))
        done = subprocess.run([command, "run", "--", "true"], env=self.env, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 125)
        self.assertIn("--library", done.stderr)
        path = shutil.copy(self.library, os.path.join(tree, "injector"))
        done = subprocess.run([command, "run", "--", "printenv", "CUDA_INJECTION64_PATH"], env=self.env, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.stdout.strip(), os.path.realpath(path))

    # -- the exporter

    def fake_exporter(self):
        """A script in the exporter's place that says how it was started."""
        path = os.path.join(self.dir, "collscope-exporter")
        with open(path, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nls -l /proc/$$/fd > "{self.dir}/fds.tmp"\n'
                       f'echo "$@" "$COLLSCOPE_MODE" > "{self.dir}/started.tmp"\necho said >&2\n'
                       f'ps -o sid= -p $$ >> "{self.dir}/started.tmp" 2>/dev/null\n'
                       f'mv "{self.dir}/fds.tmp" "{self.dir}/fds"\nmv "{self.dir}/started.tmp" "{self.dir}/started"\n')
        os.chmod(path, 0o700)
        return os.path.join(self.dir, "started")

    def test_exporter_is_started(self):
        started = self.fake_exporter()
        del self.env["COLLSCOPE_EXPORTER"]
        reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        done = self.run_program("sh", "-c", "exit 5", options=["--mode", "demand"], status=5, close_fds=False)
        os.close(writer)
        os.close(reader)
        # The script never serves: that is said, and stops nothing. A busy machine may not have run it to its end.
        self.assertIn(done.stderr, ("collscope: warn: The exporter did not start, so there will be no metrics: said\n",
                                    "collscope: warn: The exporter is not up yet; if there are no metrics, "
                                    f'"{self.dir}/exporter.log" says why\n'))
        self.assertTrue(wait_for(started))
        with open(started, encoding="ascii") as file:
            self.assertEqual(file.readline().split(), ["--collscope.auto", "demand"])
        with open(os.path.join(self.dir, "fds"), encoding="ascii") as file:
            fds = file.read()
        self.assertNotIn("pipe:", fds)
        with open(os.path.join(self.dir, "exporter.log"), encoding="ascii") as file:
            self.assertEqual(file.read(), "said\n")
        self.assertEqual(os.stat(os.path.join(self.dir, "exporter.log")).st_mode & 0o777, 0o600)

    def run_with_exporter(self, script):
        """What `run` says of a stand-in for the exporter. What it does to end comes before the wait is over, or not."""
        path = os.path.join(self.dir, "exporter")
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o700)
        self.env.pop("COLLSCOPE_EXPORTER", None)
        for _ in range(50):
            done = self.run_program("sh", "-c", "exit 5", options=["--exporter-path", path], status=5)
            if "is not up yet" not in done.stderr:
                break
        return done.stderr

    def test_exporter_that_ends_is_told(self):
        self.assertEqual(self.run_with_exporter("exit 1\n"),
                         "collscope: warn: The exporter did not start, and did not say why, so there will be no metrics\n")
        self.assertEqual(self.run_with_exporter("echo first >&2; echo; echo 'time=1 level=error msg=\"Cannot start\" "
                                                "error=\"no such directory\"' >&2\n"),
                         "collscope: warn: The exporter did not start, so there will be no metrics: no such directory\n")

    def test_no_address(self):
        """The real exporter's reason, which has quotes of its own, in one sentence."""
        self.env.pop("COLLSCOPE_EXPORTER", None)
        exporter = os.path.join(os.environ["CS_BUILD"], "exporter", "collscope-exporter")
        for _ in range(50):
            done = self.run_program("true", options=["--exporter-path", exporter], env={**self.env, "COLLSCOPE_LISTEN": "nowhere"})
            if "is not up yet" not in done.stderr:
                break
        self.assertEqual(done.stderr, "collscope: warn: The exporter did not start, so there will be no metrics: "
                         '"nowhere" is no address to listen on; use HOST:PORT, [IPV6]:PORT or :PORT\n')

    def test_listen_is_checked(self):
        """As every other option: a command line that is wrong runs nothing."""
        touched = os.path.join(self.dir, "touched")
        for value in ("foo", "19400", "host:", "host:port", "host:65536", "host:-1", "host:123456", "::1:19400", "a:b:1", "[]:19400"):
            done = self.run_command("run", "--library", self.library, "--listen", value, "--", "touch", touched, status=125)
            self.assertEqual(done.stderr.splitlines()[0], f'collscope: error: Value "{value}" of --listen is no address to listen on: '
                             "use HOST:PORT, [IPV6]:PORT or :PORT, with a port from 0 to 65535. See `collscope run --help`.")
        self.assertFalse(os.path.exists(touched))
        for value in ("localhost:0", ":65535", "[::1]:19400", "127.0.0.1:19400", ""):
            self.assertEqual(self.run_program("printenv", "COLLSCOPE_LISTEN", options=["--listen", value]).stdout, value + "\n")

    def test_port_taken(self):
        """The real exporter. Whoever has the port, and what to do, is told in the terminal and stays in exporter.log."""
        exporter = os.path.join(os.environ["CS_BUILD"], "exporter", "collscope-exporter")
        del self.env["COLLSCOPE_EXPORTER"]
        with socket.create_server(("127.0.0.1", 0)) as other:
            address = f"127.0.0.1:{other.getsockname()[1]}"
            for _ in range(50):
                done = self.run_program("true", options=["--exporter-path", exporter, "--listen", address])
                if "is not up yet" not in done.stderr:
                    break
        self.assertIn(f"no metrics: cannot listen on {address}: Address already in use; ", done.stderr)
        self.assertIn("choose another address with COLLSCOPE_LISTEN or `collscope run --listen`\n", done.stderr)
        self.assertNotIn("--web.listen-address", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        with open(os.path.join(self.dir, "exporter.log"), encoding="utf-8") as file:
            self.assertIn(address, file.read())

    def serve(self):
        """The real exporter in the run directory; its address."""
        lock = os.path.join(self.dir, "exporter.lock")
        exporter = subprocess.Popen([os.path.join(os.environ["CS_BUILD"], "exporter", "collscope-exporter"), "--web.listen-address=127.0.0.1:0",
                                     f"--collscope.dir={self.dir}"], env=self.env, stderr=subprocess.DEVNULL)
        self.addCleanup(exporter.wait)
        self.addCleanup(exporter.kill)
        for _ in range(2000):
            if os.path.exists(lock) and os.path.getsize(lock):
                break
            time.sleep(0.01)
        with open(lock, encoding="ascii") as file:
            return file.read().split()[3]

    def test_another_address_has_no_effect(self):
        address = self.serve()
        del self.env["COLLSCOPE_EXPORTER"]
        said = f'collscope: warn: An exporter already serves "{self.dir}" on {address}; %s has no effect\n'
        self.assertEqual(self.run_program("true", options=["--listen", "127.0.0.1:1"]).stderr, said % "--listen")
        self.assertEqual(self.run_program("true", env={**self.env, "COLLSCOPE_LISTEN": ":1"}).stderr, said % "COLLSCOPE_LISTEN")
        for options in ([], ["--listen", address], ["--listen", address.replace("127.0.0.1", "localhost")]):
            self.assertEqual(self.run_program("true", options=options).stderr, "")

    def test_metrics_are_told(self):
        """To a person, and to who asked for it."""
        address = self.serve()
        del self.env["COLLSCOPE_EXPORTER"]
        said = f"collscope: Metrics: http://{address}/metrics\n"
        self.assertEqual(self.run_program("true", options=["--log", "info"]).stderr.replace("info: ", ""), said)
        for log, expected in (("warn", said), ("error", "")):
            ours, theirs = os.openpty()
            subprocess.run([cli.COMMAND, "run", "--library", self.library, "--log", log, "--", "true"], env=self.env, check=True,
                           stdin=subprocess.DEVNULL, stderr=theirs)
            os.write(theirs, b"end\n")
            text = b""
            while not text.endswith(b"end\r\n"):
                text += os.read(ours, 4096)
            os.close(theirs)
            os.close(ours)
            self.assertEqual(text.decode().replace("\r", "").replace("info: ", ""), expected + "end\n")

    def test_free_port_is_told(self):
        """Also where nobody looks: there is no other way to know it."""
        del self.env["COLLSCOPE_EXPORTER"]
        exporter = os.path.join(os.environ["CS_BUILD"], "exporter", "collscope-exporter")
        for attempt in range(50):
            directory = os.path.join(self.dir, str(attempt))
            done = self.run_program("true", options=["--exporter-path", exporter, "--listen", "127.0.0.1:0", "--dir", directory])
            lock = os.path.join(directory, "exporter.lock")
            for _ in range(2000):  # a busy machine may not have had it up in time
                if os.path.exists(lock) and os.path.getsize(lock):
                    break
                time.sleep(0.01)
            with open(lock, encoding="ascii") as file:
                _, pid, _, address = file.read().split()
            os.kill(int(pid), signal.SIGTERM)
            if "is not up yet" not in done.stderr:
                break
        self.assertEqual(done.stderr, f"collscope: info: Metrics: http://{address}/metrics\n")

    def assert_not_started(self, started, *options, status=0, command="true"):
        self.run_program(command, options=options, status=status)
        # Had it been started, it would have been executed before the command: its log would be there.
        self.assertFalse(os.path.exists(os.path.join(self.dir, "exporter.log")))
        self.assertFalse(os.path.exists(started))

    def test_exporter_is_not_started(self):
        started = self.fake_exporter()
        del self.env["COLLSCOPE_EXPORTER"]
        self.assert_not_started(started, "--no-exporter")
        self.assert_not_started(started, "--exporter", "off")
        self.assert_not_started(started, "--mode", "off")
        self.assert_not_started(started, command="no-such-command-anywhere", status=127)
        with open(os.path.join(self.dir, "exporter.lock"), "w", encoding="ascii") as lock:
            fcntl.fcntl(lock, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
            self.assert_not_started(started)
        self.run_program("true")
        self.assertTrue(wait_for(started), "a lock file that nobody holds does not stop it")

    def test_missing_exporter_stops_nothing(self):
        del self.env["COLLSCOPE_EXPORTER"]
        done = self.run_program("sh", "-c", "exit 3", options=["--exporter-path", os.path.join(self.dir, "none")], status=3)
        self.assertEqual(done.stderr, f'collscope: warn: Cannot start the exporter "{self.dir}/none", so there will be no metrics: No such file or directory\n')

    def test_unusable_run_directory_stops_nothing(self):
        del self.env["COLLSCOPE_EXPORTER"]
        self.fake_exporter()
        says = "%s, so nothing will be recorded: %s; name another with --dir or COLLSCOPE_DIR"
        done = self.run_program("sh", "-c", "exit 3", options=["--dir", self.library + "/x"], status=3)
        self.assertIn(says % (f'"{self.library}/x"', "Not a directory"), done.stderr)
        done = self.run_program("true", env={**self.env, "COLLSCOPE_DIR": "relative"})
        self.assertIn(says % ('"relative"', "the path is not absolute"), done.stderr)


unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Help, versions, typing errors, and standard output that cannot be written."""
import os
import subprocess
import unittest

import cli

COMMANDS = ("run", "status", "dump", "top", "trace", "pause", "resume", "catalog", "help")


class General(cli.Test):
    def test_help(self):
        overview = self.run_command("--help").stdout
        self.assertEqual(self.run_command("-h").stdout, overview)
        self.assertEqual(self.run_command("help").stdout, overview)
        for name in COMMANDS:
            self.assertRegex(overview, rf"(?m)^  {name} ")
            text = self.run_command("help", name).stdout
            self.assertEqual(self.run_command(name, "--help").stdout, text)
            self.assertEqual(self.run_command(name, "-h").stdout, text)
            for part in ("Usage: collscope " + name, "Examples:", "Options:", "--help", "Exit status:"):
                self.assertIn(part, text)
            for line in text.splitlines():
                self.assertTrue(len(line) <= 80 or line.startswith("  collscope ") or "Usage" in line, line)

    def test_version(self):
        self.assertRegex(self.run_command("--version").stdout, r"^collscope \d+\.\d+\.\d+\n$")

    def test_no_command(self):
        done = self.run_command(status=2)
        self.assertEqual(done.stdout, "")
        self.assertIn("Commands:", done.stderr)

    def test_typing_errors(self):
        for words, guess in ((["stauts"], '"status"'), (["dmup"], '"dump"'), (["help", "resum"], '"resume"'),
                             (["dump", "--fromat", "text"], '"--format"'), (["status", "--jsno"], '"--json"')):
            done = self.run_command(*words, status=2)
            self.assertIn("did you mean " + guess, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_bad_options(self):
        for words in (["frobnicate-the-rings"], ["--frob"], ["dump", "--format", "xml"], ["dump", "--since", "yesterday"],
                      ["dump", "--since", "400d"], ["dump", "--kind", "colective"], ["dump", "extra"], ["status", "--pid", "0"],
                      ["status", "--json=1"], ["dump", "--since"], ["status", "-q"], ["help", "run", "dump"],
                      ["status", "--color", "mauve"]):
            done = self.run_command(*words, status=2)
            self.assertEqual(len(done.stderr.splitlines()), 1, (words, done.stderr))

    def test_empty_name_of_a_rule_file_is_none(self):
        """COLLSCOPE_STEPS= as a service file has it, and the option over a variable that names one."""
        self.write(hold=1)
        missing = os.path.join(self.dir, "none.rules")
        for words in (["dump"], ["status", "--collectives"], ["top", "--count", "1"]):
            self.run_command(*words, env={**self.env, "COLLSCOPE_STEPS": missing}, status=2)
            self.run_command(*words, env={**self.env, "COLLSCOPE_STEPS": ""})
            if words[0] != "top":
                self.run_command(*words, "--steps", "", env={**self.env, "COLLSCOPE_STEPS": missing})

    def shell(self, script):
        env = dict(self.env, C=cli.COMMAND)
        return subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, timeout=60, check=False)

    def test_full_disk(self):
        self.write(launches=100)
        for words in ("dump", "status", "status --json", "--help", "--version", "help run"):
            done = self.shell(f'"$C" {words} > /dev/full')
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("Cannot write to standard output: No space left on device", done.stderr)

    def test_file_that_may_not_grow(self):
        """ulimit -f: an error of writing, not the end by a signal; COMMAND of run has its signals as before."""
        self.write(launches=100)
        done = self.shell(f'(ulimit -f 0; exec "$C" dump > {self.dir}/out)')
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("Cannot write to standard output: File too large", done.stderr)
        library = os.path.join(os.environ["CS_BUILD"], "injector", "libcollscope.so")
        done = self.shell(f'for run in "" "$C run --no-exporter --library {library} --"; do '
                          '$run grep -E "Sig(Ign|Cgt|Blk)" /proc/self/status; done')
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 6, done.stderr)
        self.assertEqual(lines[:3], lines[3:])

    def test_closed_stdout(self):
        self.write()
        for words in ("dump", "status", "--version"):
            done = self.shell(f'"$C" {words} >&-')
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("Cannot write to standard output", done.stderr)
        self.assertEqual(len(self.dump("-k", "collective")), 31, "nothing was printed into the segment")
        self.assertEqual(self.shell('"$C" dump --dir /none >&-').returncode, 1, "nothing to print, nothing lost")

    def test_reader_goes_away(self):
        self.write(launches=400)
        done = self.shell('"$C" dump | head -n 1 > /dev/null; echo "${PIPESTATUS[0]}"')
        self.assertEqual(done.stdout.strip(), "141")
        self.assertEqual(done.stderr, "")
        ignored = self.shell('trap "" PIPE; "$C" dump | head -n 1 > /dev/null; echo "${PIPESTATUS[0]}"')
        self.assertIn(ignored.stdout.strip(), ("141", "2"))

    def test_exit_status_of_data_error_survives_full_disk(self):
        writer = self.write()
        os.truncate(writer.path, 200)
        self.assertEqual(self.shell('"$C" dump > /dev/full').returncode, 2)

    def test_segments_of_another_user_are_one_line(self):
        """Eight ranks are one server: who it belongs to is said once, by every command that looks at them."""
        for rank in range(3):
            self.write(rank=rank, hold=1, dropped=0)
        said = "collscope: error: Cannot open 3 segments of uid 0: run this as that user (you are uid 65534)\n"
        for words in (["status"], ["dump"], ["top", "-n", "1"], ["pause", "--all"], ["resume", "--all"]):
            self.assertEqual(self.run_as_another_user(*words, status=2).stderr, said, words)
        nothing = "collscope: error: Nothing is traced\n"
        self.assertEqual(self.run_as_another_user("trace", "--seconds", "1", "--all", status=2).stderr, said + nothing)
        one = self.write(rank=3, hold=1, dropped=0)
        self.assertEqual(self.run_as_another_user("trace", "--seconds", "1", "--pid", one.pid, status=2).stderr,
                         said.replace("3 segments", "1 segment") + nothing)
        # What may not be opened for another reason is told by its own name.
        os.chmod(one.path, 0)
        os.chown(one.path, 65534, -1)
        self.assertEqual(self.run_as_another_user("status", status=2).stderr.splitlines(),
                         [f"collscope: error: cannot open segment {one.path}: Permission denied", said.strip()])

    def test_segments_of_many_users(self):
        """Who may write the directory cannot make every look at it scroll: past eight users there is one line for all."""
        if os.geteuid() != 0:
            self.skipTest("only root can be somebody else")
        for number in range(22):
            os.chown(self.write(rank=number).path, 4711 + number // 2, -1)
        said = self.run_as_another_user("status", status=2).stderr.splitlines()
        self.assertEqual(len(said), 9, said)
        self.assertEqual(said[8], "collscope: error: Cannot open 6 segments of still other users")


unittest.main()

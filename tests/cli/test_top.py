# SPDX-License-Identifier: Apache-2.0
"""collscope top, as a pipe sees it."""
import re
import subprocess
import unittest

import cli


class Top(cli.Test):
    def test_pictures(self):
        writer = self.write(hold=1)
        text = self.run_command("top", "--interval", "100ms", "--count", 3).stdout
        self.assertEqual(text.count("COMMAND"), 3)
        self.assertEqual(len(re.findall(rf"(?m)^ *{writer.pid} +0/2 +3 +full +tracing ", text)), 3)
        self.assertNotIn("\033", text)
        # The records of the ring from before the start are not of this interval.
        self.assertEqual(text.count("No collectives yet"), 3)

    def test_last_picture_stays(self):
        """What the rings hold from a window before the start; then a new window, whose table stays. Both say their age."""
        writer = self.write(hold=1, mode=2, skipped=21)
        pictures, text = [], ""
        with subprocess.Popen([cli.COMMAND, "top", "--interval", "500ms", "--count", "200"], env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as top:
            for line in top.stdout:
                if "COMMAND" in line:
                    if text:
                        pictures.append(text)
                    text = ""
                text += line
                if len(pictures) == 2 and not text.count("\n") > 1:
                    writer.write_more()
                fresh = [i for i, picture in enumerate(pictures) if "Last window" not in picture]
                if fresh and len(pictures) > fresh[-1] + 2:
                    break
            top.kill()
        old, new = pictures[:fresh[0]], pictures[fresh[0]:]
        self.assertGreaterEqual(len(old), 2)
        for picture in old:
            self.assertRegex(picture, r"Last window (5|6|7|8|9|\d\d)\.\d+ s ago|Last window \d+ m")
        self.assertRegex(new[-1], r"Last window \d+\.\d+ s ago")
        # What is written while it looks may come in two turns.
        for picture, count in ((old[0], "30"), (old[-1], "30"), (new[0], r"\d+"), (new[-1], "30")):
            self.assertRegex(picture, rf"all_reduce +vllm_custom +42 KiB +bfloat16 +\w+ +{count} ")
            self.assertIn("Rank 0 skipped 21 windows (budget)", picture)

    def test_only_the_last_window_of_several(self):
        """Windows that the rings hold beside it are not in the picture, but in what is known of the steps."""
        writer = self.write(hold=1, mode=2, age_ms=60000, launches=7)
        writer.write_more()
        self.addCleanup(writer.close)
        row = r"all_reduce +vllm_custom +42 KiB +bfloat16 +%s +70 "
        # All of it has to be two seconds old.
        text = self.run_command("top", "--interval", "2500ms", "--count", 1).stdout
        self.assertRegex(text, row % "decode")
        self.assertNotRegex(text, row % "unknown")
        text = self.run_command("status", "--collectives").stdout
        self.assertRegex(text, row % "decode")
        self.assertRegex(text, row % "unknown")

    def test_waits_for_a_window(self):
        self.write(hold=1, mode=2, launches=0, others=0, period_ms=10000)
        self.assertIn("No collectives yet: waiting for the next window, one every 10.0 s\n",
                      self.run_command("top", "--interval", "100ms", "--count", 1).stdout)

    def test_what_has_ended_goes(self):
        """After some seconds in which it says so, though its file is still there."""
        stays, ends = self.write(hold=1), self.write(hold=1, rank=1)
        states = []
        with subprocess.Popen([cli.COMMAND, "top", "--interval", "200ms", "--count", "300"], env=self.env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as top:
            state = None
            for line in top.stdout:
                row = re.match(rf" *({stays.pid}|{ends.pid}) +(\d)/2 .* (tracing|ended) ", line)
                if row and row[2] == "1":
                    state = row[3]
                if "collectives" in line or "all_reduce" in line or "No traced" in line:
                    if not states or states[-1] != state:
                        states.append(state)
                        if states == ["tracing"]:
                            ends.close()
                        elif state is None and stays.process.poll() is None:
                            stays.close()
                    if "No traced" in line:
                        break
                    state = None
            top.kill()
            self.assertEqual(top.stderr.read(), "")
        self.assertEqual(states, ["tracing", "ended", None])

    def test_nothing_and_usage(self):
        self.run_command("top", "--count", 1, status=1)
        self.write()
        self.run_command("top", "--count", 1, status=1)
        self.run_command("top", "--interval", "1ms", status=2)
        self.run_command("top", "--count", "0", status=2)


unittest.main()

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
        """A window, then none: its table stays, and says its age."""
        writer = self.write(hold=1, mode=2, skipped=21)
        text = ""
        with subprocess.Popen([cli.COMMAND, "top", "--interval", "500ms", "--count", "200"], env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as top:
            for line in top.stdout:
                if not text:  # it looks now; what came before is of no interval
                    writer.write_more()
                text += line
                if text.count("Last window") == 4:
                    break
            top.kill()
        pictures = text.split("COMMAND")[1:-1]  # the last one is broken off
        shown = [picture for picture in pictures if "42 KiB" in picture]
        self.assertGreaterEqual(len(shown), 3)
        self.assertEqual(pictures[-len(shown):], shown, "once there, it stays")
        self.assertNotIn("Last window", shown[0])
        self.assertRegex(shown[-1], r"Last window \d+\.\d+ s ago")
        # What is written while it looks may come in two turns.
        for picture, count in ((shown[0], r"\d+"), (shown[-1], "30")):
            self.assertRegex(picture, rf"all_reduce +vllm_custom +42 KiB +bfloat16 +\w+ +{count} ")
            self.assertIn("Rank 0 skipped 21 windows (budget)", picture)

    def test_nothing_and_usage(self):
        self.run_command("top", "--count", 1, status=1)
        self.write()
        self.run_command("top", "--count", 1, status=1)
        self.run_command("top", "--interval", "1ms", status=2)
        self.run_command("top", "--count", "0", status=2)


unittest.main()

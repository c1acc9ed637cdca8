# SPDX-License-Identifier: Apache-2.0
"""collscope top, as a pipe sees it."""
import re
import subprocess
import time
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
        with subprocess.Popen([cli.COMMAND, "top", "--interval", "500ms", "--count", "12"], env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as top:
            time.sleep(0.7)
            writer.write_more()
            text, _ = top.communicate(timeout=60)
        pictures = text.split("COMMAND")[1:]
        self.assertEqual((len(pictures), top.returncode), (12, 0))
        shown = [picture for picture in pictures if "42 KiB" in picture]
        self.assertGreaterEqual(len(shown), 3)
        self.assertEqual(pictures[-len(shown):], shown, "once there, it stays")
        self.assertEqual([bool(re.search(r"Last window \d+\.\d+ s ago", p)) for p in (shown[0], shown[-1])], [False, True])
        for picture in (shown[0], shown[-1]):
            self.assertRegex(picture, r"all_reduce +vllm_custom +42 KiB +bfloat16 +\w+ +30 ")
            self.assertIn("Rank 0 skipped 21 windows (budget)", picture)

    def test_nothing_and_usage(self):
        self.run_command("top", "--count", 1, status=1)
        self.write()
        self.run_command("top", "--count", 1, status=1)
        self.run_command("top", "--interval", "1ms", status=2)
        self.run_command("top", "--count", "0", status=2)


unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""collscope top, as a pipe sees it."""
import re
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
        self.assertEqual(text.count("No collectives in this interval"), 3)

    def test_nothing_and_usage(self):
        self.run_command("top", "--count", 1, status=1)
        self.write()
        self.run_command("top", "--count", 1, status=1)
        self.run_command("top", "--interval", "1ms", status=2)
        self.run_command("top", "--count", "0", status=2)


unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a client, a file or a limit may do to it: it goes on, and serves what is good."""
import pathlib
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import time
import unittest

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from exporter import AT_ONCE, OPENMETRICS, US, Case, pick, run_together, wait_for


class Hostile(Case):
    def test_damaged_files(self):
        """300 damaged copies of a segment, a link, a pipe, an empty file, and one that shrinks while it is read; the good one is served."""
        good, label = self.rank(0, 1)
        now = time.time_ns() - 10 * 10**9
        good.collective(label, now, now + 50 * US, 43008)
        whole = bytearray(good.path.read_bytes())
        random.seed(1)
        directory = pathlib.Path(self.directory)
        for i in range(200):
            bad = bytearray(whole)
            for _ in range(random.choice((1, 4, 64))):
                at = random.choice((random.randrange(4096), random.randrange(len(bad)), random.randrange(0x4000)))
                bad[at:at + 8] = struct.pack("<Q", random.choice((0, 1, 2**63, 2**64 - 1, random.getrandbits(64))))[:len(bad) - at]
            if random.random() < 0.2:
                bad = bad[:random.randrange(len(bad))]
            (directory / f"{1000 + i}-5.seg").write_bytes(bad)
        (directory / "7-7.seg").write_bytes(b"")
        (directory / "8-8.seg").symlink_to("/etc/passwd")
        subprocess.run(["mkfifo", directory / "9-9.seg"], check=True)
        shrinking = self.writer()
        server = self.exporter("--collscope.linger=2s", "--collscope.retention=3s")
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count", gpu="0", rank="0", size="65536") >= 1)
        samples = server.samples()
        self.assertGreater(pick(samples, "exporter_segments_rejected", reason="corrupt"), 10)
        before = pick(samples, "exporter_segments_rejected")
        with open(shrinking.path, "r+b") as file:
            file.truncate(4096)
        wait_for(lambda: "shrank" in server.output() or "shrink" in server.output())
        time.sleep(5)
        samples = server.samples()
        self.assertGreaterEqual(pick(samples, "exporter_processes", state="live"), 1)
        self.assertLessEqual(pick(samples, "exporter_segments_rejected"), before + 1)
        list(parse_openmetrics(server.text(Accept=OPENMETRICS)))
        code, log = server.stop()
        self.assertEqual(code, 0)
        said = re.findall(r"cannot be used.*?/(\d+-\d+\.seg)", log)
        self.assertEqual(len(said), len(set(said)), "said more than once")

    def test_lack_of_descriptors_passes(self):
        """More segments than descriptors, whatever else it has open just then and has closed a moment later."""
        server = self.exporter()
        limits = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        highest = max(int(fd.name) for fd in pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir())
        limit = highest + 2  # one, to read the directory, unless that is what the highest was for
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, limits[1]))
        segments = limit - 3  # standard input, output and error are there in any case
        # In one look: where some come at a time the last descriptor may go to a segment, and none is left to look with.
        server.process.send_signal(signal.SIGSTOP)
        for _ in range(segments):
            self.writer()
        server.process.send_signal(signal.SIGCONT)
        wait_for(lambda: "A segment cannot be used" in server.output())
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limits)
        wait_for(lambda: pick(server.samples(), "exporter_processes", state="live") == segments)
        self.assertEqual(pick(server.samples(), "exporter_segments_rejected"), 0)
        self.assertEqual(server.stop()[0], 0)

    def test_log_is_its_own(self):
        """A client cannot write into the log, which may be in memory, nor make it grow."""
        server = self.exporter()
        for _ in range(50):
            with socket.create_connection(server.address) as client:
                client.sendall(b"GET /met")
            with socket.create_connection(server.address) as client:
                client.sendall(b"\x1b[2J nonsense\r\n\r\n")
                client.recv(1000)
        self.assertEqual(server.get("/-/ready")[0], 200)
        code, log = server.stop()
        self.assertEqual(code, 0)
        self.assertLess(len(log.splitlines()), 10, log)
        self.assertTrue(all(line.startswith("time=") for line in log.splitlines()), log)


def load_tests(loader, _tests, _pattern):
    return run_together(loader, (Hostile,), AT_ONCE)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""What the process tests of the exporter share: it runs on segments that a test program writes with the real writer, and is read as
a scraper does: with prometheus_client's parsers, promtool, and by hand where bytes matter. Expected values are worked out in the tests
from what was written.

  CS_EXPORTER=build/dev/exporter/collscope-exporter CS_WRITER=build/dev/tests/exporter/write_segment \\
      build/python/bin/python3 tests/exporter/test_steps.py Steps.test_rules"""
import http.client
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from prometheus_client.parser import text_string_to_metric_families as parse_text

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from together import run_together  # for the load_tests of each room

EXPORTER, WRITER = os.environ["CS_EXPORTER"], os.environ["CS_WRITER"]
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
COLLECTIVE, BUSY, GRAPH_LAUNCH, WINDOW, IN_GRAPH, LIGHT, DEEP = 1, 2, 3, 4, 1, 1, 2  # record types and flags, docs/segment-format.md
MARK, MARKER, HOST_LAUNCH = 5, 7, 8
HEARTBEAT, STATE, MODE, DEPTH, DEPTH_SINCE, HOST_MEMORY, STEP_RATIO_PPM, CPU = 0, 1, 2, 3, 4, 5, 13, 32  # 64-bit words of STATUS
TRACE, UNLABELLED, WINDOWS_DEEP = 33, 70, 85
WINDOWS_SKIPPED, TRACING_RESTS, STEP_RATIOS = 88, 89, 496
COPY, COPY_TO_HOST, COPY_FROM_HOST = 1, 1 << 4, 1 << 5
TRACING, DORMANT, EXITED, SAMPLE = 2, 6, 7, 2
BAD_TIMESTAMP, POOL_EMPTY = 1, 2  # causes of loss
US = 1000
DEADLINE_S = 60  # a failure, not a speed
AT_ONCE = 4  # they wait most of the time


class Writer:
    """One traced process."""

    def __init__(self, directory, slots=1024):
        self.process = subprocess.Popen([WRITER, directory, str(slots)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.path = pathlib.Path(self.say("path"))

    def say(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n")
        if not answer or answer.startswith("error"):
            raise RuntimeError(f"{words}: {answer!r}")
        return answer

    def collective(self, label, start, end, size, node=1, correlation=1, graph=7, stream=3, flags=IN_GRAPH):
        self.say("record", COLLECTIVE, flags, 0, 0, label, start, end, size, node, correlation, graph, stream)

    def busy(self, klass, start, end, stream=9, flags=0):
        self.say("record", BUSY, flags, 0, klass, 1, start, end, end - start, 0, 0, 0, stream)

    def kill(self):
        self.process.kill()
        self.close()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Exporter:
    def __init__(self, directory, *flags, program=EXPORTER, **more):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([program, f"--collscope.dir={directory}", "--web.listen-address=127.0.0.1:0", *flags],
                                        stderr=self.log, stdout=self.log, **more)
        lock = pathlib.Path(directory) / "exporter.lock"
        wait_for(lambda: self.process.poll() is not None or (lock.exists() and "address" in lock.read_text()))
        host, port = re.search(r"address (.*):(\d+)", lock.read_text()).groups()
        self.address = (host, int(port))
        wait_for(self.answers)

    def answers(self):
        try:
            return self.get("/-/ready")[0] == 200
        except ConnectionError:
            return False

    def get(self, path="/metrics", method="GET", **headers):
        connection = http.client.HTTPConnection(*self.address, timeout=DEADLINE_S)
        connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.headers, body

    def text(self, **headers):
        return self.get(**headers)[2].decode()

    def samples(self):
        """{(name, frozenset of labels): value}"""
        found = {}
        for family in parse_text(self.text()):
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in found, key
                found[key] = sample.value
        return found

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(DEADLINE_S)
        text = self.output()
        self.log.close()
        return code, text


def wait_for(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("waited for in vain")
        time.sleep(0.05)


def pick(samples, name, /, **labels):
    """Sum of the samples of that name with at least these labels."""
    wanted = set(labels.items())
    return sum(v for (n, l), v in samples.items() if n == "collscope_" + name and wanted <= l)


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="collscope-exporter-")
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.writers = []
        self.exporters = []
        self.addCleanup(self.stop_all)

    def stop_all(self):
        for writer in self.writers:
            if writer.process.poll() is None:
                writer.kill()
        for exporter in self.exporters:
            if exporter.process.poll() is None:
                code, log = exporter.stop()
                self.assertEqual(code, 0, log)
            exporter.log.close()

    def writer(self, *args):
        self.writers.append(Writer(self.directory, *args))
        return self.writers[-1]

    def exporter(self, *flags, **more):
        self.exporters.append(Exporter(self.directory, *flags, **more))
        return self.exporters[-1]

    def rank(self, rank, world, size="43008", flags=0):
        """A process with one GPU and one label; returns (writer, label id)."""
        writer = self.writer()
        writer.say("gpu", rank)
        writer.say("rank", rank, world)
        communicator = writer.say("communicator", "abc", rank, world)
        label = int(writer.say("label", "all_reduce", "nccl", size, rank, world, communicator, flags))
        writer.say("status", STATE, TRACING)
        writer.say("status", MODE, SAMPLE)
        return writer, label

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the exporter on segments that a test program writes with the real writer, and reads it as a scraper does: with
prometheus_client's parsers, promtool, and by hand where bytes matter. Expected values are worked out here from what was written.

usage: test_exporter.py EXPORTER WRITE_SEGMENT [unittest arguments]"""
import contextlib
import gzip
import http.client
import json
import math
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import urllib.parse
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from together import run_together

EXPORTER, WRITER = sys.argv[1:3]
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
COLLECTIVE, BUSY, GRAPH_LAUNCH, WINDOW, IN_GRAPH, LIGHT, DEEP = 1, 2, 3, 4, 1, 1, 2  # record types and flags, docs/segment-format.md
MARK, MARKER, HOST_LAUNCH = 5, 7, 8
STATE, MODE, DEPTH, HOST_MEMORY, STEP_RATIO_PPM, CPU = 1, 2, 3, 5, 13, 32  # 64-bit words of STATUS
TRACE, UNLABELLED, WINDOWS_DEEP = 33, 70, 85
WINDOWS_SKIPPED, TRACING_RESTS, STEP_RATIOS = 88, 89, 496
COPY, COPY_TO_HOST, COPY_FROM_HOST = 1, 1 << 4, 1 << 5
TRACING, EXITED, SAMPLE = 2, 7, 2
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


class Values(Case):
    """Two ranks, 5 steps of 4 all-reduces of 42 KiB. Rank 1 arrives 40 us before rank 0 at each; another stream of rank 0 computes for
    the first 30 us of each step's first one."""

    STEPS, EACH = 5, 4
    COMM = "0000000000000abc"
    DURATION = {0: 100 * US, 1: 140 * US}

    def setUp(self):
        super().setUp()
        begin = time.time_ns() - 20 * 10**9
        for rank, duration in self.DURATION.items():
            writer, label = self.rank(rank, 2)
            for step in range(self.STEPS):
                for i in range(self.EACH):
                    end = begin + step * 10_000 * US + i * 500 * US + 200 * US
                    writer.collective(label, end - duration, end, 43008, node=i + 1, correlation=step + 1)
                    if rank == 0 and i == 0:
                        writer.busy(0, end - duration - 10 * US, end - duration + 30 * US)
        self.server = self.exporter()
        wait_for(lambda: pick(self.server.samples(), "collective_duration_seconds_count") == 2 * self.STEPS * self.EACH)

    def test_collectives(self):
        samples = self.server.samples()
        count = self.STEPS * self.EACH
        for rank, duration in self.DURATION.items():
            labels = {"gpu": str(rank), "rank": str(rank), "op": "all_reduce", "impl": "nccl", "size": "65536"}
            self.assertEqual(pick(samples, "collective_duration_seconds_count", **labels), count)
            self.assertAlmostEqual(pick(samples, "collective_duration_seconds_sum", **labels), count * duration / 1e9, 12)
            self.assertEqual(pick(samples, "collective_bytes_total", **labels), count * 43008)
            for bound in ("5e-06", "7.5e-05", "0.0001", "0.00015", "+Inf"):
                expected = count if duration / 1e9 <= float(bound) else 0
                self.assertEqual(pick(samples, "collective_duration_seconds_bucket", le=bound, **labels), expected, bound)
            del labels["size"]
            self.assertEqual(pick(samples, "collectives_unlabelled_total", gpu=str(rank)), 0)
            waited = duration - min(self.DURATION.values())
            self.assertEqual(pick(samples, "collective_wait_seconds_count", **labels), count)
            self.assertAlmostEqual(pick(samples, "collective_wait_seconds_sum", **labels), count * waited / 1e9, 12)
            self.assertEqual(pick(samples, "collective_last_arrivals_total", rank=str(rank)), count if waited == 0 else 0)
            self.assertEqual(pick(samples, "collectives_unmatched_total", rank=str(rank)), 0)
        self.assertEqual(pick(samples, "collective_transfer_seconds_count", op="all_reduce", size="65536"), count)
        self.assertAlmostEqual(pick(samples, "collective_transfer_seconds_sum"), count * 100 * US / 1e9, 12)
        self.assertEqual(pick(samples, "collective_transfer_bytes_total", op="all_reduce", size="65536"), count * 43008)
        # Two ranks: 2 (2 - 1) / 2 times.
        self.assertEqual(pick(samples, "collective_transfer_bus_bytes_total", op="all_reduce", size="65536"), count * 43008)
        for rank, duration in self.DURATION.items():
            mine = {"rank": str(rank), "gpu": str(rank)}
            self.assertEqual(pick(samples, "collectives_matched_total", **mine), count)
            self.assertEqual(pick(samples, "collectives_partial_total", **mine), 0)
            comm = {"op": "all_reduce", "comm": self.COMM, **mine}
            self.assertEqual(pick(samples, "communicator_collectives_total", **comm), count)
            self.assertAlmostEqual(pick(samples, "communicator_collective_seconds_total", **comm), count * duration / 1e9, 12)

    def test_old_backlog_turns_no_time_back(self):
        """A process comes with more records from long ago than one read takes: what was learnt of the others' clocks stays."""
        def known():
            return {labels for name, labels in self.server.samples() if name == "collscope_clock_uncertainty_seconds"}

        wait_for(known)
        before = known()
        self.server.process.send_signal(signal.SIGSTOP)
        writer = self.writer(16384)
        writer.say("gpu", 2)
        label = int(writer.say("label", "all_reduce", "nccl", 43008, 0, 1, 0, 0))
        start = time.time_ns() - 600 * 10**9
        writer.collective(label, start, start + 50 * US, 43008)
        writer.say("repeat", 9999, 100 * US)
        self.server.process.send_signal(signal.SIGCONT)
        wait_for(lambda: pick(self.server.samples(), "collective_duration_seconds_count", gpu="2") == 10000)
        self.assertEqual(known(), before)

    def test_overlap(self):
        samples = self.server.samples()
        total = self.STEPS * self.EACH * self.DURATION[0]
        beside = self.STEPS * 30 * US
        self.assertAlmostEqual(pick(samples, "collective_overlap_seconds_total", rank="0", **{"with": "compute"}), beside / 1e9, 12)
        self.assertAlmostEqual(pick(samples, "collective_overlap_seconds_total", rank="0", **{"with": "none"}), (total - beside) / 1e9, 12)
        for other in ("copy", "collective"):
            self.assertEqual(pick(samples, "collective_overlap_seconds_total", **{"with": other}), 0)
        self.assertEqual(pick(samples, "collective_contended_duration_seconds_count", **{"with": "compute"}), self.STEPS)
        self.assertEqual(pick(samples, "collective_contended_duration_seconds_count", **{"with": "none"}),
                         2 * self.STEPS * self.EACH - self.STEPS)

    def test_steps(self):
        wait_for(lambda: pick(self.server.samples(), "step_duration_seconds_count") == 2 * self.STEPS)
        samples = self.server.samples()
        self.assertEqual(pick(samples, "step_collectives_count"), 2 * self.STEPS)
        self.assertEqual(pick(samples, "step_collectives_sum"), 2 * self.STEPS * self.EACH)
        for rank, duration in self.DURATION.items():
            spent = self.STEPS * self.EACH * duration
            self.assertAlmostEqual(pick(samples, "step_collective_seconds_sum", rank=str(rank)), spent / 1e9, 12)
            hidden = self.STEPS * 30 * US if rank == 0 else 0
            self.assertAlmostEqual(pick(samples, "step_exposed_collective_seconds_sum", rank=str(rank)), (spent - hidden) / 1e9, 12)

    def test_same_in_openmetrics(self):
        # What moves on with time alone: the exporter's own, and how old the clocks' offsets are.
        moving = ("exporter", "trace", "clock_uncertainty")

        def flat(families):
            return {(s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples
                    if s.name.startswith("collscope_") and not any(each in s.name for each in moving)}
        text = flat(parse_text(self.server.text()))
        openmetrics = flat(parse_openmetrics(self.server.text(Accept=OPENMETRICS)))
        self.assertEqual(text, openmetrics)
        self.assertGreater(len(text), 200)

    def test_native_histogram(self):
        """The buckets that protobuf carries, against 2^(i/8) worked out in floating point."""
        families = list(decode_families(self.server.get(Accept=PROTOBUF)[2]))
        family = next(f for f in families if f[1] == [b"collscope_collective_duration_seconds"])
        self.assertEqual(len(family[4]), 2)
        for metric in map(decode, family[4]):
            labels = {decode(l)[1][0].decode(): decode(l)[2][0].decode() for l in metric[1]}
            histogram = decode(metric[7][0])
            self.assertEqual(histogram[1], [self.STEPS * self.EACH])
            self.assertEqual(unzigzag(histogram[5][0]), 3)
            span = decode(histogram[12][0])
            index = math.ceil(math.log2(self.DURATION[int(labels["rank"])] / 1e9) * 8)
            self.assertEqual((unzigzag(span[1][0]), span[2][0]), (index, 1))
            self.assertEqual([unzigzag(d) for d in varints(histogram[13][0])], [self.STEPS * self.EACH])
            self.assertEqual(len(histogram[3]), 20)

    def test_promtool(self):
        done = subprocess.run(["promtool", "check", "metrics"], input=self.server.text(), capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_documented(self):
        """docs/metrics.md names every family with its type and labels, and no other."""
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", (ROOT / "docs" / "metrics.md").read_text(), re.M)
        documented = {name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
        self.assertEqual(len(rows), len(documented), "a family stands there twice")
        served = {}
        for family in parse_openmetrics(self.server.text(Accept=OPENMETRICS)):
            suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
            served[family.name + suffix] = (family.type, frozenset(k for s in family.samples for k in s.labels if k != "le"))
        self.assertEqual(set(documented), set(served))
        for name, (kind, labels) in served.items():
            self.assertEqual(documented[name][0], kind, name)
            if labels:
                self.assertEqual(documented[name][1], labels, name)


    def test_documented_queries(self):
        """Each query of docs/metrics.md is PromQL to Prometheus' own parser and asks for families that are served."""
        text = (ROOT / "docs" / "metrics.md").read_text()
        queries = []
        for block in re.findall(r"```promql\n(.*?)```", text, re.S):
            for query in re.split(r"^#.*$|\n(?=\S)", block, flags=re.M):
                if query and query.strip():
                    queries.append(query.strip())
        self.assertGreater(len(queries), 15)
        served = set(re.findall(r"^# TYPE (\w+)", self.server.text(), re.M))
        for family in re.findall(r"collscope_\w+", " ".join(queries)):
            self.assertTrue(family in served or re.sub(r"_(bucket|sum|count)$", "", family) in served, family)
        rules = "groups: [{name: documented, rules: [" + ", ".join(
            '{record: q%d, expr: %s}' % (i, json.dumps(q)) for i, q in enumerate(queries)) + "]}]"
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            file.write(rules)
            file.flush()
            done = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Http(Case):
    def test_surface(self):
        writer, _ = self.rank(0, 1)
        writer.say("text", 0, "<b>&'\"")
        server = self.exporter()
        status, headers, body = server.get()
        self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        self.assertEqual(headers["Vary"], "Accept, Accept-Encoding")
        self.assertNotIn("Content-Encoding", headers)
        status, headers, packed = server.get(Accept_Encoding="gzip")
        self.assertEqual(headers["Content-Encoding"], "gzip")
        self.assertLess(len(packed), len(body) / 3)
        self.assertIn(b"# TYPE collscope_collective_duration_seconds histogram", gzip.decompress(packed))
        self.assertNotIn("Content-Encoding", server.get(Accept_Encoding="gzip;q=0, identity")[1])
        self.assertEqual(server.get(Accept=OPENMETRICS)[1]["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.assertIn("proto=io.prometheus.client.MetricFamily", server.get(Accept=PROTOBUF)[1]["Content-Type"])
        for path in ("/metrics", "/", "/-/healthy", "/-/ready"):
            status, headers, body = server.get(path, "HEAD")
            self.assertEqual((status, body), (200, b""), path)
            self.assertGreater(int(headers["Content-Length"]), 0)
        for path in ("/nope", "/metrics/", "/-/reload"):
            self.assertEqual(server.get(path)[0], 404, path)
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            status, headers, _ = server.get("/metrics", method)
            self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"), method)
        page = server.get("/")[2].decode()
        self.assertIn("&lt;b&gt;&amp;&#39;&quot;", page)
        self.assertNotIn("<b>&'", page)
        self.assertIn('href="/metrics"', page)
        only = server.get("/metrics?name[]=collscope_build_info&name[]=collscope_process_info")[2].decode()
        self.assertEqual(set(re.findall(r"# TYPE (\w+)", only)), {"collscope_build_info", "collscope_process_info"})
        for accept, nothing in (("text/plain", b""), (OPENMETRICS, b"# EOF\n"), (PROTOBUF, b"")):
            status, _, body = server.get("/metrics?name[]=collscope_no_such", Accept=accept)
            self.assertEqual((status, body), (200, nothing))
        connection = http.client.HTTPConnection(*server.address)
        connection.request("GET", "/-/healthy", body="a body that means nothing")
        self.assertEqual(connection.getresponse().read(), b"collscope-exporter is healthy.\n")
        for _ in range(3):  # kept alive
            connection.request("GET", "/-/healthy")
            self.assertEqual(connection.getresponse().read(), b"collscope-exporter is healthy.\n")
        connection.close()
        self.assertEqual(server.stop()[0], 0)

    def test_stops_while_clients_come_and_go(self):
        for _ in range(3):
            server = self.exporter()
            over = threading.Event()

            def come(address=server.address, over=over):
                while not over.is_set():
                    with contextlib.suppress(OSError), socket.create_connection(address, timeout=1) as client:
                        client.sendall(b"GET /met")
                        client.shutdown(socket.SHUT_WR)

            clients = [threading.Thread(target=come) for _ in range(4)]
            for client in clients:
                client.start()
            time.sleep(0.5)
            server.process.terminate()
            try:
                # Well below the time that an idle connection may take, which is what a thread would sleep.
                self.assertEqual(server.process.wait(30), 0)
            finally:
                over.set()
                for client in clients:
                    client.join()

    def test_signals(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            server = self.exporter()
            self.assertEqual(server.stop(how)[0], 0)
            self.assertFalse((pathlib.Path(self.directory) / "exporter.lock").exists())

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
            self.assertEqual(code, 1)
            self.assertIn("HOST:PORT", text)

    def test_second_instance(self):
        server = self.exporter()
        code, text = self.fails(f"--collscope.dir={self.directory}", "--web.listen-address=127.0.0.1:0")
        self.assertEqual(code, 1)
        self.assertIn("%s:%d" % server.address, text)
        code, text = self.fails("--collscope.auto", f"--collscope.dir={self.directory}", "--web.listen-address=127.0.0.1:0")
        self.assertEqual((code, text), (0, ""))


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

    def test_several_addresses(self):
        server = self.exporter("--web.listen-address=127.0.0.1:0", "--log.format=json")
        addresses = [json.loads(line)["address"] for line in server.output().splitlines() if "Listening" in line]
        self.assertEqual(len(set(addresses)), 2)
        for address in addresses:
            connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
            connection.request("GET", "/-/healthy")
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()

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

    def test_unknown_variable(self):
        """Said by who was started with it, and by an exporter that a traced process started not once more."""
        for flags, lines in (((), 1), (("--collscope.auto", "--log.level=warn"), 0)):
            with unittest.mock.patch.dict(os.environ, {"COLLSCOPE_STALLS": "3", "COLLSCOPE_RING_MIB": "99"}):
                server = self.exporter(*flags)
            said = server.output()
            self.assertEqual(said.count("level=warn"), lines, said)
            self.assertEqual(said.count("COLLSCOPE_STALLS; did you mean COLLSCOPE_STALL_S?"), lines, said)
            server.stop()

    @unittest.skipIf("thread" in os.environ.get("CS_SANITIZE", ""), "ThreadSanitizer's own start needs a file")
    def test_files_may_not_grow(self):
        """Under ulimit -f it serves, and says what cannot be written; its log, when that is a file, is cut off."""
        self.writer()
        server = subprocess.Popen(["sh", "-c", 'ulimit -f 0 && exec "$@"', "sh", EXPORTER, f"--collscope.dir={self.directory}",
                                   "--web.listen-address=127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (server.poll() is None and server.kill(), server.wait(), server.stderr.close()))
        said = server.stderr.readline() + server.stderr.readline()
        host, port = re.search(r"address=(.*):(\d+)", said).groups()
        self.assertRegex(said, 'level=warn .*exporter.lock.* error="File too large"')
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=DEADLINE_S) as answer:
            self.assertIn("collscope_build_info", answer.read().decode())
        server.terminate()
        self.assertEqual(server.wait(DEADLINE_S), 0)

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


class Ranks(Case):
    def test_other_nodes(self):
        """Two of four ranks are here: matched, counted as partial, nobody blamed; the communicator's sums are there to compare."""
        begin = time.time_ns() - 20 * 10**9
        for rank, duration in ((0, 100 * US), (1, 140 * US)):
            writer, label = self.rank(rank, 4)
            for i in range(4):
                end = begin + i * 500 * US
                writer.collective(label, end - duration, end, 43008, node=i + 1)
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 8)
        samples = server.samples()
        for rank, duration in ((0, 100 * US), (1, 140 * US)):
            mine = {"gpu": str(rank), "rank": str(rank)}
            self.assertEqual(pick(samples, "collectives_partial_total", **mine), 4)
            self.assertEqual(pick(samples, "collectives_unmatched_total", **mine), 0)
            self.assertAlmostEqual(pick(samples, "communicator_collective_seconds_total", **mine), 4 * duration / 1e9, 12)
        for name in ("collective_wait_seconds_count", "collective_transfer_seconds_count", "collective_last_arrivals_total",
                     "collective_transfer_bytes_total", "collectives_matched_total"):
            self.assertNotIn("collscope_" + name, {n for n, _ in samples})

    def test_copies_by_direction(self):
        """80 us of a copy from the host and 50 us of one to it lie under an all-reduce of 200 us, 30 us of them at once."""
        begin = time.time_ns() - 20 * 10**9
        writer, label = self.rank(0, 2)
        writer.collective(label, begin, begin + 200 * US, 43008)
        writer.busy(COPY, begin + 10 * US, begin + 90 * US, stream=9, flags=COPY_FROM_HOST)
        writer.busy(COPY, begin + 60 * US, begin + 110 * US, stream=10, flags=COPY_TO_HOST)
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 1)
        samples = server.samples()
        for direction, us in (("from_host", 80), ("to_host", 50)):
            self.assertAlmostEqual(pick(samples, "collective_copy_overlap_seconds_total", direction=direction), us / 1e6, 12)
        self.assertAlmostEqual(pick(samples, "collective_overlap_seconds_total", **{"with": "copy"}), 100 / 1e6, 12)
        self.assertEqual(pick(samples, "collective_contended_duration_seconds_count", **{"with": "copy"}), 1)

    def test_collectives_of_two_streams(self):
        """Two communicators' all-reduces run at once for 60 us: a series of its own says how long they took beside each other."""
        begin = time.time_ns() - 20 * 10**9
        writer, label = self.rank(0, 2)
        other = writer.say("communicator", "def", 0, 2)
        second = int(writer.say("label", "all_reduce", "nccl", 43008, 0, 2, other, 0))
        for i in range(3):
            at = begin + i * 1000 * US
            writer.collective(label, at, at + 100 * US, 43008, node=1)
            writer.collective(second, at + 40 * US, at + 240 * US, 43008, node=2, stream=4)
            writer.collective(label, at + 400 * US, at + 430 * US, 43008, node=3)
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 9)
        samples = server.samples()
        self.assertAlmostEqual(pick(samples, "collective_overlap_seconds_total", **{"with": "collective"}), 2 * 3 * 60 / 1e6, 12)
        beside = {"with": "collective", "op": "all_reduce", "size": "65536"}
        self.assertEqual(pick(samples, "collective_contended_duration_seconds_count", **beside), 6)
        self.assertAlmostEqual(pick(samples, "collective_contended_duration_seconds_sum", **beside), 3 * (100 + 200) / 1e6, 12)
        beside["with"] = "none"
        self.assertEqual(pick(samples, "collective_contended_duration_seconds_count", **beside), 3)
        self.assertAlmostEqual(pick(samples, "collective_contended_duration_seconds_sum", **beside), 3 * 30 / 1e6, 12)
        for comm, count in (("0000000000000abc", 6), ("0000000000000def", 3)):
            self.assertEqual(pick(samples, "communicator_collectives_total", comm=comm), count)


class Processes(Case):
    def test_information_and_counters(self):
        writer, label = self.rank(3, 8, size="unknown")
        writer.say("text", 0, "python3")
        writer.say("environment", "NCCL_ALGO", "Ring")
        writer.say("environment", "HOME", "/root")
        for name in ("VLLM_API_KEY", "TRTLLM_PWD", "NCCL_AUTH", "TRTLLM_session_id", "NCCL_COOKIE"):
            writer.say("environment", name, "abc")
        writer.say("lose", 2, 11)
        writer.say("status", HOST_MEMORY, 12345)
        writer.say("status", CPU, 2_500_000_000)
        writer.say("status", TRACE + 2, 1_250_000_000)
        writer.say("status", UNLABELLED + 1, 7)
        writer.say("status", WINDOWS_SKIPPED, 4)
        writer.say("status", TRACING_RESTS, 6)
        now = time.time_ns() - 10 * 10**9
        writer.collective(label, now, now + 50 * US, 2**64 - 1)
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "collectives_unlabelled_total", gpu="3", rank="3", impl="nccl") == 1)
        samples = server.samples()
        mine = {"gpu": "3", "rank": "3"}
        self.assertEqual(pick(samples, "collective_duration_seconds_count", size="unknown", **mine), 1)
        self.assertEqual(pick(samples, "collectives_unmatched_total", **mine), 1)
        self.assertEqual(pick(samples, "records_total", kind="collective", **mine), 1)
        self.assertEqual(pick(samples, "records_total", kind="loss", **mine), 1)
        self.assertEqual(pick(samples, "records_lost_total", cause="pool_empty", **mine), 11)
        self.assertEqual(pick(samples, "records_lost_total", **mine), 11)
        self.assertEqual(pick(samples, "injector_memory_bytes", **mine), 12345)
        self.assertEqual(pick(samples, "injector_cpu_seconds_total", **mine), 2.5)
        self.assertEqual(pick(samples, "trace_seconds_total", depth="deep", **mine), 1.25)
        self.assertEqual(pick(samples, "label_failures_total", reason="no_rule", **mine), 7)
        self.assertEqual(pick(samples, "windows_skipped_total", **mine), 4)
        self.assertEqual(pick(samples, "tracing_rests_total", **mine), 6)
        self.assertEqual(pick(samples, "injector_state", collscope_injector_state="tracing", **mine), 1)
        self.assertEqual(pick(samples, "injector_state", **mine), 1)
        self.assertEqual(pick(samples, "process_info", command="python3", world="8", mode="sample", injector_version="9.8.7",
                              pid=str(writer.process.pid), **mine), 1)
        self.assertEqual(pick(samples, "gpu_info", gpu="3", uuid="GPU-04000000-0000-0000-0000-000000000000", name="Test GPU",
                              pci_bus_id="00000000:04:00.0", compute_capability="9.0"), 1)
        self.assertEqual(pick(samples, "gpu_link_info", gpu="3", peer="0", link="nvlink", nvlinks="18"), 1)
        self.assertEqual(pick(samples, "gpu_link_info", gpu="3", peer="2", link="pcie_system", nvlinks="0"), 1)
        self.assertEqual(pick(samples, "gpu_link_info"), 2)
        self.assertEqual(pick(samples, "config_info", name="NCCL_ALGO", value="Ring", **mine), 1)
        self.assertEqual(pick(samples, "config_info"), 1)
        self.assertEqual(pick(samples, "communicator_info", comm="0000000000000abc", rank="3", world="8"), 1)
        self.assertEqual(pick(samples, "exporter_processes", state="live"), 1)

    def test_another_implementation(self):
        """NCCL, vLLM's own and NCCL again at one size, on a rank that is not the first: each switch has a line, what alternates has not,
        and neither has another element type or a size that nobody knows."""
        writer = self.writer()
        writer.say("gpu", 3)
        writer.say("rank", 3, 8)
        nccl, own, half, large, unsized = (int(writer.say("label", "all_reduce", impl, size, 3, 8, 0, 0, dtype)) for impl, size, dtype in (
            ("nccl", 43008, "bfloat16"), ("vllm_custom", 43008, "bfloat16"), ("vllm_custom", 43008, "float16"),
            ("vllm_custom", 8 << 20, "bfloat16"), ("vllm_custom", "unknown", "bfloat16")))
        begin = time.time_ns() - 100 * 10**9

        def ran(label, seconds, size=43008):
            start = begin + round(seconds * 10**9)
            writer.collective(label, start, start + 50 * US, size)

        for i in range(3):
            ran(nccl, i)
        ran(half, 3)
        ran(large, 4, 8 << 20)
        ran(unsized, 5, 2**64 - 1)
        ran(own, 10)
        ran(own, 11)
        ran(nccl, 20)
        for i in range(1, 51):
            ran(own if i % 2 else nccl, 20 + i / 100)
        ran(own, 25)
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 60)
        found = re.findall(r"Another implementation .*?op=(\w+) size=(\d+) dtype=(\w+) phase=\w+ now=(\w+) before=(\w+) changes=(\d+) "
                           r"gpu=(\d+) rank=(\d+) pid=(\d+)", server.output())
        same = ("all_reduce", "65536", "bfloat16")
        who = ("3", "3", str(writer.process.pid))
        self.assertEqual(found, [(*same, "vllm_custom", "nccl", "1", *who), (*same, "nccl", "vllm_custom", "1", *who),
                                 (*same, "vllm_custom", "nccl", "51", *who)])

    def test_counters_move_on(self):
        """Counted once, whatever is added while the exporter runs, and the reader's losses are there too."""
        writer, label = self.rank(0, 1)
        server = self.exporter()
        now = time.time_ns() - 60 * 10**9
        writer.collective(label, now, now + 50 * US, 43008)
        writer.say("repeat", 499, 100 * US)
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 500)
        writer.say("repeat", 500, 100 * US)
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 1000)
        writer.say("repeat", 5000, 100 * US)  # more than the ring holds, at once
        wait_for(lambda: pick(server.samples(), "records_total", kind="collective") == 6000)
        wait_for(lambda: pick(s := server.samples(), "collective_duration_seconds_count")
                 + pick(s, "records_lost_total", cause="ring_overrun") == 6000)

    def test_death(self):
        writer, label = self.rank(0, 1)
        now = time.time_ns() - 10 * 10**9
        writer.collective(label, now, now + 50 * US, 43008)
        server = self.exporter("--collscope.linger=1s", "--collscope.retention=4s")
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 1)
        writer.kill()
        wait_for(lambda: pick(server.samples(), "injector_state", collscope_injector_state="exited") == 1)
        wait_for(lambda: not writer.path.exists())
        samples = server.samples()
        if pick(samples, "exporter_processes", state="dead"):  # unless this machine stood still for 3 s
            self.assertEqual(pick(samples, "collective_duration_seconds_count"), 1)
        wait_for(lambda: pick(server.samples(), "exporter_processes") == 0)
        samples = server.samples()
        self.assertFalse([key for key in samples if "collective" in key[0] or "process_info" in key[0]])
        self.assertEqual(pick(samples, "exporter_series"), 0)

    def page_rows(self, server):
        page = server.get("/")[2].decode()
        return [re.findall("<td>(.*?)</td>", row) for row in re.findall("<tr.*?</tr>", page.split("<tbody>")[1])]

    def test_page_says_states_and_losses_as_status_does(self):
        """As docs of the command have it: what the ends of windows cut is no loss, and a crash is no exit. The metric keeps its states."""
        writers = [self.rank(rank, 4)[0] for rank in range(4)]
        sampling, tracing, killed, exited = writers
        for writer, cut in zip(writers, (6, 7, 6, 0)):
            writer.say("status", WINDOWS_DEEP, 3)
            writer.say("lose", BAD_TIMESTAMP, cut)
        tracing.say("status", DEPTH, DEEP)  # a fourth window is open
        sampling.say("lose", POOL_EMPTY, 2)
        server = self.exporter("--collscope.linger=0s", "--collscope.retention=600s")
        wait_for(lambda: pick(server.samples(), "exporter_processes", state="live") == 4)
        killed.kill()
        exited.say("status", STATE, EXITED)  # its last word, and its segment goes at once
        exited.kill()
        wait_for(lambda: not killed.path.exists() and not exited.path.exists())  # not by scraping, which looks, too
        rows = {row[1]: (row[5], row[7], row[8]) for row in self.page_rows(server)}
        self.assertEqual(rows, {"0": ("sampling", "2", ""), "1": ("tracing", "0", ""), "2": ("ended", "0", "without a word: killed, or crashed"),
                                "3": ("exited", "0", "")})
        tracing.say("lose", BAD_TIMESTAMP, 2)  # nine in four windows
        wait_for(lambda: {row[1]: row[7] for row in self.page_rows(server)}["1"] == "9")
        samples = server.samples()
        for rank, state in (("0", "tracing"), ("2", "exited"), ("3", "exited")):
            self.assertEqual(pick(samples, "injector_state", rank=rank, collscope_injector_state=state), 1)

    def test_wrong_user(self):
        """Segments that it may not open: log and page say whose they are and what to do, and do not deny that there are some."""
        writer, _ = self.rank(0, 1)
        program = shutil.copy(EXPORTER, tempfile.mkdtemp(prefix="collscope-exporter-"))
        self.addCleanup(shutil.rmtree, os.path.dirname(program))
        os.chmod(os.path.dirname(program), 0o755)
        os.chmod(self.directory, 0o777)
        os.chmod(writer.path, 0o000)
        uid = 65534 if os.geteuid() == 0 else os.geteuid()
        server = self.exporter(program=program, cwd="/", **({"user": uid, "group": uid} if os.geteuid() == 0 else {}))
        wait_for(lambda: pick(server.samples(), "exporter_segments_rejected", reason="permission") == 1)
        page = server.get("/")[2].decode()
        self.assertIn(f"may not open: 1 (<code>permission</code>), of uid {os.geteuid()}. It runs as uid {uid}: run it as the user", page)
        self.assertNotIn("No traced process", page)
        self.assertIn(f'msg="A segment cannot be used: run the exporter as the user who runs the server, uid {os.geteuid()}, and not as uid {uid}" '
                      f'reason=permission error="', server.output())
        os.chmod(writer.path, 0o444)
        wait_for(lambda: len(self.page_rows(server)) == 1)
        self.assertNotIn("may not open", server.get("/")[2].decode())
        (pathlib.Path(self.directory) / "7-7.seg").write_bytes(b"x" * 8192)
        os.chmod(pathlib.Path(self.directory) / "7-7.seg", 0o444)
        wait_for(lambda: "Segments that cannot be used: 1 (<code>corrupt</code>)" in server.get("/")[2].decode())

    def test_page_tells_the_dead_from_the_living(self):
        dead, living = self.rank(0, 2)[0], self.rank(1, 2)[0]
        server = self.exporter("--collscope.linger=600s", "--collscope.retention=600s")
        wait_for(lambda: pick(server.samples(), "exporter_processes", state="live") == 2)
        self.assertNotIn('class="ended"', server.get("/")[2].decode())
        dead.kill()
        wait_for(lambda: pick(server.samples(), "exporter_processes", state="dead") == 1)
        page = server.get("/")[2].decode()
        rows = self.page_rows(server)
        self.assertEqual([(row[0], row[1], row[5] == "ended") for row in rows], [("1", "1", False), ("0", "0", True)])
        self.assertEqual(page.count('<tr class="ended"><td>0</td>'), 1)
        self.assertIn("<p>1 running, 1 ended: ", page)
        living.kill()

    def test_dead_before_the_start(self):
        writer, label = self.rank(0, 1)
        now = time.time_ns() - 10 * 10**9
        writer.collective(label, now, now + 50 * US, 43008)
        writer.kill()
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 1)
        self.assertTrue(writer.path.exists())

    def test_automatic(self):
        """Stays while a writer lives, leaves when the last one is gone, and takes its files along."""
        writer, _ = self.rank(0, 1)
        server = self.exporter("--collscope.auto", "--collscope.linger=1500ms")  # ends between two looks
        time.sleep(2.5)
        self.assertIsNone(server.process.poll())
        writer.kill()
        self.assertEqual(server.process.wait(DEADLINE_S), 0)
        self.assertEqual(list(pathlib.Path(self.directory).iterdir()), [])

    def test_rules(self):
        """Each condition of a rule file decides one launch; the last one has none that fits."""
        writer, label = self.rank(0, 1)
        small = int(writer.say("label", "all_reduce", "nccl", 14336, 0, 1, 1, 0))
        marker, name = int(writer.say("name", "my_marker_kernel")), int(writer.say("name", "ingest 7"))
        begin = time.time_ns() - 20 * 10**9
        for launch, (count, which, size) in enumerate(((3, label, 43008), (3, label, 43008), (5, label, 43008), (3, small, 14336),
                                                       (4, small, 14336), (2, label, 43008))):
            at = begin + launch * 50_000 * US
            if launch == 0:
                writer.say("record", MARK, 0, 0, 0, name, at - 500 * US, at - 100 * US, 77, 0, 0, 0, 0)
                writer.say("record", HOST_LAUNCH, 0, 0, 0, 0, at - 400 * US, at - 390 * US, 77, 0, 1, 20, 0)
            if launch == 1:
                writer.say("record", MARKER, 0, 0, 0, marker, at - 50 * US, at - 40 * US, 0, 0, 0, 0, 3)
            for i in range(count):
                start = at + i * 300 * US
                writer.collective(which, start, start + 100 * US, size, node=i + 1, correlation=launch + 1, graph=20 + launch)
        with tempfile.NamedTemporaryFile("w") as rules:
            rules.write("prefill range=ingest*\ndraft_extend after=my_marker*\nverify collectives=5\ndecode bytes=14K launches=1 "
                        "collectives=..3\ndraft collectives=4\n")
            rules.flush()
            server = self.exporter(f"--collscope.steps={rules.name}")
            wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 20)
            found = {phase: pick(server.samples(), "collective_duration_seconds_count", phase=phase)
                     for phase in ("prefill", "draft_extend", "verify", "decode", "draft", "unknown")}
        self.assertEqual(found, {"prefill": 3, "draft_extend": 3, "verify": 5, "decode": 3, "draft": 4, "unknown": 2})

    def test_stall(self):
        """A graph of 4 all-reduces ran whole 3 times; the fourth launch stopped after 2, 30 s ago, and tracing still looks."""
        writer, label = self.rank(5, 8)
        begin = time.time_ns() - 30 * 10**9
        for step in range(4):
            for i in range(4 if step < 3 else 2):
                start = begin + (step - 4) * 10_000 * US + i * 500 * US
                writer.collective(label, start, start + 100 * US, 43008, node=i + 1, correlation=step + 1)
        patient = self.exporter("--collscope.stall=10m")
        wait_for(lambda: pick(patient.samples(), "collective_duration_seconds_count", gpu="5") == 14)
        self.assertFalse(any("stalled" in name for name, _ in patient.samples()))
        patient.stop()
        server = self.exporter("--collscope.stall=20s")
        wait_for(lambda: pick(server.samples(), "stalled_collective_seconds", gpu="5", rank="5", op="all_reduce", impl="nccl") > 25)

    def test_after_the_clock_was_set_back(self):
        """An exporter that starts then finds records from an hour ahead before those of now, and takes the latter as ever."""
        writer, label = self.rank(5, 8)

        def launch(begin, correlation, count):
            for i in range(count):
                start = begin + i * 500 * US
                writer.collective(label, start, start + 100 * US, 43008, node=i + 1, correlation=correlation)

        for begin in (time.time_ns() + 3600 * 10**9, time.time_ns() - 60 * 10**9):
            for step in range(4):
                launch(begin + step * 10_000 * US, step + 1 + begin % 1000, 4 if step < 3 else 2)
        server = self.exporter("--collscope.stall=20s")
        wait_for(lambda: pick(server.samples(), "stalled_collective_seconds", gpu="5", rank="5", op="all_reduce", impl="nccl") > 25)
        self.assertEqual(pick(server.samples(), "step_duration_seconds_count", gpu="5"), 3)

    def test_backlogs_of_different_length(self):
        """Two processes, each with more records than one read takes: those of the last second of one, of ten minutes of the other."""
        begins = (600, 100_000 * US), (1, 90 * US)
        for gpu, (seconds, period) in enumerate(begins):
            writer = self.writer(16384)
            writer.say("gpu", gpu)
            label = int(writer.say("label", "all_reduce", "nccl", 43008, 0, 1, 0, 0))
            start = time.time_ns() - seconds * 10**9
            writer.collective(label, start, start + 50 * US, 43008)
            writer.say("repeat", 5999, period)
        server = self.exporter()
        wait_for(lambda: sum(pick(server.samples(), "collective_duration_seconds_count", gpu=str(gpu)) for gpu in range(2)) == 12000)
        self.assertEqual(pick(server.samples(), "exporter_observations_dropped_total"), 0)

    def test_stalls_are_said_once(self):
        """Two GPUs of one process stand still, each since a moment of its own; one goes on and stops again."""
        writer, label = self.rank(5, 8)
        writer.say("gpu", 6)
        begin = time.time_ns() - 10 * 10**9

        def launch(gpu, step, end, first=0):
            for i in range(first, end):
                start = begin + (step * 10_000 + gpu * 777 + i * 500) * US
                writer.say("record", COLLECTIVE, IN_GRAPH, gpu, 0, label, start, start + 100 * US, 43008, i + 1, 10 * gpu + step + 1, 7 + gpu,
                           3 + gpu)

        for step in range(4):
            launch(0, step, 4 if step < 3 else 2)
            launch(1, step, 4 if step < 3 else 1)
        server = self.exporter("--collscope.stall=2s")

        def said():
            return re.findall(r"A rank stands still.* collective=(\d+) ", server.output())

        wait_for(lambda: len(said()) == 2)
        begin = time.time_ns() - 50 * 10**6
        launch(0, 3, 4, first=2)
        launch(0, 4, 3)
        # A look a second: by the time that this is said, the other GPU has been looked at again.
        wait_for(lambda: len(said()) > 2)
        self.assertEqual(sorted(said()[:2]), ["1", "2"])
        self.assertEqual(said()[2:], ["3"])

    def test_perturbation(self):
        """The process has measured it; no sample before that."""
        writer, _ = self.rank(0, 1)
        server = self.exporter()
        wait_for(lambda: any(n == "collscope_process_info" for n, _ in server.samples()))
        self.assertFalse(any(n == "collscope_step_perturbation_ratio" for n, _ in server.samples()))
        writer.say("status", STEP_RATIO_PPM, 1050000)
        wait_for(lambda: any(n == "collscope_step_perturbation_ratio" for n, _ in server.samples()))
        self.assertAlmostEqual(
            pick(server.samples(), "step_perturbation_ratio", gpu="0", rank="0", phase="unknown"), 0.05, 9)

    def test_perturbation_by_phase(self):
        """Measured by graph; what the graphs are for is known from steps. Two of one phase: the worse one."""
        writer, label = self.rank(0, 1)
        at = time.time_ns() - 60 * 10**9
        correlation = 0
        for _ in range(40):
            # Three small launches of graph 8 (or 9), one of twenty collectives of graph 7.
            for graph, collectives in ((8, 3), (9, 3), (8, 3), (7, 20)):
                correlation += 1
                for node in range(collectives):
                    writer.collective(label, at, at + 20 * US, 43008, node=(graph << 32) + node + 1,
                                      correlation=correlation, graph=graph)
                    at += 50 * US
                at += 2000 * US
        writer.say("status", STEP_RATIOS + 2, 7 << 32 | 32 << 16 | 10500)
        writer.say("status", STEP_RATIOS + 3, 8 << 32 | 9 << 16 | 14500)
        writer.say("status", STEP_RATIOS + 5, 9 << 32 | 9 << 16 | 11000)
        writer.say("status", STEP_RATIOS + 9, 0 << 32 | 20 << 16 | 12000)
        writer.say("status", STEP_RATIO_PPM, 1450000)
        server = self.exporter()

        def ratios():
            return {dict(l)["phase"]: round(v, 6) for (n, l), v in server.samples().items()
                    if n == "collscope_step_perturbation_ratio"}
        wait_for(lambda: ratios() == {"verify": 0.05, "draft_extend": 0.45, "unknown": 0.2})

    def test_light_steps(self):
        """Ten light steps and ten deep ones of one graph: all have a duration, the deep ones collectives."""
        writer, label = self.rank(0, 1)
        at = time.time_ns() - 60 * 10**9
        light = at
        for i in range(10):
            writer.say("record", GRAPH_LAUNCH, 0, 0, 0, 0, at, at + 2000 * US, 0, 0, i + 1, 7, 3)
            at += 3000 * US
        writer.say("record", WINDOW, LIGHT, 0, 0, 1, light, at, 10, 0, 0, 0, 0)
        deep = at
        for i in range(10):
            writer.collective(label, at + 500 * US, at + 600 * US, 43008, node=1, correlation=i + 11)
            writer.collective(label, at + 2500 * US, at + 2600 * US, 43008, node=2, correlation=i + 11)
            at += 3000 * US
        writer.say("record", WINDOW, DEEP, 0, 0, 2, deep, at, 10, 0, 0, 0, 0)
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "step_duration_seconds_count") == 20)
        self.assertEqual(pick(server.samples(), "step_collectives_count"), 10)

    def test_limit(self):
        """Room for 100 time series: the rest is folded and counted; nothing is lost."""
        writer, _ = self.rank(0, 1)
        now = time.time_ns() - 10 * 10**9
        for i in range(30):
            label = int(writer.say("label", "all_reduce", "nccl", 2**i, 0, 1, 1, 0))
            writer.collective(label, now + i * 1000 * US, now + i * 1000 * US + 50 * US, 2**i, correlation=i + 1)
        server = self.exporter("--collscope.max-series=100")
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 30)
        samples = server.samples()
        self.assertLessEqual(pick(samples, "exporter_series"), 100)
        self.assertGreater(pick(samples, "exporter_folded_total"), 0)
        self.assertGreater(pick(samples, "collective_duration_seconds_count", size="other", rank="other"), 0)


class Prometheus(Case):
    def query(self, expression):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        connection.request("GET", "/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer["data"]["result"]

    def settled(self, expression):
        def asked():
            try:
                found.extend(self.query(expression))
            except (OSError, ValueError, KeyError):
                pass
            return found
        found = []
        wait_for(asked)
        return found

    def test_scrapes(self):
        """A real Prometheus takes the text formats from one job and native histograms, by protobuf, from another."""
        writer, label = self.rank(0, 1)
        now = time.time_ns() - 60 * 10**9
        writer.collective(label, now, now + 100 * US, 43008)
        writer.say("repeat", 99, 1000 * US)
        server = self.exporter()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        target = "%s:%d" % server.address
        config = pathlib.Path(self.directory) / "prometheus.yml"
        config.write_text("global: {scrape_interval: 1s}\n"
                          f"scrape_configs: [{{job_name: collscope, static_configs: [{{targets: ['{target}']}}]}}]\n")
        done = []
        for features in ([], ["--enable-feature=native-histograms"]):
            process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.directory}/tsdb{len(features)}",
                                        f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error", *features],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                self.assertEqual(self.settled("up == 1")[0]["metric"]["job"], "collscope")
                name = "collscope_collective_duration_seconds" + ("" if features else "_bucket")
                by = "" if features else ", le"
                found = self.settled(f"histogram_quantile(0.5, sum by (op{by}) ({name})) > 0")
                self.assertEqual(found[0]["metric"], {"op": "all_reduce"})
                # 100 us lie in the native bucket (2^(-107/8), 2^(-106/8)], and at the bound of the classic one (75 us, 100 us].
                low, high = (2**(-107 / 8), 2**(-106 / 8)) if features else (75e-6, 100e-6)
                self.assertTrue(low < 1e-4 <= high and low <= float(found[0]["value"][1]) <= high, found)
                done.append(features)
            finally:
                process.terminate()
                process.wait()
        self.assertEqual(len(done), 2)


class Hostile(Case):
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


def varints(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def unzigzag(value):
    return (value >> 1) ^ -(value & 1)


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def decode(data):
    """One protobuf message: {field: [values]}."""
    fields = {}
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == 0:
            value, at = read_varint(data, at)
        elif key & 7 == 1:
            value, at = struct.unpack("<d", data[at:at + 8])[0], at + 8
        else:
            length, at = read_varint(data, at)
            value, at = data[at:at + length], at + length
        fields.setdefault(key >> 3, []).append(value)
    return fields


def decode_families(data):
    at = 0
    while at < len(data):
        length, at = read_varint(data, at)
        yield decode(data[at:at + length])
        at += length


def load_tests(loader, _tests, _pattern):
    return run_together(loader, (Hostile, Processes, Prometheus, Ranks, Http, Values), AT_ONCE)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

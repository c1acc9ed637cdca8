#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clients are answered, and that it can end while they come and go."""
import contextlib
import gzip
import http.client
import json
import re
import socket
import threading
import time
import unittest

from exporter import AT_ONCE, DEADLINE_S, OPENMETRICS, PROTOBUF, Case, run_together


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

    def test_several_addresses(self):
        server = self.exporter("--web.listen-address=127.0.0.1:0", "--log.format=json")
        addresses = [json.loads(line)["address"] for line in server.output().splitlines() if "Listening" in line]
        self.assertEqual(len(set(addresses)), 2)
        for address in addresses:
            connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
            connection.request("GET", "/-/healthy")
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()

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


def load_tests(loader, _tests, _pattern):
    return run_together(loader, (Http,), AT_ONCE)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""scripts/demo beside another exporter: it serves its own metrics or says why not, never somebody else's."""
import http.server
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import unittest
import urllib.request

import node

BUILD = pathlib.Path(node.EXPORTER).parents[1]
DEMO = node.ROOT / "scripts" / "demo"


class Other(http.server.BaseHTTPRequestHandler):
    """Another exporter, as far as readiness goes."""

    def do_GET(self):  # pylint: disable=invalid-name
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ready\n")

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


class Demo(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.environment = node.clean_environment(CS_DEMO_BUILD=BUILD, TMPDIR=temporary.name)
        self.temporary = pathlib.Path(temporary.name)

    def other(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server.server_address[1]

    def demo(self, *options):
        return subprocess.run(["timeout", str(node.DEADLINE_S), DEMO, "--fake", *options], env=self.environment, capture_output=True,
                              text=True, check=False)

    def test_port_taken(self):
        port = self.other()
        for mode in ([], ["--oneshot"]):
            done = self.demo("--port", str(port), *mode)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(done.stderr, f"demo: port {port} is taken: scripts/demo --port N, or --port 0 for a free one\n")
            self.assertEqual(done.stdout, "")
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_wrong_usage(self):
        for options in (["--port"], ["--port", "x"], ["--port=65536"], ["--port", "-1"], ["--prot"]):
            done = self.demo(*options)
            self.assertEqual(done.returncode, 2, options)
            self.assertIn("demo: ", done.stderr)

    @unittest.skipIf(os.environ.get("CS_SANITIZE"), "the workload's ranks want the sanitizer's runtime before them")
    def test_serves_its_own(self):
        self.other()
        with subprocess.Popen([DEMO, "--fake", "--port", "0"], env=self.environment, stderr=subprocess.PIPE, text=True,
                              start_new_session=True) as process:
            try:
                banner = ""
                while "stop with" not in banner:
                    line = process.stderr.readline()
                    self.assertTrue(line, banner)
                    banner += line
                url = re.search(r"http://127\.0\.0\.1:\d+/", banner)[0]
                directory = re.search(r"export COLLSCOPE_DIR=(\S+)", banner)[1]
                self.assertTrue(directory.startswith(str(self.temporary)))

                def ranks():
                    with urllib.request.urlopen(url + "metrics", timeout=20) as answer:
                        metrics = node.parse_metrics(answer.read().decode())
                    return node.total(metrics, "collscope_exporter_processes", state="live") == 8
                node.wait_for(ranks, "eight ranks in the demo's own metrics")
            finally:
                process.send_signal(signal.SIGTERM)
                process.stderr.read()
            self.assertEqual(process.wait(timeout=node.DEADLINE_S), 143)
        self.assertFalse(os.path.exists(directory))


if __name__ == "__main__":
    unittest.main()

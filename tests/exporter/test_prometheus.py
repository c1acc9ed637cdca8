#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes it."""
import http.client
import json
import pathlib
import socket
import subprocess
import time
import unittest
import urllib.parse

from exporter import AT_ONCE, DEADLINE_S, US, Case, run_together, wait_for


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


def load_tests(loader, _tests, _pattern):
    return run_together(loader, (Prometheus,), AT_ONCE)


if __name__ == "__main__":
    unittest.main()

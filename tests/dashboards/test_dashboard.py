#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The committed dashboard is what build.py prints, follows Grafana's dashboard-linter rules, asks only for families and labels of
docs/metrics.md, and each of its queries is PromQL that Prometheus's own parser accepts (promtool)."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "dashboards" / "collscope.json"
DASHBOARD = json.loads(COMMITTED.read_text())
PANELS = [p for p in DASHBOARD["panels"] if p["type"] != "row"]
TARGETS = [(p["title"], t["expr"]) for p in PANELS for t in p["targets"]]


class Dashboard(unittest.TestCase):
    def test_is_what_build_prints(self):
        printed = subprocess.run([sys.executable, ROOT / "dashboards" / "build.py"], capture_output=True, text=True, check=True)
        self.assertEqual(printed.stdout, COMMITTED.read_text(), "run dashboards/build.py > dashboards/collscope.json")

    def test_identity(self):
        self.assertRegex(DASHBOARD["uid"], r"^[a-z-]{1,40}$")
        self.assertEqual(re.findall(r"\(uid `([^`]*)`\)", (ROOT / "docs" / "metrics.md").read_text()), [DASHBOARD["uid"]])
        self.assertIsNone(DASHBOARD["id"])
        self.assertFalse(DASHBOARD["editable"])
        self.assertNotIn("__inputs", DASHBOARD)

    def test_variables(self):
        found = {v["name"]: v for v in DASHBOARD["templating"]["list"]}
        self.assertEqual(found["datasource"]["label"], "Data Source")
        for name in ("job", "instance"):
            self.assertTrue(found[name]["multi"])
            self.assertEqual(found[name]["allValue"], ".+")
            self.assertEqual(found[name]["refresh"], 2)

    def test_panels(self):
        self.assertGreater(len(PANELS), 15)
        ids = [p["id"] for p in DASHBOARD["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        for p in PANELS:
            for key in ("title", "description"):
                self.assertTrue(p[key], p)
            self.assertTrue(p["fieldConfig"]["defaults"]["unit"], p["title"])
            self.assertTrue(p["targets"], p["title"])

    def test_panels_do_not_lie_on_each_other(self):
        cells = {}
        for p in DASHBOARD["panels"]:
            g = p["gridPos"]
            self.assertLessEqual(g["x"] + g["w"], 24)
            for x in range(g["x"], g["x"] + g["w"]):
                for y in range(g["y"], g["y"] + g["h"]):
                    self.assertIsNone(cells.get((x, y)), f"{p['title']} lies on {cells.get((x, y))}")
                    cells[x, y] = p["title"]

    def test_queries(self):
        for title, expr in TARGETS:
            for selector in re.findall(r"collscope_\w+\{[^}]*\}", expr):
                self.assertIn('job=~"$job"', selector, title)
                self.assertIn('instance=~"$instance"', selector, title)
            self.assertEqual(expr.count("rate("), expr.count("[$__rate_interval]"), title)
            for counter in re.findall(r"collscope_\w+_total", expr):
                self.assertIn(f"rate({counter}", expr, title)

    def test_prometheus_parses_every_query(self):
        rules = {"groups": [{"name": "dashboard", "rules": [
            {"record": f"query_{i}", "expr": expr.replace("$__rate_interval", "5m")} for i, (_, expr) in enumerate(TARGETS)]}]}
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump(rules, file)
            file.flush()
            done = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_families_and_labels_are_documented(self):
        document = (ROOT / "docs" / "metrics.md").read_text()
        rules = "".join((ROOT / "dashboards" / n).read_text() for n in ("rules.yml", "alerts.yml"))
        text = "".join(e for _, e in TARGETS) + rules
        for family in sorted(set(re.findall(r"(?<![:\w])collscope_[a-z0-9_]+(?=[{\[])", text))):
            base = re.sub(r"_(bucket|sum|count)$", "", family)
            self.assertIn(base.removeprefix("collscope_").removesuffix("_total"), document, family)


unittest.main()

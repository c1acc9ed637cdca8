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

    def test_stat_panels_show_means(self):
        for p in PANELS:
            if p["type"] == "stat":
                self.assertNotIn("histogram_quantile", p["targets"][0]["expr"], p["title"])

    def evaluate(self, series, samples):
        """What queries give over series, by promtool; both as in its test files."""
        test = {"tests": [{"interval": "30s", "input_series": [{"series": name, "values": values} for name, values in series.items()],
                           "promql_expr_test": [{"expr": expr, "eval_time": "40m", "exp_samples": wanted} for expr, wanted in samples]}]}
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump(test, file)
            file.flush()
            done = subprocess.run(["promtool", "test", "rules", file.name], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @staticmethod
    def ready(expr):
        for name in re.findall(r'=~"\$(\w+)"', expr):
            expr = expr.replace(f"${name}", ".*")
        return expr.replace("$__rate_interval", "5m")

    def test_parts_of_a_step_add_up(self):
        series = {f'collscope_step_{what}{{job="c",instance="a",gpu="0",rank="0",phase="verify"}}': f"0+{value}x120"
                  for what, value in {"duration_seconds_sum": 3.22, "duration_seconds_count": 100, "collective_seconds_sum": 2.9,
                                      "collective_seconds_count": 100, "exposed_collective_seconds_sum": 1.38,
                                      "exposed_collective_seconds_count": 50}.items()}
        parts = [self.ready(e) for t, e in TARGETS if t == "Where a step's time goes"]
        wanted = [[{"labels": '{phase="verify"}', "value": value}] for value in (27.6, 1.4, 3.2, 32.2)]
        queries = [f"round(1e3 * ({expr}), 0.001)" for expr in [*parts, " + ".join(f"({e})" for e in parts)]]
        self.evaluate(series, list(zip(queries, wanted)))

    def test_what_stands_still_shows_nothing(self):
        """A phase seen once: its counters stand, and no panel says NaN."""
        everywhere = ('{job="c",instance="a",gpu="0",rank="0",op="all_reduce",impl="nccl",size="64",with="copy",phase="unknown",cause="x",'
                      'depth="deep",direction="x",le="%s"}')
        names = {n for _, e in TARGETS for n in re.findall(r"collscope_\w+(?=\{)", e)} - {"collscope_step_perturbation_ratio"}
        series = {name + everywhere % le: "7x120" for name in names for le in (("0.01", "+Inf") if name.endswith("_bucket") else ("",))}
        self.assertGreater(len(series), 20)
        self.evaluate(series, [(f"({self.ready(expr)}) != ({self.ready(expr)})", []) for _, expr in TARGETS])

    def test_quantiles_are_as_exact_as_the_document_says(self):
        document = (ROOT / "docs" / "metrics.md").read_text()
        unit = {"us": 1, "ms": 1e3, "s": 1e6}

        def value(text):
            return float(text.split()[0]) * unit[text.split()[1]]

        def bounds(text):
            found = re.search(text + r": (.*?)\.\s", document, re.S).group(1).replace("\n", " ").split(", ")
            units = [None] * len(found)
            for i in reversed(range(len(found))):  # a unit holds for the numbers before it
                units[i] = found[i].split()[1] if " " in found[i] else units[i + 1]
            return [float(f.split()[0]) * unit[u] for f, u in zip(found, units)]

        of = {"collectives": bounds("Classic bounds of collectives"), "steps": bounds("Of steps")}
        self.assertEqual({name: len(found) for name, found in of.items()}, {"collectives": 20, "steps": 48})
        rows = re.findall(r"\| (collectives|steps) \| ([^|]*) \| ([^|]*) \| (?:(\d+) to )?(\d+) % \|", document)
        self.assertEqual(len(rows), 6)
        for name, low, high, least, most in rows:
            pairs = [(a, b) for a, b in zip(of[name], of[name][1:]) if value(low) <= a and b <= value(high)]
            self.assertEqual((pairs[0][0], pairs[-1][1]), (value(low), value(high)))
            widths = [round(100 * (b / a - 1)) for a, b in pairs]
            self.assertEqual((min(widths), max(widths)), (int(least or most), int(most)), (name, low, high))
        low, high, *told, next_p50, next_p99 = map(float, re.search(
            r"lie between (\d+) and (\d+) ms: their median is told as ([\d.]+) ms, their 99th percentile as ([\d.]+) ms\..*?"
            r"next bucket, ([\d.]+) and ([\d.]+) ms", document, re.S).groups())
        takes = 32.2
        for step, between, wanted in ((takes, (low, high), told), (1.05 * takes, (low, high), told), (1.1 * takes, (35, 40), (next_p50, next_p99))):
            buckets = [b / 1e3 for b in of["steps"]]
            around = max(b for b in buckets if b < step), min(b for b in buckets if b >= step)
            self.assertEqual(around, between)
            series = {f'collscope_step_duration_seconds_bucket{{phase="verify",le="{le}"}}': f"0+{n}x120" for le, n in
                      [(b / 1e3, 10 * (b >= step)) for b in buckets] + [("+Inf", 10)]}
            self.evaluate(series, [(f"round(1e3 * histogram_quantile({q}, rate(collscope_step_duration_seconds_bucket[5m])), 0.01)",
                                    [{"labels": '{phase="verify"}', "value": value}]) for q, value in zip((0.5, 0.99), wanted)])

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

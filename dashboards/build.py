#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes dashboards/collscope.json, the Grafana dashboard. Panels are listed here, one line of intent each; a test checks that the
committed JSON is what this prints and that it follows the rules of Grafana's dashboard linter.

    dashboards/build.py > dashboards/collscope.json
"""
import json
import sys

SOURCE = {"type": "prometheus", "uid": "$datasource"}
FILTER = 'job=~"$job", instance=~"$instance"'
STEP = f'{FILTER}, phase=~"$phase"'
ANY_SIZE = f'{STEP}, op=~"$op", impl=~"$impl"'
COLLECTIVE = f'{ANY_SIZE}, size=~"$size"'
RATE = "$__rate_interval"


def rate(metric, labels, by=None):
    inner = f"rate(collscope_{metric}{{{labels}}}[{RATE}])"
    return f"sum by ({by}) ({inner})" if by else f"sum ({inner})"


def quantile(q, metric, labels, by):
    """Interpolated within classic buckets. Not a number where nothing was observed lately: the comparison leaves that out."""
    return f"histogram_quantile({q}, {rate(metric + '_bucket', labels, 'le, ' + by)}) >= 0"


def ratio(over, under):
    """No sample, rather than NaN, where the denominator stands still: a phase that was seen once."""
    return f"{over} / ({under} > 0)"


def mean(metric, labels, by):
    return ratio(rate(metric + "_sum", labels, by), rate(metric + "_count", labels, by))


def panel(kind, title, description, unit, *targets, width=12, height=8, **more):
    body = {
        "type": kind, "title": title, "description": description, "datasource": SOURCE,
        "gridPos": {"w": width, "h": height},
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "options": {},
        "targets": [{"datasource": SOURCE, "expr": expr, "legendFormat": legend, "refId": chr(ord("A") + i),
                     **({"format": "heatmap"} if kind == "heatmap" else {})}
                    for i, (expr, legend) in enumerate(targets)],
    }
    if kind == "timeseries":
        body["options"] = {"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["mean", "max"]},
                           "tooltip": {"mode": "multi", "sort": "desc"}}
        body["fieldConfig"]["defaults"]["custom"] = {"fillOpacity": 10, "lineWidth": 1, "showPoints": "never", **more}
    elif kind == "heatmap":
        body["options"] = {"calculate": False, "yAxis": {"unit": unit}, "color": {"scheme": "Spectral", "mode": "scheme"},
                           "tooltip": {"show": True, "yHistogram": True}}
    elif kind == "stat":
        body["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"}
    return body


EXPOSED = mean("step_exposed_collective_seconds", STEP, "phase")
IN_COLLECTIVES = mean("step_collective_seconds", STEP, "phase")
ROWS = [
    ("The step", [
        panel("stat", "Mean step time", "Mean time of one step of the chosen phases.", "s",
              (mean("step_duration_seconds", STEP, "phase"), "{{phase}}"), width=6, height=5),
        panel("stat", "Communication share", "Share of the step that is spent in collectives (union of their time).", "percentunit",
              (ratio(rate("step_collective_seconds_sum", STEP, "phase"), rate("step_duration_seconds_sum", STEP, "phase")),
               "{{phase}}"), width=6, height=5),
        panel("stat", "Mean exposed communication per step",
              "Mean time of a step under collectives and under nothing else: the price of communication.", "s",
              (mean("step_exposed_collective_seconds", STEP, "phase"), "{{phase}}"), width=6, height=5),
        panel("stat", "Mean collectives per step", "How many collectives a step runs in the mean.", "short",
              (mean("step_collectives", STEP, "phase"), "{{phase}}"), width=6, height=5),
        panel("timeseries", "Step time by phase",
              "Mean, median and 99th percentile. The mean is exact; median and percentile are interpolated within a classic bucket, so up to its width "
              "off: 9 to 20 % from 1 to 250 ms (docs/metrics.md).",
              "s",
              (mean("step_duration_seconds", STEP, "phase"), "{{phase}} mean"),
              (quantile(0.5, "step_duration_seconds", STEP, "phase"), "{{phase}} p50"),
              (quantile(0.99, "step_duration_seconds", STEP, "phase"), "{{phase}} p99")),
        panel("timeseries", "Where a step's time goes",
              "Mean per step, in three parts that add up to the step: communication that nothing hides, communication under other work, and the "
              "rest, without communication.", "s",
              (EXPOSED, "{{phase}} exposed communication"),
              (f"{IN_COLLECTIVES} - {EXPOSED}", "{{phase}} hidden communication"),
              (f"{mean('step_duration_seconds', STEP, 'phase')} - {IN_COLLECTIVES}", "{{phase}} the rest")),
    ]),
    ("The collective", [
        panel("timeseries", "Median duration by implementation and size",
              "A switch of implementation shows as one line ending and another beginning.", "s",
              (quantile(0.5, "collective_duration_seconds", COLLECTIVE, "impl, size"), "{{impl}} <= {{size}} B")),
        panel("timeseries", "99th percentile by implementation and size", "The slow tail: contention, late ranks.", "s",
              (quantile(0.99, "collective_duration_seconds", COLLECTIVE, "impl, size"), "{{impl}} <= {{size}} B")),
        panel("heatmap", "Durations", "How the durations are spread; two bands are two implementations, or contention.", "s",
              (rate("collective_duration_seconds_bucket", COLLECTIVE, "le"), "{{le}}")),
        panel("timeseries", "Overlap", "Share of collective time under compute, copies, other collectives, or nothing; of all sizes.", "percentunit",
              (f"{rate('collective_overlap_seconds_total', ANY_SIZE, 'with')}"
               f" / ignoring (with) group_left () ({rate('collective_duration_seconds_sum', ANY_SIZE)} > 0)", "{{with}}")),
        panel("timeseries", "Duration by what ran beside it", "The 99th percentile of collectives under copies or other collectives.", "s",
              (quantile(0.99, "collective_contended_duration_seconds",
                        f'{FILTER}, op=~"$op", impl=~"$impl", size=~"$size"', "with"), "with {{with}}")),
        panel("timeseries", "Copies beside collectives", "Time of collectives under copies, by where these go, per second.", "percentunit",
              (rate("collective_copy_overlap_seconds_total", ANY_SIZE, "direction"), "{{direction}}")),
        panel("timeseries", "Bytes through collectives", "Message bytes while tracing, as nccl-tests counts them; divide by the traced share for what really flowed.", "Bps",
              (rate("collective_bytes_total", COLLECTIVE, "impl"), "{{impl}}")),
    ]),
    ("The ranks", [
        panel("timeseries", "Mean duration by rank", "The straggler has the least: it never waits.", "s",
              (mean("collective_duration_seconds", COLLECTIVE, "rank"), "rank {{rank}}")),
        panel("timeseries", "Waiting by rank", "Mean time a rank waits for the last one.", "s",
              (mean("collective_wait_seconds", ANY_SIZE, "rank"), "rank {{rank}}")),
        panel("timeseries", "Last arrivals", "Share of the collectives at which a rank arrives last.", "percentunit",
              (ratio(rate("collective_last_arrivals_total", STEP, "instance, gpu, rank"),
                     rate("collectives_matched_total", STEP, "instance, gpu, rank")),
               "rank {{rank}} (GPU {{gpu}})")),
        panel("timeseries", "Median transfer time", "Duration without waiting: the least over the ranks.", "s",
              (quantile(0.5, "collective_transfer_seconds", COLLECTIVE, "impl, size"), "{{impl}} <= {{size}} B")),
        panel("timeseries", "Bus bandwidth", "While all ranks are there, as nccl-tests defines it: against what the link can do.", "Bps",
              (ratio(rate("collective_transfer_bus_bytes_total", COLLECTIVE, "op, impl, size"),
                     rate("collective_transfer_seconds_sum", COLLECTIVE, "op, impl, size")),
               "{{op}} {{impl}} <= {{size}} B")),
    ]),
    ("The tool itself", [
        panel("timeseries", "Traced share of the time", "Deep: a record per kernel.", "percentunit",
              (f"{rate('trace_seconds_total', FILTER, 'depth')} / ignoring (depth) group_left () ({rate('trace_seconds_total', FILTER)} > 0)",
               "{{depth}}")),
        panel("timeseries", "Lost records", "By cause; zero is normal but for bad_timestamp: the kernels that ran when a window ended.", "ops",
              (rate("records_lost_total", FILTER, "cause"), "{{cause}}")),
        panel("timeseries", "CPU of the injected library", "Seconds of CPU per second, by rank.", "percentunit",
              (rate("injector_cpu_seconds_total", FILTER, "rank"), "rank {{rank}}")),
        panel("timeseries", "Perturbation", "How much longer steps take while they are traced, by rank.", "percentunit",
              (f"max by (rank, phase) (collscope_step_perturbation_ratio{{{FILTER}}})", "rank {{rank}} {{phase}}")),
    ]),
]


def variable(name, label, metric, multi=True):
    query = f"label_values({metric}, {name})"
    return {"type": "query", "name": name, "label": label, "datasource": SOURCE, "query": {"query": query, "refId": name},
            "definition": query, "includeAll": multi, "multi": multi, "allValue": ".+" if multi else None, "refresh": 2, "sort": 3,
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}


def dashboard():
    panels, y, number = [], 0, 1
    for title, members in ROWS:
        panels.append({"type": "row", "title": title, "id": number, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        number, y, x, tallest = number + 1, y + 1, 0, 0
        for member in members:
            if x + member["gridPos"]["w"] > 24:
                x, y = 0, y + tallest
            member["gridPos"].update(x=x, y=y)
            member["id"] = number
            number, x, tallest = number + 1, x + member["gridPos"]["w"], member["gridPos"]["h"]
            panels.append(member)
        y += tallest
    duration = f"collscope_collective_duration_seconds_count{{{FILTER}}}"
    return {
        "title": "collscope", "uid": "collscope-collectives", "tags": ["collscope", "gpu", "inference"], "editable": False,
        "id": None, "schemaVersion": 38, "version": 1, "refresh": "30s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser",
        "links": [], "panels": panels,
        "description": "Collective communication of LLM inference servers, per step: duration, overlap, waiting, ranks.",
        "annotations": {"list": [{"name": "Exporter restarts", "enable": True, "iconColor": "orange", "datasource": SOURCE,
                                  "expr": f"changes(process_start_time_seconds{{{FILTER}}}[5m]) > 0"}]},
        "templating": {"list": [
            {"type": "datasource", "name": "datasource", "label": "Data Source", "query": "prometheus", "refresh": 1},
            variable("job", "Job", "collscope_build_info"),
            variable("instance", "Instance", 'collscope_build_info{job=~"$job"}'),
            variable("phase", "Phase", f"collscope_step_duration_seconds_count{{{FILTER}}}"),
            variable("op", "Operation", duration), variable("impl", "Implementation", duration), variable("size", "Size", duration),
        ]},
    }


json.dump(dashboard(), sys.stdout, indent=2, sort_keys=True)
print()

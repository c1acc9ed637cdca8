# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: a node with a run directory of its own, its ranks, its exporter, its command line."""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAKES = pathlib.Path(os.environ["CS_FAKE_DIR"])
INJECTOR = pathlib.Path(os.environ["CS_INJECTOR"])
EXPORTER = os.environ["CS_EXPORTER"]
COMMAND = os.environ["CS_COMMAND"]
RUNNER = ROOT / "tests" / "fakes" / "run_scenario"
SCENARIOS = pathlib.Path(__file__).parent / "scenarios"
DEADLINE_S = 60  # for things that come late on a busy machine; never a speed


def clean_environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("COLLSCOPE_", "CS_FAKE_CUPTI", "CUDA_", "NCCL_", "NVTX_"))}
    kept.update(LC_ALL="C.UTF-8", CS_FAKE_DIR=str(FAKES))
    kept.update({k: str(v) for k, v in more.items()})
    return kept


def scenario_path(name):
    own = SCENARIOS / f"{name}.scn"
    return own if own.exists() else ROOT / "tests" / "fakes" / "scenarios" / f"{name}.scn"


def wait_for(condition, what):
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"not within {DEADLINE_S} s: {what}")


def parse_metrics(text):
    """Text format 0.0.4 as {name: [(labels, value)]}; the format itself is tested with real parsers elsewhere."""
    found = collections.defaultdict(list)
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r'([a-zA-Z_:]+)(?:\{(.*)\})? (\S+)', line)
        labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
        found[match[1]].append((labels, float(match[3])))
    return found


def total(metrics, name, **wanted):
    return sum(value for labels, value in metrics[name] if all(labels.get(k) == v for k, v in wanted.items()))


def by(metrics, name, *keys):
    """Values of a family summed by some of its labels."""
    sums = collections.Counter()
    for labels, value in metrics[name]:
        sums[tuple(labels[key] for key in keys)] += value
    return sums


def size_label(size):
    """docs/metrics.md: upper power of two, as an integer."""
    return str(1 << (size - 1).bit_length())


class Node:
    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="collscope-e2e-")
        self.directory = pathlib.Path(self.temporary.name) / "run"
        self.output = pathlib.Path(self.temporary.name) / "output"
        self.directory.mkdir(mode=0o700)
        self.exporter = None
        self.address = None
        self.truth = None

    def close(self):
        if self.exporter:
            self.exporter.terminate()
            self.exporter.wait(timeout=DEADLINE_S)
            self.log.close()
        self.temporary.cleanup()

    def start_exporter(self, *flags):
        self.log = open(pathlib.Path(self.temporary.name) / "exporter.log", "w+", encoding="utf-8")
        self.exporter = subprocess.Popen(
            [EXPORTER, f"--collscope.dir={self.directory}", "--web.listen-address=127.0.0.1:0", "--log.level=warn", *flags],
            stdout=self.log, stderr=self.log, env=clean_environment())
        lock = self.directory / "exporter.lock"
        text = wait_for(lambda: lock.exists() and "address" in lock.read_text() and lock.read_text(), "exporter is up")
        self.address = re.search(r"address (\S+)", text)[1]
        wait_for(lambda: self.exporter.poll() is None and self.scrape() is not None, "exporter answers")

    def scrape(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10) as answer:
                return parse_metrics(answer.read().decode())
        except OSError:
            return None

    def play(self, scenario, mode="full", cupti="13", injected=True, flags=(), **env):
        """Runs the scenario to its end; the truth stays in self.truth."""
        variables = {"COLLSCOPE_DIR": self.directory, "COLLSCOPE_MODE": mode, "COLLSCOPE_EXPORTER": "off", **env}
        command = [sys.executable, "-B", str(RUNNER), "--cupti", cupti, "--output", str(self.output), *flags]
        if injected:
            command += ["--injector", str(INJECTOR)]
        for name, value in variables.items():
            command += ["--env", f"{name}={value}"]
        done = subprocess.run(command + [str(scenario_path(scenario))], capture_output=True, text=True, check=False,
                              env=clean_environment())
        if done.returncode:
            raise AssertionError(f"run_scenario ended with {done.returncode}:\n{done.stderr}")
        self.truth = json.loads(done.stdout)
        return self.truth

    def collscope(self, *words):
        done = subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False,
                              env=clean_environment(COLLSCOPE_DIR=self.directory))
        if done.returncode:
            raise AssertionError(f"collscope {words}: {done.returncode}: {done.stderr}")
        return done.stdout

    def dump(self, kind):
        lines = map(json.loads, self.collscope("dump", "--format", "jsonl").splitlines())
        return [line for line in lines if line["kind"] == kind]

    def expected(self, field, *keys):
        """A field of the truth's classes, summed by labels as the metrics have them."""
        sums = collections.Counter()
        for rank in self.truth["ranks"]:
            for one in rank["classes"]:
                labels = {"gpu": str(rank["rank"]), "rank": str(rank["rank"]), "op": one["op"], "impl": one["impl"],
                          "size": size_label(one["bytes"]), "phase": one["phase"]}
                sums[tuple(labels[key] for key in keys)] += one[field]
        return sums

    def exporter_log(self):
        return (pathlib.Path(self.temporary.name) / "exporter.log").read_text(encoding="utf-8")

    def errors(self):
        return [(self.output / f"rank-{rank['rank']}.err").read_text() for rank in self.truth["ranks"]]


class NodeTest(unittest.TestCase):
    """One node per class: play() once, many looks at it."""

    @classmethod
    def setUpClass(cls):
        cls.node = Node()
        cls.addClassCleanup(cls.node.close)
        cls.prepare()

    @classmethod
    def prepare(cls):
        raise NotImplementedError

    @classmethod
    def scrape_when_counted(cls):
        """The metrics once every collective of the truth is in them."""
        count = sum(cls.node.expected("count", "op").values())
        name = "collscope_collective_duration_seconds_count"
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            metrics = cls.node.scrape()
            if metrics and total(metrics, name) >= count:
                return metrics
            time.sleep(0.2)
        lost = {(labels["rank"], labels["cause"]): value for labels, value in metrics["collscope_records_lost_total"] if value}
        raise AssertionError(f"{total(metrics, name):.0f} of {count} collectives in /metrics, lost by rank and cause: {lost}")


class LongTest(NodeTest):
    """Takes long by the clock and little of the machine: prepare() runs beside the tests of other classes when begin_early()
    names the class, else when the class's turn comes."""
    preparing = None
    pool = concurrent.futures.ThreadPoolExecutor(5)

    @classmethod
    def begin(cls):
        cls.node = Node()
        unittest.addModuleCleanup(cls.node.close)
        cls.preparing = cls.pool.submit(cls.prepare)

    @classmethod
    def setUpClass(cls):
        if not cls.preparing:
            cls.begin()
        cls.preparing.result()


def begin_early(*long_tests):
    """(load_tests, setUpModule) of a module that has these: when all its tests are run, the long ones begin first, some at a
    time, and are looked at last."""
    together = []

    def load_tests(loader, tests, _pattern):
        together.extend(long_tests)
        last = [loader.loadTestsFromTestCase(case) for case in long_tests]
        return unittest.TestSuite([suite for suite in tests if not isinstance(next(iter(suite), None), long_tests)] + last)

    def set_up_module():
        for case in together:
            case.begin()

    return load_tests, set_up_module

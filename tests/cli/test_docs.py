# SPDX-License-Identifier: Apache-2.0
"""Documents against the programs: docs/dump.md, man pages, completion."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import cli

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Commands of documents and docstrings: scripts by their path from the project's root, not handed to an interpreter.
CALLS = re.compile(r"(?m)(?:^[ \t]*|[`|]\s*)((?:scripts|tests|bench|dashboards|\.ci)/[\w/.-]*\w)(?=[\s`]|$)")
GPU_SCRIPTS = ("tests/gpu/check.py", "tests/gpu/soak.py", "tests/gpu/two_gpus.py", "tests/gpu/newcomer.py", "bench/gpu_overhead.py",
               "bench/torch_overhead.py")
KINDS = ("process", "step", "collective", "window", "mark", "host_launch", "loss")
# scdoc puts a paragraph before and after everything; that is all that mandoc has to say about its pages.
SCDOC_HABITS = re.compile(r"skipping paragraph macro: PP (empty|after)")


def documented(heading):
    """Keys in the first table under a heading of docs/dump.md, in order."""
    text = (ROOT / "docs" / "dump.md").read_text(encoding="utf-8")
    section = re.split(r"(?m)^#+ ", text.split(heading + "\n", 1)[1])[0]
    return re.findall(r"(?m)^\| `(\w+)` \|", section)


class Docs(cli.Test):
    def test_dump(self):
        self.write(hold=1)
        objects = self.dump()
        for kind in KINDS:
            found = [list(o) for o in cli.of_kind(objects, kind)]
            self.assertTrue(found, kind)
            for keys in found:
                self.assertEqual(keys, documented(f"## `{kind}`"), kind)
        self.assertEqual({o["kind"] for o in objects}, set(KINDS))

    def test_status(self):
        self.write(hold=1)
        state = json.loads(self.run_command("status", "--json", "--collectives").stdout)
        self.assertEqual(set(state), set(documented("## `collscope status --json`")))
        self.assertEqual(set(state["exporter"]), set(documented("### `exporter`")))
        self.assertEqual(set(state["processes"][0]), set(documented("### `processes`")))
        self.assertEqual(set(state["processes"][0]["gpus"][0]), set(documented("### `gpus`")))
        self.assertEqual(set(state["processes"][0]["communicators"][0]), set(documented("### `communicators`")))
        self.assertEqual(set(state["collectives"][0]), set(documented("### `collectives`")))

    def test_readme_names_what_building_needs(self):
        common = (ROOT / "scripts" / "common.sh").read_text(encoding="utf-8")
        packages = set(re.search(r"BUILD_PACKAGES=\(([^)]*)\)", common).group(1).split())
        line = re.search(r"Building needs `([^`]*)`", (ROOT / "README.md").read_text(encoding="utf-8")).group(1)
        self.assertEqual(set(line.split()), packages - {"libcmocka-dev", "python3", "python3-venv"})  # tests and headers alone need those

    def test_scripts_that_documents_call_are_executable(self):
        texts = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md"),
                 *(p for d in ("tests", "bench", "dashboards") for p in (ROOT / d).rglob("*.py")), *(ROOT / "scripts").iterdir()]
        called = {name for text in texts for name in CALLS.findall(text.read_text(encoding="utf-8"))}
        scripts = {name for name in called if (ROOT / name).is_file() and (ROOT / name).read_bytes().startswith(b"#!")}
        self.assertLessEqual({"scripts/demo", "dashboards/build.py", *GPU_SCRIPTS}, scripts)
        self.assertEqual([name for name in sorted(scripts) if not os.access(ROOT / name, os.X_OK)], [])

    def test_gpu_scripts_say_what_is_missing(self):
        # A PATH of Python alone: no nvidia-smi, whatever machine this is.
        environment = {"PATH": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
        for name in GPU_SCRIPTS:
            done = subprocess.run([sys.executable, ROOT / name, os.environ["CS_BUILD"]], env=environment, capture_output=True, text=True,
                                  check=False)
            said = (done.returncode, done.stdout, done.stderr)
            self.assertEqual(said, (2, "", f"{pathlib.Path(name).name}: no NVIDIA GPU here (nvidia-smi not found)\n"))
            helped = subprocess.run([sys.executable, ROOT / name, "--help"], env=environment, capture_output=True, text=True, check=False)
            self.assertEqual((helped.returncode, helped.stderr), (0, ""), name)
            self.assertIn(f"{name} build/dev", helped.stdout)

    def test_man_pages_are_up_to_date(self):
        subprocess.run([sys.executable, "-B", ROOT / "scripts" / "generate-docs", "--check", os.environ["CS_BUILD"]], check=True)

    def test_every_variable_is_in_the_manual(self):
        table = (ROOT / "src" / "environment_table.h").read_text(encoding="utf-8")
        page = (ROOT / "docs" / "man" / "collscope.7.scd").read_text(encoding="utf-8").replace("\\", "")
        names = re.findall(r'(?m)^CS_\w+\("(COLLSCOPE_\w+)"', table)
        self.assertGreater(len(names), 15)
        for name in names:
            self.assertIn(f"*{name}* =", page)

    @unittest.skipUnless(shutil.which("scdoc") and shutil.which("mandoc"), "needs scdoc and mandoc")
    def test_man_pages_lint(self):
        for page in ("collscope.1", "collscope-exporter.1", "collscope.7"):
            source = (ROOT / "docs" / "man" / (page + ".scd")).read_bytes()
            roff = subprocess.run(["scdoc"], input=source, capture_output=True, check=True).stdout
            lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"], input=roff, capture_output=True, check=False).stdout
            complaints = [l for l in lint.decode().splitlines() if not SCDOC_HABITS.search(l)]
            self.assertEqual(complaints, [], page)

    def complete(self, *words):
        script = (subprocess.run([os.environ["CS_GENERATE"], "bash"], capture_output=True, text=True, check=True).stdout +
                  f"\nCOMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; _collscope 2>/dev/null; "
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-u", "-c", script], capture_output=True, text=True, check=True, env=self.env)
        return done.stdout.split()

    @unittest.skipUnless(shutil.which("bash"), "needs bash")
    def test_completion(self):
        self.assertEqual(self.complete("collscope", "st"), ["status"])
        self.assertEqual(self.complete("collscope", "dump", "--fo"), ["--format", "--follow"])
        self.assertEqual(self.complete("collscope", "dump", "--format", ""), ["jsonl", "text"])
        self.assertEqual(self.complete("collscope", "run", "--mode", "f"), ["full"])
        self.assertEqual(self.complete("collscope", "help", "tr"), ["trace"])
        self.assertIn("--ring-mib", self.complete("collscope", "run", "--r"))

    @unittest.skipUnless(shutil.which("bash"), "needs bash")
    def test_completion_of_processes(self):
        self.assertEqual(self.complete(cli.COMMAND, "top", "--pid", ""), [])
        writers = [self.write(rank=rank, hold=1, reason="said of it") for rank in range(2)]
        self.write(rank=2)
        for option in ("--pid", "-p"):
            self.assertEqual(self.complete(cli.COMMAND, "trace", option, ""), [str(writer.pid) for writer in writers])
        self.assertEqual(self.complete(cli.COMMAND, "trace", "--pid", str(writers[1].pid)), [str(writers[1].pid)])


unittest.main()

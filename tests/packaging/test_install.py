# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` puts where, with --prefix and DESTDIR; and that the installed command finds its parts."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ["CS_BUILD"]
LIBDIR = os.environ["CS_LIBDIR"]
DOCUMENTS = "share/doc/collscope"
FILES = """
bin/collscope
bin/collscope-exporter
lib/systemd/system/collscope-exporter@.service
share/bash-completion/completions/collscope
share/collscope/dashboards/alerts.yml
share/collscope/dashboards/collscope.json
share/collscope/dashboards/rules.yml
share/doc/collscope/CHANGELOG.md
share/doc/collscope/HACKING.md
share/doc/collscope/LICENSE
share/doc/collscope/README.md
share/doc/collscope/SECURITY.md
share/doc/collscope/docs/examples/catalog.tbl
share/doc/collscope/packaging/container/Dockerfile
share/doc/collscope/packaging/kubernetes/daemonset.yaml
share/doc/collscope/packaging/kubernetes/podmonitor.yaml
share/doc/collscope/packaging/kubernetes/sidecar.yaml
share/man/man1/collscope-exporter.1
share/man/man1/collscope.1
share/man/man7/collscope.7
""".split()


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stage = pathlib.Path(tempfile.mkdtemp(prefix="install-", dir=BUILD))
        cls.addClassCleanup(shutil.rmtree, cls.stage)
        subprocess.run([os.environ["CS_CMAKE"], "--install", BUILD, "--prefix", "/opt/collscope"], check=True,
                       stdout=subprocess.DEVNULL, env=dict(os.environ, DESTDIR=str(cls.stage)))
        cls.prefix = cls.stage / "opt/collscope"

    def test_files(self):
        wanted = set(FILES) | {f"{LIBDIR}/libcollscope.so"}
        wanted |= {f"{DOCUMENTS}/docs/{file.name}" for file in (ROOT / "docs").glob("*.md")}
        if "NOTFOUND" in os.environ["CS_SCDOC"]:
            wanted = {name for name in wanted if not name.startswith("share/man/")}
        found = {str(path.relative_to(self.prefix)) for path in self.stage.rglob("*") if not path.is_dir()}
        self.assertEqual(found, wanted)
        empty = [path for path in self.stage.rglob("*") if path.is_dir() and not any(path.iterdir())]
        self.assertEqual(empty, [])

    def test_links_between_documents_hold(self):
        for document in (self.prefix / DOCUMENTS).rglob("*.md"):
            for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
                self.assertTrue((document.parent / link).exists(), f"{document.name}: {link}")

    def test_service_runs_the_installed_exporter(self):
        unit = (self.prefix / "lib/systemd/system/collscope-exporter@.service").read_text(encoding="utf-8")
        self.assertIn("\nExecStart=/opt/collscope/bin/collscope-exporter ", unit)
        self.assertNotIn("@CS_", unit)

    def test_command_finds_its_parts(self):
        with tempfile.TemporaryDirectory() as directory:
            environment = {"PATH": os.environ["PATH"], "COLLSCOPE_DIR": directory, "COLLSCOPE_EXPORTER": "off"}
            done = subprocess.run([self.prefix / "bin/collscope", "run", "--", "printenv", "CUDA_INJECTION64_PATH"], env=environment,
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout.strip(), str((self.prefix / LIBDIR / "libcollscope.so").resolve()), done.stderr)


unittest.main()

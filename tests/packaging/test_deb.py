# SPDX-License-Identifier: Apache-2.0
"""The Debian package: holds what `cmake --install` installs, depends on what its programs link with, works from where it is unpacked."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ["CS_BUILD"]


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


@unittest.skipUnless(shutil.which("dpkg-shlibdeps") and shutil.which("file"), "needs dpkg-dev and file")
class Deb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="deb-", dir=BUILD))
        cls.addClassCleanup(shutil.rmtree, cls.work)
        done = subprocess.run([os.environ["CS_CPACK"], "--config", f"{BUILD}/CPackConfig.cmake", "-B", cls.work / "made"], cwd=cls.work,
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        (cls.package,) = (cls.work / "made").glob("collscope_*.deb")
        cls.root = cls.work / "root"
        subprocess.run(["dpkg-deb", "-x", cls.package, cls.root], check=True)

    def field(self, name):
        return subprocess.run(["dpkg-deb", "-f", self.package, name], capture_output=True, text=True, check=True).stdout.strip()

    def test_holds_what_is_installed(self):
        stage = self.work / "stage"
        subprocess.run([os.environ["CS_CMAKE"], "--install", BUILD, "--prefix", "/usr"], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, DESTDIR=str(stage)))
        self.assertEqual(files(self.root), files(stage))
        self.assertIn("usr/bin/collscope-exporter", files(self.root))

    def test_owners_and_modes(self):
        listed = subprocess.run(["dpkg-deb", "-c", self.package], capture_output=True, text=True, check=True).stdout.splitlines()
        for line in listed:
            self.assertRegex(line, r"^(drwxr-xr-x|-rwxr-xr-x|-rw-r--r--) root/root ", line)

    def test_dependencies(self):
        found = {re.match(r"[\w.+-]+", item.strip()).group(0) for item in self.field("Depends").split(",")}
        self.assertEqual(found, {"libc6", "libmicrohttpd12", "libjansson4", "zlib1g"})
        dockerfile = (ROOT / "packaging" / "container" / "Dockerfile").read_text(encoding="utf-8")
        image = re.findall(r"apt-get install -y --no-install-recommends(.*?)\n    &&", dockerfile, re.S)[-1]
        self.assertEqual(set(image.replace("\\", "").split()), found - {"libc6"})

    def test_version_is_the_projects(self):
        version = re.search(r"project\(collscope VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
        self.assertEqual(self.field("Version"), version)
        document = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
        self.assertIn(f"collscope_{version}_", document)

    def test_unit_runs_the_packaged_exporter(self):
        unit = (self.root / "usr/lib/systemd/system/collscope-exporter@.service").read_text(encoding="utf-8")
        self.assertIn("\nExecStart=/usr/bin/collscope-exporter ", unit)

    def test_command_finds_its_parts(self):
        with tempfile.TemporaryDirectory() as directory:
            environment = {"PATH": os.environ["PATH"], "COLLSCOPE_DIR": directory, "COLLSCOPE_EXPORTER": "off"}
            done = subprocess.run([self.root / "usr/bin/collscope", "run", "--", "printenv", "CUDA_INJECTION64_PATH"], env=environment,
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout.strip(), str((self.root / "usr/lib/libcollscope.so").resolve()), done.stderr)


unittest.main()

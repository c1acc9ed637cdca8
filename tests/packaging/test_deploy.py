# SPDX-License-Identifier: Apache-2.0
"""The manifests, the Dockerfile and the YAML of the documents: that they parse, and agree with each other and with the programs."""
import os
import pathlib
import re
import subprocess
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANIFESTS = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / "packaging" / "kubernetes").glob("*.yaml")}
DOCKERFILE = (ROOT / "packaging" / "container" / "Dockerfile").read_text(encoding="utf-8")
LIBRARY = "/opt/collscope/libcollscope.so"


def blocks(name, language):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    return [yaml.safe_load(block) for block in re.findall(rf"(?ms)^```{language}\n(.*?)^```", text)]


def container(spec, name):
    return next(c for c in spec["containers"] if name in c["name"])


def environment(of):
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in of["env"]}


def mounts(of):
    return {m["mountPath"]: m["name"] for m in of["volumeMounts"]}


def packages(stage):
    """What apt-get installs in the n-th stage."""
    line = re.findall(r"apt-get install -y --no-install-recommends(.*?)\n    &&", DOCKERFILE, re.S)[stage]
    return set(line.replace("\\", "").split())


class Deploy(unittest.TestCase):
    def setUp(self):
        self.pods = {name: MANIFESTS[name]["spec"]["template"] for name in ("sidecar", "daemonset")}
        self.server_beside = next(b["spec"] for b in blocks("deploy.md", "yaml") if "spec" in b)

    def test_every_block_of_yaml_parses(self):
        self.assertEqual(set(MANIFESTS), {"sidecar", "daemonset", "podmonitor"})
        self.assertGreaterEqual(len(blocks("deploy.md", "yaml")), 2)
        self.assertGreaterEqual(len(blocks("metrics.md", "yaml")), 1)

    def test_servers(self):
        table = (ROOT / "src" / "environment_table.h").read_text(encoding="utf-8")
        known = set(re.findall(r'(?m)^CS_\w+\("(COLLSCOPE_\w+)"', table))
        for spec in (self.pods["sidecar"]["spec"], self.server_beside):
            server = container(spec, "server")
            env = environment(server)
            self.assertEqual(env["CUDA_INJECTION64_PATH"], LIBRARY)
            self.assertEqual(env["COLLSCOPE_EXPORTER"], "off")
            self.assertEqual(env["POD_NAME"], {"fieldRef": {"fieldPath": "metadata.name"}})
            self.assertEqual(env["POD_NAMESPACE"], {"fieldRef": {"fieldPath": "metadata.namespace"}})
            self.assertLessEqual({name for name in env if name.startswith("COLLSCOPE_")}, known)
            self.assertIn(env["COLLSCOPE_DIR"], mounts(server))
            self.assertIn(os.path.dirname(LIBRARY), mounts(server))
            self.assertLessEqual(set(mounts(server).values()), {v["name"] for v in spec["volumes"]})

    def test_exporters_share_directory_and_user_with_their_servers(self):
        for name, server_spec in (("sidecar", self.pods["sidecar"]["spec"]), ("daemonset", self.server_beside)):
            spec = self.pods[name]["spec"]
            exporter, server = container(spec, "exporter"), container(server_spec, "server")
            directory = environment(exporter)["COLLSCOPE_DIR"]
            self.assertEqual(directory, environment(server)["COLLSCOPE_DIR"], name)
            where = [next(v for v in s["volumes"] if v["name"] == mounts(c)[directory]) for s, c in ((spec, exporter), (server_spec, server))]
            self.assertEqual(*[v.get("hostPath", {}).get("path", v["name"]) for v in where], name)
            users = [c.get("securityContext", {}).get("runAsUser", s.get("securityContext", {}).get("runAsUser"))
                     for s, c in ((spec, exporter), (server_spec, server))]
            self.assertEqual(users[0], users[1], name)
            self.assertIn(f"USER {users[0]}:", DOCKERFILE)
        self.assertIn(f"-o {users[0]} -g {users[0]} -m 0700 {directory}\n", self.pods["daemonset"]["spec"]["initContainers"][0]["command"][-1])

    def test_library_is_copied_from_where_it_is_installed(self):
        for name in self.pods:
            init = self.pods[name]["spec"]["initContainers"][0]
            self.assertIn("/usr/local/lib/libcollscope.so", " ".join(init["command"]))
            self.assertIn(os.path.dirname(LIBRARY), mounts(init))

    def test_commands_name_a_container_of_every_pod(self):
        named = re.findall(r"kubectl exec \S+ -c (\S+)", (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8"))
        self.assertTrue(named)
        for name, pod in self.pods.items():
            self.assertLessEqual(set(named), {c["name"] for c in pod["spec"]["containers"]}, name)

    def test_exporter_takes_the_arguments(self):
        lines = [container(pod["spec"], "exporter")["args"] for pod in self.pods.values()]
        lines.append(yaml.safe_load(re.search(r"(?m)^CMD (.*)$", DOCKERFILE).group(1)))
        for arguments in lines:
            done = subprocess.run([os.environ["CS_EXPORTER"], *arguments, "--version"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_scraping_finds_port_and_pods(self):
        manual = (ROOT / "docs" / "man" / "collscope-exporter.1.scd").read_text(encoding="utf-8")
        monitor = MANIFESTS["podmonitor"]["spec"]
        selected = monitor["selector"]["matchExpressions"][0]
        for pod in self.pods.values():
            self.assertIn(pod["metadata"]["labels"][selected["key"]], selected["values"])
            exporter = container(pod["spec"], "exporter")
            port = exporter["ports"][0]
            self.assertEqual(port["name"], monitor["podMetricsEndpoints"][0]["port"])
            self.assertIn(f"--web.listen-address=:{port['containerPort']}", exporter["args"])
            self.assertIn(f"EXPOSE {port['containerPort']}\n", DOCKERFILE)
            for probe in ("readinessProbe", "livenessProbe"):
                self.assertEqual(exporter[probe]["httpGet"]["port"], port["name"])
                self.assertIn(f"_{exporter[probe]['httpGet']['path']}_", manual)
        self.assertIn("collscope", MANIFESTS["podmonitor"]["metadata"]["name"])

    def test_image_has_what_building_needs(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        self.assertLessEqual(set(re.search(r"Building needs `([^`]*)`", readme).group(1).split()) | {"python3-venv"}, packages(0))


if __name__ == "__main__":
    unittest.main()

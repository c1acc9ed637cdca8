# SPDX-License-Identifier: Apache-2.0
"""collscope catalog: the rows, what a name is taken for, and what a wrong file says."""
import json
import pathlib
import subprocess
import unittest

import cli

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ROOT / "tests" / "data" / "catalog" / "names.tsv"
EXAMPLE = ROOT / "docs" / "examples" / "catalog.tbl"
NCCL = "_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE"


class Catalog(cli.Test):
    def match(self, *words, status=0, text=None, env=None):
        """Objects of `catalog match --json`, with names as words or on standard input."""
        done = subprocess.run([cli.COMMAND, "catalog", "match", "--json", *words], input=text, capture_output=True,
                              env={**self.env, **(env or {})}, timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]

    def test_every_known_name_on_standard_input(self):
        rows = [line.split("\t") for line in NAMES.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
        objects = self.match(text="".join(f"{row[7]}\n" for row in rows).encode())
        self.assertEqual([o["name"] for o in objects], [row[7] for row in rows])
        for found, (_, _, kind, op, impl, dtype, world, name) in zip(objects, rows):
            expected = (op, impl) if kind == "collective" else (None, None)
            self.assertEqual((found["op"], found["impl"]), expected, name)
            self.assertEqual(found["kind"], None if kind == "ordinary" else kind, name)
            self.assertEqual(found["rule"] is None, kind == "ordinary", name)
            if kind == "collective":
                self.assertEqual((found["dtype"] or "unknown", found["world"]), (dtype, None if world == "-" else int(world)))

    def test_names_as_words(self):
        objects = self.match(NCCL, "void at::native::reduce_kernel<512, 1>(int)")
        self.assertEqual([(o["op"], o["impl"], o["rule"]) for o in objects], [("all_reduce", "nccl", "nccl"), (None, None, None)])
        self.assertIn("ncclDevKernel_*", objects[0]["why"])
        text = self.run_command("catalog", "match", NCCL).stdout
        self.assertIn(f"{NCCL}\n    all_reduce, nccl: row nccl (", text)

    def test_status_says_whether_any_matches(self):
        self.match("gemm", status=1)
        self.match("gemm", NCCL)
        self.match(text=b"", status=1)
        self.run_command("catalog", "match", "gemm", status=1)

    def test_input_of_any_kind(self):
        objects = self.match(text=b'  "ncclDevKernel_AllGather_RING" \r\n\n\xff\xfe\x01\nx' + b"y" * 100000)
        self.assertEqual([o["op"] for o in objects], ["all_gather", None, None])
        self.assertEqual(objects[1]["name"], "??\x01")

    def test_list(self):
        done = self.run_command("catalog", "--json")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertGreater(len(rows), 100)
        self.assertEqual({row["origin"] for row in rows}, {"built-in"})
        self.assertEqual(len({row["rule"] for row in rows}), len(rows))
        lines = self.run_command("catalog").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines[1:]], [row["rule"] for row in rows])

    def test_file(self):
        name = "acme::ring_reduce<float, 8, true>"
        self.match(name, status=1)
        for objects in (self.match("--catalog", EXAMPLE, name), self.match(name, env={"COLLSCOPE_CATALOG": str(EXAMPLE)})):
            (found,) = objects
            self.assertEqual((found["rule"], found["op"], found["dtype"], found["world"], found["fused"]),
                             ("acme-ring-reduce", "all_reduce", "float32", 8, True))
        first = json.loads(self.run_command("catalog", "--json", "--catalog", EXAMPLE).stdout.splitlines()[0])
        self.assertEqual((first["rule"], first["origin"]), ("acme-ring-reduce", str(EXAMPLE)))

    def test_wrong_file(self):
        path = pathlib.Path(self.dir) / "my.tbl"
        path.write_text("[a]\nname = x\nop = allreduce\n", encoding="ascii")
        done = self.run_command("catalog", "--catalog", path, status=2)
        self.assertIn(f"{path}:3: op: there is no 'allreduce'", done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertIn("cannot read the file", self.run_command("catalog", "--catalog", "/nonexistent", status=2).stderr)

    def test_usage(self):
        self.assertIn("want 'match'", self.run_command("catalog", "macth", status=2).stderr)
        self.run_command("catalog", "--nonsense", status=2)


if __name__ == "__main__":
    unittest.main()

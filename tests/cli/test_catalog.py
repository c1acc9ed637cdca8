# SPDX-License-Identifier: Apache-2.0
"""collscope catalog: the rows, what a name is taken for, and what a wrong file says."""
import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios
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
        self.assertEqual(lines[0].split(), ["KERNEL", "OP", "IMPL", "ROW", "SIZE"])
        at = lines[0].index("ROW")
        self.assertEqual([(line[:lines[0].index("OP")].strip(), line[at:].split()[0]) for line in lines[1:]],
                         [(pattern.strip(), row["rule"]) for row in rows for pattern in row["pattern"].split("|")])

    def test_list_fits_a_terminal(self):
        for columns in (80, 132):
            master, slave = pty.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            with subprocess.Popen([cli.COMMAND, "catalog"], stdout=slave, stdin=subprocess.DEVNULL,
                                  env={**self.env, "NO_COLOR": "1", "TERM": "xterm"}) as process:
                os.close(slave)
                text = b""
                while True:
                    try:
                        part = os.read(master, 65536)
                    except OSError:  # the other end has gone
                        break
                    text += part
            os.close(master)
            self.assertEqual(process.returncode, 0)
            lines = text.decode().splitlines()
            self.assertLessEqual(max(map(len, lines)), columns)
            self.assertEqual("Too narrow for ROW, SIZE:" in lines[-1], columns == 80, lines[-1])
            self.assertTrue(any(re.match(r"vllm::cross_device_reduce_1stage +all_reduce +vllm_custom( |$)", line) for line in lines))
            self.assertTrue(any(re.match(r"\.\.\.\S*allreduce_fusion_kernel_twoshot_sync +all_reduce ", line) for line in lines))

    def test_near_misses(self):
        for name in ("cross_device_reduce", "cross_devce_reduce_1stage", "CrossDeviceReduce1Stage<float>"):
            said = self.run_command("catalog", "match", name, status=1).stdout
            self.assertIn("not a collective: no row matches\n    near: row vllm-cross-device-reduce-1stage (", said, name)
            self.assertLessEqual(said.count("near: row"), 3)
        for name in ("gemm", "elementwise_add_kernel"):
            self.assertNotIn("near:", self.run_command("catalog", "match", name, status=1).stdout, name)

    def test_no_name(self):
        self.assertIn("No kernel name on standard input", self.run_command("catalog", "match", status=1).stderr)

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
        self.assertIn(f'{path}:3: op: there is no "allreduce"', done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertIn("cannot read the file", self.run_command("catalog", "--catalog", "/nonexistent", status=2).stderr)

    def test_usage(self):
        self.assertIn('want "match"', self.run_command("catalog", "macth", status=2).stderr)
        self.run_command("catalog", "--nonsense", status=2)


if __name__ == "__main__":
    unittest.main()

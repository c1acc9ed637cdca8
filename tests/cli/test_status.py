# SPDX-License-Identifier: Apache-2.0
"""collscope status: what is shown, and what damaged segments and directories do to it."""
import fcntl
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import termios
import unittest

import cli

STATE_DORMANT = 6


class Status(cli.Test):
    def status(self, *words, status=0):
        return json.loads(self.run_command("status", "--json", *words, status=status).stdout)

    def test_wrong_variables_are_said(self):
        """Those that it reads, and names that nobody reads; the library's are the library's to say."""
        self.write()
        for name, value, said in (("COLLSCOPE_STALL_S", "30s", "COLLSCOPE_STALL_S is 30s, which is not one of its values (1 to 86400); using 10."),
                                  ("COLLSCOPE_STALS", "30", "There is no variable COLLSCOPE_STALS; did you mean COLLSCOPE_STEPS?"),
                                  ("COLLSCOPE_STALL_S", "30", None), ("COLLSCOPE_MODE", "all", None)):
            done = self.run_command("status", env={**self.env, name: value})
            self.assertEqual(done.stderr, f"collscope: warn: {said}\n" if said else "")

    NONE = "exporter: none; a traced process starts one within a minute, unless its COLLSCOPE_EXPORTER is off"

    def last_line(self, *words):
        done = self.run_command("status", *words)
        self.assertEqual(done.stderr, "")
        return done.stdout.splitlines()[-1]

    def test_exporter_that_could_not_serve_is_told(self):
        """Started as the library does it: nobody sees what it says. It stays in exporter.log, and status tells it."""
        exporter = os.path.join(os.environ["CS_BUILD"], "exporter", "collscope-exporter")
        none = {"serving": False, "address": None, "pid": None, "why": None}
        self.write(hold=1)
        self.assertEqual((self.last_line(), self.status()["exporter"]), (self.NONE, none))
        with socket.create_server(("127.0.0.1", 0)) as other:
            address = f"127.0.0.1:{other.getsockname()[1]}"
            for listen, why in ((address, f"cannot listen on {address}: Address already in use; "), ("19400", '"19400" is no address to listen on; ')):
                subprocess.run([exporter, "--collscope.auto", f"--collscope.dir={self.dir}", f"--web.listen-address={listen}"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
                self.assertEqual("COLLSCOPE_LISTEN or `collscope run --listen`" in self.last_line(), listen == address, self.last_line())
                self.assertNotIn("--web.listen-address", self.last_line())
                for options in ((), ("--long",), ("--collectives",)):
                    self.assertTrue(self.last_line(*options).startswith(f"exporter: did not start: {why}"), self.last_line(*options))
                said = self.status()["exporter"]
                self.assertEqual({**said, "why": None}, none)
                self.assertTrue(said["why"].startswith(why), said)
        with open(os.path.join(self.dir, "exporter.log"), "w", encoding="ascii") as log:
            log.write('time=1 level=error component=x msg="No" error="\\"a\\" is \\\\ none"\n')
        self.assertEqual(self.last_line(), self.NONE + '; the last one said: "a" is \\ none')
        with open(os.path.join(self.dir, "exporter.log"), "w", encoding="ascii") as log:
            log.write('time=1 level=error component=x msg="No error=here" error=EIO\n')
        self.assertEqual(self.last_line(), self.NONE + "; the last one said: EIO")

    def test_exporter_that_serves_is_told(self):
        self.write(hold=1)
        with open(os.path.join(self.dir, "exporter.log"), "w", encoding="ascii") as log:
            log.write("an old complaint\n")
        with open(os.path.join(self.dir, "exporter.lock"), "w", encoding="ascii") as lock:
            fcntl.fcntl(lock, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
            starting = {"serving": False, "address": None, "pid": None, "why": None}
            self.assertEqual((self.last_line(), self.status()["exporter"]), ("exporter: starting", starting))
            lock.write("pid 12\naddress 127.0.0.1:19400\n")
            lock.flush()
            self.assertEqual(self.last_line(), "exporter: serving 127.0.0.1:19400")
            self.assertEqual(self.status()["exporter"], {"serving": True, "address": "127.0.0.1:19400", "pid": 12, "why": None})
        self.assertEqual(self.last_line(), self.NONE + "; the last one said: an old complaint")

    def test_exporter_is_not_promised_by_who_starts_none(self):
        self.write(hold=1, state=STATE_DORMANT, reason="CUPTI was not found")
        self.assertEqual(self.last_line(), "exporter: none")

    def test_no_exporter_is_missing_where_nothing_runs(self):
        self.write()
        with open(os.path.join(self.dir, "exporter.log"), "w", encoding="ascii") as log:
            log.write("an old complaint\n")
        self.assertEqual((self.last_line(), self.status()["exporter"]["why"]), ("exporter: none", None))

    def test_json(self):
        writer = self.write(hold=1, lost=3)
        (process,) = self.status()["processes"]
        expected = {"pid": writer.pid, "alive": True, "rank": 0, "world": 2, "mode": "full", "state": "tracing", "depth": "deep",
                    "reason": None, "kernels_seen": 12345, "graph_launches": 3, "labels": 2, "nccl": "2.28.9", "cupti": None,
                    "environment": {"NCCL_ALGO": "Ring"}, "segment": writer.path, "injector_version": "0.0.1-test",
                    "command": 'server "quoted" \\ é'}
        self.assertEqual({k: process[k] for k in expected}, expected)
        self.assertEqual({k: v for k, v in process["records_lost"].items() if v}, {"pool_empty": 3, "cupti_dropped": 5})
        self.assertEqual(process["records"]["collective"], 31)
        (gpu,) = process["gpus"]
        self.assertEqual((gpu["gpu"], gpu["name"], gpu["pci"], gpu["uuid"], gpu["links"]),
                         (3, "Test GPU", "0000:1a:00.0", "GPU-dead0000-0000-0000-0000-000000000000",
                          [{"gpu": 7, "link": "nvlink", "nvlinks": 18}]))
        (communicator,) = process["communicators"]
        self.assertEqual((communicator["communicator"], communicator["name"], communicator["world"]),
                         ("fedcba9876543210", "tp", 2))

    def test_dead_and_dormant(self):
        dead = self.write(rank=1)
        dormant = self.write(rank=0, hold=1, dropped=0, state=STATE_DORMANT, reason="CUPTI was not found")
        processes = self.status()["processes"]
        self.assertEqual([(p["pid"], p["alive"], p["state"]) for p in processes],
                         [(dormant.pid, True, "dormant"), (dead.pid, False, "ended")])
        self.assertEqual(processes[0]["reason"], "CUPTI was not found")
        self.assertEqual([p["pid"] for p in self.status("--running")["processes"]], [dormant.pid])
        text = self.run_command("status").stdout
        self.assertIn(f"{dormant.pid}: dormant: CUPTI was not found", text)
        self.assertIn(f"{dead.pid}: records lost: cupti_dropped 5", text)
        self.assertRegex(text, rf"(?m)^ *{dead.pid} .* ended ")

    def test_losses_that_several_have_are_summed(self):
        one = self.write(rank=0, dropped=0, bad_timestamp=3, lost=2)
        two = self.write(rank=1, dropped=0, bad_timestamp=4)  # no window: more than their ends take
        text = self.run_command("status").stdout
        self.assertEqual([line for line in text.splitlines() if "records lost" in line],
                         [f"{one.pid}: records lost: pool_empty 2", "2 processes: records lost: bad_timestamp 7"])
        lost = {p["pid"]: p["records_lost"]["bad_timestamp"] for p in self.status()["processes"]}
        self.assertEqual(lost, {one.pid: 3, two.pid: 4})

    def test_rests_are_told(self):
        pids = [self.write(rank=rank, hold=1, dropped=0, rests=rests).pid for rank, rests in enumerate((0, 1, 3))]
        text = self.run_command("status").stdout
        self.assertNotIn(f"{pids[0]}: tracing rested", text)
        self.assertIn(f"{pids[1]}: tracing rested 1 time, as buffers ran short", text)
        self.assertIn(f"{pids[2]}: tracing rested 3 times, as buffers ran short (more COLLSCOPE_BUFFERS may help)\n", text)
        text = self.run_command("status", "--long").stdout
        self.assertEqual(sorted(re.findall(r"  rests +(\d+), as buffers ran short\n", text)), ["1", "3"])

    def test_what_edges_of_windows_take_is_not_red(self):
        # Three windows have ended, one is open: eight are normal.
        for rank, (losses, red) in enumerate([({"bad_timestamp": 8}, False), ({"bad_timestamp": 9}, True),
                                              ({"bad_timestamp": 1, "lost": 1}, True), ({}, False)]):
            writer = self.write(rank=rank, world=8, dropped=0, windows=3, **losses)
            text = self.run_command("status", "--color=always", "--pid", writer.pid).stdout
            (row,) = [line for line in text.splitlines() if f"{rank}/8" in line]
            self.assertEqual("\x1b[31m" in row, red, (losses, row))
            self.assertEqual("records lost" in text, red, text)
            long = self.run_command("status", "--long", "--pid", writer.pid).stdout
            cut = 0 if losses.get("bad_timestamp") == 9 else losses.get("bad_timestamp", 0)
            self.assertIn(f"  cut              {cut} at window ends", long)
            self.assertEqual("  lost             0" in long, not red, long)

    def test_running_only_and_none(self):
        self.write()
        done = self.run_command("status", "--running", status=1)
        self.assertEqual(done.stderr, f'collscope: warn: No traced process in "{self.dir}"\ncollscope: info: 1 process has ended and left records\n')
        self.write(rank=1)
        self.assertIn("info: 2 processes have ended and left records\n", self.run_command("status", "--running", status=1).stderr)
        self.assertEqual(self.status("--running", status=1)["processes"], [])

    def test_nothing(self):
        self.assertEqual(self.status(status=1)["processes"], [])
        self.assertIn("No traced process", self.run_command("status", status=1).stderr)
        self.assertIn(f'No traced process of pid 1, 2 in "{self.dir}"\n', self.run_command("status", "--pid", 1, "--pid", 2, status=1).stderr)
        said = self.run_command("status", "--dir", self.dir + "/none", status=1).stderr
        self.assertIn(f'there is no directory "{self.dir}/none"', said)
        self.assertIn("collscope run -- COMMAND", said)

    def test_states_for_people(self):
        sample, on_request = 2, 3600000
        for rank, (options, state, shown) in enumerate([
                ({"mode": sample, "depth": 0}, "sampling", r"sampling +off"),
                ({"mode": sample, "depth": 2}, "tracing", r"tracing +deep"),
                ({"mode": 1, "state": 3, "depth": 0}, "idle", r"idle +off"),
                ({"mode": 1, "state": 3, "depth": 0, "asked_ms": on_request}, "tracing", r"waiting, ends \d\d:\d\d:\d\dZ +off"),
                ({"mode": sample, "depth": 2, "asked_ms": on_request}, "tracing", r"tracing until \d\d:\d\d:\d\dZ +deep"),
                ({"mode": sample, "state": 5, "depth": 0, "asked_ms": on_request}, "paused", r"paused +off"),
                ({"mode": sample, "depth": 0, "asked_ms": 1, "age_ms": 6000}, "sampling", r"sampling +off")]):
            writer = self.write(rank=rank, hold=1, **options)
            (process,) = self.status("--pid", writer.pid)["processes"]
            self.assertEqual(process["state"], state, options)
            self.assertEqual(process["request_until_ns"] is not None, r"\dZ" in shown, options)
            self.assertRegex(self.run_command("status", "--pid", writer.pid).stdout, shown)

    def test_columns_are_explained(self):
        said = self.run_command("status", "--help").stdout
        for column in ("STATE", "DEPTH", "LABELS", "RECORDS", "LOST"):
            self.assertRegex(said, rf"(?m)^  {column} +\S")

    def test_collectives(self):
        self.write()
        state = self.status("--collectives")
        rows = {(r["op"], r["impl"], r["bytes"], r["dtype"]): r for r in state["collectives"]}
        row = rows[("all_reduce", "vllm_custom", cli.MESSAGE_BYTES, "bfloat16")]
        # Durations are 200000 ... 200009 ns, three times each: nearest rank of 30 values.
        self.assertEqual((row["count"], row["p50_ns"], row["p99_ns"]), (30, 200004, 200009))
        self.assertEqual(row["sum_ns"], sum(3 * (200000 + i) for i in range(10)))
        self.assertEqual(rows[("all_gather", "nccl", None, None)]["count"], 1)
        self.assertTrue(0 < row["gpu_time_share"] < 1)
        text = self.run_command("status", "--collectives").stdout
        self.assertRegex(text, r"all_reduce +vllm_custom +42 KiB +bfloat16 +\w+ +30 +200\.0 us +200\.0 us")
        self.assertIn("MEAN WAIT, BUS BW: unknown", text)
        self.assertNotIn("skipped", text)
        self.assertEqual((row["algorithm"], row["protocol"], row["matched"]), ("one_shot", None, 0))

    def test_what_time_the_tables_cover(self):
        """Old numbers look like new ones: the line below says from when they are, and --since leaves them out."""
        old, new = (self.write(rank=rank, world=8, depth=0, dropped=0, launches=100, age_ms=age_ms) for rank, age_ms in ((0, 90_000_000), (1, 5000)))
        twin = self.write(rank=2, world=8, depth=0, dropped=0, launches=100, age_ms=5000)  # its window lies over that of the one before
        window_ns = 100 * (10 * 250000 + 2000000) + 100000
        apart_ns = twin.base_ns - new.base_ns
        together_ns = min(apart_ns, window_ns) + window_ns
        state = self.status("--collectives")
        self.assertEqual(state["span"], {"since_ns": None, "from_ns": old.base_ns, "to_ns": twin.base_ns + window_ns, "traced_ns": window_ns + together_ns})
        self.assertEqual(sum(row["count"] for row in state["collectives"]), 3003)
        state = self.status("--collectives", "--since", "1h")
        self.assertEqual({**state["span"], "since_ns": None}, {"since_ns": None, "from_ns": new.base_ns, "to_ns": twin.base_ns + window_ns, "traced_ns": together_ns})
        self.assertTrue(old.base_ns < state["span"]["since_ns"] < new.base_ns)
        self.assertEqual(sum(row["count"] for row in state["collectives"]), 2002)
        self.assertEqual(sum(row["steps"] for process in state["processes"] for row in process["phases"] if process["pid"] == old.pid), 0)
        moment = "[0-9-]{10} [0-9:]{8}Z"
        clock = "(?:[0-9-]{10} )?[0-9:]{8}Z"  # of yesterday, where midnight has just been
        self.assertRegex(self.run_command("status", "--collectives").stdout, rf"(?m)^In the rings: [0-9.]+ ms traced, {moment} to {clock}$")
        self.assertRegex(self.run_command("status", "--collectives", "--since", "1h").stdout,
                         rf"(?m)^In the rings since {clock}: [0-9.]+ ms traced, {clock} to {clock}$")
        self.assertIn("No collective in the rings since ", self.run_command("status", "--collectives", "--since", "1ns").stderr)
        self.assertEqual(self.status("--collectives", "--since", "1ns")["span"]["from_ns"], None)
        self.assertIn("--since goes with --collectives or --long", self.run_command("status", "--since", "1h", status=2).stderr)

    def test_what_the_columns_rest_on(self):
        for rank, skipped in enumerate((3, 0)):
            self.write(rank=rank, skipped=skipped, age_ms=5000)
        self.write(rank=0, world=8, group=1, skipped=1)
        text = self.run_command("status", "--collectives").stdout
        matched = [row for row in self.status("--collectives")["collectives"] if row["matched"]]
        total = sum(row["count"] for row in self.status("--collectives")["collectives"])
        share = 100 * sum(row["matched"] for row in matched) / total
        self.assertIn(f"MEAN WAIT, BUS BW: from the {share:.1f} % of the collectives that were seen on every rank." if matched else "unknown, as no collective", text)
        self.assertIn("Rank 0 skipped 3 windows (budget); Rank 0 skipped 1 window (budget)\n", text)

    def test_reasons_that_several_have_are_one_line(self):
        paused = [self.write(rank=rank, hold=1, dropped=0, state=5, reason="Paused on request") for rank in range(3)]
        other = self.write(rank=3, hold=1, dropped=0, state=STATE_DORMANT, reason="Paused on request")
        lines = self.run_command("status").stdout.splitlines()[5:]
        self.assertEqual(lines[:-1], ["3 processes: paused: Paused on request", f"{other.pid}: dormant: Paused on request"])
        self.assertEqual([p["reason"] for p in self.status()["processes"]], ["Paused on request"] * 4)
        self.assertEqual(self.run_command("status", "--pid", paused[0].pid).stdout.splitlines()[2:-1],
                         [f"{paused[0].pid}: paused: Paused on request"])

    def look(self, columns, *words):
        """What a terminal of that width is shown."""
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen([cli.COMMAND, *words], env={**self.env, "NO_COLOR": "1"}, stdin=subprocess.DEVNULL, stdout=theirs) as process:
            os.close(theirs)
            text = b""
            while True:
                try:
                    part = os.read(ours, 4096)
                except OSError:  # nobody has the other end any more
                    break
                text += part
                if not part:
                    break
            os.close(ours)
            self.assertEqual(process.wait(timeout=20), 0)
        return text.decode().replace("\r", "").splitlines()

    def test_narrow_terminal(self):
        for rank in range(2):
            self.write(rank=rank, hold=1, dropped=0)
        wide = self.look(400, "status", "--collectives")
        self.assertEqual(wide, self.run_command("status", "--collectives").stdout.splitlines())
        self.assertFalse([line for line in wide if "Too narrow" in line])
        headings = [re.split(" {2,}", line.strip()) for line in wide if line.lstrip().startswith(("PID", "OP ", "PHASE "))]
        self.assertEqual(len(headings), 3)
        for columns in (110, 80, 60, 40):
            lines = self.look(columns, "status", "--collectives")
            left_out = re.fullmatch("Too narrow for (.*): widen the terminal, or use --json or `[|] cat`", lines[-1])[1].split(", ")
            seen = [re.split(" {2,}", line.strip()) for line in lines if line.lstrip().startswith(("PID", "OP ", "PHASE "))]
            still_there = {name for shown in seen for name in shown}
            told = []
            for table, all_of_it, shown in zip(("processes", "steps", "collectives"), headings, seen):
                self.assertEqual([name for name in all_of_it if name in shown], shown)
                told += [f"{name} ({table})" if name in still_there else name for name in all_of_it if name not in shown]
            # What another table still shows has its table's name, all else stands there once.
            self.assertEqual(left_out, list(dict.fromkeys(told)))
            left_out = [name.split(" (")[0] for name in left_out]
            for line in lines[:-1]:
                if re.search("  ", line):
                    self.assertLessEqual(len(line), columns, line)
            explained = {name for line in lines[:-1] for names in re.findall("(?:^|[.] )([A-Z][A-Z ,]+):", line) for name in names.split(", ")}
            self.assertFalse(explained & set(left_out), columns)
            self.assertEqual("COUNT" in explained, "COUNT" not in left_out)
        plain = self.look(80, "status")
        self.assertRegex(plain[0], "PID  RANK  GPU  MODE  STATE .* COMMAND")
        self.assertIn("GPU MEM", plain[-1])
        self.assertNotIn("P99", plain[-1])

    def test_long(self):
        writer = self.write(hold=1)
        text = self.run_command("status", "--long").stdout
        for part in (str(writer.pid), "NCCL_ALGO=Ring", "to gpu 7      nvlink x18",
                     "uuid          GPU-dead0000-0000-0000-0000-000000000000", "fedcba9876543210", "2.28.9", "traced           deep "):
            self.assertIn(part, text)

    def test_what_decided_the_phases(self):
        self.write(launches=5)
        rules = os.path.join(self.dir, "rules")
        for text, row, said in (("draft collectives=1\nprefill collectives=10\n", ("prefill", "user", 2, None), "prefill by user, line 2"),
                                ("draft collectives=1\n", ("unknown", "none", None, None), "unknown by none")):
            with open(rules, "w", encoding="utf-8") as stream:
                stream.write(text)
            (process,) = self.status("--long", "--steps", rules)["processes"]
            counts = {tuple(one[key] for key in ("phase", "phase_rule", "phase_line", "phase_name")): one["steps"] for one in process["phases"]}
            self.assertEqual(counts.get(row), 5)
            self.assertIn(f"  steps            5 {said}\n", self.run_command("status", "--long", "--steps", rules).stdout)
        self.assertNotIn("phases", self.status()["processes"][0])

    def test_narrow_and_coloured(self):
        self.write(hold=1)
        self.assertNotIn("\033", self.run_command("status").stdout)
        self.assertIn("\033[32mtracing", self.run_command("status", "--color", "always").stdout)

    def damaged(self, damage):
        """One good segment and a damaged copy: the good one is shown, the other named, the exit status 2."""
        writer = self.write()
        bad = os.path.join(self.dir, "4000000-1.seg")
        shutil.copy(writer.path, bad)
        os.chmod(bad, 0o600)
        damage(bad)
        done = self.run_command("status", "--json", status=2)
        self.assertEqual([p["pid"] for p in json.loads(done.stdout)["processes"]], [writer.pid])
        self.assertIn("4000000-1.seg", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        objects = self.dump(status=2)
        self.assertEqual(len(cli.of_kind(objects, "collective")), 31)

    def test_truncated_header(self):
        self.damaged(lambda path: os.truncate(path, 100))

    def test_truncated_ring(self):
        self.damaged(lambda path: os.truncate(path, os.path.getsize(path) - 4096))

    def test_not_a_segment(self):
        def scribble(path):
            with open(path, "r+b") as file:
                file.write(b"\0" * 16)
        self.damaged(scribble)

    def test_newer_version(self):
        def raise_major(path):
            with open(path, "r+b") as file:
                file.seek(20)
                file.write(struct.pack("<H", 99))
        self.damaged(raise_major)

    def test_only_damaged(self):
        writer = self.write()
        os.truncate(writer.path, 5000)
        self.run_command("status", status=2)
        self.run_command("dump", status=2)

    def test_garbage_inside(self):
        """Every byte behind the header overwritten: nothing crashes, nothing invented."""
        writer = self.write()
        size = os.path.getsize(writer.path)
        with open(writer.path, "r+b") as file:
            file.seek(8192)
            file.write(bytes((i * 131 + 7) & 0xff for i in range(size - 8192)))
        for words in (["status"], ["status", "--json"], ["status", "--long"], ["status", "--collectives"], ["dump"],
                      ["dump", "--format", "text"]):
            done = self.run_command_any(*words)
            self.assertIn(done.returncode, (0, 2), words)
            self.assertNotIn("Sanitizer", done.stderr)
            self.assertNotIn("runtime error", done.stderr)

    def run_command_any(self, *words):
        return subprocess.run([cli.COMMAND, *words], env=self.env, capture_output=True, timeout=60, check=False,
                              text=True, errors="strict")

    def test_link_and_other_files(self):
        """A symbolic link with a segment's name is refused; other files in the directory are nobody's business."""
        writer = self.write()
        for name in ("exporter.lock", "notes", ".tmp-1-2.seg", "1-2.seg.bak"):
            with open(os.path.join(self.dir, name), "w", encoding="ascii") as file:
                file.write("x")
        self.assertEqual([p["pid"] for p in self.status()["processes"]], [writer.pid])
        os.symlink(writer.path, os.path.join(self.dir, "77-1.seg"))
        self.status(status=2)

    def test_directory(self):
        path = os.path.join(self.dir, "file")
        with open(path, "w", encoding="ascii"):
            pass
        for name, why in ((path, "Not a directory"), ("relative/path", "the path is not absolute")):
            self.assertIn(f'Cannot use the run directory "{name}": {why}; name another with --dir or COLLSCOPE_DIR',
                          self.run_command("status", "--dir", name, status=2).stderr)

    def test_unreadable_directory(self):
        """Also as root, who reads everything: then as somebody else."""
        os.chmod(self.dir, 0)
        self.addCleanup(os.chmod, self.dir, 0o700)
        command = shutil.copy(cli.COMMAND, tempfile.mkdtemp(dir="/tmp"))
        self.addCleanup(shutil.rmtree, os.path.dirname(command))
        os.chmod(os.path.dirname(command), 0o755)
        other = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
        done = subprocess.run([command, "status"], env=self.env, capture_output=True, text=True, check=False, cwd="/", **other)
        self.assertEqual(done.returncode, 2)
        self.assertIn("Permission denied", done.stderr)


unittest.main()

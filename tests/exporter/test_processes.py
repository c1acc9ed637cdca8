#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traced processes: what each says of itself, on the page and in metrics, and what becomes of the dead."""
import os
import pathlib
import re
import shutil
import tempfile
import time
import unittest

from exporter import (AT_ONCE, BAD_TIMESTAMP, CPU, DEEP, DEPTH, DEPTH_SINCE, DORMANT, EXITED, EXPORTER, HEARTBEAT, HOST_MEMORY, POOL_EMPTY, STATE, TRACE,
                      TRACING_RESTS, UNLABELLED, US, WINDOWS_DEEP, WINDOWS_SKIPPED, Case, pick, run_together, wait_for)


class Processes(Case):
    def page_rows(self, server):
        page = server.get("/")[2].decode()
        return [re.findall("<td>(.*?)</td>", row) for row in re.findall("<tr.*?</tr>", page.partition("<tbody>")[2])]

    def test_information_and_counters(self):
        writer, label = self.rank(3, 8, size="unknown")
        writer.say("text", 0, "python3")
        writer.say("environment", "NCCL_ALGO", "Ring")
        writer.say("environment", "HOME", "/root")
        for name in ("VLLM_API_KEY", "TRTLLM_PWD", "NCCL_AUTH", "TRTLLM_session_id", "NCCL_COOKIE"):
            writer.say("environment", name, "abc")
        writer.say("lose", 2, 11)
        writer.say("status", HOST_MEMORY, 12345)
        writer.say("status", CPU, 2_500_000_000)
        writer.say("status", TRACE + 2, 1_250_000_000)
        writer.say("status", UNLABELLED + 1, 7)
        writer.say("status", WINDOWS_SKIPPED, 4)
        writer.say("status", TRACING_RESTS, 6)
        now = time.time_ns() - 10 * 10**9
        writer.collective(label, now, now + 50 * US, 2**64 - 1)
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "collectives_unlabelled_total", gpu="3", rank="3", impl="nccl") == 1)
        samples = server.samples()
        mine = {"gpu": "3", "rank": "3"}
        self.assertEqual(pick(samples, "collective_duration_seconds_count", size="unknown", **mine), 1)
        self.assertEqual(pick(samples, "collectives_unmatched_total", **mine), 1)
        self.assertEqual(pick(samples, "records_total", kind="collective", **mine), 1)
        self.assertEqual(pick(samples, "records_total", kind="loss", **mine), 1)
        self.assertEqual(pick(samples, "records_lost_total", cause="pool_empty", **mine), 11)
        self.assertEqual(pick(samples, "records_lost_total", **mine), 11)
        self.assertEqual(pick(samples, "injector_memory_bytes", **mine), 12345)
        self.assertEqual(pick(samples, "injector_cpu_seconds_total", **mine), 2.5)
        self.assertEqual(pick(samples, "trace_seconds_total", depth="deep", **mine), 1.25)
        self.assertEqual(pick(samples, "label_failures_total", reason="no_rule", **mine), 7)
        self.assertEqual(pick(samples, "windows_skipped_total", **mine), 4)
        self.assertEqual(pick(samples, "tracing_rests_total", **mine), 6)
        self.assertEqual(pick(samples, "injector_state", collscope_injector_state="tracing", **mine), 1)
        self.assertEqual(pick(samples, "injector_state", **mine), 1)
        self.assertEqual(pick(samples, "process_info", command="python3", world="8", mode="sample", injector_version="9.8.7",
                              pid=str(writer.process.pid), **mine), 1)
        self.assertEqual(pick(samples, "gpu_info", gpu="3", uuid="GPU-04000000-0000-0000-0000-000000000000", name="Test GPU",
                              pci_bus_id="00000000:04:00.0", compute_capability="9.0"), 1)
        self.assertEqual(pick(samples, "gpu_link_info", gpu="3", peer="0", link="nvlink", nvlinks="18"), 1)
        self.assertEqual(pick(samples, "gpu_link_info", gpu="3", peer="2", link="pcie_system", nvlinks="0"), 1)
        self.assertEqual(pick(samples, "gpu_link_info"), 2)
        self.assertEqual(pick(samples, "config_info", name="NCCL_ALGO", value="Ring", **mine), 1)
        self.assertEqual(pick(samples, "config_info"), 1)
        self.assertEqual(pick(samples, "communicator_info", comm="0000000000000abc", rank="3", world="8"), 1)
        self.assertEqual(pick(samples, "exporter_processes", state="live"), 1)

    def test_time_goes_on_by_the_clock_of_the_process(self):
        """Its stretch lasts until its last turn: the clock may have been set forward since, by an hour here, and it may stand still."""
        writer = self.rank(0, 1)[0]
        then = time.time_ns() - 3600 * 10**9
        for word, value in ((TRACE + 2, 4 * 10**9), (HEARTBEAT, then + 2 * 10**9), (DEPTH_SINCE, then), (DEPTH, DEEP)):
            writer.say("status", word, value)
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "exporter_processes", state="live") == 1)

        def seconds(depth):
            return pick(server.samples(), "trace_seconds_total", depth=depth)

        self.assertEqual((seconds("deep"), seconds("off")), (6, 0))
        writer.say("status", HEARTBEAT, then + 5 * 10**9)
        self.assertEqual((seconds("deep"), seconds("off")), (9, 0))
        for word, value in ((DEPTH_SINCE, then + 3601 * 10**9), (TRACE + 2, 9 * 10**9), (HEARTBEAT, 2**63)):  # it takes notice; then nonsense
            writer.say("status", word, value)
        self.assertLess(seconds("deep"), 3600)

    def test_death(self):
        writer, label = self.rank(0, 1)
        now = time.time_ns() - 10 * 10**9
        writer.collective(label, now, now + 50 * US, 43008)
        server = self.exporter("--collscope.linger=1s", "--collscope.retention=4s")
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 1)
        writer.kill()
        wait_for(lambda: pick(server.samples(), "injector_state", collscope_injector_state="exited") == 1)
        wait_for(lambda: not writer.path.exists())
        samples = server.samples()
        if pick(samples, "exporter_processes", state="dead"):  # unless this machine stood still for 3 s
            self.assertEqual(pick(samples, "collective_duration_seconds_count"), 1)
        wait_for(lambda: pick(server.samples(), "exporter_processes") == 0)
        samples = server.samples()
        self.assertFalse([key for key in samples if "collective" in key[0] or "process_info" in key[0]])
        self.assertEqual(pick(samples, "exporter_series"), 0)

    def test_dead_before_the_start(self):
        writer, label = self.rank(0, 1)
        now = time.time_ns() - 10 * 10**9
        writer.collective(label, now, now + 50 * US, 43008)
        writer.kill()
        server = self.exporter()
        wait_for(lambda: pick(server.samples(), "collective_duration_seconds_count") == 1)
        self.assertTrue(writer.path.exists())

    def test_page_says_states_and_losses_as_status_does(self):
        """As docs of the command have it: what the ends of windows cut is no loss, and a crash is no exit. The metric keeps its states."""
        writers = [self.rank(rank, 4)[0] for rank in range(4)]
        sampling, tracing, killed, exited = writers
        for writer, cut in zip(writers, (6, 7, 6, 0)):
            writer.say("status", WINDOWS_DEEP, 3)
            writer.say("lose", BAD_TIMESTAMP, cut)
        tracing.say("status", DEPTH, DEEP)  # a fourth window is open
        sampling.say("lose", POOL_EMPTY, 2)
        server = self.exporter("--collscope.linger=0s", "--collscope.retention=600s")
        wait_for(lambda: pick(server.samples(), "exporter_processes", state="live") == 4)
        killed.kill()
        exited.say("status", STATE, EXITED)  # its last word, and its segment goes at once
        exited.kill()
        wait_for(lambda: not killed.path.exists() and not exited.path.exists())  # not by scraping, which looks, too
        rows = {row[1]: (row[5], row[7], row[8]) for row in self.page_rows(server)}
        self.assertEqual(rows, {"0": ("sampling", "2", ""), "1": ("tracing", "0", ""), "2": ("ended", "0", "without a word: killed, or crashed"),
                                "3": ("exited", "0", "")})
        tracing.say("lose", BAD_TIMESTAMP, 2)  # nine in four windows
        wait_for(lambda: {row[1]: row[7] for row in self.page_rows(server)}["1"] == "9")
        samples = server.samples()
        for rank, state in (("0", "tracing"), ("2", "exited"), ("3", "exited")):
            self.assertEqual(pick(samples, "injector_state", rank=rank, collscope_injector_state=state), 1)

    def test_page_tells_the_dead_from_the_living(self):
        dead, living = self.rank(0, 2)[0], self.rank(1, 2)[0]
        server = self.exporter("--collscope.linger=600s", "--collscope.retention=600s")
        wait_for(lambda: pick(server.samples(), "exporter_processes", state="live") == 2)
        self.assertNotIn('class="ended"', server.get("/")[2].decode())
        dead.kill()
        wait_for(lambda: pick(server.samples(), "exporter_processes", state="dead") == 1)
        page = server.get("/")[2].decode()
        rows = self.page_rows(server)
        self.assertEqual([(row[0], row[1], row[5] == "ended") for row in rows], [("1", "1", False), ("0", "0", True)])
        self.assertEqual(page.count('<tr class="ended"><td>0</td>'), 1)
        self.assertIn("<p>1 running, 1 ended: ", page)
        living.kill()

    def test_every_unusable_file_counts(self):
        """Also those that there is no room to remember: their names are not in the log, and what becomes usable among them is used."""
        directory = pathlib.Path(self.directory)
        for number in range(300):
            (directory / f"7-{number}.seg").write_bytes(b"x" * 8192)
        server = self.exporter()
        self.assertEqual(pick(server.samples(), "exporter_segments_rejected"), 300)
        self.assertEqual(pick(server.samples(), "exporter_segments_rejected", reason="corrupt"), 300)
        self.assertIn("Segments that cannot be used: 300 (<code>corrupt</code>)", server.get("/")[2].decode())
        self.rank(0, 1)
        wait_for(lambda: pick(server.samples(), "exporter_processes", state="live") == 1)
        said = server.output()
        self.assertEqual(said.count('msg="A segment cannot be used"'), 256)
        self.assertEqual(said.count('msg="More than 256 segments cannot be used: those past them are counted, and not named"'), 1)
        for number in range(200):
            (directory / f"7-{number}.seg").unlink()
        wait_for(lambda: pick(server.samples(), "exporter_segments_rejected") == 100)

    def test_stopped_process(self):
        """Its state is of before: the page says that there has been no sign of it since, of one that lives and could give one."""
        stopped, _ = self.rank(0, 3)
        dormant, _ = self.rank(1, 3)
        beating, _ = self.rank(2, 3)
        long_ago = time.time_ns() - 30 * 10**9
        for writer in (stopped, dormant):
            writer.say("status", HEARTBEAT, long_ago)
        dormant.say("status", STATE, DORMANT)
        beating.say("status", HEARTBEAT, time.time_ns() + 3600 * 10**9)
        server = self.exporter()
        wait_for(lambda: len(self.page_rows(server)) == 3)
        reasons = {row[1]: row[8] for row in self.page_rows(server)}
        self.assertRegex(reasons["0"], "^no sign from the profiler&#39;s thread for [0-9]+ s: is the process stopped[?]$")
        self.assertEqual((reasons["1"], reasons["2"]), ("", ""))

    def test_wrong_user(self):
        """Segments that it may not open: log and page say whose they are and what to do, once, and do not deny that there are some."""
        writer, _ = self.rank(0, 2)
        other, _ = self.rank(1, 2)
        program = shutil.copy(EXPORTER, tempfile.mkdtemp(prefix="collscope-exporter-"))
        self.addCleanup(shutil.rmtree, os.path.dirname(program))
        os.chmod(os.path.dirname(program), 0o755)
        os.chmod(self.directory, 0o777)
        os.chmod(writer.path, 0o000)
        os.chmod(other.path, 0o000)
        uid = 65534 if os.geteuid() == 0 else os.geteuid()
        server = self.exporter(program=program, cwd="/", **({"user": uid, "group": uid} if os.geteuid() == 0 else {}))
        wait_for(lambda: pick(server.samples(), "exporter_segments_rejected", reason="permission") == 2)
        page = server.get("/")[2].decode()
        self.assertIn(f"may not open: 2 (<code>permission</code>), of uid {os.geteuid()}. It runs as uid {uid}: run it as the user", page)
        self.assertNotIn("No traced process", page)
        self.assertIn(f'msg="A segment cannot be used: run the exporter as the user who runs the server, uid {os.geteuid()}, and not as uid {uid}" '
                      f'reason=permission error="', server.output())
        self.assertEqual(server.output().count("A segment cannot be used"), 1)
        if os.geteuid() == 0:
            os.chown(other.path, 4711, -1)
            wait_for(lambda: re.search(r"of uid (0|4711) and others[.] It runs as", server.get("/")[2].decode()))
            os.chown(other.path, 0, -1)
            wait_for(lambda: "of uid 0. It runs as" in server.get("/")[2].decode())
        os.chmod(writer.path, 0o444)
        os.chmod(other.path, 0o444)
        wait_for(lambda: len(self.page_rows(server)) == 2)
        self.assertNotIn("may not open", server.get("/")[2].decode())
        (pathlib.Path(self.directory) / "7-7.seg").write_bytes(b"x" * 8192)
        os.chmod(pathlib.Path(self.directory) / "7-7.seg", 0o444)
        wait_for(lambda: "Segments that cannot be used: 1 (<code>corrupt</code>)" in server.get("/")[2].decode())


def load_tests(loader, _tests, _pattern):
    return run_together(loader, (Processes,), AT_ONCE)


if __name__ == "__main__":
    unittest.main()

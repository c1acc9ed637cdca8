# SPDX-License-Identifier: Apache-2.0
"""Tests that mostly wait for processes, a few at a time."""
import concurrent.futures
import threading
import unittest


class Recorder(unittest.TestResult):
    """What became of the tests of one thread, in their order."""

    def __init__(self):
        super().__init__()
        self.good = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.good.append(test)


class Together(unittest.TestSuite):
    """Runs its members, tests or classes' suites, a few at a time, each in a thread: they wait for processes."""

    def __init__(self, members, at_once):
        super().__init__(members)
        self.at_once = at_once

    def run(self, result, debug=False):
        lock = threading.Lock()

        def play(member):
            own = Recorder()
            member.run(own)
            with lock:
                self.tell(own, result)

        with concurrent.futures.ThreadPoolExecutor(self.at_once) as pool:
            list(pool.map(play, self))
        return result

    @staticmethod
    def tell(own, result):
        """What one thread's result has, into the one of all. Tracebacks are text by now."""
        for test in own.good:
            result.startTest(test)
            result.addSuccess(test)
            result.stopTest(test)
        for test, reason in own.skipped:
            result.startTest(test)
            result.addSkip(test, reason)
            result.stopTest(test)
        result.testsRun += own.testsRun - len(own.good) - len(own.skipped)
        for kind in ("failures", "errors"):
            getattr(result, kind).extend(getattr(own, kind))
            for test, _ in getattr(own, kind):
                result.stream.writeln(f"{result.getDescription(test)} ... {kind[:-1].upper()}")


def run_together(loader, cases, at_once):
    """For load_tests: the tests of these classes, a few at a time. A class that prepares something for all of its tests stays
    in one thread."""
    members = []
    for case in cases:
        suite = loader.loadTestsFromTestCase(case)
        members += [suite] if case.setUpClass.__func__ is not unittest.TestCase.setUpClass.__func__ else list(suite)
    return Together(members, at_once)

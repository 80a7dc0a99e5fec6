#!/usr/bin/python3
"""What tests/run.sh makes of Bazel's build events."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tally  # noqa: E402


def result(label, report):
    return {"id": {"testResult": {"label": label}},
            "testResult": {"testActionOutput": [{"name": "test.xml", "uri": "file://" + report}]}}


def summary(label, status):
    return {"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}}


class TallyTest(unittest.TestCase):
    def report(self, text):
        file = tempfile.NamedTemporaryFile("w", suffix=".xml", delete=False)
        self.addCleanup(os.remove, file.name)
        with file:
            file.write(text)
        return file.name

    def test_counts_cases_of_every_shard(self):
        one = self.report('<testsuites><testsuite><testcase name="a" status="run"/><testcase name="b"/></testsuite></testsuites>')
        two = self.report('<testsuite><testcase name="c"/><testcase name="d" status="notrun"/></testsuite>')
        events = [result("//t:t", one), result("//t:t", two), summary("//t:t", "PASSED")]
        self.assertEqual(tally.tally(events, 0), (3, 0, 1))

    def test_counts_failed_cases(self):
        report = self.report('<testsuite><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite>')
        self.assertEqual(tally.tally([result("//t:t", report), summary("//t:t", "FAILED")], 3), (1, 1, 0))

    def test_a_crash_after_good_cases_is_a_failure(self):
        report = self.report('<testsuite><testcase name="a"/></testsuite>')
        self.assertEqual(tally.tally([result("//t:t", report), summary("//t:t", "FAILED")], 3), (1, 1, 0))

    def test_a_timeout_without_report_is_a_failure(self):
        self.assertEqual(tally.tally([result("//t:t", "/nonexistent"), summary("//t:t", "TIMEOUT")], 3), (0, 1, 0))

    def test_a_test_without_report_that_passed_counts_once(self):
        self.assertEqual(tally.tally([summary("//t:t", "PASSED")], 0), (1, 0, 0))

    def test_what_was_not_built_is_a_failure(self):
        events = [{"id": {"targetCompleted": {"label": "//t:t"}}, "completed": {}}]
        self.assertEqual(tally.tally(events, 1), (0, 1, 0))

    def test_an_exit_code_that_nothing_explains_is_a_failure(self):
        self.assertEqual(tally.tally([], 1), (0, 1, 0))
        self.assertEqual(tally.tally([], tally.NO_TESTS_FOUND), (0, 0, 0))

    def test_what_ran_outside_of_bazel_counts_by_its_exit_code(self):
        self.assertEqual(tally.tally_others(["fuzz a=0", "fuzz b=77", "fuzz c="]), (1, 2))
        self.assertEqual(tally.tally_others([]), (0, 0))


if __name__ == "__main__":
    unittest.main()

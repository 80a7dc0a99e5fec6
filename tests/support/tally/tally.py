"""Counts test cases from Bazel's build events: `tally.py EVENTS BAZEL_EXIT_CODE [NAME=EXIT_CODE…]`.

What ran outside of Bazel is given by name and exit code, and counts as one case each.

The last line printed is `N passed, N failed`. A target that was not built, timed out or crashed without a report counts
as one failure, and so does an exit code of Bazel that nothing else explains. Exits with 1 if anything failed.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree

NO_TESTS_FOUND = 4


def cases_of(report_path):
    """(passed, failed, skipped) of one JUnit report; None if it cannot be read."""
    try:
        root = xml.etree.ElementTree.parse(report_path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return None
    passed = failed = skipped = 0
    for case in root.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def path_of(uri):
    parts = urllib.parse.urlparse(uri)
    return urllib.parse.unquote(parts.path) if parts.scheme == "file" else ""


def tally(events, bazel_exit):
    reports, statuses, unbuilt = {}, {}, set()
    for event in events:
        identity = event.get("id", {})
        if "testResult" in identity:
            label = identity["testResult"]["label"]
            for output in event.get("testResult", {}).get("testActionOutput", []):
                if output.get("name") == "test.xml":
                    reports.setdefault(label, set()).add(path_of(output.get("uri", "")))
        elif "testSummary" in identity:
            statuses[identity["testSummary"]["label"]] = event.get("testSummary", {}).get("overallStatus")
        elif "targetCompleted" in identity and not event.get("completed", {}).get("success", False):
            unbuilt.add(identity["targetCompleted"]["label"])
    passed = failed = skipped = 0
    for label, status in sorted(statuses.items()):
        counts = [cases_of(path) for path in sorted(reports.get(label, ()))]
        counts = [count for count in counts if count is not None]
        target_passed, target_failed, target_skipped = (sum(column) for column in zip(*counts)) if counts else (0, 0, 0)
        if status == "PASSED":
            passed += target_passed if counts else 1
        else:
            passed += target_passed
            failed += max(target_failed, 1)
            print(f"{label}: {status}")
        skipped += target_skipped
    for label in sorted(unbuilt - statuses.keys()):
        print(f"{label}: not built")
        failed += 1
    if bazel_exit not in (0, NO_TESTS_FOUND) and failed == 0:
        print(f"bazel exited with {bazel_exit}")
        failed = 1
    return passed, failed, skipped


def tally_others(others):
    """(passed, failed) of what is given as `NAME=EXIT_CODE`."""
    passed = failed = 0
    for name, _, code in (other.rpartition("=") for other in others):
        if code == "0":
            passed += 1
        else:
            print(f"{name}: FAILED")
            failed += 1
    return passed, failed


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        events = [json.loads(line) for line in file if line.strip()]
    passed, failed, skipped = tally(events, int(sys.argv[2]))
    passed, failed = (sum(column) for column in zip((passed, failed), tally_others(sys.argv[3:])))
    if skipped:
        print(f"{skipped} skipped")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

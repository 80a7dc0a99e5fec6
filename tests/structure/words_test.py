#!/usr/bin/python3
"""Some words may stand in daemon/, storage/ and client/ only where the list below says, as often as it says.

Each is a decision that belongs in few places. A new one fails here: use what the reason names instead, or add to the
list in the same commit and say why. One that has gone must leave the list, so that it does not let another in.
"""

import os
import re
import sys
import unittest

FOLDERS = ("daemon", "storage", "client")
SUFFIXES = (".h", ".hpp", ".c", ".cc")

# By word: why it is watched, and how often it may occur, by file or (ending with /) by folder. Comments do not count.
LIST = {
    r"\bstd::(\w+_)?mutex\b": (
        "absl::Mutex with ABSL_GUARDED_BY is checked by tests/run.sh's clang pass",
        {
            "daemon/core/loop.cc": 1,  # it waits by the steady clock, which absl::CondVar of 2022 does not
        },
    ),
    r"\babsl::(Condition|Notification)\b": (
        "ThreadSanitizer cannot follow them (tests/support/tsan/absl.cc): use absl::CondVar",
        {},
    ),
    r"\bsystem_clock::now\b": (
        "it jumps, and no simulation passes it: read the time as storage/base/clock.h has it, or as the caller gives it",
        {
            "client/cli/admin_client.cc": 1,  # gRPC's deadlines are of this clock
            "daemon/door/ingest_door.cc": 1,  # gRPC's deadlines are of this clock
            "daemon/door/ingest_stream.cc": 1,  # gRPC's alarms are of this clock
            "storage/base/clock.cc": 1,
        },
    ),
    r"\bstd::time\(|::time\(|\b(clock_gettime|gettimeofday)\(": (
        "the same as system_clock::now",
        {
            "client/cli/": 3,  # of `cairn halt`, once a call
            "client/library/clock.c": 1,  # the library is C, and uses nothing of storage/
        },
    ),
    r"\bgethostname\(": (
        "storage/base/host_name.h has the one name that this machine has in records",
        {
            "client/library/connection.c": 1,  # the library is C, and uses nothing of storage/
            "storage/base/host_name.cc": 1,
        },
    ),
    r"\bgetpw\w+\(": (
        "storage/base/user_name.h has the one name that this user has in caches and records",
        {
            "storage/base/user_name.cc": 1,
        },
    ),
    r"\brealpath\(": (
        "it asks the file system past Disk: use Disk::RealPath",
        {
            "storage/io/posix_disk.cc": 1,
        },
    ),
    r'"ckpt\.': (
        "the names of datasets and their folders are made by few functions",
        {
            "storage/place/names.cc": 1,
        },
    ),
}


def sources(root):
    """(path below `root`, lines without comments) of each source file."""
    for top in FOLDERS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if not name.endswith(SUFFIXES):
                    continue
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    # clang-format puts two blanks before a comment behind code.
                    lines = [re.sub(r"(^\s*|\s\s)//.*", "", line) for line in file]
                yield os.path.relpath(path, root), lines


def place_of(path, allowed):
    """The entry of the list that speaks for the file; the file itself if there is none."""
    return next((entry for entry in allowed if entry.endswith("/") and path.startswith(entry)), path)


class WordsTest(unittest.TestCase):
    def test_words_occur_only_where_the_list_says(self):
        # The file itself, not Bazel's link to it: the sources are beside it.
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
        found = list(sources(root))
        self.assertGreater(len(found), 100, f"{root} is not the source tree")
        for pattern, (reason, allowed) in LIST.items():
            places = {}
            for path, lines in found:
                for number, line in enumerate(lines, 1):
                    for _ in re.finditer(pattern, line):
                        places.setdefault(place_of(path, allowed), []).append(f"{path}:{number}: {line.strip()}")
            for place in sorted(places.keys() | allowed.keys()):
                with self.subTest(word=pattern, place=place):
                    there = places.get(place, [])
                    self.assertEqual(
                        len(there), allowed.get(place, 0),
                        "\n".join([f"{pattern} in {place}: {reason}"] + there + [f"(list: {__file__})"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

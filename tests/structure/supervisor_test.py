#!/usr/bin/python3
"""daemon/supervisor uses of ours what its README.md lists, no large library, and stays small.

It runs as root on nodes of many users: everything that it uses, and every line, is something to be read and believed.
"""

import os
import re
import sys
import unittest

FOLDER = "daemon/supervisor"
BEGIN, END = "<!-- dependencies: tests/structure/supervisor_test.py reads this list -->", "<!-- end of dependencies -->"
LINES_MAX = 1950  # of code, without blank lines and comments
LIBRARIES = ("absl/status/", "fmt/")
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


class SupervisorTest(unittest.TestCase):
    def setUp(self):
        # The file itself, not Bazel's link to it: the sources are beside it.
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
        self.folder = os.path.join(root, FOLDER)
        self.sources = {}
        for name in sorted(os.listdir(self.folder)):
            if name.endswith((".h", ".cc")):
                with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                    self.sources[name] = file.read().splitlines()
        self.assertGreater(len(self.sources), 5)

    def includes(self, kind):
        for name, lines in self.sources.items():
            for line in lines:
                found = INCLUDE.match(line)
                if found and found.group(1) == kind:
                    yield name, found.group(2)

    def test_it_includes_what_its_readme_lists(self):
        with open(os.path.join(self.folder, "README.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual((text.count(BEGIN), text.count(END)), (1, 1))
        listed = set(re.findall(r"^- `([^`]+)`$", text.partition(BEGIN)[2].partition(END)[0], re.MULTILINE))
        used = {path for _, path in self.includes('"') if not path.startswith(FOLDER + "/")}
        self.assertEqual(used, listed)

    def test_of_libraries_it_uses_few(self):
        for name, path in self.includes("<"):
            with self.subTest(file=name, include=path):
                system = "/" not in path or path.startswith(("sys/", "linux/"))
                self.assertTrue(system or path.startswith(LIBRARIES))

    def test_it_is_small(self):
        lines = [line.strip() for lines in self.sources.values() for line in lines]
        code = [line for line in lines if line and not line.startswith("//")]
        self.assertLessEqual(len(code), LINES_MAX)

    def test_its_rules_use_no_more(self):
        with open(os.path.join(self.folder, "BUILD"), encoding="utf-8") as file:
            text = file.read()
        used = set(re.findall(r'"((?://|@)[^"]+)"', text)) - {"//daemon:__pkg__", "//tests:__subpackages__"}
        self.assertEqual(
            used, {
                "//proto:supervisor", "//storage/base:clock", "//storage/base:descriptor_message",
                "//storage/base:sealed_memory", "//storage/base:status", "//storage/base:unique_fd",
                "//storage/base:user_name"
            })


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

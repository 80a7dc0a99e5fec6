#!/usr/bin/python3
"""A type is defined in one header of a namespace only: the linker takes either of two for both, and says nothing."""

import collections
import os
import re
import sys
import unittest

FOLDERS = ("daemon", "storage", "client")
NAMESPACE = re.compile(r"namespace ([\w:]+) ?\{")
TYPE = re.compile(r"(?:struct|class|union|enum class) (\w+)(?: final)?(?: :[^;{]*)? ?\{")


def headers(root):
    for top in FOLDERS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(".h"):
                    yield os.path.join(folder, name)


def types_of(path):
    """(namespace, name) of each type that is defined at the left margin, where clang-format puts those of namespaces."""
    namespaces = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if found := NAMESPACE.match(line):
                namespaces.append(found.group(1))
            elif line.startswith("}  // namespace") and namespaces:
                namespaces.pop()
            elif (found := TYPE.match(line)) and namespaces:
                yield "::".join(namespaces), found.group(1)


class TypesTest(unittest.TestCase):
    def test_a_type_is_defined_in_one_header(self):
        # The file itself, not Bazel's link to it: the sources are beside it.
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
        places = collections.defaultdict(list)
        for path in headers(root):
            for name in types_of(path):
                places[name].append(os.path.relpath(path, root))
        self.assertGreater(len(places), 100, f"{root} is not the source tree")
        for (namespace, name), paths in places.items():
            with self.subTest(type=f"{namespace}::{name}"):
                self.assertEqual(len(paths), 1, ", ".join(paths))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

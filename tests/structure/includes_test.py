#!/usr/bin/python3
"""includes.py on made-up graphs: what is included without a dependency is seen, and nothing else."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import includes  # noqa: E402


def rule(label, kind="cc_library", **lists):
    lines = [f'<rule class="{kind}" location="/x/BUILD:1:1" name="{label}">']
    for name, labels in lists.items():
        lines += [f'<list name="{name}">'] + [f'<label value="{entry}"/>' for entry in labels] + ["</list>"]
    return "".join(lines + ["</rule>"])


GRAPH = [
    rule("//a:ids", srcs=["//a:ids.cc"], hdrs=["//a:ids.h"]),
    rule("//a:disk", srcs=["//a:disk.cc", "//a:disk_part.h"], hdrs=["//a:disk.h"], deps=["//a:ids", "@system//:fmt"]),
    rule("//b:user", srcs=["//b:user.cc"], deps=["//a:disk"]),
    rule("//b:made", "genrule", srcs=["//b:user.cc"]),
]


def judged(**texts):
    """`texts`: of the sources by name, with _ for what a name has besides letters."""
    sources = {path.replace("/", "_").replace(".", "_"): path for path in ("a/ids.cc", "a/disk.h", "a/disk.cc", "b/user.cc")}
    found = {sources[name]: text for name, text in texts.items()}
    targets = includes.read_targets('<query version="2">' + "".join(GRAPH) + "</query>")
    return list(includes.judge(targets, found.get))


class IncludesTest(unittest.TestCase):
    def test_what_is_a_dependency_s_or_its_own_is_right(self):
        self.assertEqual(judged(a_ids_cc='#include "a/ids.h"\n#include <vector>\n', a_disk_h='#include "a/ids.h"\n',
                                a_disk_cc='#include "a/disk.h"\n  # include "a/disk_part.h"\n',
                                b_user_cc='#include "a/disk.h"\n'), [])

    def test_what_lies_beside_the_source_is_found(self):
        self.assertEqual(judged(a_disk_cc='#include "disk_part.h"\n#include "ids.h"\n'), [])

    def test_what_comes_by_the_grace_of_a_dependency_is_not(self):
        self.assertEqual(judged(b_user_cc='#include "a/disk.h"\n#include "a/ids.h"\n'),
                         ['b/user.cc includes "a/ids.h", and //b:user does not depend on //a:ids'])

    def test_what_a_header_includes_is_judged_too(self):
        self.assertEqual(len(judged(a_disk_h='#include "b/none.h"\n')), 1)

    def test_what_another_target_keeps_to_itself_is_nobody_s(self):
        self.assertEqual(judged(b_user_cc='#include "a/disk_part.h"\n'),
                         ['b/user.cc includes "a/disk_part.h", which no target of these gives'])

    def test_text_in_comments_and_strings_is_no_include(self):
        self.assertEqual(judged(b_user_cc='// #include "a/ids.h"\nconst char* kText = "#include \\"a/ids.h\\"";\n'), [])

    def test_the_tree_itself_has_sources_that_are_read(self):
        root = os.path.dirname(os.path.dirname(HERE))
        self.assertIn("#include", includes.read_source(root)("storage/base/ids.cc"))
        self.assertIsNone(includes.read_source(root)("proto/local.pb.h"))


if __name__ == "__main__":
    unittest.main()

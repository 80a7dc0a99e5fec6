#!/usr/bin/python3
"""layers.py on made-up drawings, graphs and trees: each rule is seen to fail. And the tree's own drawing is read."""

import os
import sys
import tempfile
import unittest

# The files themselves, not Bazel's links to them: the tree is around them.
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import layers  # noqa: E402

ROWS = """
| layer | uses | holds |
|---|---|---|
| `proto` | | contracts |
| `storage/base` | | status |
| `storage/io` | `storage/base` | Disk |
| `storage/format` | `proto` `storage/base` | codecs |
| `storage/file` | `storage/base` `storage/io` `storage/format` | files |
| `daemon/config` | `storage/base` | settings |
| `client/cli` | `storage/base` `storage/io` `storage/format` `storage/file` `daemon/config` | the command |
"""


def readme(rows=ROWS):
    return f"# storage\n\n{layers.BEGIN}\n{rows}\n{layers.END}\n\n| `storage/later` | `proto` | no row |\n"


DRAWING = layers.read_drawing(readme())


def graph(*rules):
    """As Bazel prints it: (label, inputs, visibility)…"""
    lines = ['<?xml version="1.1" encoding="UTF-8" standalone="no"?>', '<query version="2">']
    for label, inputs, *visibility in rules:
        lines += [f'    <rule class="cc_library" location="/x/BUILD:1:1" name="{label}">',
                  f'        <string name="name" value="{layers.name_of(label)}"/>']
        if visibility:
            lines += ['        <list name="visibility">']
            lines += [f'            <label value="{entry}"/>' for entry in visibility[0]] + ["        </list>"]
        lines += ['        <list name="deps">'] + [f'            <label value="{entry}"/>' for entry in inputs]
        lines += ["        </list>"] + [f'        <rule-input name="{entry}"/>' for entry in inputs] + ["    </rule>"]
    lines += ['    <source-file location="/x" name="//storage/base:ids.h">',
              '        <visibility-label name="//visibility:public"/>', "    </source-file>", "</query>"]
    return "\n".join(lines)


def judged(*rules):
    return layers.judge_graph(layers.read_graph(graph(*rules)), DRAWING)


class DrawingTest(unittest.TestCase):
    def test_rows_between_the_markers_are_read_in_their_order(self):
        self.assertEqual(list(DRAWING), ["proto", "storage/base", "storage/io", "storage/format", "storage/file",
                                         "daemon/config", "client/cli"])
        self.assertEqual(DRAWING["storage/base"], set())
        self.assertEqual(DRAWING["storage/format"], {"proto", "storage/base"})

    def test_a_drawing_that_cannot_be_one_is_refused(self):
        bad = {
            "no markers": "| `storage/base` | | x |",
            "twice": readme() + readme(),
            "uses what is above": readme(ROWS.replace("| `storage/base` | |", "| `storage/base` | `storage/io` |")),
            "uses itself": readme(ROWS.replace("| `storage/io` | `storage/base` |", "| `storage/io` | `storage/io` |")),
            "uses no row": readme(ROWS.replace("| `storage/io` | `storage/base` |", "| `storage/io` | `storage/b` |")),
            "a row twice": readme(ROWS + "| `storage/base` | | again |\n"),
            "no formats": readme("| `storage/base` | | x |\n| `storage/io` | | x |"),
        }
        for what, text in bad.items():
            with self.subTest(what):
                self.assertRaises(ValueError, layers.read_drawing, text)

    def test_the_longest_row_speaks_for_a_package(self):
        drawing = {"daemon": set(), "daemon/config": set()}
        self.assertEqual(layers.row_of("daemon/config", drawing), "daemon/config")
        self.assertEqual(layers.row_of("daemon/config/x", drawing), "daemon/config")
        self.assertEqual(layers.row_of("daemon/configs", drawing), "daemon")
        self.assertEqual(layers.row_of("daemon", drawing), "daemon")
        self.assertIsNone(layers.row_of("daemons", drawing))


class GraphTest(unittest.TestCase):
    def test_what_the_drawing_allows_is_fine(self):
        self.assertEqual(judged(
            ("//proto:frame", ["//proto:frame.h"]),
            ("//storage/base:ids", ["//storage/base:ids.h", "@system//:fmt", "@bazel_tools//tools/cpp:toolchain"]),
            ("//storage/io:disk", ["//storage/base:ids"]),
            ("//storage/format/a:a", ["//storage/base:ids", "//proto:frame", "//storage/format/b:b"]),
            ("//storage/format/b:b", []),
            ("//storage/file/f:f", ["//storage/io:disk", "//storage/format/a:a"], ["//visibility:private"]),
            ("//client/cli/bp:bp", ["//client/cli:text", "//daemon/config:units", "//storage/file/f:f"]),
            ("//client/library:library", ["//client:cairn.h"]),
        ), [])

    def test_a_layer_above_is_refused(self):
        findings = judged(("//storage/io:disk", ["//storage/file/f:f"]))
        self.assertEqual(findings, ["//storage/io:disk uses //storage/file/f:f: storage/io may use storage/base"])

    def test_a_file_of_another_layer_counts_like_a_library(self):
        self.assertEqual(len(judged(("//storage/base:ids", ["//storage/io:disk.h"]))), 1)

    def test_what_has_no_row_is_refused_from_within_the_table(self):
        self.assertEqual(len(judged(("//storage/file/f:f", ["//tests/support:fake_disk"]))), 1)

    def test_what_programs_are_linked_of_has_no_row(self):
        self.assertEqual(judged(("//client/cli:cairn_linked", ["//client/cli:cairn_main", "//deploy/bazel:parts"])), [])
        self.assertEqual(len(judged(("//client/cli:cairn_linked", ["//deploy:parts"]))), 1)

    def test_what_has_no_row_may_not_use_storage(self):
        findings = judged(("//client/library:library", ["//storage/base:ids"]))
        self.assertEqual(findings, ["//client/library:library uses //storage/base:ids, but is in no row of the table"])

    def test_the_command_uses_of_the_daemon_its_settings_alone(self):
        self.assertEqual(len(judged(("//client/cli:cairn", ["//daemon/core:ledger"]))), 1)
        self.assertEqual(len(judged(("//client/cli:cairn", ["//daemon:version"]))), 1)
        self.assertEqual(len(judged(("//client/cli:cairn", ["//daemon/configs:x"]))), 1)

    def test_formats_do_not_come_to_disk_on_a_way_round(self):
        findings = judged(
            ("//storage/format/a:a", ["//storage/format/b:b"]),
            ("//storage/format/b:b", ["//storage/base:late"]),
            ("//storage/base:late", ["@system//:fmt", "//storage/io:disk"]),
        )
        self.assertIn("//storage/format/a:a comes to storage/io: "
                      "//storage/format/b:b -> //storage/base:late -> //storage/io:disk", findings)
        self.assertIn("//storage/format/b:b comes to storage/io: //storage/base:late -> //storage/io:disk", findings)

    def test_a_graph_with_a_circle_is_judged_to_its_end(self):
        self.assertEqual(judged(("//storage/format/a:a", ["//storage/format/b:b"]),
                                ("//storage/format/b:b", ["//storage/format/a:a"])), [])

    def test_internal_is_no_name(self):
        self.assertEqual(len(judged(("//storage/format/a:a_internal", []))), 1)
        self.assertEqual(len(judged(("//daemon/core:Internals", []))), 1)

    def test_nothing_of_storage_is_public(self):
        self.assertEqual(judged(("//storage/base:ids", [], ["//visibility:public"])), ["//storage/base:ids is public"])
        self.assertEqual(judged(("//client/cli:cairn", [], ["//visibility:public"])), [])

    def test_an_empty_graph_is_no_proof(self):
        self.assertEqual(judged(), ["the graph has no rules"])


GROUPS = '''
PROGRAMS = ["//client/cli/..."]
package_group(name = "base_users", packages = ["//storage/..."] + PROGRAMS)
package_group(name = "io_users", packages = ["//storage/io/...", "//storage/file/..."] + PROGRAMS)
package_group(name = "format_users", packages = ["//storage/format/...", "//storage/file/..."] + PROGRAMS)
package_group(name = "file_users", packages = ["//storage/file/..."] + PROGRAMS)
'''


class BuildFilesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.put("storage/BUILD", GROUPS)
        for package, layer in (("base", "base"), ("io", "io"), ("format/a", "format"), ("file/f", "file")):
            self.put(f"storage/{package}/BUILD", f'package(default_visibility = ["//storage:{layer}_users"])\n'
                     '[cc_test(name = name) for name in ["a", "b"]]\n')

    def put(self, path, text):
        path = os.path.join(self.folder.name, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def judged(self):
        return layers.judge_build_files(self.folder.name, DRAWING)

    def test_a_tree_as_it_should_be_is_fine(self):
        self.assertEqual(self.judged(), [])

    def test_a_package_without_its_layers_visibility_is_told(self):
        for text in ("", 'package(default_visibility = ["//visibility:public"])',
                     'package(default_visibility = ["//storage:base_users"])',
                     'package(default_visibility = ["//storage:format_users", "//client:__subpackages__"])'):
            with self.subTest(text):
                self.put("storage/format/a/b/BUILD", text)
                self.assertEqual(len(self.judged()), 1)
                self.assertIn("storage/format/a/b/BUILD", self.judged()[0])

    def test_a_group_with_a_layer_too_many_or_too_few_is_told(self):
        self.put("storage/BUILD", GROUPS.replace('["//storage/io/..."', '["//storage/io/...", "//storage/format/..."'))
        self.assertEqual(self.judged(), ["storage/BUILD: io_users must not have storage/format"])
        self.put("storage/BUILD", GROUPS.replace('"//storage/format/...", ', ""))
        self.assertEqual(self.judged(), ["storage/BUILD: format_users lacks storage/format"])

    def test_a_group_that_is_not_there_or_cannot_be_read_is_told(self):
        self.put("storage/BUILD", GROUPS.replace('name = "io_users"', 'name = "disk_users"'))
        self.assertEqual(self.judged(), ["storage/BUILD: no package group io_users that could be read"])
        self.put("storage/BUILD", GROUPS.replace('["//storage/file/..."] + PROGRAMS', "made_elsewhere()"))
        self.assertEqual(self.judged(), ["storage/BUILD: no package group file_users that could be read"])

    def test_a_folder_that_is_no_layer_and_a_layer_that_is_no_folder_are_told(self):
        self.put("storage/odd/x.h", "")
        self.assertEqual(self.judged(), ["storage/odd is no row of the table"])
        os.remove(os.path.join(self.folder.name, "storage/io/BUILD"))
        self.assertIn("storage/io: no packages", self.judged())


class TreeTest(unittest.TestCase):
    def test_the_trees_own_drawing_and_build_files_agree(self):
        root = os.path.dirname(os.path.dirname(HERE))
        drawing = layers.read_drawing(layers.read_text(os.path.join(root, "storage/README.md")))
        self.assertEqual([row for row in drawing if row.startswith("storage/")],
                         [f"storage/{name}" for name in ("base", "io", "format", "file", "place", "job")])
        self.assertEqual({row for row in drawing["client/cli"] if row.startswith("daemon")},
                         {"daemon/arbiter", "daemon/config"})
        self.assertEqual(layers.judge_build_files(root, drawing), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

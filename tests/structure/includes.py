#!/usr/bin/python3
"""Judges what sources include by the build graph: a header belongs to the target itself or to one of its `deps`.

usage: bazel query --output=xml '//proto/... + //storage/... + //daemon/... + //client/...' | includes.py

So a target does not build by the grace of what its dependencies use. Judged are the files of the tree that are included
by "…" from its root, or from beside the source; the distribution's are by <…>. Generated sources (protoc's) are not read.

Prints what is wrong, a line each, and exits with 1 if there is anything, or nothing to judge.
"""

import collections
import os
import re
import sys
import xml.etree.ElementTree

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)

# `sources`: the files that it compiles or gives to others, of which `headers` are the latter; `deps`: labels.
Target = collections.namedtuple("Target", "label sources headers deps")


def path_of(label):
    """The path of the file "//a/b:c.h"; None for what another repository has."""
    if not label.startswith("//"):
        return None
    package, _, name = label[2:].partition(":")
    return f"{package}/{name}" if package else name


def labels_of(element, *names):
    return [
        label.get("value") for attribute in element.findall("list") if attribute.get("name") in names
        for label in attribute.findall("label")
    ]


def read_targets(text):
    """The C and C++ targets of what `bazel query --output=xml` prints."""
    targets = []
    for rule in xml.etree.ElementTree.fromstring(text).iter("rule"):
        if not rule.get("class").startswith("cc_"):
            continue
        headers = [path_of(label) for label in labels_of(rule, "hdrs", "textual_hdrs")]
        sources = [path_of(label) for label in labels_of(rule, "srcs")] + headers
        targets.append(Target(rule.get("name"), [path for path in sources if path], [path for path in headers if path],
                              labels_of(rule, "deps", "implementation_deps")))
    return targets


def judge(targets, read):
    """`read(path)`: a source's text, or None if it is generated."""
    owners = collections.defaultdict(set)
    for target in targets:
        for header in target.headers:
            owners[header].add(target.label)
    for target in targets:
        own = {target.label, *target.deps}
        for source in target.sources:
            for included in INCLUDE.findall(read(source) or ""):
                beside = os.path.join(os.path.dirname(source), included)
                if beside in target.sources or included in target.sources or own & (owners[included] | owners[beside]):
                    continue
                if owners[included]:
                    yield f'{source} includes "{included}", and {target.label} does not depend on ' + " or ".join(
                        sorted(owners[included]))
                else:
                    yield f'{source} includes "{included}", which no target of these gives'


def read_source(root):
    def read(path):
        try:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return None

    return read


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    try:
        targets = read_targets(sys.stdin.read())
    except xml.etree.ElementTree.ParseError as error:
        print(f"includes: {error}")
        return 1
    findings = [*judge(targets, read_source(root))] if targets else ["the graph has no targets"]
    for finding in findings:
        print(f"includes: {finding}")
    if not findings:
        print(f"includes: {len(targets)} targets depend on what they include")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

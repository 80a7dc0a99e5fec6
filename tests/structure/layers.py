#!/usr/bin/python3
"""Judges the build graph by the drawing of the layers in storage/README.md.

usage: bazel query --output=xml '//proto/... + //storage/... + //daemon/... + //client/...' | layers.py

The drawing is a table between two markers. Its rows are folders, the lowest first, and name what each may use; here is
no second list. Judged are
- what each rule uses, be it a library or a file: a folder of the table uses itself and what its row names;
- that storage/format comes to storage/io by no way, however long;
- that no name of a rule has "internal" in it;
- the BUILD files of storage/: each package is visible to its layer's package group by default, each package group of
  storage/BUILD has those layers that may use it, and no rule is public.

Prints what is wrong, a line each, and exits with 1 if there is anything, or nothing to judge.
"""

import ast
import collections
import os
import re
import sys
import xml.etree.ElementTree

BEGIN, END = "<!-- layers: tests/structure/layers.py reads this table -->", "<!-- end of layers -->"
PURE, DISK = "storage/format", "storage/io"
BUILDING = "deploy/bazel"  # parts that programs are linked of; what these may use is judged by their `deps`

# `inputs`: labels of targets and files; `visibility`: as the rule gives it, empty if it leaves that to its package.
Rule = collections.namedtuple("Rule", "label inputs visibility")


# --- The drawing ---


def read_drawing(text):
    """{folder: the folders that it may use besides itself}, in the order of the rows."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError("the two markers of the layers must be there once")
    drawing = {}
    for line in text.partition(BEGIN)[2].partition(END)[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        folder = re.fullmatch(r"`([\w/]+)`", cells[0])
        if not folder:
            continue  # the table's head
        name, uses = folder.group(1), re.findall(r"`([\w/]+)`", cells[1])
        for used in uses:
            # So the drawing itself has no circle.
            if used not in drawing:
                raise ValueError(f"{name} uses {used}, which is no row above it")
        if name in drawing:
            raise ValueError(f"{name} is there twice")
        drawing[name] = set(uses)
    for layer in (PURE, DISK):
        if layer not in drawing:
            raise ValueError(f"{layer} is not there")
    return drawing


def row_of(package, drawing):
    """The row that speaks for a package: the longest that it lies in, or None."""
    rows = [row for row in drawing if package == row or package.startswith(row + "/")]
    return max(rows, key=len, default=None)


# --- The graph ---


def package_of(label):
    """The package of "//a/b:c"; None for what another repository has."""
    return label[2:].partition(":")[0] if label.startswith("//") else None


def name_of(label):
    return label.rpartition(":")[2]


def read_graph(text):
    """The rules of what `bazel query --output=xml` prints."""
    root = xml.etree.ElementTree.fromstring(text)
    rules = []
    for element in root.iter("rule"):
        visibility = [
            label.get("value") for attribute in element.findall("list") if attribute.get("name") == "visibility"
            for label in attribute
        ]
        inputs = [entry.get("name") for entry in element.findall("rule-input")]
        rules.append(Rule(element.get("name"), inputs, visibility))
    return rules


def judge_uses(rules, drawing):
    for rule in rules:
        row = row_of(package_of(rule.label), drawing)
        for used in rule.inputs:
            package = package_of(used)
            if package is None or package == BUILDING:
                continue
            used_row = row_of(package, drawing)
            if row is None:
                # The table tells of all that may use storage.
                if used_row is not None and used_row.startswith("storage/"):
                    yield f"{rule.label} uses {used}, but is in no row of the table"
            elif used_row != row and used_row not in drawing[row]:
                allowed = ", ".join(sorted(drawing[row])) or "nothing"
                yield f"{rule.label} uses {used}: {row} may use {allowed}"


def way_to(start, is_goal, edges):
    """The shortest way from `start`, without it, to a node that is a goal; None if there is none."""
    seen, ways = {start}, collections.deque([[start]])
    while ways:
        way = ways.popleft()
        for node in edges.get(way[-1], ()):
            if is_goal(node):
                return way[1:] + [node]
            if node not in seen:
                seen.add(node)
                ways.append(way + [node])
    return None


def is_below(package, folder):
    return package is not None and (package == folder or package.startswith(folder + "/"))


def judge_purity(rules):
    edges = {rule.label: rule.inputs for rule in rules}
    for rule in rules:
        if is_below(package_of(rule.label), PURE):
            way = way_to(rule.label, lambda label: is_below(package_of(label), DISK), edges)
            if way:
                yield f"{rule.label} comes to {DISK}: {' -> '.join(way)}"


def judge_names(rules):
    for rule in rules:
        if "internal" in name_of(rule.label).lower():
            yield f'{rule.label}: a name with "internal" does not say what the library is for'


def judge_graph(rules, drawing):
    if not rules:
        return ["the graph has no rules"]
    findings = [*judge_uses(rules, drawing), *judge_purity(rules), *judge_names(rules)]
    for rule in rules:
        if is_below(package_of(rule.label), "storage") and "//visibility:public" in rule.visibility:
            findings.append(f"{rule.label} is public")
    return findings


# --- BUILD files: what is visible by default, which the graph does not tell ---


def value_of(node, names):
    """A string, or a list of strings, with names for such lists; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.List):
        return [value_of(element, names) for element in node.elts]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = value_of(node.left, names), value_of(node.right, names)
        return None if left is None or right is None else left + right
    return None


def calls_of(text, function):
    """The arguments of each call of a function at the top of a BUILD file, by name. Its syntax is also Python's."""
    names = {}
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            names[statement.targets[0].id] = value_of(statement.value, names)
        call = getattr(statement, "value", None)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == function:
            yield {keyword.arg: value_of(keyword.value, names) for keyword in call.keywords}


def group_of(layer):
    return layer.rpartition("/")[2] + "_users"


def read_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def judge_packages(root, layers):
    for layer in layers:
        group = [f"//storage:{group_of(layer)}"]
        found = 0
        for folder, folders, files in os.walk(os.path.join(root, layer)):
            folders.sort()
            if "BUILD" not in files:
                continue
            found += 1
            package = os.path.relpath(folder, root)
            said = [call.get("default_visibility") for call in calls_of(read_text(folder + "/BUILD"), "package")]
            if said != [group]:
                yield f"{package}/BUILD: the default visibility is {said}, not {group}"
        if found == 0:
            yield f"{layer}: no packages"


def judge_groups(root, drawing, layers):
    calls = calls_of(read_text(root + "/storage/BUILD"), "package_group")
    groups = {call.get("name"): call.get("packages") for call in calls}
    for layer in layers:
        packages = groups.get(group_of(layer))
        if packages is None:
            yield f"storage/BUILD: no package group {group_of(layer)} that could be read"
            continue
        for user in layers:
            allowed = user == layer or layer in drawing[user]
            has = any(package in (f"//{user}/...", "//storage/...", "//...") for package in packages)
            if allowed != has:
                yield f"storage/BUILD: {group_of(layer)} {'lacks' if allowed else 'must not have'} {user}"


def judge_build_files(root, drawing):
    layers = [row for row in drawing if row.startswith("storage/")]
    findings = [*judge_packages(root, layers), *judge_groups(root, drawing, layers)]
    for name in sorted(os.listdir(root + "/storage")):
        if os.path.isdir(f"{root}/storage/{name}") and f"storage/{name}" not in layers:
            findings.append(f"storage/{name} is no row of the table")
    return findings


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    graph = sys.stdin.read()
    try:
        drawing = read_drawing(read_text(root + "/storage/README.md"))
        rules = read_graph(graph)
    except (ValueError, xml.etree.ElementTree.ParseError) as error:
        print(f"layers: {error}")
        return 1
    findings = judge_graph(rules, drawing) + judge_build_files(root, drawing)
    for finding in findings:
        print(f"layers: {finding}")
    if not findings:
        print(f"layers: {len(rules)} rules use what storage/README.md lets them use")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

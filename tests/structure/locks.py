#!/usr/bin/python3
"""Has clang check that each lock is held where the annotations say so (`ABSL_GUARDED_BY` and its kin), which GCC cannot.

usage: locks.py GENERATED   (the folder in which proto/ has what protoc made: bazel-bin)

Judged are the sources of storage/, daemon/ and client/ that have an annotation, or include a header that has: who may
touch what is guarded includes its class. Nothing is compiled. Prints what clang says, and exits with 1 if it says
anything, or if there is nothing to judge.
"""

import concurrent.futures
import functools
import os
import re
import subprocess
import sys
import tempfile

CLANG = "clang++-14"
FLAGS = [
    "-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-warning-option", "-Wthread-safety",
    "-DSPDLOG_COMPILED_LIB", "-DSPDLOG_SHARED_LIB", "-DSPDLOG_FMT_EXTERNAL", "-DBOOST_ASIO_NO_DEPRECATED",
    '-DCAIRN_VERSION=""', "-I."
]
COMMON = "deploy/bazel/common_headers.h"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
ANNOTATION = re.compile(r"\bABSL_(PT_)?GUARDED_BY\b|\bABSL_(SHARED|EXCLUSIVE)_LOCKS_REQUIRED\b|\bABSL_LOCKS_EXCLUDED\b")


def read_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@functools.lru_cache(maxsize=None)
def has_annotation(path):
    return os.path.exists(path) and bool(ANNOTATION.search(read_text(path)))


def sources():
    for top in ("storage", "daemon", "client"):
        for folder, _, names in os.walk(top):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if not name.endswith(".cc"):
                    continue
                if has_annotation(path) or any(has_annotation(included) for included in INCLUDE.findall(read_text(path))):
                    yield path


def run_clang(*arguments):
    """What clang says, or an empty text."""
    result = subprocess.run([CLANG, *FLAGS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace", check=False)
    if result.returncode == 0:
        return result.stdout
    return result.stdout or f"{CLANG} ended with {result.returncode}\n"


def judge(generated):
    """Yields (source, what clang says)."""
    with tempfile.TemporaryDirectory() as folder:
        # Parsed once: half of the time.
        parsed = os.path.join(folder, "common.pch")
        said = run_clang("-x", "c++-header", COMMON, "-o", parsed)
        if said:
            yield COMMON, said
            return
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            paths = list(sources())
            yield from zip(paths, pool.map(
                lambda path: run_clang("-fsyntax-only", "-I", generated, "-include-pch", parsed, path), paths))


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 0 if sys.argv[1:] in (["--help"], ["-h"]) else 2
    os.chdir(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))
    judged = failed = 0
    for source, said in judge(os.path.abspath(sys.argv[1])):
        judged += 1
        if said:
            failed += 1
            print(f"locks: {source}\n{said}", end="")
    if judged and not failed:
        print(f"locks: {judged} sources hold their locks")
    elif not judged:
        print("locks: no source has an annotation")
    return 0 if judged and not failed else 1


if __name__ == "__main__":
    sys.exit(main())

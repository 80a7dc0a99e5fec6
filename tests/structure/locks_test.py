#!/usr/bin/python3
"""locks.py on a tree of its own: a lock that is not held is seen, and only sources that may touch what is guarded are read."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

import locks  # noqa: E402

HEADER = """
#include <absl/synchronization/mutex.h>
class Counter {
 public:
  void Add();
 private:
  absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};
"""
ADDS = '#include "storage/counter.h"\nvoid Counter::Add() { %s++count_; }\n'


class LocksTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        locks.has_annotation.cache_clear()
        self.write(locks.COMMON, "#include <vector>\n")
        self.write("storage/counter.h", HEADER)

    def write(self, path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_a_lock_that_is_held_is_right(self):
        self.write("storage/counter.cc", ADDS % "absl::MutexLock lock(&mutex_); ")
        self.assertEqual(list(locks.judge(".")), [("storage/counter.cc", "")])

    def test_a_lock_that_is_not_held_is_seen(self):
        self.write("storage/counter.cc", ADDS % "")
        [(source, said)] = locks.judge(".")
        self.assertEqual(source, "storage/counter.cc")
        self.assertIn("requires holding mutex 'mutex_'", said)

    def test_what_cannot_touch_it_is_not_read(self):
        self.write("daemon/other.cc", "this is no C++\n")
        self.assertEqual(list(locks.judge(".")), [])


if __name__ == "__main__":
    unittest.main()

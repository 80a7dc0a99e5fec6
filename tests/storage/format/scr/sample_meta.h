// META with every field set, and the comparison of two.
#ifndef CAIRN_TESTS_STORAGE_FORMAT_SCR_SAMPLE_META_H_
#define CAIRN_TESTS_STORAGE_FORMAT_SCR_SAMPLE_META_H_

#include <gtest/gtest.h>

#include "storage/format/scr/meta.h"

namespace cairn::scr {

inline Meta FullMeta() {
  Meta meta;
  meta.original = "step_000020/sub1/a.dat";
  meta.directory = "/mnt/pfs/demo/step_000020/sub1";
  meta.name = "a.dat";
  meta.ranks = 2;
  meta.complete = true;
  meta.bytes = 5'000'000'000;
  meta.mode = 0100640;
  meta.uid = 4294967294;
  meta.gid = 7;
  meta.atime = {1795160217, 901615760};
  meta.mtime = {-1, 999999999};
  meta.ctime = {1795160219, 0};
  meta.crc32 = 0x1b39e4e4;
  meta.dataset = 20;
  meta.rank = 1;
  return meta;
}

inline void ExpectSame(const Meta& a, const Meta& b) {
  EXPECT_EQ(a.original, b.original);
  EXPECT_EQ(a.directory, b.directory);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.ranks, b.ranks);
  EXPECT_EQ(a.complete, b.complete);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.mode, b.mode);
  EXPECT_EQ(a.uid, b.uid);
  EXPECT_EQ(a.gid, b.gid);
  for (auto member : {&Meta::atime, &Meta::mtime, &Meta::ctime}) {
    EXPECT_EQ((a.*member).tv_sec, (b.*member).tv_sec);
    EXPECT_EQ((a.*member).tv_nsec, (b.*member).tv_nsec);
  }
  EXPECT_EQ(a.crc32, b.crc32);
  EXPECT_EQ(a.dataset, b.dataset);
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.type, b.type);
}

}  // namespace cairn::scr

#endif  // CAIRN_TESTS_STORAGE_FORMAT_SCR_SAMPLE_META_H_

// Names of FTI's files and folders: what FTI makes is understood, all else is refused.
#include "storage/file/fti/names.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/storage/file/fti/fti_vectors.h"

namespace cairn::fti {
namespace {

TEST(NamesTest, WhatIsMadeIsUnderstood) {
  for (const FileKind kind : {FileKind::kRank, FileKind::kCopy, FileKind::kCode}) {
    for (const std::int32_t id : {0, 7, 2147483647}) {
      for (const std::uint32_t rank : {0u, 10u, kRanksMax - 1}) {
        const FileName name = {.kind = kind, .id = id, .rank = rank};
        EXPECT_EQ(ParseFileName(MakeFileName(name)), name) << MakeFileName(name);
      }
    }
  }
  const FileName differential = {.kind = FileKind::kDifferential, .id = 0, .rank = 12};
  EXPECT_EQ(MakeFileName(differential), "dCPFile-Rank12.fti");
  EXPECT_EQ(ParseFileName("dCPFile-Rank12.fti"), differential);
}

TEST(NamesTest, NamesAreThoseOfFti) {
  EXPECT_EQ(MakeFileName({.kind = FileKind::kRank, .id = 3, .rank = 14}), "Ckpt3-Rank14.fti");
  EXPECT_EQ(MakeFileName({.kind = FileKind::kCopy, .id = 3, .rank = 14}), "Ckpt3-Pcof14.fti");
  EXPECT_EQ(MakeFileName({.kind = FileKind::kCode, .id = 3, .rank = 14}), "Ckpt3-RSed14.fti");
}

TEST(NamesTest, AllElseIsRefused) {
  for (const char* name : {"",
                           "Ckpt",
                           "Ckpt1",
                           "Ckpt1-Rank",
                           "Ckpt1-Rank.fti",
                           "Ckpt-Rank1.fti",
                           "Ckpt1-Rank1",
                           "Ckpt1-Rank1.fti ",
                           " Ckpt1-Rank1.fti",
                           "ckpt1-rank1.fti",
                           "Ckpt01-Rank1.fti",
                           "Ckpt1-Rank01.fti",
                           "Ckpt1-Rank00.fti",
                           "Ckpt-1-Rank1.fti",
                           "Ckpt+1-Rank1.fti",
                           "Ckpt1-Rank-1.fti",
                           "Ckpt1-Rank+1.fti",
                           "Ckpt 1-Rank1.fti",
                           "Ckpt2147483648-Rank1.fti",
                           "Ckpt99999999999999999999-Rank1.fti",
                           "Ckpt1-Rank1048576.fti",
                           "Ckpt1-Rank99999999999999999999.fti",
                           "Ckpt1-Rank1.fti.bak",
                           "Ckpt0x1-Rank1.fti",
                           "Ckpt1-Node1.fti",
                           "Ckpt1-worker1.fti",
                           "dCPFile-Rank.fti",
                           "dCPFile-Rank01.fti",
                           "dCPFile-Pcof1.fti",
                           "XCkpt1-Rank1.fti"}) {
    EXPECT_EQ(ParseFileName(name), std::nullopt) << name;
  }
  EXPECT_EQ(ParseFileName(std::string_view("Ckpt1-Rank1\0.fti", 16)), std::nullopt);
}

TEST(NamesTest, EveryFileOfFtiIsUnderstood) {
  for (const char* scenario : {"levels-n1g4-F", "dcp-2rank-E", "heads-F", "rs-g3-E"}) {
    const auto run = testing::LoadRun(scenario);
    if (!run) return;
    for (const testing::VectorFile& file : run->files) {
      const auto parsed = ParseFileName(file.name);
      ASSERT_TRUE(parsed.has_value()) << file.name;
      EXPECT_EQ(parsed->rank, file.rank);
      EXPECT_EQ(parsed->id, parsed->kind == FileKind::kDifferential ? 0 : file.id);
      EXPECT_EQ(MakeFileName(*parsed), file.name);
      EXPECT_TRUE(ParseLevelFolder(file.dir.substr(file.dir.rfind('/') + 1)).has_value()) << file.dir;
    }
  }
}

TEST(NamesTest, FoldersOfNodesAndLevels) {
  EXPECT_EQ(ParseNodeFolder("node0"), 0u);
  EXPECT_EQ(ParseNodeFolder("node1048575"), kRanksMax - 1);
  for (const char* name : {"node", "node01", "node-1", "node1048576", "node1x", "Node1", "nodes"}) {
    EXPECT_EQ(ParseNodeFolder(name), std::nullopt) << name;
  }
  EXPECT_EQ(ParseLevelFolder("l1"), LevelFolder::kLocal);
  EXPECT_EQ(ParseLevelFolder("l2"), LevelFolder::kPartner);
  EXPECT_EQ(ParseLevelFolder("l3"), LevelFolder::kEncoded);
  EXPECT_EQ(ParseLevelFolder("l4"), LevelFolder::kGlobal);
  EXPECT_EQ(ParseLevelFolder("l4_archive"), LevelFolder::kGlobal);
  EXPECT_EQ(ParseLevelFolder("lL4Dir"), LevelFolder::kReplica);
  EXPECT_EQ(ParseLevelFolder("dCP"), LevelFolder::kDifferential);
  for (const char* name : {"tmp", "stash", "stage", "l0", "l5", "L1", "l1 ", ""}) {
    EXPECT_EQ(ParseLevelFolder(name), std::nullopt) << name;
  }
}

TEST(NamesTest, FilesOfOtherModesAreKnown) {
  EXPECT_TRUE(IsOtherModeName("sector0-group12.fti"));
  EXPECT_TRUE(IsOtherModeName("dcp-id3-rank0.fti"));
  for (const char* name :
       {"sector-group1.fti", "sector0-group1", "Ckpt1-Rank1.fti", "dcp-id-rank0.fti", "Topology.fti"}) {
    EXPECT_FALSE(IsOtherModeName(name)) << name;
  }
}

}  // namespace
}  // namespace cairn::fti

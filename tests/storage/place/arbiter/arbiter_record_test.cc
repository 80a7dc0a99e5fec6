// <prefix>/.cairn/arbiter: who decides the races of a run.
#include "storage/place/arbiter/arbiter_record.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "tests/support/fake_arbiters.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using arbiter_record::Change;
using arbiter_record::Ensure;
using arbiter_record::Read;

constexpr char kPrefix[] = "/p";
constexpr char kRecord[] = "/p/.cairn/arbiter";

class ArbiterRecordTest : public ::testing::Test {
 protected:
  ArbiterRecordTest() {
    EXPECT_OK(disk_.MakeDirectory(kPrefix, 0700));
    EXPECT_OK(disk_.MakeDirectory("/p/.cairn", 0700));
    disk_.SyncAll();
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_OK_AND_ASSIGN(kvtree::Tree tree, ReadTree(disk_, kRecord));
    tree.Set(key, value);
    ASSERT_OK(ReplaceTree(disk_, kRecord, tree));
  }
  FakeDisk disk_;
};

TEST_F(ArbiterRecordTest, TheFirstOpenerNamesItForGood) {
  ASSERT_OK_AND_ASSIGN(const auto none, Read(disk_, kPrefix));
  EXPECT_FALSE(none.has_value());
  ASSERT_OK_AND_ASSIGN(const ArbiterRecord made, Ensure(disk_, kPrefix, ArbiterKind::kEtcd, "https://a:1"));
  disk_.Restart(7);
  ASSERT_OK_AND_ASSIGN(const ArbiterRecord again, Ensure(disk_, kPrefix, ArbiterKind::kPrefix, ""));
  for (const ArbiterRecord& one : {made, again}) {
    EXPECT_EQ(one.kind, ArbiterKind::kEtcd);
    EXPECT_EQ(one.where, "https://a:1");
    EXPECT_EQ(one.number, 0u);
  }
  EXPECT_EQ(again.secret, made.secret);
  EXPECT_EQ(made.secret.size(), ArbiterRecord::kSecretBytes);
}

TEST_F(ArbiterRecordTest, OfThoseWhoNameItAtTheSameTimeOneIsFirst) {
  std::vector<std::string> secrets(8);
  {
    std::vector<std::jthread> openers;
    for (std::size_t i = 0; i < secrets.size(); ++i) {
      openers.emplace_back([&, i] {
        const auto record =
            Ensure(disk_, kPrefix, i % 2 == 0 ? ArbiterKind::kEtcd : ArbiterKind::kPrefix, std::to_string(i));
        EXPECT_OK(record.status());
        if (record.ok()) secrets[i] = record->secret + record->where;
      });
    }
  }
  for (const std::string& secret : secrets) EXPECT_EQ(secret, secrets[0]);
}

// What has decided so far goes on to do so.
TEST_F(ArbiterRecordTest, ARunThatHasLaunchesAndNoRecordIsThePrefixs) {
  ASSERT_OK(ReplaceTree(disk_, "/p/.cairn/launch.1", kvtree::Tree()));
  ASSERT_OK_AND_ASSIGN(const ArbiterRecord made, Ensure(disk_, kPrefix, ArbiterKind::kEtcd, "https://a:1"));
  EXPECT_EQ(made.kind, ArbiterKind::kPrefix);
  EXPECT_EQ(made.where, "");
}

TEST_F(ArbiterRecordTest, TheLastChangeCounts) {
  ASSERT_OK_AND_ASSIGN(const ArbiterRecord first, Ensure(disk_, kPrefix, ArbiterKind::kPrefix, ""));
  ASSERT_OK_AND_ASSIGN(const ArbiterRecord second, Change(disk_, kPrefix, first, ArbiterKind::kEtcd, "https://a:1"));
  EXPECT_EQ(second.number, 1u);
  EXPECT_NE(second.secret, first.secret);
  EXPECT_STATUS(StatusCode::kAborted, Change(disk_, kPrefix, first, ArbiterKind::kPrefix, ""), "changed meanwhile");
  disk_.Restart(3);
  ASSERT_OK_AND_ASSIGN(const auto read, Read(disk_, kPrefix));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->kind, ArbiterKind::kEtcd);
  EXPECT_EQ(read->secret, second.secret);
}

TEST_F(ArbiterRecordTest, WhatCannotBeReadIsToldWithItsPlace) {
  ASSERT_OK(Ensure(disk_, kPrefix, ArbiterKind::kPrefix, ""));
  Put("SECRET", "12");
  EXPECT_STATUS(StatusCode::kDataLoss, Read(disk_, kPrefix), "/p/.cairn/arbiter: SECRET is not 64 hex digits");
  Put("KIND", "raft");
  EXPECT_STATUS(StatusCode::kFailedPrecondition, Read(disk_, kPrefix), "KIND \"raft\"");
  Put("VERSION", "2");
  EXPECT_STATUS(StatusCode::kFailedPrecondition, Read(disk_, kPrefix), "/p/.cairn/arbiter: VERSION 2");
}

TEST_F(ArbiterRecordTest, AProgramThatIsSetToAnotherIsRefused) {
  const FakeArbiters service;
  ASSERT_OK(OpenArbiter(service, disk_, kPrefix, RunId()).status());
  EXPECT_STATUS(StatusCode::kFailedPrecondition, OpenArbiter(PrefixArbiters(), disk_, kPrefix, RunId()),
                "the arbiter of this run is etcd (fake:1), this program is configured for prefix");
}

}  // namespace
}  // namespace cairn

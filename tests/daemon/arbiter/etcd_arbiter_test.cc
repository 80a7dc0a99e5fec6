// What etcd's arbiter does besides the contract (etcd_arbiter_contract_test.cc): against others who write to that etcd,
// and when etcd and the prefix differ.
#include "daemon/arbiter/etcd_arbiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/arbiter/sealed.h"
#include "tests/daemon/arbiter/etcd_fixture.h"
#include "tests/support/etcd.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Etcd;
using ::testing::Not;

class EtcdArbiterTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    etcd_ = Etcd::Start().release();
    ASSERT_NE(etcd_, nullptr);
  }
  static void TearDownTestSuite() { delete etcd_; }

  EtcdRun run{ClientOf(etcd_->endpoints())};

  inline static Etcd* etcd_ = nullptr;
};

// --- Others who write there ---

TEST_F(EtcdArbiterTest, WhatOthersWriteUnderOurNamesDoesNotCount) {
  EtcdRun other(run.client);
  ASSERT_OK(other.Make()->Create("launch.7", "of another run"));
  ASSERT_OK(run.Make()->Create("launch.6", "ours"));
  const std::vector<std::string> forgeries = {"",
                                              "garbage",
                                              std::string(1 << 20, 'x'),
                                              other.ValueOf("launch.7"),
                                              run.ValueOf("launch.6"),
                                              Seal(other.secret, run.KeyOf("launch.7"), "x")};
  for (const std::string& forgery : forgeries) {
    run.Overwrite("launch.7", forgery);
    run.Overwrite("launch.7.1.lease", forgery);
    EXPECT_THAT(run.Names(), ElementsAre("launch.6"));
    EXPECT_EQ(*run.Make()->ReadLease("launch.7.1.lease", 100), "");
    EXPECT_EQ(run.RecordOf("launch.7"), "NOT_FOUND");
  }
  ASSERT_OK(run.Make()->Create("launch.7", "ours, too"));
  ASSERT_OK(run.Make()->CreateLease("launch.7.1.lease", "a lease"));
  EXPECT_THAT(run.Names(), ElementsAre("launch.6", "launch.7", "launch.7.1.lease"));
  EXPECT_EQ(run.RecordOf("launch.7"), "ours, too");
  EXPECT_EQ(*run.Make()->ReadLease("launch.7.1.lease", 100), "a lease");
}

TEST_F(EtcdArbiterTest, AForgedNameIsMadeByOneOfMany) {
  run.Overwrite("launch.1", "garbage");
  const auto first = run.Make(), second = run.Make();
  ASSERT_OK(first->Create("launch.1", "first"));
  EXPECT_STATUS(StatusCode::kAlreadyExists, second->Create("launch.1", "second"), "launch.1");
  EXPECT_EQ(run.RecordOf("launch.1"), "first");
}

TEST_F(EtcdArbiterTest, TheHolderOfALeaseWritesOverForgeriesOfIt) {
  const auto holder = run.Make();
  ASSERT_OK(holder->CreateLease("launch.1.1.lease", "beat 1"));
  const std::string older = run.ValueOf("launch.1.1.lease");
  ASSERT_OK(holder->WriteLease("launch.1.1.lease", "beat 2"));
  run.Overwrite("launch.1.1.lease", "garbage");
  ASSERT_OK(holder->WriteLease("launch.1.1.lease", "beat 3"));
  EXPECT_EQ(*run.Make()->ReadLease("launch.1.1.lease", 100), "beat 3");
  // This they can do: it lasts until the next beat.
  run.Overwrite("launch.1.1.lease", older);
  EXPECT_EQ(*run.Make()->ReadLease("launch.1.1.lease", 100), "beat 1");
  ASSERT_OK(holder->WriteLease("launch.1.1.lease", "beat 4"));
  EXPECT_EQ(*run.Make()->ReadLease("launch.1.1.lease", 100), "beat 4");
}

TEST_F(EtcdArbiterTest, ALeaseThatWasDeletedIsGoneAndCanBeMadeAnew) {
  const auto holder = run.Make();
  ASSERT_OK(holder->CreateLease("launch.1.1.lease", "beat 1"));
  run.Delete("launch.1.1.lease");
  EXPECT_STATUS(StatusCode::kNotFound, holder->WriteLease("launch.1.1.lease", "beat 2"), "launch.1.1.lease");
  EXPECT_STATUS(StatusCode::kNotFound, holder->ReadLease("launch.1.1.lease", 100), "launch.1.1.lease");
  EXPECT_OK(holder->CreateLease("launch.1.1.lease", "beat 3"));
}

TEST_F(EtcdArbiterTest, WhoDeletesWhatIsInEtcdBringsNoNumberBack) {
  const auto arbiter = run.Make();
  ASSERT_OK(arbiter->Create("launch.1", "one"));
  ASSERT_OK(arbiter->Create("launch.2", "two"));
  const std::string older = run.ValueOf("launch.2");
  run.Delete("launch.1");
  run.Delete("launch.2");
  EXPECT_THAT(run.Names(), ElementsAre("launch.1", "launch.2"));
  EXPECT_STATUS(StatusCode::kAlreadyExists, arbiter->Create("launch.2", "another two"), "launch.2");
  EXPECT_EQ(run.RecordOf("launch.2"), "two");
  // etcd now has the other one: the prefix decides.
  EXPECT_STATUS(StatusCode::kAlreadyExists, run.Make()->Create("launch.2", "a third"), "launch.2");
  EXPECT_THAT(run.Names(), ElementsAre("launch.1", "launch.2"));
  EXPECT_EQ(run.RecordOf("launch.2"), "two");
  run.Overwrite("launch.2", older);
  EXPECT_STATUS(StatusCode::kAlreadyExists, arbiter->Create("launch.2", "a fourth"), "launch.2");
  EXPECT_OK(arbiter->Create("launch.3", "three"));
}

TEST_F(EtcdArbiterTest, NamesThatCannotBeFilesAreNotMadeFiles) {
  const std::string longest(kEtcdNameBytesMax, 'n'), longer = longest + 'n';
  for (const std::string& name : {std::string("a/b"), std::string("../up"), std::string(".."), std::string("."),
                                  std::string("a\0b", 3), longer}) {
    run.Overwrite(name, Seal(run.secret, run.KeyOf(name), "x"));
    EXPECT_STATUS(StatusCode::kInvalidArgument, run.Make()->Create(name, "x"), "no name");
  }
  for (const std::string& name : {std::string("a/b.lease"), longest + ".lease", std::string("launch.1")}) {
    EXPECT_STATUS(StatusCode::kInvalidArgument, run.Make()->CreateLease(name, "x"), "no name of a lease");
    EXPECT_STATUS(StatusCode::kInvalidArgument, run.Make()->WriteLease(name, "x"), "no name of a lease");
    EXPECT_STATUS(StatusCode::kInvalidArgument, run.Make()->ReadLease(name, 10), "no name of a lease");
  }
  run.Overwrite(longest, Seal(run.secret, run.KeyOf(longest), "x"));
  const std::string huge(Arbiter::kRecordBytesMax + 1, 'x');
  run.Overwrite("launch.9", Seal(run.secret, run.KeyOf("launch.9"), huge));
  EXPECT_THAT(run.Names(), ElementsAre(longest));
  EXPECT_THAT(*run.disk.List("/run/.cairn"), ElementsAre(longest));
  EXPECT_THAT(*run.disk.List("/run"), ElementsAre(".cairn"));
  EXPECT_STATUS(StatusCode::kInvalidArgument, run.Make()->Create("", "x"), "no name");
  EXPECT_STATUS(StatusCode::kInvalidArgument, run.Make()->Create("launch.1.1.lease", "x"), "no name of a record");
}

TEST_F(EtcdArbiterTest, AThousandStrangersAreLeftOutMoreAreReported) {
  for (int i = 0; i < 1000; ++i) run.Overwrite(fmt::format("launch.{}", i), "garbage");
  ASSERT_OK(run.Make()->Create("launch.5", "ours"));
  EXPECT_THAT(run.Names(), ElementsAre("launch.5"));
  run.Overwrite("ids.1", "garbage");
  run.Overwrite("ids.2", "garbage");
  EXPECT_STATUS(StatusCode::kResourceExhausted, run.Make()->Names(), "etcdctl del --prefix /cairn/" + run.id.Hex());
}

// --- etcd and the prefix ---

// Between the two steps of Create a node may die: whoever comes next does the second.
TEST_F(EtcdArbiterTest, WhatWasDecidedInEtcdIsCopiedByWhoeverMeetsIt) {
  for (const std::string name : {"launch.1", "launch.2"}) {
    run.disk.FailOn({.op = FakeOp::kLink, .path_part = name});
    EXPECT_STATUS(StatusCode::kUnavailable, run.Make()->Create(name, "of who died"), "injected");
    EXPECT_EQ(run.RecordOf(name), "NOT_FOUND");
  }
  EXPECT_STATUS(StatusCode::kAlreadyExists, run.Make()->Create("launch.1", "another"), "launch.1");
  EXPECT_EQ(run.RecordOf("launch.1"), "of who died");
  EXPECT_EQ(run.RecordOf("launch.2"), "NOT_FOUND");
  EXPECT_THAT(run.Names(), ElementsAre("launch.1", "launch.2"));
  EXPECT_EQ(run.RecordOf("launch.2"), "of who died");
}

TEST_F(EtcdArbiterTest, NobodyIsToldOfWhatCouldNotBeCopied) {
  run.disk.FailOn({.op = FakeOp::kLink, .path_part = "launch.1", .times = 3});
  EXPECT_STATUS(StatusCode::kUnavailable, run.Make()->Create("launch.1", "of who died"), "injected");
  EXPECT_STATUS(StatusCode::kUnavailable, run.Make()->Create("launch.1", "another"), "injected");
  EXPECT_STATUS(StatusCode::kUnavailable, run.Make()->Names(), "injected");
  EXPECT_THAT(run.Names(), ElementsAre("launch.1"));
}

// Somebody copied ours before we did.
TEST_F(EtcdArbiterTest, OurOwnRecordThatAnotherCopiedIsOurs) {
  bool copied = false;
  const auto other = run.Make();
  run.disk.SetHook([&](FakeOp op, const std::string& path) {
    if (copied || op != FakeOp::kLink || path.find("launch.1") == path.npos) return;
    copied = true;
    EXPECT_OK(other->Names());
  });
  EXPECT_OK(run.Make()->Create("launch.1", "ours"));
  EXPECT_TRUE(copied);
}

TEST_F(EtcdArbiterTest, LeasesAreInEtcdAlone) {
  ASSERT_OK(run.Make()->CreateLease("launch.1.1.lease", "beat"));
  EXPECT_THAT(run.Names(), ElementsAre("launch.1.1.lease"));
  EXPECT_THAT(*run.disk.List("/run/.cairn"), ElementsAre());
}

TEST_F(EtcdArbiterTest, LeasesOfLaunchesLongAgoAreRemovedWithTheNextLease) {
  const auto arbiter = run.Make();
  for (const char* name : {"launch.1.1.lease", "launch.2.1.lease", "launch.2.2.lease", "other.1.1.lease"}) {
    ASSERT_OK(arbiter->CreateLease(name, "beat"));
  }
  run.Overwrite("launch.1.9.lease", "garbage");
  ASSERT_OK(arbiter->Create("launch.1", "one"));
  ASSERT_OK(arbiter->CreateLease("launch.3.1.lease", "beat"));
  EXPECT_EQ(run.ValueOf("launch.1.1.lease"), "not there");
  EXPECT_EQ(run.ValueOf("launch.1.9.lease"), "garbage");  // not ours to remove
  EXPECT_THAT(run.Names(),
              ElementsAre("launch.1", "launch.2.1.lease", "launch.2.2.lease", "launch.3.1.lease", "other.1.1.lease"));
}

TEST_F(EtcdArbiterTest, NothingInEtcdCanBeReadWithoutTheSecret) {
  ASSERT_OK(run.Make()->Create("launch.1", "a secret of the launch"));
  ASSERT_OK(run.Make()->CreateLease("launch.1.1.lease", "a secret of the launch"));
  EXPECT_EQ(run.ValueOf("launch.1").find("secret"), std::string::npos);
  EXPECT_EQ(run.ValueOf("launch.1.1.lease").find("secret"), std::string::npos);
}

TEST(EtcdLostTest, AnEtcdThatHasForgottenAllGoesOn) {
  const auto etcd = Etcd::Start();
  ASSERT_NE(etcd, nullptr);
  EtcdRun run(ClientOf(etcd->endpoints()));
  const auto arbiter = run.Make();
  ASSERT_OK(arbiter->Create("launch.1", "one"));
  ASSERT_OK(arbiter->CreateLease("launch.1.1.lease", "beat 1"));
  etcd->Kill(0);
  etcd->StartEmpty();
  EXPECT_THAT(run.Names(), ElementsAre("launch.1"));
  EXPECT_STATUS(StatusCode::kNotFound, arbiter->WriteLease("launch.1.1.lease", "beat 2"), "");
  EXPECT_OK(arbiter->CreateLease("launch.1.2.lease", "beat 1"));
  EXPECT_STATUS(StatusCode::kAlreadyExists, arbiter->Create("launch.1", "another"), "launch.1");
  EXPECT_OK(arbiter->Create("launch.2", "two"));
  EXPECT_THAT(run.Names(), ElementsAre("launch.1", "launch.1.2.lease", "launch.2"));
}

// --- All runs' arbiters ---

TEST_F(EtcdArbiterTest, ArbitersMakeOnesOfTheirEtcdForTheRecordsSecret) {
  ASSERT_OK_AND_ASSIGN(const auto arbiters, MakeEtcdArbiters({.endpoints = etcd_->endpoints()}));
  EXPECT_EQ(arbiters->kind(), ArbiterKind::kEtcd);
  EXPECT_EQ(arbiters->where(), etcd_->endpoint(0));
  ASSERT_OK_AND_ASSIGN(
      const auto arbiter,
      arbiters->Make(run.disk, "/run", run.id, {.kind = ArbiterKind::kEtcd, .secret = run.secret, .where = ""}));
  ASSERT_OK(arbiter->Create("launch.1", "one"));
  EXPECT_EQ(Unseal(run.secret, run.KeyOf("launch.1"), run.ValueOf("launch.1")), "one");
  EXPECT_STATUS(StatusCode::kInvalidArgument,
                arbiters->Make(run.disk, "/run", run.id, {.kind = ArbiterKind::kEtcd, .secret = "", .where = ""}),
                "/run");
  EXPECT_STATUS(StatusCode::kInvalidArgument, MakeEtcdArbiters({.endpoints = {"etcd:2379"}}), "etcd:2379");
}

}  // namespace
}  // namespace cairn

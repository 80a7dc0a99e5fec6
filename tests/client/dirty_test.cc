// Memory that holds part of a restore that did not succeed, and cairn_resume, against a daemon played by the test.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tests/client/fake_daemon.h"
#include "tests/client/restore_fixture.h"

namespace cairn {
namespace {

class DirtyTest : public RestoringTest {
 protected:
  // The restore that comes: its first 5 of 20 pieces are copied.
  local::Request GiveSome(FakePeer& peer, bool fresh = true) {
    const local::Request restore = peer.Expect(local::Request::kRestore);
    EXPECT_FALSE(restore.dirty());
    peer.Answer(restore, PlanFor(restore, fresh), fresh ? image_.fd() : -1);
    Ready(peer, restore, 5);
    WaitCopied(peer, 5);
    return restore;
  }
  void GiveSomeThenRetry(FakePeer& peer) { peer.Refuse(GiveSome(peer), local::RETRY, "rank 1: no whole copy"); }
  void GiveAll(FakePeer& peer, bool fresh, local::Tier tier = local::TIER_CACHE) {
    const local::Request restore = peer.Expect(local::Request::kRestore);
    peer.Answer(restore, PlanFor(restore, fresh), fresh ? image_.fd() : -1);
    Ready(peer, restore, 20);
    WaitCopied(peer, 20);
    End(peer, restore, tier);
  }
  static void TellLatest(FakePeer& peer, std::uint64_t dataset, std::uint64_t step, bool dirty = false) {
    const local::Request latest = peer.Expect(local::Request::kLatest);
    EXPECT_EQ(latest.dirty(), dirty);
    local::Reply reply;
    reply.mutable_latest()->set_dataset(dataset);
    reply.mutable_latest()->set_step(step);
    peer.Answer(latest, std::move(reply));
  }
  static void TellNothing(FakePeer& peer, bool dirty) {
    const local::Request latest = peer.Expect(local::Request::kLatest);
    EXPECT_EQ(latest.dirty(), dirty);
    peer.Refuse(latest, local::NOT_FOUND, "nothing to restart from");
  }
  static void AcceptCheckpoint(FakePeer& peer) {
    const local::Request begin = peer.Expect(local::Request::kOutputBegin);
    EXPECT_FALSE(begin.dirty());
    local::Reply begun;
    begun.mutable_output_begin()->set_dataset(30);
    peer.Answer(begin, std::move(begun));
  }
  int ProtectAnew() { return cairn_protect(session_, 3, data_.data(), data_.size(), CAIRN_INT32); }
  // Without a word to the daemon but that it is so.
  void ExpectRefused() {
    EXPECT_EQ(cairn_checkpoint(session_, 9, nullptr), CAIRN_DIRTY);
    EXPECT_TRUE(Says(session_, "variable 3 may hold part of a restore")) << cairn_error(session_);
    EXPECT_EQ(cairn_output_begin(session_, 9, CAIRN_CHECKPOINT, nullptr), CAIRN_DIRTY);
  }
};

TEST_F(DirtyTest, NothingIsBegunOrStartedAfreshUntilAllIsProtectedAnew) {
  Open([this](FakePeer& peer) {
    GiveSomeThenRetry(peer);
    TellNothing(peer, true);
    // The first checkpoint and the files of one are not even asked for; what nobody restarts from is.
    const local::Request output = peer.Expect(local::Request::kOutputBegin);
    EXPECT_TRUE(output.output_begin().output());
    EXPECT_EQ(peer.mark(), true);
    local::Reply begun;
    begun.mutable_output_begin()->set_dataset(21);
    peer.Answer(output, std::move(begun));
    peer.Answer(peer.Expect(local::Request::kOutputEnd), {});
    TellNothing(peer, false);
    EXPECT_EQ(peer.mark(), false);  // at once, not only with the next question
    AcceptCheckpoint(peer);
  });
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_RETRY);
  EXPECT_EQ(data_[0], expected_[0]);
  EXPECT_EQ(data_[4999], -1);
  EXPECT_EQ(cairn_latest(session_, nullptr, nullptr), CAIRN_DIRTY);
  ExpectRefused();
  EXPECT_EQ(cairn_output_begin(session_, 9, CAIRN_OUTPUT, nullptr), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(cairn_output_end(session_, 0), CAIRN_OK);
  ASSERT_EQ(ProtectAnew(), CAIRN_OK);
  EXPECT_EQ(cairn_latest(session_, nullptr, nullptr), CAIRN_NOT_FOUND);
  EXPECT_EQ(cairn_output_begin(session_, 9, CAIRN_CHECKPOINT, nullptr), CAIRN_OK) << cairn_error(session_);
}

TEST_F(DirtyTest, EveryVariableCountsThatWasProtectedThen) {
  Open([this](FakePeer& peer) {
    GiveSomeThenRetry(peer);
    TellNothing(peer, true);
    EXPECT_FALSE(peer.mark());
    AcceptCheckpoint(peer);
    EXPECT_EQ(peer.mark(), false);
  });
  std::int32_t more[10] = {}, later[10] = {};
  ASSERT_EQ(cairn_protect(session_, 4, more, 0, CAIRN_INT32), CAIRN_OK);
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_RETRY);
  ASSERT_EQ(ProtectAnew(), CAIRN_OK);
  ASSERT_EQ(cairn_protect(session_, 5, later, 10, CAIRN_INT32), CAIRN_OK);
  EXPECT_EQ(cairn_latest(session_, nullptr, nullptr), CAIRN_DIRTY);
  EXPECT_TRUE(Says(session_, "variable 4 ")) << cairn_error(session_);
  ASSERT_EQ(cairn_unprotect(session_, 4), CAIRN_OK);
  EXPECT_EQ(cairn_output_begin(session_, 9, CAIRN_CHECKPOINT, nullptr), CAIRN_OK) << cairn_error(session_);
}

TEST_F(DirtyTest, ARestoreThatSucceedsCleans) {
  Open([this](FakePeer& peer) {
    GiveSomeThenRetry(peer);
    GiveAll(peer, false);
    AcceptCheckpoint(peer);
  });
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_RETRY);
  EXPECT_EQ(cairn_restore(session_, 11), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(cairn_output_begin(session_, 9, CAIRN_CHECKPOINT, nullptr), CAIRN_OK) << cairn_error(session_);
}

TEST_F(DirtyTest, ADatasetOfFilesCleansNothing) {
  Open([this](FakePeer& peer) {
    GiveSomeThenRetry(peer);
    End(peer, peer.Expect(local::Request::kRestore));
  });
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_RETRY);
  EXPECT_EQ(cairn_restore(session_, 11), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(cairn_checkpoint(session_, 9, nullptr), CAIRN_DIRTY);
}

TEST_F(DirtyTest, WhatFailedBeforeAByteWasWrittenLeavesNoMark) {
  Open([this](FakePeer& peer) {
    peer.Refuse(peer.Expect(local::Request::kRestore), local::FAILED_PRECONDITION, "another type");
    const local::Request restore = peer.Expect(local::Request::kRestore);
    peer.Answer(restore, PlanFor(restore, true), image_.fd());
    peer.Refuse(restore, local::RETRY, "no whole copy");
    TellNothing(peer, false);
  });
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_FAILED_PRECONDITION);
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_RETRY);
  EXPECT_EQ(cairn_latest(session_, nullptr, nullptr), CAIRN_NOT_FOUND);
}

TEST_F(DirtyTest, TheDeadlineLeavesTheMark) {
  Open(
      [this](FakePeer& peer) {
        GiveSome(peer);
        while (peer.Receive()) {
        }
        EXPECT_EQ(peer.mark(), true);
      },
      300);
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_DEADLINE_EXCEEDED);
  ExpectRefused();
  EXPECT_EQ(cairn_close(session_), CAIRN_OK);
  session_ = nullptr;
}

TEST_F(DirtyTest, TheDeathOfTheDaemonLeavesTheMarkAndTheNextOneIsToldAtTheReconnect) {
  daemon_.Play([this] {
    FakePeer peer = daemon_.Accept();
    peer.Greet();
    GiveSome(peer);
    daemon_.CloseSocket();
  });
  OpenSession(300);
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_UNAVAILABLE);
  ExpectRefused();  // nobody is there to be asked
  daemon_.Join();
  daemon_.Reopen();
  daemon_.Play([this] {
    FakePeer peer = daemon_.Accept();
    EXPECT_TRUE(peer.Greet().dirty());
    TellNothing(peer, true);
  });
  EXPECT_EQ(cairn_latest(session_, nullptr, nullptr), CAIRN_DIRTY);
}

TEST_F(DirtyTest, AReconnectInTheMiddleOfARestoreTellsOfNothingYet) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet();
      GiveSome(first);
    }
    FakePeer peer = daemon_.Accept();
    EXPECT_FALSE(peer.Greet().dirty());
    GiveAll(peer, true);
    AcceptCheckpoint(peer);
  });
  OpenSession();
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(cairn_output_begin(session_, 9, CAIRN_CHECKPOINT, nullptr), CAIRN_OK) << cairn_error(session_);
}

TEST_F(DirtyTest, WhatTheDaemonSaysOfAnotherRankIsPassedOn) {
  Open([](FakePeer& peer) {
    peer.Refuse(peer.Expect(local::Request::kLatest), local::DIRTY, "the memory of rank 1");
    peer.Refuse(peer.Expect(local::Request::kBegin), local::DIRTY, "the memory of rank 1");
    peer.Expect(local::Request::kAbort);
    TellNothing(peer, false);
  });
  EXPECT_EQ(cairn_resume(session_, nullptr), CAIRN_DIRTY);
  EXPECT_TRUE(Says(session_, "rank 1")) << cairn_error(session_);
  EXPECT_EQ(cairn_checkpoint(session_, 9, nullptr), CAIRN_DIRTY);
  EXPECT_EQ(cairn_resume(session_, nullptr), CAIRN_NOT_FOUND) << "this rank's own memory is untouched";
}

// --- Reads ---

class DirtyReadTest : public DirtyTest {
 protected:
  // The value "v" of 5000 elements; the read of it has its first 5 pieces copied.
  void TellStored(FakePeer& peer) {
    local::Reply reply;
    local::Variable& value = *reply.mutable_stored()->add_variables();
    value.set_id(3);
    value.set_kind(local::VALUE);
    value.set_type(CAIRN_INT32);
    value.set_name("v");
    value.set_count(5000);
    value.set_bytes(20000);
    variables_ = reply.stored().variables();
    peer.Answer(peer.Expect(local::Request::kStored), std::move(reply));
  }
  local::Request Give(FakePeer& peer, bool fresh, std::uint64_t pieces) {
    const local::Request read = peer.Expect(local::Request::kRead);
    local::Reply plan;
    image_.Describe(plan.mutable_restore()->mutable_image(), fresh);
    *plan.mutable_restore()->mutable_plan() = MakeTestPlan(variables_, 1000);
    peer.Answer(read, std::move(plan), fresh ? image_.fd() : -1);
    Ready(peer, read, pieces);
    WaitCopied(peer, pieces);
    return read;
  }
  google::protobuf::RepeatedPtrField<local::Variable> variables_;
};

TEST_F(DirtyReadTest, ThatFailsLeavesTheMarkOnlyIfItGoesIntoProtectedMemory) {
  Open([this](FakePeer& peer) {
    TellStored(peer);
    peer.Refuse(Give(peer, true, 5), local::DATA_LOSS, "no whole copy");
    TellNothing(peer, false);
    End(peer, Give(peer, false, 20));
    TellNothing(peer, false);
    peer.Refuse(Give(peer, false, 5), local::DATA_LOSS, "no whole copy");
    TellNothing(peer, true);
  });
  std::vector<std::int32_t> other(5000);
  EXPECT_EQ(cairn_read(session_, 12, "v", nullptr, nullptr, other.data()), CAIRN_DATA_LOSS) << cairn_error(session_);
  EXPECT_EQ(cairn_latest(session_, nullptr, nullptr), CAIRN_NOT_FOUND);
  EXPECT_EQ(cairn_read(session_, 12, "v", nullptr, nullptr, data_.data()), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(cairn_latest(session_, nullptr, nullptr), CAIRN_NOT_FOUND);
  EXPECT_EQ(cairn_read(session_, 12, "v", nullptr, nullptr, data_.data()), CAIRN_DATA_LOSS);
  EXPECT_EQ(cairn_latest(session_, nullptr, nullptr), CAIRN_DIRTY);
}

// --- cairn_resume ---

class ResumeTest : public DirtyTest {
 protected:
  void ExpectRestored(std::uint64_t dataset, std::int32_t tier) {
    std::uint64_t restored = 99;
    std::int32_t from = 99;
    EXPECT_EQ(cairn_restored_dataset(session_, &restored), CAIRN_OK);
    EXPECT_EQ(cairn_restored_tier(session_, &from), CAIRN_OK);
    EXPECT_EQ(restored, dataset);
    EXPECT_EQ(from, tier);
  }
};

TEST_F(ResumeTest, GoesOnToOlderDatasetsUntilOneIsWhole) {
  Open([this](FakePeer& peer) {
    TellLatest(peer, 12, 40);
    GiveSomeThenRetry(peer);
    TellLatest(peer, 11, 30, true);
    GiveAll(peer, false, local::TIER_PREFIX);
  });
  std::uint64_t step = 7;
  EXPECT_EQ(cairn_resume(session_, &step), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(step, 30u);
  EXPECT_EQ(data_, expected_);
  ExpectRestored(11, CAIRN_TIER_PREFIX);
}

TEST_F(ResumeTest, SaysNotFoundOfUntouchedMemoryOnly) {
  Open([this](FakePeer& peer) {
    TellNothing(peer, false);
    TellLatest(peer, 12, 40);
    GiveSomeThenRetry(peer);
    TellNothing(peer, true);  // a daemon that heard "clean" would let the other ranks start afresh
    TellNothing(peer, false);
  });
  std::uint64_t step = 7;
  EXPECT_EQ(cairn_resume(session_, &step), CAIRN_NOT_FOUND);
  EXPECT_EQ(cairn_resume(session_, &step), CAIRN_DIRTY);
  EXPECT_EQ(step, 7u);
  ExpectRestored(0, CAIRN_TIER_NONE);
  ASSERT_EQ(ProtectAnew(), CAIRN_OK);
  EXPECT_EQ(cairn_resume(session_, &step), CAIRN_NOT_FOUND);
}

TEST_F(ResumeTest, ADatasetWithoutOneOfTheVariablesIsNoFreshStart) {
  Open([](FakePeer& peer) {
    TellLatest(peer, 12, 40);
    peer.Refuse(peer.Expect(local::Request::kRestore), local::NOT_FOUND, "variable 3 is not in dataset 12");
  });
  EXPECT_EQ(cairn_resume(session_, nullptr), CAIRN_FAILED_PRECONDITION);
  EXPECT_TRUE(Says(session_, "variable 3 is not in dataset 12")) << cairn_error(session_);
}

TEST_F(ResumeTest, OfADatasetOfFilesSaysWhichOne) {
  Open([](FakePeer& peer) {
    TellLatest(peer, 12, 40);
    End(peer, peer.Expect(local::Request::kRestore), local::TIER_CACHE);
  });
  EXPECT_EQ(cairn_resume(session_, nullptr), CAIRN_OK) << cairn_error(session_);
  ExpectRestored(12, CAIRN_TIER_CACHE);
}

}  // namespace
}  // namespace cairn

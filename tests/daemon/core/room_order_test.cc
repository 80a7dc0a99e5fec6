// Who gives way to whom in a cache that several runs share, stage by stage: daemon/core/cache_room.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/cache_room.h"
#include "daemon/core/door.h"
#include "daemon/core/flush_slots.h"
#include "daemon/core/image_store.h"
#include "daemon/core/run.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/by_hand.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using CoreRun = Run;  // a test has a Run of its own
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Nobody final : public Receiver {
 public:
  void Attach(std::shared_ptr<Connection>) override { ADD_FAILURE() << "a rank on another node"; }
  void Receive(const std::shared_ptr<Connection>&, std::unique_ptr<local::Request>) override {}
  void Detach(const std::shared_ptr<Connection>&) override {}
};

// Runs with one letter as their names. Nothing is done but what a test lets run: all is as it was put there.
class RoomOrderTest : public ::testing::Test {
 protected:
  RoomOrderTest() {
    by_hand_.context.config.flush.every = 0;
    by_hand_.context.config.cache.keep = 1;
    by_hand_.context.config.cache.grace_ms = 1;
  }
  void TearDown() override {
    by_hand_.context.phase = Phase::kStopping;
    for (const auto& run : runs_) run->Stop();
  }

  CoreRun& Make(const std::string& name) {
    auto prefix = Prefix::Open(by_hand_.prefix_disk, "/" + name);
    EXPECT_OK(prefix.status());
    auto folder = CacheFolder::Open(by_hand_.cache_disk, "/cache", "me", name, (*prefix)->run(), "/" + name);
    EXPECT_OK(folder.status());
    EXPECT_OK((*folder)->Load().status());
    runs_.push_back(std::make_unique<CoreRun>(
        CoreRun::Shared{.context = by_hand_.context,
                        .room = room_,
                        .images = images_,
                        .slots = slots_,
                        .receiver = nobody_,
                        .others_turn = [](const CoreRun&) {},
                        .on_newer_launch = [](CoreRun&, const LaunchRecord&) {},
                        .on_confirmed = [](CoreRun&, const std::vector<ConfirmedLaunch>&) {},
                        .answer_node = [](const CoreRun&, const peer::Question&,
                                          const Questions::Then& then) { then(Unavailable("nobody asks")); },
                        .on_change = [] {}},
        (*prefix)->run(), "/" + name, *std::move(folder)));
    runs_.back()->gate.Reached(*std::move(prefix), "/" + name, /*read_only=*/false);
    by_hand_.RunAll();
    return *runs_.back();
  }
  static DatasetPtr Put(CoreRun& run, DatasetId id, std::uint64_t bytes, Place prefix = Place::kAbsent) {
    Dataset dataset;
    dataset.id = id;
    dataset.launch = 1;
    dataset.step = 10 * id;
    dataset.nranks = 1;
    dataset.parts.resize(1);
    dataset.parts[0].state = Part::State::kStored;
    dataset.parts[0].catalogue.add_file()->set_bytes(dataset.parts[0].bytes = bytes);
    dataset.cache = Place::kWhole;
    dataset.prefix = prefix;
    return run.ledger.Adopt(dataset);
  }
  static void GoesOn(CoreRun& run) { run.ledger.SessionLive(run.ledger.Enter(2, "job.2", 1, "secret"), 0); }
  // Its prefix is gone, and cache.grace is over.
  void Lose(CoreRun& run) {
    ASSERT_OK(RemoveTree(by_hand_.prefix_disk, run.gate.path()));
    run.watch.Look();
    by_hand_.RunAll();
    by_hand_.Turn(std::chrono::seconds(1));
    ASSERT_TRUE(run.watch.MayForget());
  }
  void Full() { room_.SetBytesMax(room_.BytesUsed()); }

  // What goes for so many bytes of `run`, stage by stage: "+" behind what is beyond cache.keep.
  std::vector<std::string> Goes(CoreRun& run, std::uint64_t bytes, const DatasetPtr& spare = nullptr) const {
    const absl::StatusOr<CacheRoom::Room> room = room_.Find(run.cache, bytes, spare);
    if (!room.ok()) return {std::string(room.status().message())};
    std::vector<std::string> all;
    for (const RunCache* owner : room->spares) all.push_back("spares of " + owner->run_name());
    std::size_t count = 0;
    for (const auto& [owner, dataset] : room->leaving) {
      all.push_back(owner->run_name() + std::to_string(dataset->id) + (++count <= room->unneeded ? "+" : ""));
    }
    for (const auto& [owner, aside] : room->asides) all.push_back(aside.name + " of " + owner->run_name());
    return all;
  }

  ByHand by_hand_;
  CacheRoom room_{by_hand_.context};
  Nobody nobody_;
  ImageStore images_{by_hand_.context, 64 << 20};
  FlushSlots slots_{0};
  std::vector<std::unique_ptr<CoreRun>> runs_;
};

// Something for each stage. Run a is at work, b's prefix is lost, c is over.
class RoomStagesTest : public RoomOrderTest {
 protected:
  void SetUp() override {
    a_ = &Make("a");
    b_ = &Make("b");
    c_ = &Make("c");
    forgettable_ = Put(*b_, 1, 800);
    ASSERT_NO_FATAL_FAILURE(Lose(*b_));
    Put(*c_, 1, 1600, Place::kWhole);
    GoesOn(*a_);
    ASSERT_EQ(a_->cache.spares().RemoveFolder(9, kSpares, [] {}), kSpares);
    beyond_keep_ = Put(*a_, 1, 100);
    older_ = Put(*a_, 2, 400);
    newest_ = Put(*a_, 3, 3200, Place::kWhole);
    using enum Aside::Kind;
    a_->cache.asides().Are({{.kind = kTaken, .name = "taken.7.1", .bytes = 50, .since_us = 1},
                            {.kind = kDamaged, .name = "damaged.8.1", .bytes = 200, .since_us = 3}});
    c_->cache.asides().Are({{.kind = kDamaged, .name = "damaged.9.1", .bytes = 150, .since_us = 2}});
    Full();
  }
  static constexpr std::uint64_t kSpares = 2000;
  CoreRun *a_ = nullptr, *b_ = nullptr, *c_ = nullptr;
  DatasetPtr beyond_keep_, older_, forgettable_, newest_;
};

TEST_F(RoomStagesTest, EachStageGoesBeforeTheNextOne) {
  EXPECT_THAT(Goes(*a_, 0), IsEmpty());
  EXPECT_THAT(Goes(*a_, 1), ElementsAre("spares of a"));
  EXPECT_THAT(Goes(*a_, 2000), ElementsAre("spares of a"));
  EXPECT_THAT(Goes(*a_, 2001), ElementsAre("spares of a", "a1+"));
  EXPECT_THAT(Goes(*a_, 2101), ElementsAre("spares of a", "a1+", "damaged.9.1 of c"));
  EXPECT_THAT(Goes(*a_, 2251), ElementsAre("spares of a", "a1+", "damaged.9.1 of c", "damaged.8.1 of a"));
  EXPECT_THAT(Goes(*a_, 2451), ElementsAre("spares of a", "a1+", "a2", "damaged.9.1 of c", "damaged.8.1 of a"));
  EXPECT_THAT(Goes(*a_, 2851), ElementsAre("spares of a", "a1+", "a2", "b1", "damaged.9.1 of c", "damaged.8.1 of a"));
  EXPECT_THAT(Goes(*a_, 3651),
              ElementsAre("spares of a", "a1+", "a2", "b1", "c1", "damaged.9.1 of c", "damaged.8.1 of a"));
  EXPECT_THAT(Goes(*a_, 5251),
              ElementsAre("spares of a", "a1+", "a2", "b1", "c1", "a3", "damaged.9.1 of c", "damaged.8.1 of a"));
  EXPECT_THAT(Goes(*a_, 8450).back(), "damaged.8.1 of a");
  EXPECT_TRUE(absl::IsResourceExhausted(room_.Find(a_->cache, 8451).status())) << "what is whole stays aside";
}

TEST_F(RoomStagesTest, WhatIsLeftIsBeyondWhatIsWanted) {
  for (const std::uint64_t bytes : {1, 2001, 2101, 2251, 2451, 2851, 3651, 5251}) {
    ASSERT_OK_AND_ASSIGN(const CacheRoom::Room room, room_.Find(a_->cache, bytes));
    std::uint64_t gone = room.spares.empty() ? 0 : kSpares;
    for (const auto& [owner, dataset] : room.leaving) gone += dataset->bytes_here();
    for (const auto& [owner, aside] : room.asides) gone += aside.bytes;
    EXPECT_EQ(room.left, gone - bytes) << bytes;
  }
}

// Its bytes are room, whatever stage it is of, and it does not leave besides.
TEST_F(RoomStagesTest, TheSpareIsNotAmongThoseThatLeave) {
  for (const DatasetPtr& spare : {beyond_keep_, older_, newest_}) {
    const std::string name = "a" + std::to_string(spare->id);
    EXPECT_THAT(Goes(*a_, spare->bytes_here(), spare), IsEmpty()) << name;
    const std::vector<std::string> all = Goes(*a_, 8450, spare);
    EXPECT_THAT(all.front(), "spares of a") << name;
    EXPECT_EQ(std::ranges::count_if(all, [&](const std::string& one) { return one.starts_with(name); }), 0) << name;
    EXPECT_EQ(all.size(), 7u) << name;
    EXPECT_TRUE(absl::IsResourceExhausted(room_.Find(a_->cache, 8451, spare).status())) << name;
  }
  const std::vector<std::string> all = Goes(*b_, 8450, forgettable_);
  EXPECT_EQ(std::ranges::count(all, "b1"), 0);
  EXPECT_EQ(all.size(), 7u);
}

TEST_F(RoomStagesTest, SparesAsidesAndWhatIsBeyondKeepCountAsRemovable) {
  EXPECT_EQ(room_.BytesRemovable(), kSpares + 100 + 200 + 150);
  by_hand_.context.config.cache.keep = 2;
  EXPECT_EQ(room_.BytesRemovable(), kSpares + 200 + 150);
  by_hand_.context.config.cache.keep = 0;
  EXPECT_EQ(room_.BytesRemovable(), kSpares + 100 + 200 + 150) << "a2 stays, to be written over";
  by_hand_.context.config.ftiff.differential = false;
  EXPECT_EQ(room_.BytesRemovable(), kSpares + 100 + 400 + 200 + 150);
}

// Each has something beyond cache.keep, something older, and a newest one that is on the prefix.
class RoomOfTwoTest : public RoomOrderTest {
 protected:
  void SetUp() override {
    for (const char* name : {"a", "b"}) {
      CoreRun& run = Make(name);
      Put(run, 1, 100);
      Put(run, 2, 100);
      Put(run, 3, 100, Place::kWhole);
    }
    Full();
  }
  std::vector<std::string> AllFor(CoreRun& run) { return Goes(run, 600); }
};

TEST_F(RoomOfTwoTest, InEachStageTheRunThatWantsRoomGivesWayFirst) {
  EXPECT_THAT(AllFor(*runs_[0]), ElementsAre("a1+", "b1+", "a2", "b2", "a3", "b3"));
  EXPECT_THAT(AllFor(*runs_[1]), ElementsAre("b1+", "a1+", "b2", "a2", "b3", "a3"));
  EXPECT_THAT(Goes(*runs_[1], 300), ElementsAre("b1+", "a1+", "b2"));
}

TEST_F(RoomOfTwoTest, OfTheNewestThoseWithoutAnApplicationGoFirst) {
  GoesOn(*runs_[1]);
  EXPECT_THAT(AllFor(*runs_[0]), ElementsAre("a1+", "b1+", "a2", "b2", "a3", "b3"));
  EXPECT_THAT(AllFor(*runs_[1]), ElementsAre("b1+", "a1+", "b2", "a2", "a3", "b3"));
}

}  // namespace
}  // namespace cairn

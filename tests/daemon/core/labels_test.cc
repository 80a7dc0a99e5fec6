// What is only captured, over the death of the daemon: it dies at any instant of a launch (before any operation of the
// disk, any change of what is held, any piece that a client copies, any of its own jobs, and before and after a client
// hears anything), and the next daemon takes up what was left. What all ranks had heard to be captured is whole then;
// whatever is whole has its own bytes. Repeat one with CAIRN_TEST_SEED=<order>.<instant>; CAIRN_SOAK tries each instant
// of many orders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/data/image.h"
#include "daemon/data/plan.h"
#include "proto/admin.pb.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"
#include "storage/base/sealed_memory.h"
#include "storage/base/user_name.h"
#include "storage/format/ftiff/layout.h"
#include "tests/daemon/core/core_harness.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/lasting_deposits.h"
#include "tests/daemon/core/simulated_daemon.h"
#include "tests/support/fake_disk.h"
#include "tests/support/sparser.h"

namespace cairn {
namespace {

using ::testing::IsEmpty;

constexpr std::uint32_t kRanks = 2;
constexpr std::uint64_t kSteps = 4;    // each rank has three images at most: the fourth uses one again
constexpr std::uint64_t kGivenUp = 3;  // by the last rank

std::vector<Memory> MemoryOf(std::uint64_t step) {
  std::vector<Memory> memory;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    memory.push_back({ValueOf(1, "step", step), PlainOf(2, RandomBytes(10 * step + rank, 20'000 + 100 * rank))});
  }
  return memory;
}

// A launch of a daemon that dies at one of its instants, the disk, what is held, and what clients were told by then.
class Launch {
 public:
  // `die_at`: an instant, counted from 1; 0: it does not die.
  Launch(const CoreHarness& harness, std::uint64_t seed, std::uint64_t die_at)
      : prefix_(harness.prefix()), die_at_(die_at), daemon_(std::make_unique<SimulatedDaemon>(seed, disk, disk)) {
    daemon_->config = harness.config;
    daemon_->user = UserName();
    daemon_->deposits = held;
    disk.SetHook([this](FakeOp, const std::string&) { Instant(); });
    held->before_change = [this] { Instant(); };
  }
  ~Launch() {
    disk.SetHook(nullptr);
    held->before_change = [] {};
    held->Free();
  }

  // Once.
  void Run() {
    const absl::Status started = daemon_->Start();
    EXPECT_TRUE(started.ok() || dead_) << started;
    for (Rank rank = 0; rank < kRanks && !dead_ && daemon_->running(); ++rank)
      daemon_->Spawn([this, rank] { RunRank(rank); });
    while (!dead_ && !daemon_->idle() && daemon_->Advance()) Instant();
    EXPECT_EQ(daemon_->waits_in_vain(), 0u);
    if (!std::exchange(dead_, true)) {  // from now on only destructors run
      EXPECT_THAT(held->AllSealed(), IsEmpty()) << "all is local: nobody is to take it up";
      held->Die();
    }
    if (daemon_->running()) daemon_->Kill();
    while (!daemon_->idle() && daemon_->Advance()) {
    }
    daemon_ = nullptr;  // and with it its clock
  }

  std::uint64_t instants() const { return instants_; }
  // The datasets that all ranks have heard to be captured, with their steps.
  std::map<DatasetId, std::uint64_t> promised() const {
    std::map<DatasetId, std::uint64_t> promised;
    for (const auto& [id, told] : told_) {
      if (told.ranks.size() == kRanks) promised[id] = told.step;
    }
    return promised;
  }

  FakeDisk disk;
  const std::shared_ptr<LastingDeposits> held = std::make_shared<LastingDeposits>();

 private:
  struct Told {
    std::uint64_t step = 0;
    std::set<Rank> ranks;
  };

  // What is sealed is true at each of them, hence for who finds it afterwards.
  void Instant() {
    if (dead_) return;
    ++instants_;
    if (die_at_ == 0) {  // the same instants, looked at once
      for (const LastingDeposits::Sealed& sealed : held->AllSealed()) ExpectTrue(sealed);
    }
    if (instants_ != die_at_) return;
    dead_ = true;
    disk.CrashAt(1);
    held->Die();
  }

  static void ExpectTrue(const LastingDeposits::Sealed& sealed) {
    const catalogue::Catalogue& catalogue = sealed.part.catalogue;
    const Memory memory = MemoryOf(catalogue.step()).at(catalogue.rank());
    std::vector<ftiff::VariableSize> sizes;
    for (const Protected& one : memory) sizes.push_back({.id = one.variable.id(), .bytes = one.bytes.size()});
    const auto plan = MakePlan(sealed.part.layout, sizes, sealed.image.size());
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const PlanPiece& piece : *plan) {
      ASSERT_EQ(std::memcmp(sealed.image.data() + piece.image_offset,
                            memory[piece.variable].bytes.data() + piece.variable_offset, piece.bytes),
                0)
          << "a label says that dataset " << catalogue.dataset() << " of rank " << catalogue.rank()
          << " is in an image that holds something else";
    }
  }

  void Heard(Rank rank, const local::Reply& reply, const UniqueFd* descriptor) {
    Instant();  // it dies with the word on its lips
    if (descriptor != nullptr) inodes_[reply.begin().image().id()] = LookAtMemory(descriptor->get())->inode;
    if (die_at_ == 0 && reply.has_begin()) ExpectNotSealed(inodes_[reply.begin().image().id()]);
    if (dead_ || !reply.has_committed() || CodeOfReply(reply) != local::OK) return;
    Told& told = told_[reply.committed().dataset()];
    told.step = steps_[rank];
    told.ranks.insert(rank);
    if (die_at_ == 0) ExpectSealed(rank, reply.committed().dataset());
    Instant();
  }

  // Its bytes may change as soon as the client hears that it has it.
  void ExpectNotSealed(std::uint64_t inode) const {
    for (const LastingDeposits::Sealed& sealed : held->AllSealed()) {
      EXPECT_NE(sealed.inode, inode) << "dataset " << sealed.part.catalogue.dataset() << " is said to be in an image "
                                     << "that is given to rank " << sealed.part.catalogue.rank() << " again";
    }
  }

  void ExpectSealed(Rank rank, DatasetId dataset) const {
    for (const LastingDeposits::Sealed& sealed : held->AllSealed()) {
      if (sealed.part.catalogue.dataset() == dataset && sealed.part.catalogue.rank() == rank) return;
    }
    ADD_FAILURE() << "rank " << rank << " hears that dataset " << dataset << " is captured, and no label says so";
  }

  void RunRank(Rank rank) {
    if (dead_) return;  // before it has begun
    FakeClient client(*daemon_, {.on_reply = [this, rank](const local::Reply& reply, const UniqueFd* descriptor) {
      Heard(rank, reply, descriptor);
    }});
    std::uint64_t& step = steps_[rank];
    try {
      if (CodeOfReply(client.Open({.rank = rank, .nranks = kRanks, .prefix = prefix_})) != local::OK) return;
      DatasetId last = 0;
      for (step = 1; step <= kSteps; ++step) {
        const Memory memory = MemoryOf(step)[rank];
        if (CodeOfReply(client.Begin(step, memory)) != local::OK) continue;  // the other rank gave it up already
        for (std::size_t piece = 0; piece < static_cast<std::size_t>(client.plan().bytes_size()); ++piece) {
          Instant();
          client.Fill(memory, piece, piece + 1);
        }
        Instant();
        if (step == kGivenUp && rank + 1 == kRanks) {
          client.Abort("for the test");
          continue;
        }
        const local::Reply committed = client.Commit();
        if (CodeOfReply(committed) == local::OK) last = committed.committed().dataset();
      }
      client.Wait(last, local::LOCAL);
    } catch (const SimulatedDaemon::Lost&) {
    }
  }

  const std::string prefix_;
  const std::uint64_t die_at_;
  std::unique_ptr<SimulatedDaemon> daemon_;
  bool dead_ = false;
  std::uint64_t instants_ = 0;
  std::array<std::uint64_t, kRanks> steps_{};      // that each rank is at
  std::map<std::uint64_t, std::uint64_t> inodes_;  // of images, by their ids
  std::map<DatasetId, Told> told_;
};

void ExpectRestores(Ranks& ranks, DatasetId id, std::uint64_t step) {
  const std::vector<Memory> memory = MemoryOf(step);
  std::vector<Memory> back;
  for (const Memory& one : memory) back.push_back(Blank(one));
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) {
    ASSERT_EQ(one.code, local::OK) << "dataset " << id << ": " << one.message;
  }
  for (Rank rank = 0; rank < kRanks; ++rank) {
    EXPECT_TRUE(back[rank][0].bytes == memory[rank][0].bytes && back[rank][1].bytes == memory[rank][1].bytes)
        << "dataset " << id << ", rank " << rank << " is not step " << step;
  }
}

class LabelsTest : public ::testing::Test {
 protected:
  LabelsTest() {
    harness_.config.image.bytes_max = 16 << 20;
    harness_.config.cache.node = "node7";  // whose cache it is in each life
  }

  std::uint64_t InstantsOf(std::uint64_t seed) {
    std::filesystem::create_directories(harness_.prefix());  // links are resolved there, on whichever disk it lies
    Launch whole(harness_, seed, 0);
    whole.Run();
    EXPECT_EQ(whole.promised().size(), kSteps - 1);
    return whole.instants();
  }

  // The machine lives on: what the daemon has written is there, synced or not. `random`: of the next life's troubles.
  void TakeUp(Launch& launch, std::mt19937_64& random) {
    launch.disk.SyncAll();
    launch.disk.Restart(random());
    launch.held->Revive();
    CoreHarness harness(&launch.disk, &launch.disk);
    harness.config = harness_.config;
    harness.clocks.wall = [] { return std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'000)); };
    harness.shared_prefix = harness_.prefix();
    harness.deposits = launch.held;
    ASSERT_NO_FATAL_FAILURE(StartTwice(harness, launch, random));
    EXPECT_THAT(launch.held->AllSealed(), IsEmpty()) << "what is taken up is let go of";
    Ranks ranks(harness, kRanks, "the next");
    std::map<DatasetId, std::uint64_t> whole;
    for (const admin::DatasetRow& row : harness.List()) {
      EXPECT_NE(row.step(), kGivenUp) << "what was given up has come back: " << row.state();
      if (row.state() != "whole" && row.state() != "superseded") continue;
      whole[row.dataset()] = row.step();
      ExpectRestores(ranks, row.dataset(), row.step());
    }
    for (const auto& [id, step] : launch.promised()) {
      EXPECT_TRUE(whole.contains(id) && whole[id] == step) << "dataset " << id << ", step " << step << " is lost";
    }
    EXPECT_NE(ranks.Checkpoint(1000, MemoryOf(1000)), 0u);
  }

  // The one that takes up may die, too.
  static void StartTwice(CoreHarness& harness, Launch& launch, std::mt19937_64& random) {
    if (random() % 2 == 0) {
      launch.disk.CrashAt(1 + random() % 150);
      if (harness.Start().ok()) harness.Stop();
      launch.disk.SyncAll();
      launch.disk.Restart(random());
    }
    const absl::Status started = harness.Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  CoreHarness harness_;  // for its folders and settings
};

TEST_F(LabelsTest, AtAnyInstantWhatWasPromisedIsLeftAndNothingElse) {
  constexpr std::uint64_t kOfEach = 40 / kSparser;  // instants of each order
  const char* given = std::getenv("CAIRN_TEST_SEED");
  unsigned long long order = 1, instant = 0;
  if (given != nullptr) {
    ASSERT_EQ(std::sscanf(given, "%llu.%llu", &order, &instant), 2);
  }
  const std::uint64_t last = given != nullptr ? order : std::getenv("CAIRN_SOAK") != nullptr ? 20 : 4;
  for (std::uint64_t seed = order; seed <= last; ++seed) {
    const std::uint64_t instants = InstantsOf(seed);
    ASSERT_GT(instants, 300u);
    const std::uint64_t step = std::getenv("CAIRN_SOAK") != nullptr ? 1 : instants / kOfEach;
    const std::uint64_t end = instant != 0 ? instant : instants;
    for (std::uint64_t die_at = instant != 0 ? instant : seed; die_at <= end && !HasFailure(); die_at += step) {
      SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed) + "." + std::to_string(die_at));
      std::mt19937_64 random(1'000'000 * seed + die_at);
      Launch launch(harness_, seed, die_at);
      launch.Run();
      TakeUp(launch, random);
    }
  }
}

// Its parts are stored; what the others have not even begun keeps none of its images.
TEST_F(LabelsTest, ARankThatIsAheadDoesNotWaitForTheOthers) {
  std::filesystem::create_directories(harness_.prefix());
  constexpr std::uint64_t kAhead = 5;  // more than it has images
  FakeDisk disk;
  const auto held = std::make_shared<LastingDeposits>();
  {
    SimulatedDaemon daemon(1, disk, disk);
    daemon.config = harness_.config;
    daemon.user = UserName();
    daemon.deposits = held;
    const absl::Status started = daemon.Start();
    ASSERT_TRUE(started.ok()) << started;
    std::vector<std::unique_ptr<FakeClient>> ranks;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      ranks.push_back(std::make_unique<FakeClient>(daemon));
      EXPECT_EQ(CodeOfReply(ranks.back()->Open({.rank = rank, .nranks = kRanks, .prefix = harness_.prefix()})),
                local::OK);
    }
    DatasetId last = 0;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      for (std::uint64_t step = 1; step <= kAhead && !HasFailure(); ++step) {
        const local::Reply committed = ranks[rank]->Checkpoint(step, MemoryOf(step)[rank]);
        EXPECT_EQ(CodeOfReply(committed), local::OK) << "rank " << rank << ", step " << step;
        last = committed.committed().dataset();
      }
    }
    for (auto& rank : ranks) EXPECT_EQ(CodeOfReply(rank->Wait(last, local::LOCAL)), local::OK);
    EXPECT_THAT(held->AllSealed(), IsEmpty());
    ranks.clear();
    EXPECT_TRUE(daemon.StopCleanly());
  }
  held->Free();
}

}  // namespace
}  // namespace cairn

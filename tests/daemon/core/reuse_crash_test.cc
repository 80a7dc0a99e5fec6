// The power fails at any operation of checkpoints that start from older files: whatever was reported at `local` can be
// restored bit for bit afterwards, unless a newer one can. Repeat one with CAIRN_TEST_SEED=<operation>; CAIRN_SOAK
// tries every operation.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

constexpr std::uint32_t kRanks = 2;
constexpr std::uint64_t kSteps = 6;

// Ten blocks of 4 KiB and a bit, of which each step changes two.
std::vector<Memory> MemoryOf(std::uint64_t step) {
  std::vector<Memory> memory;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    std::string bytes = RandomBytes(rank, 42'000);
    for (std::uint64_t done = 1; done <= step; ++done) {
      bytes.replace(done * 4099 % 41'000, 16, RandomBytes(100 * done + rank, 16));
      bytes.replace(done * 9001 % 41'000, 16, RandomBytes(200 * done + rank, 16));
    }
    memory.push_back({ValueOf(1, "step", step), PlainOf(2, std::move(bytes))});
  }
  return memory;
}

struct Promise {
  DatasetId id = 0;
  std::uint64_t step = 0;
};

// The level, unless the power fails first.
bool IsLocal(FakeDisk& disk, FakeClient& client, DatasetId id) {
  const std::uint64_t call = client.SendWait(id, local::LOCAL);
  while (!client.HasReply(call)) {
    if (disk.crashed()) return false;
  }
  return CodeOfReply(client.Next(call)) == local::OK;
}

// Checkpoints until it is through or the power fails: what was promised last, and how many were written in part only
// or, if `in_full`, into an older file.
Promise RunLaunch(CoreHarness& harness, FakeDisk& disk, bool in_full, int* reused) {
  Promise last;
  std::set<std::uint64_t> inodes;
  std::vector<std::unique_ptr<FakeClient>> clients;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    clients.push_back(std::make_unique<FakeClient>(harness));
    if (CodeOfReply(clients[rank]->Open({.rank = rank, .nranks = kRanks})) != local::OK) return last;
  }
  for (std::uint64_t step = 1; step <= kSteps && !disk.crashed(); ++step) {
    const std::vector<Memory> memory = MemoryOf(step);
    DatasetId id = 0;
    for (Rank rank = 0; rank < kRanks; ++rank) {
      const local::Reply done = clients[rank]->Checkpoint(step, memory[rank]);
      if (CodeOfReply(done) != local::OK) return last;
      id = done.committed().dataset();
    }
    if (!IsLocal(disk, *clients[0], id)) return last;
    last = {.id = id, .step = step};
    const admin::DatasetRow row = harness.Row(id);
    if (!in_full) {
      *reused += row.bytes_written() < row.bytes() ? 1 : 0;
    } else if (const auto info = disk.Info(harness.CachedFile(id, 0)); info.ok()) {
      *reused += inodes.insert(info->inode).second ? 0 : 1;
      EXPECT_GE(row.bytes_written(), row.bytes());
    }
  }
  return last;
}

void ExpectRestores(Ranks& ranks, DatasetId id, std::uint64_t step) {
  const std::vector<Memory> memory = MemoryOf(step);
  std::vector<Memory> back;
  for (const Memory& one : memory) back.push_back(Blank(one));
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) {
    ASSERT_EQ(one.code, local::OK) << "dataset " << id << ": " << one.message;
  }
  for (Rank rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(NumberIn(back[rank][0]), step);
    EXPECT_TRUE(back[rank][1].bytes == memory[rank][1].bytes) << "dataset " << id << ", rank " << rank;
  }
}

void ExpectKept(CoreHarness& harness, const Promise& promise) {
  EXPECT_FALSE(harness.Warned("damaged"));
  Ranks ranks(harness, kRanks, "after the crash");
  const local::Reply latest = ranks[0].Latest();
  if (promise.id != 0) {
    ASSERT_SAYS(latest, local::OK, "");
    EXPECT_GE(latest.latest().dataset(), promise.id);
  }
  for (const admin::DatasetRow& row : harness.List()) {
    if (row.state() == "whole") ExpectRestores(ranks, row.dataset(), row.step());
  }
  for (std::uint64_t step = 50; step < 53; ++step) {  // and it goes on
    const DatasetId next = ranks.Checkpoint(step, MemoryOf(step));
    EXPECT_SAYS(ranks[1].Wait(next, local::LOCAL), local::OK, "");
    if (step == 52) ExpectRestores(ranks, next, step);
  }
}

// Files that share extents with the one before, or take turns, and are compared or written over in full.
struct How {
  std::string name;
  bool shares_extents = false;
  bool differential = true;
};

class ReuseCrashTest : public ::testing::TestWithParam<How> {
 protected:
  struct Machine {
    explicit Machine(const How& how) : disk({.shares_extents = how.shares_extents}) {
      harness.config.ftiff.differential = how.differential;
      harness.config.cache.keep = 1;
      harness.config.image.bytes_max = 16 << 20;
    }
    FakeDisk disk;
    CoreHarness harness{&disk, &disk};
  };
};

TEST_P(ReuseCrashTest, TheNewestReportedOneOrANewerOneIsWhole) {
  std::uint64_t operations = 0;
  {
    Machine machine(GetParam());
    int reused = 0;
    ASSERT_TRUE(machine.harness.Start().ok());
    EXPECT_EQ(RunLaunch(machine.harness, machine.disk, !GetParam().differential, &reused).step, kSteps);
    EXPECT_GE(reused, 3);
    operations = machine.disk.operations();
  }
  std::uint64_t first = 1, stride = 1;
  if (const char* given = std::getenv("CAIRN_TEST_SEED")) {
    first = std::strtoull(given, nullptr, 10);
    stride = operations;
  } else if (std::getenv("CAIRN_SOAK") == nullptr) {
    stride = std::max<std::uint64_t>(operations / 40, 1);
    first = 1 + std::random_device()() % stride;
  }
  for (std::uint64_t at = first; at <= operations && !HasFailure(); at += stride) {
    SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(at));
    Machine machine(GetParam());
    machine.disk.CrashAt(at);
    Promise promise;
    int reused = 0;
    if (machine.harness.Start().ok())
      promise = RunLaunch(machine.harness, machine.disk, !GetParam().differential, &reused);
    machine.harness.Stop();
    machine.disk.Restart(at);
    const absl::Status started = machine.harness.Start();
    ASSERT_TRUE(started.ok()) << started;
    ExpectKept(machine.harness, promise);
  }
}

// Any one operation fails, the machine lives on.
TEST_P(ReuseCrashTest, AnyOneFailureSpoilsNothingThatWasReported) {
  const int rounds = std::getenv("CAIRN_SOAK") != nullptr ? 1000 : 30;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const char* given = std::getenv("CAIRN_TEST_SEED");
    const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
    SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    Machine machine(GetParam());
    ASSERT_TRUE(machine.harness.Start().ok());
    machine.disk.FailOn({.nth = random() % 500 + 1});
    int reused = 0;
    const Promise promise = RunLaunch(machine.harness, machine.disk, !GetParam().differential, &reused);
    machine.disk.ClearFaults();
    ExpectKept(machine.harness, promise);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, ReuseCrashTest,
                         ::testing::Values(How{.name = "Cloned", .shares_extents = true}, How{.name = "Alternating"},
                                           How{.name = "AlternatingInFull", .differential = false}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cairn

// Kill anything at any time. Clients log outside the daemon what they were promised; afterwards each promise is held
// against what is there. Instants are drawn from CAIRN_TEST_SEED; CAIRN_SOAK=1 draws many more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>

#include "storage/base/ids.h"
#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/io/posix_disk.h"
#include "storage/place/cache/cache_folder.h"
#include "tests/integration/harness.h"
#include "tests/integration/promises.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kClient[] = "tests/integration/crash_client";

int Instants() {
  return std::getenv("CAIRN_SOAK") != nullptr ? 500 : 20;
}

class KillTest : public ::testing::Test {
 protected:
  void SetUp() override { RecordProperty("seed", std::to_string(seed_)); }
  void TearDown() override {
    if (HasFailure()) std::cerr << "CAIRN_TEST_SEED=" << seed_ << " repeats this\n";
  }

  std::string promises() const { return harness.folder() + "/promises"; }

  Process::Options Client(std::vector<std::string> arguments, const std::string& launch, int rank = 0, int nranks = 1,
                          const std::string& promise_file = "") {
    arguments.insert(arguments.end(), {"--promises", promise_file.empty() ? promises() : promise_file});
    Process::Options options = harness.Client(kClient, std::move(arguments));
    options.environment["CAIRN_LAUNCH"] = launch;
    options.environment["CAIRN_RANK"] = std::to_string(rank);
    options.environment["CAIRN_NRANKS"] = std::to_string(nranks);
    return options;
  }

  std::chrono::microseconds Draw(int microseconds_max) {
    return std::chrono::microseconds(std::uniform_int_distribution<int>(0, microseconds_max)(random_));
  }

  // No daemon runs: what the cache has. Load, as at a start of the daemon, has tidied up.
  absl::StatusOr<CacheLoad> LoadCache() {
    std::unique_ptr<PosixDisk> disk = MakePosixDisk();
    CAIRN_ASSIGN_OR_RETURN(const auto found, CacheFolder::Find(*disk, harness.cache(), UserFolder()));
    if (found.size() != 1) return FailedPrecondition("{} runs are in the cache", found.size());
    CAIRN_ASSIGN_OR_RETURN(const auto folder, CacheFolder::Open(*disk, harness.cache(), UserFolder(), found[0].run_name,
                                                                found[0].run, found[0].prefix));
    return folder->Load();
  }
  std::uint64_t NewestWholeStep() {
    const auto load = LoadCache();
    EXPECT_OK(load);
    return load.ok() && !load->whole.empty() ? load->whole.rbegin()->second.descriptor.step.value_or(0) : 0;
  }
  catalogue::FileEntry NewestFile() {
    const auto load = LoadCache();
    EXPECT_OK(load);
    if (!load.ok() || load->whole.empty() || load->whole.rbegin()->second.ranks.at(0).file_size() != 1) return {};
    return load->whole.rbegin()->second.ranks[0].file(0);
  }

  // No daemon runs: everything that the cache lists is whole, byte for byte, and everything promised is listed.
  void ExpectCacheHolds(const std::map<DatasetId, std::uint64_t>& promised) {
    std::unique_ptr<PosixDisk> disk = MakePosixDisk();
    ASSERT_OK_AND_ASSIGN(const auto found, CacheFolder::Find(*disk, harness.cache(), UserFolder()));
    ASSERT_EQ(found.size(), 1u);
    ASSERT_OK_AND_ASSIGN(const auto folder, CacheFolder::Open(*disk, harness.cache(), UserFolder(), found[0].run_name,
                                                              found[0].run, found[0].prefix));
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
    EXPECT_THAT(load.warnings, ::testing::IsEmpty());
    for (const auto& [id, dataset] : load.whole) {
      for (const catalogue::Catalogue& rank : dataset.ranks) {
        for (const catalogue::FileEntry& file : rank.file()) {
          EXPECT_OK(VerifyFile(*disk, folder->DatasetPath(id) + "/" + file.name(), file)) << "dataset " << id;
        }
      }
    }
    for (const auto& [id, step] : promised) {
      EXPECT_TRUE(load.whole.contains(id)) << "dataset " << id << " (step " << step << ") was promised";
    }
  }

  std::string UserFolder() const {
    for (const auto& entry : std::filesystem::directory_iterator(harness.cache())) {
      if (entry.is_directory()) return entry.path().filename();
    }
    return "";
  }

  const std::uint64_t seed_ = TestSeed();
  std::mt19937_64 random_{seed_};
  Harness harness;
};

TEST_F(KillTest, TheDaemonAtAnyInstantWhileWritingAndFlushing) {
  const std::vector<std::string> flags = {"--cache-keep", "1000000"};
  ASSERT_TRUE(harness.StartDaemon(flags));
  auto client = Process::Start(Client({"--mib", "4", "--steps", "1000000", "--flush-every", "3"}, "one launch"));
  std::size_t expected = 0;
  for (int instant = 0; instant < Instants(); ++instant) {
    // The same process goes on: its next checkpoints work with the next daemon.
    expected = ReadPromises(promises()).by_kind["local"].size() + 2;
    ASSERT_TRUE(AwaitPromises(promises(), "local", expected))
        << "instant " << instant << ": " << (client->running() ? "" : client->Wait().output);
    LetItWorkFor(Draw(60000));
    harness.KillDaemon();
    ASSERT_TRUE(harness.StartDaemon(flags));
  }
  ASSERT_TRUE(AwaitPromises(promises(), "local", expected + 2));
  client->Signal(SIGKILL);
  client->Wait();
  harness.KillDaemon();
  const Promises promised = ReadPromises(promises());
  EXPECT_THAT(promised.lost, ::testing::IsEmpty());
  ExpectCacheHolds(promised.by_kind.at("local"));
}

TEST_F(KillTest, TheDaemonAtAnyInstantWhileEvicting) {
  const std::vector<std::string> flags = {"--cache-keep", "0", "--flush-every", "0"};
  ASSERT_TRUE(harness.StartDaemon(flags));
  auto client = Process::Start(Client({"--mib", "2", "--steps", "1000000", "--no-check"}, "one launch"));
  std::size_t expected = 0;
  for (int instant = 0; instant < Instants(); ++instant) {
    expected = ReadPromises(promises()).by_kind["local"].size() + 2;
    ASSERT_TRUE(AwaitPromises(promises(), "local", expected)) << "instant " << instant;
    LetItWorkFor(Draw(60000));
    harness.KillDaemon();
    ASSERT_TRUE(harness.StartDaemon(flags));
  }
  client->Signal(SIGKILL);
  client->Wait();
  harness.KillDaemon();
  const std::uint64_t newest = NewestStep(ReadPromises(promises()).by_kind.at("local"));
  ExpectCacheHolds({});
  ASSERT_TRUE(harness.StartDaemon(flags));
  const Ending ending = RunProcess(Client({"--mib", "2", "--steps", "0"}, "the next launch"));
  ASSERT_EQ(ending.exit_code, 0) << ending.output;
  std::istringstream words(ending.output);
  std::string word;
  std::uint64_t step = 0;
  words >> word >> step;
  EXPECT_EQ(word, "resumed") << ending.output;
  EXPECT_GE(step, newest);
}

// Two files take turns, each getting what changed: the one that is not being written is always whole.
TEST_F(KillTest, TheDaemonAtAnyInstantWhileWritingDifferences) {
  const std::vector<std::string> flags = {"--cache-keep", "1", "--flush-every", "0"};
  ASSERT_TRUE(harness.StartDaemon(flags));
  auto client = Process::Start(Client({"--mib", "4", "--steps", "1000000", "--no-check", "--sparse"}, "one launch"));
  std::size_t expected = 0;
  for (int instant = 0; instant < Instants(); ++instant) {
    expected = ReadPromises(promises()).by_kind["local"].size() + 3;
    ASSERT_TRUE(AwaitPromises(promises(), "local", expected)) << "instant " << instant;
    LetItWorkFor(Draw(60000));
    harness.KillDaemon();
    const std::uint64_t newest = NewestStep(ReadPromises(promises()).by_kind.at("local"));
    EXPECT_GE(NewestWholeStep(), newest) << "instant " << instant;
    ASSERT_TRUE(harness.StartDaemon(flags));
  }
  ASSERT_TRUE(AwaitPromises(promises(), "local", ReadPromises(promises()).by_kind["local"].size() + 3));
  client->Signal(SIGKILL);
  client->Wait();
  harness.KillDaemon();
  const std::uint64_t newest = NewestStep(ReadPromises(promises()).by_kind.at("local"));
  ExpectCacheHolds({});
  ASSERT_TRUE(harness.StartDaemon(flags));
  const Ending ending = RunProcess(Client({"--mib", "4", "--steps", "0", "--sparse"}, "the next launch"));
  ASSERT_EQ(ending.exit_code, 0) << ending.output;  // bit for bit
  std::istringstream words(ending.output);
  std::string word;
  std::uint64_t step = 0, dataset = 0;
  int tier = 0;
  words >> word >> step >> dataset >> tier;
  EXPECT_EQ(word, "resumed") << ending.output;
  EXPECT_GE(step, newest);
  EXPECT_EQ(tier, static_cast<int>(Tier::kCache)) << ending.output;
  harness.KillDaemon();
  const auto entry = NewestFile();
  EXPECT_GT(entry.bytes(), 4u << 20);
  EXPECT_GT(entry.bytes_written(), 0u);
  EXPECT_LT(entry.bytes_written(), entry.bytes() / 2);
}

TEST_F(KillTest, TheDaemonAtAnyInstantWhileRestoring) {
  const std::vector<std::string> flags = {"--flush-every", "0"};
  ASSERT_TRUE(harness.StartDaemon(flags));
  ASSERT_EQ(RunProcess(Client({"--mib", "64", "--steps", "1"}, "writes")).exit_code, 0);
  for (int instant = 0; instant < Instants(); ++instant) {
    auto client = Process::Start(Client({"--mib", "64", "--steps", "0"}, "reads " + std::to_string(instant)));
    LetItWorkFor(Draw(150000));
    harness.KillDaemon();
    ASSERT_TRUE(harness.StartDaemon(flags));
    const Ending ending = client->Wait();
    ASSERT_EQ(ending.exit_code, 0) << "instant " << instant << ": " << ending.output;
    EXPECT_THAT(ending.output, HasSubstr("resumed 1 ")) << "instant " << instant;
  }
}

TEST_F(KillTest, AClientInEveryWindowOfACheckpoint) {
  ASSERT_TRUE(harness.StartDaemon({"--flush-every", "0"}));
  constexpr int kMib = 16;
  std::uint64_t newest = 0;
  for (int window = 0; window < kMib; ++window) {
    const std::string launch = "dies in window " + std::to_string(window);
    const Ending ending = RunProcess(Client({"--mib", std::to_string(kMib), "--steps", "1000", "--guard-step",
                                             std::to_string(newest + 2), "--guard-mib", std::to_string(window)},
                                            launch));
    EXPECT_EQ(ending.signal, SIGSEGV) << ending.output;
    // It went on from the last whole one (or fresh), never from what the one before had half handed over.
    if (window == 0) {
      EXPECT_THAT(ending.output, HasSubstr("fresh"));
    } else {
      EXPECT_THAT(ending.output, HasSubstr("resumed " + std::to_string(newest) + " "));
    }
    newest = NewestStep(ReadPromises(promises()).by_kind["local"]);
    EXPECT_EQ(newest, static_cast<std::uint64_t>(window + 1));
  }
  EXPECT_EQ(RunProcess(Client({"--mib", std::to_string(kMib), "--steps", "0"}, "last")).exit_code, 0);
  harness.KillDaemon();
  ExpectCacheHolds({});
}

TEST_F(KillTest, AClientAtAnyInstant) {
  ASSERT_TRUE(harness.StartDaemon({"--flush-every", "2"}));
  std::uint64_t newest = 0;
  for (int instant = 0; instant < Instants(); ++instant) {
    auto client =
        Process::Start(Client({"--mib", "8", "--steps", "1000000", "--no-check"}, "launch " + std::to_string(instant)));
    ASSERT_TRUE(AwaitPromises(promises(), "local", ReadPromises(promises()).by_kind["local"].size() + 1))
        << (client->running() ? "" : client->Wait().output);
    LetItWorkFor(Draw(60000));
    client->Signal(SIGKILL);
    const Ending ending = client->Wait();
    if (instant > 0) {
      std::istringstream words(ending.output);
      std::string word;
      std::uint64_t step = 0;
      words >> word >> step;
      EXPECT_EQ(word, "resumed") << ending.output;
      EXPECT_GE(step, newest) << "instant " << instant;
    }
    newest = NewestStep(ReadPromises(promises()).by_kind["local"]);
  }
}

TEST_F(KillTest, ALostRankFailsTheDatasetForTheOthersByName) {
  ASSERT_TRUE(harness.StartDaemon({"--flush-every", "0"}));
  const std::string other = harness.folder() + "/promises-1";
  auto survivor = Process::Start(Client({"--mib", "4", "--steps", "3"}, "two ranks", 0, 2));
  auto victim = Process::Start(
      Client({"--mib", "4", "--steps", "3", "--guard-step", "2", "--guard-mib", "2"}, "two ranks", 1, 2, other));
  EXPECT_EQ(victim->Wait().signal, SIGSEGV);
  const Ending ending = survivor->Wait();
  EXPECT_EQ(ending.exit_code, 0) << ending.output;
  const Promises promised = ReadPromises(promises());
  EXPECT_EQ(promised.by_kind.at("local").size(), 1u);
  ASSERT_GE(promised.refused.size(), 2u);
  EXPECT_THAT(promised.refused[0], HasSubstr("rank 1"));
  // Restarted, both ranks go on from what both had handed over.
  auto first = Process::Start(Client({"--mib", "4", "--steps", "0"}, "again", 0, 2));
  auto second = Process::Start(Client({"--mib", "4", "--steps", "0"}, "again", 1, 2, other));
  EXPECT_THAT(first->Wait().output, HasSubstr("resumed 1 "));
  EXPECT_THAT(second->Wait().output, HasSubstr("resumed 1 "));
}

}  // namespace
}  // namespace cairn::testing

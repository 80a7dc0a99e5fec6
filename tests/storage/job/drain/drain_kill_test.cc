// A drain that is killed at instants of a seed's choice, again and again: nothing lost, nothing half, nothing twice.
#include <absl/synchronization/mutex.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <set>
#include <string>

#include "storage/base/path.h"
#include "tests/storage/job/drain/drain_fixture.h"

namespace cairn {
namespace {

using testing::DrainFixture;

class DrainKillTest : public DrainFixture {
 protected:
  void Fill(std::mt19937& random) {
    for (int i = 0; i < 60; ++i) {
      std::string bytes(random() % 3000, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      Put("d" + std::to_string(i % 3) + "/f" + std::to_string(i), bytes);
    }
    Put("large", std::string(6 << 20, static_cast<char>(random())));
    Put("d0/linked", "linked");
    std::filesystem::create_hard_link(from_ + "/d0/linked", from_ + "/d1/second");
  }

  // A drain of its own process, which dies before call number `calls`. True: it came to its end.
  bool DrainUntil(int calls) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::atomic<int> left{calls};
      const auto count = [&](std::string_view, const std::string&) {
        if (--left == 0) ::kill(::getpid(), SIGKILL);
        return absl::OkStatus();
      };
      source_hooks_.before = target_hooks_.before = count;
      Hook();
      const auto disk = MakePosixDisk();
      auto drain = Drain::Open(*disk, options_);
      if (!drain.ok()) ::_exit(3);
      const auto report = (*drain)->Pass(stop_);
      ::_exit(report.ok() && report->complete() ? 0 : 4);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
    }
    return WIFEXITED(status);
  }

  // Whatever is there under a final name is whole.
  void ExpectWhole(const std::map<std::string, std::string>& source) {
    for (const auto& [name, bytes] : Files(to_)) {
      const auto known = source.find(name);
      ASSERT_TRUE(known != source.end()) << name << " is at the target, and never was in the source";
      ASSERT_TRUE(bytes == known->second) << name;
    }
  }
};

TEST_F(DrainKillTest, AtFiftyInstantsNothingIsLostHalfOrTwice) {
  int killed = 0;
  for (std::uint32_t seed = 1; killed < 50; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::filesystem::remove_all(from_);
    std::filesystem::remove_all(to_);
    std::filesystem::create_directory(from_);
    std::filesystem::create_directory(to_);
    Fill(random);
    const auto source = Files(from_);
    options_.delete_source = seed % 2 == 0;
    for (bool ended = false; !ended && !HasFatalFailure();) {
      ended = DrainUntil(static_cast<int>(random() % 1200 + 1));
      killed += ended ? 0 : 1;
      ExpectWhole(source);
      auto both = Files(from_);
      for (const auto& [name, bytes] : Files(to_)) both.emplace(name, bytes);
      for (const auto& [name, bytes] : source) {
        const std::string folder = ParentOf("/" + name).substr(1);
        const std::string aside = (folder.empty() ? "" : folder + "/") + ".cairn-drained." + BaseOf("/" + name);
        ASSERT_TRUE(both.contains(name) || both.contains(aside)) << name << " is lost";
      }
    }
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_TRUE(Files(to_) == source);
    EXPECT_TRUE(std::filesystem::equivalent(to_ + "/d0/linked", to_ + "/d1/second"));
    if (options_.delete_source) {
      EXPECT_TRUE(Files(from_).empty());
    }
    // And nothing is left of the work.
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Own())) {
      if (entry.path().string().find("/work/") != std::string::npos) {
        EXPECT_FALSE(entry.is_regular_file());
      }
    }
  }
}

// After a power failure a name may only be there if the bytes are: so each name comes after a sync that comes after
// the last change of its file, and the source is only touched when the names are durable, too.
TEST_F(DrainKillTest, NamesComeAfterSyncedBytesAndDeletionAfterSyncedNames) {
  for (const int files : {5, 300}) {
    for (int i = 0; i < files; ++i) Put("d/f" + std::to_string(i), std::string(i + 1, 'x'));
    Put("d/large", std::string(5 << 20, 'y'));
    options_.delete_source = true;
    absl::Mutex mutex;
    std::set<std::string> unsynced, names;  // files; folders
    bool renamed_unsynced = false, removed_unsynced = false;
    int renames = 0, removals = 0;
    target_hooks_.before = [&](std::string_view what, const std::string& path) {
      const absl::MutexLock lock(&mutex);
      if (what == "write" || what == "create" || what == "truncate") unsynced.insert(path);
      if (what == "sync") unsynced.erase(path);
      // All that is written while this is under way may be on either side; nothing is renamed meanwhile.
      if (what == "sync all") {
        unsynced.clear();
        names.clear();
      }
      if (what == "sync folder") names.erase(path);
      if (what == "rename to") {
        renames += path == "d" ? 0 : 1;  // the folder, once
        // With one thread, and no more files than one batch has, nothing is copied while names are given.
        renamed_unsynced |= !unsynced.empty();
        names.insert(ParentOf("/" + path).substr(1));
      }
      return absl::OkStatus();
    };
    source_hooks_.before = [&](std::string_view what, const std::string&) {
      const absl::MutexLock lock(&mutex);
      if (what == "rename to" || what == "remove") {
        ++removals;
        removed_unsynced |= !names.empty();
      }
      return absl::OkStatus();
    };
    Hook();
    options_.parallel = 1;
    EXPECT_TRUE(Drained().complete());
    EXPECT_EQ(renames, files + 1);
    EXPECT_EQ(removals, 2 * (files + 1));
    EXPECT_FALSE(renamed_unsynced);
    EXPECT_FALSE(removed_unsynced);
  }
}

}  // namespace
}  // namespace cairn

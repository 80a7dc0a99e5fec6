// Several processes, each on a node of its own, change one record in any order of their disk operations, while some of
// them die, stall or lose power, and with locks or without.
#include <absl/synchronization/mutex.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "storage/format/kvtree/tree.h"
#include "storage/place/prefix/changed_file.h"
#include "storage/place/prefix/file_stamp.h"
#include "tests/support/fake_disk.h"
#include "tests/support/fiber.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

// The shared disk as a process on one node sees it: under a path of its own, so that its lock within the process is
// its own, too. Each operation lets others go first. A dead process changes nothing any more.
class NodeDisk final : public Disk {
 public:
  NodeDisk(FakeDisk& disk, std::string mount) : disk_(disk), mount_(std::move(mount)) {}
  void Die() { dead_ = true; }

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenOptions options) override {
    CAIRN_RETURN_IF_ERROR(Turn());
    return disk_.Open(At(path), options);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    CAIRN_RETURN_IF_ERROR(Turn());
    return disk_.Rename(At(from), At(to));
  }
  absl::Status RenameNew(const std::string& from, const std::string& to) override {
    CAIRN_RETURN_IF_ERROR(Turn());
    return disk_.RenameNew(At(from), At(to));
  }
  absl::Status Link(const std::string& existing, const std::string& link) override {
    CAIRN_RETURN_IF_ERROR(Turn());
    return disk_.Link(At(existing), At(link));
  }
  absl::Status Clone(const std::string&, const std::string&) override { return Unavailable("not here"); }
  absl::Status Symlink(const std::string&, const std::string&) override { return Unavailable("not here"); }
  absl::StatusOr<std::string> ReadLink(const std::string&) override { return Unavailable("not here"); }
  absl::StatusOr<std::string> RealPath(const std::string&) override { return Unavailable("not here"); }
  absl::Status Remove(const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(Turn());
    return disk_.Remove(At(path));
  }
  absl::Status MakeDirectory(const std::string& path, std::uint32_t mode) override {
    CAIRN_RETURN_IF_ERROR(Turn());
    return disk_.MakeDirectory(At(path), mode);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(Turn());
    return disk_.SyncDirectory(At(path));
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(Turn());
    return disk_.List(At(path));
  }
  absl::StatusOr<FileInfo> Info(const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(Turn());
    return disk_.Info(At(path));
  }
  absl::Status SetModeAndTimes(const std::string&, std::uint32_t, timespec, timespec) override {
    return Unavailable("not here");
  }
  absl::StatusOr<std::uint64_t> FreeBytes(const std::string& path) override { return disk_.FreeBytes(At(path)); }
  absl::StatusOr<std::uint64_t> FileSystemType(const std::string& path) override {
    return disk_.FileSystemType(At(path));
  }

 private:
  absl::Status Turn() {
    if (dead_) return Unavailable("the process is dead");
    if (Fiber::InOne()) Fiber::Pause();
    return dead_ ? Unavailable("the process is dead") : absl::OkStatus();
  }
  std::string At(const std::string& path) const { return "/p" + path.substr(mount_.size()); }

  FakeDisk& disk_;
  const std::string mount_;
  bool dead_ = false;
};

struct History {
  std::set<std::string> promised;   // lines that a process was told are there
  std::set<std::string> attempted;  // all lines that may be there
  bool power_failed = false;        // it may take changes that nobody was promised, and that is told
  std::vector<std::string> broken;
  FileStamp::Time now{};  // goes on with each reading, so that stamps soon prove something

  void Warned(const std::string& text) {
    if (!power_failed || text.find("are gone") == std::string::npos) broken.push_back("warned: " + text);
  }
};

std::set<std::string> LinesOf(const kvtree::Tree& tree) {
  std::set<std::string> lines;
  if (const kvtree::Tree* table = tree.Find("DSET")) {
    for (const auto& [line, child] : table->elements()) lines.insert(std::string(line));
  }
  return lines;
}

void Compare(const std::set<std::string>& promised, const kvtree::Tree& tree, const char* when, History& history) {
  const std::set<std::string> lines = LinesOf(tree);
  for (const std::string& line : promised) {
    if (!lines.contains(line)) history.broken.push_back(fmt::format("{}: lost {}", when, line));
  }
  for (const std::string& line : lines) {
    if (!history.attempted.contains(line)) history.broken.push_back(fmt::format("{}: {} is nobody's", when, line));
  }
}

class Process {
 public:
  Process(FakeDisk& disk, int number, History& history)
      : number_(number),
        mount_(fmt::format("/node{}", number)),
        disk_(disk, mount_),
        file_(disk_, mount_ + "/.scr", "index",
              {.pause =
                   [](std::chrono::milliseconds) {
                     if (Fiber::InOne()) Fiber::Pause();
                   },
               .check = {},
               .remake = {},
               .warn = [&history](const std::string& text) { history.Warned(text); },
               .now = [&history] { return history.now += FileStamp::kTick / 2; }}),
        history_(history) {}

  void Write(int changes) {
    for (int i = 0; i < changes; ++i) {
      const std::string line = fmt::format("{}.{}", number_, i);
      history_.attempted.insert(line);
      const absl::Status made = file_.Make([&](kvtree::Tree& tree) {
        tree.At("DSET").At(line).Set("STATE", "1");
        tree.Set("CURRENT", line);
        return absl::OkStatus();
      });
      if (made.ok()) history_.promised.insert(line);
      if (!made.ok() && !absl::IsUnavailable(made)) history_.broken.push_back(made.ToString());
    }
  }
  void Look(int times) {
    for (int i = 0; i < times; ++i) {
      const std::set<std::string> promised = history_.promised;
      const auto tree = file_.Read();
      if (tree.ok()) Compare(promised, *tree, "a read", history_);
      if (!tree.ok() && !absl::IsUnavailable(tree.status())) history_.broken.push_back(tree.status().ToString());
    }
  }
  void Die() { disk_.Die(); }

 private:
  const int number_;
  const std::string mount_;
  NodeDisk disk_;
  ChangedFile file_;
  History& history_;
};

// Its operations do nothing from now on: it comes to its end by itself.
void Kill(Process& process, Fiber& fiber) {
  process.Die();
  while (!fiber.at_end()) fiber.Resume();
}

struct Mix {
  bool locks = true;
  bool kills = false;
  bool power = false;
};

History Run(std::uint64_t seed, const Mix& mix) {
  std::mt19937_64 random(seed);
  History history;
  FakeDisk disk;
  EXPECT_TRUE(disk.MakeDirectory("/p", 0755).ok());
  EXPECT_TRUE(disk.MakeDirectory("/p/.scr", 0755).ok());
  disk.SyncAll();
  if (!mix.locks) {
    disk.FailOn({.op = FakeOp::kLock, .times = UINT64_MAX, .status = absl::FailedPreconditionError("no locks")});
  }
  std::vector<std::unique_ptr<Process>> processes;
  std::vector<std::unique_ptr<Fiber>> fibers;
  for (int i = 0; i < 4; ++i) {
    processes.push_back(std::make_unique<Process>(disk, i, history));
    Process& process = *processes.back();
    fibers.push_back(std::make_unique<Fiber>([&process, i] { i < 3 ? process.Write(6) : process.Look(12); }));
  }
  if (mix.power) disk.CrashAt(1 + random() % 600);
  for (;;) {
    std::vector<std::size_t> able;
    for (std::size_t i = 0; i < fibers.size(); ++i) {
      if (!fibers[i]->at_end()) able.push_back(i);
    }
    if (able.empty() || disk.crashed()) break;
    const std::size_t chosen = able[random() % able.size()];
    if (mix.kills && random() % 400 == 0) {
      Kill(*processes[chosen], *fibers[chosen]);
      continue;
    }
    // Some go on for a while, so that others stall.
    for (std::uint64_t steps = random() % 8 == 0 ? random() % 150 : 1; steps > 0; --steps) {
      if (!fibers[chosen]->at_end() && !disk.crashed()) fibers[chosen]->Resume();
    }
  }
  for (std::size_t i = 0; i < fibers.size(); ++i) {
    Kill(*processes[i], *fibers[i]);
  }
  history.power_failed = mix.power;
  if (mix.power) disk.Restart(seed);
  disk.ClearFaults();

  Process late(disk, 9, history);
  late.Look(1);
  late.Write(2);
  late.Look(1);
  // The record itself, as SCR reads it.
  ChangedFile scr(disk, "/p/.scr", "index", {.pause = {}, .check = {}, .remake = {}, .warn = [](std::string) {}});
  const auto tree = scr.Read();
  if (tree.ok()) Compare(history.promised, *tree, "at the end", history);
  return history;
}

void RunAll(const Mix& mix) {
  // One thread is all the processes, and so has the mutexes of all.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const char* const given = std::getenv("CAIRN_TEST_SEED");
  const bool soak = std::getenv("CAIRN_SOAK") != nullptr;
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const std::uint64_t runs = given != nullptr ? 1 : soak ? 50000 : 1000;
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    const History history = Run(seed, mix);
    ASSERT_TRUE(history.broken.empty()) << "CAIRN_TEST_SEED=" << seed << ": " << history.broken.front();
    ASSERT_FALSE(history.promised.empty());
  }
}

TEST(ChangedFileModelTest, NothingIsLostWithLocks) {
  RunAll({});
}
TEST(ChangedFileModelTest, NothingIsLostWithoutLocks) {
  RunAll({.locks = false});
}
TEST(ChangedFileModelTest, NothingPromisedIsLostWhenProcessesDie) {
  RunAll({.locks = false, .kills = true});
}
TEST(ChangedFileModelTest, NothingPromisedIsLostWhenThePowerFails) {
  RunAll({.locks = false, .power = true});
}

}  // namespace
}  // namespace cairn

#include "daemon/drain/watch_folders.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "daemon/drain/folder_state.h"
#include "storage/base/caught.h"
#include "storage/base/clock.h"
#include "storage/base/size_text.h"
#include "storage/base/status.h"
#include "storage/io/io_priority.h"
#include "storage/io/posix_disk.h"
#include "storage/job/drain/watch.h"

namespace cairn {
namespace {

constexpr std::size_t kNamesLogged = 5;

// This thread alone, and those that it makes: Linux has both for each. Nobody who waits needs what they hold: the disk
// is the drain's own. A kernel that refuses leaves them as they are.
void GoToTheBackground(const DrainFolder& folder) {
  const auto self = static_cast<id_t>(::syscall(SYS_gettid));
  const int nice = static_cast<int>(folder.nice);
  if (::getpriority(PRIO_PROCESS, self) < nice) ::setpriority(PRIO_PROCESS, self, nice);
  const absl::StatusOr<IoPriority> priority = IoPriority::Parse(folder.io_priority);
  if (priority.ok()) priority->Use().IgnoreError();
}

DrainWatchOptions OptionsOf(const DrainFolder& folder) {
  DrainWatchOptions options;
  options.drain.from = folder.from;
  options.drain.to = folder.to;
  options.drain.settle_ms = folder.settle_ms;
  options.drain.marker = folder.marker;
  options.drain.delete_source = folder.delete_source;
  options.drain.check = folder.check;
  options.drain.parallel = folder.parallel;
  options.drain.bytes_per_s = folder.bytes_per_s;
  options.drain.on_thread = [folder] { GoToTheBackground(folder); };
  options.look_ms = folder.look_ms;
  return options;
}

// Each pass that did something, and each trouble once.
class FolderLog {
 public:
  explicit FolderLog(std::string from) : from_(std::move(from)) {}

  void Passed(const DrainReport& report) {
    const std::uint64_t brought = report.files + report.symlinks + report.hard_links;
    if (brought + report.deleted > 0) {
      spdlog::info("drain of {}: {} files, {} brought, {} deleted from there, {} waiting", from_, brought,
                   SizeText(report.bytes), report.deleted, report.waiting.count());
    }
    std::string failed;
    std::size_t named = 0;
    for (const auto* list : {&report.failed, &report.damaged, &report.left_out}) {
      for (const drain::Told& told : list->list()) {
        if (++named > kNamesLogged) break;
        failed += fmt::format("; {}: {}", Printable(told.path), Printable(told.why));
      }
    }
    const std::uint64_t count = report.failed.count() + report.damaged.count() + report.left_out.count();
    failed = count == 0 ? "" : fmt::format("{} not brought{}", count, failed);
    if (failed == failed_) return;
    failed_ = failed;
    if (!failed.empty()) spdlog::warn("drain of {}: {}", from_, failed);
  }

  void Trouble(const absl::Status& status) const {
    if (status.ok()) {
      spdlog::info("drain of {}: goes on", from_);
    } else {
      spdlog::warn("drain of {}: {}; it is tried again", from_, Printable(MessageOf(status)));
    }
  }

 private:
  // One line, whatever others have called their files.
  static std::string Printable(std::string_view text) {
    std::string printable(text);
    for (char& c : printable) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
    return printable;
  }

  const std::string from_;
  std::string failed_;
};

}  // namespace

// Shared with its thread, which may be left behind.
struct WatchFolders::Watch {
  Watch(const DrainFolder& what, std::shared_ptr<BackgroundBudget> counted)
      : folder(what), background(std::move(counted)) {}

  const DrainFolder folder;
  const std::shared_ptr<BackgroundBudget> background;
  std::atomic<bool> stop{false};
  FolderState state;
  absl::Mutex mutex;
  absl::CondVar ended_changed;
  bool ended ABSL_GUARDED_BY(mutex) = false;

  void Run() {
    GoToTheBackground(folder);
    const auto disk = MakePosixDisk({.engine = {.may_hang = true}});
    FolderLog log(folder.from);
    DrainWatchOptions options = OptionsOf(folder);
    options.drain.background = background;
    options.drain.progress = &state.progress();
    options.passed = [&](const DrainReport& report) {
      state.Passed(report);
      log.Passed(report);
    };
    options.trouble = [&](const absl::Status& status) {
      state.Trouble(status);
      log.Trouble(status);
    };
    WatchAndDrain(*disk, options, stop);
  }
  void TellToEnd() {
    stop = true;
    state.Ending();
  }
  void End(const absl::Status& how) {
    state.Ended(how);
    const absl::MutexLock lock(&mutex);
    ended = true;
    ended_changed.SignalAll();
  }
  bool WaitForEnd(std::chrono::steady_clock::time_point end) {
    const absl::MutexLock lock(&mutex);
    while (!ended) {
      const auto left = end - SteadyNow();
      if (left <= left.zero()) return false;
      ended_changed.WaitWithTimeout(&mutex, absl::FromChrono(left));
    }
    return true;
  }
};

WatchFolders::~WatchFolders() {
  Stop();
}

// `after`: the one before, of the same folder: it has the target's lock until it has ended.
std::shared_ptr<WatchFolders::Watch> WatchFolders::Begin(const DrainFolder& folder,
                                                         std::shared_ptr<Watch> after) const {
  auto watch = std::make_shared<Watch>(folder, background_);
  std::thread([watch, after = std::move(after)]() mutable {
    const absl::Status ran = Caught([&] {
      while (after && !watch->stop && !after->WaitForEnd(SteadyNow() + std::chrono::milliseconds(100))) {
      }
      after.reset();
      if (!watch->stop) watch->Run();
    });
    if (!ran.ok()) spdlog::error("drain of {}: ended: {}", watch->folder.from, MessageOf(ran));
    watch->End(ran);
  }).detach();
  return watch;
}

void WatchFolders::Set(const std::vector<DrainFolder>& folders) {
  // Told when nobody waits for the lock any more: a log may hang.
  for (const DrainFolder& folder : Change(folders)) spdlog::info("drains {} to {}", folder.from, folder.to);
}

std::vector<DrainFolder> WatchFolders::Change(const std::vector<DrainFolder>& folders) {
  std::vector<DrainFolder> begun;
  const absl::MutexLock lock(&mutex_);
  std::map<std::string, std::shared_ptr<Watch>> before = std::exchange(watches_, {});
  std::erase_if(ending_, [](const auto& watch) { return watch->WaitForEnd(SteadyNow()); });
  for (const DrainFolder& folder : folders) {
    auto known = before.find(folder.from);
    if (known != before.end() && known->second->folder == folder) {
      watches_[folder.from] = std::move(known->second);
      before.erase(known);
      continue;
    }
    std::shared_ptr<Watch> after = known == before.end() ? nullptr : known->second;
    if (after) after->TellToEnd();
    watches_[folder.from] = Begin(folder, std::move(after));
    begun.push_back(folder);
  }
  for (auto& [from, watch] : before) {
    watch->TellToEnd();
    ending_.push_back(std::move(watch));
  }
  return begun;
}

void WatchFolders::Stop() {
  const absl::MutexLock lock(&mutex_);
  for (const auto& [from, watch] : watches_) watch->TellToEnd();
  for (const auto& watch : ending_) watch->TellToEnd();
}

bool WatchFolders::WaitForEnd(std::uint64_t ms_max) {
  const auto end = SteadyNow() + std::chrono::milliseconds(ms_max);
  std::vector<std::shared_ptr<Watch>> ending, watches;
  {
    const absl::MutexLock lock(&mutex_);
    ending = ending_;
    for (const auto& [from, watch] : watches_) watches.push_back(watch);
  }
  bool all = true;
  for (const auto& watch : ending) all = watch->WaitForEnd(end) && all;
  for (const auto& watch : watches) {
    if (watch->WaitForEnd(end)) continue;
    spdlog::warn("drain of {}: hangs, and is left behind: the next daemon goes on", watch->folder.from);
    all = false;
  }
  return all;
}

void WatchFolders::Describe(admin::StatusReply& reply) const {
  std::vector<std::shared_ptr<Watch>> watches;
  {
    const absl::MutexLock lock(&mutex_);
    for (const auto& [from, watch] : watches_) watches.push_back(watch);
    for (const auto& watch : ending_) {
      if (!watch->WaitForEnd(SteadyNow())) watches.push_back(watch);
    }
  }
  for (const auto& watch : watches) {
    admin::DrainStatus& status = *reply.add_drains();
    status.set_from(watch->folder.from);
    status.set_to(watch->folder.to);
    watch->state.Describe(status);
  }
}

}  // namespace cairn

#include "storage/job/drain/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "storage/base/clock.h"
#include "storage/base/status.h"
#include "storage/io/errno_status.h"
#include "storage/job/drain/scan.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kEvents =
    IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK;
constexpr std::uint32_t kRootEvents = IN_DELETE_SELF | IN_MOVE_SELF;
constexpr std::size_t kDepthMax = 128;
constexpr std::uint64_t kStopLookMs = 100;

std::string Joined(const std::string& folder, std::string_view name) {
  return folder.empty() ? std::string(name) : fmt::format("{}/{}", folder, name);
}

class FolderWatchImpl final : public FolderWatch {
 public:
  FolderWatchImpl(UniqueFd fd, std::string root) : fd_(std::move(fd)), root_(std::move(root)) {}

  absl::Status Renew() override { return Watch("", 0); }

  Events Wait(std::uint64_t ms) override {
    Events events;
    pollfd poll{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&poll, 1, static_cast<int>(std::min<std::uint64_t>(ms, 3'600'000))) <= 0) return events;
    alignas(inotify_event) std::array<char, 64 << 10> buffer;
    for (;;) {
      const ssize_t bytes = ::read(fd_.get(), buffer.data(), buffer.size());
      if (bytes <= 0) return events;
      for (ssize_t at = 0; at < bytes;) {
        inotify_event event;
        std::memcpy(&event, buffer.data() + at, sizeof event);
        const char* const name = buffer.data() + at + sizeof event;
        Take(event, event.len > 0 ? std::string_view(name, ::strnlen(name, event.len)) : std::string_view(), events);
        at += static_cast<ssize_t>(sizeof event + event.len);
      }
    }
  }

 private:
  // The watch first, then the list: what comes in between is told or seen.
  absl::Status Watch(const std::string& folder, std::size_t depth) {
    const std::string path = folder.empty() ? root_ : root_ + "/" + folder;
    const int watch = ::inotify_add_watch(fd_.get(), path.c_str(), kEvents | (folder.empty() ? kRootEvents : 0));
    if (watch < 0) {
      if (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP) return absl::OkStatus();
      return ErrnoStatus(errno, fmt::format("watch {}", path));
    }
    folders_[watch] = folder;
    if (depth == kDepthMax) return absl::OkStatus();
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
    if (directory == nullptr) return absl::OkStatus();
    while (const dirent* entry = ::readdir(directory.get())) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == ".." || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)) continue;
      if (folder.empty() && drain::IsOwnFolder(name)) continue;
      CAIRN_RETURN_IF_ERROR(Watch(Joined(folder, name), depth + 1));
    }
    return absl::OkStatus();
  }

  void Take(const inotify_event& event, std::string_view name, Events& events) {
    events.any = true;
    if ((event.mask & IN_Q_OVERFLOW) != 0) return;  // a look finds the rest
    const auto folder = folders_.find(event.wd);
    if (folder == folders_.end()) return;
    const bool root = folder->second.empty();
    if (root && (event.mask & (kRootEvents | IN_UNMOUNT | IN_IGNORED)) != 0) events.over = true;
    if ((event.mask & IN_IGNORED) != 0) {
      folders_.erase(folder);
      return;
    }
    const std::string path = Joined(folder->second, name);
    if ((event.mask & IN_ISDIR) != 0) {
      if ((event.mask & (IN_CREATE | IN_MOVED_TO)) != 0) Watch(path, 0).IgnoreError();  // Renew tells of it
      return;
    }
    if ((event.mask & IN_CLOSE_WRITE) != 0) events.closed.push_back(path);
    if ((event.mask & IN_MOVED_FROM) != 0) {
      if (moving_.size() > 1024) moving_.clear();
      moving_[event.cookie] = path;
    }
    if ((event.mask & IN_MOVED_TO) != 0) {
      if (const auto from = moving_.find(event.cookie); from != moving_.end()) {
        events.moved.emplace_back(from->second, path);
        moving_.erase(from);
      }
    }
  }

  const UniqueFd fd_;
  const std::string root_;
  std::unordered_map<int, std::string> folders_;
  std::map<std::uint32_t, std::string> moving_;  // by cookie
};

// One folder, over all the drains that it takes.
class Watcher {
 public:
  Watcher(Disk& disk, const DrainWatchOptions& options, const std::atomic<bool>& stop)
      : disk_(disk), options_(options), stop_(stop) {}

  void Run() {
    std::uint64_t pause_ms = 1000;
    while (!stop_) {
      bool went = false;
      const absl::Status status = Work(&went);
      if (stop_ || status.ok()) continue;
      if (went) pause_ms = 1000;
      Tell(status);
      Pause(pause_ms);
      pause_ms = std::min(2 * pause_ms, options_.retry_ms_max);
    }
  }

 private:
  void Tell(const absl::Status& status) {
    if (status == told_) return;
    told_ = status;
    options_.trouble(status);
  }

  void Pause(std::uint64_t ms) {
    const auto end = SteadyNow() + milliseconds(ms);
    while (!stop_ && SteadyNow() < end) SleepFor(milliseconds(std::min<std::uint64_t>(ms, kStopLookMs)));
  }

  // Until something is wrong with one of the two folders.
  absl::Status Work(bool* went) {
    DrainOptions drain_options = options_.drain;
    CAIRN_ASSIGN_OR_RETURN(drain_options.from, disk_.RealPath(options_.drain.from));
    if (!drain_options.make_target) {
      CAIRN_ASSIGN_OR_RETURN(drain_options.to, disk_.RealPath(options_.drain.to));
    }
    // Before the drain, so that nothing is closed unseen. Without it the looks do.
    auto watch = FolderWatch::Make(drain_options.from);
    absl::Status blind = watch.ok() ? (*watch)->Renew() : watch.status();
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Drain> drain, Drain::Open(disk_, drain_options));
    while (!stop_) {
      const auto began = SteadyNow();
      auto report = drain->Pass(stop_);
      if (!report.ok()) return report.status();
      if (!report->stopped) Tell(blind.ok() ? absl::OkStatus() : Annotate(blind, "no news, only looks"));
      options_.passed(*report);
      if (stop_) break;
      *went = true;
      if (report->stopped) return ResourceExhausted("{}", report->stopped_why);
      // A pass takes at most half of the time, however much is going on.
      Pause(static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(SteadyNow() - began).count()));
      if (watch.ok()) {
        WaitForNews(**watch, *drain, *report);
        blind = (*watch)->Renew();
      } else {
        Pause(NextLookMs(*drain, *report));
      }
    }
    return absl::OkStatus();
  }

  std::uint64_t NextLookMs(const Drain& drain, const DrainReport& report) const {
    std::uint64_t ms = report.busy > 0 ? std::min<std::uint64_t>(options_.look_ms, 1000) : options_.look_ms;
    if (const auto settles = drain.settles_at()) {
      const auto left = std::chrono::ceil<milliseconds>(*settles - SteadyNow()).count();
      ms = std::min(ms, static_cast<std::uint64_t>(std::max<std::int64_t>(left, 0)) + 1);
    }
    return ms;
  }

  void WaitForNews(FolderWatch& watch, Drain& drain, const DrainReport& report) {
    const auto end = SteadyNow() + milliseconds(NextLookMs(drain, report));
    std::optional<std::chrono::steady_clock::time_point> gathered;
    while (!stop_) {
      const auto now = SteadyNow();
      if (now >= end || (gathered && now >= *gathered)) return;
      const auto left = std::chrono::ceil<milliseconds>((gathered ? std::min(*gathered, end) : end) - now).count();
      const FolderWatch::Events events =
          watch.Wait(std::min<std::uint64_t>(static_cast<std::uint64_t>(left), kStopLookMs));
      for (const std::string& path : events.closed) drain.Closed(path);
      for (const auto& [from, to] : events.moved) drain.Moved(from, to);
      if (events.over) return;
      if (events.any && !gathered) gathered = SteadyNow() + milliseconds(options_.gather_ms);
    }
  }

  Disk& disk_;
  const DrainWatchOptions& options_;
  const std::atomic<bool>& stop_;
  absl::Status told_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FolderWatch>> FolderWatch::Make(const std::string& root) {
  UniqueFd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "inotify");
  return std::make_unique<FolderWatchImpl>(std::move(fd), root);
}

void WatchAndDrain(Disk& disk, const DrainWatchOptions& options, const std::atomic<bool>& stop) {
  Watcher(disk, options, stop).Run();
}

}  // namespace cairn

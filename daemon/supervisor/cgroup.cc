#include "daemon/supervisor/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace cairn {
namespace {

constexpr std::uint32_t kWeightOfOthers = 100;   // cpu.weight of version 2
constexpr std::uint32_t kSharesOfOthers = 1024;  // cpu.shares of version 1
constexpr std::uint32_t kWeightMax = 10'000, kBfqWeightMax = 1000;

absl::Status Write(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.valid() && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  return Unavailable("{}: {}", path, std::strerror(errno));
}

absl::Status MakeGroup(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0755) == 0 || errno == EEXIST) return absl::OkStatus();
  return Unavailable("{}: {}", folder, std::strerror(errno));
}

std::string ReadWords(const std::string& path) {
  std::array<char, 1024> text{};
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const ssize_t n = fd.valid() ? ::read(fd.get(), text.data(), text.size()) : 0;
  std::string words = fmt::format(" {} ", std::string_view(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0));
  std::ranges::replace(words, '\n', ' ');
  return words;
}

std::string_view TakeUntil(char end, std::string_view* text) {
  const std::string_view taken = text->substr(0, text->find(end));
  text->remove_prefix(std::min(text->size(), taken.size() + 1));
  return taken;
}

bool IsThere(const std::string& folder) {
  struct stat info {};
  return ::stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// The first error counts, the others have been tried all the same.
void Keep(absl::Status* first, const absl::Status& status) {
  if (first->ok()) *first = status;
}

// As service managers do: 1..100 is the same, 100..10000 becomes 100..1000.
std::uint32_t BfqWeight(std::uint32_t weight) {
  if (weight <= kWeightOfOthers) return weight;
  return kWeightOfOthers +
         (weight - kWeightOfOthers) * (kBfqWeightMax - kWeightOfOthers) / (kWeightMax - kWeightOfOthers);
}

// Which files there are depends on how the kernel was built, and on the schedulers of the disks: one that works is
// enough, and if there is none all weigh the same.
absl::Status WeighIo(const std::string& group, bool v2, std::uint32_t weight) {
  const std::uint32_t clamped = std::clamp(weight, 1u, kWeightMax);
  const std::string bfq = fmt::format("{}", BfqWeight(clamped));
  const absl::Status by_bfq = Write(group + (v2 ? "/io.bfq.weight" : "/blkio.bfq.weight"), bfq);
  const absl::Status other = v2 ? Write(group + "/io.weight", fmt::format("default {}", clamped))
                                : Write(group + "/blkio.weight", fmt::format("{}", std::max(10u, BfqWeight(clamped))));
  if (by_bfq.ok() || other.ok() || weight == kWeightOfOthers) return absl::OkStatus();
  return Unavailable("{}; {}", MessageOf(other), MessageOf(by_bfq));
}

}  // namespace

absl::StatusOr<WorkerGroups> WorkerGroups::Open(const std::string& root, std::string_view own,
                                                const std::string& parent, pid_t self, bool weighs_io) {
  WorkerGroups groups;
  std::string tried;
  while (!own.empty()) {
    // number:controllers:path, of version 2 without controllers
    std::string_view line = TakeUntil('\n', &own);
    TakeUntil(':', &line);
    const std::string controllers = fmt::format(",{},", TakeUntil(':', &line));
    const std::string group = !parent.empty() ? parent : line == "/" ? "" : std::string(line);
    Tree tree{.v2 = controllers == ",,", .folder = {}};
    const auto has = [&](std::string_view name) {
      return controllers.find(fmt::format(",{},", name)) != std::string::npos;
    };
    if (tree.v2) {
      tree.folder = root + group;
    } else if (has("memory") || has("cpu") || has("pids") || (weighs_io && has("blkio"))) {
      tree.memory = has("memory"), tree.cpu = has("cpu"), tree.tasks = has("pids");
      tree.io = weighs_io && has("blkio");
      tree.folder = fmt::format("{}/{}{}", root, controllers.substr(1, controllers.size() - 2), group);
    } else {
      continue;
    }
    absl::Status usable = MakeGroup(tree.folder);
    if (tree.v2) {
      const std::string words = ReadWords(tree.folder + "/cgroup.controllers");
      std::string enable;
      const auto offers = [&](std::string_view name) {
        return words.find(fmt::format(" {} ", name)) != std::string::npos;
      };
      const std::array<std::pair<const char*, bool*>, 3> wanted{
          {{"memory", &tree.memory}, {"cpu", &tree.cpu}, {"pids", &tree.tasks}}};
      for (const auto& [name, there] : wanted) {
        *there = offers(name);
        if (*there) enable += fmt::format("{}+{}", enable.empty() ? "" : " ", name);
      }
      tree.io = weighs_io && offers("io");
      if (enable.empty() && !tree.io) {
        usable = Unavailable("{}: no controllers", tree.folder);
      } else {
        if (parent.empty()) {
          Keep(&usable, MakeGroup(tree.folder + "/supervisor"));
          Keep(&usable, Write(tree.folder + "/supervisor/cgroup.procs", fmt::format("{}", self)));
        }
        // By itself: a kernel that refuses it still limits the rest.
        const std::string control = tree.folder + "/cgroup.subtree_control";
        const absl::Status io = tree.io ? Write(control, "+io") : absl::OkStatus();
        if (enable.empty()) {
          Keep(&usable, io);
        } else {
          tree.io = tree.io && io.ok();
          Keep(&usable, Write(control, enable));
        }
      }
    } else if (!IsThere(tree.folder) || ::access((tree.folder + "/cgroup.procs").c_str(), W_OK) != 0) {
      Keep(&usable, Unavailable("{}: not to be written", tree.folder));
    }
    if (usable.ok()) {
      groups.trees_.push_back(tree);
    } else {
      tried += fmt::format("{}{}", tried.empty() ? "" : "; ", MessageOf(usable));
    }
  }
  if (groups.trees_.empty()) return Unavailable("{}", tried.empty() ? "no control groups here" : tried);
  return groups;
}

std::string WorkerGroups::Describe() const {
  std::string text;
  for (const Tree& tree : trees_) {
    text += fmt::format("{}version {} below {}:{}{}{}{}", text.empty() ? "" : "; ", tree.v2 ? 2 : 1, tree.folder,
                        tree.memory ? " memory" : "", tree.cpu ? " cpu" : "", tree.tasks ? " pids" : "",
                        tree.io ? " io" : "");
  }
  return text.empty() ? "none" : text;
}

bool WorkerGroups::weighs_io() const {
  return std::ranges::any_of(trees_, &Tree::io);
}

absl::Status WorkerGroups::Enter(uid_t user, const WorkerLimits& limits, pid_t pid) const {
  absl::Status first;
  const std::uint32_t weight = std::clamp(limits.cpu_weight, 1u, 10'000u);
  for (const Tree& tree : trees_) {
    const std::string group = fmt::format("{}/user-{}", tree.folder, user);
    Keep(&first, MakeGroup(group));
    const auto set = [&](const char* file, const std::string& value) { Keep(&first, Write(group + file, value)); };
    const auto or_none = [&](std::uint64_t limit, const char* none) {
      return limit == 0 ? none : fmt::format("{}", limit);
    };
    if (tree.memory && tree.v2) set("/memory.max", or_none(limits.memory_bytes, "max"));
    if (tree.memory && !tree.v2) set("/memory.limit_in_bytes", or_none(limits.memory_bytes, "-1"));
    if (tree.cpu && tree.v2) set("/cpu.weight", fmt::format("{}", weight));
    if (tree.cpu && !tree.v2) {
      set("/cpu.shares", fmt::format("{}", std::max(2u, weight * kSharesOfOthers / kWeightOfOthers)));
    }
    if (tree.io) Keep(&first, WeighIo(group, tree.v2, limits.io_weight));
    if (tree.tasks) set("/pids.max", or_none(limits.tasks_max, "max"));
    set("/cgroup.procs", fmt::format("{}", pid));
  }
  return first;
}

void WorkerGroups::Remove(uid_t user) const {
  for (const Tree& tree : trees_) ::rmdir(fmt::format("{}/user-{}", tree.folder, user).c_str());
}

}  // namespace cairn

#include "tests/support/stale_disk.h"

#include <algorithm>
#include <utility>

#include "storage/base/status.h"

namespace cairn {

void StaleDisk::Expire() {
  const absl::MutexLock lock(&mutex_);
  memory_.clear();
  ++changes_;
}

std::uint64_t StaleDisk::changes() const {
  const absl::MutexLock lock(&mutex_);
  return changes_;
}

std::vector<StaleDisk::Step> StaleDisk::StepsOf(const std::string& path) {
  std::vector<Step> steps;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    std::string name = path.substr(at, slash - at);
    if (!name.empty() && name != "." && name != "..") {
      steps.push_back({.parent = path.substr(0, at), .name = std::move(name)});
    }
    at = slash + 1;
  }
  return steps;
}

std::optional<StaleDisk::Directory> StaleDisk::Find(const std::string& path) {
  const auto info = server_.Info(path + "/.");  // follows a link
  if (!info.ok()) return std::nullopt;
  return Directory{.device = info->device, .inode = info->inode};
}

bool StaleDisk::IsAbsent(const std::string& path) {
  for (const Step& step : StepsOf(path)) {
    const auto has = [&step](const auto& memory) { return memory.second.absent.contains(step.name); };
    {
      const absl::MutexLock lock(&mutex_);
      if (std::ranges::none_of(memory_, has)) continue;  // in no directory
    }
    const auto parent = Find(step.parent);
    const absl::MutexLock lock(&mutex_);
    if (!parent) continue;
    const auto found = memory_.find(*parent);
    if (found != memory_.end() && has(*found)) return true;
  }
  return false;
}

// Of the names on the path it is the first one that is not there.
void StaleDisk::RememberAbsent(const std::string& path, std::uint64_t changes) {
  for (const Step& step : StepsOf(path)) {
    const auto parent = Find(step.parent);
    if (!parent) return;  // behind a link that leads nowhere, or below a file
    const auto info = server_.Info(step.parent + step.name);
    if (info.ok()) continue;
    const absl::MutexLock lock(&mutex_);
    if (absl::IsNotFound(info.status()) && changes == changes_) memory_[*parent].absent.insert(step.name);
    return;
  }
}

template <typename Answer>
absl::StatusOr<Answer> StaleDisk::Ask(const std::string& path, const std::function<absl::StatusOr<Answer>()>& ask) {
  if (IsAbsent(path)) return NotFound("{}: No such file or directory, as this client remembers", path);
  const std::uint64_t before = changes();
  absl::StatusOr<Answer> answer = ask();
  if (absl::IsNotFound(answer.status())) RememberAbsent(path, before);
  return answer;
}

absl::Status StaleDisk::Change(const std::vector<std::string>& paths, const std::function<absl::Status()>& change) {
  std::vector<std::pair<std::optional<Directory>, std::string>> names;
  for (const std::string& path : paths) {
    const std::vector<Step> steps = StepsOf(path);
    if (!steps.empty()) names.emplace_back(Find(steps.back().parent), steps.back().name);
  }
  absl::Status status = change();
  if (!status.ok() && !absl::IsAlreadyExists(status)) return status;
  const absl::MutexLock lock(&mutex_);
  if (status.ok()) ++changes_;
  for (const auto& [directory, name] : names) {
    if (status.ok() && !directory) {
      memory_.clear();  // its directory could not be asked for before
    } else if (status.ok()) {
      memory_.erase(*directory);
    } else if (const auto found = directory ? memory_.find(*directory) : memory_.end(); found != memory_.end()) {
      found->second.absent.erase(name);
    }
  }
  return status;
}

absl::StatusOr<std::unique_ptr<File>> StaleDisk::Create(const std::string& path, OpenOptions options) {
  absl::StatusOr<std::unique_ptr<File>> file;
  const absl::Status status = Change({path}, [&]() -> absl::Status {
    // Nothing changes in the directory where the file is only made empty.
    const bool there = !options.exclusive && server_.Info(path).ok();
    file = server_.Open(path, options);
    return file.ok() && there ? AlreadyExists("{}", path) : file.status();
  });
  return file;
}

absl::StatusOr<std::unique_ptr<File>> StaleDisk::Open(const std::string& path, OpenOptions options) {
  if (options.create) return Create(path, options);
  return Ask<std::unique_ptr<File>>(path, [&] { return server_.Open(path, options); });
}

absl::StatusOr<std::vector<std::string>> StaleDisk::List(const std::string& path) {
  const auto list = [&]() -> absl::StatusOr<std::vector<std::string>> {
    const auto directory = Find(path);
    const std::uint64_t before = changes();
    if (directory) {
      const absl::MutexLock lock(&mutex_);
      const auto found = memory_.find(*directory);
      if (found != memory_.end() && found->second.names) return *found->second.names;
    }
    CAIRN_ASSIGN_OR_RETURN(std::vector<std::string> names, server_.List(path));
    const absl::MutexLock lock(&mutex_);
    if (directory && before == changes_) {
      Memory& memory = memory_[*directory];
      for (const std::string& name : names) memory.absent.erase(name);
      memory.names = names;
    }
    return names;
  };
  return Ask<std::vector<std::string>>(path, list);
}

absl::StatusOr<FileInfo> StaleDisk::Info(const std::string& path) {
  return Ask<FileInfo>(path, [&] { return server_.Info(path); });
}

absl::StatusOr<std::string> StaleDisk::ReadLink(const std::string& path) {
  return Ask<std::string>(path, [&] { return server_.ReadLink(path); });
}

absl::StatusOr<std::string> StaleDisk::RealPath(const std::string& path) {
  return Ask<std::string>(path, [&] { return server_.RealPath(path); });
}

absl::Status StaleDisk::Rename(const std::string& from, const std::string& to) {
  return Change({from, to}, [&] { return server_.Rename(from, to); });
}

absl::Status StaleDisk::RenameNew(const std::string& from, const std::string& to) {
  return Change({from, to}, [&] { return server_.RenameNew(from, to); });
}

absl::Status StaleDisk::Link(const std::string& existing, const std::string& link) {
  return Change({link}, [&] { return server_.Link(existing, link); });
}

absl::Status StaleDisk::Clone(const std::string& from, const std::string& to) {
  return Change({to}, [&] { return server_.Clone(from, to); });
}

absl::Status StaleDisk::Symlink(const std::string& target, const std::string& link) {
  return Change({link}, [&] { return server_.Symlink(target, link); });
}

absl::Status StaleDisk::Remove(const std::string& path) {
  return Change({path}, [&] { return server_.Remove(path); });
}

absl::Status StaleDisk::MakeDirectory(const std::string& path, std::uint32_t mode) {
  return Change({path}, [&] { return server_.MakeDirectory(path, mode); });
}

absl::Status StaleDisk::SyncDirectory(const std::string& path) {
  return server_.SyncDirectory(path);
}

absl::Status StaleDisk::SetModeAndTimes(const std::string& path, std::uint32_t mode, timespec atime, timespec mtime) {
  return server_.SetModeAndTimes(path, mode, atime, mtime);
}

absl::StatusOr<std::uint64_t> StaleDisk::FreeBytes(const std::string& path) {
  return server_.FreeBytes(path);
}

absl::StatusOr<std::uint64_t> StaleDisk::FileSystemType(const std::string& path) {
  return server_.FileSystemType(path);
}

}  // namespace cairn

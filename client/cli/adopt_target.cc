#include "client/cli/adopt_target.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "client/cli/arbiters.h"
#include "client/cli/run_prefix.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

absl::StatusOr<std::string> MakeRunDirectory(const Context& context, Disk& disk, const std::string& run) {
  if (run.find('/') == std::string::npos) {
    absl::StatusOr<std::string> prefix = FindPrefix(context, run);
    if (!absl::IsNotFound(prefix.status())) return prefix;
    return NotFound("{}; ./{} would be made here", MessageOf(prefix.status()), run);
  }
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(run, error);
  if (error) return InvalidArgument("{}: {}", run, error.message());
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, path.lexically_normal().string(), 0755));
  return ExistingPath(run);
}

// The kernel frees the lock when its holder dies.
absl::StatusOr<LockFile> LockPrefix(const Prefix& prefix) {
  auto lock = LockFile::Take(prefix.FilePath(".cairn/adopt.lock"));
  if (absl::IsFailedPrecondition(lock.status())) {
    return FailedPrecondition("another adopt is under way in {}: {}", prefix.path(), MessageOf(lock.status()));
  }
  if (absl::IsUnavailable(lock.status())) {
    return Unavailable("the file system of {} gives no lock, so nothing was adopted: {}", prefix.path(),
                       MessageOf(lock.status()));
  }
  return lock;
}

}  // namespace

absl::StatusOr<std::string> ExistingPath(const std::string& given) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(given, error);
  if (error) return NotFound("{}: {}", given, error.message());
  return path.string();
}

absl::StatusOr<std::vector<std::string>> ExistingPaths(const std::vector<std::string>& given) {
  std::vector<std::string> paths;
  for (const std::string& one : given) {
    CAIRN_ASSIGN_OR_RETURN(std::string path, ExistingPath(one));
    paths.push_back(std::move(path));
  }
  return paths;
}

absl::StatusOr<AdoptTarget> OpenAdoptTarget(const Context& context, Disk& disk, const std::string& run) {
  CAIRN_ASSIGN_OR_RETURN(const std::string path, MakeRunDirectory(context, disk, run));
  CAIRN_ASSIGN_OR_RETURN(const auto arbiters, ConfiguredArbiters());
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<Prefix> prefix, Prefix::Open(disk, path, {.arbiters = arbiters.get()}));
  CAIRN_ASSIGN_OR_RETURN(LockFile lock, LockPrefix(*prefix));
  return AdoptTarget{.prefix = std::move(prefix), .lock = std::move(lock)};
}

}  // namespace cairn::cli

#include "daemon/core/preparation.h"

#include <utility>

#include "daemon/core/launch_keeper.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/io/disk.h"

namespace cairn {

Preparation::Preparation(const Context& context, std::string path, bool observer, Known known)
    : context_(context),
      cache_(context.config.cache.path),
      path_(std::move(path)),
      observer_(observer),
      known_(std::move(known)) {}

PreparedPtr Preparation::operator()() const {
  auto prepared = std::make_shared<Prepared>();
  prepared->status = observer_ ? ReachToRead(*prepared) : Reach(*prepared);
  if (prepared->status.ok()) prepared->status = Look(*prepared);
  return prepared;
}

std::optional<std::string> Preparation::PathOf(const RunId& run) const {
  const auto known = known_.paths.find(run);
  return known == known_.paths.end() ? std::nullopt : std::optional(known->second);
}

PrefixOptions Preparation::OptionsOfPrefix() const {
  return {.known = [this](const RunId& run) { return PathOf(run); }, .arbiters = &context_.env.arbiters};
}

absl::Status Preparation::Reach(Prepared& prepared) const {
  Disk& disk = context_.env.prefix_disk;
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, path_, 0755));
  const auto real = disk.RealPath(path_);
  if (!real.ok()) return Unavailable("{}: cannot be resolved", path_);
  prepared.path = *real;
  CAIRN_ASSIGN_OR_RETURN(prepared.prefix, Prefix::Open(disk, prepared.path, OptionsOfPrefix()));
  CAIRN_RETURN_IF_ERROR(CheckNotElsewhere(prepared));
  if (const auto confirm = known_.confirm.find(prepared.prefix->run()); confirm != known_.confirm.end()) {
    CAIRN_ASSIGN_OR_RETURN(prepared.confirmed, confirm->second(*prepared.prefix));
  }
  return FindLaunch(prepared);
}

absl::Status Preparation::FindLaunch(Prepared& prepared) const {
  auto newest = prepared.prefix->NewestLaunch();
  if (absl::IsDataLoss(newest.status())) {
    prepared.newest_damaged = true;
    prepared.warnings.push_back(std::string(MessageOf(newest.status())));  // a new launch goes past it
    return absl::OkStatus();
  }
  if (!newest.ok()) return newest.status();
  prepared.newest = *std::move(newest);
  if (!prepared.newest || IsOurs(context_, *prepared.newest)) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(prepared.lease, prepared.prefix->FindLease(prepared.newest->id));
  return absl::OkStatus();
}

// Two directories that both say that they are this run: a copy that was taken back while the original lives.
absl::Status Preparation::CheckNotElsewhere(const Prepared& prepared) const {
  const RunId& run = prepared.prefix->run();
  const auto other = PathOf(run);
  if (!other || *other == prepared.path) return absl::OkStatus();
  Disk& disk = context_.env.prefix_disk;
  const auto here = disk.Info(prepared.path + "/.cairn"), there = disk.Info(*other + "/.cairn");
  if (!here.ok() || !there.ok() || (here->device == there->device && here->inode == there->inode)) {
    return absl::OkStatus();  // it has moved, or has two names
  }
  const auto elsewhere = Prefix::OpenReadOnly(disk, *other);
  if (!elsewhere.ok() || (*elsewhere)->run() != run) return absl::OkStatus();
  return FailedPrecondition(
      "{}: is run {}, and so is {}, which is there, too: one of the two is a copy. Remove its "
      ".cairn/run.* that `cairn run moved` has made, and it becomes a branch",
      prepared.path, run.Hex(), *other);
}

// Nothing is made at the prefix, and where it cannot be written it is only read.
absl::Status Preparation::ReachToRead(Prepared& prepared) const {
  Disk& disk = context_.env.prefix_disk;
  const auto real = disk.RealPath(path_);
  if (!real.ok()) return NotFound("{}: there is no such directory", path_);
  prepared.path = *real;
  CAIRN_ASSIGN_OR_RETURN(prepared.prefix, Prefix::OpenReadOnly(disk, prepared.path, OptionsOfPrefix()));
  if (prepared.prefix->run() == RunId()) return NotFound("{}: no run of Cairn's has this prefix", prepared.path);
  auto writable = Prefix::Open(disk, prepared.path, OptionsOfPrefix());
  prepared.read_only = !writable.ok();
  if (writable.ok()) prepared.prefix = *std::move(writable);
  return absl::OkStatus();
}

absl::Status Preparation::Look(Prepared& prepared) const {
  const RunIdentity& identity = prepared.prefix->identity();
  if (!known_.paths.contains(identity.run)) {
    CAIRN_ASSIGN_OR_RETURN(prepared.folder,
                           CacheFolder::Open(context_.env.cache_disk, cache_, context_.env.process.user,
                                             BaseOf(prepared.path), identity, prepared.path));
  }
  if (known_.looked_at.contains(identity.run)) return absl::OkStatus();
  std::vector<CachedOrigin> cached;
  if (const auto known = known_.cached.find(identity.run); known != known_.cached.end()) cached = known->second;
  for (CachedOrigin& origin : cached) origin.of_path = PathOf(identity.run) == prepared.path;
  const auto folder = known_.folders.find(identity.run);
  CAIRN_ASSIGN_OR_RETURN(
      PrefixLook look,
      LookAtPrefix(*prepared.prefix, folder == known_.folders.end() ? *prepared.folder : *folder->second, {}, cached));
  prepared.look = std::make_shared<PrefixLook>(std::move(look));
  return absl::OkStatus();
}

}  // namespace cairn

#include "daemon/core/restore_files.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/descriptor.h"
#include "proto/catalogue.pb.h"
#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

void RestoreFiles::Check(const RestoreGroupPtr& group, const RestorePartPtr& part) {
  const Dataset& dataset = *group->dataset;
  if (AreReadOnPrefix(*group)) {
    part->done = true;
    part->tier = Tier::kPrefix;
    if (group->all_done()) AwaitPrefix(group);
    return;
  }
  if (!dataset.in_cache()) return Checked(group, part, NotFound("dataset {} is not in the cache", dataset.id));
  auto verify = [&disk = context_.env.cache_disk, folder = given_.cache.folder().DatasetPath(dataset.id),
                 catalogue = dataset.parts[part->session->rank].catalogue]() -> absl::Status {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      CAIRN_RETURN_IF_ERROR(VerifyFile(disk, folder + "/" + file.name(), file));
    }
    return absl::OkStatus();
  };
  context_.OnCache(std::move(verify),
                   [this, group, part](const absl::Status& status) { Checked(group, part, status); });
}

bool RestoreFiles::AreReadOnPrefix(const RestoreGroup& group) const {
  const Launch* const launch = given_.ledger.Find(group.launch);
  return launch != nullptr && FilesAreReadOnPrefix(*launch, *group.dataset);
}

void RestoreFiles::Checked(const RestoreGroupPtr& group, const RestorePartPtr& part, const absl::Status& status) {
  if (group->ended) return;
  const Dataset& dataset = *group->dataset;
  if (!status.ok() && dataset.in_cache()) given_.copies.FoundBad(*group, part->session->rank, Tier::kCache, status);
  part->done = true;
  part->tier = status.ok() ? Tier::kCache : Tier::kPrefix;
  if (!group->all_done()) return;
  const auto& parts = group->parts;
  const auto lacking =
      std::find_if(parts.begin(), parts.end(), [](const auto& item) { return item.second->tier == Tier::kPrefix; });
  if (lacking == parts.end()) return on_end_(group, absl::OkStatus());
  if (dataset.in_prefix() && given_.gate.prefix()) return Fetch(group, Tier::kPrefix);
  if (dataset.in_folder()) return Fetch(group, Tier::kRedundant);
  on_end_(group, DataLoss("no copy of rank {}'s files is whole", lacking->first));
}

void RestoreFiles::Fetch(const RestoreGroupPtr& group, Tier from) {
  const DatasetPtr& dataset = group->dataset;
  for (auto& [rank, part] : group->parts) part->tier = from;
  if (from == Tier::kPrefix) given_.copies.NoteFetch(*group);
  if (given_.cache.HoldsScrs(dataset->id)) return ReadOnPrefix(group, from);  // SCR's own copy has its place
  given_.cache.Refetch(dataset, [this, group, from](const FetchResult& fetched) { Fetched(group, from, fetched); });
}

void RestoreFiles::ReadOnPrefix(const RestoreGroupPtr& group, Tier from) {
  if (from == Tier::kPrefix) return VerifyOnPrefix(group);
  for (auto& [rank, part] : group->parts) part->tier = Tier::kPrefix;
  AwaitPrefix(group);
}

void RestoreFiles::Fetched(const RestoreGroupPtr& group, Tier from, const FetchResult& refetched) {
  if (group->ended) return given_.waits.Changed();
  if (refetched.status.ok()) return on_end_(group, absl::OkStatus());
  const std::string why = fmt::format("rank {}: {}", refetched.rank, MessageOf(refetched.status));
  const bool full = absl::IsResourceExhausted(refetched.status);
  if (full && context_.config.cache.bypass) return ReadOnPrefix(group, from);
  if (absl::IsAlreadyExists(refetched.status)) return ReadOnPrefix(group, from);  // SCR has put it there meanwhile
  if (full) return on_end_(group, ResourceExhausted("{}", why));
  const bool away = absl::IsUnavailable(refetched.status);
  if (refetched.source_damaged || away) {
    given_.copies.FoundBad(*group, refetched.rank, from, refetched.status);
  }
  on_end_(group, away ? Unavailable("{}", why) : DataLoss("{}", why));
}

// What caches have of it goes there first.
void RestoreFiles::AwaitPrefix(const RestoreGroupPtr& group) {
  given_.flush(group->dataset->id);
  given_.waits.Wait([this, group] {
    const Dataset& dataset = *group->dataset;
    if (group->ended) return true;
    const bool there = dataset.in_prefix() && given_.gate.prefix();
    const bool readable = dataset.in_folder() || (dataset.in_cache() && dataset.unknown == 0);
    const bool comes = given_.ledger.Has(group->dataset) && readable && !dataset.flush_dropped() && !dataset.gave_way();
    if (!there && comes) return false;
    context_.loop().Post([this, group, there] {
      if (group->ended) return;
      if (!there) return on_end_(group, DataLoss("the prefix, where ranks on several nodes read its files, has none"));
      given_.copies.NoteFetch(*group);
      VerifyOnPrefix(group);
    });
    return true;
  });
}

void RestoreFiles::VerifyOnPrefix(const RestoreGroupPtr& group) {
  struct Verified {
    absl::Status status;
    Rank rank = 0;
  };
  auto verify = [&disk = context_.env.prefix_disk, prefix = given_.gate.prefix(),
                 catalogues = CataloguesOf(*group->dataset)] {
    Verified verified;
    for (const catalogue::Catalogue& catalogue : catalogues) {
      verified.rank = catalogue.rank();
      for (const catalogue::FileEntry& file : catalogue.file()) {
        verified.status = VerifyFile(disk, prefix->FilePath(file.prefix_name()), file);
        if (!verified.status.ok()) return verified;
      }
    }
    return verified;
  };
  context_.OnPrefix(given_.gate.path(), std::move(verify), [this, group](const Verified& verified) {
    if (group->ended) return given_.waits.Changed();
    if (verified.status.ok()) return on_end_(group, absl::OkStatus());
    const bool first = !group->bad.contains({verified.rank, Tier::kPrefix});
    given_.copies.FoundBad(*group, verified.rank, Tier::kPrefix, verified.status);
    if (absl::IsUnavailable(verified.status)) {
      return on_end_(group, Unavailable("rank {}: {}", verified.rank, MessageOf(verified.status)));
    }
    if (first && AreReadOnPrefix(*group) && group->dataset->in_cache()) return FlushAnew(group);
    on_end_(group, DataLoss("rank {}: {}", verified.rank, MessageOf(verified.status)));
  });
}

// What the caches have is whole, as far as anybody knows.
void RestoreFiles::FlushAnew(const RestoreGroupPtr& group) {
  given_.copies.WithdrawDamaged(*group);
  group->damaged.clear();
  AwaitPrefix(group);
}

}  // namespace cairn

#include "storage/place/prefix/scr_names.h"

#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "storage/base/status.h"
#include "storage/place/prefix/scr_dataset.h"

namespace cairn {
namespace {

std::size_t HashOf(const std::string& name) {
  return std::hash<std::string>()(name);
}

absl::StatusOr<std::set<std::string>> ReadNames(Disk& disk, SharedRecords& records, DatasetId id) {
  auto names = ListedNames(disk, records.DatasetFolder(id));
  if (absl::IsDataLoss(names.status()) || absl::IsPermissionDenied(names.status())) {
    records.Warn(fmt::format("dataset {} of SCR's: {}", id, MessageOf(names.status())));
    return std::set<std::string>();
  }
  return names;
}

bool HaveCommon(const std::set<std::string>& some, const std::set<std::string>& others) {
  return std::any_of(some.begin(), some.end(), [&](const std::string& name) { return others.contains(name); });
}

}  // namespace

absl::StatusOr<bool> ScrNames::HasOneOf(Disk& disk, SharedRecords& records, DatasetId id, const kvtree::Tree& entry,
                                        const std::set<std::string>& names) {
  {
    const absl::MutexLock lock(&mutex_);
    const auto known = known_.find(id);
    if (known != known_.end() && known->second.entry.SameAs(entry)) {
      const std::vector<std::size_t>& hashes = known->second.hashes;
      const bool perhaps = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return std::binary_search(hashes.begin(), hashes.end(), HashOf(name));
      });
      if (!perhaps) return false;
    }
  }
  CAIRN_ASSIGN_OR_RETURN(const std::set<std::string> theirs, ReadNames(disk, records, id));
  Known read{.entry = entry, .hashes = {}};
  read.hashes.reserve(theirs.size());
  for (const std::string& name : theirs) read.hashes.push_back(HashOf(name));
  std::sort(read.hashes.begin(), read.hashes.end());
  const absl::MutexLock lock(&mutex_);
  known_[id] = std::move(read);
  return HaveCommon(names, theirs);
}

}  // namespace cairn

// What SCR has made of the run: numbers that it has given out again, and what it has written into this cache.
#include <utility>

#include "daemon/core/descriptor.h"
#include "daemon/core/inventory.h"
#include "storage/base/status.h"
#include "storage/place/prefix/index_rules.h"

namespace cairn {
namespace {

bool IsCopyOfScrs(const Dataset& dataset) {
  return dataset.launch == 0 && dataset.foreign;
}

}  // namespace

// Whether the prefix has another dataset under the id of one that is known. A launch gives out an id once; what no
// launch has made tells by its time.
bool Inventory::IsAnother(const Dataset& known, const scr::Descriptor& found) {
  const LaunchId launch = found.launch.value_or(0);
  if (!known.mark.empty() && !found.mark.empty() && known.mark != found.mark) return true;
  if (known.launch != launch) return true;
  if (launch != 0) return false;
  const bool has_name = !found.name.empty();
  const bool renamed = known.foreign && !found.launch && has_name && NameInRecords(known) != found.name;
  return renamed || known.created_us != found.created_us;
}

// --- Numbers ---

// The numbers that SCR has given out again (SCR specification, section 8). Answers those that are free for SCR's now.
std::set<DatasetId> Inventory::TakeNumbers(const PrefixContents& found) {
  std::set<DatasetId> freed;
  in_use_.clear();
  for (const auto& [id, entry] : found.scrs) {
    given_.ids.Seen(id);
    const DatasetPtr dataset = given_.ledger.Get(id);
    if (!dataset || !IsAnother(*dataset, entry.descriptor)) continue;
    IdTaken(dataset, found, entry);
    if (given_.ledger.Get(id)) continue;
    freed.insert(id);
    taken_out_.insert(id);  // SCR's may come to be whole there later
  }
  return freed;
}

// What is in the cache may be the only copy. What SCR has committed since has the number: then the one in the cache
// goes aside with all its bytes, since SCR, which looks into caches first, must not find it either. Else it stays as it
// is, and what the prefix has under this id is not known meanwhile. A copy of SCR's own earlier dataset is history, and
// so is what the prefix had.
void Inventory::IdTaken(const DatasetPtr& dataset, const PrefixContents& found, const scr::IndexEntry& by) {
  const DatasetId id = dataset->id;
  const bool was_there = dataset->in_prefix();
  const bool history =
      IsCopyOfScrs(*dataset) || dataset->standing == Standing::kHistory || (was_there && found.removed.contains(id));
  const bool committed_since = by.complete && by.descriptor.created_us > dataset->created_us;
  const bool idle = dataset->readers == 0 && !flushing_(id);
  const bool told = dataset->id_taken();
  given_.ledger.IdTaken(*dataset, history, by.descriptor.name);
  if (dataset->in_cache() && committed_since && idle && (!history || dataset->pinned)) {
    context_.Warn(
        fmt::format("run {}: dataset {} of the prefix is another one now, {}, which SCR has written; the one in this "
                    "cache (step {}) is set aside there as taken.{}.*",
                    given_.run_name, id, by.descriptor.name, dataset->step, id));
    given_.cache.PutAside(dataset, fmt::format("its number is that of SCR's dataset {} now", by.descriptor.name));
  } else if (dataset->in_cache() && history && dataset->readers == 0 && !dataset->pinned) {
    given_.cache.Evict(dataset, "its id is another's on the prefix");
  } else if (!dataset->in_cache() && dataset->cache != Place::kArriving && was_there && dataset->readers == 0) {
    given_.ledger.Forget(
        id, {.why = Gone::Why::kRemoved, .message = "its id is another's on the prefix", .step = dataset->step});
  } else {
    if (committed_since) in_use_.push_back(by.descriptor);
    if (!told && !history) {
      context_.Warn(
          fmt::format("run {}: dataset {} of the prefix is another one now, {}, which SCR has written; the one in this "
                      "cache (step {}) stays there and will not go to the prefix",
                      given_.run_name, id, by.descriptor.name, dataset->step));
    }
  }
  given_.record.Store();
}

// --- This cache ---

void Inventory::TakeScrs(std::vector<ScrCached> scrs) {
  std::set<DatasetId> ids;
  for (const ScrCached& one : scrs) {
    given_.ids.Seen(one.descriptor.id);
    ids.insert(one.descriptor.id);
  }
  given_.cache.ScrsAre(std::move(ids));
  scrs_ = std::move(scrs);
}

absl::Status Inventory::CheckNewest(const Launch& launch, const DatasetPtr& chosen) const {
  const auto newer = [&](const scr::Descriptor& scrs) {
    if (launch.bound_set_us != 0 && scrs.created_us <= launch.bound_set_us) return false;  // the user's will
    return !chosen || IsNewer(index_rules::AgeOf(scrs), AgeOf(*chosen));
  };
  const std::string than = chosen ? fmt::format("dataset {}, the newest", chosen->id) : std::string("all");
  for (auto one = scrs_.rbegin(); one != scrs_.rend(); ++one) {
    const scr::Descriptor& scrs = one->descriptor;
    if (!one->whole || !scrs.checkpoint || !newer(scrs)) continue;
    return FailedPrecondition(
        "SCR has written dataset {} ({}) into this node's cache, and it is newer than {} that can be restored: take it "
        "with `cairn adopt {} --scr {}`, or {}",
        scrs.id, scrs.name, than, given_.gate.path(), given_.cache.folder().path(),
        chosen ? fmt::format("pass it over with `cairn index current {} NAME`", given_.gate.path())
               : fmt::format("remove {}", one->folder));
  }
  for (const scr::Descriptor& scrs : in_use_) {
    if (!newer(scrs)) continue;
    return FailedPrecondition(
        "dataset {} of the prefix is SCR's now ({}), newer than {} that can be restored, and the one that had its "
        "number is in use here: try again when that has ended",
        scrs.id, scrs.name, than);
  }
  return absl::OkStatus();
}

}  // namespace cairn

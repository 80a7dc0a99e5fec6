#include "daemon/core/node_record.h"

#include <cstdlib>
#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

Standing StandingOf(const kvtree::Tree& entry) {
  const auto says = [&entry](const char* key) { return entry.GetBool(key).value_or(false); };
  if (says("ID_TAKEN")) return Standing::kIdTaken;
  if (says("GAVE_WAY")) return Standing::kGaveWay;
  if (says("DROPPED")) return Standing::kSuperseded;
  return says("DOUBTED") ? Standing::kDoubted : Standing::kCurrent;
}

}  // namespace

NotedDatasets DecodeNodeRecord(const kvtree::Tree& record) {
  NotedDatasets noted;
  const kvtree::Tree* datasets = record.Find("DATASET");
  if (datasets == nullptr) return noted;
  for (const auto& [key, entry] : datasets->elements()) {
    NotedDataset& one = noted[std::strtoull(key.c_str(), nullptr, 10)];
    one.noted.in_prefix = entry.GetBool("PREFIX").value_or(false);
    one.noted.pinned = entry.GetBool("PINNED").value_or(false);
    one.noted.foreign = entry.GetBool("FOREIGN").value_or(false);
    one.noted.standing = StandingOf(entry);
    one.noted.ordinal = entry.GetUnsigned("ORDINAL").value_or(0);
    one.begun = entry.GetBool("BEGUN").value_or(false);
    if (const kvtree::Tree* grown = entry.Find("GROWING")) {
      for (const auto& [name, nothing] : grown->elements()) one.grown.insert(name);
    }
  }
  return noted;
}

NodeRecord::NodeRecord(const Context& context, std::string run_name, std::shared_ptr<CacheFolder> cache,
                       const Ledger& ledger)
    : context_(context), run_name_(std::move(run_name)), cache_(std::move(cache)), ledger_(ledger) {}

void NodeRecord::Adopt(const NotedDatasets& noted) {
  for (const auto& [id, one] : noted) {
    if (one.begun) begun_.insert(id);
    if (one.noted.pinned && !ledger_.Get(id)) pinned_.insert(id);
    for (const std::string& name : one.grown) grown_[id].insert(name);
  }
}

const std::set<std::string>& NodeRecord::Grown(DatasetId id) const {
  static const std::set<std::string> kNone;
  const auto at = grown_.find(id);
  return at == grown_.end() ? kNone : at->second;
}

void NodeRecord::LostPlace(DatasetId id, const std::string& name) {
  const auto at = grown_.find(id);
  if (at == grown_.end()) return;
  at->second.erase(name);
  if (at->second.empty()) grown_.erase(at);
}

kvtree::Tree NodeRecord::Encode() const {
  kvtree::Tree record;
  const auto entry_of = [&record](DatasetId id) -> kvtree::Tree& {
    return record.At("DATASET").At(fmt::format("{}", id));
  };
  for (const auto& [id, dataset] : ledger_.datasets()) {
    const bool dropped = dataset->flush_dropped(), gave_way = dataset->gave_way();
    const bool counted = dataset->in_cache() && dataset->ordinal != 0;
    if (!dataset->in_prefix() && !dataset->pinned && !gave_way && !dropped && !counted) continue;
    kvtree::Tree& entry = entry_of(id);
    entry.SetBool("PREFIX", dataset->in_prefix());
    entry.SetBool("PINNED", dataset->pinned);
    if (counted) entry.Set("ORDINAL", dataset->ordinal);
    if (dropped) entry.SetBool("DROPPED", true);
    if (gave_way) entry.SetBool("GAVE_WAY", true);
    if (dataset->foreign) entry.SetBool("FOREIGN", true);
    if (dataset->id_taken()) entry.SetBool("ID_TAKEN", true);
    if (dataset->standing == Standing::kDoubted) entry.SetBool("DOUBTED", true);
  }
  for (const auto& [id, names] : grown_) {
    for (const std::string& name : names) entry_of(id).At("GROWING").At(name);
  }
  for (DatasetId id : begun_) entry_of(id).SetBool("BEGUN", true);
  return record;
}

void NodeRecord::Store(Then then) {
  if (then) waiting_.push_back(std::move(then));
  if (storing_) {
    stale_ = true;
    return;
  }
  storing_ = true;
  context_.OnCache([cache = cache_, record = Encode()] { return cache->StoreFlushRecord(record); },
                   [this, told = std::exchange(waiting_, {})](const absl::Status& status) {
                     if (!status.ok()) context_.Warn(fmt::format("run {}: {}", run_name_, MessageOf(status)));
                     for (const Then& next : told) next(status);
                     storing_ = false;
                     if (std::exchange(stale_, false)) Store();
                   });
}

}  // namespace cairn

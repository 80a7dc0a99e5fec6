#include "daemon/core/node_record.h"

#include <algorithm>
#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

// The strongest counts.
Standing StandingOf(const NodeNote& note) {
  if (note.id_taken) return note.rejected ? Standing::kHistory : Standing::kIdTaken;
  if (note.rejected) return Standing::kTakenOut;
  if (note.anothers) return Standing::kAnothers;
  if (note.fenced) return Standing::kFenced;
  if (note.gave_way) return Standing::kGaveWay;
  if (note.dropped) return Standing::kSuperseded;
  return note.doubted ? Standing::kDoubted : Standing::kCurrent;
}

}  // namespace

Ledger::Noted NotedOf(const NodeNote& note) {
  return {.in_prefix = note.in_prefix,
          .pinned = note.pinned,
          .foreign = note.foreign,
          .standing = StandingOf(note),
          .ordinal = note.ordinal};
}

NodeRecord::NodeRecord(const Context& context, std::string run_name, std::shared_ptr<CacheFolder> cache,
                       const Ledger& ledger)
    : context_(context), run_name_(std::move(run_name)), cache_(std::move(cache)), ledger_(ledger) {}

void NodeRecord::Adopt(const NodeNotes& notes) {
  for (const auto& [id, one] : notes) {
    if (one.begun) begun_.insert(id), begun_stored_.insert(id);
    if (one.rejected) rejected_[id] = one.marked;
    if (one.pinned && !ledger_.Get(id)) pinned_.insert(id);
    for (const std::string& name : one.grown) grown_[id].insert(name);
  }
}

bool NodeRecord::MayReplaceIsStored(DatasetId id, const std::set<DatasetId>& older) const {
  if (BegunIsStored(id)) return true;
  const auto at = replaced_stored_.find(id);
  return at == replaced_stored_.end() ? older.empty() : std::ranges::includes(at->second, older);
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

void NodeRecord::RejectionMarked(DatasetId id) {
  if (const auto at = rejected_.find(id); at != rejected_.end()) at->second = true;
}

NodeNotes NodeRecord::Notes() const {
  NodeNotes notes;
  for (const auto& [id, dataset] : ledger_.InPlay()) {
    const bool dropped = dataset->flush_dropped(), gave_way = dataset->gave_way();
    const bool counted = dataset->in_cache() && dataset->ordinal != 0;
    if (!dataset->in_prefix() && !dataset->pinned && !gave_way && !dropped && !counted) continue;
    notes[id] = {.in_prefix = dataset->in_prefix(),
                 .pinned = dataset->pinned,
                 .dropped = dropped,
                 .gave_way = gave_way,
                 .foreign = dataset->foreign,
                 .fenced = dataset->standing == Standing::kFenced,
                 .anothers = dataset->standing == Standing::kAnothers,
                 .id_taken = dataset->id_taken(),
                 .doubted = dataset->standing == Standing::kDoubted,
                 .ordinal = counted ? dataset->ordinal : 0};
  }
  for (const auto& [by, older] : replaced_) {
    for (const DatasetId id : older) {
      if (const auto note = notes.find(id); note != notes.end()) note->second.doubted |= note->second.in_prefix;
    }
  }
  for (const auto& [id, names] : grown_) notes[id].grown = names;
  for (const DatasetId id : begun_) notes[id].begun = true;
  for (const auto& [id, marked] : rejected_) {
    notes[id].rejected = true;
    notes[id].marked = marked;
  }
  return notes;
}

void NodeRecord::Store(Then then) {
  if (then) waiting_.push_back(std::move(then));
  if (storing_) {
    stale_ = true;
    return;
  }
  storing_ = true;
  context_.OnCache(
      [cache = cache_, record = EncodeNodeRecord(Notes())] { return cache->StoreFlushRecord(record); },
      [this, begun = begun_, replaced = replaced_, told = std::exchange(waiting_, {})](const absl::Status& status) {
        if (!status.ok()) context_.Warn(fmt::format("run {}: {}", run_name_, MessageOf(status)));
        if (status.ok()) begun_stored_ = begun, replaced_stored_ = replaced;
        for (const Then& next : told) next(status);
        storing_ = false;
        if (std::exchange(stale_, false)) Store();
      });
}

}  // namespace cairn

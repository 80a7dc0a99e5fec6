// What this node notes of a run's datasets beside its cache, for the next daemon (storage/place/node_record.h has the
// record): kept up to date here, and stored. Strand only.
#ifndef CAIRN_DAEMON_CORE_NODE_RECORD_H_
#define CAIRN_DAEMON_CORE_NODE_RECORD_H_

#include <absl/status/status.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/ledger.h"
#include "storage/base/ids.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/node_record.h"

namespace cairn {

// What the ledger takes of a note.
Ledger::Noted NotedOf(const NodeNote& note);

class NodeRecord {
 public:
  using Then = std::function<void(const absl::Status&)>;

  NodeRecord(const Context& context, std::string run_name, std::shared_ptr<CacheFolder> cache, const Ledger& ledger);
  NodeRecord(const NodeRecord&) = delete;

  // What the record of the daemon before says of datasets that the ledger need not know.
  void Adopt(const NodeNotes& notes);
  // Stores what is so now: of the ledger and of the rest. One write at a time, of the state as it is when the write
  // begins: the last one always tells the latest. `then` hears of the write that tells what is so now.
  void Store(Then then = nullptr);

  // --- Begun on the prefix, by a flush or past the cache, and not known to be committed ---
  const std::set<DatasetId>& begun() const { return begun_; }
  bool Begun(DatasetId id) { return begun_.insert(id).second; }  // false: it was noted before
  void Settled(DatasetId id) { begun_.erase(id), replaced_.erase(id); }
  bool BegunIsStored(DatasetId id) const { return begun_stored_.contains(id); }  // the record on the disk says so

  // Files of these are about to be replaced on the prefix by `id`'s: until that is settled the next daemon takes it for
  // possible that they gave way. Also if `id` is not begun here: nothing is cleared away for it.
  void MayReplace(DatasetId id, std::set<DatasetId> older) { replaced_[id] = std::move(older); }
  // The record on the disk says so, in either way.
  bool MayReplaceIsStored(DatasetId id, const std::set<DatasetId>& older) const;

  // --- Growing directories whose place on the prefix is the dataset's ---
  const std::set<std::string>& Grown(DatasetId id) const;
  const std::map<DatasetId, std::set<std::string>>& grown() const { return grown_; }
  void HasGrown(DatasetId id, const std::string& name) { grown_[id].insert(name); }
  void LostPlace(DatasetId id, const std::string& name);
  void GrowthEnded(DatasetId id) { grown_.erase(id); }

  // --- Rejected by the application (rejections.h) ---
  // Whether the prefix has been told, by dataset.
  const std::map<DatasetId, bool>& rejected() const { return rejected_; }
  void Rejected(DatasetId id) { rejected_.try_emplace(id, false); }
  void RejectionMarked(DatasetId id);
  void NotRejected(DatasetId id) { rejected_.erase(id); }

  // Pinned by the user, and only on the prefix.
  bool IsPinned(DatasetId id) const { return pinned_.contains(id); }

 private:
  using Replaced = std::map<DatasetId, std::set<DatasetId>>;  // by the newer one
  NodeNotes Notes() const;

  const Context& context_;
  const std::string run_name_;
  const std::shared_ptr<CacheFolder> cache_;
  const Ledger& ledger_;
  std::set<DatasetId> begun_, begun_stored_, pinned_;
  Replaced replaced_, replaced_stored_;
  std::map<DatasetId, bool> rejected_;
  std::map<DatasetId, std::set<std::string>> grown_;
  bool storing_ = false, stale_ = false;
  std::vector<Then> waiting_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_NODE_RECORD_H_

#include "daemon/core/removals.h"

#include <set>
#include <utility>

#include "daemon/core/descriptor.h"
#include "daemon/core/facts.h"
#include "storage/base/status.h"
#include "storage/place/publish/unfinished.h"

namespace cairn {

using Change = PrefixGate::Change;

Removals::Removals(const Context& context, std::string run_name, Ledger& ledger, PrefixGate& gate, NodeRecord& record,
                   std::function<bool(DatasetId)> in_use, const LaunchKeeper& keeper)
    : context_(context),
      run_name_(std::move(run_name)),
      ledger_(ledger),
      gate_(gate),
      record_(record),
      in_use_(std::move(in_use)),
      keeper_(keeper) {}

absl::Status Removals::IsScrs(DatasetId id) {
  return FailedPrecondition("dataset {} is SCR's own: only `cairn index remove` takes it from the prefix", id);
}

void Removals::Remove(const DatasetPtr& dataset, std::function<void(absl::Status)> then) {
  RemoveAs(dataset, /*committer=*/0, std::move(then));
}

void Removals::RemoveElsewhere(const DatasetPtr& dataset, std::function<void(absl::Status)> then) {
  // What is of no launch is brought to no other node.
  const bool elsewhere = dataset->over_nodes() || context_.env.peers != nullptr;
  if (!elsewhere || dataset->launch == 0) return then(absl::OkStatus());
  if (!gate_.usable()) return then(gate_.OutOfReach());
  context_.OnPrefix(
      gate_.path(), [prefix = gate_.prefix(), id = dataset->id] { return prefix->NoteRemovedByUser(id); },
      [then = std::move(then)](const absl::Status& noted) { then(noted); });
}

void Removals::RemoveAs(const DatasetPtr& dataset, LaunchId committer, std::function<void(absl::Status)> then) {
  if (dataset->foreign) return then(IsScrs(dataset->id));
  if (!dataset->in_prefix()) return then(absl::OkStatus());
  if (!gate_.usable()) return then(gate_.OutOfReach());
  RemoveNow(dataset, committer, std::move(then));
}

// A removal may take away what a commit has just put there: only one of the two at a time.
void Removals::RemoveNow(const DatasetPtr& dataset, LaunchId committer, std::function<void(absl::Status)> then) {
  const auto lease = gate_.TryTake(dataset->kind.files ? Change::kRemoveFiles : Change::kRemove);
  if (!lease) return gate_.WhenFree([this, dataset, committer, then] { RemoveAs(dataset, committer, then); });
  std::vector<catalogue::Catalogue> catalogues;
  if (dataset->described()) catalogues = CataloguesOf(*dataset);
  record_.Settled(dataset->id);
  ledger_.RemovalBegan(*dataset);
  record_.Store();
  context_.OnPrefix(
      gate_.path(),
      [prefix = gate_.prefix(), id = dataset->id, committer,
       catalogues = std::move(catalogues)]() mutable -> absl::Status {
        if (catalogues.empty()) {
          CAIRN_ASSIGN_OR_RETURN(catalogues, prefix->Catalogues(id));
        }
        return prefix->Remove(id, catalogues, committer);
      },
      [this, lease, dataset, then = std::move(then)](const absl::Status& status) {
        if (status.ok()) {
          ledger_.Removed(*dataset);
        } else {  // it may be tried again
          ledger_.RemovalFailed(dataset);
          record_.Store();
        }
        then(status);
        lease->End();
      });
}

std::vector<DatasetId> Removals::ByPolicy(std::span<const Prefix::SetBack> set_backs) const {
  std::vector<DatasetFacts> own = AllFactsOf(ledger_, context_.config.flush);
  std::erase_if(own, [this](const DatasetFacts& facts) { return ledger_.Get(facts.id)->foreign; });
  for (DatasetFacts& facts : own) {
    facts.set_back = index_rules::IsSetBack(AgeOf(*ledger_.Get(facts.id)), set_backs);
  }
  return PrefixRemovals(own, context_.config.prefix);
}

// The user may have set CURRENT back since this daemon has looked, if it ever has: the index is asked first.
void Removals::ApplyPolicy() {
  if (context_.config.prefix.keep_last == 0 || !gate_.usable()) return;
  if (ByPolicy({}).empty()) return;  // with what was set back nothing more would go
  context_.OnPrefix(
      gate_.path(), [prefix = gate_.prefix()] { return prefix->SetBacks(); },
      [this](const absl::StatusOr<std::vector<Prefix::SetBack>>& set_backs) {
        if (!set_backs.ok()) {
          return context_.Warn(fmt::format("run {}: prefix.keep_last waits for the next checkpoint: {}", run_name_,
                                           MessageOf(set_backs.status())));
        }
        for (DatasetId id : ByPolicy(*set_backs)) {
          if (const DatasetPtr old = ledger_.Get(id)) RemoveByPolicy(old);
        }
      });
}

void Removals::RemoveByPolicy(const DatasetPtr& dataset) {
  const Launch* newest = ledger_.newest();
  if (newest != nullptr && (!newest->ours || newest->provisional)) return;  // its launch has the say now
  RemoveAs(dataset, keeper_.committer(), [this, id = dataset->id](const absl::Status& removed) {
    if (!removed.ok() && !IsFenced(removed)) context_.Warn(fmt::format("dataset {}: {}", id, MessageOf(removed)));
  });
}

void Removals::GaveWay(DatasetId id, DatasetId to) {
  const DatasetPtr dataset = ledger_.Get(id);
  if (!dataset) return;
  const std::string why = fmt::format("dataset {} has replaced files of dataset {} by the same names", to, id);
  context_.Warn(fmt::format("run {}: {}", run_name_, why));
  ledger_.GaveWay(*dataset, to, why);
  record_.Store();
}

void Removals::RemoveTooLate(DatasetId id, std::vector<catalogue::Catalogue> catalogues) {
  if (!gate_.usable()) return;  // the record stays, for the next start
  const auto lease = gate_.TryTake(Change::kRemoveFiles);
  if (!lease) return gate_.WhenFree([this, id, catalogues] { RemoveTooLate(id, catalogues); });
  context_.OnPrefix(
      gate_.path(),
      [&disk = context_.env.prefix_disk, prefix = gate_.prefix(), id,
       leftovers = Leftovers{.known = std::move(catalogues)}] {
        return RemoveUnfinished(disk, *prefix, id, leftovers);
      },
      [this, lease, id](const absl::Status& removed) {
        if (removed.ok() || absl::IsFailedPrecondition(removed)) {
          record_.Settled(id);
          record_.Store();
        } else {
          context_.Warn(fmt::format("dataset {}: {}", id, MessageOf(removed)));
        }
        lease->End();
      });
}

void Removals::Tidy() {
  // Another node may have what this one had begun, and go on with it under the launch that is newest by now.
  const Launch* newest = ledger_.newest();
  if (context_.env.peers != nullptr && newest != nullptr && !newest->ours) return;
  std::set<DatasetId> left;
  for (DatasetId id : std::set(record_.begun())) {
    if (in_use_(id)) continue;
    const DatasetPtr dataset = ledger_.Get(id);
    if (dataset && dataset->in_prefix()) record_.Settled(id);  // committed just before a crash
    if (!dataset || dataset->damaged()) left.insert(id);
  }
  if (left.empty() || !gate_.usable()) return;
  const auto lease = gate_.TryTake(Change::kRemoveFiles);
  if (!lease) return gate_.WhenFree([this] { Tidy(); });
  for (DatasetId id : left) record_.Settled(id);
  context_.OnPrefix(
      gate_.path(),
      [&disk = context_.env.prefix_disk, prefix = gate_.prefix(),
       left]() mutable -> absl::StatusOr<std::set<DatasetId>> {
        CAIRN_ASSIGN_OR_RETURN(const PrefixContents there, prefix->Contents());
        std::erase_if(
            left, [&](DatasetId id) { return WasCommitted(there, id) || RemoveUnfinished(disk, *prefix, id).ok(); });
        return left;
      },
      [this, lease, left](const absl::StatusOr<std::set<DatasetId>>& rest) {
        for (DatasetId id : rest.ok() ? *rest : left) record_.Begun(id);  // the next time
        record_.Store();
        lease->End();
      });
}

}  // namespace cairn

// Where datasets are, and what is to become of them: the tables in ledger.h.
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/ledger.h"
#include "storage/base/check.h"

namespace cairn {
namespace {

void Move(Place& place, std::initializer_list<Place> from, Place to) {
  CAIRN_CHECK(std::find(from.begin(), from.end(), place) != from.end());
  place = to;
}

void KeepsNothing(Dataset& dataset) {
  dataset.kept_bytes = 0;
  dataset.keeping = dataset.keeping_before = 0;
  dataset.redundant = dataset.awaits_redundancy = false;
  for (Part& part : dataset.parts) {
    part.keeps = nullptr;
    part.kept_before.clear();
  }
}

// It is only on the prefix now, and nobody reads it: what describes it is read again if it is asked for.
void ForgetParts(Dataset& dataset) {
  for (const Part& part : dataset.parts) CAIRN_CHECK(part.stored());
  dataset.bytes_there = dataset.bytes();
  dataset.parts = {};
  dataset.unknown = dataset.undescribed = 0;
  dataset.outdated_parts = false;
  KeepsNothing(dataset);
}

// All parts are where all of it is.
void NoNodeHasParts(Dataset& dataset) {
  for (Part& part : dataset.parts) {
    part.elsewhere = false;
    part.node.clear();
    part.rebuilt = false;
  }
  dataset.unknown = 0;
}

}  // namespace

// --- A dataset is known from disk ---

DatasetPtr Ledger::Adopt(Dataset given) {
  auto dataset = std::make_shared<Dataset>(std::move(given));
  const DatasetId id = dataset->id;
  CAIRN_CHECK(dataset->whole());
  CAIRN_CHECK(dataset->parts.size() == dataset->nranks || (dataset->parts.empty() && !dataset->in_cache()));
  for (const Part& part : dataset->parts) CAIRN_CHECK(part.stored());
  dataset->captured = dataset->stored = dataset->nranks;
  gone_.erase(id);
  // A launch that ran when it was brought in went on with ids that it had before.
  dataset->outdated =
      dataset->launch == 0 && !dataset->foreign &&
      std::any_of(datasets_.begin(), datasets_.end(), [&](const auto& item) {
        const Dataset& own = *item.second;
        return item.first < id && own.launch != 0 && own.restorable() && own.created_us > dataset->created_us;
      });
  Know(dataset);
  return dataset;
}

void Ledger::AdoptNoted(const Dataset& given, const Noted& noted) {
  Dataset& dataset = Own(given);
  if (noted.in_prefix) Move(dataset.prefix, {Place::kAbsent, Place::kWhole}, Place::kWhole);
  dataset.standing = noted.standing;
  SetForeign(dataset, noted.foreign);
  dataset.pinned = noted.pinned;
  dataset.ordinal = noted.ordinal;
}

void Ledger::SetForeign(Dataset& dataset, bool foreign) {
  if (std::exchange(dataset.foreign, foreign) != foreign) by_age_.MakerChanged();
}

void Ledger::FoundInCache(const Dataset& dataset) {
  Move(Own(dataset).cache, {Place::kAbsent, Place::kWhole}, Place::kWhole);
}

DatasetPtr Ledger::ComesFromNode(Dataset given) {
  CAIRN_CHECK(!Get(given.id) && given.parts.size() == given.nranks);
  for (const Part& part : given.parts) CAIRN_CHECK(part.stored());
  auto dataset = std::make_shared<Dataset>(std::move(given));
  dataset->captured = dataset->stored = dataset->nranks;
  dataset->cache = Place::kArriving;
  gone_.erase(dataset->id);
  Know(dataset);
  return dataset;
}

void Ledger::DidNotCome(const Dataset& given) {
  const DatasetPtr dataset = Get(given.id);
  CAIRN_CHECK(dataset.get() == &given && given.cache == Place::kArriving && !given.in_prefix());
  Unknow(dataset);
}

DatasetPtr Ledger::IsOnNodes(Dataset given) {
  CAIRN_CHECK(!Get(given.id));
  auto dataset = std::make_shared<Dataset>(std::move(given));
  PutPartsHere(*dataset, dataset->nranks, {});
  dataset->captured = dataset->stored = dataset->nranks;
  dataset->cache = Place::kWhole;
  gone_.erase(dataset->id);
  Know(dataset);
  return dataset;
}

void Ledger::Described(const Dataset& given, const std::vector<catalogue::Catalogue>& catalogues) {
  Dataset& dataset = Own(given);
  CAIRN_CHECK(catalogues.size() == dataset.nranks && dataset.all_stored());
  dataset.parts.resize(dataset.nranks);
  dataset.outdated_parts = false;
  dataset.undescribed = 0;
  for (Rank rank = 0; rank < dataset.nranks; ++rank) {
    Part& part = dataset.parts[rank];
    part.described = true;
    part.state = Part::State::kStored;
    part.catalogue = catalogues[rank];
    LearnScheme(dataset, part.catalogue);
    part.bytes = FileBytes(part.catalogue);
  }
}

void Ledger::CataloguesChanged(const Dataset& dataset) {
  CAIRN_CHECK(dataset.all_stored());
  Own(dataset).outdated_parts = !dataset.parts.empty();
}

void Ledger::ForgetUnreadParts() {
  for (const auto& [id, dataset] : datasets_) {
    const bool only_there =
        dataset->in_prefix() && dataset->cache == Place::kAbsent && dataset->folder == Place::kAbsent;
    const bool restored = std::any_of(launches_.begin(), launches_.end(), [id = id](const auto& launch) {
      return launch.second.restored_files.contains(id);
    });
    if (only_there && !restored && dataset->readers == 0 && !dataset->parts.empty()) ForgetParts(Own(*dataset));
  }
}

// --- It changes its place ---

void Ledger::InFolder(const Dataset& dataset) {
  Own(dataset).folder = Place::kWhole;
}

void Ledger::FolderLeaves(const Dataset& dataset) {
  Move(Own(dataset).folder, {Place::kWhole}, Place::kLeaving);
}

// It may have been put there again meanwhile, or be arriving in the cache.
void Ledger::FolderLeft(const DatasetPtr& dataset) {
  if (dataset->folder != Place::kLeaving) return;
  Own(*dataset).folder = Place::kAbsent;
  const bool anywhere = dataset->cache != Place::kAbsent || dataset->prefix != Place::kAbsent;
  if (anywhere || dataset->readers > 0) return;
  const DatasetPtr newest = NewestRestorable();
  Forget(dataset->id, {.why = Gone::Why::kSuperseded,
                       .message = "it is not needed any more",
                       .successor = newest ? newest->id : 0,
                       .step = dataset->step});
}

void Ledger::FolderDamaged(const Dataset& dataset) {
  Move(Own(dataset).folder, {Place::kWhole}, Place::kDamaged);
}

void Ledger::Completed(const Dataset& given) {
  Dataset& dataset = Own(given);
  CAIRN_CHECK(dataset.all_stored());
  if (!dataset.kind.past_cache) return Move(dataset.cache, {Place::kArriving}, Place::kWhole);
  Move(dataset.prefix, {Place::kArriving}, Place::kWhole);
  dataset.asked = false;
  ForgetParts(dataset);
}

void Ledger::LeftCache(const Dataset& given, const std::string& why) {
  Dataset& dataset = Own(given);
  Move(dataset.cache, {Place::kWhole}, Place::kLeaving);
  KeepsNothing(dataset);
  for (auto& [id, launch] : launches_) launch.restored_files.erase(dataset.id);
  if (dataset.in_folder()) return NoNodeHasParts(dataset);
  if (dataset.in_prefix() && dataset.readers == 0) return ForgetParts(dataset);
  if (dataset.in_prefix()) return;
  const DatasetPtr newest = NewestRestorable();
  Forget(dataset.id,
         {.why = Gone::Why::kSuperseded, .message = why, .successor = newest ? newest->id : 0, .step = dataset.step});
}

void Ledger::FolderGone(DatasetId id) {
  const DatasetPtr dataset = Get(id);
  if (dataset && dataset->cache == Place::kLeaving) Own(*dataset).cache = Place::kAbsent;
}

void Ledger::CacheDamaged(const Dataset& dataset, const std::string& why) {
  Move(Own(dataset).cache, {Place::kWhole}, Place::kDamaged);
  Own(dataset).why_damaged = why;
  KeepsNothing(Own(dataset));
  if (dataset.in_folder()) NoNodeHasParts(Own(dataset));
}

void Ledger::RefetchBegan(const Dataset& dataset) {
  Move(Own(dataset).cache, {Place::kAbsent, Place::kWhole, Place::kLeaving, Place::kDamaged}, Place::kArriving);
  KeepsNothing(Own(dataset));
}

void Ledger::Refetched(const Dataset& dataset) {
  Move(Own(dataset).cache, {Place::kArriving}, Place::kWhole);
}

void Ledger::RefetchFailed(const Dataset& dataset) {
  Move(Own(dataset).cache, {Place::kArriving}, Place::kAbsent);
}

void Ledger::FlushBegan(const Dataset& dataset) {
  Move(Own(dataset).prefix, {Place::kAbsent, Place::kDamaged}, Place::kArriving);
}

void Ledger::FlushEnded(const Dataset& dataset) {
  if (dataset.prefix == Place::kArriving) Own(dataset).prefix = Place::kAbsent;
}

void Ledger::Committed(const Dataset& dataset) {
  Move(Own(dataset).prefix, {Place::kArriving, Place::kWhole, Place::kAbsent, Place::kDamaged}, Place::kWhole);
  Own(dataset).asked = false;
}

void Ledger::SeenOnPrefix(const Dataset& dataset, bool by_cairn) {
  if (dataset.prefix != Place::kLeaving) Own(dataset).prefix = Place::kWhole;
  ListedOnPrefix(dataset, by_cairn);
}

void Ledger::ListedOnPrefix(const Dataset& given, bool by_cairn) {
  Dataset& dataset = Own(given);
  SetForeign(dataset, !by_cairn);
  if (dataset.standing == Standing::kDoubted) dataset.standing = Standing::kCurrent;
  if (dataset.standing == Standing::kIdTaken) dataset.standing = Standing::kGaveWay;
  if (dataset.standing == Standing::kHistory) dataset.standing = Standing::kTakenOut;
}

void Ledger::NotOnPrefix(const Dataset& dataset) {
  if (dataset.in_prefix()) Own(dataset).prefix = Place::kAbsent;
}

void Ledger::GaveWay(const Dataset& given, DatasetId to, const std::string& why) {
  Dataset& dataset = Own(given);
  NotOnPrefix(dataset);
  if (dataset.standing < Standing::kGaveWay) dataset.standing = Standing::kGaveWay;
  if (dataset.in_cache()) return;
  Forget(dataset.id, {.why = Gone::Why::kSuperseded, .message = why, .successor = to, .step = dataset.step});
}

void Ledger::RemovalBegan(const Dataset& given) {
  Dataset& dataset = Own(given);
  Move(dataset.prefix, {Place::kWhole}, Place::kLeaving);
  FlushDropped(dataset);  // what was removed there is not flushed again
  if (dataset.in_cache()) return;
  Forget(dataset.id, {.why = Gone::Why::kRemoved, .message = "was removed", .step = dataset.step});
}

void Ledger::Removed(const Dataset& dataset) {
  Move(Own(dataset).prefix, {Place::kLeaving}, Place::kAbsent);
}

void Ledger::RemovalFailed(const DatasetPtr& dataset) {
  Move(Own(*dataset).prefix, {Place::kLeaving}, Place::kWhole);
  if (dataset->standing == Standing::kSuperseded) Own(*dataset).standing = Standing::kCurrent;
  gone_.erase(dataset->id);
  if (!Get(dataset->id)) Know(dataset);
}

void Ledger::PrefixDamaged(const Dataset& dataset) {
  Move(Own(dataset).prefix, {Place::kWhole}, Place::kDamaged);
}

void Ledger::Fenced(const Dataset& given, bool there) {
  Dataset& dataset = Own(given);
  dataset.asked = false;
  if (there && dataset.prefix != Place::kLeaving) dataset.prefix = Place::kWhole;
  if (dataset.standing < Standing::kFenced) dataset.standing = Standing::kFenced;
}

void Ledger::IsAnothers(const Dataset& dataset) {
  if (dataset.standing < Standing::kAnothers) Own(dataset).standing = Standing::kAnothers;
}

void Ledger::CountsAgain(const Dataset& dataset) {
  if (dataset.of_no_line()) Own(dataset).standing = Standing::kCurrent;
}

// --- What is to become of it ---

void Ledger::FlushDropped(const Dataset& dataset) {
  if (dataset.standing <= Standing::kDoubted) Own(dataset).standing = Standing::kSuperseded;
}

void Ledger::FlushAsked(const Dataset& dataset) {
  Own(dataset).asked = true;
}

void Ledger::FlushOrdered(const Dataset& dataset) {
  if (dataset.standing == Standing::kSuperseded) Own(dataset).standing = Standing::kCurrent;
}

void Ledger::FlushCancelled(const Dataset& dataset) {
  Own(dataset).asked = false;
  FlushDropped(dataset);
}

void Ledger::CameTooLate(const Dataset& dataset) {
  Own(dataset).asked = false;
  if (dataset.standing < Standing::kGaveWay) Own(dataset).standing = Standing::kGaveWay;
}

void Ledger::TakenOut(const Dataset& dataset) {
  Own(dataset).standing = dataset.id_taken() ? Standing::kHistory : Standing::kTakenOut;
}

void Ledger::IdTaken(const Dataset& given, bool history, const std::string& by) {
  Dataset& dataset = Own(given);
  dataset.taken_by = by;
  dataset.asked = false;
  NotOnPrefix(dataset);
  SetForeign(dataset, false);
  dataset.standing = history ? Standing::kHistory : Standing::kIdTaken;
}

void Ledger::CameBack(const Dataset& given) {
  Dataset& dataset = Own(given);
  if (dataset.prefix == Place::kLeaving) return;  // the look at the index is older than its removal
  dataset.prefix = Place::kWhole;
  if (!dataset.id_taken()) dataset.standing = Standing::kCurrent;
}

void Ledger::SetPinned(const Dataset& dataset, bool pinned) {
  Own(dataset).pinned = pinned;
}

void Ledger::Forget(DatasetId id, Gone gone) {
  if (const DatasetPtr dataset = Get(id)) Unknow(dataset);
  gone_[id] = std::move(gone);
  while (gone_.size() > kGoneMax) gone_.erase(gone_.begin());
}

}  // namespace cairn

#include "daemon/core/redundant_tier.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/core/facts.h"
#include "daemon/core/folder_record.h"
#include "daemon/policy/policy.h"
#include "storage/base/status.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {
namespace {

constexpr std::chrono::seconds kLookAtMost(10);  // an opening waits
constexpr std::chrono::seconds kAgain(10);       // after what has failed

constexpr DatasetId kAll = 0;  // while what is not needed goes

}  // namespace

RedundantTier::RedundantTier(const Context& context, const Given& given, std::function<void()> on_change,
                             std::function<void()> look_again)
    : context_(context), given_(given), on_change_(std::move(on_change)), look_again_(std::move(look_again)) {
  const std::string& root = context_.config.redundant.path;
  if (root.empty()) return;
  const RunIdentity run = given_.cache.folder().record().run;
  Disk& disk = context_.env.prefix_disk;
  RedundantFolder::Checks checks{.apart_from = {}, .marked = context_.config.redundant.marked};
  if (context_.config.redundant.apart) {
    checks.apart_from = {{&context_.env.cache_disk, context_.config.cache.path}, {&disk, "/"}};
  }
  folder_ = std::make_shared<RedundantFolder>(disk, root, context_.env.process.user, run, std::move(checks));
  lane_ = root + " (redundant.path)";
  agreement_ =
      std::make_unique<FolderAgreement>(context_, FolderAgreement::Given{.ledger = given_.ledger,
                                                                         .gate = given_.gate,
                                                                         .run = run.run,
                                                                         .folder = folder_,
                                                                         .lane = lane_,
                                                                         .on_another = [this] { IsAnotherFolder(); }});
  look_lane_ = fmt::format("{}, looks of run {}", lane_, given_.run_name);
  change_lane_ = fmt::format("{}, changes of run {}", lane_, given_.run_name);
}

void RedundantTier::WarnOnce(std::string text) {
  if (text != last_warning_) context_.Warn(text);
  last_warning_ = std::move(text);
}

bool RedundantTier::Belongs(const Dataset& dataset) const {
  const std::vector<DatasetFacts> run = FactsOf(given_.ledger, context_.config.flush);
  const auto facts = std::ranges::find(run, dataset.id, &DatasetFacts::id);
  return facts != run.end() && BelongsInFolder(*facts, run, context_.config.flush);
}

// Another daemon may still need it: that of the newest launch decides.
bool RedundantTier::DecidesHere() const {
  const Launch* const newest = given_.ledger.newest();
  return newest != nullptr && newest->ours && !newest->provisional;
}

void RedundantTier::Update() {
  if (!configured() || context_.quiescing()) return;
  if (!looked_ && !looking_ && context_.now() >= look_at_) Look();
  if (looked_ && context_.now() >= remove_at_) RemoveNext();
}

void RedundantTier::Stop() {
  waiting_.clear();
  for (const auto& [id, bringing] : bringing_) {
    bringing->progress->stop = true;
    if (bringing->timer != 0) context_.loop().Cancel(std::exchange(bringing->timer, 0));
  }
}

// --- What is there ---

void RedundantTier::TakeUp(std::function<void()> then, For whom) {
  if (!configured() || context_.quiescing()) return context_.loop().Post(std::move(then));
  const std::uint64_t waiting = ++last_waiting_;
  waiting_[waiting] = {.then = std::move(then), .whom = whom};
  context_.loop().After(kLookAtMost, [this, waiting] {
    if (!waiting_.contains(waiting)) return;
    context_.Warn(fmt::format("run {}: {} does not answer: what is only there is not known", given_.run_name, lane_));
    Answer(waiting);
  });
  if (whom == For::kOfflineLaunch) return looking_ ? void() : Look();
  // Which folder it must be the prefix knows: an empty one in its place would say that there is nothing.
  agreement_->Learn([this](const absl::Status&) {
    if (!looking_ && !waiting_.empty() && !context_.quiescing()) Look();
  });
}

// What was in the one before is not within reach any more.
void RedundantTier::IsAnotherFolder() {
  since_look_.clear();
  NotFoundAnyMore({});
  LookAgain();
  look_again_();
}

void RedundantTier::Answer(std::uint64_t waiting) {
  const auto ended = waiting_.extract(waiting);
  if (!ended) return;
  context_.loop().Post([then = ended.mapped().then] { then(); });
  on_change_();
}

// Who asks while a look is under way has the next one: by then there may be more.
void RedundantTier::Look() {
  looking_ = true;
  look_began_ = context_.now();
  context_.loop().After(stalled(), look_again_);
  since_look_.clear();
  for (auto& [number, waiting] : waiting_) waiting.in_this_look = true;
  RunBlocking(
      context_.env.pools.prefix, look_lane_, context_.loop(), [folder = folder_] { return folder->Look(); },
      [this, take_up = WhatToTakeUp()](const absl::StatusOr<RedundantFolder::Contents>& contents) {
        looking_ = false;
        Looked(contents, take_up);
        std::vector<std::uint64_t> ended;
        for (const auto& [number, waiting] : waiting_) {
          if (waiting.in_this_look) ended.push_back(number);
        }
        for (const std::uint64_t number : ended) Answer(number);
        if (!waiting_.empty() && !context_.quiescing()) Look();
        on_change_();
      });
}

RedundantTier::TakingUp RedundantTier::WhatToTakeUp() const {
  if (waiting_.empty()) return TakingUp::kNothing;
  const auto is = [](For whom) { return [whom](const auto& item) { return item.second.whom == whom; }; };
  if (std::ranges::all_of(waiting_, is(For::kOfflineLaunch))) return TakingUp::kOfKnownLaunches;
  return std::ranges::any_of(waiting_, is(For::kLaunch)) ? TakingUp::kToBeJudged : TakingUp::kAll;
}

void RedundantTier::Looked(const absl::StatusOr<RedundantFolder::Contents>& contents, TakingUp take_up) {
  const Launch* const newest = given_.ledger.newest();
  const bool offline = newest != nullptr && newest->provisional;  // it may have begun meanwhile
  if (offline) take_up = std::min(take_up, TakingUp::kOfKnownLaunches);
  look_failed_ = !contents.ok();
  if (!contents.ok()) {
    WarnOnce(
        fmt::format("run {}: what is in {} is not known: {}", given_.run_name, lane_, MessageOf(contents.status())));
    if (folder_->Differed()) {
      agreement_->Doubt();
      agreement_->Agree([](const absl::Status&) {});
    }
    look_at_ = context_.now() + kAgain;
    if (!looked_) context_.loop().After(kAgain, look_again_);
    return;
  }
  looked_ = true;
  for (const auto& [id, found] : contents->whole) {
    if (!changing_.contains(id)) Found(id, found, take_up);
  }
  NotFoundAnyMore(*contents);
  for (const auto& [id, why] : contents->unknown) {
    WarnOnce(
        fmt::format("run {}: dataset {} in {} cannot be looked at: {}", given_.run_name, id, lane_, MessageOf(why)));
  }
  if (!contents->unknown.empty()) {
    context_.loop().After(kAgain, [this] {
      LookAgain();
      look_again_();
    });
  }
  // What looks damaged may only look so from here, and may be the last copy: unless there is another, it stays.
  for (const auto& [id, why] : contents->damaged) {
    const std::string text =
        fmt::format("run {}: dataset {} in {} is damaged: {}", given_.run_name, id, lane_, MessageOf(why));
    const DatasetPtr known = given_.ledger.Get(id);
    const bool elsewhere = known && (known->in_prefix() || (known->in_cache() && known->unknown == 0));
    if (take_up < TakingUp::kToBeJudged || !elsewhere || changing_.contains(id)) {
      WarnOnce(text);
      continue;
    }
    context_.Warn(text + "; it goes aside");
    Change(
        id, [id = id](RedundantFolder& folder) { return folder.SetAside(id); }, [](const absl::Status&) {});
  }
}

void RedundantTier::Found(DatasetId id, const RedundantFolder::Found& found, TakingUp take_up) {
  const DatasetPtr known = given_.ledger.Get(id);
  if (known && !IsOf(found.record, *known)) {
    return WarnOnce(fmt::format("run {}: {} has another dataset {}, of launch {}: it is left alone", given_.run_name,
                                lane_, id, found.record.launch()));
  }
  if (!known) {
    const bool counts = given_.ledger.KnowsThatCounts(found.record.launch(), found.record.mark());
    if (take_up == TakingUp::kNothing || (take_up == TakingUp::kOfKnownLaunches && !counts)) return;
    const DatasetPtr adopted = Adopt(id, found);
    if (!adopted || counts || take_up == TakingUp::kAll) return;
    given_.ledger.Fenced(*adopted, /*there=*/false);
    unjudged_.insert(id);
    return;
  }
  // A launch that was to be made, and was not, has left it fenced; this one takes it up as it finds it.
  if (take_up == TakingUp::kAll) IsJudged(id);
  const bool settled = known->in_cache() || known->in_prefix();
  if (known->folder == Place::kLeaving || known->in_folder() || !settled) return;
  // Its home, which may be no more, has told what is there.
  if (known->followed && take_up == TakingUp::kNothing) return;
  if (!known->described()) given_.ledger.Described(*known, found.ranks);
  given_.ledger.InFolder(*known);
  there_.insert(id);
}

// What was removed or rejected is only taken up to be removed there, too.
DatasetPtr RedundantTier::Adopt(DatasetId id, const RedundantFolder::Found& found) {
  const Gone* const gone = given_.ledger.FindGone(id);
  const bool unwanted = given_.inventory.WasRefused(id) || (gone != nullptr && gone->why != Gone::Why::kSuperseded);
  there_.insert(id);
  if (unwanted) return nullptr;
  Dataset dataset = DatasetOf(found.record, found.ranks);
  dataset.pinned = given_.record.IsPinned(id);
  given_.ids.Seen(id);
  const DatasetPtr adopted = given_.ledger.Adopt(std::move(dataset));
  spdlog::info("run {}: dataset {} (step {}) is in {}", given_.run_name, id, adopted->step, lane_);
  return adopted;
}

void RedundantTier::IsJudged(DatasetId id) {
  if (unjudged_.erase(id) == 0) return;
  const DatasetPtr dataset = given_.ledger.Get(id);
  if (dataset && dataset->standing == Standing::kFenced) given_.ledger.CountsAgain(*dataset);
}

// Another daemon, which served a launch of the run in between, has removed it; or somebody else.
void RedundantTier::NotFoundAnyMore(const RedundantFolder::Contents& contents) {
  for (const DatasetId id : std::set(there_)) {
    const bool may_be_there = contents.whole.contains(id) || contents.unknown.contains(id);
    if (may_be_there || since_look_.contains(id) || changing_.contains(id)) continue;
    there_.erase(id);
    unjudged_.erase(id);
    const DatasetPtr dataset = given_.ledger.Get(id);
    if (!dataset || !dataset->in_folder()) continue;
    context_.Warn(
        fmt::format("run {}: dataset {} (step {}) is not in {} any more", given_.run_name, id, dataset->step, lane_));
    given_.ledger.FolderLeaves(*dataset);
    given_.ledger.FolderLeft(dataset);
  }
}

// What the newest launch is yet to make has higher numbers.
void RedundantTier::Tidy() {
  if (!configured() || context_.quiescing() || !DecidesHere() || changing_.contains(kAll)) return;
  std::set<DatasetId> stay = begun_;
  for (const auto& [id, bringing] : bringing_) stay.insert(id);
  for (const auto& [id, dataset] : given_.ledger.InPlay()) {
    if (dataset->in_cache()) stay.insert(id);  // it may go on with what has arrived
  }
  Change(
      kAll, [stay, below = given_.ids.next()](RedundantFolder& folder) { return folder.Tidy(below, stay); },
      [this](const absl::Status& tidied) {
        if (tidied.ok()) return;
        WarnOnce(fmt::format("run {}: what is not needed in {} stays: {}", given_.run_name, lane_, MessageOf(tidied)));
      });
}

void RedundantTier::IsFull(DatasetId id) {
  needs_room_ = id;
  Tidy();
}

// --- Out of it ---

bool RedundantTier::MayGo(DatasetId id) const {
  if (bringing_.contains(id) || changing_.contains(id) || unjudged_.contains(id)) return false;
  const DatasetPtr dataset = given_.ledger.Get(id);
  if (dataset && dataset->readers > 0) return false;  // it may be being brought by others
  if (!dataset || (!there_.contains(id) && id < needs_room_)) return DecidesHere();
  if (dataset->followed || dataset->standing == Standing::kAnothers) return false;
  return DecidesHere() && !Belongs(*dataset);
}

// One at a time. What was whole does not count any more before it goes.
void RedundantTier::RemoveNext() {
  if (!changing_.empty()) return;
  std::set<DatasetId> all = there_;
  all.insert(begun_.begin(), begun_.end());
  for (const DatasetId id : all) {
    const DatasetPtr dataset = given_.ledger.Get(id);
    const bool leaving = dataset && dataset->folder == Place::kLeaving;
    if (!leaving && !MayGo(id)) continue;
    if (dataset && dataset->in_folder()) given_.ledger.FolderLeaves(*dataset);
    spdlog::info("run {}: dataset {} leaves {}", given_.run_name, id, lane_);
    Change(
        id, [id](RedundantFolder& folder) { return folder.Remove(id); },
        [this, id](const absl::Status& status) { Removed(id, status); });
    return;
  }
}

void RedundantTier::Removed(DatasetId id, const absl::Status& status) {
  if (!status.ok()) {
    WarnOnce(fmt::format("run {}: dataset {} stays in {} for now: {}", given_.run_name, id, lane_, MessageOf(status)));
    remove_at_ = context_.now() + kAgain;
    context_.loop().After(kAgain, look_again_);
    return;
  }
  there_.erase(id);
  begun_.erase(id);
  if (const DatasetPtr dataset = given_.ledger.Get(id)) given_.ledger.FolderLeft(dataset);
}

// `then` is told after flush.stalled at the latest; the dataset is being changed for as long as it takes.
void RedundantTier::Change(DatasetId id, std::function<absl::Status(RedundantFolder& folder)> work, Then then) {
  changing_.insert(id);
  const auto told = std::make_shared<Then>(std::move(then));
  const auto tell = [told](const absl::Status& status) {
    if (const Then once = std::exchange(*told, nullptr)) once(status);
  };
  const Loop::TimerId timer =
      context_.loop().After(stalled(), [tell, lane = lane_] { tell(DeadlineExceeded("{} does not answer", lane)); });
  RunBlocking(
      context_.env.pools.prefix, change_lane_, context_.loop(),
      [folder = folder_, work = std::move(work)] { return work(*folder); },
      [this, id, tell, timer](const absl::Status& status) {
        context_.loop().Cancel(timer);
        changing_.erase(id);
        tell(status);
        on_change_();
      });
}

void RedundantTier::FoundDamaged(const DatasetPtr& dataset, const std::string& why) {
  if (!given_.ledger.Has(dataset) || !dataset->in_folder()) return;
  const DatasetId id = dataset->id;
  context_.Warn(fmt::format("run {}: dataset {} (step {}) in {} is damaged, and goes aside: {}", given_.run_name, id,
                            dataset->step, lane_, why));
  given_.ledger.FolderDamaged(*dataset);
  there_.erase(id);
  Change(
      id, [id](RedundantFolder& folder) { return folder.SetAside(id); },
      [this, id](const absl::Status& status) {
        if (status.ok()) return;
        WarnOnce(fmt::format("run {}: dataset {} could not be set aside: {}", given_.run_name, id, MessageOf(status)));
      });
}

// --- Into it ---

// While something hangs there, more would only hang, too.
bool RedundantTier::MayBring(DatasetId id) const {
  return configured() && looked_ && bringing_.empty() && !changing_.contains(id) && !changing_.contains(kAll);
}

bool RedundantTier::IsAway() const {
  const bool hangs = std::ranges::any_of(bringing_, [](const auto& item) { return !item.second->then; });
  const bool silent = looking_ && context_.now() >= look_began_ + stalled();
  return hangs || (!looked_ && (look_failed_ || silent));
}

void RedundantTier::Bring(DatasetId id, Then then) {
  const auto answer = [this, &then](absl::Status status) {
    context_.loop().Post([then = std::move(then), status = std::move(status)] { then(status); });
  };
  const DatasetPtr dataset = given_.ledger.Get(id);
  if (!configured()) return answer(FailedPrecondition("redundant.path is not set on {}", context_.env.process.host));
  if (!dataset || !dataset->in_cache()) return answer(NotFound("dataset {} is not whole in this node's cache", id));
  if (context_.quiescing()) return answer(Unavailable("the daemon is going away"));
  if (!bringing_.empty()) return answer(Unavailable("{}: another copy is under way", lane_));
  const auto bringing = std::make_shared<Bringing>();
  for (const Part& part : dataset->parts) {
    if (!part.elsewhere && part.stored()) bringing->here.push_back(part.catalogue);
  }
  bringing->then = std::move(then);
  bringing->lease = given_.folders.Lease(id);
  bringing->since = context_.now();
  bringing_[id] = bringing;
  given_.ledger.ReadBegan(*dataset);
  LookAtBringing(dataset);
  agreement_->Agree([this, dataset, bringing](const absl::Status& agreed) {
    if (agreed.ok() && bringing->then) return Copy(dataset, bringing);
    context_.loop().Post(
        [this, dataset, bringing, agreed] { BringEnded(dataset, bringing, {.status = agreed, .damaged = {}}); });
  });
}

void RedundantTier::Copy(const DatasetPtr& dataset, const BringingPtr& bringing) {
  throttle_->SetLimit(context_.config.redundancy.bytes_per_s);
  const DatasetId id = dataset->id;
  auto work = [folder = folder_, id, bringing, from = given_.cache.folder().DatasetPath(id),
               &disk = context_.env.cache_disk, throttle = throttle_] {
    Brought brought;
    brought.status = folder->Bring(id, {.disk = disk, .folder = from, .ranks = bringing->here}, *throttle,
                                   *bringing->progress, &brought.damaged);
    return brought;
  };
  RunBlocking(context_.env.pools.flush, lane_, context_.loop(), std::move(work),
              [this, dataset, bringing](const Brought& brought) { BringEnded(dataset, bringing, brought); });
}

// What hangs holds nothing up: should it go on one day, it finds files that are gone, or not what their catalogues say.
void RedundantTier::LookAtBringing(const DatasetPtr& dataset) {
  const auto at = bringing_.find(dataset->id);
  if (at == bringing_.end()) return;
  Bringing& bringing = *at->second;
  if (bringing.progress->GotOn(bringing.seen)) bringing.since = context_.now();
  bringing.timer = 0;
  if (context_.now() >= bringing.since + stalled()) {
    bringing.progress->stop = true;
    bringing.lease.reset();
    given_.ledger.ReadEnded(*dataset);
    if (const Then then = std::exchange(bringing.then, nullptr)) then(DeadlineExceeded("{} does not answer", lane_));
    return;
  }
  const auto pause = std::max<std::chrono::milliseconds>(stalled() / 4, std::chrono::milliseconds(1));
  bringing.timer = context_.loop().After(pause, [this, dataset] { LookAtBringing(dataset); });
}

void RedundantTier::BringEnded(const DatasetPtr& dataset, const BringingPtr& bringing, const Brought& brought) {
  bringing_.erase(dataset->id);
  if (bringing->timer != 0) context_.loop().Cancel(std::exchange(bringing->timer, 0));
  const Then then = std::exchange(bringing->then, nullptr);
  if (folder_->Differed()) agreement_->Doubt();
  if (!then) return on_change_();  // nothing that it has found counts any more
  bringing->lease.reset();
  given_.ledger.ReadEnded(*dataset);
  then(brought.status);
  const bool known = given_.ledger.Has(dataset) && dataset->in_cache();
  if (known && absl::IsDataLoss(brought.status) && !brought.damaged.empty()) {
    given_.cache.FoundDamaged(dataset, brought.damaged, brought.status);
  }
  on_change_();
}

void RedundantTier::Complete(const DatasetPtr& dataset, Then then) {
  agreement_->Agree([this, dataset, then = std::move(then)](const absl::Status& agreed) {
    if (agreed.ok()) return MakeRecord(dataset, then);
    context_.loop().Post([then, agreed] { then(agreed); });
  });
}

void RedundantTier::MakeRecord(const DatasetPtr& dataset, Then then) {
  const DatasetId id = dataset->id;
  Change(
      id,
      [record = FolderRecordOf(given_.cache.folder().record().run.run, *dataset)](RedundantFolder& folder) {
        return folder.Complete(record);
      },
      [this, dataset, id, then = std::move(then)](const absl::Status& status) {
        if (status.ok() && given_.ledger.Has(dataset)) {
          given_.ledger.InFolder(*dataset);
          if (id >= needs_room_) needs_room_ = 0;
          there_.insert(id);
          since_look_.insert(id);
          begun_.erase(id);
        }
        then(status);
      });
}

}  // namespace cairn

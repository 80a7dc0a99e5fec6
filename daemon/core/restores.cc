#include "daemon/core/restores.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/core/away_transfer.h"
#include "daemon/core/restore_plan.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::chrono::milliseconds kAwayPause(200);

local::Status Say(local::Code code, std::string message) {
  local::Status status;
  status.set_code(code);
  status.set_message(std::move(message));
  return status;
}

local::Status Say(const absl::Status& status) {
  return Say(CodeOf(status), std::string(MessageOf(status)));
}

}  // namespace

Restores::Restores(const Context& context, const Given& given)
    : context_(context),
      given_(given),
      copies_(context, {.run = given.run,
                        .run_name = given.run_name,
                        .images = given.images,
                        .ledger = given.ledger,
                        .gate = given.gate,
                        .bases = given.bases,
                        .cache = given.cache,
                        .inventory = given.inventory,
                        .nodes = given.nodes,
                        .tier = given.tier}),
      files_(context,
             {.ledger = given.ledger,
              .waits = given.waits,
              .gate = given.gate,
              .cache = given.cache,
              .copies = copies_,
              .flush = given.flush},
             [this](const RestoreGroupPtr& group, const absl::Status& status) { FilesEnded(group, status); }),
      read_ahead_(context, {.run = given.run,
                            .run_name = given.run_name,
                            .images = given.images,
                            .ledger = given.ledger,
                            .inventory = given.inventory,
                            .copies = copies_}) {}

// --- Requests ---

void Restores::Restore(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Restore& restore) {
  if (const Answer no = WhyNotNow(*session)) return call->Fail(no->code(), no->message());
  if (absl::Status status = ValidateVariables(restore.variables()); !status.ok()) return call->Fail(status);
  read_ahead_.RestoreBegan(*session);
  const DatasetPtr dataset = given_.ledger.Get(restore.dataset());
  if (const Answer no = WhyNotRestore(*session, *call, restore.dataset(), dataset)) {
    return call->Fail(no->code(), no->message());
  }
  if (dataset->described()) return Join(session, call, dataset, restore.variables());
  given_.inventory.Describe(dataset, [this, session, call, dataset, restore](const absl::Status& status) {
    if (!status.ok()) return NotDescribed(*session, *call, dataset->id, status);
    if (call->answered()) return;
    // Meanwhile the session may have ended, ranks may have gone, or the dataset.
    Answer no = WhyNotNow(*session);
    if (!no) no = WhyNotRestore(*session, *call, dataset->id, IfStillThere(dataset));
    if (no) return call->Fail(no->code(), no->message());
    Join(session, call, dataset, restore.variables());
  });
}

Restores::Answer Restores::WhyNotNow(const Session& session) const {
  if (session.ended || given_.ledger.Find(session.launch) == nullptr) {
    return Say(local::FENCED, "the session ended meanwhile");
  }
  if (context_.quiescing()) return Say(Unavailable("the daemon is going away"));
  if (reading_.contains(session.id)) return Say(FailedPrecondition("this session is reading"));
  return std::nullopt;
}

// `dataset`: null if it is not there. REQUIRES: the session's launch is known.
Restores::Answer Restores::WhyNotRestore(const Session& session, const Call& call, DatasetId id,
                                         const DatasetPtr& dataset) {
  const Launch& launch = *given_.ledger.Find(session.launch);
  const bool alone = IsAlone(session, call, id);
  const bool gone = !dataset || !dataset->restorable();
  const bool passed_over = dataset && gone && (dataset->damaged() || launch.passed_over.contains(id));
  if (passed_over || (!gone && !alone && IsToldToRetry(session, call, launch, dataset))) {
    return Say(local::RETRY, fmt::format("dataset {} cannot be restored: ask for the latest again", id));
  }
  if (gone) return Say(NotFound("run {} has no restorable dataset {}", given_.run_name, id));
  for (Rank rank = 0; rank < launch.nranks && !alone; ++rank) {
    if (!launch.gone(rank)) continue;
    return Say(Unavailable("rank {} is gone: a restore needs all {} ranks", rank, launch.nranks));
  }
  // Its ranks were refused together: a rank that comes to it late is told the same.
  if (refused_.launch == launch.id && refused_.dataset == id && refused_.ranks.erase(session.rank) > 0) {
    return Say(refused_.code, refused_.message);
  }
  return std::nullopt;
}

// The stream broke under the end of a restore that the others have heard of: they will not come again.
bool Restores::IsAlone(const Session& session, const Call& call, DatasetId id) const {
  const auto ended = ended_well_.find(session.id);
  return !group_ && ended != ended_well_.end() && ended->second.dataset == id &&
         ended->second.over.lock() != call.connection();
}

// While it was being described it may have gone, and another one may have come under its id.
DatasetPtr Restores::IfStillThere(const DatasetPtr& dataset) const {
  return given_.ledger.Has(dataset) && dataset->described() ? dataset : nullptr;
}

void Restores::Join(const SessionPtr& session, const std::shared_ptr<Call>& call, const DatasetPtr& dataset,
                    const VariableList& variables) {
  if (!group_) {
    const bool alone = IsAlone(*session, *call, dataset->id);
    group_ = std::make_shared<RestoreGroup>();
    group_->dataset = dataset;
    group_->launch = session->launch;
    group_->alone = alone;
    given_.ledger.ReadBegan(*dataset);
  }
  const RestoreGroupPtr group = group_;
  if (group->dataset != dataset) {
    return call->Fail(FailedPrecondition("another rank is restoring dataset {}, this one asks for {}",
                                         group->dataset->id, dataset->id));
  }
  const Rank rank = session->rank;
  if (group->parts.contains(rank)) return call->Fail(FailedPrecondition("this rank is restoring already"));
  auto part = std::make_shared<RestorePart>();
  part->session = session;
  part->call = call;
  group->parts[rank] = part;
  const std::uint32_t nranks = given_.ledger.Find(session->launch)->nranks;
  call->WaitingFor(fmt::format("the restore of dataset {} by all {} ranks", dataset->id, nranks));
  call->OnExpired([this, joined = std::weak_ptr(group), rank] {
    const RestoreGroupPtr group = joined.lock();
    if (!group) return;
    EndGroup(group, local::DEADLINE_EXCEEDED, fmt::format("the restore did not end before rank {}'s deadline", rank));
  });
  MatchPart(group, part, variables);
}

void Restores::Read(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Read& read) {
  if (const Answer no = WhyNotRead(*session)) return call->Fail(no->code(), no->message());
  const DatasetPtr dataset = given_.ledger.Get(read.dataset());
  if (const Answer no = WhyNotRead(read.dataset(), dataset)) return call->Fail(no->code(), no->message());
  if (dataset->described()) return StartRead(session, call, dataset, read);
  given_.inventory.Describe(dataset, [this, session, call, dataset, read](const absl::Status& status) {
    if (!status.ok()) return call->Fail(status);
    if (call->answered()) return;
    Answer no = WhyNotRead(*session);
    if (!no) no = WhyNotRead(dataset->id, IfStillThere(dataset));
    if (no) return call->Fail(no->code(), no->message());
    StartRead(session, call, dataset, read);
  });
}

bool Restores::IsRestoring(const Session& session) const {
  if (session.observer || !group_) return false;
  const auto part = group_->parts.find(session.rank);
  return part != group_->parts.end() && part->second->session->id == session.id;
}

Restores::Answer Restores::WhyNotRead(const Session& session) const {
  if (session.ended) return Say(local::FENCED, "the session ended meanwhile");
  if (context_.quiescing()) return Say(Unavailable("the daemon is going away"));
  if (!reading_.contains(session.id) && !IsRestoring(session)) return std::nullopt;
  return Say(FailedPrecondition("this session is reading already"));
}

Restores::Answer Restores::WhyNotRead(DatasetId id, const DatasetPtr& dataset) const {
  if (!dataset || !dataset->restorable()) {
    return Say(NotFound("run {} has no restorable dataset {}", given_.run_name, id));
  }
  if (!dataset->kind.files) return std::nullopt;
  return Say(FailedPrecondition("dataset {} holds the application's own files, no variables", id));
}

void Restores::StartRead(const SessionPtr& session, const std::shared_ptr<Call>& call, const DatasetPtr& dataset,
                         const local::Read& read) {
  auto match = MatchRead(*dataset, read);
  if (!match.ok()) return call->Fail(match.status());
  VariableList variables;
  *variables.Add() = std::move(match->variable);
  const auto group = std::make_shared<RestoreGroup>();
  group->dataset = dataset;
  group->read = true;
  given_.ledger.ReadBegan(*dataset);
  const auto part = std::make_shared<RestorePart>();
  part->session = session;
  part->call = call;
  part->wanted = std::move(match->wanted);
  part->transfer = MakeTransfer(*part, dataset, std::move(variables));
  group->parts[session->rank] = part;
  reading_[session->id] = group;
  call->WaitingFor(fmt::format("\"{}\" of dataset {}", read.name(), dataset->id));
  call->OnExpired([this, started = std::weak_ptr(group)] {
    const RestoreGroupPtr group = started.lock();
    if (group) EndGroup(group, local::DEADLINE_EXCEEDED, "the read did not end before its deadline");
  });
  FindPart(group, part);
}

void Restores::Copied(const SessionPtr& session, const local::Request& request) {
  const auto reading = reading_.find(session->id);
  const RestoreGroupPtr group = reading != reading_.end() ? reading->second : group_;
  if (!group) return;
  const auto part = group->parts.find(session->rank);
  if (part == group->parts.end() || part->second->session != session || !part->second->transfer) return;
  if (absl::Status status = part->second->transfer->Copied(request.copied()); !status.ok()) {
    EndGroup(group, CodeOf(status), fmt::format("rank {}: {}", session->rank, MessageOf(status)));
  }
}

// --- One rank's part ---

void Restores::MatchPart(const RestoreGroupPtr& group, const RestorePartPtr& part, const VariableList& variables) {
  const Dataset& dataset = *group->dataset;
  const Rank rank = part->session->rank;
  const std::uint32_t nranks = given_.ledger.Find(part->session->launch)->nranks;
  if (dataset.kind.files) {
    if (nranks == dataset.nranks) return PartMatched(group, part);
    return EndGroup(
        group, local::FAILED_PRECONDITION,
        fmt::format("dataset {} holds files of {} ranks, this launch has {}", dataset.id, dataset.nranks, nranks));
  }
  auto wanted = Match(dataset, rank, nranks, variables);
  if (!wanted.ok()) {
    return EndGroup(group, CodeOf(wanted.status()), fmt::format("rank {}: {}", rank, MessageOf(wanted.status())));
  }
  part->wanted = *std::move(wanted);
  // If that is what it has now: on as many ranks, as it was stored.
  part->own_file = nranks == dataset.nranks && std::none_of(part->wanted.begin(), part->wanted.end(),
                                                            [](const Wanted& one) { return !one.rows.empty(); });
  part->transfer = MakeTransfer(*part, group->dataset, variables);
  FindPart(group, part);
}

std::shared_ptr<RestoreTransfer> Restores::MakeTransfer(const RestorePart& part, const DatasetPtr& dataset,
                                                        VariableList variables) {
  if (!part.call->connection()->node().empty()) {
    return std::make_shared<AwayTransfer>(given_.away, part.call, dataset, std::move(variables));
  }
  return std::make_shared<LocalTransfer>(context_, given_.images, part.session, part.call, std::move(variables));
}

// In the nearest copies that are left.
void Restores::FindPart(const RestoreGroupPtr& group, const RestorePartPtr& part) {
  auto copies = copies_.Choose(*group, part->wanted, part->call->connection()->node());
  if (!copies.ok()) return FindLater(group, part, std::string(MessageOf(copies.status())));
  part->transfer->Find(
      *std::move(copies), part->wanted, part->own_file,
      [this, group, part](const absl::Status& status, std::size_t copy) { PartFound(group, part, status, copy); });
}

// No copy is left, but one that could not be reached may be again.
void Restores::FindLater(const RestoreGroupPtr& group, const RestorePartPtr& part, const std::string& why) {
  const auto goes_on = [group, part] {
    const auto now = group->parts.find(part->session->rank);
    return !group->ended && now != group->parts.end() && now->second == part;
  };
  copies_.AskForAway(group, [this, group, part, why, goes_on](bool again) {
    if (!goes_on()) return;
    if (!again) return RetryGroup(group, why);
    context_.loop().After(kAwayPause, [this, group, part, goes_on] {
      if (goes_on()) FindPart(group, part);
    });
  });
}

void Restores::PartFound(const RestoreGroupPtr& group, const RestorePartPtr& part, const absl::Status& status,
                         std::size_t copy) {
  if (status.ok()) return PartMatched(group, part);
  const ChosenCopies& copies = part->transfer->copies();
  if (copy >= copies.ranks.size()) return EndGroup(group, CodeOf(status), std::string(MessageOf(status)));
  copies_.FoundBad(*group, copies.ranks[copy], copies.tiers[copy], status);
  FindPart(group, part);
}

void Restores::PartMatched(const RestoreGroupPtr& group, const RestorePartPtr& part) {
  part->matched = true;
  if (group->read) group->started = true;
  if (group->started) return StartPart(group, part);
  const Launch* launch = given_.ledger.Find(group->launch);
  if (launch == nullptr || group->parts.size() != (group->alone ? 1 : launch->nranks)) return;
  if (!group->all_matched()) return;
  group->started = true;
  for (const auto& [rank, other] : std::map(group->parts)) {
    if (!group->ended) StartPart(group, other);
  }
}

void Restores::StartPart(const RestoreGroupPtr& group, const RestorePartPtr& part) {
  if (group->dataset->kind.files) return files_.Check(group, part);
  const std::vector<Tier>& from = part->transfer->copies().from;
  if (std::ranges::count(from, Tier::kPrefix) > 0 && !group->read) copies_.NoteFetch(*group);
  part->transfer->Start(
      [this, group, part](const absl::Status& status, std::size_t copy) { PartEnded(group, part, status, copy); });
}

void Restores::PartEnded(const RestoreGroupPtr& group, const RestorePartPtr& part, const absl::Status& status,
                         std::size_t copy) {
  const ChosenCopies& copies = part->transfer->copies();
  if (status.ok()) {
    part->tier = std::max(copies.weakest(), RestoreCopies::HowFound(*group->dataset, copies), IsNearer);
    part->done = true;
    return GroupDone(group);
  }
  if (copy >= copies.sources.size()) return EndGroup(group, CodeOf(status), std::string(MessageOf(status)));
  copies_.FoundBad(*group, copies.ranks[copy], copies.tiers[copy], status);
  part->matched = false;
  FindPart(group, part);  // from the next tier, from the first byte
}

void Restores::FilesEnded(const RestoreGroupPtr& group, const absl::Status& status) {
  if (status.ok()) return GroupDone(group);
  const std::string why(MessageOf(status));
  if (absl::IsResourceExhausted(status)) return EndGroup(group, local::RESOURCE_EXHAUSTED, why);
  if (!absl::IsUnavailable(status)) return RetryGroup(group, why);
  copies_.AskForAway(group, [this, group, why](bool again) {
    if (group->ended) return;
    if (!again) return RetryGroup(group, why);
    context_.loop().After(kAwayPause, [this, group] { FilesLater(group); });
  });
}

void Restores::FilesLater(const RestoreGroupPtr& group) {
  if (group->ended) return;
  for (const auto& [rank, part] : group->parts) part->done = false;
  for (const auto& [rank, part] : std::map(group->parts)) {
    if (!group->ended) files_.Check(group, part);
  }
}

// --- The end of a group ---

// No rank joins it any more, and it does not read the dataset any more.
void Restores::LetGo(const RestoreGroupPtr& group) {
  group->ended = true;
  if (group->read) {
    reading_.erase(group->parts.begin()->second->session->id);
  } else {
    group_ = nullptr;
  }
  given_.ledger.ReadEnded(*group->dataset);
}

void Restores::EndGroup(const RestoreGroupPtr& group, local::Code code, const std::string& message) {
  if (group->ended) return;
  LetGo(group);
  if (!group->read) MarkDirty(*group);
  const bool retry = !group->read && code == local::RETRY;
  for (const auto& [rank, part] : group->parts) {
    if (part->transfer) part->transfer->Abort();
    if (retry) retry_rounds_.Told(group->launch, group->dataset->id, rank, part->call->connection());
    part->call->Fail(code, message);
  }
  if (!group->read && !group->started && (code == local::NOT_FOUND || code == local::FAILED_PRECONDITION)) {
    refused_ = {.launch = group->launch, .dataset = group->dataset->id, .code = code, .message = message, .ranks = {}};
    const Launch* launch = given_.ledger.Find(group->launch);
    for (Rank rank = 0; launch != nullptr && rank < launch->nranks; ++rank) {
      if (!group->parts.contains(rank)) refused_.ranks.insert(rank);
    }
  }
  copies_.WithdrawDamaged(*group);
  RefetchNoted(group->dataset);
  given_.waits.Changed();
}

void Restores::RefetchNoted(const DatasetPtr& dataset) {
  if (dataset->over_nodes()) return;  // each node would have to fetch its own parts
  given_.cache.RefetchNoted(dataset, [this] { given_.waits.Changed(); });
}

// Before anybody is answered: whoever asks next is told of it.
void Restores::MarkDirty(const RestoreGroup& group) {
  for (const auto& [rank, part] : group.parts) {
    if (part->transfer && part->transfer->delivered()) given_.ledger.MemoryDirty(group.launch, rank);
  }
}

// What is lost or damaged may be made anew of what other ranks keep: then all ask for the latest again, which waits for
// that, and is this one. Once: if it does not help, they get an older one.
bool Restores::MakeAnew(const RestoreGroupPtr& group, const std::string& why) {
  const DatasetPtr dataset = group->dataset;
  if (group->read || group->alone || !MayBeMadeAnew(*dataset)) return false;
  if (!made_anew_.emplace(group->launch, dataset->id).second) return false;
  if (!copies_.LoseDamaged(*group)) return false;
  group->damaged.clear();
  EndGroup(group, local::RETRY,
           fmt::format("dataset {}: {}; it is made anew: ask for the latest again", dataset->id, why));
  given_.look_for_parts();
  return true;
}

void Restores::RetryGroup(const RestoreGroupPtr& group, const std::string& why) {
  if (MakeAnew(group, why)) return;
  const Dataset& dataset = *group->dataset;
  context_.Warn(fmt::format("run {}: dataset {} (step {}) cannot be restored: {}", given_.run_name, dataset.id,
                            dataset.step, why));
  if (group->read) {
    return EndGroup(group, local::DATA_LOSS, fmt::format("dataset {} cannot be read: {}", dataset.id, why));
  }
  if (group->alone) {  // the others go on with this dataset: an older one would be the wrong one
    return EndGroup(
        group, local::DATA_LOSS,
        fmt::format("dataset {}, which the other ranks have, cannot be restored again: {}", dataset.id, why));
  }
  const bool lacks = given_.ledger.PassOver(group->launch, dataset.id);
  retry_rounds_.Begin(group->launch, dataset.id);
  EndGroup(group, local::RETRY,
           fmt::format("dataset {} cannot be restored ({}): ask for the latest again", dataset.id, why));
  if (lacks) given_.look_for_parts();  // now that nobody reads here, and what is damaged does not count any more
}

void Restores::Rejected(const Dataset& dataset) {
  const RestoreGroupPtr group = group_;
  if (group && group->dataset->id == dataset.id) RetryGroup(group, "the application has rejected it");
}

void Restores::GroupDone(const RestoreGroupPtr& group) {
  if (!group->all_done()) return;
  LetGo(group);
  const DatasetPtr& dataset = group->dataset;
  if (!group->read) given_.ledger.Restored(group->launch, *dataset);
  // Files that were not whole in the cache have been fetched anew, or are read on the prefix.
  if (!dataset->kind.files) copies_.WithdrawDamaged(*group);
  for (const auto& [rank, part] : group->parts) {
    if (!group->read) NoteEnd(*group, *part);
    local::Reply reply;
    reply.mutable_restore_end()->set_tier(static_cast<local::Tier>(part->tier));
    part->call->Reply(std::move(reply));
  }
  if (!group->read) {
    spdlog::info("run {}: dataset {} (step {}) restored on {} ranks", given_.run_name, dataset->id, dataset->step,
                 group->parts.size());
  }
  RefetchNoted(dataset);
  given_.waits.Changed();
}

void Restores::NoteEnd(const RestoreGroup& group, const RestorePart& part) {
  const Session& session = *part.session;
  if (part.transfer) {
    given_.lists.Restored(group.launch, session.rank, part.transfer->list());
    given_.ledger.MemoryClean(group.launch, session.rank);
  }
  ended_well_[session.id] = {.dataset = group.dataset->id, .over = part.call->connection()};
}

void Restores::SessionLeft(const SessionPtr& session) {
  if (session->ended) ended_well_.erase(session->id);
  read_ahead_.GiveUp(*session);
  if (const auto reading = reading_.find(session->id); reading != reading_.end()) {
    const RestoreGroupPtr group = reading->second;
    EndGroup(group, local::UNAVAILABLE, "the session was lost during the read");
  }
  // Also a rank that has not come to the restore yet: it will not.
  const RestoreGroupPtr group = group_;
  if (!group || session->observer || session->launch != group->launch) return;
  if (group->alone && !group->parts.contains(session->rank)) return;
  EndGroup(group, local::UNAVAILABLE, fmt::format("rank {} was lost during the restore", session->rank));
}

void Restores::Stop() {
  const auto abort = [](const RestoreGroup& group) {
    for (const auto& [rank, part] : group.parts) {
      if (part->transfer) part->transfer->Abort();
    }
  };
  read_ahead_.Stop();
  if (group_) abort(*group_);
  for (const auto& [id, group] : reading_) abort(*group);
}

}  // namespace cairn

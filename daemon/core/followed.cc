#include "daemon/core/followed.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include "daemon/core/away_transfer.h"
#include "daemon/core/descriptor.h"
#include "daemon/core/restore_copies.h"
#include "daemon/core/restore_plan.h"
#include "daemon/core/rows.h"
#include "proto/frame.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/job/flush/flush_work.h"
#include "storage/place/names.h"

namespace cairn {
namespace {

constexpr std::size_t kTextBytesMax = 4096;

bool IsText(const std::string& text) {
  return text.size() <= kTextBytesMax && text.find('\0') == std::string::npos;
}

absl::Status CheckBegun(const peer::DatasetBegun& begun) {
  if (begun.dataset() == 0 || begun.dataset() > std::numeric_limits<std::int32_t>::max()) {
    return InvalidArgument("begun.dataset: {} is no number of a dataset", begun.dataset());
  }
  if (!begun.name().empty()) CAIRN_RETURN_IF_ERROR(CheckDatasetName(begun.name()));
  if (!IsText(begun.user()) || !IsText(begun.job())) return InvalidArgument("begun.user, begun.job: no text");
  if (begun.files() && !begun.checkpoint() && !begun.output()) {
    return InvalidArgument("begun.files: neither a checkpoint nor an output");
  }
  return Annotate(CheckAsked(AskedIn(begun)), "begun.scheme");
}

// All that is here of it.
bool IsStoredHere(const Dataset& dataset) {
  return std::ranges::all_of(dataset.parts, [](const Part& part) { return part.elsewhere || part.stored(); });
}

// As many pieces as this daemon would make of a restore of its own.
absl::StatusOr<std::vector<Wanted>> WantedOf(const peer::Find& find, int variables) {
  std::vector<Wanted> all;
  std::uint64_t pieces = 0;
  for (const peer::Wanted& one : find.wanted()) {
    CAIRN_ASSIGN_OR_RETURN(Wanted wanted, FromMessage(one));
    if (wanted.variable >= static_cast<std::uint32_t>(variables)) {
      return InvalidArgument("find.wanted.variable: {}", wanted.variable);
    }
    for (const RowPattern& rows : wanted.rows) pieces += std::min(PiecesOf(rows), kRestorePiecesMax + 1);
    if (pieces > kRestorePiecesMax) {
      return ResourceExhausted("find.wanted.rows: more than {} pieces", kRestorePiecesMax);
    }
    all.push_back(std::move(wanted));
  }
  return all;
}

}  // namespace

Home::Orders Followed::MakeOrders() {
  Home::Orders orders;
  orders.on_begun = [this](const peer::DatasetBegun& begun) { OnBegun(begun); };
  orders.on_failed = [this](DatasetId id, const std::string& why) { OnFailed(id, why); };
  orders.complete = [this](DatasetId id, Home::Orders::Then then) { Complete(id, std::move(then)); };
  orders.on_whole = [this](DatasetId id) { OnWhole(id); };
  orders.copy = [this](DatasetId id, LaunchId committer, std::function<void()> goes_on,
                       std::function<void(const Home::Orders::Copied&)> then) {
    Copy(id, committer, std::move(goes_on), std::move(then));
  };
  orders.on_prefix = [this](DatasetId id) { OnPrefix(id); };
  orders.on_all_kept = [this](const peer::AllKept& kept) { OnAllKept(kept.dataset()); };
  orders.may_leave = [this](const peer::MayLeave& datasets) { MayLeave(datasets); };
  orders.leaves = [this](DatasetId id, bool useless, const std::string& why) {
    const DatasetPtr dataset = Get(id);
    if (!dataset) return;
    useless ? given_.cache.GiveUpParts(dataset, why) : given_.cache.EvictOlder(dataset, why);
  };
  orders.find = [this](const SessionPtr& session, const std::shared_ptr<Call>& call, const peer::Find& find,
                       Home::Orders::Moved moved) { Find(session, call, find, moved); };
  orders.start = [this](const SessionPtr& session, const std::shared_ptr<Call>& call, Home::Orders::Moved moved) {
    Start(session, call, moved);
  };
  orders.abandon = [this](const SessionPtr& session, const std::shared_ptr<Call>& call) { Abandon(session, call); };
  return orders;
}

DatasetPtr Followed::Get(DatasetId id) const {
  const DatasetPtr dataset = given_.ledger.Get(id);
  return dataset && dataset->over_nodes() ? dataset : nullptr;
}

// --- News ---

void Followed::OnBegun(const peer::DatasetBegun& begun) {
  const Launch* launch = given_.ledger.newest();
  if (launch == nullptr || !launch->followed) return;
  if (const absl::Status sound = CheckBegun(begun); !sound.ok()) {
    return context_.Warn(fmt::format("run {}: what the launch's home says: {}", given_.run_name, MessageOf(sound)));
  }
  const DatasetPtr known = given_.ledger.Get(begun.dataset());
  if (known && !known->foretold) return;  // a link broke in between
  Ledger::BeginSpec spec{.step = begun.step(),
                         .attempt = begun.attempt(),
                         .now_us = begun.created_us(),
                         .user = begun.user(),
                         .job = begun.job(),
                         .name = begun.name(),
                         .scheme = AskedIn(begun)};
  if (begun.files()) {
    spec.kind = {.files = true, .checkpoint = begun.checkpoint(), .output = begun.output()};
  }
  if (known) return ForetoldBegun(known, {.id = known->id, .ordinal = begun.ordinal(), .spec = spec});
  given_.ids.Seen(begun.dataset());
  given_.ledger.Follow(*launch, {.id = begun.dataset(), .ordinal = begun.ordinal(), .spec = spec});
  if (const DatasetPtr dataset = Get(begun.dataset())) LetGo(*dataset);
}

// Ranks here have gone on with the number that was said ahead, and now it is known whether others mean the same by it.
void Followed::ForetoldBegun(const DatasetPtr& dataset, const Ledger::FollowSpec& begun) {
  const Ledger::BeginSpec& spec = begun.spec;
  const bool same_begin = spec.step == dataset->step && spec.attempt == dataset->attempt &&
                          spec.name == dataset->name && spec.scheme == dataset->scheme;
  if (spec.kind.files || !same_begin) {
    return given_.ledger.Fail(dataset->id, "ranks on different nodes have begun different checkpoints");
  }
  given_.ledger.HomeHasBegun(*dataset, begun);
  LetGo(*dataset);
  given_.on_begun(dataset);
}

void Followed::OnFailed(DatasetId id, const std::string& why) {
  const DatasetPtr dataset = Get(id);
  if (!dataset) return;
  if (dataset->in_cache()) {
    given_.cache.Evict(dataset, why);
  } else {
    given_.ledger.Fail(id, why);
  }
  given_.waits.Changed();
}

void Followed::OnWhole(DatasetId id) {
  const DatasetPtr dataset = Get(id);
  if (!dataset || dataset->cache != Place::kArriving || !dataset->followed) return;
  if (dataset->recorded) return given_.completion.HomeSaysWhole(dataset);
  context_.Warn(
      fmt::format("run {}: dataset {}: the launch's home takes it for whole, and its parts here are not noted",
                  given_.run_name, id));
}

void Followed::OnPrefix(DatasetId id) {
  const DatasetPtr dataset = Get(id);
  if (!dataset || dataset->prefix == Place::kLeaving) return;
  given_.ledger.Committed(*dataset);
  given_.inventory.CommittedHere(id);
  given_.record.Store();
  given_.waits.Changed();
}

void Followed::OnAllKept(DatasetId id) {
  const DatasetPtr dataset = Get(id);
  if (!dataset || !dataset->in_cache() || !dataset->followed) return;
  given_.ledger.HomeSaysRedundant(*dataset);
  given_.waits.Changed();
}

// Of a dataset that other nodes' ranks have begun the home may say so before it is begun here.
void Followed::MayLeave(const peer::MayLeave& datasets) {
  may_leave_ = {datasets.datasets().begin(), datasets.datasets().end()};
  will_leave_ = {datasets.will().begin(), datasets.will().end()};
  for (const auto& [id, dataset] : Datasets(given_.ledger.InPlay())) {
    if (dataset->over_nodes()) LetGo(*dataset);
  }
  given_.waits.Changed();
}

void Followed::LetGo(const Dataset& dataset) {
  given_.ledger.HomeLetsGo(dataset, may_leave_.contains(dataset.id), will_leave_.contains(dataset.id));
}

// --- Orders ---

void Followed::Complete(DatasetId id, Home::Orders::Then then) {
  const DatasetPtr dataset = Get(id);
  if (!dataset || dataset->cache != Place::kArriving || !IsStoredHere(*dataset)) {
    return context_.loop().Post(
        [id, then = std::move(then)] { then(NotFound("dataset {} is not on its way here", id)); });
  }
  given_.completion.CompleteHere(dataset, [this, dataset, then = std::move(then)](const absl::Status& status) {
    if (status.ok() && given_.ledger.Has(dataset)) given_.ledger.Recorded(*dataset);
    then(status);
  });
}

void Followed::Copy(DatasetId id, LaunchId committer, std::function<void()> goes_on,
                    std::function<void(const Home::Orders::Copied&)> then) {
  const DatasetPtr dataset = Get(id);
  if (const auto under_way = copying_.find(id); under_way != copying_.end()) {
    under_way->second.goes_on.push_back(std::move(goes_on));
    return under_way->second.then.push_back(std::move(then));
  }
  Home::Orders::Copied refused;
  if (!dataset) {
    refused = {.status = DataLoss("this node's cache has nothing of dataset {}", id),
               .damaged_file = RecordsFolderName(id)};
  } else if (!dataset->in_cache() && !dataset->recorded) {
    // What is whole here may not have heard yet that it is elsewhere: the home that should have said so was killed.
    refused = {.status = Unavailable("dataset {} is not whole in this node's cache", id), .damaged_file = ""};
  } else if (stopped_) {
    refused = {.status = Unavailable("the daemon is going away"), .damaged_file = ""};
  }
  if (!refused.status.ok()) return context_.loop().Post([refused, then = std::move(then)] { then(refused); });
  Copying& copying = copying_[id];
  copying.goes_on.push_back(std::move(goes_on));
  copying.then.push_back(std::move(then));
  BeginCopy(dataset, committer);
  LookAtCopy(id);
}

void Followed::BeginCopy(const DatasetPtr& dataset, LaunchId committer) {
  const DatasetId id = dataset->id;
  spdlog::info("run {}: dataset {} (step {}): its parts here go to the prefix, under launch {}", given_.run_name, id,
               dataset->step, committer);
  struct Result {
    PrefixGate::Visited visited;
    FlushOutcome outcome;
    void FailWith(absl::Status why) { visited.status = std::move(why); }
  };
  std::vector<catalogue::Catalogue> here;
  for (const Part& part : dataset->parts) {
    if (!part.elsewhere) here.push_back(part.catalogue);
  }
  auto copy = [this, progress = copying_.at(id).progress, folder = given_.cache.folder().DatasetPath(id),
               descriptor = DescriptorOf(*dataset, false), here = std::move(here), visit = given_.gate.MakeVisitor()] {
    Result result;
    result.visited = visit([&](Prefix& prefix) {
      result.outcome = CopyPart({context_.env.cache_disk, folder, descriptor, here}, context_.env.prefix_disk, prefix,
                                given_.throttle, *progress);
      return result.outcome.status;
    });
    return result;
  };
  given_.ledger.CopyBegan(*dataset);
  RunBlocking(context_.env.pools.flush, given_.gate.path(), context_.loop(), std::move(copy),
              [this, dataset](const Result& result) {
                given_.ledger.CopyEnded(*dataset);
                given_.gate.VisitEnded(result.visited);
                const absl::Status& status = result.visited.status;
                if (absl::IsDataLoss(status) && !result.outcome.damaged_file.empty()) {
                  given_.cache.FoundDamaged(dataset, result.outcome.damaged_file, status);
                }
                CopyEnded(dataset->id, {.status = status, .damaged_file = result.outcome.damaged_file});
              });
}

// The home gives up what says nothing for flush.stalled.
void Followed::LookAtCopy(DatasetId id) {
  const auto copying = copying_.find(id);
  if (copying == copying_.end()) return;
  if (copying->second.progress->GotOn(copying->second.seen)) {
    for (const auto& goes_on : copying->second.goes_on) goes_on();
  }
  const std::chrono::milliseconds pause(std::max<std::uint64_t>(context_.config.flush.stalled_ms / 4, 1));
  copying->second.timer = context_.loop().After(pause, [this, id] { LookAtCopy(id); });
}

void Followed::CopyEnded(DatasetId id, const Home::Orders::Copied& how) {
  const auto ended = copying_.extract(id);
  if (!ended) return;
  context_.loop().Cancel(ended.mapped().timer);
  for (const auto& then : ended.mapped().then) then(how);
  given_.waits.Changed();
}

void Followed::StopCopying() {
  stopped_ = true;
  for (const auto& [id, copying] : copying_) copying.progress->stop = true;
}

// --- Restores ---

void Followed::Restore(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Request& request) {
  if (moving_.contains(session->id)) return call->Fail(FailedPrecondition("this session is restoring already"));
  moving_[session->id] = {.call = call, .read = request.has_read(), .transfer = nullptr};
  if (!request.has_read()) given_.home.ForgetForetold();  // if it does not succeed, no checkpoint may begin
  const auto ended = [this, session, call] {
    const auto moving = moving_.find(session->id);
    if (moving == moving_.end() || moving->second.call != call) return;
    if (moving->second.transfer) moving->second.transfer->Abort();
    moving_.erase(moving);
  };
  call->OnExpired(ended);
  given_.home.AskWhatever(session, call, request, [this, session, call, ended](const local::Reply& reply) {
    const auto moving = moving_.find(session->id);
    const bool own = moving != moving_.end() && moving->second.call == call;
    if (own && reply.status().code() == local::OK && !moving->second.read && moving->second.transfer) {
      given_.lists.Restored(session->launch, session->rank, moving->second.transfer->list());
    }
    ended();
    call->Reply(reply);
  });
}

void Followed::Copied(const Session& session, const local::Request& request) {
  const auto moving = moving_.find(session.id);
  if (moving == moving_.end() || !moving->second.transfer) return;
  const absl::Status status = moving->second.transfer->Copied(request.copied());
  if (status.ok()) return;
  const std::shared_ptr<Call> call = moving->second.call;
  moving->second.transfer->Abort();
  moving_.erase(moving);
  call->Fail(status);  // the others hear of it when the home finds that this rank asks for something else
}

void Followed::SessionEnded(const Session& session) {
  const auto moving = moving_.extract(session.id);
  if (moving && moving.mapped().transfer) moving.mapped().transfer->Abort();
}

void Followed::Stop() {
  StopCopying();
  for (const auto& [id, moving] : moving_) {
    if (moving.transfer) moving.transfer->Abort();
  }
  moving_.clear();
  for (const auto& [id, copying] : copying_) context_.loop().Cancel(copying.timer);
}

// `bad`: the one that is not in reach from here, if that is what is wrong; the home then takes another.
absl::StatusOr<ChosenCopies> Followed::CopiesOf(const peer::Find& find, std::size_t* bad) const {
  *bad = SIZE_MAX;
  ChosenCopies copies;
  copies.lane = given_.gate.path();
  for (const peer::Source& named : find.sources()) {
    RestoreSource source;
    source.file_bytes = named.file().bytes();
    source.crc32c.assign(named.file().crc32c().begin(), named.file().crc32c().end());
    if (named.file().name() != CheckpointFileName(find.dataset(), named.rank())) {
      return InvalidArgument("find.sources.file.name: not the one of rank {}", named.rank());
    }
    const Tier tier = static_cast<Tier>(named.tier());
    if (tier == Tier::kCache) {
      source.path = given_.cache.folder().DatasetPath(find.dataset()) + "/" + named.file().name();
    } else if (tier == Tier::kPartner) {
      const auto member = given_.nodes.FindNamed(named.node());
      if (!member) {
        *bad = copies.sources.size();
        return Unavailable("node {}, which has rank {}'s file, is not reached", named.node(), named.rank());
      }
      source.lives_with = given_.nodes.FilesOf(*member);
      source.disk = source.lives_with.get();
      source.path = PathOnOtherNode(find.dataset(), named.file().name());
      copies.lane = named.node();
    } else if (tier == Tier::kRedundant && given_.tier.configured()) {
      source.disk = &given_.tier.disk();
      source.path = given_.tier.PathOf(find.dataset()) + "/" + named.file().name();
      copies.lane = given_.tier.lane();
    } else if (tier == Tier::kRedundant) {
      *bad = copies.sources.size();
      return Unavailable("redundant.path is not set on {}", context_.env.process.host);
    } else if (tier == Tier::kPrefix && given_.gate.prefix()) {
      CAIRN_ASSIGN_OR_RETURN(const std::string name, NormalizeFileName("", named.file().prefix_name()));
      source.path = given_.gate.prefix()->FilePath(name);
      source.disk = &context_.env.prefix_disk;
    } else if (tier == Tier::kPrefix) {
      *bad = copies.sources.size();
      return Unavailable("the prefix is not in reach");
    } else {
      return InvalidArgument("find.sources.tier: {}", static_cast<int>(named.tier()));
    }
    copies.sources.push_back(std::move(source));
    copies.ranks.push_back(named.rank());
    copies.tiers.push_back(tier);
    copies.from.push_back(tier);
    copies.nodes.push_back(named.node());
  }
  return copies;
}

void Followed::Find(const SessionPtr& session, const std::shared_ptr<Call>& call, const peer::Find& find,
                    const Home::Orders::Moved& moved) {
  const auto moving = moving_.find(session->id);
  if (moving == moving_.end() || moving->second.call != call) {
    return moved(Unavailable("the rank does not ask for it any more"), SIZE_MAX, false);
  }
  std::size_t bad = SIZE_MAX;
  absl::StatusOr<ChosenCopies> copies = CopiesOf(find, &bad);
  if (!copies.ok()) return moved(copies.status(), bad, false);
  const auto& variables = moving->second.transfer ? moving->second.transfer->variables() : find.variables();
  absl::StatusOr<std::vector<Wanted>> wanted = WantedOf(find, variables.size());
  if (!wanted.ok()) return moved(wanted.status(), SIZE_MAX, false);
  if (const absl::Status sound = ValidateVariables(find.variables()); !sound.ok()) return moved(sound, SIZE_MAX, false);
  if (!moving->second.transfer) {
    moving->second.transfer = std::make_shared<LocalTransfer>(context_, given_.images, session, call, find.variables());
  }
  const std::shared_ptr<RestoreTransfer> transfer = moving->second.transfer;
  transfer->Find(*std::move(copies), *std::move(wanted), find.own_file(),
                 Report(session, transfer, find.dataset(), moved));
}

void Followed::Start(const SessionPtr& session, const std::shared_ptr<Call>& call, const Home::Orders::Moved& moved) {
  const auto moving = moving_.find(session->id);
  if (moving == moving_.end() || moving->second.call != call || !moving->second.transfer) {
    return moved(Unavailable("the rank does not ask for it any more"), SIZE_MAX, false);
  }
  const std::shared_ptr<RestoreTransfer> transfer = moving->second.transfer;
  transfer->Start(Report(session, transfer, 0, moved));
}

RestoreTransfer::Then Followed::Report(const SessionPtr&, const std::shared_ptr<RestoreTransfer>& transfer,
                                       DatasetId dataset, const Home::Orders::Moved& moved) {
  return [this, weak = std::weak_ptr(transfer), dataset, moved](const absl::Status& status, std::size_t copy) {
    const auto transfer = weak.lock();
    if (!transfer) return;
    if (!status.ok()) FoundBad(transfer->copies(), dataset, copy, status);
    moved(status, copy, transfer->delivered());
  };
}

// A copy in this cache that cannot be used again: nothing is built upon it, and no level counts it.
void Followed::FoundBad(const ChosenCopies& copies, DatasetId, std::size_t copy, const absl::Status& why) {
  if (copy >= copies.tiers.size() || copies.tiers[copy] != Tier::kCache) return;
  if (!absl::IsDataLoss(why) && !absl::IsNotFound(why) && !absl::IsInvalidArgument(why)) return;
  for (const auto& [id, dataset] : Datasets(given_.ledger.InPlay())) {
    const std::string folder = given_.cache.folder().DatasetPath(id) + "/";
    if (!dataset->in_cache() || !copies.sources[copy].path.starts_with(folder)) continue;
    given_.cache.FoundDamaged(dataset, copies.sources[copy].path, why);
  }
}

void Followed::Abandon(const SessionPtr& session, const std::shared_ptr<Call>& call) {
  const auto moving = moving_.find(session->id);
  if (moving == moving_.end() || moving->second.call != call || !moving->second.transfer) return;
  moving->second.transfer->Abort();
}

}  // namespace cairn

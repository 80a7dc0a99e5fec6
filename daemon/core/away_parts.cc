#include "daemon/core/away_parts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "storage/base/number_ranges.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/cache/redundancy_record.h"
#include "storage/place/names.h"

namespace cairn {
namespace {

constexpr std::uint64_t kFileBytesMax = std::uint64_t{1} << 43;

std::string NameOf(const NodeId& node) {
  return "node " + node.substr(0, 8);
}

// Of files.
absl::Status CheckNames(const catalogue::Catalogue& catalogue) {
  for (const catalogue::FileEntry& file : catalogue.file()) {
    CAIRN_RETURN_IF_ERROR(CheckApplicationsName(file.prefix_name()));
    if (file.name() != file.prefix_name()) return InvalidArgument("catalogue.file: {} is another's", file.name());
  }
  return absl::OkStatus();
}

}  // namespace

// --- What ranks there ask ---

// False: it is answered.
bool AwayParts::MayBegin(const SessionPtr& session, Call& call) {
  if (context_.quiescing()) {
    call.Fail(Unavailable("the daemon is going away"));
    return false;
  }
  if (const auto open = begun_.find(session->id); open != begun_.end()) {
    if (IsBegun(*open->second.dataset, session->rank)) {
      call.Fail(FailedPrecondition("the last checkpoint or output of this session is not ended"));
      return false;
    }
    begun_.erase(open);  // it failed, or its daemon has said by a new link that it was handed over
  }
  given_.steering.Arrived(*session);
  return true;
}

void AwayParts::Begin(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Begin& begin) {
  const DatasetPtr dataset = MayBegin(session, *call) ? EnterMemory(session, *call, begin) : nullptr;
  if (!dataset) return begin.foretold() != 0 ? NotAsForetold(*session, begin.foretold()) : void();
  local::Reply reply;
  reply.mutable_begin()->set_dataset(dataset->id);
  call->Reply(std::move(reply));
}

// Null: the call has failed.
DatasetPtr AwayParts::EnterMemory(const SessionPtr& session, Call& call, const local::Begin& begin) {
  const DatasetEntry::Wish wish = DatasetEntry::WishOf(begin, begin.file_bytes());
  absl::Status sound = DatasetEntry::Check(begin);
  if (sound.ok() && begin.file_bytes() > kFileBytesMax) {
    sound = InvalidArgument("begin.file_bytes: {}, at most {}", begin.file_bytes(), kFileBytesMax);
  }
  if (sound.ok() && begin.foretold() != 0 && !given_.entry.WouldEnter(*session, wish, begin.foretold())) {
    sound = Aborted("dataset {}: other ranks have begun another checkpoint, or it has failed", begin.foretold());
  }
  if (sound.ok()) return Enter(session, call, wish, begin.variables());
  call.Fail(sound);
  return nullptr;
}

// The rank has gone on with that number, and may have handed its bytes over under it: no dataset has them.
void AwayParts::NotAsForetold(const Session& session, DatasetId id) {
  const std::string why = fmt::format("rank {} could not begin it", session.rank);
  const DatasetPtr dataset = given_.ledger.Get(id);
  if (dataset && dataset->launch == session.launch) given_.ledger.Fail(id, why);
  given_.away.TellFailed(session.connection->node(), id, why);
  given_.waits.Changed();
}

void AwayParts::BeginOutput(const SessionPtr& session, const std::shared_ptr<Call>& call,
                            const local::OutputBegin& begin) {
  if (!MayBegin(session, *call)) return;
  const auto wish = DatasetEntry::WishOf(begin);
  if (!wish.ok()) return call->Fail(wish.status());
  const DatasetPtr dataset = Enter(session, *call, *wish, {});
  if (!dataset) return;
  if (begin.growing()) given_.growing.Begin(dataset);
  local::Reply reply;
  reply.mutable_output_begin()->set_dataset(dataset->id);
  call->Reply(std::move(reply));
}

// Null: the call has failed.
DatasetPtr AwayParts::Enter(const SessionPtr& session, Call& call, DatasetEntry::Wish wish,
                            const VariableList& variables) {
  if (const std::string dirty = given_.ledger.WhyDirty(session->launch); !dirty.empty() && wish.kind.checkpoint) {
    call.Fail(local::DIRTY, dirty);
    return nullptr;
  }
  wish.elsewhere = true;
  const auto dataset = given_.entry.Enter(*session, wish, variables);
  if (!dataset.ok()) {
    call.Fail(dataset.status());
    given_.waits.Changed();
    return nullptr;
  }
  const NodeId node = session->connection->node();
  given_.steering.Begun(*session, **dataset);
  given_.away.Begun(node, **dataset);
  given_.ledger.IsElsewhere(**dataset, session->rank, node);
  begun_[session->id] = {.dataset = *dataset};
  return *dataset;
}

void AwayParts::RouteFile(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::RouteFile& route) {
  const auto begun = begun_.find(session->id);
  if (begun == begun_.end()) return call->Fail(FailedPrecondition("no output is begun"));
  const Dataset& dataset = *begun->second.dataset;
  if (!given_.ledger.Has(begun->second.dataset)) return call->Fail(given_.ledger.WhyFailed(dataset));
  if (!dataset.kind.files || !IsBegun(dataset, session->rank)) {
    return call->Fail(FailedPrecondition("no output of files is open"));
  }
  const bool directory = route.file().ends_with('/');
  const auto name = directory ? RoutedNames::DirectoryName(given_.gate.path(), route.file())
                              : NormalizeFileName(given_.gate.path(), route.file());
  if (!name.ok()) return call->Fail(name.status());
  const absl::Status taken = directory ? given_.names.AddDirectoryElsewhere(dataset.id, *name)
                                       : given_.names.Take(dataset.id, *name, session->rank, begun->second.files);
  if (!taken.ok()) return call->Fail(taken);
  if (!directory) ++begun->second.files;
  local::Reply reply;
  reply.mutable_route_file();
  call->Reply(std::move(reply));
}

void AwayParts::Commit(const SessionPtr& session, const std::shared_ptr<Call>& call) {
  const auto begun = begun_.extract(session->id);
  if (!begun) return call->Fail(FailedPrecondition("no checkpoint or output is begun"));
  const DatasetPtr dataset = begun.mapped().dataset;
  if (!given_.ledger.Has(dataset)) return call->Fail(given_.ledger.WhyFailed(*dataset));
  if (!IsBegun(*dataset, session->rank)) return call->Fail(FailedPrecondition("its part was handed over before"));
  HandedOver(dataset, session->rank);
  given_.steering.HandedOver(*session, *dataset);
  local::Reply reply;
  reply.mutable_committed()->set_dataset(dataset->id);
  call->Reply(std::move(reply));
  given_.waits.Changed();
}

bool AwayParts::IsBegun(const Dataset& dataset, Rank rank) const {
  const DatasetPtr known = given_.ledger.Get(dataset.id);
  return known.get() == &dataset && rank < dataset.parts.size() && dataset.parts[rank].state == Part::State::kBegun;
}

void AwayParts::HandedOver(const DatasetPtr& dataset, Rank rank) {
  given_.ledger.Captured(*dataset, rank);
  if (dataset->kind.files && dataset->all_captured()) given_.on_all_ended(dataset);
}

void AwayParts::Abort(const Session& session, const std::string& reason) {
  const auto begun = begun_.extract(session.id);
  if (!begun) return;
  const Dataset& dataset = *begun.mapped().dataset;
  if (!IsBegun(dataset, session.rank)) return;  // its daemon has said that it was handed over
  given_.ledger.Fail(dataset.id, fmt::format("rank {} gave up: {}", session.rank, reason));
}

bool AwayParts::IsOpen(const Session& session) const {
  const auto begun = begun_.find(session.id);
  return begun != begun_.end() && IsBegun(*begun->second.dataset, session.rank);
}

// --- What their daemons say ---

// A daemon that comes, or comes again, says all that it has: so what is lost with its former life, or with the link, is
// known at once, and what this daemon has forgotten with a life of its own is known again.
void AwayParts::There(const NodeId& node, const peer::PartsThere& there) {
  const Launch* launch = given_.ledger.newest();
  early_.erase(node);
  if (launch == nullptr || launch->id < there.launch()) {
    early_[node] = there;
    return;
  }
  if (launch->id != there.launch() || launch->mark != there.mark()) return;
  Listed listed;
  for (const peer::PartThere& part : there.parts()) listed[part.dataset()][part.rank()] = &part;
  std::vector<DatasetPtr> of_launch;
  for (const auto& [id, dataset] : given_.ledger.InPlay()) {
    if (dataset->launch == launch->id) of_launch.push_back(dataset);
  }
  static const std::map<Rank, const peer::PartThere*> kNone;
  for (const DatasetPtr& dataset : of_launch) {
    const auto parts = listed.find(dataset->id);
    TakeListed(node, dataset, parts == listed.end() ? kNone : parts->second);
  }
  for (const auto& [id, parts] : listed) {
    const DatasetPtr dataset = given_.ledger.Get(id);
    if (dataset && !HasHeardOf(node, *dataset, parts)) {
      given_.ledger.Fail(id, fmt::format("the word was lost that a rank on {} has begun it", NameOf(node)));
      TellGone(node, id, parts);
    } else if (dataset && dataset->launch == launch->id) {
      given_.away.TellState(node, *dataset);
    } else {
      TellGone(node, id, parts);
    }
  }
  given_.waits.Changed();
}

// A rank there that has gone on with a foretold number: its begin went over the link that broke.
bool AwayParts::HasHeardOf(const NodeId& node, const Dataset& dataset,
                           const std::map<Rank, const peer::PartThere*>& listed) {
  if (dataset.cache != Place::kArriving || dataset.followed) return true;
  return std::ranges::all_of(listed, [&](const auto& item) {
    return item.first < dataset.parts.size() && dataset.parts[item.first].node == node;
  });
}

// What was whole there stays: this daemon may have been unable to read its own record of it.
void AwayParts::TellGone(const NodeId& node, DatasetId id, const std::map<Rank, const peer::PartThere*>& listed) {
  const Gone* gone = given_.ledger.FindGone(id);
  const bool completed = std::ranges::any_of(listed, [](const auto& item) { return item.second->completed(); });
  if (gone == nullptr && completed) return;
  given_.away.TellFailed(node, id, gone != nullptr ? gone->message : "no record at the launch's home knows it");
}

void AwayParts::LaunchEntered() {
  for (const auto& [node, there] : std::map(early_)) There(node, there);
}

void AwayParts::TakeListed(const NodeId& node, const DatasetPtr& dataset,
                           const std::map<Rank, const peer::PartThere*>& listed) {
  if (dataset->in_cache()) return FindParts(node, dataset, listed);
  if (dataset->parts.empty()) return;  // only on the prefix
  for (Rank rank = 0; rank < dataset->nranks && given_.ledger.Has(dataset); ++rank) {
    const Part& part = dataset->parts[rank];
    if (!part.elsewhere || part.node != node) continue;
    const auto there = listed.find(rank);
    if (there == listed.end()) {
      return given_.ledger.Fail(dataset->id,
                                fmt::format("the daemon on {} has lost the part of rank {}", NameOf(node), rank));
    }
    if (part.stored()) continue;
    if (part.state == Part::State::kBegun) HandedOver(dataset, rank);
    if (there->second->has_catalogue()) TakeStored(node, dataset, there->second->catalogue());
  }
}

// What is whole: who has which part of it? Parts that are stored there, and not noted as whole yet, are of a dataset
// that this daemon noted just before its former life ended.
void AwayParts::FindParts(const NodeId& node, const DatasetPtr& dataset,
                          const std::map<Rank, const peer::PartThere*>& listed) {
  Parts stored;
  for (Rank rank = 0; rank < dataset->nranks; ++rank) {
    const Part& part = dataset->parts[rank];
    if (!part.elsewhere || (part.known() && part.node != node) || dataset->bad_parts.contains({rank, node})) continue;
    const auto there = listed.find(rank);
    const bool has = there != listed.end() && there->second->has_catalogue();
    if (part.known() && !(has && there->second->completed())) {
      given_.ledger.PartsLost(*dataset, node);
      given_.on_parts_lost();
      context_.Warn(fmt::format("run {}: dataset {} (step {}): the cache of {} has no part of rank {} any more",
                                given_.run_name, dataset->id, dataset->step, NameOf(node), rank));
    } else if (part.known()) {
      TakeKept(*dataset, *there->second);
    } else if (has && there->second->completed()) {
      PartFound(node, *dataset, *there->second);
    } else if (has) {
      stored[rank] = *there->second;
    }
  }
  if (stored.empty()) return;
  given_.away.CompleteAt(node, *dataset, [this, node, dataset, stored](const absl::Status& status) {
    if (!status.ok() || !given_.ledger.Has(dataset) || !dataset->in_cache()) return;
    for (const auto& [rank, part] : stored) {
      if (!dataset->parts[rank].known()) PartFound(node, *dataset, part);
    }
    given_.away.TellState(node, *dataset);
    given_.waits.Changed();
  });
}

// What is nonsense is as good as nothing.
void AwayParts::TakeKept(const Dataset& dataset, const peer::PartThere& part) {
  const bool member = part.has_keeps() && CheckSet(part.keeps(), dataset.nranks).ok() &&
                      std::ranges::find(part.keeps().ranks(), part.rank()) != part.keeps().ranks().end();
  given_.ledger.Keeps(dataset, part.rank(), member ? std::make_shared<const kept::Set>(part.keeps()) : nullptr);
}

void AwayParts::PartFound(const NodeId& node, const Dataset& dataset, const peer::PartThere& part) {
  const Rank rank = part.rank();
  absl::Status sound = CheckCatalogue(dataset, part.catalogue());
  if (sound.ok() && part.catalogue().rank() != rank) sound = InvalidArgument("catalogue.rank: another");
  if (sound.ok()) {
    given_.ledger.PartFound(dataset, rank, node, part.catalogue());
    return TakeKept(dataset, part);
  }
  context_.Warn(fmt::format("run {}: dataset {}: what {} says of rank {}: {}", given_.run_name, dataset.id,
                            NameOf(node), rank, MessageOf(sound)));
}

void AwayParts::Lost(const NodeId& node) {
  std::vector<DatasetId> doomed;
  for (const auto& [id, dataset] : given_.ledger.InPlay()) {
    for (const Part& part : dataset->parts) {
      if (part.elsewhere && part.node == node && !part.stored()) doomed.push_back(id);
    }
  }
  for (const DatasetId id : doomed) {
    given_.ledger.Fail(id, fmt::format("{} was lost before its parts were stored", NameOf(node)));
  }
  given_.waits.Changed();
}

absl::Status AwayParts::CheckCatalogue(const Dataset& dataset, const catalogue::Catalogue& catalogue) const {
  CAIRN_RETURN_IF_ERROR(ValidateCatalogue(catalogue));
  if (!given_.folder.record().run.Includes(catalogue.run())) return InvalidArgument("catalogue.run: another");
  if (catalogue.dataset() != dataset.id || catalogue.launch() != dataset.launch || catalogue.step() != dataset.step ||
      catalogue.nranks() != dataset.nranks || catalogue.files() != dataset.kind.files) {
    return InvalidArgument("catalogue: of another dataset");
  }
  if (dataset.kind.files) return CheckNames(catalogue);
  if (catalogue.file_size() == 0) return absl::OkStatus();
  if (catalogue.file_size() == 1 && catalogue.file(0).name() == CheckpointFileName(dataset.id, catalogue.rank()) &&
      catalogue.file(0).prefix_name() == CheckpointPrefixName(dataset.id, catalogue.rank())) {
    return absl::OkStatus();
  }
  return InvalidArgument("catalogue.file: not the one of the rank");
}

void AwayParts::Stored(const NodeId& node, const catalogue::Catalogue& catalogue) {
  const DatasetPtr dataset = given_.ledger.Get(catalogue.dataset());
  if (!dataset || dataset->whole()) return;  // it failed meanwhile
  TakeStored(node, dataset, catalogue);
}

void AwayParts::TakeStored(const NodeId& node, const DatasetPtr& dataset, const catalogue::Catalogue& catalogue) {
  absl::Status sound = CheckCatalogue(*dataset, catalogue);
  if (sound.ok() && catalogue.rank() >= dataset->parts.size()) sound = InvalidArgument("catalogue.rank: no such one");
  if (sound.ok()) {
    const Part& part = dataset->parts[catalogue.rank()];
    if (!part.elsewhere || part.node != node || part.state != Part::State::kCaptured) {
      sound = InvalidArgument("catalogue.rank: rank {} has handed nothing over to it", catalogue.rank());
    }
  }
  if (sound.ok()) return given_.completion.Stored(dataset, catalogue.rank(), catalogue);
  given_.ledger.Fail(dataset->id, fmt::format("{}: {}", NameOf(node), MessageOf(sound)));
  given_.waits.Changed();
}

void AwayParts::Failed(const NodeId& node, const peer::PartFailed& failed) {
  const DatasetPtr dataset = given_.ledger.Get(failed.dataset());
  if (!dataset || !HoldersOf(*dataset).contains(node)) return;
  given_.ledger.Fail(dataset->id, fmt::format("on {}: {}", NameOf(node), failed.why()));
  given_.waits.Changed();
}

// What is no list of ranks stands for all of them.
void AwayParts::LoseParts(const NodeId& node, const Dataset& dataset, const std::string& ranks) {
  const auto only = ParseNumberRanges(ranks, dataset.nranks);
  if (!only) return given_.ledger.PartsLost(dataset, node);
  for (Rank rank = 0; rank < dataset.parts.size(); ++rank) {
    const Part& part = dataset.parts[rank];
    if (only->Contains(rank) && part.elsewhere && part.node == node) given_.ledger.PartLost(dataset, rank);
  }
}

// Without that node's parts the others' are of no use to a restart.
void AwayParts::Left(const NodeId& node, const peer::PartsLeft& left) {
  const DatasetPtr dataset = given_.ledger.Get(left.dataset());
  if (!dataset || !dataset->in_cache() || !HoldersOf(*dataset).contains(node)) return;
  const std::string why = fmt::format("on {}: {}", NameOf(node), left.why());
  if (MayBeMadeAnew(*dataset)) {
    context_.Warn(fmt::format("run {}: dataset {} (step {}): its parts are lost {}", given_.run_name, dataset->id,
                              dataset->step, why));
    LoseParts(node, *dataset, left.ranks());
    given_.on_parts_lost();
  } else if (left.damaged()) {
    given_.cache.GiveUpParts(dataset, why);
  } else if (dataset->pinned || dataset->readers > 0) {
    given_.ledger.PartsLost(*dataset, node);  // the prefix has it: else that node would have kept its own
  } else {
    given_.cache.EvictOlder(dataset, why);
  }
  given_.waits.Changed();
}

}  // namespace cairn

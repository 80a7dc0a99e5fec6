// A restore is the launch's: all ranks get their memory back, or none does. First every rank's variables are matched,
// then every rank's bytes come from the nearest whole copy, then all are told. A copy found damaged is set aside and
// the next tier asked; when a rank has none left, all are told to RETRY and the pin moves to the next older dataset.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/core/core_impl.h"
#include "daemon/core/restore_plan.h"
#include "proto/frame.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// A restore goes through a ring of slots even if there is room for all of it: a new process's first image has fresh
// pages, and touching them costs more than reading the disk. Without shared memory a smaller one bounds what is in
// flight.
constexpr std::uint64_t kRingBytes = 64 << 20;
constexpr std::uint64_t kRemoteRingBytes = 16 << 20;
constexpr std::uint64_t kDoorbellBytes = 4 << 20;
constexpr std::uint64_t kImageNameBytes = 64;  // of an image in a reply

bool HasFar(const RestorePart& part) {
  const auto& tiers = part.source_tiers;
  return std::find(tiers.begin(), tiers.end(), Tier::kPrefix) != tiers.end();
}

}  // namespace

void CoreImpl::HandleRestore(const SessionPtr& session, const CallPtr& call, const local::Restore& restore) {
  const RunPtr& run = session->run;
  Launch* launch = run->ledger.Find(session->launch);
  if (launch == nullptr || session->ended) return call->Fail(local::FENCED, "the session ended meanwhile");
  if (quiescing_) return call->Fail(Unavailable("the daemon is going away"));
  if (session->writer || session->files) return call->Fail(FailedPrecondition("a checkpoint of this session is open"));
  if (session->reading) return call->Fail(FailedPrecondition("this session is reading"));
  if (absl::Status status = ValidateVariables(restore.variables()); !status.ok()) return call->Fail(status);
  DatasetPtr dataset = run->ledger.Get(restore.dataset());
  if (dataset && (dataset->damaged || launch->passed_over.contains(dataset->id))) {
    return call->Fail(local::RETRY,
                      fmt::format("dataset {} cannot be restored: ask for the latest again", dataset->id));
  }
  if (!dataset || !dataset->restorable()) {
    return call->Fail(NotFound("run {} has no restorable dataset {}", run->name, restore.dataset()));
  }
  // The stream broke under the end of a restore that the others have heard of: they will not come again.
  const bool alone =
      !run->restore && session->restored == dataset->id && session->restored_over.lock() != call->connection();
  for (Rank rank = 0; rank < launch->nranks && !alone; ++rank) {
    const RankSlot::State state = launch->ranks[rank].state;
    if (state != RankSlot::State::kLost && state != RankSlot::State::kClosed) continue;
    return call->Fail(Unavailable("rank {} is gone: a restore needs all {} ranks", rank, launch->nranks));
  }
  // Its ranks were refused together: who comes to it late is told the same.
  if (RestoreRefusal& refused = run->refused;
      refused.launch == session->launch && refused.dataset == dataset->id && refused.ranks.erase(session->rank) > 0) {
    return call->Fail(refused.code, refused.message);
  }
  if (!dataset->described) {
    return Describe(run, dataset, [this, session, call, restore, run, id = dataset->id](const absl::Status& status) {
      if (status.ok()) return HandleRestore(session, call, restore);
      if (absl::IsUnavailable(status)) return call->Fail(status);  // it may be asked for again
      Warn(fmt::format("run {}: dataset {}: {}", run->name, id, MessageOf(status)));
      const DatasetPtr dataset = run->ledger.Get(id);
      if (dataset && !dataset->in_cache && absl::IsDataLoss(status) && std::exchange(dataset->in_prefix, false)) {
        dataset->damaged = true;
        MarkFailed(run, id);
      }
      PassOver(run, session->launch, id);
      call->Fail(local::RETRY,
                 fmt::format("dataset {} cannot be restored ({}): ask for the latest again", id, MessageOf(status)));
    });
  }
  if (!run->restore) {
    run->restore = std::make_shared<RestoreGroup>();
    run->restore->dataset = dataset;
    run->restore->launch = session->launch;
    run->restore->alone = alone;
    ++dataset->readers;
  }
  const std::shared_ptr<RestoreGroup> group = run->restore;
  if (group->dataset != dataset) {
    return call->Fail(FailedPrecondition("another rank is restoring dataset {}, this one asks for {}",
                                         group->dataset->id, dataset->id));
  }
  if (group->parts.contains(session->rank)) return call->Fail(FailedPrecondition("this rank is restoring already"));
  auto part = std::make_shared<RestorePart>();
  part->session = session;
  part->call = call;
  part->variables = restore.variables();
  group->parts[session->rank] = part;
  call->WaitingFor(fmt::format("the restore of dataset {} by all {} ranks", dataset->id, launch->nranks));
  call->OnExpired([this, run, group, rank = session->rank] {
    EndGroup(run, group, local::DEADLINE_EXCEEDED,
             fmt::format("the restore did not end before rank {}'s deadline", rank));
  });
  PlanPart(run, group, part);
}

// Matches the variables and finds the nearest copies.
void CoreImpl::PlanPart(const RunPtr& run, std::shared_ptr<RestoreGroup> group, std::shared_ptr<RestorePart> part) {
  const Dataset& dataset = *group->dataset;
  if (!group->read) {
    const Rank rank = part->session->rank;
    const Launch* launch = run->ledger.Find(part->session->launch);
    if (launch == nullptr) return EndGroup(run, group, local::FENCED, "the launch was shut out");
    if (dataset.files) {
      if (launch->nranks == dataset.nranks) return PartMatched(run, group, part);
      return EndGroup(run, group, local::FAILED_PRECONDITION,
                      fmt::format("dataset {} holds files of {} ranks, this launch has {}", dataset.id, dataset.nranks,
                                  launch->nranks));
    }
    auto wanted = Match(dataset, rank, launch->nranks, part->variables);
    if (!wanted.ok()) {
      return EndGroup(run, group, CodeOf(wanted.status()),
                      fmt::format("rank {}: {}", rank, MessageOf(wanted.status())));
    }
    part->wanted = *std::move(wanted);
  }
  if (const std::string lost = ChooseSources(*run, *group, *part, prefix_disk_); !lost.empty()) {
    return RetryGroup(run, group, lost);
  }
  FindPart(run, group, part);
}

// The nearest copy that is left of each file; empty: all are there, else why not.
std::string CoreImpl::ChooseSources(const Run& run, RestoreGroup& group, RestorePart& part, Disk& prefix_disk) {
  const Dataset& dataset = *group.dataset;
  part.sources.clear();
  part.source_ranks.clear();
  part.source_tiers.clear();
  std::set<Rank> ranks;
  for (const Wanted& one : part.wanted) {
    if (one.bytes > 0) ranks.insert(one.rank);
  }
  const auto kept = run.kept.find(dataset.id);
  for (Rank from : ranks) {
    const catalogue::Catalogue& catalogue = dataset.parts[from].catalogue;
    if (catalogue.file_size() != 1) {
      group.damaged.insert({from, Tier::kCache});
      group.damaged.insert({from, Tier::kPrefix});
      return fmt::format("the catalogue of rank {} names {} checkpoint files", from, catalogue.file_size());
    }
    const catalogue::FileEntry& file = catalogue.file(0);
    RestoreSource source;
    source.file_bytes = file.bytes();
    source.crc32c.assign(file.crc32c().begin(), file.crc32c().end());
    Tier tier = Tier::kNone;
    auto usable = [&](Tier candidate) { return !group.bad.contains({from, candidate}); };
    if (kept != run.kept.end() && kept->second.contains(from) && usable(Tier::kImage)) {
      tier = Tier::kImage;
      source.kept = kept->second.at(from).kept;
    } else if (dataset.in_cache && usable(Tier::kCache)) {
      tier = Tier::kCache;
      source.path = run.cache->DatasetPath(dataset.id) + "/" + file.name();
    } else if (dataset.in_prefix && run.prefix && usable(Tier::kPrefix)) {
      tier = Tier::kPrefix;
      source.path = run.prefix->FilePath(file.prefix_name());
      source.disk = &prefix_disk;
    } else {
      return fmt::format("no copy of rank {}'s bytes is whole", from);
    }
    part.sources.push_back(std::move(source));
    part.source_ranks.push_back(from);
    part.source_tiers.push_back(tier);
  }
  return "";
}

// Reads the files' metadata in a pool. The rank's next checkpoint goes on with the containers of its own file, if that
// is what it has now: on as many ranks, as it was stored.
void CoreImpl::FindPart(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                        const std::shared_ptr<RestorePart>& part) {
  struct Found {
    absl::StatusOr<std::vector<RestorePiece>> pieces = absl::UnknownError("");
    std::uint64_t image_bytes = 0;
    std::shared_ptr<ContainerList> list;
    std::size_t bad = 0;
  };
  const Launch* launch = run->ledger.Find(part->session->launch);
  const bool own =
      !group->read && launch != nullptr && launch->nranks == group->dataset->nranks &&
      std::none_of(part->wanted.begin(), part->wanted.end(), [](const Wanted& one) { return !one.rows.empty(); });
  auto find = [&disk = cache_disk_, sources = part->sources, from = part->source_ranks, wanted = part->wanted,
               rank = part->session->rank, own] {
    Found found;
    std::vector<ftiff::FileMetadata> metadata;
    found.pieces = FindPieces(disk, sources, from, wanted, &found.bad, &metadata);
    for (std::size_t i = 0; i < metadata.size(); ++i) {
      if (own && from[i] == rank) found.list = ListOf(metadata[i], /*restored=*/true);
    }
    if (!found.pieces.ok()) return found;
    found.image_bytes = Restore::ImageBytes(sources, *found.pieces);
    return found;
  };
  auto then = [this, run, group, part](Found found) {
    if (group->ended) return;
    if (!found.pieces.ok()) {
      CopyIsBad(run, group, part->source_ranks[found.bad], part->source_tiers[found.bad], found.pieces.status());
      return PlanPart(run, group, part);
    }
    part->pieces = *std::move(found.pieces);
    part->image_bytes = found.image_bytes;
    part->list = std::move(found.list);
    PartMatched(run, group, part);
  };
  if (HasFar(*part)) {
    BlockingPrefix(std::move(find), std::move(then));
  } else {
    BlockingCache(std::move(find), std::move(then));
  }
}

void CoreImpl::PartMatched(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                           const std::shared_ptr<RestorePart>& part) {
  part->matched = true;
  if (group->read) group->started = true;
  if (group->started) return StartPart(run, group, part);
  const Launch* launch = run->ledger.Find(part->session->launch);
  if (launch == nullptr || group->parts.size() != (group->alone ? 1 : launch->nranks)) return;
  const auto& parts = group->parts;
  if (!std::all_of(parts.begin(), parts.end(), [](const auto& item) { return item.second->matched; })) return;
  group->started = true;
  for (const auto& [rank, other] : std::map(group->parts)) {
    if (!group->ended) StartPart(run, group, other);
  }
}

void CoreImpl::StartPart(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                         const std::shared_ptr<RestorePart>& part) {
  if (group->dataset->files) return RestoreFiles(run, group, part);
  if (HasFar(*part) && !group->read) FetchNoted(run, group);
  const bool remote = !part->call->connection()->shares_memory();
  AcquireImage({.session = part->session,
                .call = part->call,
                .bytes = std::min(part->image_bytes, remote ? kRemoteRingBytes : kRingBytes),
                .then = [this, run, group, part](absl::StatusOr<std::shared_ptr<Image>> image) {
                  if (group->ended || stopping_) {
                    return ReleaseImage(part->session, image.ok() ? *std::move(image) : nullptr);
                  }
                  if (image.ok()) return ImageForPart(run, group, part, *std::move(image));
                  EndGroup(run, group, CodeOf(image.status()), std::string(MessageOf(image.status())));
                }});
}

void CoreImpl::ImageForPart(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                            const std::shared_ptr<RestorePart>& part, std::shared_ptr<Image> image) {
  part->image = std::move(image);
  part->sent = 0;
  Restore::Callbacks callbacks;
  callbacks.on_ready = [this, group, part](std::uint64_t pieces) {
    loop_.Post([this, group, part, pieces] {
      if (!group->ended) PartReady(part, pieces);
    });
  };
  callbacks.on_end = [this, run, group, part](absl::Status status, std::size_t source) {
    loop_.Post([this, run, group, part, status = std::move(status), source] {
      TransferEnded();
      PartEnded(run, group, part, status, source);
    });
  };
  ++transfers_;
  part->restore = Restore::Start(cache_disk_, HasFar(*part) ? pools_.far : pools_.work, part->sources, part->pieces,
                                 part->image, std::move(callbacks));
  TellPlan(run, group, part);
}

void CoreImpl::TellPlan(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                        const std::shared_ptr<RestorePart>& part) {
  local::Reply reply;
  local::RestoreReply& begun = *reply.mutable_restore();
  begun.set_round(++part->round);
  const std::vector<PlanPiece>& pieces = part->restore->plan();
  const bool strides = std::any_of(pieces.begin(), pieces.end(), [](const PlanPiece& piece) { return piece.rows > 1; });
  local::Plan& plan = *begun.mutable_plan();
  for (const PlanPiece& piece : pieces) {
    plan.add_variable(piece.variable);
    plan.add_variable_offset(piece.variable_offset);
    plan.add_image_offset(piece.image_offset);
    plan.add_bytes(piece.bytes);
    if (!strides) continue;
    plan.add_rows(piece.rows);
    plan.add_variable_stride(piece.variable_stride);
    plan.add_image_stride(piece.file_stride);
  }
  plan.set_doorbell_bytes(kDoorbellBytes);
  if (const std::uint64_t bytes = reply.ByteSizeLong() + kImageNameBytes; bytes > CAIRN_FRAME_BYTES_MAX) {
    return EndGroup(run, group, local::RESOURCE_EXHAUSTED,
                    fmt::format("rank {}: a plan of {} pieces has {} bytes, a message at most {}", part->session->rank,
                                pieces.size(), bytes, CAIRN_FRAME_BYTES_MAX));
  }
  std::shared_ptr<Image> descriptor;
  if (part->image && part->call->connection()->shares_memory()) {
    DescribeImage(*part->session, part->image, begun.mutable_image());
    if (begun.image().fresh()) descriptor = part->image;
  }
  part->call->Push(std::move(reply), std::move(descriptor));
}

void CoreImpl::PartReady(const std::shared_ptr<RestorePart>& part, std::uint64_t pieces) {
  if (part->call->connection()->shares_memory()) {
    local::Reply reply;
    reply.mutable_ready()->set_pieces(pieces);
    return part->call->Push(std::move(reply));
  }
  for (; part->sent < pieces; ++part->sent) {
    const PlanPiece& planned = part->restore->plan()[part->sent];
    local::Reply reply;
    local::Piece& piece = *reply.mutable_piece();
    piece.set_index(part->sent);
    piece.set_id(part->variables.at(static_cast<int>(planned.variable)).id());
    piece.set_offset(planned.variable_offset);
    piece.mutable_data()->reserve(planned.all_bytes());
    for (std::uint64_t row = 0; row < planned.rows; ++row) {
      const std::span<const std::byte> bytes =
          part->image->bytes().subspan(planned.image_offset + row * planned.file_stride, planned.bytes);
      piece.mutable_data()->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    piece.set_crc32c(Crc32c(std::as_bytes(std::span(piece.data()))));
    part->call->Push(std::move(reply));
  }
}

void CoreImpl::HandleCopied(const SessionPtr& session, const local::Request& request) {
  const std::shared_ptr<RestoreGroup> group = session->reading ? session->reading : session->run->restore;
  if (!group || group->ended) return;
  auto part = group->parts.find(session->rank);
  if (part == group->parts.end() || part->second->session != session || !part->second->restore) return;
  if (request.copied().round() != part->second->round) return;  // of a plan that has been replaced meanwhile
  if (absl::Status status = part->second->restore->Copied(request.copied().pieces()); !status.ok()) {
    EndGroup(session->run, group, CodeOf(status), fmt::format("rank {}: {}", session->rank, MessageOf(status)));
  }
}

void CoreImpl::PartEnded(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                         const std::shared_ptr<RestorePart>& part, const absl::Status& status, std::size_t source) {
  ReleaseImage(part->session, std::exchange(part->image, nullptr));
  part->restore = nullptr;
  if (group->ended) return;
  if (!status.ok()) {
    if (source >= part->sources.size()) return EndGroup(run, group, CodeOf(status), std::string(MessageOf(status)));
    CopyIsBad(run, group, part->source_ranks[source], part->source_tiers[source], status);
    part->matched = false;
    return PlanPart(run, group, part);  // from the next tier, from the first byte
  }
  for (Tier tier : part->source_tiers) part->tier = std::max(part->tier, tier);
  part->done = true;
  GroupDone(run, group);
}

// A copy cannot be used in this restore. If it is damaged or missing it never will be: reported, kept for a look,
// remade. What a disk could not read just now may still be whole.
void CoreImpl::CopyIsBad(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group, Rank rank, Tier tier,
                         const absl::Status& why) {
  const DatasetPtr& dataset = group->dataset;
  if (!group->bad.insert({rank, tier}).second) return;
  Warn(fmt::format("run {}: dataset {}: the copy of rank {} in the {} is bad: {}", run->name, dataset->id, rank,
                   NameOf(tier), MessageOf(why)));
  if (tier == Tier::kImage) {
    if (auto kept = run->kept.find(dataset->id); kept != run->kept.end()) kept->second.erase(rank);
    return;
  }
  if (!absl::IsDataLoss(why) && !absl::IsNotFound(why) && !absl::IsInvalidArgument(why)) return;
  group->damaged.insert({rank, tier});
  if (tier == Tier::kPrefix) return MarkFailed(run, dataset->id);
  run->remake.insert(dataset->id);
  DistrustDigests(*run);
  // Which of the application's files is bad is not known here: they go aside together when they are remade.
  if (dataset->files || dataset->parts[rank].catalogue.file_size() == 0) return;
  ChangeFolder(run, dataset->id,
               [cache = run->cache, id = dataset->id, name = dataset->parts[rank].catalogue.file(0).name(),
                text = std::string(MessageOf(why))] { return cache->SetAside(id, name, text); });
}

void CoreImpl::MarkFailed(const RunPtr& run, DatasetId id) {
  if (!run->prefix) return;
  BlockingPrefix([prefix = run->prefix, id] { return prefix->MarkFailed(id); },
                 [this, id](const absl::Status& status) {
                   if (!status.ok()) Warn(fmt::format("dataset {}: {}", id, MessageOf(status)));
                 });
}

// SCR notes each try to read a dataset from the prefix.
void CoreImpl::FetchNoted(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group) {
  if (std::exchange(group->fetched, true) || !run->prefix) return;
  BlockingPrefix([prefix = run->prefix, id = group->dataset->id] { return prefix->MarkFetched(id); },
                 [this, id = group->dataset->id](const absl::Status& status) {
                   if (!status.ok()) Warn(fmt::format("dataset {}: {}", id, MessageOf(status)));
                 });
}

// --- The end of it ---

void CoreImpl::EndGroup(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group, local::Code code,
                        const std::string& message) {
  if (std::exchange(group->ended, true)) return;
  if (run->restore == group) run->restore = nullptr;
  --group->dataset->readers;
  for (auto& [rank, part] : group->parts) {
    if (part->session->reading == group) part->session->reading = nullptr;
    if (part->restore) part->restore->Abort();
    part->call->Fail(code, message);
  }
  if (!group->read && !group->started && (code == local::NOT_FOUND || code == local::FAILED_PRECONDITION)) {
    run->refused = {
        .launch = group->launch, .dataset = group->dataset->id, .code = code, .message = message, .ranks = {}};
    const Launch* launch = run->ledger.Find(group->launch);
    for (Rank rank = 0; launch != nullptr && rank < launch->nranks; ++rank) {
      if (!group->parts.contains(rank)) run->refused.ranks.insert(rank);
    }
  }
  WithdrawDamaged(group);
  Changed(run);
}

// A level holds while a copy is readable.
void CoreImpl::WithdrawDamaged(const std::shared_ptr<RestoreGroup>& group) {
  Dataset& dataset = *group->dataset;
  for (const auto& [rank, tier] : group->damaged) {
    if (tier == Tier::kCache) dataset.in_cache = false;
    if (tier == Tier::kPrefix) dataset.in_prefix = false;
  }
  if (!dataset.in_cache && !dataset.in_prefix) dataset.damaged = true;
}

// This launch does without the dataset; its pin moves to the next older one.
void CoreImpl::PassOver(const RunPtr& run, LaunchId launch_id, DatasetId id) {
  Launch* launch = run->ledger.Find(launch_id);
  if (launch == nullptr) return;
  launch->passed_over.insert(id);
  DatasetPtr older = run->ledger.NewestRestorableFor(*launch, id);
  if (launch->pin == id) launch->pin = older ? older->id : 0;
}

void CoreImpl::RetryGroup(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group, const std::string& why) {
  const DatasetPtr dataset = group->dataset;
  Warn(fmt::format("run {}: dataset {} (step {}) cannot be restored: {}", run->name, dataset->id, dataset->step, why));
  if (group->read) {
    return EndGroup(run, group, local::DATA_LOSS, fmt::format("dataset {} cannot be read: {}", dataset->id, why));
  }
  if (group->alone) {  // the others go on with this dataset: an older one would be the wrong one
    return EndGroup(
        run, group, local::DATA_LOSS,
        fmt::format("dataset {}, which the other ranks have, cannot be restored again: {}", dataset->id, why));
  }
  PassOver(run, group->launch, dataset->id);
  EndGroup(run, group, local::RETRY,
           fmt::format("dataset {} cannot be restored ({}): ask for the latest again", dataset->id, why));
}

void CoreImpl::GroupDone(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group) {
  const auto& parts = group->parts;
  if (!std::all_of(parts.begin(), parts.end(), [](const auto& item) { return item.second->done; })) return;
  if (group->read) return ReadDone(run, group);
  group->ended = true;
  run->restore = nullptr;
  const DatasetPtr dataset = group->dataset;
  --dataset->readers;
  run->restored = dataset->id;
  if (dataset->files) {
    run->restored_files.insert(dataset->id);
  } else {
    WithdrawDamaged(group);
  }
  for (auto& [rank, part] : group->parts) {
    if (!dataset->files) run->lists[rank] = {.launch = group->launch, .list = part->list};
    local::Reply reply;
    reply.mutable_restore_end()->set_tier(static_cast<local::Tier>(part->tier));
    part->session->restored = dataset->id;
    part->session->restored_over = part->call->connection();
    part->call->Reply(std::move(reply));
  }
  spdlog::info("run {}: dataset {} (step {}) restored on {} ranks", run->name, dataset->id, dataset->step,
               group->parts.size());
  RemakeDamaged(run, dataset);
  Changed(run);
}

// What was found damaged in the cache is fetched anew, now that nobody reads it.
void CoreImpl::RemakeDamaged(const RunPtr& run, const DatasetPtr& dataset) {
  if (run->remake.erase(dataset->id) == 0 || !dataset->in_prefix || dataset->in_cache) return;
  Remake(run, dataset, [this, run, dataset](const Remade& remade) {
    if (remade.status.ok()) {
      spdlog::info("run {}: dataset {} is whole in the cache again", run->name, dataset->id);
    } else {
      Warn(fmt::format("run {}: dataset {} could not be made anew in the cache: {}", run->name, dataset->id,
                       MessageOf(remade.status)));
    }
    Changed(run);
  });
}

void CoreImpl::SessionLeftRestore(const SessionPtr& session) {
  if (const std::shared_ptr<RestoreGroup> reading = session->reading) {
    EndGroup(session->run, reading, local::UNAVAILABLE, "the session was lost during the read");
  }
  const std::shared_ptr<RestoreGroup> group = session->run->restore;
  // Also one that has not come to it yet: it will not.
  if (!group || group->ended || session->launch != group->launch) return;
  if (group->alone && !group->parts.contains(session->rank)) return;
  EndGroup(session->run, group, local::UNAVAILABLE, fmt::format("rank {} was lost during the restore", session->rank));
}

}  // namespace cairn

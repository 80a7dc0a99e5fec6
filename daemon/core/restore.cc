// A restore is the launch's: all ranks get their memory back, or none does. First every rank's variables are matched,
// then every rank's bytes come from the nearest whole copy, then all are told. A copy found damaged is set aside and
// the next tier asked; when a rank has none left, all are told to RETRY and the pin moves to the next older dataset.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/core/core_impl.h"
#include "daemon/core/restore_plan.h"
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

}  // namespace

void CoreImpl::HandleRestore(const SessionPtr& session, const CallPtr& call, const local::Restore& restore) {
  const RunPtr& run = session->run;
  Launch* launch = run->ledger.Find(session->launch);
  if (quiescing_) return call->Fail(Unavailable("the daemon is going away"));
  if (session->writer || session->files) return call->Fail(FailedPrecondition("a checkpoint of this session is open"));
  if (absl::Status status = ValidateVariables(restore.variables()); !status.ok()) return call->Fail(status);
  DatasetPtr dataset = run->ledger.Get(restore.dataset());
  if (dataset && (dataset->damaged || !(dataset->in_cache || dataset->in_prefix)) &&
      dataset->level() != Level::kCaptured) {
    return call->Fail(local::RETRY, fmt::format("dataset {} was found damaged: ask for the latest again", dataset->id));
  }
  if (!dataset || !dataset->restorable()) {
    return call->Fail(NotFound("run {} has no restorable dataset {}", run->name, restore.dataset()));
  }
  if (!run->restore) {
    run->restore = std::make_shared<RestoreGroup>();
    run->restore->dataset = dataset;
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

// Matches the variables and finds the nearest copies; blocking reads of metadata go to the pool.
void CoreImpl::PlanPart(const RunPtr& run, std::shared_ptr<RestoreGroup> group, std::shared_ptr<RestorePart> part) {
  const Dataset& dataset = *group->dataset;
  const Rank rank = part->session->rank;
  Launch* launch = run->ledger.Find(part->session->launch);
  if (launch == nullptr) return EndGroup(run, group, local::FENCED, "the launch was shut out");
  if (dataset.files) {
    if (launch->nranks != dataset.nranks) {
      return EndGroup(run, group, local::FAILED_PRECONDITION,
                      fmt::format("dataset {} holds files of {} ranks, this launch has {}", dataset.id, dataset.nranks,
                                  launch->nranks));
    }
    return PartMatched(run, group, part);
  }
  auto wanted = Match(dataset, rank, launch->nranks, part->variables);
  if (!wanted.ok()) {
    return EndGroup(run, group, CodeOf(wanted.status()), fmt::format("rank {}: {}", rank, MessageOf(wanted.status())));
  }
  part->sources.clear();
  part->source_ranks.clear();
  part->source_tiers.clear();
  std::set<Rank> ranks;
  for (const Wanted& one : *wanted) {
    if (one.bytes > 0) ranks.insert(one.rank);
  }
  for (Rank from : ranks) {
    const catalogue::Catalogue& catalogue = dataset.parts[from].catalogue;
    if (catalogue.file_size() != 1) {
      return RetryGroup(run, group,
                        fmt::format("the catalogue of rank {} names {} checkpoint files", from, catalogue.file_size()));
    }
    const catalogue::FileEntry& file = catalogue.file(0);
    RestoreSource source;
    source.file_bytes = file.bytes();
    source.crc32c.assign(file.crc32c().begin(), file.crc32c().end());
    Tier tier = Tier::kNone;
    auto usable = [&](Tier candidate) { return !group->bad.contains({from, candidate}); };
    auto kept = run->kept.find(dataset.id);
    if (kept != run->kept.end() && kept->second.contains(from) && usable(Tier::kImage)) {
      tier = Tier::kImage;
      source.kept = kept->second[from].kept;
    } else if (dataset.in_cache && usable(Tier::kCache)) {
      tier = Tier::kCache;
      source.path = run->cache->DatasetPath(dataset.id) + "/" + file.name();
    } else if (dataset.in_prefix && run->prefix && usable(Tier::kPrefix)) {
      tier = Tier::kPrefix;
      source.path = run->prefix->FilePath(file.prefix_name());
    } else {
      return RetryGroup(run, group, fmt::format("no copy of rank {}'s bytes is whole", from));
    }
    part->sources.push_back(std::move(source));
    part->source_ranks.push_back(from);
    part->source_tiers.push_back(tier);
  }
  struct Found {
    absl::StatusOr<std::vector<RestorePiece>> pieces = absl::UnknownError("");
    std::size_t bad = 0;
  };
  Blocking(
      [this, sources = part->sources, from = part->source_ranks, wanted = *wanted] {
        Found found;
        found.pieces = FindPieces(cache_disk_, sources, from, wanted, &found.bad);
        return found;
      },
      [this, run, group, part](Found found) {
        if (group->ended) return;
        if (!found.pieces.ok()) {
          CopyIsBad(run, group, part->source_ranks[found.bad], part->source_tiers[found.bad],
                    std::string(MessageOf(found.pieces.status())));
          return PlanPart(run, group, part);
        }
        part->pieces = *std::move(found.pieces);
        PartMatched(run, group, part);
      });
}

void CoreImpl::PartMatched(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                           const std::shared_ptr<RestorePart>& part) {
  part->matched = true;
  if (group->started) return StartPart(run, group, part);
  const Launch* launch = run->ledger.Find(part->session->launch);
  if (launch == nullptr || group->parts.size() != launch->nranks) return;
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
  std::uint64_t bytes = Restore::ImageBytes(part->sources, part->pieces);
  const bool remote = !part->call->connection()->shares_memory();
  bytes = std::min(bytes, remote ? kRemoteRingBytes : kRingBytes);
  AcquireImage({.session = part->session,
                .call = part->call,
                .bytes = bytes,
                .then = [this, run, group, part, remote](absl::StatusOr<std::shared_ptr<Image>> image) {
                  if (group->ended) return ReleaseImage(part->session, image.ok() ? *std::move(image) : nullptr);
                  if (!image.ok())
                    return EndGroup(run, group, CodeOf(image.status()), std::string(MessageOf(image.status())));
                  part->image = *std::move(image);
                  part->sent = 0;
                  Restore::Callbacks callbacks;
                  callbacks.on_ready = [this, group, part](std::uint64_t pieces) {
                    loop_->Post([this, group, part, pieces] {
                      if (!group->ended) PartReady(part, pieces);
                    });
                  };
                  callbacks.on_end = [this, run, group, part](absl::Status status, std::size_t source) {
                    loop_->Post([this, run, group, part, status = std::move(status), source] {
                      PartEnded(run, group, part, status, source);
                    });
                  };
                  part->restore = Restore::Start(cache_disk_, *work_pool_, part->sources, part->pieces, part->image,
                                                 std::move(callbacks));
                  local::Reply reply;
                  local::RestoreReply& begun = *reply.mutable_restore();
                  std::shared_ptr<Image> descriptor;
                  if (part->image && !remote) {
                    DescribeImage(*part->session, part->image, begun.mutable_image());
                    if (begun.image().fresh()) descriptor = part->image;
                  }
                  local::Plan& plan = *begun.mutable_plan();
                  for (const PlanPiece& piece : part->restore->plan()) {
                    plan.add_variable(piece.variable);
                    plan.add_variable_offset(piece.variable_offset);
                    plan.add_image_offset(piece.image_offset);
                    plan.add_bytes(piece.bytes);
                  }
                  plan.set_doorbell_bytes(kDoorbellBytes);
                  part->call->Push(std::move(reply), std::move(descriptor));
                }});
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
    piece.set_data(part->image->bytes().data() + planned.image_offset, planned.bytes);
    piece.set_crc32c(Crc32c(std::as_bytes(std::span(piece.data()))));
    part->call->Push(std::move(reply));
  }
}

void CoreImpl::HandleCopied(const SessionPtr& session, const local::Request& request) {
  const std::shared_ptr<RestoreGroup> group = session->run->restore;
  if (!group || group->ended) return;
  auto part = group->parts.find(session->rank);
  if (part == group->parts.end() || part->second->session != session || !part->second->restore) return;
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
    CopyIsBad(run, group, part->source_ranks[source], part->source_tiers[source], std::string(MessageOf(status)));
    part->matched = false;
    return PlanPart(run, group, part);  // from the next tier, from the first byte
  }
  for (Tier tier : part->source_tiers) part->tier = std::max(part->tier, tier);
  part->done = true;
  GroupDone(run, group);
}

// A copy is damaged, missing or unreadable: never used again, reported, kept for a look.
void CoreImpl::CopyIsBad(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group, Rank rank, Tier tier,
                         const std::string& why) {
  const DatasetPtr& dataset = group->dataset;
  if (!group->bad.insert({rank, tier}).second) return;
  Warn(fmt::format("run {}: dataset {}: the copy of rank {} in the {} is bad: {}", run->name, dataset->id, rank,
                   NameOf(tier), why));
  if (tier == Tier::kImage) {
    if (auto kept = run->kept.find(dataset->id); kept != run->kept.end()) kept->second.erase(rank);
    return;
  }
  auto report = [this, id = dataset->id](const absl::Status& status) {
    if (!status.ok()) Warn(fmt::format("dataset {}: {}", id, MessageOf(status)));
  };
  if (tier == Tier::kCache) {
    // Other ranks' cached copies may still be whole; the dataset as a whole is not.
    for (const catalogue::FileEntry& file : dataset->parts[rank].catalogue.file()) {
      BlockingCache(
          [cache = run->cache, id = dataset->id, name = file.name(), why] { return cache->SetAside(id, name, why); },
          report);
      break;
    }
    run->remake.insert(dataset->id);
    return;
  }
  Blocking([prefix = run->prefix, id = dataset->id] { return prefix->MarkFailed(id); }, report);
}

// --- The end of it ---

void CoreImpl::EndGroup(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group, local::Code code,
                        const std::string& message) {
  if (std::exchange(group->ended, true)) return;
  if (run->restore == group) run->restore = nullptr;
  --group->dataset->readers;
  for (auto& [rank, part] : group->parts) {
    if (part->restore) part->restore->Abort();
    part->call->Fail(code, message);
  }
  for (const auto& [rank, tier] : group->bad) {
    if (tier == Tier::kCache) group->dataset->in_cache = false;
    if (tier == Tier::kPrefix) group->dataset->in_prefix = false;
  }
  Changed(run);
}

void CoreImpl::RetryGroup(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group, const std::string& why) {
  const DatasetPtr dataset = group->dataset;
  dataset->damaged = true;
  Warn(fmt::format("run {}: dataset {} (step {}) cannot be restored: {}", run->name, dataset->id, dataset->step, why));
  if (Launch* launch = run->ledger.newest(); launch != nullptr && launch->pin == dataset->id) {
    DatasetPtr older = run->ledger.NewestRestorable(dataset->id);
    launch->pin = older ? older->id : 0;
  }
  EndGroup(run, group, local::RETRY,
           fmt::format("dataset {} cannot be restored ({}): ask for the latest again", dataset->id, why));
}

void CoreImpl::GroupDone(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group) {
  const auto& parts = group->parts;
  if (!std::all_of(parts.begin(), parts.end(), [](const auto& item) { return item.second->done; })) return;
  group->ended = true;
  run->restore = nullptr;
  const DatasetPtr dataset = group->dataset;
  --dataset->readers;
  if (dataset->files) run->restored_files.insert(dataset->id);
  for (const auto& [rank, tier] : group->bad) {
    if (tier == Tier::kCache && !dataset->files) dataset->in_cache = false;
    if (tier == Tier::kPrefix) dataset->in_prefix = false;
  }
  for (auto& [rank, part] : group->parts) {
    local::Reply reply;
    reply.mutable_restore_end()->set_tier(static_cast<local::Tier>(part->tier));
    part->call->Reply(std::move(reply));
  }
  spdlog::info("run {}: dataset {} (step {}) restored on {} ranks", run->name, dataset->id, dataset->step,
               group->parts.size());
  if (run->remake.erase(dataset->id) > 0 && dataset->in_prefix && !dataset->in_cache) RemakeCached(run, dataset->id);
  Changed(run);
}

void CoreImpl::SessionLeftRestore(const SessionPtr& session) {
  const std::shared_ptr<RestoreGroup> group = session->run->restore;
  if (!group || group->ended || !group->parts.contains(session->rank)) return;
  EndGroup(session->run, group, local::UNAVAILABLE, fmt::format("rank {} was lost during the restore", session->rank));
}

// --- Files, and cached copies made anew ---

namespace {

// Brings one rank's part from the prefix into the cache, verified on the way. The dataset's entry is there.
absl::Status FetchRank(Disk& prefix_disk, Disk& cache_disk, Prefix& prefix, CacheFolder& cache, bool files,
                       const catalogue::Catalogue& catalogue) {
  Throttle throttle(0);
  TransferProgress progress;
  std::size_t damaged = 0;
  const DatasetId id = catalogue.dataset();
  std::string work;
  std::vector<CopyJob> jobs;
  for (const catalogue::FileEntry& file : catalogue.file()) {
    std::string to;
    if (files) {
      CAIRN_ASSIGN_OR_RETURN(to, cache.RouteFile(id, file.name()));
    } else {
      to = work = cache.WorkPath(id, catalogue.rank());
    }
    jobs.push_back({.from = prefix.FilePath(file.prefix_name()), .to = to, .entry = &file});
  }
  CAIRN_RETURN_IF_ERROR(CopyFiles(prefix_disk, cache_disk, jobs, throttle, progress, &damaged));
  return files ? cache.CommitRankFiles(catalogue) : cache.CommitRank(catalogue, work);
}

}  // namespace

void CoreImpl::RestoreFiles(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group,
                            const std::shared_ptr<RestorePart>& part) {
  const DatasetPtr dataset = group->dataset;
  const Rank rank = part->session->rank;
  struct Outcome {
    absl::Status cached, fetched;
    bool tried_prefix = false;
  };
  auto finish = [this, run, group, part, dataset, rank](Outcome outcome) {
    if (group->ended) return;
    if (!outcome.cached.ok()) CopyIsBad(run, group, rank, Tier::kCache, std::string(MessageOf(outcome.cached)));
    if (!outcome.cached.ok() && !outcome.tried_prefix) {
      return RetryGroup(run, group, fmt::format("rank {}'s files are in no whole copy", rank));
    }
    if (!outcome.fetched.ok()) {
      CopyIsBad(run, group, rank, Tier::kPrefix, std::string(MessageOf(outcome.fetched)));
      return RetryGroup(run, group, fmt::format("rank {}: {}", rank, MessageOf(outcome.fetched)));
    }
    part->tier = outcome.tried_prefix ? Tier::kPrefix : Tier::kCache;
    part->done = true;
    const auto& parts = group->parts;
    if (!std::all_of(parts.begin(), parts.end(), [](const auto& item) { return item.second->done; })) return;
    const bool fetched =
        std::any_of(parts.begin(), parts.end(), [](const auto& item) { return item.second->tier == Tier::kPrefix; });
    if (!fetched) return GroupDone(run, group);
    BlockingCache(
        [cache = run->cache, descriptor = DescriptorOf(*dataset, true)] { return cache->Complete(descriptor); },
        [this, run, group, dataset](const absl::Status& status) {
          if (group->ended) return;
          if (!status.ok()) return EndGroup(run, group, CodeOf(status), std::string(MessageOf(status)));
          dataset->in_cache = true;
          run->remake.erase(dataset->id);
          GroupDone(run, group);
        });
  };
  const bool in_cache = dataset->in_cache;
  const std::shared_ptr<Prefix> prefix = dataset->in_prefix ? run->prefix : nullptr;
  auto work = [this, cache = run->cache, prefix, in_cache, catalogue = dataset->parts[rank].catalogue] {
    Outcome outcome;
    if (in_cache) {
      for (const catalogue::FileEntry& file : catalogue.file()) {
        outcome.cached = VerifyFile(cache_disk_, cache->DatasetPath(catalogue.dataset()) + "/" + file.name(), file);
        if (!outcome.cached.ok()) break;
      }
    }
    if ((in_cache && outcome.cached.ok()) || !prefix) return outcome;
    outcome.tried_prefix = true;
    outcome.fetched = FetchRank(prefix_disk_, cache_disk_, *prefix, *cache, /*files=*/true, catalogue);
    return outcome;
  };
  if (in_cache) return Blocking(std::move(work), std::move(finish));
  WithDirectory(run, dataset, [this, run, group, work, finish](const absl::Status& status) {
    if (!status.ok()) return EndGroup(run, group, CodeOf(status), std::string(MessageOf(status)));
    Blocking(work, finish);
  });
}

void CoreImpl::RemakeCached(const RunPtr& run, DatasetId id) {
  DatasetPtr dataset = run->ledger.Get(id);
  if (!dataset || !run->prefix || !EnsureRoom(run, dataset->bytes()).ok()) return;
  std::vector<catalogue::Catalogue> catalogues;
  for (const Part& part : dataset->parts) catalogues.push_back(part.catalogue);
  ++dataset->readers;
  Blocking(
      [this, prefix = run->prefix, cache = run->cache, catalogues, descriptor = DescriptorOf(*dataset, true)] {
        for (const catalogue::Catalogue& catalogue : catalogues) {
          CAIRN_RETURN_IF_ERROR(FetchRank(prefix_disk_, cache_disk_, *prefix, *cache, descriptor.own_files, catalogue));
        }
        return cache->Complete(descriptor);
      },
      [this, run, dataset](const absl::Status& status) {
        --dataset->readers;
        if (status.ok()) {
          dataset->in_cache = true;
          spdlog::info("run {}: dataset {} is whole in the cache again", run->name, dataset->id);
        } else {
          Warn(fmt::format("run {}: dataset {} could not be made anew in the cache: {}", run->name, dataset->id,
                           MessageOf(status)));
        }
        Changed(run);
      });
}

}  // namespace cairn

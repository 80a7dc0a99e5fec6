#include "storage/job/scavenge/scavenge.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "proto/catalogue.pb.h"
#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/scr/flush_file.h"
#include "storage/place/cache/survey.h"
#include "storage/place/node_record.h"
#include "storage/place/prefix/place.h"
#include "storage/place/publish/publish.h"

namespace cairn {
namespace {

using State = SavedDataset::State;

// Is it the cache's trouble, not the prefix's? CopyFiles and its like say which side it was.
bool OfSource(const absl::Status& status) {
  return absl::IsDataLoss(status) || MessageOf(status).starts_with("source");
}

SavedDataset NothingSaved(const scr::Descriptor& descriptor) {
  SavedDataset saved;
  saved.id = descriptor.id;
  saved.step = descriptor.step.value_or(0);
  saved.checkpoint = descriptor.checkpoint;
  saved.output = descriptor.output;
  saved.ranks = descriptor.ranks.value_or(0);
  return saved;
}

// One dataset on its way.
class Saving {
 public:
  using Note = std::function<void(const std::string&)>;
  Saving(Disk& cache_disk, Disk& prefix_disk, Prefix& prefix, LaunchId committer, const SurveyedDataset& dataset,
         const Note& note)
      : cache_disk_(cache_disk),
        prefix_disk_(prefix_disk),
        prefix_(prefix),
        committer_(committer),
        dataset_(dataset),
        note_(note),
        saved_(NothingSaved(dataset.descriptor)) {}

  // `held_back`: why it must not be committed; empty: it may.
  absl::StatusOr<SavedDataset> Run(const std::string& held_back) {
    const absl::Status begun = prefix_.BeginFlush(dataset_.descriptor);
    if (absl::IsAborted(begun)) return TooLate(begun);
    if (!begun.ok() && !absl::IsAlreadyExists(begun)) return begun;
    CAIRN_RETURN_IF_ERROR(PutFlush({.flushing = true, .in_prefix = false}));
    for (const auto& [rank, catalogue] : dataset_.ranks) CAIRN_RETURN_IF_ERROR(CopyRank(catalogue));
    for (const auto& [rank, why] : dataset_.damaged) Miss(rank, why, true);
    CAIRN_RETURN_IF_ERROR(FindOthers());
    if (saved_.missing.empty() && !held_back.empty()) {
      saved_.state = State::kHeldBack;
      saved_.why = held_back;
    } else if (saved_.missing.empty()) {
      Published published;
      const absl::Status committed = Commit(&published);
      for (const std::string& warning : published.warnings) note_(warning);
      if (published.too_late) {
        RemoveWorkFiles();
        return TooLate(committed);
      }
      if (published.fenced) return Fenced(committed, published.placing);
      CAIRN_RETURN_IF_ERROR(committed);
      CAIRN_RETURN_IF_ERROR(PutFlush({.flushing = false, .in_prefix = true}));
      return std::move(saved_);
    } else {
      saved_.state = State::kIncomplete;
    }
    CAIRN_RETURN_IF_ERROR(PutInPlaceWhatReplacesNothing());
    CAIRN_RETURN_IF_ERROR(PutFlush({.flushing = false, .in_prefix = false}));
    return std::move(saved_);
  }

 private:
  struct Where {
    bool flushing, in_prefix;
  };

  bool own_files() const { return dataset_.descriptor.own_files; }
  void Miss(Rank rank, std::string why, bool damaged) { missing_[rank] = {rank, std::move(why), damaged}; }
  SavedDataset TooLate(const absl::Status& status) {
    saved_.state = State::kTooLate;
    saved_.why = MessageOf(status);
    return std::move(saved_);
  }

  // `placed`: its files are in their places. Else those that had the names have kept them.
  absl::StatusOr<SavedDataset> Fenced(const absl::Status& status, bool placed) {
    CAIRN_RETURN_IF_ERROR(PutFlush({.flushing = false, .in_prefix = false}));
    if (!placed) {
      RemoveWorkFiles();
      return TooLate(status);
    }
    saved_.state = State::kFenced;
    saved_.why = MessageOf(status);
    return std::move(saved_);
  }

  absl::Status PutFlush(const Where& where);
  absl::Status CopyRank(const catalogue::Catalogue& catalogue);
  absl::Status FindOthers();
  absl::Status FindOther(Rank rank);
  absl::StatusOr<bool> PutCheckpointInPlace(const catalogue::Catalogue& catalogue,
                                            const std::vector<CopiedFile>& files);
  absl::Status PutInPlaceWhatReplacesNothing();
  absl::Status Commit(Published* published);
  void RemoveWorkFiles();

  Disk& cache_disk_;
  Disk& prefix_disk_;
  Prefix& prefix_;
  const LaunchId committer_;
  const SurveyedDataset& dataset_;
  const Note& note_;
  SavedDataset saved_;
  std::map<Rank, MissingRank> missing_;
  std::map<Rank, catalogue::Catalogue> there_;      // on the prefix, or, of `copied_`, about to be
  std::map<Rank, std::vector<CopiedFile>> copied_;  // the application's own files, not in their places yet
  Throttle throttle_{0};
  TransferProgress progress_;
};

// SCR's tools see it on its way, and `cairn index build` finds there what the dataset is.
absl::Status Saving::PutFlush(const Where& where) {
  const scr::Descriptor& descriptor = dataset_.descriptor;
  return prefix_.PutFlush(descriptor.id, {.name = descriptor.name,
                                          .in_cache = true,
                                          .in_prefix = where.in_prefix,
                                          .flushing = where.flushing,
                                          .checkpoint = descriptor.checkpoint,
                                          .output = descriptor.output,
                                          .descriptor = descriptor});
}

// A checkpoint file's name is its own: it goes to its place at once. An application's file may replace another's.
absl::Status Saving::CopyRank(const catalogue::Catalogue& catalogue) {
  std::vector<CopyJob> jobs;
  std::uint64_t bytes = 0;
  for (const catalogue::FileEntry& file : catalogue.file()) {
    if (own_files()) {
      const absl::Status place = CheckPlace(prefix_disk_, prefix_.path(), file.prefix_name());
      if (absl::IsFailedPrecondition(place))
        return Miss(catalogue.rank(), std::string(MessageOf(place)), false), absl::OkStatus();
      CAIRN_RETURN_IF_ERROR(place);
    }
    jobs.push_back({.from = dataset_.folder + "/" + file.name(),
                    .to = prefix_.FilePath(file.prefix_name()),
                    .entry = &file,
                    .owner = own_files() ? dataset_.descriptor.id : 0});
    bytes += file.bytes();
  }
  std::size_t damaged = jobs.size();
  auto copied = CopyToWork(cache_disk_, prefix_disk_, jobs, throttle_, progress_, &damaged);
  if (!copied.ok()) {
    if (!OfSource(copied.status())) return copied.status();
    Miss(catalogue.rank(), std::string(MessageOf(copied.status())), absl::IsDataLoss(copied.status()));
    return absl::OkStatus();
  }
  if (own_files()) {
    copied_[catalogue.rank()] = *std::move(copied);
  } else {
    CAIRN_ASSIGN_OR_RETURN(const bool placed, PutCheckpointInPlace(catalogue, *copied));
    if (!placed) return absl::OkStatus();
  }
  there_[catalogue.rank()] = catalogue;
  saved_.saved.push_back(catalogue.rank());
  saved_.bytes += bytes;
  return absl::OkStatus();
}

// False: something is in the way, and the rank is missing for that.
absl::StatusOr<bool> Saving::PutCheckpointInPlace(const catalogue::Catalogue& catalogue,
                                                  const std::vector<CopiedFile>& files) {
  const absl::Status free = NamesInTheWay(prefix_disk_, prefix_.path(), files).status();
  if (absl::IsFailedPrecondition(free)) {
    Miss(catalogue.rank(), std::string(MessageOf(free)), false);
    return false;
  }
  CAIRN_RETURN_IF_ERROR(free);
  CAIRN_RETURN_IF_ERROR(PutInPlace(prefix_disk_, files));
  CAIRN_RETURN_IF_ERROR(prefix_.StoreCatalogue(catalogue));  // after what it describes
  return true;
}

// Ranks that are not of this node, or damaged here: from where others have put them.
absl::Status Saving::FindOthers() {
  for (Rank rank = 0; rank < saved_.ranks; ++rank) {
    if (!there_.contains(rank)) CAIRN_RETURN_IF_ERROR(FindOther(rank));
  }
  for (auto& [rank, missing] : missing_) saved_.missing.push_back(std::move(missing));
  return absl::OkStatus();
}

absl::Status Saving::FindOther(Rank rank) {
  const std::string path = prefix_.CataloguePath(dataset_.descriptor.id, rank);
  const auto missing = [&](std::string why) {
    if (!missing_.contains(rank)) Miss(rank, std::move(why), false);
    return absl::OkStatus();
  };
  const auto text = ReadWhole(prefix_disk_, path, kCatalogueBytesMax);
  if (absl::IsNotFound(text.status())) return missing("is neither in this cache nor on the prefix");
  if (!text.ok()) return text.status();
  auto catalogue = DecodeCatalogue(path, *text);
  if (!catalogue.ok()) return missing(std::string(MessageOf(catalogue.status())));
  const scr::Descriptor& descriptor = dataset_.descriptor;
  const bool own_run =
      there_.empty() ? prefix_.identity().Includes(catalogue->run()) : catalogue->run() == there_.begin()->second.run();
  if (!own_run || catalogue->dataset() != descriptor.id || catalogue->rank() != rank ||
      catalogue->nranks() != saved_.ranks || catalogue->launch() != descriptor.launch ||
      catalogue->files() != descriptor.own_files) {
    return missing(fmt::format("{}: is not of this dataset", path));
  }
  for (const catalogue::FileEntry& file : catalogue->file()) {
    const std::string to = prefix_.FilePath(file.prefix_name());
    // A checkpoint file has its name for itself, and its catalogue was written after it. Of an application's file
    // anything may be in the place.
    const auto info = prefix_disk_.Info(to);
    absl::Status whole = info.status();
    if (info.ok() && info->bytes != file.bytes()) {
      whole = DataLoss("{}: {} bytes instead of {}", to, info->bytes, file.bytes());
    } else if (info.ok() && own_files()) {
      whole = VerifyFile(prefix_disk_, to, file);
    }
    if (absl::IsNotFound(whole) || absl::IsDataLoss(whole)) return missing(std::string(MessageOf(whole)));
    CAIRN_RETURN_IF_ERROR(whole);
  }
  missing_.erase(rank);
  there_[rank] = *std::move(catalogue);
  return absl::OkStatus();
}

// Of an incomplete dataset: for the scavenge that completes it.
absl::Status Saving::PutInPlaceWhatReplacesNothing() {
  for (const auto& [rank, files] : copied_) {
    CAIRN_ASSIGN_OR_RETURN(const std::set<std::string> replaced, NamesInTheWay(prefix_disk_, prefix_.path(), files));
    if (replaced.empty()) {
      CAIRN_RETURN_IF_ERROR(PutInPlace(prefix_disk_, files));
      CAIRN_RETURN_IF_ERROR(prefix_.StoreCatalogue(there_.at(rank)));
      continue;
    }
    std::erase(saved_.saved, rank);
    saved_.missing.push_back(
        {rank, fmt::format("{}: would replace another dataset's, which only a whole dataset does", *replaced.begin()),
         false});
  }
  std::sort(saved_.missing.begin(), saved_.missing.end(),
            [](const MissingRank& a, const MissingRank& b) { return a.rank < b.rank; });
  if (!saved_.missing.empty()) saved_.state = State::kIncomplete;
  return absl::OkStatus();
}

absl::Status Saving::Commit(Published* published) {
  std::vector<catalogue::Catalogue> catalogues;
  for (auto& [rank, catalogue] : there_) catalogues.push_back(std::move(catalogue));
  Publication what{.descriptor = dataset_.descriptor, .catalogues = catalogues, .committer = committer_};
  for (Rank rank = 0; rank < saved_.ranks; ++rank) {
    const auto copied = copied_.find(rank);
    if (copied == copied_.end()) {
      what.stored.insert(rank);
    } else {
      what.files.insert(what.files.end(), copied->second.begin(), copied->second.end());
    }
  }
  return Publish(prefix_disk_, prefix_, what, published);
}

// Of what comes too late: nobody will go on with them.
void Saving::RemoveWorkFiles() {
  for (const auto& [rank, files] : copied_) {
    for (const CopiedFile& file : files) {
      if (!file.work.empty()) prefix_disk_.Remove(file.work).IgnoreError();  // in the way of nobody
    }
  }
}

// --- Which ---

class Scavenger {
 public:
  Scavenger(Disk& cache_disk, Disk& prefix_disk, Prefix& prefix, LaunchId served, const ScavengeRequest& request)
      : cache_disk_(cache_disk), prefix_disk_(prefix_disk), prefix_(prefix), served_(served), request_(request) {}

  absl::StatusOr<std::vector<SavedDataset>> Run(const CacheFolder::Found& run) {
    CAIRN_ASSIGN_OR_RETURN(survey_, SurveyCache(cache_disk_, run.path, run.run));
    CAIRN_RETURN_IF_ERROR(PassOverOthers());
    PassOverRejected(run.path);
    CAIRN_RETURN_IF_ERROR(EnterServed());
    for (const std::string& note : survey_.notes) request_.note(note);
    CAIRN_ASSIGN_OR_RETURN(contents_, prefix_.Contents());
    CAIRN_RETURN_IF_ERROR(MendFlushMarks());
    CAIRN_RETURN_IF_ERROR(request_.dataset ? SaveOne(*request_.dataset)
                          : request_.all   ? SaveAll()
                                           : SaveWhatARestartNeeds());
    std::sort(saved_.begin(), saved_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    return std::move(saved_);
  }

 private:
  bool IsThere(DatasetId id) const { return contents_.datasets.contains(id) || contents_.dropped.contains(id); }
  // Committed before, after a newer launch had been made; again would be the same.
  bool IsFenced(DatasetId id) const { return fencing_ && contents_.fenced.contains(id); }
  absl::Status PassOverOthers();
  void PassOverRejected(const std::string& cache_folder);
  absl::Status EnterServed();
  absl::Status MendFlushMarks();
  void TellIsThere(const SurveyedDataset& dataset);
  absl::Status Save(const SurveyedDataset& dataset, const std::string& held_back = "");
  absl::Status SaveOne(DatasetId id);
  absl::Status SaveAll();
  absl::Status SaveWhatARestartNeeds();

  Disk& cache_disk_;
  Disk& prefix_disk_;
  Prefix& prefix_;
  const LaunchId served_;  // 0: none is known
  const ScavengeRequest& request_;
  std::optional<LaunchId> fencing_;  // a launch after it
  Survey survey_;
  PrefixContents contents_;
  std::vector<SavedDataset> saved_;
};

// A dataset without mark is of release 0.1.0: the run alone says whose it is.
absl::Status Scavenger::PassOverOthers() {
  for (auto at = survey_.datasets.begin(); at != survey_.datasets.end();) {
    const scr::Descriptor& descriptor = at->second.descriptor;
    Prefix::Origin origin = Prefix::Origin::kOurs;
    if (!descriptor.mark.empty()) {
      CAIRN_ASSIGN_OR_RETURN(origin, prefix_.OriginOf(descriptor.launch.value_or(0), descriptor.mark));
    }
    if (origin == Prefix::Origin::kOurs) {
      ++at;
      continue;
    }
    request_.note(fmt::format("dataset {} stays in the cache: {}", at->first,
                              origin == Prefix::Origin::kAnothers
                                  ? fmt::format("it was made under a launch that {} does not have", prefix_.path())
                                  : "its launch had begun when a newer one was under way already"));
    at = survey_.datasets.erase(at);
  }
  return absl::OkStatus();
}

// The application could not use it, and no restart is to choose it. A record that cannot be read tells nothing.
void Scavenger::PassOverRejected(const std::string& cache_folder) {
  const auto record = ReadTree(cache_disk_, fmt::format("{}/{}", cache_folder, kFlushRecordName));
  if (!record.ok()) return;
  for (const auto& [id, note] : DecodeNodeRecord(*record)) {
    if (!note.rejected || request_.dataset == id || survey_.datasets.erase(id) == 0) continue;
    request_.note(fmt::format("dataset {} stays in the cache: the application has rejected it", id));
  }
}

absl::Status Scavenger::EnterServed() {
  if (served_ == 0 || survey_.datasets.empty()) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(
      Annotate(prefix_.EnterLaunch(served_), fmt::format("launch {}, the newest that this cache has served", served_)));
  CAIRN_ASSIGN_OR_RETURN(const auto next, prefix_.LaunchAfter(served_));
  if (next) fencing_ = next->id;
  return absl::OkStatus();
}

// Who was killed just after the commit has left the mark that the dataset is on its way.
absl::Status Scavenger::MendFlushMarks() {
  const auto flush = ReadTree(prefix_disk_, prefix_.path() + "/.scr/flush.scr");
  if (!flush.ok()) return absl::OkStatus();  // none, or damaged: whoever changes it next makes it anew
  const auto entries = scr::GetFlushEntries(*flush);
  if (!entries.ok()) return absl::OkStatus();
  for (const auto& [id, entry] : *entries) {
    const auto there = contents_.datasets.find(id);
    if (there == contents_.datasets.end() || !there->second.by_cairn) continue;
    if (!entry.flushing || !survey_.datasets.contains(id)) continue;
    scr::FlushEntry arrived = entry;
    arrived.flushing = false;
    arrived.in_prefix = true;
    CAIRN_RETURN_IF_ERROR(prefix_.PutFlush(id, arrived));
  }
  return absl::OkStatus();
}

void Scavenger::TellIsThere(const SurveyedDataset& dataset) {
  SavedDataset there = NothingSaved(dataset.descriptor);
  there.state = IsFenced(there.id) ? State::kFenced : State::kThere;
  if (there.state == State::kFenced) there.why = fmt::format("launch {} had been made before", *fencing_);
  saved_.push_back(std::move(there));
}

absl::Status Scavenger::Save(const SurveyedDataset& dataset, const std::string& held_back) {
  const DatasetId id = dataset.descriptor.id;
  if (IsFenced(id)) {
    TellIsThere(dataset);
    return absl::OkStatus();
  }
  auto saved = Saving(cache_disk_, prefix_disk_, prefix_, served_, dataset, request_.note).Run(held_back);
  if (!saved.ok()) return Annotate(saved.status(), fmt::format("dataset {}", id));
  saved_.push_back(*std::move(saved));
  return absl::OkStatus();
}

absl::Status Scavenger::SaveOne(DatasetId id) {
  const auto found = survey_.datasets.find(id);
  if (found == survey_.datasets.end()) return NotFound("dataset {} is not in this cache", id);
  if (!IsThere(id)) return Save(found->second);
  TellIsThere(found->second);
  return absl::OkStatus();
}

absl::Status Scavenger::SaveAll() {
  for (const auto& [id, dataset] : survey_.datasets) {
    if (!IsThere(id)) CAIRN_RETURN_IF_ERROR(Save(dataset));
  }
  return absl::OkStatus();
}

absl::Status Scavenger::SaveWhatARestartNeeds() {
  std::optional<DatasetId> incomplete;  // the first output that is
  for (const auto& [id, dataset] : survey_.datasets) {
    if (!dataset.descriptor.output || IsThere(id)) continue;
    CAIRN_RETURN_IF_ERROR(Save(dataset));
    if (saved_.back().state == State::kIncomplete && !incomplete) incomplete = id;
  }
  for (auto at = survey_.datasets.rbegin(); at != survey_.datasets.rend(); ++at) {
    const auto& [id, dataset] = *at;
    // One on the prefix that is as new serves a restart as well.
    const bool served = std::any_of(contents_.datasets.begin(), contents_.datasets.end(), [id = id](const auto& item) {
      return item.first >= id && item.second.descriptor.checkpoint;
    });
    if (served) break;
    if (!dataset.descriptor.checkpoint || contents_.dropped.contains(id)) continue;
    if (dataset.descriptor.output) {  // it was among them
      const auto done = std::find_if(saved_.begin(), saved_.end(), [id = id](const auto& one) { return one.id == id; });
      if (done != saved_.end() && (done->state == State::kSaved || done->state == State::kFenced)) break;
      continue;
    }
    std::string held_back;
    if (incomplete && *incomplete < id) held_back = fmt::format("output {} before it is incomplete", *incomplete);
    CAIRN_RETURN_IF_ERROR(Save(dataset, held_back));
    // What fences one fences the older ones, too.
    if (saved_.back().state == State::kSaved || saved_.back().state == State::kFenced) break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCacheOf(const CacheFolder::Found& run, const std::string& prefix, const RunIdentity& identity) {
  const RunId& cached = run.run.run;
  if (cached == identity.run) return absl::OkStatus();
  if (identity.parent && identity.Includes(cached)) {
    return FailedPrecondition(
        "{}: the prefix is a copy of run {}, which {} is of, and a run of its own, {}. If it is no copy but has moved, "
        "say so: cairn run moved {}",
        prefix, cached.Hex(), run.path, identity.run.Hex(), prefix);
  }
  if (identity.Includes(cached)) return absl::OkStatus();
  return FailedPrecondition("{}: the prefix is run {} now, not {}, which {} is of", prefix, identity.run.Hex(),
                            cached.Hex(), run.path);
}

absl::StatusOr<std::vector<SavedDataset>> ScavengeRun(Disk& cache_disk, Disk& prefix_disk,
                                                      const CacheFolder::Found& run, Prefix& prefix,
                                                      const ScavengeRequest& request) {
  CAIRN_RETURN_IF_ERROR(CheckCacheOf(run, prefix.path(), prefix.identity()));
  return Scavenger(cache_disk, prefix_disk, prefix, run.served, request).Run(run);
}

}  // namespace cairn

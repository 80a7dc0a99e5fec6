#include "storage/job/adopt/adopt_scr.h"

#include "storage/base/path.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "proto/catalogue.pb.h"
#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/scr/records.h"
#include "storage/job/adopt/adoption.h"
#include "storage/job/adopt/scr_file.h"
#include "storage/job/adopt/scr_names.h"
#include "storage/job/adopt/scr_recover.h"
#include "storage/place/names.h"
#include "storage/place/prefix/index_rules.h"
#include "storage/place/prefix/place.h"
#include "storage/place/publish/unfinished.h"

namespace cairn {
namespace {

std::string NameOf(const ScrDataset& dataset) {
  if (!dataset.entry) return fmt::format("dataset {}", dataset.id);
  return fmt::format("dataset {} ({})", dataset.id, dataset.entry->descriptor.name);
}

// --- The dataset ---

void NoteVerified(const std::vector<catalogue::Catalogue>& catalogues, AdoptedScr* adopted) {
  adopted->verified = CountVerified(catalogues);
  adopted->unverified = UnverifiedFiles(catalogues);
}

class Adopter {
 public:
  Adopter(Disk& disk, Prefix& prefix, const ScrCache& cache, const AdoptScrRequest& request, Scratch& scratch,
          Claims claims, std::map<DatasetId, CommittedDataset> committed)
      : disk_(disk),
        prefix_(prefix),
        cache_(cache),
        request_(request),
        scratch_(scratch),
        claims_(std::move(claims)),
        committed_(std::move(committed)) {}

  absl::Status ReadNamesOfOthers();
  // What there is to be done with it. kDataLoss: not whole; kAlreadyExists: names.
  struct Plan {
    AdoptedScr adopted;
    std::string claim;
    std::unique_ptr<ScrRecovery> recovery;  // null: nothing
    NamesByRank names;
    std::string hint;  // to the user, if it is taken
  };
  absl::StatusOr<Plan> MakePlan(const ScrDataset& dataset);
  absl::StatusOr<AdoptedScr> Adopt(const ScrDataset& dataset);

  // Does the dataset have a name that is in `names`? Enters its names.
  static std::optional<std::string> Collides(const Plan& plan, std::set<std::string>* names);

 private:
  std::optional<DatasetId> OnPrefix(const ScrDataset& dataset) const;
  absl::Status CheckNames(const ScrDataset& dataset, const NamesByRank& names);
  bool GivesWay(DatasetId other, const ScrDataset& dataset) const;
  std::string ClaimOf(const ScrDataset& dataset, const std::vector<scr::Filemap>& filemaps) const;
  NewDataset MakeDataset(const ScrDataset& from, const AdoptedScr& adopted, DatasetId id) const;
  absl::Status CopyFiles(const std::vector<ScrRankFiles>& files, const NamesByRank& names, NewDataset* dataset);
  absl::Status AddFile(const ScrFile& file, const std::string& name, NewDataset* dataset,
                       catalogue::Catalogue* catalogue);
  absl::Status CheckRoomFor(const std::vector<ScrRankFiles>& files, const NamesByRank& names);
  absl::Status Take(const ScrDataset& from, const Plan& plan, const std::vector<ScrRankFiles>& files,
                    AdoptedScr* adopted);
  absl::Status CheckVerified(const Plan& plan, const std::vector<ScrRankFiles>& files) const;
  void TellWarnings(ScrRecovery& recovery) {
    for (const std::string& warning : recovery.TakeWarnings()) request_.note(warning);
  }

  Disk& disk_;
  Prefix& prefix_;
  const ScrCache& cache_;
  const AdoptScrRequest& request_;
  Scratch& scratch_;
  const Claims claims_;
  const std::map<DatasetId, CommittedDataset> committed_;
  std::unique_ptr<OwnLaunch> launch_;        // of all that is adopted
  std::map<std::string, DatasetId> others_;  // names below the prefix that committed datasets have
};

absl::Status Adopter::ReadNamesOfOthers() {
  CAIRN_ASSIGN_OR_RETURN(others_, NamesOfCommitted(disk_, prefix_, committed_));
  return absl::OkStatus();
}

// SCR's own copy of it: the same number, name and time of creation.
std::optional<DatasetId> Adopter::OnPrefix(const ScrDataset& dataset) const {
  const auto found = committed_.find(dataset.id);
  if (!dataset.entry || found == committed_.end() || found->second.by_cairn) return std::nullopt;
  const scr::Descriptor& here = found->second.descriptor;
  const scr::Descriptor& there = dataset.entry->descriptor;
  const bool timed = here.created_us != 0 && there.created_us != 0;  // it may be without
  const bool same = here.name == there.name && (!timed || here.created_us == there.created_us);
  return same ? std::optional(found->first) : std::nullopt;
}

// The same for the same dataset, wherever its folders are now.
std::string Adopter::ClaimOf(const ScrDataset& dataset, const std::vector<scr::Filemap>& filemaps) const {
  const scr::Descriptor& descriptor = dataset.entry->descriptor;
  std::string text = fmt::format("SCR {} {} {} {} {}\n", dataset.id, descriptor.created_us, descriptor.job_id,
                                 filemaps.size(), descriptor.name);
  for (std::size_t rank = 0; rank < filemaps.size(); ++rank) {
    for (const auto& [recorded, meta] : filemaps[rank].files) {
      text += fmt::format("{} {} {} {}.{}\n", rank, recorded, meta.bytes, meta.mtime.tv_sec, meta.mtime.tv_nsec);
    }
  }
  return ClaimPath(prefix_, text);
}

// As SCR's own flush would do it: what SCR has written since replaces files of what it restarted from.
bool Adopter::GivesWay(DatasetId other, const ScrDataset& dataset) const {
  const auto there = committed_.find(other);
  if (there == committed_.end() || !dataset.entry) return false;
  scr::Descriptor adopted = dataset.entry->descriptor;
  adopted.launch = 0;
  return index_rules::IsNewer(adopted, there->second.descriptor);
}

// Links on the way must not lead out of the prefix, nor two names to one file.
absl::Status Adopter::CheckNames(const ScrDataset& dataset, const NamesByRank& names) {
  std::map<std::string, std::string> places;  // what each file's name really is
  for (const auto& of_rank : names) {
    for (const auto& [recorded, name] : of_rank) {
      CAIRN_RETURN_IF_ERROR(CheckPlace(disk_, prefix_.path(), name));
      const std::size_t slash = name.rfind('/');
      const std::string folder = slash == std::string::npos ? "" : name.substr(0, slash);
      CAIRN_ASSIGN_OR_RETURN(const std::string real, RealDirectory(disk_, prefix_.path(), folder));
      const std::string place = real.empty() ? BaseOf(name) : real + "/" + BaseOf(name);
      auto other = others_.find(name);
      if (other == others_.end()) other = others_.find(place);
      if (other != others_.end() && !GivesWay(other->second, dataset)) {
        return AlreadyExists("{}: file {} belongs to dataset {}, which is on the prefix", NameOf(dataset), name,
                             other->second);
      }
      const auto [first, fresh] = places.try_emplace(place, name);
      if (!fresh)
        return AlreadyExists("{}: {} and {} would be one file, {}", NameOf(dataset), first->second, name, place);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Adopter::Plan> Adopter::MakePlan(const ScrDataset& dataset) {
  Plan plan;
  if (dataset.entry) {
    const scr::Descriptor& from = dataset.entry->descriptor;
    plan.adopted.from = from;
    plan.adopted.from.id = dataset.id;
    plan.adopted.step = from.checkpoint_id.value_or(dataset.id);
  }
  if (const auto id = OnPrefix(dataset)) {
    plan.adopted.how = AdoptedScr::How::kOnPrefix;
    plan.adopted.dataset = *id;
    return plan;
  }
  CAIRN_RETURN_IF_ERROR(scratch_.Clear());
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<ScrRecovery> recovery, ScrRecovery::Open(disk_, dataset, scratch_.path()));
  plan.adopted.ranks = static_cast<std::uint32_t>(recovery->filemaps().size());
  plan.claim = ClaimOf(dataset, recovery->filemaps());
  if (const auto before = claims_.find(plan.claim); before != claims_.end()) {
    plan.adopted.how = AdoptedScr::How::kBefore;
    plan.adopted.dataset = before->second;
    if (const auto catalogues = prefix_.Catalogues(before->second); catalogues.ok())
      NoteVerified(*catalogues, &plan.adopted);
    return plan;
  }
  CAIRN_ASSIGN_OR_RETURN(ScrNaming naming, NameScrFiles(prefix_.path(), request_.prefix_was, recovery->filemaps()));
  plan.names = std::move(naming.names);
  if (naming.guessed) {
    plan.hint = fmt::format("{}: files are named as they lay below {}; --prefix-was says where SCR's prefix was",
                            NameOf(dataset), naming.prefix);
  }
  CAIRN_RETURN_IF_ERROR(CheckNames(dataset, plan.names));
  plan.recovery = std::move(recovery);
  return plan;
}

std::optional<std::string> Adopter::Collides(const Plan& plan, std::set<std::string>* names) {
  for (const auto& of_rank : plan.names) {
    for (const auto& [recorded, name] : of_rank) {
      if (names->contains(name)) return name;
    }
  }
  for (const auto& of_rank : plan.names) {
    for (const auto& [recorded, name] : of_rank) names->insert(name);
  }
  return std::nullopt;
}

absl::StatusOr<AdoptedScr> Adopter::Adopt(const ScrDataset& dataset) {
  CAIRN_ASSIGN_OR_RETURN(Plan plan, MakePlan(dataset));
  if (!plan.recovery) return plan.adopted;
  if (launch_) launch_->StillHere();
  const auto files = plan.recovery->RecoverFiles([&](Rank rank, const std::string& recorded) {
    std::vector<std::string> places = {prefix_.FilePath(plan.names[rank].at(recorded))};
    // Anywhere else only where the user has said that the prefix is.
    const std::string& was = request_.prefix_was;
    if (!was.empty() && recorded.starts_with(was.ends_with('/') ? was : was + "/")) places.push_back(recorded);
    return places;
  });
  TellWarnings(*plan.recovery);
  if (files.ok() && !plan.hint.empty()) request_.note(plan.hint);
  if (!files.ok()) return files.status();
  AdoptedScr adopted = plan.adopted;
  adopted.rebuilt = plan.recovery->rebuilt();
  if (!request_.unverified) CAIRN_RETURN_IF_ERROR(CheckVerified(plan, *files));
  CAIRN_RETURN_IF_ERROR(Take(dataset, plan, *files, &adopted));
  for (const auto& names : plan.names) {
    for (const auto& [recorded, name] : names) others_[name] = adopted.dataset;
  }
  return adopted;
}

// kFailedPrecondition: something is verified by nothing.
absl::Status Adopter::CheckVerified(const Plan& plan, const std::vector<ScrRankFiles>& files) const {
  constexpr std::size_t kMost = 4;
  std::size_t count = 0;
  std::vector<std::string> unverified;
  for (Rank rank = 0; rank < files.size(); ++rank) {
    for (const auto& [recorded, file] : files[rank]) {
      ++count;
      if (file.verified_by == catalogue::NOTHING) unverified.push_back(plan.names[rank].at(recorded));
    }
  }
  if (unverified.empty()) return absl::OkStatus();
  const std::size_t all = unverified.size();
  unverified.resize(std::min(all, kMost));
  return FailedPrecondition(
      "dataset {} ({}): nothing verifies the bytes of {} of {} files ({}{}): {}; --unverified takes them as they are",
      plan.adopted.from.id, plan.adopted.from.name, all, count, fmt::join(unverified, ", "), all > kMost ? ", …" : "",
      fmt::join(plan.recovery->why_unverified(), "; "));
}

absl::Status Adopter::CheckRoomFor(const std::vector<ScrRankFiles>& files, const NamesByRank& names) {
  std::uint64_t bytes = 0;
  for (Rank rank = 0; rank < files.size(); ++rank) {
    for (const auto& [recorded, file] : files[rank]) {
      if (file.path == prefix_.FilePath(names[rank].at(recorded))) continue;
      bytes = file.meta.bytes > std::numeric_limits<std::uint64_t>::max() - bytes
                  ? std::numeric_limits<std::uint64_t>::max()
                  : bytes + file.meta.bytes;
    }
  }
  return CheckRoom(disk_, prefix_, bytes);
}

NewDataset Adopter::MakeDataset(const ScrDataset& from, const AdoptedScr& adopted, DatasetId id) const {
  NewDataset dataset;
  scr::Descriptor& descriptor = dataset.descriptor;
  descriptor = from.entry->descriptor;
  descriptor.id = id;
  descriptor.complete = std::nullopt;
  descriptor.checkpoint_id = std::nullopt;
  descriptor.launch = 0;
  descriptor.step = adopted.step;
  descriptor.ranks = adopted.ranks;
  descriptor.own_files = true;
  // Names are one dataset's each, and Cairn's own are kept for its own.
  bool taken = descriptor.name.empty() || DatasetOfName(descriptor.name).has_value();
  for (const auto& [other, committed] : committed_) taken |= committed.descriptor.name == descriptor.name;
  if (taken) descriptor.name = dataset.folder();
  return dataset;
}

// One that SCR has put where it is to be needs no copy.
absl::Status Adopter::AddFile(const ScrFile& file, const std::string& name, NewDataset* dataset,
                              catalogue::Catalogue* catalogue) {
  dataset->launch->StillHere();
  const std::string staged = StagedPath(prefix_, *dataset, catalogue->rank(), catalogue->file_size());
  catalogue::FileEntry& entry = *catalogue->add_file();
  CopiedFile copied{.work = "", .to = prefix_.FilePath(name), .in_place = {}};
  if (file.path == copied.to) {
    CAIRN_ASSIGN_OR_RETURN(copied.in_place, KeepScrFile(disk_, file, staged, &entry));
  } else {
    CAIRN_RETURN_IF_ERROR(CopyScrFile(disk_, file, staged, dataset->launch, &entry));
    copied.work = staged;
  }
  entry.set_name(name);
  entry.set_prefix_name(name);
  entry.set_verified_by(file.verified_by);
  dataset->files.push_back(std::move(copied));
  return absl::OkStatus();
}

// All of them wait until the last is there, and who they are is known.
absl::Status Adopter::CopyFiles(const std::vector<ScrRankFiles>& files, const NamesByRank& names, NewDataset* dataset) {
  CAIRN_RETURN_IF_ERROR(MakeStage(disk_, prefix_, *dataset));
  for (Rank rank = 0; rank < files.size(); ++rank) {
    catalogue::Catalogue catalogue = CatalogueOf(*dataset, prefix_.run(), rank);
    for (const auto& [recorded, file] : files[rank]) {
      CAIRN_RETURN_IF_ERROR(AddFile(file, names[rank].at(recorded), dataset, &catalogue));
    }
    dataset->catalogues.push_back(std::move(catalogue));
  }
  return SyncStage(disk_, prefix_, *dataset);
}

absl::Status Adopter::Take(const ScrDataset& from, const Plan& plan, const std::vector<ScrRankFiles>& files,
                           AdoptedScr* adopted) {
  CAIRN_RETURN_IF_ERROR(CheckRoomFor(files, plan.names));
  if (!launch_) {
    CAIRN_ASSIGN_OR_RETURN(launch_, MakeAdoptLaunch(prefix_, adopted->ranks, request_.wait, request_.note));
  }
  CAIRN_ASSIGN_OR_RETURN(const Prefix::IdBlock ids, prefix_.ReserveIds(0, 1));
  NewDataset dataset = MakeDataset(from, *adopted, ids.first);
  dataset.launch = launch_.get();
  kvtree::Tree claim;
  claim.Set("SYSTEM", "SCR");
  claim.Set("JOB", cache_.job);
  claim.Set("ID", from.id);
  CAIRN_RETURN_IF_ERROR(AdoptDataset(
      disk_, prefix_, plan.claim, std::move(claim), &dataset, [&] { return CopyFiles(files, plan.names, &dataset); },
      request_.note));
  adopted->dataset = dataset.id();
  NoteVerified(dataset.catalogues, adopted);
  for (const catalogue::Catalogue& catalogue : dataset.catalogues) {
    adopted->files += static_cast<std::uint64_t>(catalogue.file_size());
    for (const catalogue::FileEntry& file : catalogue.file()) adopted->bytes += file.bytes();
  }
  return absl::OkStatus();
}

// --- Which datasets ---

class Chooser {
 public:
  Chooser(const ScrCache& cache, const AdoptScrRequest& request, Adopter& adopter)
      : cache_(cache), request_(request), adopter_(adopter) {}

  // The newest first, until one is taken.
  absl::StatusOr<std::vector<AdoptedScr>> One() {
    for (auto at = cache_.datasets.rbegin(); at != cache_.datasets.rend(); ++at) {
      const ScrDataset& dataset = at->second;
      if (request_.dataset ? dataset.id != *request_.dataset : !MayBeCheckpoint(dataset)) continue;
      auto adopted = adopter_.Adopt(dataset);
      if (adopted.ok()) return std::vector<AdoptedScr>{*std::move(adopted)};
      if (!absl::IsDataLoss(adopted.status())) return adopted.status();
      PassOver(dataset, adopted.status());
    }
    return Nothing();
  }

  // The oldest first, so that the newest gets the highest number. Of those that have names in common, the newest.
  absl::StatusOr<std::vector<AdoptedScr>> All() {
    std::vector<const ScrDataset*> chosen;
    std::set<std::string> names;
    for (auto at = cache_.datasets.rbegin(); at != cache_.datasets.rend(); ++at) {
      const auto plan = adopter_.MakePlan(at->second);
      if (absl::IsDataLoss(plan.status()) || absl::IsAlreadyExists(plan.status())) {
        PassOver(at->second, plan.status());
        continue;
      }
      if (!plan.ok()) return plan.status();
      if (const auto name = Adopter::Collides(*plan, &names)) {
        request_.note(
            fmt::format("{} is passed over: a newer one has a file of the same name, {}", NameOf(at->second), *name));
        continue;
      }
      chosen.push_back(&at->second);
    }
    std::vector<AdoptedScr> all;
    for (auto dataset = chosen.rbegin(); dataset != chosen.rend(); ++dataset) {
      auto adopted = adopter_.Adopt(**dataset);
      if (!adopted.ok() && !absl::IsDataLoss(adopted.status())) return Stopped(all, adopted.status());
      if (!adopted.ok()) {
        PassOver(**dataset, adopted.status());
        continue;
      }
      all.push_back(*std::move(adopted));
    }
    if (all.empty()) return Nothing();
    return all;
  }

 private:
  static bool MayBeCheckpoint(const ScrDataset& dataset) {
    return !dataset.entry || dataset.entry->descriptor.checkpoint;
  }
  // What was taken before stays.
  absl::Status Stopped(const std::vector<AdoptedScr>& taken, const absl::Status& why) {
    for (const AdoptedScr& one : taken) {
      if (one.how == AdoptedScr::How::kNow) {
        request_.note(
            fmt::format("dataset {} ({}) was adopted as dataset {}", one.from.id, one.from.name, one.dataset));
      }
    }
    return why;
  }
  void PassOver(const ScrDataset& dataset, const absl::Status& why) {
    const std::string reason = absl::IsDataLoss(why)
                                   ? fmt::format("{} is not whole: {}", NameOf(dataset), MessageOf(why))
                                   : fmt::format("passed over: {}", MessageOf(why));
    request_.note(reason);
    reasons_ += (reasons_.empty() ? "" : "; ") + reason;
  }
  absl::Status Nothing() const {
    if (!reasons_.empty()) {
      return DataLoss("no dataset of SCR's job {} can be adopted: {}", cache_.job, reasons_);
    }
    if (request_.dataset) return NotFound("the cache of SCR's job {} has no dataset {}", cache_.job, *request_.dataset);
    return NotFound("the cache of SCR's job {} has no checkpoint", cache_.job);
  }

  const ScrCache& cache_;
  const AdoptScrRequest& request_;
  Adopter& adopter_;
  std::string reasons_;
};

}  // namespace

absl::StatusOr<std::vector<AdoptedScr>> AdoptScr(Disk& disk, Prefix& prefix, const ScrCache& cache,
                                                 const AdoptScrRequest& request) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Scratch> scratch, Scratch::Make(disk, prefix));
  CAIRN_ASSIGN_OR_RETURN(Claims claims, CleanUp(disk, prefix));
  CAIRN_ASSIGN_OR_RETURN(auto committed, prefix.Committed());
  Adopter adopter(disk, prefix, cache, request, *scratch, std::move(claims), std::move(committed));
  CAIRN_RETURN_IF_ERROR(adopter.ReadNamesOfOthers());
  Chooser chooser(cache, request, adopter);
  return request.all ? chooser.All() : chooser.One();
}

}  // namespace cairn

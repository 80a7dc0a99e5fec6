#include "storage/place/cache/survey.h"

#include "storage/base/path.h"
#include "storage/place/names.h"

#include <optional>
#include <utility>

#include "proto/frame.h"
#include "storage/base/status.h"
#include "storage/place/cache/aside.h"
#include "storage/place/cache/cache_index.h"
#include "storage/place/cache/dataset_folder.h"
#include "storage/place/cache/load.h"
#include "storage/place/cache/repair.h"

namespace cairn {
namespace {

// The ranks that have a catalogue in the folder, readable or not.
absl::StatusOr<std::vector<Rank>> RanksIn(Disk& disk, const std::string& folder) {
  constexpr std::string_view kAfter = ".cat";
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(folder));
  std::vector<Rank> ranks;
  for (const std::string& name : names) {
    if (!name.ends_with(kAfter)) continue;
    const auto rank = NumberAfter(std::string_view(name).substr(0, name.size() - kAfter.size()), "rank_");
    if (rank && *rank < CAIRN_RANKS_MAX) ranks.push_back(static_cast<Rank>(*rank));
  }
  return ranks;
}

class Surveyor {
 public:
  Surveyor(Disk& disk, const std::string& path, const RunIdentity& run) : disk_(disk), path_(path), run_(run) {}

  absl::StatusOr<Survey> Run() {
    CacheIndex index(disk_, fmt::format("{}/{}", path_, kCacheIndexName));
    const absl::Status read = index.Read();
    if (!read.ok() && !absl::IsDataLoss(read)) return read;
    if (!read.ok()) Note(fmt::format("{}; going on without it", MessageOf(read)));
    entries_ = index.Entries();
    CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk_.List(path_));
    for (const std::string& name : names) {
      const auto id = DatasetOfRecords(name);
      if (name.starts_with(kDamagedStem)) Note(fmt::format("{}/{}: was set aside as damaged", path_, name));
      if (name.starts_with(kTakenStem)) Note(fmt::format("{}/{}: its number is another's now", path_, name));
      if (!id) continue;
      if (const absl::Status looked = Look(*id); !looked.ok()) {
        Note(fmt::format("{}/{}: {}", path_, name, MessageOf(looked)));
      }
    }
    return std::move(survey_);
  }

 private:
  void Note(std::string text) { survey_.notes.push_back(std::move(text)); }
  absl::Status Look(DatasetId id);
  // None: not one to be saved, of which notes say why if it is worth saying.
  absl::StatusOr<std::optional<scr::Descriptor>> DescriptorOf(DatasetId id, const std::string& folder);

  Disk& disk_;
  const std::string& path_;
  const RunIdentity& run_;
  std::map<DatasetId, scr::CacheEntry> entries_;
  Survey survey_;
};

absl::StatusOr<std::optional<scr::Descriptor>> Surveyor::DescriptorOf(DatasetId id, const std::string& folder) {
  const auto entry = entries_.find(id);
  if (entry != entries_.end()) {
    const scr::Descriptor& descriptor = entry->second.descriptor;
    const std::uint32_t ranks = descriptor.ranks.value_or(0);
    if (descriptor.launch && !entry->second.bypass && ranks > 0 && ranks <= CAIRN_RANKS_MAX) return descriptor;
    Note(fmt::format("{}: written by SCR, left to SCR's tools", folder));
    return std::nullopt;
  }
  CAIRN_ASSIGN_OR_RETURN(const bool scrs, IsScrs(disk_, folder));
  if (scrs) {
    Note(fmt::format("{}: written by SCR, left to SCR's tools", folder));
    return std::nullopt;
  }
  CAIRN_ASSIGN_OR_RETURN(const bool given_up, IsGivenUp(disk_, folder));
  const absl::Status encoded = given_up ? CheckEncoded(disk_, folder) : absl::OkStatus();
  if (IsGoneOrDamaged(encoded)) return std::nullopt;  // removed, or its files were given to another
  CAIRN_RETURN_IF_ERROR(encoded);
  auto found = FindDescriptor(disk_, folder, id, &survey_.notes);
  if (absl::IsNotFound(found.status())) return std::nullopt;  // no rank was committed
  if (!found.ok()) return found.status();
  if (*found->ranks > CAIRN_RANKS_MAX) return DataLoss("CAIRN_RANKS is {}", *found->ranks);
  return *std::move(found);
}

absl::Status Surveyor::Look(DatasetId id) {
  SurveyedDataset dataset;
  dataset.folder = fmt::format("{}/{}", path_, DatasetFolderName(id));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Rank> ranks, RanksIn(disk_, dataset.folder));
  CAIRN_ASSIGN_OR_RETURN(const auto descriptor, DescriptorOf(id, dataset.folder));
  if (!descriptor) return absl::OkStatus();
  dataset.descriptor = *descriptor;
  dataset.descriptor.complete.reset();
  dataset.descriptor.held.reset();  // of this cache, not of the dataset
  for (const Rank rank : ranks) {
    auto stored = ReadRank(disk_, dataset.folder, run_, dataset.descriptor, rank);
    if (stored.ok()) {
      dataset.ranks[rank] = std::move(stored->catalogue);
    } else {
      dataset.damaged[rank] = MessageOf(stored.status());
    }
  }
  // A catalogue that is gone altogether, of a dataset that was completed here.
  if (descriptor->complete.has_value()) {
    for (const Rank rank : scr::RanksHeld(*descriptor)) {
      if (dataset.ranks.contains(rank) || dataset.damaged.contains(rank)) continue;
      dataset.damaged[rank] = "its catalogue is gone from the cache";
    }
  }
  if (!dataset.ranks.empty() || !dataset.damaged.empty()) survey_.datasets[id] = std::move(dataset);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Survey> SurveyCache(Disk& disk, const std::string& path, const RunIdentity& run) {
  return Surveyor(disk, path, run).Run();
}

}  // namespace cairn

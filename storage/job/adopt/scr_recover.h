// Makes a dataset of an SCR cache whole: each rank's filemap and files found, verified, and rebuilt from redundancy
// sets where they are lost. Source: SCR specification, sections 4, 10, 11 and 14. Calls block on disk. Not thread-safe.
#ifndef CAIRN_STORAGE_JOB_ADOPT_SCR_RECOVER_H_
#define CAIRN_STORAGE_JOB_ADOPT_SCR_RECOVER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/job/adopt/scr_cache.h"
#include "storage/job/adopt/scr_sets.h"

namespace cairn {

struct ScrFile {
  std::string path;  // where it is, in the cache, in the prefix or in scratch
  scr::Meta meta;
  catalogue::VerifiedBy verified_by = catalogue::NOTHING;  // NOT_NOTED: it is empty
};

// By the path that SCR recorded.
using ScrRankFiles = std::map<std::string, ScrFile>;

class ScrRecovery {
 public:
  // Reads the records of all parts; filemaps that are lost or damaged are rebuilt in `scratch`, an existing folder:
  // files there are the caller's to remove. `disk` and `dataset` are borrowed.
  //   kDataLoss  it never was complete, or was not encoded; not all ranks' filemaps are there or can be rebuilt: the
  //              message names the ranks and why
  // Other errors are the disk's, here and below.
  static absl::StatusOr<std::unique_ptr<ScrRecovery>> Open(Disk& disk, const ScrDataset& dataset, std::string scratch);

  const std::vector<scr::Filemap>& filemaps() const { return filemaps_; }  // by rank

  // Where else to look for a file that is recorded outside of the dataset's folder (its dataset bypassed the cache).
  using Elsewhere = std::function<std::vector<std::string>(Rank rank, const std::string& recorded)>;
  // All ranks' files, each in its size, with its CRC where META has one, agreeing with the redundancy data as far as
  // something of that is left over when all is rebuilt. What is lost, or (RS) found damaged, is rebuilt in scratch.
  // Of each file it is noted what has verified it: a rebuilt one, and those that it was made of, may be wrong where all
  // redundancy went into that. Redundancy data tell of damage since SCR wrote them; if SCR has rebuilt a member before,
  // without looking at the others, they hold what it made then.
  //   kDataLoss  files are missing or damaged and cannot be rebuilt, or data and parity contradict each other
  absl::StatusOr<std::vector<ScrRankFiles>> RecoverFiles(const Elsewhere& elsewhere);

  // Of RecoverFiles: how many files were rebuilt, and why some were verified by nothing.
  std::uint32_t rebuilt() const { return rebuilt_; }
  const std::vector<std::string>& why_unverified() const { return why_unverified_; }
  std::vector<std::string> TakeWarnings();  // what was lost or damaged and made good, or could not be verified

 private:
  ScrRecovery(Disk& disk, const ScrDataset& dataset, std::string scratch);

  absl::Status ReadParts();
  absl::Status FindFilemaps();
  absl::Status RebuildFilemaps();
  absl::Status FindFiles(Rank rank, const Elsewhere& elsewhere);
  absl::StatusOr<bool> TakeFiles(Rank rank, const std::optional<std::string>& folder, const Elsewhere& elsewhere);
  absl::StatusOr<bool> IsWhole(const std::string& path, const scr::Meta& meta);
  absl::Status CheckSet(const ScrSet& set);
  absl::StatusOr<bool> IsUsable(const ScrSet& set);
  absl::Status RebuildMembers(const ScrSet& set, ScrSetWork& work);
  void NoteCompared(const ScrSet& set, const ScrSetWork& work, const std::vector<Rank>& lost);
  void NoteThoseInNoSet(const std::set<Rank>& in_sets);
  void Warn(std::string text) { warnings_.push_back(std::move(text)); }

  Disk& disk_;
  const ScrDataset& dataset_;
  const std::string scratch_;
  std::uint32_t ranks_ = 0;
  std::vector<ScrPart> parts_;
  std::vector<scr::Filemap> filemaps_;
  std::map<Rank, std::string> lost_filemaps_;  // why
  std::map<Rank, std::string> filemap_paths_;
  std::map<Rank, std::vector<std::string>> homes_;  // folders that have records of a rank
  std::vector<ScrRankFiles> files_;
  std::map<Rank, std::string> lost_;  // ranks whose files are not all there: why
  std::uint32_t rebuilt_ = 0;
  std::vector<std::string> why_unverified_;
  std::vector<std::string> warnings_;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_ADOPT_SCR_RECOVER_H_

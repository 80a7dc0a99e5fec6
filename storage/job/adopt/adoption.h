// What adopting from FTI and from SCR have in common: a dataset becomes part of a run whole or not at all, and once
// only. Over a Disk. Calls block on disk. Used by client/cli/ only.
//
// <prefix>/.cairn/adopted.<digest of what is adopted> says which dataset it became; it is there before the first byte
// of it, so that what a crash leaves is found.
#ifndef CAIRN_STORAGE_JOB_ADOPT_ADOPTION_H_
#define CAIRN_STORAGE_JOB_ADOPT_ADOPTION_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

// As all that Cairn makes in the prefix: the umask says who may read it.
inline constexpr std::uint32_t kAdoptedFileMode = 0666;
inline constexpr std::uint32_t kAdoptedFolderMode = 0777;

// A new file, written front to back in blocks, with the checksums of its catalogue entry. Both are borrowed.
class BlockWriter {
 public:
  BlockWriter(File& file, catalogue::FileEntry& entry);
  // REQUIRES: `offset` is where the last one ended.
  absl::Status Write(std::uint64_t offset, std::span<const std::byte> bytes);
  absl::Status Finish();  // the entry is filled; the file is the caller's to sync

 private:
  absl::Status Flush();

  File& file_;
  catalogue::FileEntry& entry_;
  std::vector<std::byte> block_;
  std::uint64_t written_ = 0;
  std::uint32_t crc32_ = 0;
};

struct NewDataset {
  scr::Descriptor descriptor;                    // launch 0: of none of the run's
  std::vector<catalogue::Catalogue> catalogues;  // by rank

  DatasetId id() const { return descriptor.id; }
  std::string folder() const;  // of what Cairn itself names, below the prefix: ckpt.<id>
};

// The catalogue of a rank, without variables and files.
catalogue::Catalogue CatalogueOf(const NewDataset& dataset, const RunId& run, Rank rank);

// Where a file of the application waits until all of its dataset are there, below the prefix.
std::string StagedName(const NewDataset& dataset, Rank rank, int file);

// Claims that adopts before have left, with the datasets of them that are committed: by path.
using Claims = std::map<std::string, DatasetId>;
std::string ClaimPath(const Prefix& prefix, std::string_view what);

// What adopts before have left unfinished goes; the claim last, so that what the power takes away of this is done the
// next time. The application's files that were already in their places go, too, if they are still what was put there.
absl::StatusOr<Claims> CleanUp(Disk& disk, Prefix& prefix);

// kResourceExhausted, before the first byte is written: a disk that is full is everybody's trouble.
absl::Status CheckRoom(Disk& disk, const Prefix& prefix, std::uint64_t bytes);

// Makes the claim; `copy` then puts the files in place, synced, and fills the catalogues; commits. After an error
// nothing is left of it, or the next CleanUp removes it.
//   kFailedPrecondition  files that were written are gone or shorter before the commit
absl::Status AdoptDataset(Disk& disk, Prefix& prefix, const std::string& claim, kvtree::Tree claim_tree,
                          NewDataset* dataset, const std::function<absl::Status()>& copy);

// An empty folder for files that are rebuilt, which goes with this.
class Scratch {
 public:
  static absl::StatusOr<std::unique_ptr<Scratch>> Make(Disk& disk, const Prefix& prefix);
  Scratch(Disk& disk, std::string path) : disk_(disk), path_(std::move(path)) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;

  const std::string& path() const { return path_; }
  absl::Status Clear();

 private:
  Disk& disk_;
  const std::string path_;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_ADOPT_ADOPTION_H_

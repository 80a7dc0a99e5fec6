// What adopting from FTI and from SCR have in common: a dataset becomes part of a run whole or not at all, and once
// only. Over a Disk. Calls block on disk. Used by client/cli/ only.
//
// <prefix>/.cairn/adopted.<digest of what is adopted> says which dataset it became; it is there before the first byte
// of it, so that what a crash leaves is found. Then, in this order: files are copied, checkpoint files to their places,
// the application's to where they wait (storage/place/publish/unfinished.h); catalogues of the application's files are
// stored, by which they are taken back from their places after a crash; all is published (storage/place/publish), under
// a launch that the adopt has made for itself (storage/job/launch): the next launch restarts from what is adopted.
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
#include "storage/job/launch/own_launch.h"
#include "storage/place/prefix/prefix.h"
#include "storage/place/publish/publish.h"

namespace cairn {

// As all that Cairn makes in the prefix: the umask says who may read it.
inline constexpr std::uint32_t kAdoptedFileMode = 0666;
inline constexpr std::uint32_t kAdoptedFolderMode = 0777;

// The launch of an adopt. REQUIRES: no other adopt is under way in this prefix: the launch of one that has died counts
// as over.
//   kFailedPrecondition  BUSY: an application works there (WaitUntilOver)
absl::StatusOr<std::unique_ptr<OwnLaunch>> MakeAdoptLaunch(Prefix& prefix, std::uint32_t ranks, LaunchWait wait,
                                                           const std::function<void(const std::string&)>& note);

// A new file, written front to back in blocks, with the checksums of its catalogue entry. All is borrowed. `launch`
// (may be null) is told that work goes on.
class BlockWriter {
 public:
  BlockWriter(File& file, catalogue::FileEntry& entry, OwnLaunch* launch);
  // REQUIRES: `offset` is where the last one ended.
  absl::Status Write(std::uint64_t offset, std::span<const std::byte> bytes);
  absl::Status Finish();  // the entry is filled; the file is the caller's to sync

 private:
  absl::Status Flush();

  File& file_;
  catalogue::FileEntry& entry_;
  OwnLaunch* const launch_;
  std::vector<std::byte> block_;
  std::uint64_t written_ = 0;
  std::uint32_t crc32_ = 0;
};

struct NewDataset {
  scr::Descriptor descriptor;                    // launch 0: of none of the run's
  std::vector<catalogue::Catalogue> catalogues;  // by rank
  // The application's files, in the order of the catalogues: each waits, or is where it is to be.
  std::vector<CopiedFile> files = {};
  OwnLaunch* launch = nullptr;  // under which it is committed; null: under none. Borrowed

  DatasetId id() const { return descriptor.id; }
  std::string folder() const;  // of what Cairn itself names, below the prefix: ckpt.<id>
};

// The catalogue of a rank, without variables and files.
catalogue::Catalogue CatalogueOf(const NewDataset& dataset, const RunId& run, Rank rank);

// The folder where the application's files wait until all of the dataset are there, and one of them.
absl::Status MakeStage(Disk& disk, const Prefix& prefix, const NewDataset& dataset);
absl::Status SyncStage(Disk& disk, const Prefix& prefix, const NewDataset& dataset);
std::string StagedPath(const Prefix& prefix, const NewDataset& dataset, Rank rank, int file);

// Claims that adopts before have left, with the datasets of them that are committed: by path.
using Claims = std::map<std::string, DatasetId>;
std::string ClaimPath(const Prefix& prefix, std::string_view what);

// What adopts before have left unfinished goes; the claim last, so that what the power takes away of this is done the
// next time. The application's files that were already in their places go, too, if they are still what was put there.
absl::StatusOr<Claims> CleanUp(Disk& disk, Prefix& prefix);

// kResourceExhausted, before the first byte is written: a disk that is full is everybody's trouble.
absl::Status CheckRoom(Disk& disk, const Prefix& prefix, std::uint64_t bytes);

// Makes the claim; `copy` then writes the files, synced, and fills catalogues and files; publishes the dataset. After
// an error nothing is left of it, or the next CleanUp removes it. `note` hears what goes wrong after the commit.
//   kFailedPrecondition  files that were written are gone or shorter before the commit; a directory is in the way of
//   one; another launch was made meanwhile
absl::Status AdoptDataset(Disk& disk, Prefix& prefix, const std::string& claim, kvtree::Tree claim_tree,
                          NewDataset* dataset, const std::function<absl::Status()>& copy,
                          const std::function<void(const std::string&)>& note);

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

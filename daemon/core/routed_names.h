// The application's own names in one run's open outputs: which rank writes which file, which directories are routed,
// and whether one is in another's way. Pure but for what a directory has when it is listed. Strand only.
#ifndef CAIRN_DAEMON_CORE_ROUTED_NAMES_H_
#define CAIRN_DAEMON_CORE_ROUTED_NAMES_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "daemon/core/dataset.h"
#include "daemon/core/growing.h"
#include "storage/base/ids.h"
#include "storage/io/disk.h"

namespace cairn {

struct RoutedFile {
  std::string path;   // where it is written
  std::string given;  // the name as the application gave it
};
// A file as it was when its output ended.
struct ListedFile {
  RoutedFile routed;
  FileInfo info;
};
using ListedFiles = std::map<std::string, ListedFile>;  // by normalized name
// A directory that ranks write into as they like: its files are the lowest rank's that routed it. Over nodes each node
// has a directory of its own, for its ranks.
struct RoutedDirectory {
  RoutedFile routed;
  std::set<Rank> ranks;  // that have routed it, here
};

class RoutedNames {
 public:
  // Of a rank: its names go into one record of at most 64 MiB, with some hundred bytes each.
  static constexpr std::size_t kFilesMax = 64 << 10;
  static constexpr std::size_t kDirectoriesMax = 4096;

  // --- Files ---
  // The name is the rank's from now on. `own_files`: that this rank has routed in the dataset already.
  //   kResourceExhausted  too many; kInvalidArgument  another rank's, or in another name's way
  absl::Status Take(DatasetId id, const std::string& name, Rank rank, std::size_t own_files);
  // It was not routed after all: another rank may have the name.
  void GiveBack(DatasetId id, const std::string& name);

  // --- Directories ---
  // May the dataset have it? Errors as Take.
  absl::Status CheckDirectory(DatasetId id, const std::string& name) const;
  // The rank writes there, too. kInvalidArgument: another's file has come between.
  absl::Status AddDirectory(DatasetId id, const std::string& name, RoutedFile routed, Rank rank);
  // A rank on another node writes into a directory of that name there. Errors as Take.
  absl::Status AddDirectoryElsewhere(DatasetId id, const std::string& name);
  std::map<std::string, RoutedDirectory> Directories(DatasetId id) const;  // that ranks here have routed
  // A directory's name below the prefix; `given` ends in a slash.
  static absl::StatusOr<std::string> DirectoryName(const std::string& prefix, std::string given);
  // What is in them, by their names. Blocks.
  static absl::StatusOr<std::map<std::string, ListedFiles>> List(
      Disk& disk, const std::map<std::string, RoutedDirectory>& directories);

  // --- The end of an output ---
  // The rank has ended it; true: the last one has. What is in directories is listed then: until then another rank may
  // still come to write there.
  bool Ended(const Dataset& dataset, Rank rank);
  // The same is known otherwise, as other nodes have ranks of it: directories are to be listed now. False: they are
  // being listed already, or are.
  bool StartListing(DatasetId id) { return !std::exchange(outputs_[id].listing, true); }
  // What was listed is known. `added` hears how many bytes a rank gets by it, for each directory. Answers what has
  // waited (WhenListed), by rank: it is not to run from within, since it may be what is being looked through.
  std::map<Rank, std::function<void()>> DirectoriesListed(DatasetId id, std::map<std::string, ListedFiles> listed,
                                                          const std::function<void(Rank, std::uint64_t)>& added);
  bool AreListed(DatasetId id) const;
  void WhenListed(DatasetId id, Rank rank, std::function<void()> next);  // REQUIRES: they are not yet
  // A rank's files in directories, once. REQUIRES: they are listed.
  ListedFiles TakeListed(DatasetId id, Rank rank);
  // Of a dataset whose parts several nodes have stored: what their ranks have put into directories of one name must go
  // into one directory on the prefix. kInvalidArgument: two ranks have a file of one name, or one that is the other's
  // directory.
  static absl::Status CheckApart(const Dataset& dataset);

  // It is whole, or has failed.
  void Forget(DatasetId id) { outputs_.erase(id); }
  OpenPlaces Places(DatasetId id) const;

 private:
  struct Output {
    std::map<std::string, Rank> files;
    std::map<std::string, RoutedDirectory> directories;
    std::set<Rank> ended;
    bool listing = false, listed = false;
    std::map<Rank, ListedFiles> in_directories;
    std::map<Rank, std::function<void()>> waiting;
  };
  const Output* Find(DatasetId id) const;  // null: it has routed nothing
  absl::Status Check(DatasetId id, const std::string& name, bool directory) const;

  std::map<DatasetId, Output> outputs_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_ROUTED_NAMES_H_

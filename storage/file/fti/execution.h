// An FTI execution: its configuration, its topology, and the checkpoint files of all its nodes, as far as they can be
// reached from here. Read for `cairn adopt --fti`, written for `cairn export --fti`.
// Source: FTI-FF specification, sections 7 (levels), 8 (directories, names), 9 (recovery) and 11 (quirks).
// Calls block on disk. Bytes and names in the directories are hostile. Thread-safety: values; no call changes
// another's.
#ifndef CAIRN_STORAGE_FILE_FTI_EXECUTION_H_
#define CAIRN_STORAGE_FILE_FTI_EXECUTION_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/write.h"
#include "storage/io/disk.h"

namespace cairn::fti {

// Which ranks share a node and which nodes a group (section 7). Ranks are those of FTI's own numbering, heads included.
struct Topology {
  std::uint32_t ranks = 0;       // in the communicator given to FTI
  std::uint32_t node_size = 1;   // ranks per node
  std::uint32_t group_size = 1;  // nodes per group
  bool heads = false;            // place 0 of each node writes no checkpoint file

  std::uint32_t nodes() const { return ranks / node_size; }
  bool writes(std::uint32_t rank) const { return !heads || rank % node_size != 0; }
  std::uint32_t group_rank(std::uint32_t rank) const { return rank / node_size % group_size; }
  // The ranks at the same place in the nodes of `rank`'s group, by group rank.
  std::vector<std::uint32_t> GroupOf(std::uint32_t rank) const;
  // Whose file `rank` holds a copy of at level 2.
  std::uint32_t LeftOf(std::uint32_t rank) const;
};

// Differential checkpoints are FTI's of level 4 (8 stands for them in its interface and in records of ours).
enum class Level : std::uint8_t { kLocal = 1, kPartner = 2, kEncoded = 3, kGlobal = 4, kDifferential = 8 };
std::string NameOf(Level level);  // "level 3", "differential"

// What is asked for when an execution is looked for.
struct Search {
  std::vector<std::string> roots = {};  // absolute; looked through 6 folders deep, following no symbolic links below
  std::string config = {};              // FTI's configuration file; empty: none
  std::string execution = {};           // its id; empty: the configuration's, or the only one below the roots
  std::optional<std::uint32_t> node_size = {}, group_size = {}, ranks = {};  // each overrules the configuration
  std::optional<bool> heads = {};
};

// One checkpoint of the execution at one level, as far as its files are there.
struct Checkpoint {
  Level level = Level::kLocal;
  std::int32_t id = 0;
  // By the rank in the name. `copies`: at level 2 Pcof<r>, the file of r's left neighbour; at level 4 the replica that
  // the node of r kept of r's own file.
  std::map<std::uint32_t, std::string> files = {};  // Ckpt<id>-Rank<r>, dCPFile-Rank<r>
  std::map<std::uint32_t, std::string> copies = {};
  std::map<std::uint32_t, std::string> codes = {};  // level 3: Ckpt<id>-RSed<r>
  // Where the same names were found again, by the path of the first: taken if that one is not whole.
  std::multimap<std::string, std::string> others = {};
};

struct Execution {
  std::string id;
  Topology topology;
  std::vector<Checkpoint> checkpoints;  // the newest first: by id, then by level (differential, 1, 2, 3, 4)
  std::vector<std::string> warnings;    // what was passed over, and why
};

// Looks for an execution and its checkpoints. Whose files are none of FTI-FF at all (FTI's other I/O modes name theirs
// alike) is passed over with a warning; whether the rest is whole, Recover finds out. What options and configuration do
// not tell of the topology is taken from Topology.fti, the folders node<k> and, at last, from the files themselves.
//   kNotFound            no checkpoint files below the roots, or none of FTI-FF; a root or `config` is not there
//   kFailedPrecondition  several executions, or a topology that is not clear: the message names the options
//   kInvalidArgument     numbers that contradict each other, a configuration that cannot be read, a root that is no
//                        absolute path or no folder
//   kResourceExhausted   more than some million names below the roots
absl::StatusOr<Execution> Find(Disk& disk, const Search& search);

// The checkpoint files of all application ranks, whole: in the order of ranks, each verified (section 10, all checks).
// Where a rank's own file is lost or damaged: the copy of it where it lies, or (level 3) one that is rebuilt in
// `scratch`, an existing folder; files there are the caller's to remove.
struct RankFile {
  std::uint32_t rank = 0;  // FTI's
  std::string path;
  bool rebuilt = false;  // in `scratch`
  ftiff::FileMetadata metadata;
};
struct Recovered {
  std::vector<RankFile> files;
  std::vector<std::string> warnings;  // what was lost or damaged and made good
};
//   kDataLoss         not all ranks' files are there or can be made good: how many, and in further lines of the message
//                     why, rank by rank and group by group, the first of each
//   kInvalidArgument  a topology whose numbers do not fit
// Errors of `scratch` pass through.
absl::StatusOr<Recovered> Recover(Disk& disk, const Topology& topology, const Checkpoint& checkpoint,
                                  const std::string& scratch);

// What is to be written so that FTI restarts from it.
struct Export {
  std::string folder;  // absolute; must not be there, or be empty
  Topology topology;   // `ranks` = application ranks plus heads
  Level level = Level::kGlobal;
  std::int32_t id = 0;
  ftiff::Letter letter = ftiff::Letter::kF;
  std::string execution = "cairn";
  // One per application rank, in order: containers (any offsets) and where their bytes come from.
  struct Rank {
    ftiff::FileLayout layout;
    ftiff::ReadVariable read;
    std::vector<std::int32_t> registered = {};  // layout A: as ftiff::FileToWrite's
  };
  std::vector<Rank> ranks;
};
// Below `folder`: config.fti (paths absolute, `failure` 1, `exec_id`, `max_var_id` if a variable's id is above FTI's
// default), Meta/<execution>/Topology.fti, Local/node<k>/<execution>/l<level>/ (local_test 1) or
// Global/<execution>/l4/, files with names, trailers, copies and code files of that level; all synced, config.fti last.
// Layout A at level 3: the group's maximum is made even, so that release 1.1 restores every byte. What was begun is
// removed after an error, if that can be had.
//   kInvalidArgument  numbers that do not fit: ranks, nodes, groups (2 to 31 nodes a group at levels 2 and 3, in layout
//                     A from 3 on), ids, a level that is not 1 to 4, a letter that is not A or F, a rank without
//                     variables (FTI has a file of every rank), a folder or id that FTI's configuration cannot hold;
//                     the message says which
//   kAlreadyExists    `folder` is there and is not empty
// Errors of the disk and of `read` pass through.
absl::Status Write(Disk& disk, const Export& what);

}  // namespace cairn::fti

#endif  // CAIRN_STORAGE_FILE_FTI_EXECUTION_H_

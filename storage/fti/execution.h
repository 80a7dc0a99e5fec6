// An FTI execution: its configuration, its topology, and the checkpoint files of all its nodes, as far as they can be
// reached from here. Read for `cairn adopt --fti`, written for `cairn export --fti`.
// Source: FTI-FF specification, sections 7 (levels), 8 (directories, names), 9 (recovery) and 11 (quirks).
// Calls block on disk. Bytes and names in the directories are hostile. Thread-safety: values; no call changes
// another's.
#ifndef CAIRN_STORAGE_FTI_EXECUTION_H_
#define CAIRN_STORAGE_FTI_EXECUTION_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/disk.h"
#include "storage/ftiff/codec.h"
#include "storage/ftiff/write.h"

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

enum class Level : std::uint8_t { kLocal = 1, kPartner = 2, kEncoded = 3, kGlobal = 4, kDifferential = 8 };

// What is asked for when an execution is looked for.
struct Search {
  std::vector<std::string> roots;  // absolute; looked through below, never following symbolic links, 6 levels deep
  std::string config;              // FTI's configuration file; empty: none
  std::string execution;           // its id; empty: there must be only one below the roots
  std::optional<std::uint32_t> node_size, group_size, ranks;  // each overrules the configuration
  std::optional<bool> heads;
};

// One checkpoint of the execution at one level, as far as its files are there.
struct Checkpoint {
  Level level = Level::kLocal;
  std::int32_t id = 0;
  std::map<std::uint32_t, std::string> files, copies, codes;  // Rank<r>, Pcof<r>, RSed<r> (or dCPFile-Rank<r>) -> path
};

struct Execution {
  std::string id;
  Topology topology;
  std::vector<Checkpoint> checkpoints;  // the newest first: by id, then by level (differential, 4, 3, 2, 1)
  std::vector<std::string> warnings;    // what was passed over, and why
};

//   kNotFound            no checkpoint files below the roots
//   kFailedPrecondition  several executions, or a topology that neither configuration, Topology.fti, the folders
//   node<k>
//                        nor the files themselves tell: the message names the options
//   kInvalidArgument     numbers that contradict each other
absl::StatusOr<Execution> Find(Disk& disk, const Search& search);

// The checkpoint files of all application ranks, whole: in the order of ranks, each verified (section 10, all checks)
// and rebuilt in `scratch` (an existing folder; files there are the caller's to remove) from its copy or its group's
// code files where it was lost or is damaged.
struct RankFile {
  std::uint32_t rank = 0;  // FTI's
  std::string path;
  bool rebuilt = false;
  ftiff::FileMetadata metadata;
};
struct Recovered {
  std::vector<RankFile> files;
  std::vector<std::string> warnings;  // what was lost or damaged and made good
};
//   kDataLoss  not all ranks' files are there or can be rebuilt; the message names the ranks and why
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
  // One per application rank, in order: containers (F's offsets, no content hashes needed) and where bytes come from.
  struct Rank {
    ftiff::FileLayout layout;
    ftiff::ReadVariable read;
  };
  std::vector<Rank> ranks;
};
// Below `folder`: config.fti (paths absolute, `failure` 1, `exec_id`), Meta/<id>/Topology.fti,
// Local/node<k>/<id>/l<level>/ (local_test 1) or Global/<id>/l4/, files with names, trailers, copies and code files of
// that level; all synced. Layout A at level 3: the group's maximum is made even, so that release 1.1 restores every
// byte.
//   kInvalidArgument    numbers that do not fit: ranks, nodes, groups (2 to 31 nodes a group at level 3; A: from 3 on
//   at
//                       levels 2 and 3), ids; the message says which
absl::Status Write(Disk& disk, const Export& what);

}  // namespace cairn::fti

#endif  // CAIRN_STORAGE_FTI_EXECUTION_H_

// The records that SCR's restart from a cache needs for scheme SINGLE, where no rank protects another: they say that
// the files are there. SCR specification, 10.3, 10.4, 10.9 and 11. Pure: names and trees, written by the caller.
//
// A dataset has each record twice: for its data files and for its filemaps. The encode states come last, after all
// else is synced, since SCR takes a dataset for complete by them alone.
#ifndef CAIRN_STORAGE_FORMAT_SCR_REDSET_H_
#define CAIRN_STORAGE_FORMAT_SCR_REDSET_H_

#include <string>
#include <utility>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/filemap.h"

namespace cairn::scr {

enum class RedsetKind { kData, kFilemaps };

// A record's file name, to be put below the dataset's .scr directory, and its content.
using NamedTree = std::pair<std::string, kvtree::Tree>;

// A file that the records list: absolute path, and the stat fields of its META (size, mode, owner, times).
using RedsetFile = std::pair<std::string, Meta>;

// One rank's set descriptor and redundancy header. `files`: the rank's data files, or its one filemap.
// REQUIRES: rank < nranks.
std::vector<NamedTree> MakeSingleRank(RedsetKind kind, Rank rank, std::uint32_t nranks,
                                      const std::vector<RedsetFile>& files);

// The files of a rank on this node.
struct OwnedFiles {
  Rank rank = 0;
  std::vector<std::string> files;  // absolute: data files, or the filemap
};

// The node's ownership list: of each rank its files, then its two records of MakeSingleRank, which lie in `directory`
// (the dataset's .scr, absolute).
NamedTree MakeOwnership(RedsetKind kind, const std::string& directory, std::uint32_t nranks,
                        const std::vector<OwnedFiles>& ranks);

// The node's encode state: all of the above is in place.
NamedTree MakeEncodeState(RedsetKind kind);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_FORMAT_SCR_REDSET_H_

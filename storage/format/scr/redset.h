// The records of redundancy sets, made: for SCR's restart from a cache, of any scheme (with kSingle, where no rank
// protects another, they say that the files are there). SCR specification, 10.3, 10.4, 10.9 and 11. Pure: names and
// trees, written by the caller, who puts the payload behind a header. (Which ranks are a set: sets.h.)
//
// The encode states come last, after all else is synced, since SCR takes a dataset for complete by them alone.
#ifndef CAIRN_STORAGE_FORMAT_SCR_REDSET_H_
#define CAIRN_STORAGE_FORMAT_SCR_REDSET_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/redset_records.h"

namespace cairn::scr {

// A record's file name, to be put below the dataset's .scr directory, and its content.
using NamedTree = std::pair<std::string, kvtree::Tree>;

// A set of one rank. REQUIRES: rank < nranks.
SetDescriptor SingleSet(Rank rank, std::uint32_t nranks);
// `files`: the rank's data files, or its one filemap.
RedundancyHeader SingleHeader(Rank rank, std::uint32_t nranks, std::vector<RedsetFile> files);

// What member `rank` of a set keeps. `set`: all members, by set rank, as MakeSets has described them.
// REQUIRES: rank < set.size(); all bytes together fit in 63 bits.
RedundancyHeader HeaderOf(const std::vector<SetMember>& set, std::uint32_t rank);

// A member's set descriptor and redundancy header. GetRedundancyHeader of the latter's tree is `header`.
// REQUIRES: the owner and its LeftNeighbours are among `header.members`; `world_ranks` are complete where the scheme
// has them.
std::vector<NamedTree> MakeRankRecords(RedsetKind kind, const RedundancyHeader& header);

// The files of a rank on this node.
struct OwnedFiles {
  SetDescriptor set;
  std::vector<std::string> files;  // absolute: data files, or the filemap
};

// The node's ownership list: of each rank its files, then its two records of MakeRankRecords, which lie in `directory`
// (the dataset's .scr, absolute).
NamedTree MakeOwnership(RedsetKind kind, const std::string& directory, const std::vector<OwnedFiles>& ranks);

// The node's encode state: all of the above is in place.
NamedTree MakeEncodeState(RedsetKind kind);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_FORMAT_SCR_REDSET_H_

// The records of SCR's redundancy sets, of any scheme, as found in a cache or a prefix: whose files are in a set, how
// the payload behind the header is to be read. SCR specification, sections 10 and 11. Pure. (They are made by redset.h.
// The payloads: storage/file/redundancy/.)
#ifndef CAIRN_STORAGE_FORMAT_SCR_REDSET_RECORDS_H_
#define CAIRN_STORAGE_FORMAT_SCR_REDSET_RECORDS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/filemap.h"

namespace cairn::scr {

// A dataset has each record twice: for its data files and for its filemaps.
enum class RedsetKind { kData, kFilemaps };

enum class Scheme : std::uint8_t { kSingle, kPartner, kXor, kRs };
std::string_view NameOf(Scheme scheme);  // "XOR", as TYPE has it

struct SetDescriptor {
  Scheme scheme = Scheme::kSingle;
  std::uint32_t groups = 0, group = 0;  // sets of the job; this one, from 0
  std::uint32_t ranks = 0, rank = 0;    // of the set; from 0
  std::uint32_t world_ranks = 0;
  Rank world_rank = 0;
  std::uint32_t replicas = 0;   // kPartner
  std::uint32_t checksums = 0;  // kRs: 1 … ranks - 1, ranks + checksums <= 256
};

// How many neighbours to its left a member's records describe, too: those whose loss it helps to make good.
std::uint32_t LeftNeighbours(const SetDescriptor& set);

// A file that the records list: absolute path, and the stat fields of its META (size, mode, owner, times).
using RedsetFile = std::pair<std::string, Meta>;

// One member of a set as a header knows it: its files in the order of its logical file.
struct SetMember {
  SetDescriptor descriptor;
  std::vector<RedsetFile> files;
  std::uint64_t bytes() const;  // of all of them
};

struct RedundancyHeader {
  std::uint32_t rank = 0;                      // of the owner, in the set
  std::map<std::uint32_t, SetMember> members;  // by set rank: the owner, and left neighbours
  std::map<std::uint32_t, Rank> world_ranks;   // by set rank: kXor, kRs
  std::uint64_t chunk_bytes = 0;               // kXor, kRs

  Scheme scheme() const { return members.at(rank).descriptor.scheme; }
  std::uint64_t payload_bytes() const;  // behind the header in the owner's file
};

enum class EncodeState : std::uint8_t { kUnknown, kCorrupt, kEncoded };

// All of these: kDataLoss naming the field, if it is missing, no such number, out of range, or contradicts another.
// A file's path has to be absolute and harmless; sums of sizes fit in 63 bits.
absl::StatusOr<std::map<Rank, SetDescriptor>> GetSetDescriptors(const kvtree::Tree& tree);  // by world rank
absl::StatusOr<RedundancyHeader> GetRedundancyHeader(const kvtree::Tree& tree);
absl::StatusOr<std::map<Rank, std::vector<std::string>>> GetOwnership(const kvtree::Tree& tree);  // in any order
absl::StatusOr<EncodeState> GetEncodeState(const kvtree::Tree& tree);                             // no STATE: kUnknown

// What a file below .scr is by its name.
struct RedsetName {
  enum class What : std::uint8_t { kDescriptor, kHeader, kOwnership, kEncodeState };
  RedsetKind kind = RedsetKind::kData;
  What what = What::kHeader;
  Rank rank = 0;                                                 // kDescriptor, kHeader
  Scheme scheme = Scheme::kSingle;                               // kHeader, as all below
  std::uint32_t group = 0, groups = 0, member = 0, members = 0;  // numbers from 0; counts
};
std::optional<RedsetName> ParseRedsetName(std::string_view name);  // none: no such file
std::string FileNameOf(const RedsetName& name);
RedsetName HeaderNameOf(RedsetKind kind, const SetDescriptor& set);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_FORMAT_SCR_REDSET_RECORDS_H_

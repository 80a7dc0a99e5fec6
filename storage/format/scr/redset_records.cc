#include "storage/format/scr/redset_records.h"

#include <limits>
#include <set>
#include <utility>

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/scr/fields.h"

namespace cairn::scr {
namespace {

using kvtree::Tree;

constexpr std::uint64_t kBytesMax = std::numeric_limits<std::int64_t>::max();
constexpr std::uint32_t kRsBlocksMax = 256;  // ranks and checksums together: elements of the field

// The names of a scheme: its TYPE, and the one in file names.
struct SchemeNames {
  Scheme scheme;
  std::string_view type, file;
};
constexpr SchemeNames kSchemes[] = {
    {Scheme::kSingle, "SINGLE", "single"},
    {Scheme::kPartner, "PARTNER", "partner"},
    {Scheme::kXor, "XOR", "xor"},
    {Scheme::kRs, "RS", "rs"},
};

// --- Fields that have to be there ---

absl::StatusOr<const Tree*> Need(const Tree& tree, std::string_view key) {
  const Tree* const found = tree.Find(key);
  if (found == nullptr) return DataLoss("no {}", key);
  return found;
}

absl::StatusOr<std::uint64_t> NeedNumber(const Tree& tree, std::string_view key, std::uint64_t min, std::uint64_t max) {
  const absl::StatusOr<std::uint64_t> value = tree.GetUnsigned(key);
  if (absl::IsNotFound(value.status())) return DataLoss("no {}", key);
  if (!value.ok()) return value.status();
  if (*value < min || *value > max) return DataLoss("{} is {}, not {} to {}", key, *value, min, max);
  return *value;
}

absl::Status TakeNumber(const Tree& tree, std::string_view key, std::uint64_t min, std::uint64_t max,
                        std::uint32_t& target) {
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t value, NeedNumber(tree, key, min, max));
  target = static_cast<std::uint32_t>(value);
  return absl::OkStatus();
}

// --- Set descriptors ---

absl::StatusOr<Scheme> GetScheme(const Tree& tree) {
  const std::optional<std::string_view> type = tree.Get("TYPE");
  if (!type) return DataLoss("no TYPE");
  for (const SchemeNames& names : kSchemes) {
    if (*type == names.type) return names.scheme;
  }
  return DataLoss("TYPE is {}, no scheme", Quoted(*type));
}

absl::StatusOr<SetDescriptor> GetSetDescriptor(const Tree& tree) {
  SetDescriptor set;
  CAIRN_ASSIGN_OR_RETURN(set.scheme, GetScheme(tree));
  CAIRN_RETURN_IF_ERROR(TakeNumber(tree, "WRANKS", 1, kIntMax, set.world_ranks));
  CAIRN_RETURN_IF_ERROR(TakeNumber(tree, "WRANK", 0, set.world_ranks - 1, set.world_rank));
  CAIRN_RETURN_IF_ERROR(TakeNumber(tree, "GROUPS", 1, set.world_ranks, set.groups));
  CAIRN_RETURN_IF_ERROR(TakeNumber(tree, "GROUP", 0, set.groups - 1, set.group));
  // With parity or copies, somebody else has to be there to hold them.
  CAIRN_RETURN_IF_ERROR(TakeNumber(tree, "RANKS", set.scheme == Scheme::kSingle ? 1 : 2, set.world_ranks, set.ranks));
  CAIRN_RETURN_IF_ERROR(TakeNumber(tree, "RANK", 0, set.ranks - 1, set.rank));
  if (set.scheme == Scheme::kPartner) {
    CAIRN_RETURN_IF_ERROR(TakeNumber(tree, "REPLICAS", 1, set.ranks - 1, set.replicas));
  }
  if (set.scheme == Scheme::kRs) {
    CAIRN_RETURN_IF_ERROR(TakeNumber(tree, "CKSUM", 1, set.ranks - 1, set.checksums));
    if (set.ranks + std::uint64_t{set.checksums} > kRsBlocksMax) {
      return DataLoss("CKSUM is {} with {} RANKS, more than {} together", set.checksums, set.ranks, kRsBlocksMax);
    }
  }
  return set;
}

bool IsSameSet(const SetDescriptor& a, const SetDescriptor& b) {
  return a.scheme == b.scheme && a.groups == b.groups && a.group == b.group && a.ranks == b.ranks &&
         a.world_ranks == b.world_ranks && a.replicas == b.replicas && a.checksums == b.checksums;
}

// The descriptors of one file are of different members of one set.
class OneSet {
 public:
  absl::Status Add(const SetDescriptor& set) {
    if (!first_) first_ = set;
    if (!IsSameSet(*first_, set)) return DataLoss("DESC is of another set than that of rank {}", first_->world_rank);
    if (!ranks_.insert(set.rank).second) return DataLoss("RANK {} is there twice", set.rank);
    if (!world_ranks_.insert(set.world_rank).second) return DataLoss("WRANK {} is there twice", set.world_rank);
    return absl::OkStatus();
  }

 private:
  std::optional<SetDescriptor> first_;
  std::set<std::uint32_t> ranks_;
  std::set<Rank> world_ranks_;
};

// --- Redundancy headers ---

absl::StatusOr<RedsetFile> GetRedsetFile(const Tree& entry) {
  if (entry.size() != 1) return DataLoss("{} paths, not one", entry.size());
  const auto [path, stat] = entry.elements().front();
  if (!IsHarmlessAbsolute(path)) return DataLoss("path {} is not absolute or leads upwards", Quoted(path));
  RedsetFile file{path, Meta()};
  CAIRN_RETURN_IF_ERROR(TakeStat(stat, file.second));
  CAIRN_RETURN_IF_ERROR(NeedNumber(stat, "SIZE", 0, kBytesMax).status());
  return file;
}

absl::StatusOr<std::vector<RedsetFile>> GetRedsetFiles(const Tree& tree) {
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t count, NeedNumber(tree, "FILES", 0, kIntMax));
  const Tree* const list = tree.Find("FILE");
  const std::size_t found = list != nullptr ? list->size() : 0;
  if (found != count) return DataLoss("FILES is {}, but FILE has {}", count, found);
  std::vector<RedsetFile> files;
  std::set<std::string_view> paths;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < found; ++i) {
    const Tree* const entry = list->Find(std::to_string(i));
    if (entry == nullptr) return DataLoss("FILE: no {}", i);
    absl::StatusOr<RedsetFile> file = GetRedsetFile(*entry);
    if (!file.ok()) return Annotate(file.status(), fmt::format("FILE: {}", i));
    if (file->second.bytes > kBytesMax - bytes) return DataLoss("FILE: {}: SIZE: all together exceed 63 bits", i);
    if (!paths.insert(entry->elements().front().first).second) {
      return DataLoss("FILE: {}: path {} is there twice", i, Quoted(file->first));
    }
    bytes += file->second.bytes;
    files.push_back(*std::move(file));
  }
  return files;
}

absl::Status TakeMembers(const Tree& tree, RedundancyHeader& header) {
  CAIRN_ASSIGN_OR_RETURN(const Tree* const list, Need(tree, "DESC"));
  OneSet one_set;
  for (const auto& [key, entry] : list->elements()) {
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t rank, NumberKey(key, "DESC: rank", 0));
    const auto read = [&, &child = entry]() -> absl::Status {
      CAIRN_ASSIGN_OR_RETURN(const Tree* const descriptor, Need(child, "DESC"));
      SetMember member;
      CAIRN_ASSIGN_OR_RETURN(member.descriptor, GetSetDescriptor(*descriptor));
      if (member.descriptor.rank != rank) return DataLoss("DESC: RANK is {}", member.descriptor.rank);
      CAIRN_RETURN_IF_ERROR(one_set.Add(member.descriptor));
      CAIRN_ASSIGN_OR_RETURN(member.files, GetRedsetFiles(child));
      header.members.emplace(static_cast<std::uint32_t>(rank), std::move(member));
      return absl::OkStatus();
    };
    CAIRN_RETURN_IF_ERROR(Annotate(read(), fmt::format("DESC: rank {}", rank)));
  }
  return absl::OkStatus();
}

// Whose files the payload cannot be read without.
absl::Status CheckNeighbours(const RedundancyHeader& header) {
  const auto own = header.members.find(header.rank);
  if (own == header.members.end()) return DataLoss("DESC: not of the owner, rank {}", header.rank);
  const SetDescriptor& set = own->second.descriptor;
  for (std::uint32_t i = 1; i <= LeftNeighbours(set); ++i) {
    const std::uint32_t left = (header.rank + set.ranks - i) % set.ranks;
    if (!header.members.contains(left)) return DataLoss("DESC: not of rank {}, left of {}", left, header.rank);
  }
  return absl::OkStatus();
}

absl::Status TakeGroup(const Tree& tree, RedundancyHeader& header) {
  const SetDescriptor& set = header.members.at(header.rank).descriptor;
  CAIRN_RETURN_IF_ERROR(NeedNumber(tree, "RANKS", set.ranks, set.ranks).status());
  CAIRN_ASSIGN_OR_RETURN(const Tree* const list, Need(tree, "RANK"));
  if (list->size() != set.ranks) return DataLoss("RANK has {} entries, not {}", list->size(), set.ranks);
  std::set<Rank> seen;
  for (std::uint32_t rank = 0; rank < set.ranks; ++rank) {
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t world, NeedNumber(*list, std::to_string(rank), 0, set.world_ranks - 1));
    if (!seen.insert(static_cast<Rank>(world)).second) return DataLoss("RANK: rank {} is there twice", world);
    header.world_ranks[rank] = static_cast<Rank>(world);
  }
  for (const auto& [rank, member] : header.members) {
    if (header.world_ranks[rank] != member.descriptor.world_rank) {
      return DataLoss("RANK: {} is {}, but in its DESC {}", rank, header.world_ranks[rank],
                      member.descriptor.world_rank);
    }
  }
  return absl::OkStatus();
}

absl::Status TakeChunk(const Tree& tree, RedundancyHeader& header) {
  const SetDescriptor& set = header.members.at(header.rank).descriptor;
  // A logical file is cut in so many chunks, and no more than all of the set's make a payload.
  const std::uint64_t chunks = set.ranks - (set.scheme == Scheme::kXor ? 1 : set.checksums);
  CAIRN_ASSIGN_OR_RETURN(header.chunk_bytes, NeedNumber(tree, "CHUNK", 1, kBytesMax / set.ranks));
  for (const auto& [rank, member] : header.members) {
    if (member.bytes() > chunks * header.chunk_bytes) {
      return DataLoss("CHUNK is {}: {} of them do not hold the {} bytes of rank {}", header.chunk_bytes, chunks,
                      member.bytes(), rank);
    }
  }
  return absl::OkStatus();
}

// A rebuild of SCR's of PARTNER leaves the right neighbour's number beside the owner's, but no DESC of it, unless the
// set has two members: then it cannot be told who the owner is.
absl::Status TakeOwner(const Tree& tree, RedundancyHeader& header) {
  CAIRN_RETURN_IF_ERROR(TakeNumber(tree, "RANK", 0, kIntMax, header.rank));
  const Tree* const ranks = tree.Find("RANK");
  if (ranks == nullptr || ranks->elements().size() == 1) return absl::OkStatus();
  std::size_t owners = 0;
  for (const auto& [key, nothing] : ranks->elements()) {
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t rank, NumberKey(key, "RANK", 0));
    if (!header.members.contains(static_cast<std::uint32_t>(rank))) continue;
    header.rank = static_cast<std::uint32_t>(rank);
    ++owners;
  }
  if (owners > 1) return DataLoss("RANK: {} may be the owner", owners);
  return absl::OkStatus();
}

absl::StatusOr<RedundancyHeader> ReadHeader(const Tree& tree) {
  RedundancyHeader header;
  CAIRN_RETURN_IF_ERROR(TakeMembers(tree, header));
  CAIRN_RETURN_IF_ERROR(TakeOwner(tree, header));
  CAIRN_RETURN_IF_ERROR(CheckNeighbours(header));
  const Scheme scheme = header.scheme();
  if (scheme == Scheme::kXor || scheme == Scheme::kRs) {
    CAIRN_ASSIGN_OR_RETURN(const Tree* const group, Need(tree, "GROUP"));
    CAIRN_RETURN_IF_ERROR(Annotate(TakeGroup(*group, header), "GROUP"));
    CAIRN_RETURN_IF_ERROR(TakeChunk(tree, header));
  }
  return header;
}

// --- Ownership ---

absl::StatusOr<std::vector<std::string>> GetOwned(const Tree& tree) {
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t count, NeedNumber(tree, "FILES", 0, kIntMax));
  std::vector<std::string> files;
  if (const Tree* const list = tree.Find("FILE"); list != nullptr) {
    for (const auto& [path, nothing] : list->elements()) {
      if (!IsHarmlessAbsolute(path)) return DataLoss("FILE: {} is not absolute or leads upwards", Quoted(path));
      files.push_back(path);
    }
  }
  if (files.size() != count) return DataLoss("FILES is {}, but FILE has {}", count, files.size());
  return files;
}

// --- Names ---

std::string_view PrefixOf(RedsetKind kind) {
  return kind == RedsetKind::kData ? "reddesc.er." : "reddescmap.er.";
}

// Takes what a name consists of from its front.
class NameReader {
 public:
  explicit NameReader(std::string_view name) : rest_(name) {}

  bool Text(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool Number(std::uint64_t min, std::uint64_t max, std::uint32_t& value) {
    const std::size_t end = rest_.find_first_not_of("0123456789");
    const absl::StatusOr<std::uint64_t> number = NumberKey(rest_.substr(0, end), "number", min);
    if (!number.ok() || *number > max) return false;
    value = static_cast<std::uint32_t>(*number);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end);
    return true;
  }
  // "<n>_of_<count>" with n from 1; `index` from 0.
  bool Share(std::uint32_t& index, std::uint32_t& count) {
    if (!Number(1, kIntMax, index) || !Text("_of_") || !Number(index, kIntMax, count)) return false;
    --index;
    return true;
  }
  bool AtEnd() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// "<rank>.redset", or "<rank>.<scheme>.grp_<G>_of_<GS>.mem_<M>_of_<MS>.redset"
bool ReadRankName(NameReader& reader, RedsetName& name) {
  if (!reader.Number(0, kIntMax, name.rank) || !reader.Text(".")) return false;
  for (const SchemeNames& scheme : kSchemes) {
    if (!reader.Text(scheme.file)) continue;
    name.what = RedsetName::What::kHeader;
    name.scheme = scheme.scheme;
    return reader.Text(".grp_") && reader.Share(name.group, name.groups) && reader.Text(".mem_") &&
           reader.Share(name.member, name.members) && reader.Text(".redset");
  }
  name.what = RedsetName::What::kDescriptor;
  return reader.Text("redset");
}

}  // namespace

std::uint32_t LeftNeighbours(const SetDescriptor& set) {
  switch (set.scheme) {
    case Scheme::kSingle:
      return 0;
    case Scheme::kPartner:
      return set.replicas;
    case Scheme::kXor:
      return 1;
    case Scheme::kRs:
      return set.checksums;
  }
  return 0;
}

std::uint64_t SetMember::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [path, meta] : files) sum += meta.bytes;
  return sum;
}

std::uint64_t RedundancyHeader::payload_bytes() const {
  const SetDescriptor& set = members.at(rank).descriptor;
  std::uint64_t bytes = 0;
  switch (set.scheme) {
    case Scheme::kSingle:
      break;
    case Scheme::kPartner:
      for (std::uint32_t i = 1; i <= set.replicas; ++i) {
        const std::uint64_t more = members.at((rank + set.ranks - i) % set.ranks).bytes();
        bytes = more > kBytesMax - bytes ? kBytesMax : bytes + more;
      }
      break;
    case Scheme::kXor:
      return chunk_bytes;
    case Scheme::kRs:
      return set.checksums * chunk_bytes;  // checksums < ranks, and chunk_bytes <= kBytesMax / ranks
  }
  return bytes;
}

std::string_view NameOf(Scheme scheme) {
  return kSchemes[static_cast<std::size_t>(scheme)].type;
}

absl::StatusOr<std::map<Rank, SetDescriptor>> GetSetDescriptors(const Tree& tree) {
  std::map<Rank, SetDescriptor> by_rank;
  OneSet one_set;
  for (const auto& [key, entry] : tree.elements()) {
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t rank, NumberKey(key, "set descriptor: rank", 0));
    const auto read = [&, &child = entry]() -> absl::StatusOr<SetDescriptor> {
      CAIRN_ASSIGN_OR_RETURN(const Tree* const descriptor, Need(child, "DESC"));
      CAIRN_ASSIGN_OR_RETURN(const SetDescriptor set, GetSetDescriptor(*descriptor));
      if (set.world_rank != rank) return DataLoss("DESC: WRANK is {}", set.world_rank);
      CAIRN_RETURN_IF_ERROR(one_set.Add(set));
      return set;
    };
    const absl::StatusOr<SetDescriptor> set = read();
    if (!set.ok()) return Annotate(set.status(), fmt::format("set descriptor: rank {}", rank));
    by_rank.emplace(set->world_rank, *set);
  }
  if (by_rank.empty()) return DataLoss("set descriptor: no DESC of any rank");
  return by_rank;
}

absl::StatusOr<RedundancyHeader> GetRedundancyHeader(const Tree& tree) {
  absl::StatusOr<RedundancyHeader> header = ReadHeader(tree);
  if (!header.ok()) return Annotate(header.status(), "redundancy header");
  return header;
}

absl::StatusOr<std::map<Rank, std::vector<std::string>>> GetOwnership(const Tree& tree) {
  const Tree* const list = tree.Find("RANK");
  if (list == nullptr) return DataLoss("ownership list: no RANK");
  std::map<Rank, std::vector<std::string>> owned;
  for (const auto& [key, entry] : list->elements()) {
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t rank, NumberKey(key, "ownership list: rank", 0));
    absl::StatusOr<std::vector<std::string>> files = GetOwned(entry);
    if (!files.ok()) return Annotate(files.status(), fmt::format("ownership list: rank {}", rank));
    owned.emplace(static_cast<Rank>(rank), *std::move(files));
  }
  return owned;
}

absl::StatusOr<EncodeState> GetEncodeState(const Tree& tree) {
  const std::optional<std::string_view> state = tree.Get("STATE");
  if (!state) return EncodeState::kUnknown;
  if (*state == "1") return EncodeState::kCorrupt;
  if (*state == "2") return EncodeState::kEncoded;
  return DataLoss("encode state: STATE is {}, not 1 or 2", Quoted(*state));
}

std::optional<RedsetName> ParseRedsetName(std::string_view text) {
  RedsetName name;
  NameReader reader(text);
  if (reader.Text(PrefixOf(RedsetKind::kFilemaps))) {
    name.kind = RedsetKind::kFilemaps;
  } else if (!reader.Text(PrefixOf(RedsetKind::kData))) {
    return std::nullopt;
  }
  bool known = true;
  if (reader.Text("er")) {
    name.what = RedsetName::What::kEncodeState;
  } else if (reader.Text("shuffile")) {
    name.what = RedsetName::What::kOwnership;
  } else {
    known = ReadRankName(reader, name);
  }
  return known && reader.AtEnd() ? std::optional(name) : std::nullopt;
}

std::string FileNameOf(const RedsetName& name) {
  const std::string_view prefix = PrefixOf(name.kind);
  switch (name.what) {
    case RedsetName::What::kDescriptor:
      return fmt::format("{}{}.redset", prefix, name.rank);
    case RedsetName::What::kHeader:  // sets and members are counted from 1 there
      return fmt::format("{}{}.{}.grp_{}_of_{}.mem_{}_of_{}.redset", prefix, name.rank,
                         kSchemes[static_cast<std::size_t>(name.scheme)].file, std::uint64_t{name.group} + 1,
                         name.groups, std::uint64_t{name.member} + 1, name.members);
    case RedsetName::What::kOwnership:
      return fmt::format("{}shuffile", prefix);
    case RedsetName::What::kEncodeState:
      break;
  }
  return fmt::format("{}er", prefix);
}

RedsetName HeaderNameOf(RedsetKind kind, const SetDescriptor& set) {
  return {.kind = kind,
          .what = RedsetName::What::kHeader,
          .rank = set.world_rank,
          .scheme = set.scheme,
          .group = set.group,
          .groups = set.groups,
          .member = set.rank,
          .members = set.ranks};
}

}  // namespace cairn::scr

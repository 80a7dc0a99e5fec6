#include "storage/place/cache/redundancy_record.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "proto/frame.h"
#include "storage/base/checksum.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/redundancy/payload.h"
#include "storage/format/framed/framed.h"

namespace cairn {
namespace {

constexpr FramedKind kKind = {
    .magic = "CAIRNRED", .what = "a record of redundancy", .version = 1, .bytes_max = kRedundancyRecordBytesMax};
constexpr std::uint64_t kFileBytesMax = std::numeric_limits<std::int64_t>::max();
constexpr std::string_view kOlderStem = "older.";
constexpr std::uint64_t kRsBlocksMax = 256;  // members and checksums together: elements of the field

std::string RecordPath(const std::string& folder) {
  return folder + "/.scr/redundancy.cairn";
}

// CheckSet has seen to it that there is one.
scr::Scheme SchemeOf(const kept::Set& set) {
  switch (set.scheme()) {
    case kept::PARTNER:
      return scr::Scheme::kPartner;
    case kept::XOR:
      return scr::Scheme::kXor;
    case kept::RS:
      return scr::Scheme::kRs;
    default:
      return scr::Scheme::kSingle;
  }
}

kept::Scheme SchemeOf(scr::Scheme scheme) {
  switch (scheme) {
    case scr::Scheme::kSingle:
      break;
    case scr::Scheme::kPartner:
      return kept::PARTNER;
    case scr::Scheme::kXor:
      return kept::XOR;
    case scr::Scheme::kRs:
      return kept::RS;
  }
  return kept::SINGLE;
}

// `value` is 1 to members - 1 where the scheme has it, else 0.
absl::Status CheckCount(std::string_view field, std::uint32_t value, bool has, int members) {
  const std::uint32_t min = has ? 1 : 0, max = has ? static_cast<std::uint32_t>(members) - 1 : 0;
  if (value >= min && value <= max) return absl::OkStatus();
  return InvalidArgument("{}: {}, expected {} to {}", field, value, min, max);
}

absl::Status CheckMembers(const kept::Set& set, std::uint32_t nranks) {
  if (set.ranks_size() < 2 || static_cast<std::uint32_t>(set.ranks_size()) > redundancy::kMembersMax) {
    return InvalidArgument("ranks: {} members, expected 2 to {}", set.ranks_size(), redundancy::kMembersMax);
  }
  std::set<Rank> seen;
  for (const Rank rank : set.ranks()) {
    if (rank >= nranks) return InvalidArgument("ranks: {}, expected less than {}", rank, nranks);
    if (!seen.insert(rank).second) return InvalidArgument("ranks: {} comes twice", rank);
  }
  return absl::OkStatus();
}

std::optional<std::size_t> PlaceOf(const kept::Set& set, Rank rank) {
  const auto found = std::find(set.ranks().begin(), set.ranks().end(), rank);
  if (found == set.ranks().end()) return std::nullopt;
  return static_cast<std::size_t>(found - set.ranks().begin());
}

// Name, bytes and CRCs; nothing else.
absl::Status CheckEntry(const catalogue::FileEntry& file, const std::string& name) {
  const bool older = IsOlderName(file.name()) && file.name().ends_with("." + name);
  if (file.name() != name && !older) return InvalidArgument("name: \"{}\", expected {}", file.name(), name);
  if (file.bytes() > kFileBytesMax) return InvalidArgument("bytes: {} are more than a file can have", file.bytes());
  const std::uint64_t blocks = file.bytes() / kCrcBlockBytes + (file.bytes() % kCrcBlockBytes != 0 ? 1 : 0);
  if (static_cast<std::uint64_t>(file.crc32c_size()) != blocks) {
    return InvalidArgument("crc32c: {} values, expected {} for {} bytes", file.crc32c_size(), blocks, file.bytes());
  }
  const bool more = !file.prefix_name().empty() || !file.original().empty() || file.mode() != 0 ||
                    file.mtime_s() != 0 || file.mtime_ns() != 0 || file.atime_s() != 0 || file.atime_ns() != 0 ||
                    file.bytes_written() != 0 || file.inode() != 0 || file.verified_by() != catalogue::NOT_NOTED;
  return more ? InvalidArgument("{}: more than its size and checksums", file.name()) : absl::OkStatus();
}

absl::Status CheckFile(const kept::File& file, std::uint32_t nranks) {
  CAIRN_RETURN_IF_ERROR(Annotate(CheckSet(file.set(), nranks), "set"));
  const auto place = PlaceOf(file.set(), file.rank());
  if (!place) return InvalidArgument("rank: {} is no member of its set", file.rank());
  const scr::RedsetKind kind = file.of_filemap() ? scr::RedsetKind::kFilemaps : scr::RedsetKind::kData;
  const scr::SetDescriptor own = DescriptorsOf(file.set(), nranks)[*place];
  CAIRN_RETURN_IF_ERROR(Annotate(CheckEntry(file.file(), scr::FileNameOf(scr::HeaderNameOf(kind, own))), "file"));
  if (file.header_bytes() == 0 || file.header_bytes() > file.file().bytes()) {
    return InvalidArgument("header_bytes: {} of {}", file.header_bytes(), file.file().bytes());
  }
  return absl::OkStatus();
}

absl::Status CheckIdentity(const kept::Record& record, const RunIdentity& run, const scr::Descriptor& descriptor) {
  if (!run.Includes(record.run())) return InvalidArgument("run: not {}", run.run.Hex());
  if (record.launch() != descriptor.launch) {
    return InvalidArgument("launch: {}, expected {}", record.launch(), descriptor.launch.value_or(0));
  }
  if (record.dataset() != descriptor.id) {
    return InvalidArgument("dataset: {}, expected {}", record.dataset(), descriptor.id);
  }
  if (descriptor.step && record.step() != descriptor.step) {
    return InvalidArgument("step: {}, expected {}", record.step(), *descriptor.step);
  }
  if (record.nranks() != descriptor.ranks || record.nranks() > CAIRN_RANKS_MAX) {
    return InvalidArgument("nranks: {}, expected {}", record.nranks(), descriptor.ranks.value_or(0));
  }
  return absl::OkStatus();
}

// By rank, then by set, each once, of which the file of data comes first; names each once.
class OrderCheck {
 public:
  absl::Status Next(const kept::File& file) {
    CAIRN_RETURN_IF_ERROR(CheckPlace(file));
    before_ = &file;
    if (names_.insert(file.file().name()).second) return absl::OkStatus();
    return InvalidArgument("file: name: {} comes twice", file.file().name());
  }

 private:
  absl::Status CheckPlace(const kept::File& file) {
    const bool new_rank = before_ == nullptr || before_->rank() < file.rank();
    if (!new_rank && before_->rank() > file.rank()) {
      return InvalidArgument("of rank {}, comes twice or too late", file.rank());
    }
    if (new_rank) sets_.clear();
    if (file.of_filemap()) {
      if (sets_.empty() || !AreSame(*sets_.back(), file.set())) {
        return InvalidArgument("set: another one than that of the data");
      }
      if (before_->of_filemap()) return InvalidArgument("of rank {}, comes twice or too late", file.rank());
      return absl::OkStatus();
    }
    if (std::ranges::any_of(sets_, [&file](const kept::Set* set) { return AreSame(*set, file.set()); })) {
      return InvalidArgument("of rank {}, comes twice or too late", file.rank());
    }
    sets_.push_back(&file.set());
    if (sets_.size() <= kSetsOfRankMax) return absl::OkStatus();
    return InvalidArgument("set: of rank {} more than {}", file.rank(), kSetsOfRankMax);
  }

  const kept::File* before_ = nullptr;
  std::vector<const kept::Set*> sets_;  // of its rank
  std::set<std::string> names_;
};

std::uint64_t FilesMax(const scr::Descriptor& descriptor) {
  return 2 * kSetsOfRankMax * (descriptor.held ? descriptor.held->size() : std::uint64_t{descriptor.ranks.value_or(0)});
}

// Before they are made: an empty one takes 2 bytes in the file, but far more in memory.
absl::Status CountFiles(std::string_view message, std::uint64_t files_max) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const std::uint8_t*>(message.data()),
                                               static_cast<int>(message.size()));
  std::uint64_t files = 0;
  while (const std::uint32_t tag = input.ReadTag()) {
    files += WireFormatLite::GetTagFieldNumber(tag) == kept::Record::kFilesFieldNumber;
    if (files > files_max) return InvalidArgument("files: more than {}", files_max);
    if (!WireFormatLite::SkipField(&input, tag)) return InvalidArgument("the message cannot be read");
  }
  return absl::OkStatus();
}

absl::StatusOr<kept::Record> Decode(std::string_view name, std::string_view file, const RunIdentity& run,
                                    const scr::Descriptor& descriptor) {
  CAIRN_ASSIGN_OR_RETURN(const std::string_view message, FramedMessage(kKind, name, file));
  CAIRN_RETURN_IF_ERROR(Annotate(CountFiles(message, FilesMax(descriptor)), name));
  kept::Record record;
  if (!record.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return DataLoss("{}: offset {}: {} bytes that are not the message of {}", name, kFramedMessageOffset,
                    message.size(), kKind.what);
  }
  CAIRN_RETURN_IF_ERROR(Annotate(CheckRedundancyRecord(record, run, descriptor), name));
  return record;
}

}  // namespace

absl::Status CheckSet(const kept::Set& set, std::uint32_t nranks) {
  const scr::Scheme scheme = SchemeOf(set);
  if (scheme == scr::Scheme::kSingle) {
    return InvalidArgument("scheme: {} protects nothing", static_cast<int>(set.scheme()));
  }
  CAIRN_RETURN_IF_ERROR(CheckMembers(set, nranks));
  if (set.groups() < 1 || set.groups() > nranks) {
    return InvalidArgument("groups: {}, expected 1 to {}", set.groups(), nranks);
  }
  if (set.group() >= set.groups())
    return InvalidArgument("group: {}, expected less than {}", set.group(), set.groups());
  CAIRN_RETURN_IF_ERROR(CheckCount("replicas", set.replicas(), scheme == scr::Scheme::kPartner, set.ranks_size()));
  CAIRN_RETURN_IF_ERROR(CheckCount("checksums", set.checksums(), scheme == scr::Scheme::kRs, set.ranks_size()));
  const std::uint64_t blocks = static_cast<std::uint64_t>(set.ranks_size()) + set.checksums();
  if (scheme == scr::Scheme::kRs && blocks > kRsBlocksMax) {
    return InvalidArgument("checksums: {} and {} members are more than {}", set.checksums(), set.ranks_size(),
                           kRsBlocksMax);
  }
  return absl::OkStatus();
}

std::vector<scr::SetDescriptor> DescriptorsOf(const kept::Set& set, std::uint32_t nranks) {
  std::vector<scr::SetDescriptor> members;
  for (const Rank rank : set.ranks()) {
    members.push_back({.scheme = SchemeOf(set),
                       .groups = set.groups(),
                       .group = set.group(),
                       .ranks = static_cast<std::uint32_t>(set.ranks_size()),
                       .rank = static_cast<std::uint32_t>(members.size()),
                       .world_ranks = nranks,
                       .world_rank = rank,
                       .replicas = set.replicas(),
                       .checksums = set.checksums()});
  }
  return members;
}

std::vector<kept::Set> SetsOf(std::span<const scr::SetDescriptor> by_rank) {
  std::map<std::uint32_t, std::vector<const scr::SetDescriptor*>> groups;
  for (const scr::SetDescriptor& member : by_rank) {
    if (member.ranks > 1) groups[member.group].push_back(&member);
  }
  std::vector<kept::Set> sets;
  for (auto& [group, members] : groups) {
    std::ranges::sort(members, {}, [](const scr::SetDescriptor* member) { return member->rank; });
    kept::Set& set = sets.emplace_back();
    set.set_scheme(SchemeOf(members.front()->scheme));
    set.set_groups(members.front()->groups);
    set.set_group(group);
    set.set_replicas(members.front()->replicas);
    set.set_checksums(members.front()->checksums);
    for (const scr::SetDescriptor* member : members) set.add_ranks(member->world_rank);
  }
  return sets;
}

bool AreSame(const kept::Set& a, const kept::Set& b) {
  return a.scheme() == b.scheme() && a.groups() == b.groups() && a.group() == b.group() &&
         a.replicas() == b.replicas() && a.checksums() == b.checksums() && std::ranges::equal(a.ranks(), b.ranks());
}

std::string OlderName(std::string_view name, std::uint64_t number) {
  return fmt::format("{}{}.{}", kOlderStem, number, name);
}

// The number without a sign and leading zeros, so that a file has one such name for each.
bool IsOlderName(std::string_view name) {
  if (!name.starts_with(kOlderStem)) return false;
  const std::size_t point = name.find('.', kOlderStem.size());
  if (point == std::string_view::npos) return false;
  const auto number = NumberAfter(name.substr(0, point), kOlderStem);
  return number && *number > 0 && scr::ParseRedsetName(name.substr(point + 1)).has_value();
}

std::map<Rank, std::vector<KeptPair>> PairsByRank(const kept::Record& record) {
  std::map<Rank, std::vector<KeptPair>> by_rank;
  for (const kept::File& file : record.files()) {
    std::vector<KeptPair>& pairs = by_rank[file.rank()];
    if (file.of_filemap()) {
      pairs.back().filemap = &file;
    } else {
      pairs.push_back({.data = &file});
    }
  }
  return by_rank;
}

std::map<Rank, std::vector<kept::Set>> SetsByRank(const kept::Record& record) {
  std::map<Rank, std::vector<kept::Set>> sets;
  for (const kept::File& file : record.files()) {
    if (!file.of_filemap()) sets[file.rank()].push_back(file.set());
  }
  return sets;
}

kept::Record WithoutOlder(const kept::Record& record, const std::vector<kept::Set>& than) {
  kept::Record rest = record;
  rest.clear_files();
  for (const auto& [rank, pairs] : PairsByRank(record)) {
    bool older = false;
    for (const KeptPair& pair : pairs) {
      if (older) break;
      for (const kept::File* file : {pair.data, pair.filemap}) {
        if (file != nullptr) *rest.add_files() = *file;
      }
      older = std::ranges::any_of(than, [&pair](const kept::Set& set) { return AreSame(set, pair.set()); });
    }
  }
  return rest;
}

std::uint64_t KeptBytes(const kept::Record& record) {
  std::uint64_t bytes = 0;
  for (const kept::File& file : record.files()) bytes += file.file().bytes();
  return bytes;
}

absl::Status CheckRedundancyRecord(const kept::Record& record, const RunIdentity& run,
                                   const scr::Descriptor& descriptor) {
  CAIRN_RETURN_IF_ERROR(CheckIdentity(record, run, descriptor));
  std::uint64_t bytes = 0;
  OrderCheck order;
  for (int i = 0; i < record.files_size(); ++i) {
    const kept::File& file = record.files(i);
    const std::string field = fmt::format("files[{}]", i);
    CAIRN_RETURN_IF_ERROR(Annotate(CheckFile(file, record.nranks()), field));
    if (descriptor.held && !descriptor.held->Contains(file.rank())) {
      return InvalidArgument("{}.rank: {} does not lie here", field, file.rank());
    }
    if (file.file().bytes() > kFileBytesMax - bytes) {
      return InvalidArgument("{}.file.bytes: all together exceed 63 bits", field);
    }
    bytes += file.file().bytes();
    CAIRN_RETURN_IF_ERROR(Annotate(order.Next(file), field));
  }
  return absl::OkStatus();
}

absl::StatusOr<kept::Record> ReadRedundancyRecord(Disk& disk, const std::string& folder, const RunIdentity& run,
                                                  const scr::Descriptor& descriptor) {
  const std::string path = RecordPath(folder);
  const auto text = ReadWhole(disk, path, kRedundancyRecordBytesMax);
  if (absl::IsResourceExhausted(text.status())) {
    const auto info = disk.Info(path);
    if (info.ok() && info->bytes > kRedundancyRecordBytesMax) return DataLoss("{}", MessageOf(text.status()));
  }
  if (absl::IsInvalidArgument(text.status())) return DataLoss("{}", MessageOf(text.status()));  // no file
  if (!text.ok()) return text.status();
  auto record = Decode(path, *text, run, descriptor);
  if (!record.ok()) return DataLoss("{}", MessageOf(record.status()));
  return record;
}

absl::Status WriteRedundancyRecord(Disk& disk, const std::string& folder, const kept::Record& record) {
  const std::string path = RecordPath(folder);
  if (FramedBytes(record) > kRedundancyRecordBytesMax) {
    return InvalidArgument("{}: {} bytes, at most {} are possible", path, FramedBytes(record),
                           kRedundancyRecordBytesMax);
  }
  return ReplaceFile(disk, path, EncodeFramed(kKind, record));
}

absl::Status RemoveRedundancyRecord(Disk& disk, const std::string& folder) {
  const absl::Status removed = disk.Remove(RecordPath(folder));
  if (absl::IsNotFound(removed)) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(removed);
  return disk.SyncDirectory(folder + "/.scr");
}

}  // namespace cairn

#include "storage/job/protect/keep.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "storage/base/status.h"
#include "storage/job/protect/member.h"
#include "storage/job/protect/protect.h"
#include "storage/job/protect/rebuild.h"
#include "storage/place/cache/dataset_folder.h"
#include "storage/place/cache/redundancy_record.h"

namespace cairn {
namespace {

using scr::RedsetKind;

constexpr RedsetKind kKinds[] = {RedsetKind::kData, RedsetKind::kFilemaps};
constexpr std::uint64_t kCopyBytes = 1 << 20;
constexpr std::uint64_t kHeadersBytes = 64 << 10;  // of both files of a member, as a rule far less

kept::Record Empty(const KeepWish& wish) {
  kept::Record record;
  record.set_run(wish.run.run.Hex());
  record.set_launch(wish.descriptor.launch.value_or(0));
  record.set_dataset(wish.descriptor.id);
  record.set_step(wish.step);
  record.set_nranks(wish.descriptor.ranks.value_or(0));
  return record;
}

class Keeping {
 public:
  Keeping(const KeepWish& wish, Throttle& throttle, TransferProgress& progress)
      : wish_(wish), nranks_(wish.descriptor.ranks.value_or(0)), throttle_(throttle), progress_(progress) {
    const std::vector<Rank> held = scr::RanksHeld(wish.descriptor);
    here_.insert(held.begin(), held.end());
  }

  absl::StatusOr<kept::Record> Run() {
    CAIRN_RETURN_IF_ERROR(Check());
    CAIRN_ASSIGN_OR_RETURN(before_, ReadKept(wish_));
    for (const kept::Set& set : wish_.sets) {
      for (const RedsetKind kind : kKinds) CAIRN_RETURN_IF_ERROR(KeepOf(set, kind));
    }
    return Made();
  }

 private:
  absl::Status Check() const {
    std::set<Rank> seen;
    for (const kept::Set& set : wish_.sets) {
      CAIRN_RETURN_IF_ERROR(Annotate(CheckSet(set, nranks_), "redundancy set"));
      for (const Rank rank : set.ranks()) {
        if (!seen.insert(rank).second) return InvalidArgument("rank {} is a member of two redundancy sets", rank);
        if (!here_.contains(rank) && !wish_.elsewhere.contains(rank)) {
          return InvalidArgument("rank {} of a redundancy set is neither here nor elsewhere", rank);
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status KeepOf(const kept::Set& set, RedsetKind kind) {
    const std::vector<scr::SetDescriptor> members = DescriptorsOf(set, nranks_);
    std::vector<ProtectSource> sources;  // read when the first member here needs them
    for (const scr::SetDescriptor& member : members) {
      if (!here_.contains(member.world_rank)) continue;
      if (kind == RedsetKind::kData) {
        CAIRN_ASSIGN_OR_RETURN(const bool there, TakeBefore(set, member));
        if (there) continue;
      }
      if (sources.empty()) {
        CAIRN_ASSIGN_OR_RETURN(sources, ReadMembers(members, kind));
        if (kind == RedsetKind::kData) AddEarlier(set, sources);
      }
      CAIRN_RETURN_IF_ERROR(Make(set, kind, sources, member.rank));
    }
    return absl::OkStatus();
  }

  // Is the member's file of data, of the same set, there in its size, under SCR's name?
  absl::StatusOr<bool> TakeBefore(const kept::Set& set, const scr::SetDescriptor& member) {
    for (const kept::File& file : before_.files()) {
      if (file.rank() != member.world_rank || file.of_filemap() || !AreSame(file.set(), set)) continue;
      if (IsOlderName(file.file().name())) return false;
      const auto info = wish_.here.disk->Info(PathOf(file.file().name()));
      if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
      if (!info.ok() || !info->is_regular() || info->bytes != file.file().bytes()) return false;
      made_.push_back(file);
      return true;
    }
    return false;
  }

  absl::StatusOr<std::vector<ProtectSource>> ReadMembers(const std::vector<scr::SetDescriptor>& members,
                                                         RedsetKind kind) const {
    std::vector<ProtectSource> sources;
    for (const scr::SetDescriptor& member : members) {
      const DatasetAt& at = here_.contains(member.world_rank) ? wish_.here : wish_.elsewhere.at(member.world_rank);
      CAIRN_ASSIGN_OR_RETURN(
          ProtectSource source,
          ReadMember(
              {.disk = at.disk, .folder = at.folder, .run = wish_.run, .descriptor = wish_.descriptor, .set = member},
              kind));
      sources.push_back(std::move(source));
    }
    return sources;
  }

  void AddEarlier(const kept::Set& set, std::vector<ProtectSource>& sources) {
    if (set.scheme() != kept::PARTNER) return;
    for (ProtectSource& source : sources) {
      const Rank rank = source.member.descriptor.world_rank;
      if (here_.contains(rank)) continue;
      for (const EarlierDataset& earlier : wish_.earlier) {
        if (source.earlier == nullptr) source.earlier = EarlierOf(set, rank, earlier);
      }
    }
  }

  // As the members here keep it. Null: they have no copy of that rank's files, or none that can be read.
  std::shared_ptr<const EarlierCopy> EarlierOf(const kept::Set& set, Rank rank, const EarlierDataset& earlier) {
    RebuildWish wish{.run = wish_.run,
                     .descriptor = earlier.descriptor,
                     .step = earlier.step,
                     .set = set,
                     .lost = rank,
                     .at = {},
                     .without = {}};
    for (const Rank member : set.ranks()) {
      if (here_.contains(member)) wish.at[member] = {.disk = wish_.here.disk, .folder = earlier.folder};
    }
    auto rebuilt = OpenRebuilt(wish, no_throttle_, earlier_progress_);
    if (!rebuilt.ok()) return nullptr;
    auto copy = std::make_shared<EarlierCopy>();
    copy->disk = std::move(rebuilt->disk);
    for (catalogue::FileEntry& file : *rebuilt->catalogue.mutable_file()) {
      copy->paths.push_back(rebuilt->folder + "/" + file.name());
      copy->sums.push_back(std::move(file));
    }
    return copy;
  }

  absl::Status Make(const kept::Set& set, RedsetKind kind, std::vector<ProtectSource>& sources, std::uint32_t member) {
    const scr::SetDescriptor& own = sources[member].member.descriptor;
    if (kind == RedsetKind::kData) CAIRN_RETURN_IF_ERROR(TakeRoom(sources, member));
    CAIRN_RETURN_IF_ERROR(Free(scr::FileNameOf(scr::HeaderNameOf(kind, own))));
    auto made = Write(kind, sources, member);
    if (absl::IsAborted(made.status())) {
      for (ProtectSource& source : sources) source.earlier = nullptr;
      made = Write(kind, sources, member);
    }
    CAIRN_ASSIGN_OR_RETURN(const catalogue::FileEntry written, std::move(made));
    kept::File& file = made_.emplace_back();
    file.set_rank(own.world_rank);
    *file.mutable_set() = set;
    file.set_of_filemap(kind == RedsetKind::kFilemaps);
    file.mutable_file()->set_name(written.name());
    file.mutable_file()->set_bytes(written.bytes());
    *file.mutable_file()->mutable_crc32c() = written.crc32c();
    file.mutable_file()->set_crc32(written.crc32());
    file.mutable_file()->set_has_crc32(written.has_crc32());
    file.set_header_bytes(written.bytes() - scr::HeaderOf(MembersOf(sources), member).payload_bytes());
    return absl::OkStatus();
  }

  // Who has ordered it may have counted wrong.
  absl::Status TakeRoom(const std::vector<ProtectSource>& sources, std::uint32_t member) {
    const std::uint64_t bytes = scr::HeaderOf(MembersOf(sources), member).payload_bytes();
    if (bytes <= wish_.bytes_max - bytes_) {
      bytes_ += bytes;
      return absl::OkStatus();
    }
    return ResourceExhausted("what rank {} is to keep for others has {} bytes, and room for {} is left of {}",
                             sources[member].member.descriptor.world_rank, bytes, wish_.bytes_max - bytes_,
                             wish_.bytes_max);
  }

  static std::vector<scr::SetMember> MembersOf(const std::vector<ProtectSource>& sources) {
    std::vector<scr::SetMember> members;
    for (const ProtectSource& source : sources) members.push_back(source.member);
    return members;
  }

  absl::StatusOr<catalogue::FileEntry> Write(RedsetKind kind, const std::vector<ProtectSource>& sources,
                                             std::uint32_t member) {
    const bool over = kind == RedsetKind::kData && next_spare_ < wish_.spares.size();
    return WriteRedundancy(*wish_.here.disk, RecordsFolder(wish_.here.folder), kind, sources, member, throttle_,
                           progress_, over ? wish_.spares[next_spare_++].path : "");
  }

  std::string PathOf(const std::string& name) const { return RecordsFolder(wish_.here.folder) + "/" + name; }

  // The file of that name is about to be replaced. If the record names it, it keeps its bytes under another name, and
  // the record says so before: at no instant it names less than it did, or a file with another one's checksums.
  absl::Status Free(const std::string& name) {
    kept::Record renamed = before_;
    const auto file = std::ranges::find(*renamed.mutable_files(), name,
                                        [](const kept::File& one) -> const std::string& { return one.file().name(); });
    if (file == renamed.mutable_files()->end()) return absl::OkStatus();
    const std::string older = FreshName(name);
    const absl::Status kept = KeepAs(PathOf(name), PathOf(older));
    if (absl::IsNotFound(kept)) return absl::OkStatus();  // it is gone, whatever the record says
    CAIRN_RETURN_IF_ERROR(kept);
    file->mutable_file()->set_name(older);
    CAIRN_RETURN_IF_ERROR(WriteRedundancyRecord(*wish_.here.disk, wish_.here.folder, renamed));
    before_ = std::move(renamed);
    return absl::OkStatus();
  }

  std::string FreshName(const std::string& name) const {
    for (std::uint64_t number = 1;; ++number) {
      std::string older = OlderName(name, number);
      const auto is_it = [&older](const kept::File& file) { return file.file().name() == older; };
      if (std::ranges::none_of(before_.files(), is_it)) return older;
    }
  }

  // Durably. What a call that was cut short has left under the new name goes.
  absl::Status KeepAs(const std::string& path, const std::string& other) {
    Disk& disk = *wish_.here.disk;
    const absl::Status removed = disk.Remove(other);
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
    absl::Status kept = disk.Link(path, other);
    if (absl::IsFailedPrecondition(kept)) kept = Copy(path, other);  // a file system without hard links
    CAIRN_RETURN_IF_ERROR(kept);
    return disk.SyncDirectory(RecordsFolder(wish_.here.folder));
  }

  absl::Status Copy(const std::string& path, const std::string& other) {
    Disk& disk = *wish_.here.disk;
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> from, disk.Open(path, {}));
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, from->Info());
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> to, disk.Open(other, {.writable = true, .create = true}));
    std::vector<std::byte> block(kCopyBytes);
    for (std::uint64_t at = 0; at < info.bytes; at += kCopyBytes) {
      if (progress_.stop) return absl::CancelledError("stopped");
      const auto bytes = std::span(block).first(std::min<std::uint64_t>(kCopyBytes, info.bytes - at));
      CAIRN_RETURN_IF_ERROR(from->ReadAt(at, bytes));
      CAIRN_RETURN_IF_ERROR(to->WriteAt(at, bytes));
    }
    return to->Sync();
  }

  absl::StatusOr<kept::Record> Made() {
    kept::Record record = Empty(wish_);
    std::map<Rank, std::vector<std::vector<kept::File>>> sets;  // the newest first, each with data, then filemap
    std::ranges::sort(made_, {}, [](const kept::File& file) { return std::pair(file.rank(), file.of_filemap()); });
    for (kept::File& file : made_) {
      auto& of_rank = sets[file.rank()];
      if (!file.of_filemap()) of_rank.emplace_back();
      of_rank.back().push_back(std::move(file));
    }
    AddOlder(sets);
    for (const auto& [rank, of_rank] : sets) {
      for (const std::vector<kept::File>& files : of_rank) record.mutable_files()->Add(files.begin(), files.end());
    }
    if (record.files().empty()) return record;
    // The run may have been another one when the dataset was made.
    CAIRN_ASSIGN_OR_RETURN(const StoredCatalogue stored, ReadRank(*wish_.here.disk, wish_.here.folder, wish_.run,
                                                                  wish_.descriptor, record.files(0).rank()));
    record.set_run(stored.catalogue.run());
    return record;
  }

  // What there was for other sets stays.
  void AddOlder(std::map<Rank, std::vector<std::vector<kept::File>>>& sets) const {
    for (const auto& [rank, pairs] : PairsByRank(before_)) {
      auto& of_rank = sets[rank];
      for (const KeptPair& pair : pairs) {
        const bool is_new = !of_rank.empty() && AreSame(of_rank.front().front().set(), pair.set());
        if (is_new || pair.filemap == nullptr) continue;
        of_rank.push_back({*pair.data, *pair.filemap});
      }
      while (of_rank.size() > kSetsOfRankMax) {
        of_rank.erase(of_rank.begin() + static_cast<std::ptrdiff_t>(OneToGo(of_rank.size())));
      }
    }
  }

  const KeepWish& wish_;
  const std::uint32_t nranks_;
  std::set<Rank> here_;
  Throttle& throttle_;
  TransferProgress& progress_;
  Throttle no_throttle_{0};
  TransferProgress earlier_progress_;  // what is read here is no progress of what comes
  kept::Record before_;
  std::size_t next_spare_ = 0;
  std::uint64_t bytes_ = 0;  // of bytes_max, taken
  std::vector<kept::File> made_;
};

std::uint64_t Sum(std::uint64_t a, std::uint64_t b) {
  return a > std::numeric_limits<std::uint64_t>::max() - b ? std::numeric_limits<std::uint64_t>::max() : a + b;
}

}  // namespace

absl::StatusOr<kept::Record> MakeKept(const KeepWish& wish, Throttle& throttle, TransferProgress& progress) {
  absl::StatusOr<kept::Record> made = Keeping(wish, throttle, progress).Run();
  for (const SpareFile& spare : wish.spares) wish.here.disk->Remove(spare.path).IgnoreError();  // most are not there
  return made;
}

absl::StatusOr<kept::Record> ReadKept(const KeepWish& wish) {
  auto record = ReadRedundancyRecord(*wish.here.disk, wish.here.folder, wish.run, wish.descriptor);
  if (absl::IsNotFound(record.status()) || absl::IsDataLoss(record.status())) return Empty(wish);
  return record;
}

std::uint64_t KeptBytesOf(const kept::Set& set, const std::map<Rank, std::uint64_t>& bytes, Rank member) {
  const auto of = [&](Rank rank) {
    const auto found = bytes.find(rank);
    return found == bytes.end() ? 0 : found->second;
  };
  const auto count = static_cast<std::uint32_t>(set.ranks_size());
  if (set.scheme() == kept::PARTNER) {
    std::uint64_t copies = kHeadersBytes;
    const auto own = static_cast<std::uint32_t>(std::ranges::find(set.ranks(), member) - set.ranks().begin());
    for (std::uint32_t i = 1; i <= set.replicas() && i < count; ++i) {
      copies = Sum(copies, of(set.ranks(static_cast<int>((own + count - i) % count))));
    }
    return copies;
  }
  std::uint64_t longest = 0;
  for (const Rank rank : set.ranks()) longest = std::max(longest, of(rank));
  const std::uint64_t checksums = set.scheme() == kept::XOR ? 1 : set.checksums();
  if (checksums >= count) return kHeadersBytes;                       // no set
  const std::uint64_t chunk = Sum(longest / (count - checksums), 2);  // of data and of filemaps, each rounded up
  if (chunk > std::numeric_limits<std::uint64_t>::max() / std::max<std::uint64_t>(checksums, 1)) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return Sum(kHeadersBytes, checksums * chunk);
}

}  // namespace cairn

#include "storage/job/protect/rebuild.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/redset.h"
#include "storage/job/protect/checked_source.h"
#include "storage/job/protect/member.h"
#include "storage/job/protect/rebuilt_disk.h"
#include "storage/place/cache/dataset_folder.h"
#include "storage/place/cache/redundancy_record.h"
#include "storage/place/names.h"

namespace cairn {
namespace {

constexpr std::size_t kReasonsNamed = 16;

// A member's files as a header has them, below their dataset's folder: the last is the catalogue.
using Listed = std::vector<std::pair<std::string, std::uint64_t>>;

absl::StatusOr<Listed> ListedOf(const scr::SetMember& member) {
  const Rank rank = member.descriptor.world_rank;
  if (member.files.empty() || BaseOf(member.files.back().first) != CatalogueName(rank)) {
    return DataLoss("of rank {} the last file is not its catalogue", rank);
  }
  const std::string folder = ParentOf(member.files.back().first) + "/";
  Listed listed;
  for (const auto& [path, meta] : member.files) {
    if (!path.starts_with(folder)) return DataLoss("of rank {} there is {}, not below {}", rank, path, folder);
    listed.emplace_back(path.substr(folder.size()), meta.bytes);
  }
  return listed;
}

bool AreSame(const scr::SetDescriptor& a, const scr::SetDescriptor& b) {
  return a.scheme == b.scheme && a.groups == b.groups && a.group == b.group && a.ranks == b.ranks && a.rank == b.rank &&
         a.world_ranks == b.world_ranks && a.world_rank == b.world_rank && a.replicas == b.replicas &&
         a.checksums == b.checksums;
}

ProtectSource SourceOf(const KeptFile& kept) {
  return {.member = {}, .disk = kept.disk, .paths = {kept.path}, .sums = {kept.sums}};
}

// The wish, checked, and what all who use it ask of a member.
class SetAtHand {
 public:
  static absl::StatusOr<SetAtHand> Make(const RebuildWish& wish) {
    SetAtHand set(wish);
    const std::uint32_t nranks = wish.descriptor.ranks.value_or(0);
    CAIRN_RETURN_IF_ERROR(Annotate(CheckSet(wish.set, nranks), "redundancy set"));
    set.members_ = DescriptorsOf(wish.set, nranks);
    const auto lost = std::ranges::find(set.members_, wish.lost, &scr::SetDescriptor::world_rank);
    if (lost == set.members_.end()) return InvalidArgument("rank {} is no member of the redundancy set", wish.lost);
    set.lost_ = lost->rank;
    return set;
  }

  const RebuildWish& wish() const { return wish_; }
  const scr::Descriptor& descriptor() const { return descriptor_; }
  const std::vector<scr::SetDescriptor>& members() const { return members_; }
  std::uint32_t lost() const { return lost_; }

  // Where the member is; nullptr, and why not, if it is lost or not to be used.
  const DatasetAt* Find(const scr::SetDescriptor& member, std::string* why) const {
    const auto at = wish_.at.find(member.world_rank);
    if (member.rank == lost_ || at == wish_.at.end()) {
      *why = "it is lost with its node";
    } else if (wish_.without.contains(member.world_rank)) {
      *why = "its files were found to be damaged";
    } else {
      return &at->second;
    }
    return nullptr;
  }

  absl::StatusOr<ProtectSource> Data(const scr::SetDescriptor& member, const DatasetAt& at) const {
    return ReadMember(
        {.disk = at.disk, .folder = at.folder, .run = wish_.run, .descriptor = descriptor_, .set = member},
        scr::RedsetKind::kData);
  }

  // What the member keeps for this set by its node's record. kNotFound, kDataLoss: nothing.
  absl::StatusOr<KeptFile> Kept(const scr::SetDescriptor& member, const DatasetAt& at) const {
    CAIRN_ASSIGN_OR_RETURN(const kept::Record record,
                           ReadRedundancyRecord(*at.disk, at.folder, wish_.run, descriptor_));
    for (const kept::File& file : record.files()) {
      if (file.rank() != member.world_rank || file.of_filemap() || !cairn::AreSame(file.set(), wish_.set)) continue;
      return KeptFile{.disk = at.disk,
                      .path = RecordsFolder(at.folder) + "/" + file.file().name(),
                      .sums = file.file(),
                      .header_bytes = file.header_bytes()};
    }
    return NotFound("{}: nothing is kept for this set", at.folder);
  }

 private:
  explicit SetAtHand(const RebuildWish& wish) : wish_(wish), descriptor_(wish.descriptor) {
    descriptor_.held.reset();
    descriptor_.step = wish.step;
  }

  const RebuildWish& wish_;
  scr::Descriptor descriptor_;
  std::vector<scr::SetDescriptor> members_;
  std::uint32_t lost_ = 0;
};

bool SaysNothing(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status);
}

// kDataLoss: it is not there in its size.
absl::Status CheckThere(const KeptFile& kept) {
  const auto info = kept.disk->Info(kept.path);
  if (absl::IsNotFound(info.status())) return DataLoss("{}: missing", kept.path);
  if (!info.ok()) return info.status();
  if (info->is_regular() && info->bytes == kept.sums.bytes()) return absl::OkStatus();
  return DataLoss("{}: {} bytes instead of {}", kept.path, info->bytes, kept.sums.bytes());
}

class Opening {
 public:
  Opening(const SetAtHand& set, Throttle& throttle, TransferProgress& progress)
      : set_(set), throttle_(throttle), progress_(progress), sources_(set.members().size()) {}

  absl::StatusOr<Rebuilt> Run() {
    for (const scr::SetDescriptor& member : set_.members()) {
      sources_[member.rank].files.member.descriptor = member;
      CAIRN_RETURN_IF_ERROR(TakeData(member));
    }
    for (const scr::SetDescriptor& member : set_.members()) CAIRN_RETURN_IF_ERROR(TakeKept(member));
    CAIRN_RETURN_IF_ERROR(DescribeLost());
    const Listed files = listed_[set_.lost()];
    auto disk = MakeRebuiltDisk(std::move(sources_), set_.lost(), throttle_, progress_);
    // Its numbers are the records': what contradicts itself there is damage.
    if (absl::IsInvalidArgument(disk.status()) || absl::IsDataLoss(disk.status()))
      return Lost(MessageOf(disk.status()));
    if (!disk.ok()) return disk.status();
    CAIRN_ASSIGN_OR_RETURN(catalogue::Catalogue catalogue, ReadCatalogue(**disk, files));
    return Rebuilt{.disk = *std::move(disk), .folder = Folder(), .catalogue = std::move(catalogue)};
  }

 private:
  // Below which the lost rank's files are to be found.
  std::string Folder() const { return "/" + RecordsFolderName(set_.descriptor().id); }

  void Note(const scr::SetDescriptor& member, std::string_view why) {
    reasons_.push_back(fmt::format("rank {}: {}", member.world_rank, why));
  }

  absl::Status Lost(std::string_view what) const {
    std::string reasons;
    for (std::size_t i = 0; i < std::min(reasons_.size(), kReasonsNamed); ++i) reasons += "; " + reasons_[i];
    if (reasons_.size() > kReasonsNamed) reasons += fmt::format("; {} more", reasons_.size() - kReasonsNamed);
    return DataLoss("dataset {}, rank {} cannot be made of its redundancy set: {}{}", set_.descriptor().id,
                    set_.wish().lost, what, reasons);
  }

  absl::Status TakeData(const scr::SetDescriptor& member) {
    std::string why;
    const DatasetAt* const at = set_.Find(member, &why);
    if (at == nullptr) {
      Note(member, why);
      return absl::OkStatus();
    }
    auto source = set_.Data(member, *at);
    if (source.ok()) {
      auto listed = ListedOf(source->member);
      if (!listed.ok()) return listed.status();
      listed_[member.rank] = *std::move(listed);
      sources_[member.rank].files = *std::move(source);
      return absl::OkStatus();
    }
    if (!absl::IsDataLoss(source.status())) return source.status();
    Note(member, MessageOf(source.status()));
    return absl::OkStatus();
  }

  // What it keeps counts if it is as its record says, and of the files that are there.
  absl::Status TakeKept(const scr::SetDescriptor& member) {
    std::string why;
    const DatasetAt* const at = set_.Find(member, &why);
    if (at == nullptr) return absl::OkStatus();
    const auto take = [&]() -> absl::Status {
      CAIRN_ASSIGN_OR_RETURN(KeptFile kept, set_.Kept(member, *at));
      CAIRN_RETURN_IF_ERROR(CheckThere(kept));
      CAIRN_ASSIGN_OR_RETURN(const scr::RedundancyHeader header, ReadHeader(kept));
      CAIRN_RETURN_IF_ERROR(Annotate(CheckHeader(header, member, kept), kept.path));
      CAIRN_RETURN_IF_ERROR(Annotate(Describe(header), kept.path));
      sources_[member.rank].kept = std::move(kept);
      return absl::OkStatus();
    };
    const absl::Status taken = take();
    if (!taken.ok() && !SaysNothing(taken)) return taken;
    if (!taken.ok()) Note(member, MessageOf(taken));
    return absl::OkStatus();
  }

  absl::StatusOr<scr::RedundancyHeader> ReadHeader(const KeptFile& kept) {
    if (kept.header_bytes > kvtree::kFileBytesMax) {
      return DataLoss("{}: a header of {} bytes", kept.path, kept.header_bytes);
    }
    std::string text(static_cast<std::size_t>(kept.header_bytes), '\0');
    const ProtectSource source = SourceOf(kept);
    CAIRN_RETURN_IF_ERROR(
        CheckedSource(source, &throttle_, progress_, /*blocks=*/1).Read(0, std::as_writable_bytes(std::span(text))));
    std::uint64_t declared = 0;
    const auto tree = kvtree::Decode(kept.path, text, &declared);
    if (!tree.ok()) return DataLoss("{}", MessageOf(tree.status()));
    if (declared != kept.header_bytes) {
      return DataLoss("{}: a header of {} bytes, {} by its record", kept.path, declared, kept.header_bytes);
    }
    auto header = scr::GetRedundancyHeader(*tree);
    if (!header.ok()) return Annotate(header.status(), kept.path);
    return header;
  }

  absl::Status CheckHeader(const scr::RedundancyHeader& header, const scr::SetDescriptor& owner,
                           const KeptFile& kept) const {
    if (header.rank != owner.rank) return DataLoss("of member {}, not {}", header.rank, owner.rank);
    for (const auto& [rank, member] : header.members) {
      if (rank >= set_.members().size() || !AreSame(member.descriptor, set_.members()[rank])) {
        return DataLoss("member {} is of another set", rank);
      }
    }
    for (const auto& [rank, world] : header.world_ranks) {
      if (rank >= set_.members().size() || set_.members()[rank].world_rank != world) {
        return DataLoss("member {} is rank {}, not in this set", rank, world);
      }
    }
    const std::uint64_t payload = kept.sums.bytes() - kept.header_bytes;
    if (payload == header.payload_bytes()) return absl::OkStatus();
    return DataLoss("{} bytes behind the header, which says {}", payload, header.payload_bytes());
  }

  // Takes from it what is not known of the lost ones' files. kDataLoss: it is of other files than are there, or than
  // another header says.
  absl::Status Describe(const scr::RedundancyHeader& header) {
    std::map<std::uint32_t, Listed> fresh;
    for (const auto& [rank, member] : header.members) {
      CAIRN_ASSIGN_OR_RETURN(Listed listed, ListedOf(member));
      const auto known = listed_.find(rank);
      if (known == listed_.end()) {
        fresh[rank] = std::move(listed);
      } else if (known->second != listed) {
        return DataLoss("of rank {} it has other files than it has, or than others say", member.descriptor.world_rank);
      }
    }
    listed_.merge(fresh);
    return absl::OkStatus();
  }

  absl::Status DescribeLost() {
    for (RebuildSource& source : sources_) {
      const std::uint32_t member = source.files.member.descriptor.rank;
      const auto listed = listed_.find(member);
      if (source.files.disk != nullptr || listed == listed_.end()) continue;
      for (const auto& [name, bytes] : listed->second) {
        scr::Meta meta;
        meta.bytes = bytes;
        const std::string path = Folder() + "/" + name;
        source.files.member.files.emplace_back(path, std::move(meta));
        if (member == set_.lost()) source.files.paths.push_back(path);
      }
    }
    if (listed_.contains(set_.lost())) return absl::OkStatus();
    return Lost("nobody who is left knows its files");
  }

  absl::StatusOr<catalogue::Catalogue> ReadCatalogue(Disk& disk, const Listed& files) const {
    const Rank lost = set_.wish().lost;
    if (files.back().second > kCatalogueBytesMax) {
      return Lost(
          fmt::format("a catalogue of {} bytes, at most {} are possible", files.back().second, kCatalogueBytesMax));
    }
    auto stored = ReadRank(disk, Folder(), set_.wish().run, set_.descriptor(), lost);
    if (!stored.ok()) return Annotate(stored.status(), fmt::format("rank {}, rebuilt", lost));
    const catalogue::Catalogue& catalogue = stored->catalogue;
    if (catalogue.step() != set_.wish().step) {
      return Lost(fmt::format("its catalogue is of step {}, not {}", catalogue.step(), set_.wish().step));
    }
    Listed named;
    for (const catalogue::FileEntry& file : catalogue.file()) named.emplace_back(file.name(), file.bytes());
    named.push_back(files.back());
    if (named != files) return Lost("its catalogue has other files than the set's records");
    return std::move(stored->catalogue);
  }

  const SetAtHand& set_;
  Throttle& throttle_;
  TransferProgress& progress_;
  std::vector<RebuildSource> sources_;      // by place in the set
  std::map<std::uint32_t, Listed> listed_;  // likewise: the files of those that are known
  std::vector<std::string> reasons_;        // why a member, or what it keeps, cannot be used
};

// Reads all of it. kDataLoss: it is not what its checksums say.
absl::Status ReadAll(const ProtectSource& source, TransferProgress& progress) {
  CheckedSource checked(source, nullptr, progress, /*blocks=*/4);
  checked.Expect(0, checked.bytes());
  for (std::uint64_t at = 0; at < checked.bytes();) {
    CAIRN_ASSIGN_OR_RETURN(const auto block, checked.Lend(at, checked.bytes() - at));
    at += block.size();
  }
  return absl::OkStatus();
}

// kDataLoss, kNotFound: its files, or what it keeps, are not what their records say.
absl::Status CheckMember(const SetAtHand& set, const scr::SetDescriptor& member, const DatasetAt& at,
                         TransferProgress& progress) {
  CAIRN_ASSIGN_OR_RETURN(const ProtectSource data, set.Data(member, at));
  CAIRN_RETURN_IF_ERROR(CheckProtectSource(data));
  CAIRN_RETURN_IF_ERROR(ReadAll(data, progress));
  const auto kept = set.Kept(member, at);
  if (SaysNothing(kept.status())) return absl::OkStatus();  // then it keeps nothing that could be wrong
  if (!kept.ok()) return kept.status();
  CAIRN_RETURN_IF_ERROR(CheckThere(*kept));
  return ReadAll(SourceOf(*kept), progress);
}

}  // namespace

absl::StatusOr<Rebuilt> OpenRebuilt(const RebuildWish& wish, Throttle& throttle, TransferProgress& progress) {
  CAIRN_ASSIGN_OR_RETURN(const SetAtHand set, SetAtHand::Make(wish));
  return Opening(set, throttle, progress).Run();
}

absl::StatusOr<std::set<Rank>> FindDamagedMembers(const RebuildWish& wish, TransferProgress& progress) {
  CAIRN_ASSIGN_OR_RETURN(const SetAtHand set, SetAtHand::Make(wish));
  std::set<Rank> damaged;
  for (const scr::SetDescriptor& member : set.members()) {
    std::string why;
    const DatasetAt* const at = set.Find(member, &why);
    if (at == nullptr) continue;
    const absl::Status checked = CheckMember(set, member, *at, progress);
    if (SaysNothing(checked)) damaged.insert(member.world_rank);
    if (!checked.ok() && !SaysNothing(checked)) return checked;
  }
  return damaged;
}

}  // namespace cairn

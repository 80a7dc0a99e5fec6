#include "storage/job/protect/keep.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "storage/base/status.h"
#include "storage/job/protect/member.h"
#include "storage/job/protect/protect.h"
#include "storage/place/cache/dataset_folder.h"
#include "storage/place/cache/redundancy_record.h"

namespace cairn {
namespace {

using scr::RedsetKind;

constexpr RedsetKind kKinds[] = {RedsetKind::kData, RedsetKind::kFilemaps};
constexpr std::uint64_t kHeadersBytes = 64 << 10;  // of both files of a member, as a rule far less

class Keeping {
 public:
  Keeping(const KeepWish& wish, Throttle& throttle, TransferProgress& progress)
      : wish_(wish), nranks_(wish.descriptor.ranks.value_or(0)), throttle_(throttle), progress_(progress) {
    const std::vector<Rank> held = scr::RanksHeld(wish.descriptor);
    here_.insert(held.begin(), held.end());
  }

  absl::StatusOr<kept::Record> Run() {
    CAIRN_RETURN_IF_ERROR(Check());
    CAIRN_RETURN_IF_ERROR(ReadBefore());
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

  // What the record that is there says. A damaged one says nothing.
  absl::Status ReadBefore() {
    auto before = ReadRedundancyRecord(*wish_.here.disk, wish_.here.folder, wish_.run, wish_.descriptor);
    if (absl::IsNotFound(before.status()) || absl::IsDataLoss(before.status())) return absl::OkStatus();
    if (!before.ok()) return before.status();
    before_ = *std::move(before);
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
      }
      CAIRN_RETURN_IF_ERROR(Make(set, kind, sources, member.rank));
    }
    return absl::OkStatus();
  }

  // Is the member's file of data, of the same set, there in its size?
  absl::StatusOr<bool> TakeBefore(const kept::Set& set, const scr::SetDescriptor& member) {
    for (const kept::File& file : before_.files()) {
      if (file.rank() != member.world_rank || file.of_filemap() || !AreSame(file.set(), set)) continue;
      const auto info = wish_.here.disk->Info(RecordsFolder(wish_.here.folder) + "/" + file.file().name());
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

  absl::Status Make(const kept::Set& set, RedsetKind kind, const std::vector<ProtectSource>& sources,
                    std::uint32_t member) {
    const scr::SetDescriptor& own = sources[member].member.descriptor;
    CAIRN_RETURN_IF_ERROR(Forget(scr::FileNameOf(scr::HeaderNameOf(kind, own))));
    CAIRN_ASSIGN_OR_RETURN(const catalogue::FileEntry written,
                           WriteRedundancy(*wish_.here.disk, RecordsFolder(wish_.here.folder), kind, sources, member,
                                           throttle_, progress_));
    std::vector<scr::SetMember> members;
    for (const ProtectSource& source : sources) members.push_back(source.member);
    kept::File& file = made_.emplace_back();
    file.set_rank(own.world_rank);
    *file.mutable_set() = set;
    file.set_of_filemap(kind == RedsetKind::kFilemaps);
    file.mutable_file()->set_name(written.name());
    file.mutable_file()->set_bytes(written.bytes());
    *file.mutable_file()->mutable_crc32c() = written.crc32c();
    file.mutable_file()->set_crc32(written.crc32());
    file.mutable_file()->set_has_crc32(written.has_crc32());
    file.set_header_bytes(written.bytes() - scr::HeaderOf(members, member).payload_bytes());
    return absl::OkStatus();
  }

  // The file is replaced: the record that is there must not go on naming it, with other checksums.
  absl::Status Forget(const std::string& name) {
    kept::Record rest = before_;
    rest.clear_files();
    for (const kept::File& file : before_.files()) {
      if (file.file().name() != name) *rest.add_files() = file;
    }
    if (rest.files_size() == before_.files_size()) return absl::OkStatus();
    before_ = std::move(rest);
    return WriteRedundancyRecord(*wish_.here.disk, wish_.here.folder, before_);
  }

  absl::StatusOr<kept::Record> Made() {
    std::ranges::sort(made_, {}, [](const kept::File& file) { return std::pair(file.rank(), file.of_filemap()); });
    kept::Record record;
    record.set_run(wish_.run.run.Hex());
    record.set_launch(wish_.descriptor.launch.value_or(0));
    record.set_dataset(wish_.descriptor.id);
    record.set_step(wish_.step);
    record.set_nranks(nranks_);
    for (kept::File& file : made_) *record.add_files() = std::move(file);
    if (record.files().empty()) return record;
    // The run may have been another one when the dataset was made.
    CAIRN_ASSIGN_OR_RETURN(const StoredCatalogue stored, ReadRank(*wish_.here.disk, wish_.here.folder, wish_.run,
                                                                  wish_.descriptor, record.files(0).rank()));
    record.set_run(stored.catalogue.run());
    return record;
  }

  const KeepWish& wish_;
  const std::uint32_t nranks_;
  std::set<Rank> here_;
  Throttle& throttle_;
  TransferProgress& progress_;
  kept::Record before_;
  std::vector<kept::File> made_;
};

std::uint64_t Sum(std::uint64_t a, std::uint64_t b) {
  return a > std::numeric_limits<std::uint64_t>::max() - b ? std::numeric_limits<std::uint64_t>::max() : a + b;
}

}  // namespace

absl::StatusOr<kept::Record> MakeKept(const KeepWish& wish, Throttle& throttle, TransferProgress& progress) {
  return Keeping(wish, throttle, progress).Run();
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

#include "storage/job/protect/protect.h"

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/redundancy/payload.h"
#include "storage/file/transfer/written_sums.h"
#include "storage/format/kvtree/tree.h"
#include "storage/job/protect/checked_source.h"

namespace cairn {
namespace {

// Nothing of what all keep for each other is there yet; all of their files are.
class Work {
 public:
  Work(const std::vector<ProtectSource>& set, std::uint32_t member, Throttle& throttle, TransferProgress& progress)
      : member_(member) {
    const std::size_t blocks = BlocksOfEach(set[member].member.descriptor.scheme, set.size());
    for (std::uint32_t i = 0; i < set.size(); ++i) {
      members_.push_back(set[i].member);
      sources_.push_back(std::make_unique<CheckedSource>(set[i], i == member ? nullptr : &throttle, progress, blocks));
    }
    header_ = scr::HeaderOf(members_, member);
    const scr::SetDescriptor& own = members_[member].descriptor;
    set_ = {.scheme = own.scheme,
            .replicas = own.replicas,
            .checksums = own.checksums,
            .chunk_bytes = header_.chunk_bytes,
            .members = {}};
    for (const auto& source : sources_) {
      set_.members.push_back({.bytes = source->bytes(), .data = AsSource(*source), .payload = {}});
    }
  }

  const scr::RedundancyHeader& header() const { return header_; }
  std::uint64_t BytesWith(std::string_view header) const { return header.size() + header_.payload_bytes(); }

  // Header and payload, from the first byte to the last.
  absl::Status WriteInto(File& file, std::string_view header, WrittenSums& sums) const {
    const auto append = [&](std::span<const std::byte> bytes) {
      CAIRN_RETURN_IF_ERROR(file.WriteAt(sums.bytes(), bytes));
      sums.Add(bytes);
      return absl::OkStatus();
    };
    CAIRN_RETURN_IF_ERROR(append(std::as_bytes(std::span(header))));
    const redundancy::WriteAt payload = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
      CAIRN_CHECK(header.size() + offset == sums.bytes());  // a sole target's payload comes in order
      return append(bytes);
    };
    CAIRN_ASSIGN_OR_RETURN(const auto difference,
                           redundancy::Rebuild(set_, {{member_, {.data = {}, .payload = payload}}}));
    CAIRN_CHECK(!difference);  // there was nothing to compare with
    return absl::OkStatus();
  }

 private:
  const std::uint32_t member_;
  std::vector<scr::SetMember> members_;
  std::vector<std::unique_ptr<CheckedSource>> sources_;
  scr::RedundancyHeader header_;
  redundancy::Set set_;
};

// `over` under the name `path`, no longer than what is written into it.
absl::StatusOr<std::unique_ptr<File>> TakeOver(Disk& disk, const std::string& over, const std::string& path,
                                               std::uint64_t bytes) {
  CAIRN_RETURN_IF_ERROR(disk.Rename(over, path));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file, disk.Open(path, {.writable = true}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
  if (info.links != 1) return FailedPrecondition("{}: has another name, too", over);
  if (info.bytes > bytes) CAIRN_RETURN_IF_ERROR(file->Truncate(bytes));
  return file;
}

absl::StatusOr<std::unique_ptr<File>> OpenWorkFile(Disk& disk, const std::string& over, const std::string& path,
                                                   std::uint64_t bytes) {
  if (!over.empty()) {
    if (auto taken = TakeOver(disk, over, path, bytes); taken.ok()) return taken;
    for (const std::string& name : {over, path}) disk.Remove(name).IgnoreError();  // a new file does as well
  }
  return disk.Open(path, {.writable = true, .create = true});
}

absl::StatusOr<catalogue::FileEntry> WriteSynced(Disk& disk, const std::string& path, std::string_view header,
                                                 const Work& work, const std::string& over) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, OpenWorkFile(disk, over, path, work.BytesWith(header)));
  WrittenSums sums;
  CAIRN_RETURN_IF_ERROR(work.WriteInto(*file, header, sums));
  CAIRN_RETURN_IF_ERROR(file->Sync());
  CAIRN_ASSIGN_OR_RETURN(const FileInfo written, file->Info());
  return sums.Finish(*file, written);
}

}  // namespace

absl::StatusOr<catalogue::FileEntry> WriteRedundancy(Disk& disk, const std::string& records, scr::RedsetKind kind,
                                                     const std::vector<ProtectSource>& set, std::uint32_t member,
                                                     Throttle& throttle, TransferProgress& progress,
                                                     const std::string& over) {
  CAIRN_CHECK(member < set.size());
  for (const ProtectSource& source : set) CAIRN_RETURN_IF_ERROR(CheckProtectSource(source));
  const Work work(set, member, throttle, progress);
  const std::vector<scr::NamedTree> trees = scr::MakeRankRecords(kind, work.header());
  for (const auto& [name, tree] : trees) {
    CAIRN_RETURN_IF_ERROR(Annotate(kvtree::Encodable(tree), records + "/" + name));
  }
  const auto& [descriptor_name, descriptor] = trees[0];
  const auto& [name, header] = trees[1];
  const std::string path = records + "/" + name, work_path = WorkName(path);
  absl::StatusOr<catalogue::FileEntry> made = WriteSynced(disk, work_path, kvtree::Encode(header), work, over);
  if (made.ok()) {
    made->set_name(name);
    // The descriptor's replacement syncs the directory, for both.
    absl::Status placed = disk.Rename(work_path, path);
    if (placed.ok()) placed = ReplaceFile(disk, records + "/" + descriptor_name, kvtree::Encode(descriptor));
    if (placed.ok()) return made;
    made = std::move(placed);
  }
  disk.Remove(work_path).IgnoreError();  // else it is found as a work name
  return made;
}

}  // namespace cairn

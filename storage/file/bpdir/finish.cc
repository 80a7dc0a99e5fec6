#include <algorithm>
#include <set>
#include <span>

#include "storage/base/checksum.h"
#include "storage/base/modes.h"
#include "storage/base/status.h"
#include "storage/file/bpdir/follow.h"
#include "storage/io/create_once.h"
#include "storage/io/lost_syncs.h"

namespace cairn::bpdir {
namespace {

using Entries = std::map<std::string, const catalogue::FileEntry*>;

// What the target has of a file.
struct Arrived {
  std::uint64_t there = 0;     // bytes
  std::uint64_t matching = 0;  // from the beginning; of md.idx without regard to the active flag
  std::uint64_t inode = 0;     // 0: nothing
};

class Finisher {
 public:
  Finisher(const Ends& ends, const Entries& files, const Allowance& allowance, std::string* damaged)
      : ends_(ends), files_(files), allowance_(allowance), damaged_(damaged) {}
  absl::Status Run();

 private:
  std::string From(const std::string& name) const { return ends_.from + "/" + name; }
  std::string To(const std::string& name) const { return ends_.to + "/" + name; }
  absl::StatusOr<Arrived> Match(const std::string& name, const catalogue::FileEntry& entry);
  absl::Status GiveUpSteps();
  absl::StatusOr<std::map<std::string, std::uint64_t>> NeedToKeep();
  bool Holds(const std::map<std::string, std::uint64_t>& need) const;
  absl::StatusOr<std::unique_ptr<File>> OpenTarget(const std::string& name);
  absl::Status Complete(const std::string& name, const catalogue::FileEntry& entry);
  absl::Status CheckSum(const std::string& name, const catalogue::FileEntry& entry, std::uint64_t block,
                        std::uint32_t sum);
  absl::Status CheckSource(File& from, const std::string& name, const catalogue::FileEntry& entry);
  absl::Status CopyRest(File& from, File& to, const std::string& name, const catalogue::FileEntry& entry,
                        std::uint64_t begin);
  absl::Status CopyRecords(File& from, File& to, const std::string& name, const catalogue::FileEntry& entry);
  absl::Status MakeIndex(File& from, const catalogue::FileEntry& entry);
  absl::Status RemoveStrays();

  const Ends& ends_;
  const Entries& files_;
  const Allowance& allowance_;
  std::string* damaged_;
  std::map<std::string, Arrived> arrived_;
};

absl::StatusOr<Arrived> Finisher::Match(const std::string& name, const catalogue::FileEntry& entry) {
  Arrived arrived;
  const auto info = ends_.target.Info(To(name));
  if (absl::IsNotFound(info.status())) return arrived;
  if (!info.ok()) return Annotate(info.status(), "target");
  if (!info->is_regular()) return FailedPrecondition("{}: in the way: not a regular file", To(name));
  arrived.there = info->bytes;
  arrived.inode = info->inode;
  if (HasLostSync(*info)) return arrived;  // what is read there may not be on the disk
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> to, ends_.target.Open(To(name), {}));
  const std::uint64_t end = std::min(info->bytes, entry.bytes());
  if (name == "md.idx") {
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> from, ends_.source.Open(From(name), {}));
    CAIRN_ASSIGN_OR_RETURN(arrived.matching, FirstDifference(*from, *to, end, /*index=*/true));
    return arrived;
  }
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kCrcBlockBytes, end)), other;
  for (std::uint64_t offset = 0; offset < end; offset += kCrcBlockBytes) {
    const std::span<std::byte> block(buffer.data(), std::min<std::uint64_t>(kCrcBlockBytes, end - offset));
    CAIRN_RETURN_IF_ERROR(Annotate(to->ReadAt(offset, block), "target"));
    const bool partial = block.size() < std::min<std::uint64_t>(kCrcBlockBytes, entry.bytes() - offset);
    if (partial) {  // no sum tells of a part of a block
      CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> from, ends_.source.Open(From(name), {}));
      other.resize(block.size());
      CAIRN_RETURN_IF_ERROR(Annotate(from->ReadAt(offset, other), "source"));
      arrived.matching = offset + static_cast<std::uint64_t>(std::ranges::mismatch(block, other).in1 - block.begin());
      return arrived;
    }
    if (Crc32c(block) != entry.crc32c(static_cast<int>(offset / kCrcBlockBytes))) return arrived;
    arrived.matching = offset + block.size();
  }
  return arrived;
}

bool Finisher::Holds(const std::map<std::string, std::uint64_t>& need) const {
  return std::ranges::all_of(need, [this](const auto& item) {
    const auto arrived = arrived_.find(item.first);
    return item.second <= (arrived == arrived_.end() ? 0 : arrived->second.matching);
  });
}

// Of the steps that are right. Without metadata that can be read there are none.
absl::StatusOr<std::map<std::string, std::uint64_t>> Finisher::NeedToKeep() {
  const std::map<std::string, std::uint64_t> none = {{"md.idx", 0}, {"mmd.0", 0}};
  const auto directory = Directory::Open(ReadFiles(ends_.source, ends_.from));
  if (!directory.ok()) return none;
  std::uint32_t low = 0, high = (*directory)->metadata().steps();
  while (low < high) {
    const std::uint32_t middle = low + (high - low + 1) / 2;
    CAIRN_ASSIGN_OR_RETURN(const auto need, NeedOf((*directory)->metadata(), middle));
    if (Holds(need)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  CAIRN_ASSIGN_OR_RETURN(auto need, NeedOf((*directory)->metadata(), low));
  return Holds(need) ? need : none;
}

// What is not the catalogue's: first the steps that may have it go, then it does. What is read record by record ends
// behind a whole one.
absl::Status Finisher::GiveUpSteps() {
  CAIRN_ASSIGN_OR_RETURN(const auto need, NeedToKeep());
  for (const bool index : {true, false}) {
    for (auto& [name, arrived] : arrived_) {
      if ((name == "md.idx") != index) continue;
      if (name == "md.idx" || name == "mmd.0") arrived.matching = std::min(arrived.matching, need.at(name));
      if (arrived.there <= arrived.matching) continue;
      CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, OpenTarget(name));
      if (name == "md.idx" && arrived.matching == 0) {  // a header is not changed in place
        CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
        CAIRN_RETURN_IF_ERROR(Annotate(ends_.target.Remove(To(name)), "target"));
        ForgetLostSync(info);  // the one that is made next may get its inode
        CAIRN_RETURN_IF_ERROR(Annotate(ends_.target.SyncDirectory(ends_.to), "target"));
        arrived = {};
        continue;
      }
      CAIRN_RETURN_IF_ERROR(Annotate(file->Truncate(arrived.matching), "target"));
      CAIRN_RETURN_IF_ERROR(Annotate(SyncOrDistrust(*file), "target"));
      arrived.there = arrived.matching;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<File>> Finisher::OpenTarget(const std::string& name) {
  const Arrived& arrived = arrived_[name];
  const bool fresh = arrived.inode == 0;
  if (!fresh) {
    constexpr std::uint32_t kOwnerWrites = 0200;
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, ends_.target.Info(To(name)));
    if ((info.mode & kOwnerWrites) == 0) {  // it has the application's mode already
      CAIRN_RETURN_IF_ERROR(
          ends_.target.SetModeAndTimes(To(name), (info.mode | kOwnerWrites) & 07777, info.atime, info.mtime));
    }
  }
  auto file =
      ends_.target.Open(To(name), {.writable = true, .create = fresh, .exclusive = fresh, .mode = kPrefixFileMode});
  if (!file.ok()) return Annotate(file.status(), "target");
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, (*file)->Info());
  if (!fresh && info.inode != arrived.inode) return Aborted("{}: someone else has put a file there", To(name));
  return file;
}

absl::Status Finisher::CheckSum(const std::string& name, const catalogue::FileEntry& entry, std::uint64_t block,
                                std::uint32_t sum) {
  const std::uint32_t should = entry.crc32c(static_cast<int>(block));
  if (sum == should) return absl::OkStatus();
  if (damaged_ != nullptr) *damaged_ = name;
  return DataLoss("source: {}: offset {}: CRC32C {:08x} instead of {:08x}", From(name), block * kCrcBlockBytes, sum,
                  should);
}

// From the block that it begins in, so that all that is written has been compared with its sum.
absl::Status Finisher::CopyRest(File& from, File& to, const std::string& name, const catalogue::FileEntry& entry,
                                std::uint64_t begin) {
  std::vector<std::byte> head(begin % kCrcBlockBytes);
  if (!head.empty()) CAIRN_RETURN_IF_ERROR(Annotate(from.ReadAt(begin - head.size(), head), "source"));
  const auto check = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    return CheckSum(name, entry, offset / kCrcBlockBytes, Crc32c(bytes, offset == begin ? Crc32c(head) : 0));
  };
  return CopyRange(from, to, begin, entry.bytes(), allowance_, check);
}

absl::Status Finisher::CheckSource(File& from, const std::string& name, const catalogue::FileEntry& entry) {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kCrcBlockBytes, entry.bytes()));
  for (std::uint64_t at = 0; at < entry.bytes(); at += kCrcBlockBytes) {
    const std::span<std::byte> block(buffer.data(), std::min<std::uint64_t>(kCrcBlockBytes, entry.bytes() - at));
    CAIRN_RETURN_IF_ERROR(Annotate(from.ReadAt(at, block), "source"));
    CAIRN_RETURN_IF_ERROR(CheckSum(name, entry, at / kCrcBlockBytes, Crc32c(block)));
  }
  return absl::OkStatus();
}

// All records at once, however many: none are held in memory. Of what their writer has left unfinished behind them
// nobody takes notice.
absl::Status Finisher::CopyRecords(File& from, File& to, const std::string& name, const catalogue::FileEntry& entry) {
  const bool index = name == "md.idx";
  const std::size_t length_at = index ? kLengthInIndex : kLengthInFormats;
  CAIRN_RETURN_IF_ERROR(CheckSource(from, name, entry));
  const std::uint64_t begin = std::max(arrived_[name].matching, index ? kIndexHeaderBytes : 0);
  if (entry.bytes() > begin) {
    std::string head(std::min<std::uint64_t>(length_at + 8, entry.bytes() - begin), '\0');
    CAIRN_RETURN_IF_ERROR(Annotate(from.ReadAt(begin, std::as_writable_bytes(std::span(head))), "source"));
    if (!allowance_(head.size())) return Cancelled("copy to {} was stopped at offset {}", to.path(), begin);
    const auto rest = [&] { return CopyRest(from, to, name, entry, begin + head.size()); };
    CAIRN_RETURN_IF_ERROR(Annotate(AppendAtOnce(to, begin, head, length_at, rest), "target"));
  }
  if (!index || entry.bytes() < kIndexHeaderBytes) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(Annotate(SyncOrDistrust(to), "target"));
  std::string flag(1, '\0');
  CAIRN_RETURN_IF_ERROR(Annotate(from.ReadAt(kActiveFlagAt, std::as_writable_bytes(std::span(flag))), "source"));
  return Annotate(WriteSynced(to, kActiveFlagAt, flag), "target");
}

// md.idx begins with its header, whole or not at all, and says that more is to come.
absl::Status Finisher::MakeIndex(File& from, const catalogue::FileEntry& entry) {
  std::string header(std::min(entry.bytes(), kIndexHeaderBytes), '\0');
  CAIRN_RETURN_IF_ERROR(Annotate(from.ReadAt(0, std::as_writable_bytes(std::span(header))), "source"));
  if (header.size() == kIndexHeaderBytes) header[kActiveFlagAt] = 1;
  const CreateOnceOptions plainly{.mode = kPrefixFileMode, .framed = false};
  CAIRN_RETURN_IF_ERROR(Annotate(CreateFileOnce(ends_.target, To("md.idx"), header, plainly), "target"));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, ends_.target.Info(To("md.idx")));
  arrived_["md.idx"] = {.there = header.size(), .matching = header.size(), .inode = info.inode};
  return absl::OkStatus();
}

absl::Status Finisher::Complete(const std::string& name, const catalogue::FileEntry& entry) {
  auto from = ends_.source.Open(From(name), {});
  if (!from.ok()) return Annotate(from.status(), "source");
  const bool written_anew = arrived_[name].matching == 0;  // before the header of a new md.idx counts as there
  if (name == "md.idx" && arrived_[name].inode == 0) CAIRN_RETURN_IF_ERROR(MakeIndex(**from, entry));
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> to, OpenTarget(name));
  const bool records = name == "md.idx" || name == "mmd.0";
  CAIRN_RETURN_IF_ERROR(records ? CopyRecords(**from, *to, name, entry)
                                : CopyRest(**from, *to, name, entry, arrived_[name].matching));
  if (entry.mode() != 0) {
    const timespec atime{.tv_sec = entry.atime_s(), .tv_nsec = static_cast<long>(entry.atime_ns())};
    const timespec mtime{.tv_sec = entry.mtime_s(), .tv_nsec = static_cast<long>(entry.mtime_ns())};
    CAIRN_RETURN_IF_ERROR(ends_.target.SetModeAndTimes(To(name), entry.mode() & 07777, atime, mtime));
  }
  return Annotate(SyncOrDistrust(*to, written_anew), "target");
}

absl::Status Finisher::RemoveStrays() {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, ends_.target.List(ends_.to));
  for (const std::string& name : names) {
    if (IsOfDirectory(name) && !files_.contains(name)) CAIRN_RETURN_IF_ERROR(ends_.target.Remove(To(name)));
  }
  return ends_.target.SyncDirectory(ends_.to);
}

absl::Status Finisher::Run() {
  CAIRN_RETURN_IF_ERROR(MakeDirectories(ends_.target, ends_.to, kPrefixFolderMode));
  bool whole = true;
  for (const auto& [name, entry] : files_) {
    CAIRN_ASSIGN_OR_RETURN(arrived_[name], Match(name, *entry));
    whole &= arrived_[name].there == entry->bytes() && arrived_[name].matching == entry->bytes();
  }
  if (!whole) CAIRN_RETURN_IF_ERROR(GiveUpSteps());
  for (const int round : {0, 1, 2, 3}) {
    for (const auto& [name, entry] : files_) {
      const int turn = name == "md.idx" ? 3 : name == "md.0" ? 2 : name == "mmd.0" ? 1 : 0;
      if (turn == 3 && round == 3) CAIRN_RETURN_IF_ERROR(RemoveStrays());  // and names are durable
      if (turn == round) CAIRN_RETURN_IF_ERROR(Complete(name, *entry));
    }
  }
  return ends_.target.SyncDirectory(ends_.to);
}

}  // namespace

absl::Status Finish(const Ends& ends, const Entries& files, const Allowance& allowance, std::string* damaged) {
  return Finisher(ends, files, allowance, damaged).Run();
}

}  // namespace cairn::bpdir

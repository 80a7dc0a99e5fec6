#include "storage/job/protect/rebuilt_disk.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <span>
#include <utility>

#include "storage/base/status.h"
#include "storage/file/redundancy/payload.h"
#include "storage/format/scr/redset.h"
#include "storage/io/read_only.h"
#include "storage/job/protect/checked_source.h"

namespace cairn {
namespace {

constexpr std::uint32_t kRegular = 0100600;

// The set at work. All its sources are read under one lock: each remembers where it is.
class Rebuilding {
 public:
  Rebuilding(std::vector<RebuildSource> sources, std::uint32_t member, Throttle& throttle, TransferProgress& progress)
      : sources_(std::move(sources)), member_(member) {
    std::vector<scr::SetMember> members;
    for (const RebuildSource& source : sources_) members.push_back(source.files.member);
    const scr::SetDescriptor& own = members[member].descriptor;
    set_ = {.scheme = own.scheme,
            .replicas = own.replicas,
            .checksums = own.checksums,
            .chunk_bytes = scr::HeaderOf(members, member).chunk_bytes,
            .members = {}};
    kept_.reserve(sources_.size());  // readers point into it
    for (const RebuildSource& source : sources_) {
      redundancy::Member one{.bytes = source.files.member.bytes(), .data = {}, .payload = {}};
      if (source.files.disk != nullptr) one.data = Reader(source.files, 0, throttle, progress);
      if (source.kept) {
        kept_.push_back(
            {.member = {}, .disk = source.kept->disk, .paths = {source.kept->path}, .sums = {source.kept->sums}});
        one.payload = Reader(kept_.back(), source.kept->header_bytes, throttle, progress);
      }
      set_.members.push_back(std::move(one));
    }
  }
  Rebuilding(const Rebuilding&) = delete;

  absl::Status Check() const { return redundancy::Check(set_); }
  absl::Status CheckLosses() const { return redundancy::CheckLost(set_, member_); }
  const ProtectSource& lost() const { return sources_[member_].files; }

  // Of the member's logical file.
  absl::Status Read(std::uint64_t offset, std::span<std::byte> target) {
    const absl::MutexLock lock(&mutex_);
    return redundancy::ReadLost(set_, member_, offset, target);
  }

 private:
  redundancy::Source Reader(const ProtectSource& files, std::uint64_t begin, Throttle& throttle,
                            TransferProgress& progress) {
    const std::size_t blocks = BlocksOfEach(set_.scheme, sources_.size());
    checked_.push_back(std::make_unique<CheckedSource>(files, &throttle, progress, blocks));
    return AsSource(*checked_.back(), begin);
  }

  const std::vector<RebuildSource> sources_;
  const std::uint32_t member_;
  std::vector<ProtectSource> kept_;
  std::vector<std::unique_ptr<CheckedSource>> checked_;
  redundancy::Set set_;
  absl::Mutex mutex_;
};

FileInfo InfoOf(const scr::Meta& meta, std::size_t file) {
  FileInfo info;
  info.bytes = meta.bytes;
  info.allocated_bytes = meta.bytes;
  info.inode = file + 1;
  info.mode = kRegular;
  return info;
}

class RebuiltFile final : public ReadOnlyFile {
 public:
  RebuiltFile(std::shared_ptr<Rebuilding> set, std::size_t file, std::uint64_t begin)
      : set_(std::move(set)), file_(file), begin_(begin), path_(set_->lost().paths[file]) {}

  absl::Status ReadAt(std::uint64_t offset, std::span<std::byte> target) override {
    const std::uint64_t bytes = set_->lost().member.files[file_].second.bytes;
    if (offset > bytes || target.size() > bytes - offset) {
      return DataLoss("{}: {} bytes at {}, which has {}", path_, target.size(), offset, bytes);
    }
    return Annotate(set_->Read(begin_ + offset, target), path_);
  }
  void ReadAsync(std::uint64_t offset, std::span<std::byte> target, Done done) override {
    done(ReadAt(offset, target));
  }
  absl::StatusOr<FileInfo> Info() override { return InfoOf(set_->lost().member.files[file_].second, file_); }
  const std::string& path() const override { return path_; }

 private:
  const std::shared_ptr<Rebuilding> set_;
  const std::size_t file_;
  const std::uint64_t begin_;  // in the logical file
  const std::string path_;
};

class RebuiltDisk final : public ReadOnlyDisk {
 public:
  explicit RebuiltDisk(std::shared_ptr<Rebuilding> set) : set_(std::move(set)) {}

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenOptions options) override {
    if (options.writable || options.create) return OnlyRead(path);
    CAIRN_ASSIGN_OR_RETURN(const std::size_t file, Find(path));
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < file; ++i) begin += set_->lost().member.files[i].second.bytes;
    return std::make_unique<RebuiltFile>(set_, file, begin);
  }
  absl::StatusOr<FileInfo> Info(const std::string& path) override {
    CAIRN_ASSIGN_OR_RETURN(const std::size_t file, Find(path));
    return InfoOf(set_->lost().member.files[file].second, file);
  }
  absl::StatusOr<std::string> RealPath(const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(Find(path).status());
    return path;
  }
  absl::StatusOr<std::string> ReadLink(const std::string& path) override {
    CAIRN_RETURN_IF_ERROR(Find(path).status());
    return InvalidArgument("{}: not a symbolic link", path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return NotFound("{}: no folder of what is rebuilt", path);
  }

 private:
  absl::StatusOr<std::size_t> Find(const std::string& path) const {
    const std::vector<std::string>& paths = set_->lost().paths;
    const auto found = std::ranges::find(paths, path);
    if (found == paths.end()) return NotFound("{}: no file of what is rebuilt", path);
    return static_cast<std::size_t>(found - paths.begin());
  }

  const std::shared_ptr<Rebuilding> set_;
};

absl::Status CheckSource(const RebuildSource& source, bool wanted) {
  const std::string rank = fmt::format("rank {}", source.files.member.descriptor.world_rank);
  if (source.files.disk != nullptr) CAIRN_RETURN_IF_ERROR(CheckProtectSource(source.files));
  if (wanted && (source.files.disk != nullptr || source.files.paths.size() != source.files.member.files.size())) {
    return InvalidArgument("{}: {} names for {} lost files", rank, source.files.paths.size(),
                           source.files.member.files.size());
  }
  if (source.kept && source.kept->header_bytes > source.kept->sums.bytes()) {
    return InvalidArgument("{}: a header of {} bytes in a file of {}", rank, source.kept->header_bytes,
                           source.kept->sums.bytes());
  }
  return absl::OkStatus();
}

// What a redundancy file has behind its header is what the others' sizes make of it.
absl::Status CheckKept(const std::vector<RebuildSource>& set) {
  std::vector<scr::SetMember> members;
  for (const RebuildSource& source : set) members.push_back(source.files.member);
  for (std::uint32_t i = 0; i < set.size(); ++i) {
    if (!set[i].kept) continue;
    const std::uint64_t expected = scr::HeaderOf(members, i).payload_bytes();
    const std::uint64_t found = set[i].kept->sums.bytes() - set[i].kept->header_bytes;
    if (found != expected) {
      return InvalidArgument("{}: {} bytes behind its header, not {}", set[i].kept->path, found, expected);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Disk>> MakeRebuiltDisk(std::vector<RebuildSource> set, std::uint32_t member,
                                                      Throttle& throttle, TransferProgress& progress) {
  if (member >= set.size()) return InvalidArgument("member {} of a set of {}", member, set.size());
  for (std::uint32_t i = 0; i < set.size(); ++i) {
    CAIRN_RETURN_IF_ERROR(CheckSource(set[i], i == member));
    const scr::SetDescriptor& of = set[i].files.member.descriptor;
    if (of.rank != i || of.ranks != set.size()) {
      return InvalidArgument("member {} of a set of {} says that it is {} of {}", i, set.size(), of.rank, of.ranks);
    }
  }
  CAIRN_RETURN_IF_ERROR(CheckKept(set));
  auto rebuilding = std::make_shared<Rebuilding>(std::move(set), member, throttle, progress);
  if (const absl::Status sound = rebuilding->Check(); !sound.ok()) return InvalidArgument("{}", MessageOf(sound));
  CAIRN_RETURN_IF_ERROR(rebuilding->CheckLosses());
  return std::make_unique<RebuiltDisk>(std::move(rebuilding));
}

}  // namespace cairn

#include "client/cli/probes.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "client/cli/io_scheduler.h"
#include "client/cli/text.h"
#include "client/copy/copy.h"
#include "daemon/config/cache_transfers.h"
#include "storage/base/clock.h"
#include "storage/base/md5_lanes.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/base/transfer_shape.h"
#include "storage/base/unique_fd.h"
#include "storage/base/user_name.h"
#include "storage/io/create_once.h"
#include "storage/io/device_identity.h"
#include "storage/io/errno_status.h"
#include "storage/io/file_system_kind.h"
#include "storage/io/io_engine.h"
#include "storage/place/cache/disk_record.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kHugePage = 2 << 20;
constexpr const char* kTransfers = "transfers of the cache";
constexpr int kMadvPopulateWrite = 23, kMadvCollapse = 25;  // the distribution's headers are older

Finding Works(std::string name, bool needed, std::string detail) {
  return {.name = std::move(name), .works = true, .needed = needed, .detail = std::move(detail)};
}
Finding Fails(std::string name, bool needed, std::string detail) {
  return {.name = std::move(name), .works = false, .needed = needed, .detail = std::move(detail)};
}
Finding Unknown(std::string name, std::string detail) {
  return {.name = std::move(name), .works = false, .needed = false, .known = false, .detail = std::move(detail)};
}

absl::StatusOr<UniqueFd> MakeMemory() {
  UniqueFd fd(memfd_create("cairn-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return ErrnoStatus(errno, "memfd_create");
  if (ftruncate(fd.get(), kHugePage) != 0) return ErrnoStatus(errno, "ftruncate");
  return fd;
}

// What the kernel says to this advice for a part of a memfd that is as large and as aligned as a huge page; 0: it does
// it. An error: there is no such part to try it with.
absl::StatusOr<int> ErrorOfAdvice(int advice) {
  CAIRN_ASSIGN_OR_RETURN(const UniqueFd fd, MakeMemory());
  void* const space = mmap(nullptr, 2 * kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return ErrnoStatus(errno, "mmap");
  const auto first = reinterpret_cast<std::uintptr_t>(space);
  void* const aligned = reinterpret_cast<void*>((first + kHugePage - 1) / kHugePage * kHugePage);
  absl::StatusOr<int> error = 0;
  if (mmap(aligned, kHugePage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd.get(), 0) == MAP_FAILED) {
    error = ErrnoStatus(errno, "mmap");
  } else {
    std::memset(aligned, 1, kHugePage);
    if (madvise(aligned, kHugePage, advice) != 0) error = errno;
  }
  munmap(space, 2 * kHugePage);
  return error;
}

// The directory, or the nearest parent that is there.
std::string ExistingPart(const std::string& directory) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(directory, error);
  while (!path.empty() && path != path.root_path() && !std::filesystem::is_directory(path, error)) {
    path = path.parent_path();
  }
  return path.string();
}

absl::Status WriteSyncCreateRename(Disk& disk, const std::string& path) {
  CAIRN_RETURN_IF_ERROR(CreateFileOnce(disk, path, "cairn"));
  CAIRN_RETURN_IF_ERROR(disk.Rename(path, path + ".renamed"));
  CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(ParentOf(path)));
  return disk.Remove(path + ".renamed");
}

// Whether a file that has grown has its blocks already.
absl::StatusOr<bool> ReserveBlocks(Disk& disk, const std::string& path) {
  constexpr std::uint64_t kTried = 1 << 20;
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, disk.Open(path, {.writable = true, .create = true}));
  CAIRN_RETURN_IF_ERROR(file->Truncate(kTried));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
  return info.allocated_bytes >= kTried;
}

// True: written by direct I/O. False: the file system has none.
absl::StatusOr<bool> WriteDirect(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file,
                         disk.Open(path, {.direct = true, .writable = true, .create = true}));
  alignas(kDirectAlignment) static const std::byte block[kDirectAlignment] = {};
  CAIRN_RETURN_IF_ERROR(file->WriteAt(0, block));
  return file->direct();
}

}  // namespace

Finding ProbeSealedMemory() {
  constexpr const char* kName = "sealed shared memory";
  constexpr const char* kInstead = "a daemon to which it is refused captures nothing";
  const absl::StatusOr<UniqueFd> fd = MakeMemory();
  if (!fd.ok()) return Fails(kName, true, fmt::format("{}: {}", MessageOf(fd.status()), kInstead));
  if (fcntl(fd->get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Fails(kName, true, fmt::format("seals: {}: {}", std::strerror(errno), kInstead));
  }
  const bool held = ftruncate(fd->get(), 0) != 0;
  return held ? Works(kName, true, "memfd, sealed against shrinking and growing")
              : Fails(kName, true, fmt::format("a sealed memfd could be shrunk: {}", kInstead));
}

Finding ProbeHugePages() {
  constexpr const char* kName = "huge pages for images";
  const absl::StatusOr<int> error = ErrorOfAdvice(kMadvCollapse);
  if (!error.ok()) return Unknown(kName, std::string(MessageOf(error.status())));
  if (*error == 0) return Works(kName, false, "MADV_COLLAPSE makes them without privilege");
  return Fails(kName, false,
               fmt::format("MADV_COLLAPSE: {}: images use small pages, and a copy into them takes longer",
                           *error == EINVAL ? "this kernel does not have it (6.1 does)" : std::strerror(*error)));
}

Finding ProbeTouching() {
  constexpr const char* kName = "images touched at once";
  const absl::StatusOr<int> error = ErrorOfAdvice(kMadvPopulateWrite);
  if (!error.ok()) return Unknown(kName, std::string(MessageOf(error.status())));
  if (*error == 0) return Works(kName, false, "MADV_POPULATE_WRITE");
  return Fails(kName, false,
               fmt::format("MADV_POPULATE_WRITE: {}: new images are filled with zeros by writing instead",
                           *error == EINVAL ? "this kernel does not have it (5.14 does)" : std::strerror(*error)));
}

Finding ProbeUring(bool daemon_lacks_it) {
  const absl::Status status = ProbeIoUring();
  if (status.ok() && !daemon_lacks_it) return Works("io_uring", false, "for the cache and the prefix");
  return Fails("io_uring", false,
               fmt::format("{}: a few threads read and write instead",
                           status.ok() ? "refused to the daemon, not to this command" : MessageOf(status)));
}

Finding ProbeMd5() {
  const std::string engine(Md5Engine());
  if (engine != "openssl") {
    return Works("parallel MD5", false, fmt::format("{}: {} streams at once", engine, engine == "avx512" ? 16 : 8));
  }
  return Fails(
      "parallel MD5", false,
      "this processor has neither AVX-512 nor AVX2: OpenSSL hashes one stream at a time, some 0.7 GB/s a core");
}

Finding ProbeCopy() {
  const std::string stores = lc_copy_way_here()->name;
  if (stores != "memcpy") return Works("copies past the caches", false, fmt::format("by {} stores", stores));
  return Fails("copies past the caches", false,
               "libcairn has no such stores for this processor: it copies by memcpy, which takes the caches from the "
               "application");
}

// As the daemon does with each image.
Finding ProbePinnedMemory() {
  constexpr const char* kName = "pinned images";
  constexpr std::size_t kTried = 64 << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return Fails(kName, false, std::strerror(errno));
  const std::string may =
      limit.rlim_cur == RLIM_INFINITY ? "no limit" : fmt::format("limit {} (ulimit -l)", Bytes(limit.rlim_cur));
  const absl::Status status = ProbePinning(kTried);
  if (status.ok()) return Works(kName, false, "for the disk of the cache; locked memory: " + may);
  return Fails(kName, false,
               fmt::format("{}; locked memory: {}: the kernel looks for their pages at each transfer instead",
                           MessageOf(status), may));
}

Finding ProbePeerCredentials() {
  constexpr const char* kName = "peer credentials";
  int pair[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return Fails(kName, true, std::strerror(errno));
  const UniqueFd ours(pair[0]), theirs(pair[1]);
  ucred who{};
  socklen_t bytes = sizeof(who);
  if (getsockopt(ours.get(), SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == geteuid()) {
    return Works(kName, true, "SO_PEERCRED tells who connects");
  }
  return Fails(kName, true, "SO_PEERCRED does not tell who connects: the daemon would refuse every client");
}

Finding ProbeWritable(Disk& disk, const std::string& name, const std::string& directory) {
  const std::string place = ExistingPart(directory);
  const std::string path = WorkName(place + "/cairn-doctor");
  const absl::Status status = WriteSyncCreateRename(disk, path);
  if (!status.ok()) {
    disk.Remove(path).IgnoreError();  // it may not be there
    return Fails(name, true, fmt::format("{}: {}", directory, MessageOf(status)));
  }
  std::string detail = place == directory ? directory : fmt::format("{} (will be made in {})", directory, place);
  if (const auto free = disk.FreeBytes(place); free.ok()) detail += fmt::format(", {} free", Bytes(*free));
  return Works(name, true, detail);
}

Finding ProbePrefix(Disk& disk, const std::string& directory) {
  Finding finding = ProbeWritable(disk, "prefix", directory);
  if (!finding.works) return finding;
  const auto way = ProbeCreation(disk, ExistingPart(directory));
  if (!way.ok()) return Fails("prefix", true, fmt::format("{}: {}", directory, MessageOf(way.status())));
  finding.creation = fmt::format("by {}", NameOf(*way));
  finding.detail += fmt::format("; exclusive creation: {}", finding.creation);
  return finding;
}

Finding ProbeInodes(Disk& disk, const std::string& directory) {
  constexpr const char* kName = "inodes of the prefix";
  constexpr const char* kInstead = "a copy of the run's directory is told from it by its path";
  const auto type = disk.FileSystemType(ExistingPart(directory));
  if (!type.ok()) return Fails(kName, false, fmt::format("{}: {}", directory, MessageOf(type.status())));
  const FileSystemKind* const kind = FindFileSystemKind(*type);
  Finding finding = InodesCount(*type) ? Works(kName, false, {}) : Fails(kName, false, {});
  finding.file_system = kind == nullptr ? fmt::format("{:#x}", *type) : std::string(kind->name);
  finding.told_by = finding.works ? "inode" : "path";
  if (finding.works) {
    finding.detail = fmt::format("{}: a copy of the run's directory is told from it by inode", kind->name);
  } else if (kind != nullptr) {
    finding.detail = fmt::format("{}: {}: {}", kind->name, kind->why, kInstead);
  } else {
    finding.detail = fmt::format("file system of kind {}, which is not known: {}", finding.file_system, kInstead);
  }
  return finding;
}

Finding ProbeRedundant(Disk& disk, const std::string& directory, const std::string& cache, bool apart) {
  constexpr const char* kName = "redundant.path";
  constexpr const char* kInstead = "nothing becomes `redundant` there";
  const auto real = disk.RealPath(directory);
  if (!real.ok()) {
    return Fails(kName, false, fmt::format("{}: is it mounted? {}: {}", directory, MessageOf(real.status()), kInstead));
  }
  Finding finding = ProbeWritable(disk, kName, *real);
  finding.needed = false;
  const auto type = disk.FileSystemType(*real);
  if (!finding.works || !type.ok()) return finding;
  const FileSystemKind* const kind = FindFileSystemKind(*type);
  finding.detail += fmt::format(", {}", kind == nullptr ? fmt::format("kind {:#x}", *type) : std::string(kind->name));
  const auto there = disk.Info(*real), of_cache = disk.Info(ExistingPart(cache)), root = disk.Info("/");
  if (!there.ok() || !of_cache.ok() || !root.ok()) return finding;
  const bool beside_cache = there->device == of_cache->device;
  if (!beside_cache && there->device != root->device) return finding;
  finding.works = !apart;
  finding.detail += fmt::format("; it is on the device of {}: is it mounted? It protects from nothing{}",
                                beside_cache ? "the cache" : "/", apart ? ", and is not used" : "");
  return finding;
}

std::string FileSystemTable() {
  std::string by_inode, by_path;
  for (const FileSystemKind& kind : FileSystemKinds()) {
    if (kind.inodes_count) {
      by_inode += fmt::format("{}{}", by_inode.empty() ? "" : ", ", kind.name);
    } else {
      by_path += fmt::format("    {:<10}  {}\n", kind.name, kind.why);
    }
  }
  return fmt::format(
      "A copy of a run's directory is a run of its own. It is told from the original\n"
      "  by inode, where a directory has one number on all nodes and keeps it:\n"
      "    {}\n"
      "  by path, as each node sees it, elsewhere:\n{}"
      "    and all other kinds",
      by_inode, by_path);
}

Finding ProbeDirectIo(Disk& disk, const std::string& name, const std::string& directory) {
  constexpr const char* kInstead =
      "transfers go through the page cache, which competes with the application for memory";
  const std::string path = WorkName(ExistingPart(directory) + "/cairn-doctor");
  const absl::StatusOr<bool> direct = WriteDirect(disk, path);
  disk.Remove(path).IgnoreError();  // it may not be there
  if (!direct.ok()) return Unknown(name, std::string(MessageOf(direct.status())));
  if (!*direct) return Fails(name, false, fmt::format("the file system of {} has none: {}", directory, kInstead));
  return Works(name, false, "O_DIRECT");
}

Finding ProbeHanding(Disk& disk, const std::string& directory) {
  constexpr const char* kName = "restores straight into memory";
  const std::string path = WorkName(ExistingPart(directory) + "/cairn-doctor");
  const absl::Status made = disk.Open(path, {.writable = true, .create = true, .exclusive = true}).status();
  const absl::StatusOr<HandedFile> handed = made.ok() ? disk.OpenForHanding(path) : made;
  disk.Remove(path).IgnoreError();  // it may not be there
  if (absl::IsFailedPrecondition(handed.status())) {
    return Fails(
        kName, false,
        fmt::format("{} has no direct I/O, or is of no disk of this machine: all goes through the daemon", directory));
  }
  if (!handed.ok()) return Unknown(kName, std::string(MessageOf(handed.status())));
  return Works(kName, false,
               fmt::format("of variables at addresses that are multiples of {} bytes", handed->memory_alignment));
}

Finding ProbePriorities(Disk& disk, const std::string& name, const std::string& directory, bool measured) {
  const auto info = disk.Info(ExistingPart(directory));
  const auto scheduler = info.ok() ? IoSchedulerOf(info->device) : absl::StatusOr<std::string>(info.status());
  if (!scheduler.ok()) {
    return Unknown(name, fmt::format("cannot be told here: {}", MessageOf(scheduler.status())));
  }
  const char* const low = measured ? "drains, and measurements of the disk," : "drains";
  if (*scheduler == "bfq") return Works(name, false, fmt::format("bfq lets {} give way to other transfers", low));
  if (*scheduler == "mq-deadline") {
    return Fails(name, false,
                 fmt::format("mq-deadline heeds classes only, and these since Linux 5.14: {}drains do not give way",
                             measured ? "measurements of the disk give way there, " : ""));
  }
  return Fails(name, false,
               fmt::format("scheduler {} heeds none: {} are as urgent as other transfers", *scheduler, low));
}

Finding ProbeReserved(Disk& disk, const std::string& directory) {
  constexpr const char* kName = "reserved blocks in the cache";
  const std::string path = WorkName(ExistingPart(directory) + "/cairn-doctor");
  const absl::StatusOr<bool> reserved = ReserveBlocks(disk, path);
  disk.Remove(path).IgnoreError();  // it may not be there
  if (!reserved.ok()) return Unknown(kName, std::string(MessageOf(reserved.status())));
  if (*reserved) return Works(kName, false, "fallocate");
  return Fails(kName, false,
               fmt::format("fallocate gives none in {}: writes beyond a file's end wait for each other, and may find "
                           "the disk full",
                           directory));
}

Finding ProbeShared(Disk& disk, const std::string& directory) {
  constexpr const char* kName = "shared extents in the cache";
  const std::string path = WorkName(ExistingPart(directory) + "/cairn-doctor"), clone = path + ".clone";
  absl::Status status = CreateFileOnce(disk, path, "cairn");
  if (status.ok()) status = disk.Clone(path, clone);
  disk.Remove(path).IgnoreError();   // it may not be there
  disk.Remove(clone).IgnoreError();  // nor this one
  if (status.ok()) return Works(kName, false, "each file of a checkpoint begins as a clone of the one before it");
  if (!absl::IsFailedPrecondition(status)) return Unknown(kName, std::string(MessageOf(status)));
  return Fails(kName, false,
               fmt::format("the file system of {} has none: files of checkpoints that leave the cache are written over "
                           "instead",
                           directory));
}

Finding TellTransfers(const admin::CacheTransfers& told) {
  const auto shape = [](const admin::CacheTransfers::Shape& of, std::uint64_t speed) {
    return fmt::format("{} x {}{}", Bytes(of.bytes()), of.depth(),
                       speed == 0 ? std::string() : fmt::format(" ({:.1f} GB/s)", static_cast<double>(speed) / 1e9));
  };
  const bool compared = told.measured_us() != 0 && told.compared();
  std::string detail = fmt::format("writes of {}, reads of {}", shape(told.write(), compared ? told.write_speed() : 0),
                                   shape(told.read(), compared ? told.read_speed() : 0));
  if (told.measured_us() != 0) {
    detail += fmt::format(", measured {}", LocalTime(told.measured_us()));
    if (!compared) detail += ": the disk is slow or was busy, so that sizes and depths were not compared";
  }
  if (!told.why_not_measured().empty()) detail += fmt::format("; {}", told.why_not_measured());
  const bool works = told.measured_us() != 0;
  return works ? Works(kTransfers, false, std::move(detail)) : Fails(kTransfers, false, std::move(detail));
}

Finding FindTransfers(Disk& disk, const std::string& cache, const Config::Cache& settings) {
  const std::string path = DiskRecordPath(cache, UserName());
  const auto record = ReadDiskRecord(disk, path);
  std::string why_not = WhyNotMeasured(settings);
  if (why_not.empty() && record.ok()) {
    const auto device = IdentifyDevice(disk, ParentOf(path));
    const absl::Status counts = device.ok() ? CheckCounts(*record, *device, NowMicros()) : device.status();
    if (!counts.ok()) why_not = MessageOf(counts);
  }
  const bool used = why_not.empty() && record.ok();
  if (!used && record.ok()) {
    why_not += fmt::format(": what was measured {} is not used", LocalTime(record->measured_us));
  } else if (!used && why_not.empty() && !absl::IsNotFound(record.status())) {
    why_not = MessageOf(record.status());
  } else if (!used && why_not.empty()) {
    why_not = "not measured yet: a daemon does it once it has written nothing for 10 s";
  }
  admin::CacheTransfers told;
  const TransferShapes shapes = WithSettings(settings, used ? record->shapes : TransferShapes());
  told.mutable_write()->set_bytes(shapes.write.bytes);
  told.mutable_write()->set_depth(shapes.write.depth);
  told.mutable_read()->set_bytes(shapes.read.bytes);
  told.mutable_read()->set_depth(shapes.read.depth);
  told.set_why_not_measured(why_not);
  if (used) {
    told.set_measured_us(record->measured_us);
    told.set_compared(record->compared);
    told.set_write_speed(record->write_speed);
    told.set_read_speed(record->read_speed);
  }
  return TellTransfers(told);
}

Finding ProbePersistence(const std::string& directory) {
  constexpr const char* kName = "cache survives a reboot";
  struct statfs info {};
  if (statfs(ExistingPart(directory).c_str(), &info) != 0) return Fails(kName, false, std::strerror(errno));
  const auto type = static_cast<std::uint64_t>(info.f_type);
  if (type == TMPFS_MAGIC || type == RAMFS_MAGIC) {
    return Fails(kName, false, directory + " lies in memory: level `local` then survives the daemon, but no reboot");
  }
  return Works(kName, false, "it lies on a disk");
}

}  // namespace cairn::cli

#include "storage/io/file_system_kind.h"

#include <linux/magic.h>

#include <algorithm>
#include <array>

namespace cairn {
namespace {

// Those that <linux/magic.h> does not have.
constexpr std::uint64_t kBeegfs = 0x19830326;  // BEEGFS_MAGIC in BeeGFS's client_module, FhgfsOpsSuper.h
constexpr std::uint64_t kGpfs = 0x47504653;    // "GPFS"; GPFS_SUPER_MAGIC in ROMIO's and in coreutils' (stat.c) lists
constexpr std::uint64_t kLustre = 0x0BD00BD0;  // LL_SUPER_MAGIC in lustre_user.h
constexpr std::uint64_t kVboxsf = 0x786F4256;  // VBOXSF_SUPER_MAGIC in fs/vboxsf/super.c of the kernel
constexpr std::uint64_t kZfs = 0x2FC12FC1;     // ZFS_SUPER_MAGIC of OpenZFS

constexpr std::string_view kSmbWhy = "the client makes numbers up where the server gives none";
constexpr std::string_view kFatWhy = "it keeps no numbers: each mount makes them up";  // iunique() in fs/fat, fs/exfat

// NFS shows the fileid of the server, Lustre a function of the FID, CephFS and GPFS their own number. A client of
// BeeGFS hashes the entry ID, by a function that is the same on all nodes unless sysInodeIDStyle differs between them.
// A snapshot of Btrfs or ZFS has the numbers, and the birth times, of what it is a snapshot of.
constexpr auto kKinds = std::to_array<FileSystemKind>({
    {.type = EXT4_SUPER_MAGIC, .name = "ext2/3/4", .inodes_count = true},
    {.type = XFS_SUPER_MAGIC, .name = "XFS", .inodes_count = true},
    {.type = BTRFS_SUPER_MAGIC, .name = "Btrfs", .inodes_count = true},
    {.type = kZfs, .name = "ZFS", .inodes_count = true},
    {.type = F2FS_SUPER_MAGIC, .name = "F2FS", .inodes_count = true},
    {.type = TMPFS_MAGIC, .name = "tmpfs", .inodes_count = true},
    {.type = NFS_SUPER_MAGIC, .name = "NFS", .inodes_count = true},
    {.type = kLustre, .name = "Lustre", .inodes_count = true},
    {.type = kGpfs, .name = "GPFS", .inodes_count = true},
    {.type = CEPH_SUPER_MAGIC, .name = "CephFS", .inodes_count = true},
    {.type = kBeegfs, .name = "BeeGFS", .inodes_count = true},
    // Documentation/filesystems/overlayfs.rst of the kernel, "Inode properties".
    {.type = OVERLAYFS_SUPER_MAGIC, .name = "overlayfs", .why = "a directory may have another number after a mount"},
    {.type = FUSE_SUPER_MAGIC, .name = "FUSE", .why = "the process that serves it may make numbers up"},
    {.type = V9FS_MAGIC, .name = "9P", .why = "the host may make numbers up"},
    {.type = SMB_SUPER_MAGIC, .name = "SMB", .why = kSmbWhy},
    {.type = SMB2_SUPER_MAGIC, .name = "SMB2", .why = kSmbWhy},  // "noserverino" in mount.cifs(8)
    {.type = CIFS_SUPER_MAGIC, .name = "CIFS", .why = kSmbWhy},
    {.type = kVboxsf, .name = "vboxsf", .why = "the client numbers files as it meets them"},
    {.type = MSDOS_SUPER_MAGIC, .name = "FAT", .why = kFatWhy},
    {.type = EXFAT_SUPER_MAGIC, .name = "exFAT", .why = kFatWhy},
});

}  // namespace

std::span<const FileSystemKind> FileSystemKinds() {
  return kKinds;
}

const FileSystemKind* FindFileSystemKind(std::uint64_t type) {
  const auto found = std::ranges::find(kKinds, type, &FileSystemKind::type);
  return found == kKinds.end() ? nullptr : &*found;
}

bool InodesCount(std::uint64_t type) {
  const FileSystemKind* const kind = FindFileSystemKind(type);
  return kind != nullptr && kind->inodes_count;
}

}  // namespace cairn

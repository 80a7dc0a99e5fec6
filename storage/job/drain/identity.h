// By what a drain tells that a file is still the one that it has seen. Pure.
#ifndef CAIRN_STORAGE_JOB_DRAIN_IDENTITY_H_
#define CAIRN_STORAGE_JOB_DRAIN_IDENTITY_H_

#include <cstdint>

#include "storage/io/disk.h"

namespace cairn::drain {

inline std::int64_t Nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// One folder or file under two names, or two mounts, has one of these.
struct Place {
  std::uint64_t device = 0, inode = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

inline Place PlaceOf(const FileInfo& info) {
  return {.device = info.device, .inode = info.inode};
}

// Whoever writes to a file, or sets its times, moves ctime, which nobody can set.
struct Identity {
  std::uint64_t inode = 0, bytes = 0;
  std::int64_t mtime_ns = 0, ctime_ns = 0;

  friend bool operator==(const Identity&, const Identity&) = default;
  // The same content, also if names were added or taken away since, which moves ctime.
  bool SameContent(const Identity& other) const {
    return inode == other.inode && bytes == other.bytes && mtime_ns == other.mtime_ns;
  }
};

inline Identity IdentityOf(const FileInfo& info) {
  return {.inode = info.inode,
          .bytes = info.bytes,
          .mtime_ns = Nanoseconds(info.mtime),
          .ctime_ns = Nanoseconds(info.ctime)};
}

// A file at the target, as it was when a drain had made it, or had found it.
struct Made {
  std::uint64_t inode = 0, bytes = 0;
  std::int64_t mtime_ns = 0;  // as the target keeps it, which may be coarser than what was asked for
  friend bool operator==(const Made&, const Made&) = default;
};

inline Made MadeOf(const FileInfo& info) {
  return {.inode = info.inode, .bytes = info.bytes, .mtime_ns = Nanoseconds(info.mtime)};
}

}  // namespace cairn::drain

#endif  // CAIRN_STORAGE_JOB_DRAIN_IDENTITY_H_

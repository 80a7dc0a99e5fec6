// META: what is known of one file of a dataset. SCR specification, sections 4 and 13. Pure.
//
// Whole, as a structure, or field by field in the tree of a record: meta::Set, Get and Check, in the manner of SCR's
// own operations. Fields may be absent, unknown ones are kept.
#ifndef CAIRN_STORAGE_FORMAT_SCR_META_H_
#define CAIRN_STORAGE_FORMAT_SCR_META_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <ctime>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/fields.h"

namespace cairn::scr {

// The application's own, or, of older versions that listed them beside it, redundancy data.
enum class FileType : std::uint8_t { kFull, kPartner, kXor };

// Strings: empty is absent.
struct Meta {
  FileType type = FileType::kFull;
  std::string original;   // ORIG, as the application passed it; not checked
  std::string directory;  // PATH: in the prefix
  std::string name;       // NAME: the last component
  std::uint32_t ranks = 0;
  bool complete = false;
  std::uint64_t bytes = 0;
  std::uint32_t mode = 0;
  std::uint32_t uid = 0, gid = 0;
  timespec atime{}, mtime{}, ctime{};
  std::optional<std::uint32_t> crc32;
  std::optional<DatasetId> dataset;  // CKPT
  std::optional<Rank> rank;          // that wrote it
};

// Writes META under both namings: SCR 3.1's, and ORIGPATH, ORIGNAME and TYPE of the older ones beside them, which 3.1
// ignores. Keys of absent fields are removed, unknown ones stay.
void PutMeta(const Meta& meta, kvtree::Tree& tree);

// SIZE, MODE, UID, GID and the times: what a redundancy header keeps of a file, too.
void PutStat(const Meta& meta, kvtree::Tree& tree);

// The same, read: absent ones keep what `meta` has. kDataLoss: no such number, or out of range.
absl::Status TakeStat(const kvtree::Tree& tree, Meta& meta);

// Absent fields keep their defaults; ORIGPATH and ORIGNAME serve where PATH and NAME are missing.
//   kDataLoss  a field is no such number or out of range, TYPE no such word, PATH is not absolute or leads upwards,
//   NAME
//              is no base name
absl::StatusOr<Meta> GetMeta(const kvtree::Tree& tree);

// Whether a cached file that has `bytes` on disk is good, by SCR's rule: the caller found it readable, COMPLETE is 1,
// and SIZE that of the file.
//   kFailedPrecondition  it was never completed
//   kDataLoss            its size is another
absl::Status CheckCached(const Meta& meta, std::uint64_t bytes);

namespace meta {

// How a field is written.
enum class Form : std::uint8_t { kPlain, kCrc32, kDirectory, kBaseName };

template <typename T>
struct Field {
  std::string_view key;
  std::string_view second = {};  // of a string: its older name; of a time: that of the nanoseconds
  std::uint64_t max = std::numeric_limits<std::uint32_t>::max();  // of a number
  Form form = Form::kPlain;
};

inline constexpr Field<std::string> kFile{"FILE"};  // older: the file's own name, in the cache
inline constexpr Field<FileType> kType{"TYPE"};     // older
inline constexpr Field<std::string> kOrig{"ORIG"};
inline constexpr Field<std::string> kPath{"PATH", "ORIGPATH", 0, Form::kDirectory};
inline constexpr Field<std::string> kName{"NAME", "ORIGNAME", 0, Form::kBaseName};
inline constexpr Field<std::uint32_t> kRanks{"RANKS", {}, kIntMax};
inline constexpr Field<Rank> kRank{"RANK", {}, kIntMax};
inline constexpr Field<DatasetId> kCheckpoint{"CKPT", {}, kIntMax};
inline constexpr Field<bool> kComplete{"COMPLETE"};
inline constexpr Field<std::uint64_t> kSize{"SIZE", {}, std::numeric_limits<std::int64_t>::max()};
inline constexpr Field<std::uint32_t> kCrc{"CRC", {}, 0, Form::kCrc32};
inline constexpr Field<std::uint32_t> kMode{"MODE", {}, kIntMax};
inline constexpr Field<std::uint32_t> kUid{"UID"};
inline constexpr Field<std::uint32_t> kGid{"GID"};
inline constexpr Field<timespec> kAtime{"ATIME_SECS", "ATIME_NSECS"};
inline constexpr Field<timespec> kCtime{"CTIME_SECS", "CTIME_NSECS"};
inline constexpr Field<timespec> kMtime{"MTIME_SECS", "MTIME_NSECS"};

// A string under both its names. Nothing is checked; what Get would refuse is for the caller not to set.
template <typename T>
void Set(const Field<T>& field, const std::type_identity_t<T>& value, kvtree::Tree& tree);

//   kNotFound  absent (a time: if its seconds are), or an empty PATH or NAME
//   kDataLoss  as GetMeta; the message names the key
template <typename T>
absl::StatusOr<T> Get(const Field<T>& field, const kvtree::Tree& tree);

// Whether the field is there and has this value.
template <typename T>
bool Check(const Field<T>& field, const std::type_identity_t<T>& value, const kvtree::Tree& tree) {
  const absl::StatusOr<T> found = Get(field, tree);
  if (!found.ok()) return false;
  if constexpr (std::is_same_v<T, timespec>) {
    return found->tv_sec == value.tv_sec && found->tv_nsec == value.tv_nsec;
  } else {
    return *found == value;
  }
}

}  // namespace meta

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_FORMAT_SCR_META_H_

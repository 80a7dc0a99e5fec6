// Files of a BP5 directory that grow under their final names. Used by storage/file/bpdir/ only. Calls block.
#ifndef CAIRN_STORAGE_FILE_BPDIR_APPEND_H_
#define CAIRN_STORAGE_FILE_BPDIR_APPEND_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/io/disk.h"

namespace cairn::bpdir {

// May so many bytes more go? Waits as long as a limit wants; false: everything is to stop (kCancelled).
using Allowance = std::function<bool(std::uint64_t bytes)>;

// Where a directory is, and where it goes. The disks are borrowed.
struct Ends {
  Disk& source;
  std::string from;
  Disk& target;
  std::string to;
};

// md.idx, md.0, mmd.0, data.<k>, profiling.json.
bool IsOfDirectory(std::string_view name);
// The number of a data file, as DataName writes it; nullopt: it is none.
std::optional<std::uint32_t> SubfileOf(std::string_view name);
inline std::string DataName(std::uint32_t subfile) {
  return "data." + std::to_string(subfile);
}

inline constexpr std::uint64_t kIndexHeaderBytes = 64;
inline constexpr std::uint64_t kActiveFlagAt = 39;

absl::Status WriteSynced(File& file, std::uint64_t offset, std::string_view bytes);

// Appends records that become visible all at once; the u64 length of the first stands at `length_at` in them. Where the
// size of a file may be durable before its bytes are, a reader must find nothing complete behind `end` until all is:
// a beginning too short for a record's header, then a record that is much longer than the file. However the write of
// the true length is torn, what stands there is that or more. Less than the header of a record is just written.
absl::Status AppendAtOnce(File& file, std::uint64_t end, std::string_view records, std::size_t length_at);
// The same for records that are not held in memory: `head` is their first length_at + 8 bytes (all, if they are fewer),
// `write_rest` writes what comes behind it.
absl::Status AppendAtOnce(File& file, std::uint64_t end, std::string_view head, std::size_t length_at,
                          const std::function<absl::Status()>& write_rest);
inline constexpr std::size_t kLengthInIndex = 1, kLengthInFormats = 8;

// Sees every range before it is written to the target; may refuse it.
using Look = std::function<absl::Status(std::uint64_t offset, std::span<const std::byte> bytes)>;
// Copies [offset, end) of one file to the same place of the other. Nothing is synced.
absl::Status CopyRange(File& from, File& to, std::uint64_t offset, std::uint64_t end, const Allowance& allowance,
                       const Look& look = nullptr);

// The first place where two files differ, up to `end`, or `end`; of files that are shorter their end. Byte 39 of md.idx
// is passed over if `index`.
absl::StatusOr<std::uint64_t> FirstDifference(File& a, File& b, std::uint64_t end, bool index);

// Makes the file shorter, durably. Not longer than that already, or not there: nothing happens.
absl::Status CutFile(Disk& disk, const std::string& path, std::uint64_t bytes);

// Takes away a directory's files that others have left: what names the steps first, durably.
absl::Status ClearPlace(Disk& disk, const std::string& directory);

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_FILE_BPDIR_APPEND_H_

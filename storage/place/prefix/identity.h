// What lies in <prefix>/.cairn: the run's identity, its launches, the blocks of ids given out. Each is a file that is
// made once, complete, by an exclusive link, so that of any number of openers exactly one makes it; numbers only grow,
// and a listing decides which is the newest. Calls block on disk. Stateless, hence thread-safe.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_IDENTITY_H_
#define CAIRN_STORAGE_PLACE_PREFIX_IDENTITY_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "storage/base/ids.h"
#include "storage/io/disk.h"

namespace cairn {

struct LaunchRecord {
  LaunchId id = 0;
  std::string key;
  std::uint32_t nranks = 0;
  std::string secret;  // 32 random bytes: session tokens are made from it
  std::string host;    // of the daemon that made it
  std::int64_t created_us = 0;
};

// [first, first + count)
struct IdBlock {
  DatasetId first = 0;
  std::uint64_t count = 0;
};

}  // namespace cairn

namespace cairn::identity {

// SCR keeps ids in an int, and so does FTI: none above is given out, and what is named so is not a dataset's.
inline constexpr DatasetId kDatasetIdMax = 0x7fffffff;
inline constexpr std::uint64_t kIdBlock = 64;  // block n holds the ids n * 64 + 1 … (n + 1) * 64

std::string FolderOf(const std::string& prefix);  // <prefix>/.cairn

// The folder is there, a directory, the caller's own and closed to others; made if need be.
absl::Status MakeFolder(Disk& disk, const std::string& prefix);

// kNotFound: none; kDataLoss: the file holds something else.
absl::StatusOr<RunId> ReadRun(Disk& disk, const std::string& prefix);
// Makes it if there is none.
absl::StatusOr<RunId> MakeRun(Disk& disk, const std::string& prefix);

absl::StatusOr<std::optional<LaunchRecord>> NewestLaunch(Disk& disk, const std::string& prefix);
absl::StatusOr<LaunchRecord> FindLaunch(Disk& disk, const std::string& prefix, LaunchId id);
absl::StatusOr<LaunchRecord> MakeLaunch(Disk& disk, const std::string& prefix, std::string_view key,
                                        std::uint32_t nranks);

// The next block above `above`, the blocks there are, and the folders of datasets.
absl::StatusOr<IdBlock> ReserveIds(Disk& disk, const std::string& prefix, DatasetId above);

}  // namespace cairn::identity

#endif  // CAIRN_STORAGE_PLACE_PREFIX_IDENTITY_H_

// What lies aside in a run's folder: what was found damaged, and whole datasets whose number another one has now.
// Nobody uses it any more. Calls block on disk. Stateless.
#ifndef CAIRN_STORAGE_PLACE_CACHE_ASIDE_H_
#define CAIRN_STORAGE_PLACE_CACHE_ASIDE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"

namespace cairn {

struct Aside {
  enum class Kind : std::uint8_t {
    kDamaged,  // damaged.<id>.<n>; of a record <record>.damaged.<n>
    kInPlace,  // scr.dataset.<id>, in which a file was found damaged: the next start, or fetch, makes it kDamaged
    kTaken,    // taken.<id>.<n>: whole, and perhaps the only copy
    kGoing,    // removed.<n>: its removal has begun
  };
  Kind kind = Kind::kDamaged;
  std::string name;           // in the run's folder
  DatasetId dataset = 0;      // 0: it is a record, or not known any more
  std::uint64_t bytes = 0;    // of all files in it
  std::int64_t since_us = 0;  // since the epoch, by the file system's clock: a rename changes the ctime

  bool damaged() const { return kind == Kind::kDamaged || kind == Kind::kInPlace; }
};

// The stems of <stem><id>.<n>, and of removed.<n>.
inline constexpr std::string_view kDamagedStem = "damaged.";
inline constexpr std::string_view kTakenStem = "taken.";
inline constexpr std::string_view kGoingStem = "removed.";

// What a name in a run's folder says: all but kInPlace, size and time. A name that no call here gives is none.
std::optional<Aside> AsideOf(std::string_view name);

// All that lies in folder `path`, whose index has `entries`, oldest first. What of it cannot be read has no bytes.
// Errors are the disk's, for the folder as a whole.
absl::StatusOr<std::vector<Aside>> FindAsides(Disk& disk, const std::string& path,
                                              const std::map<DatasetId, scr::CacheEntry>& entries);

// From now on it is kGoing, durably; answers where it is. kNotFound: it is not there.
absl::StatusOr<std::string> MarkGoing(Disk& disk, const std::string& path, const Aside& aside);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_ASIDE_H_

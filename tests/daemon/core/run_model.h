// What was promised of one run, as plainly as it can be said: which ranks have handed over their bytes of which
// dataset, which level was answered, what has happened to its copies since. From that follows what must still be there,
// what may be gone, and which bytes a restore gives back. It knows nothing of how the daemon does it.
#ifndef CAIRN_TESTS_DAEMON_CORE_RUN_MODEL_H_
#define CAIRN_TESTS_DAEMON_CORE_RUN_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proto/local.pb.h"
#include "storage/base/ids.h"
#include "tests/daemon/core/fake_client.h"

namespace cairn {

inline constexpr std::uint32_t kModelRanks = 4;

// Whose bytes these are: no two of them have the same.
struct Written {
  std::uint32_t run = 0;
  std::uint32_t launch = 0;  // the test's own count
  std::uint64_t step = 0;
  std::uint32_t attempt = 1;
  bool files = false, checkpoint = true, output = false;
  bool operator==(const Written&) const = default;
};

Memory MemoryOf(const Written& written, Rank rank);
// The application's files: one of a name that is its own, one that other datasets may write, too.
std::map<std::string, std::string> FilesOf(const Written& written, Rank rank);

class RunModel {
 public:
  explicit RunModel(std::uint32_t keep_last) : keep_last_(keep_last) {}

  struct Dataset {
    Written written;
    std::set<Rank> handed_over = {};  // perhaps: the daemon may not have heard of it
    local::Level promised = local::NONE;
    bool pinned = false;
    bool hurt_in_cache = false, hurt_on_prefix = false, removed = false;
    bool left = false;  // perhaps: the prefix, before it was pinned

    bool perhaps_whole() const { return handed_over.size() == kModelRanks; }
  };

  // --- What happens ---
  void Opened(LaunchId launch) { newest_launch_ = std::max(newest_launch_, launch); }
  void Begun(DatasetId id, const Written& written);
  void HandsOver(DatasetId id, Rank rank) { datasets_[id].handed_over.insert(rank); }
  void Told(DatasetId id, local::Level level);
  void ToldGone(DatasetId id, const std::string& how);
  void Pinned(DatasetId id, bool pinned);
  void Removed(DatasetId id) { datasets_[id].removed = true; }
  void HurtInCache(DatasetId id, bool bases_too);
  void CacheLost();
  void HurtOnPrefix(DatasetId id) { datasets_[id].hurt_on_prefix = true; }

  // --- What follows ---
  const std::map<DatasetId, Dataset>& datasets() const { return datasets_; }
  const Dataset* Find(DatasetId id) const;
  bool MustBeThere(DatasetId id) const;
  // From here on all that it sends is refused.
  bool IsFenced(LaunchId launch) const { return launch < newest_launch_; }
  DatasetId LatestAtLeast() const;  // 0: there may be none
  bool anything_hurt() const;

  // What was not as promised; empty: all was.
  const std::vector<std::string>& violations() const { return violations_; }
  void Violated(std::string what) { violations_.push_back(std::move(what)); }

 private:
  bool HasHeir(DatasetId id) const;
  bool MayHaveLeftPrefix(DatasetId id) const;

  const std::uint32_t keep_last_;
  LaunchId newest_launch_ = 0;  // of which a rank was let in
  std::map<DatasetId, Dataset> datasets_;
  std::vector<std::string> violations_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_RUN_MODEL_H_

#include "storage/place/cache/node_life.h"

#include <algorithm>
#include <limits>

#include "storage/base/clock.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"

namespace cairn {
namespace {

constexpr std::uint64_t kLifeMax = std::numeric_limits<std::int64_t>::max();

// 0: none that can be believed.
absl::StatusOr<std::uint64_t> LastLife(Disk& disk, const std::string& path) {
  const auto tree = ReadTreeOnce(disk, path);
  if (absl::IsNotFound(tree.status()) || absl::IsDataLoss(tree.status())) return 0;
  if (!tree.ok()) return tree.status();
  const auto version = tree->GetUnsigned("VERSION");
  if (version.ok() && *version != 1) {
    return FailedPrecondition("{}: VERSION {}, this program knows 1", path, *version);
  }
  const auto last = tree->GetUnsigned("LIFE");
  return version.ok() && last.ok() && *last < kLifeMax ? *last : 0;
}

}  // namespace

absl::StatusOr<std::uint64_t> BeginLife(Disk& disk, const std::string& cache, std::string_view user,
                                        std::vector<std::string>* warnings) {
  const std::string path = fmt::format("{}/{}/life.cairn", cache, user);
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t last, LastLife(disk, path));
  const std::uint64_t life = std::max(last + 1, static_cast<std::uint64_t>(std::max<std::int64_t>(NowMicros(), 1)));
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("LIFE", life);
  const absl::Status written = ReplaceTree(disk, path, tree);
  if (absl::IsResourceExhausted(written)) {
    warnings->push_back(fmt::format("{}: other nodes tell this life from the last one by the clock alone: {}", path,
                                    MessageOf(written)));
  } else {
    CAIRN_RETURN_IF_ERROR(written);
  }
  return life;
}

}  // namespace cairn

// A run's folder on a disk in memory, and datasets to put into it.
#ifndef CAIRN_TESTS_STORAGE_PLACE_CACHE_CACHE_FOLDER_FIXTURE_H_
#define CAIRN_TESTS_STORAGE_PLACE_CACHE_CACHE_FOLDER_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/cache/cache_folder.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {

inline constexpr auto kAlreadyExists = absl::StatusCode::kAlreadyExists;
inline constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
inline constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
inline constexpr auto kPermissionDenied = absl::StatusCode::kPermissionDenied;
inline constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;

class CacheFolderTest : public ::testing::Test {
 protected:
  std::unique_ptr<CacheFolder> Open(const RunId& run = TestRun()) {
    auto folder = CacheFolder::Open(disk_, "/ssd", "alice", "demo", run, "/pfs/demo");
    EXPECT_OK(folder.status());
    return folder.ok() ? *std::move(folder) : nullptr;
  }

  static std::string ContentOf(DatasetId id, Rank rank) { return TestContent(100 * id + rank, 5000 + rank); }

  absl::Status CommitRank(CacheFolder& folder, DatasetId id, Rank rank, std::uint32_t nranks) {
    const std::string content = ContentOf(id, rank);
    const std::string work = folder.WorkPath(id, rank);
    CAIRN_RETURN_IF_ERROR(WriteTestFile(disk_, work, content));
    return folder.CommitRank(TestCatalogue(TestRun(), id, rank, nranks, content), work);
  }

  absl::Status WriteDataset(CacheFolder& folder, DatasetId id, std::uint32_t nranks = 2) {
    CAIRN_RETURN_IF_ERROR(folder.Begin(TestDescriptor(id, nranks)));
    for (Rank rank = 0; rank < nranks; ++rank) CAIRN_RETURN_IF_ERROR(CommitRank(folder, id, rank, nranks));
    return folder.Complete(TestDescriptor(id, nranks));
  }

  std::vector<DatasetId> WholeIds(const CacheLoad& load) {
    std::vector<DatasetId> ids;
    for (const auto& [id, dataset] : load.whole) ids.push_back(id);
    return ids;
  }

  bool Warned(const CacheLoad& load, std::string_view part) {
    for (const std::string& warning : load.warnings) {
      if (warning.find(part) != std::string::npos) return true;
    }
    return false;
  }

  kvtree::Tree TreeAt(const std::string& path) {
    const auto tree = ReadTree(disk_, path);
    EXPECT_OK(tree.status());
    return tree.ok() ? *tree : kvtree::Tree();
  }

  FakeDisk disk_;
};

using Ids = std::vector<DatasetId>;

}  // namespace cairn

#endif  // CAIRN_TESTS_STORAGE_PLACE_CACHE_CACHE_FOLDER_FIXTURE_H_

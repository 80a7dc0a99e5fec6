// Caches that SCR wrote, on a disk in memory, and a prefix to adopt them into.
#ifndef CAIRN_TESTS_STORAGE_JOB_ADOPT_ADOPT_SCR_FIXTURE_H_
#define CAIRN_TESTS_STORAGE_JOB_ADOPT_ADOPT_SCR_FIXTURE_H_

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/path.h"
#include "storage/file/transfer/transfer.h"
#include "storage/job/adopt/adopt_scr.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/file/redundancy/scr_cache.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {

using How = AdoptedScr::How;
using testing::FilesBelow;
using testing::GetBytes;
using testing::PutBytes;

inline constexpr char kPrefix[] = "/pfs/demo";
inline constexpr char kCache[] = "/cache";

inline std::map<std::string, std::string> TreeOf(Disk& disk, const std::string& path) {
  std::map<std::string, std::string> tree;
  for (const std::string& file : FilesBelow(disk, path)) tree[file] = GetBytes(disk, file);
  return tree;
}

class AdoptScrTest : public ::testing::Test {
 protected:
  // A fresh disk's worth of a scenario. `prefix`: SCR's prefix comes with it.
  bool Put(std::string_view scenario, bool prefix = false) {
    EXPECT_OK(RemoveTree(disk_, kCache));
    EXPECT_OK(RemoveTree(disk_, "/pfs"));
    notes_.clear();
    return testing::PutScenario(disk_, scenario, "nodes", kCache) &&
           (!prefix || testing::PutScenario(disk_, scenario, "pfs", "/pfs"));
  }
  static std::string Node(int node) { return fmt::format("{}/node{}", kCache, node); }
  static std::string Dataset(int node, int id) {
    return fmt::format("{}/alice/scr.4242/scr.dataset.{}", Node(node), id);
  }
  void LoseNode(int node) { ASSERT_OK(RemoveTree(disk_, Node(node))); }
  void Flip(const std::string& path, std::uint64_t byte) { disk_.FlipBit(path, byte * 8 + 3); }

  AdoptScrRequest Request() {
    AdoptScrRequest request;
    request.note = [this](const std::string& text) { notes_ += text + "\n"; };
    request.unverified = unverified_;
    return request;
  }
  absl::StatusOr<std::vector<AdoptedScr>> Adopt(const AdoptScrRequest& request,
                                                const std::string& prefix_path = kPrefix) {
    CAIRN_ASSIGN_OR_RETURN(const ScrCache cache, FindScrCache(disk_, {kCache}, ""));
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::Open(disk_, prefix_path));
    return AdoptScr(disk_, *prefix, cache, request);
  }
  absl::StatusOr<AdoptedScr> AdoptOne(std::optional<DatasetId> id = std::nullopt) {
    AdoptScrRequest request = Request();
    request.dataset = id;
    CAIRN_ASSIGN_OR_RETURN(const std::vector<AdoptedScr> adopted, Adopt(request));
    EXPECT_EQ(adopted.size(), 1u);
    return adopted.front();
  }
  std::map<DatasetId, CommittedDataset> Committed(const std::string& path = kPrefix) {
    const auto prefix = Prefix::Open(disk_, path);
    EXPECT_OK(prefix);
    auto committed = (*prefix)->Committed();
    EXPECT_OK(committed);
    return *std::move(committed);
  }
  // Every file where the application had it, with the bytes that it wrote.
  void ExpectWhole(const AdoptedScr& adopted, std::string_view name, std::uint32_t ranks, std::size_t files) {
    const auto prefix = Prefix::OpenReadOnly(disk_, kPrefix);
    ASSERT_OK(prefix);
    const auto committed = (*prefix)->Committed();
    ASSERT_OK(committed);
    ASSERT_TRUE(committed->contains(adopted.dataset)) << adopted.dataset;
    const scr::Descriptor& descriptor = committed->at(adopted.dataset).descriptor;
    EXPECT_EQ(descriptor.name, name);
    EXPECT_EQ(descriptor.launch, 0u);
    EXPECT_EQ(descriptor.ranks, ranks);
    EXPECT_EQ(descriptor.step, adopted.step);
    EXPECT_TRUE(descriptor.own_files);
    EXPECT_EQ(descriptor.user, "alice");
    const auto catalogues = (*prefix)->Catalogues(adopted.dataset);
    ASSERT_OK(catalogues);
    std::size_t count = 0;
    for (const catalogue::Catalogue& catalogue : *catalogues) {
      EXPECT_TRUE(catalogue.files());
      for (const catalogue::FileEntry& file : catalogue.file()) {
        ++count;
        ExpectFile(**prefix, file, name);
      }
    }
    EXPECT_EQ(count, files);
    EXPECT_FALSE(disk_.Info(fmt::format("{}/ckpt.{}/adopting", kPrefix, adopted.dataset)).ok()) << "was left";
  }
  void ExpectFile(const Prefix& prefix, const catalogue::FileEntry& file, std::string_view dataset) {
    EXPECT_TRUE(file.prefix_name().starts_with(std::string(dataset) + "/")) << file.prefix_name();
    const std::string path = prefix.FilePath(file.prefix_name());
    EXPECT_OK(VerifyFile(disk_, path, file));
    const std::string bytes = GetBytes(disk_, path);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      ASSERT_EQ(static_cast<std::byte>(bytes[at]), testing::ScrByteOf(dataset, BaseOf(path), at)) << path << ", " << at;
    }
    ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_.Info(path));
    EXPECT_EQ(info.mode & 07777, 0640u);
    EXPECT_EQ(info.mtime.tv_sec, file.mtime_s());
    EXPECT_GT(file.mtime_s(), 1700000000);
  }

  FakeDisk disk_;
  std::string notes_;
  bool unverified_ = false;  // the test is about something else: take what nothing verifies, too
};

}  // namespace cairn

#endif  // CAIRN_TESTS_STORAGE_JOB_ADOPT_ADOPT_SCR_FIXTURE_H_

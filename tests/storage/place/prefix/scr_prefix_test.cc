// Prefixes that SCR itself wrote, as Cairn lists them.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <span>

#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/index_tools.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/prefix/scr_data.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn {
namespace {

// Every file as the application wrote it: the CRC32 of what was read is that of what was meant.
void ExpectTheApplicationsData(const std::string& dataset, const std::vector<catalogue::Catalogue>& catalogues) {
  std::size_t files = 0;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    EXPECT_EQ(catalogue.nranks(), catalogues.size());
    EXPECT_EQ(catalogue.launch(), 0u);
    EXPECT_TRUE(catalogue.files());
    for (const catalogue::FileEntry& file : catalogue.file()) {
      const std::string data =
          testing::ScrApplicationData(dataset, catalogue.rank(), testing::ScrIndexOf(file.name()), file.bytes());
      EXPECT_EQ(file.crc32(), Crc32(std::as_bytes(std::span(data)))) << file.name();
      EXPECT_TRUE(file.prefix_name().starts_with(dataset + "/")) << file.prefix_name();
      EXPECT_NE(file.mode(), 0u);
      ++files;
    }
  }
  EXPECT_GE(files, catalogues.size());
}

struct Expected {
  std::string scenario;
  std::map<DatasetId, std::string> names;
  DatasetId current = 0;  // 0: none of these
  DatasetId bound = 0;    // by a CURRENT that names an older one than the newest
  std::set<DatasetId> failed = {};
};

class ScrVectorsTest : public ::testing::TestWithParam<Expected> {};

TEST_P(ScrVectorsTest, CompleteDatasetsAreListedWithTheirDataAndNoOthers) {
  const auto folder = testing::VectorsPath("scr/" + GetParam().scenario);
  if (!folder) return;
  const auto disk = MakePosixDisk();
  ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::OpenReadOnly(*disk, *folder + "/pfs/demo"));
  EXPECT_EQ(prefix->run(), RunId());
  ASSERT_OK_AND_ASSIGN(const auto committed, prefix->Committed());
  std::map<DatasetId, std::string> names;
  DatasetId current = 0;
  for (const auto& [id, dataset] : committed) {
    names[id] = dataset.descriptor.name;
    EXPECT_FALSE(dataset.by_cairn);
    if (dataset.current) current = id;
    ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(id));
    EXPECT_EQ(dataset.descriptor.ranks, catalogues.size());
    ExpectTheApplicationsData(dataset.descriptor.name, catalogues);
  }
  EXPECT_EQ(names, GetParam().names);
  EXPECT_EQ(current, GetParam().current);
  ASSERT_OK_AND_ASSIGN(const PrefixContents contents, prefix->Contents());
  EXPECT_EQ(contents.bound, GetParam().bound);
  EXPECT_EQ(contents.failed, GetParam().failed);
  EXPECT_TRUE(contents.bad.empty());
  EXPECT_TRUE(prefix->TakeWarnings().empty());
}

INSTANTIATE_TEST_SUITE_P(
    Scenarios, ScrVectorsTest,
    ::testing::Values(Expected{"single_np2", {{2, "step_000020"}, {3, "plot_0001"}}, 2},
                      Expected{"prefix_lifecycle_np2",
                               {{1, "step_000010"}, {2, "plot_0001"}, {3, "step_000020"}, {4, "step_000040"}},
                               1,
                               1},
                      Expected{"index_failed_np2", {{1, "step_000010"}, {3, "plot_0001"}}, 1, 0, {2}},
                      Expected{"bypass_np3", {{1, "step_000010"}, {2, "step_000020"}}, 2},
                      Expected{"scavenge_xor_np4", {{1, "step_000010"}}, 0},
                      Expected{"scavenge_rs_np4", {{1, "step_000010"}}, 0},
                      Expected{"crash_before_flush_np3", {{2, "plot_0001"}}, 0}),
    [](const auto& info) { return info.param.scenario; });

TEST(ScrPrefixTest, AFlushThatWasCutOffIsListedAndNotRestorable) {
  const auto folder = testing::VectorsPath("scr/inflight_async_flush");
  if (!folder) return;
  const std::string path = ::testing::TempDir() + "/scr_prefix_test";
  std::filesystem::remove_all(path);
  testing::CopyWritable(*folder, path + "/.scr");
  std::filesystem::rename(path + "/.scr/index_inflight.scr", path + "/.scr/index.scr");
  const auto disk = MakePosixDisk();
  ASSERT_OK_AND_ASSIGN(const auto rows, ListIndex(*disk, path));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_FALSE(rows[0].valid());
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, SetIndexCurrent(*disk, path, "1"), "not complete");
  ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::OpenReadOnly(*disk, path));
  ASSERT_OK_AND_ASSIGN(const PrefixContents contents, prefix->Contents());
  EXPECT_TRUE(contents.datasets.empty());
  EXPECT_EQ(contents.bound, 0u);
  EXPECT_STATUS(absl::StatusCode::kNotFound, prefix->Catalogues(1), "not complete");
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace cairn

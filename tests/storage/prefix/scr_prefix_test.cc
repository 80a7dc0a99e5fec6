// Prefixes that SCR itself wrote, as Cairn lists them.
#include <gtest/gtest.h>

#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/prefix/prefix.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn {
namespace {

struct Expected {
  std::string scenario;
  std::map<DatasetId, std::string> names;
  DatasetId current = 0;  // 0: none of these
};

class ScrPrefixTest : public ::testing::TestWithParam<Expected> {};

TEST_P(ScrPrefixTest, CompleteDatasetsAreListedAndNoOthers) {
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
    EXPECT_STATUS(absl::StatusCode::kNotFound, prefix->Catalogues(id), "");
  }
  EXPECT_EQ(names, GetParam().names);
  EXPECT_EQ(current, GetParam().current);
  EXPECT_TRUE(prefix->TakeWarnings().empty());
}

INSTANTIATE_TEST_SUITE_P(
    Scenarios, ScrPrefixTest,
    ::testing::Values(Expected{"single_np2", {{2, "step_000020"}, {3, "plot_0001"}}, 2},
                      Expected{"prefix_lifecycle_np2",
                               {{1, "step_000010"}, {2, "plot_0001"}, {3, "step_000020"}, {4, "step_000040"}},
                               1},
                      Expected{"index_failed_np2", {{1, "step_000010"}, {3, "plot_0001"}}, 1},
                      Expected{"bypass_np3", {{1, "step_000010"}, {2, "step_000020"}}, 2},
                      Expected{"scavenge_xor_np4", {{1, "step_000010"}}, 0},
                      Expected{"crash_before_flush_np3", {{2, "plot_0001"}}, 0}),
    [](const auto& info) { return info.param.scenario; });

}  // namespace
}  // namespace cairn

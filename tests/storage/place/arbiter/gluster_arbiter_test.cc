// A folder on GlusterFS keeps what every arbiter promises. Skips itself, saying why, where there is no GlusterFS.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "storage/io/create_once.h"
#include "storage/io/posix_disk.h"
#include "storage/place/arbiter/folder_arbiter.h"
#include "tests/storage/place/arbiter/arbiter_contract.h"
#include "tests/storage/place/arbiter/arbiter_site.h"
#include "tests/support/gluster.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::OneGluster;

const auto* const kOneGluster = ::testing::AddGlobalTestEnvironment(new OneGluster);

std::unique_ptr<ArbiterSite> SiteOnGluster() {
  return std::make_unique<ArbiterSite>(
      MakePosixPlace(OneGluster::gluster->mount_point()),
      [](Disk& disk, const std::string& prefix, int) { return MakeFolderArbiter(disk, prefix); });
}

INSTANTIATE_TEST_SUITE_P(Gluster, ArbiterContractTest,
                         ::testing::Values(ArbiterSiteMaker{.name = "Folder", .make = SiteOnGluster}), NameOfSite);

// renameat2 without replacing is refused there, so the way must be found out, not guessed.
TEST(GlusterArbiterTest, NamesAreMadeByHardLinks) {
  const auto disk = MakePosixDisk();
  ASSERT_OK_AND_ASSIGN(const CreationWay way, ProbeCreation(*disk, OneGluster::gluster->mount_point()));
  EXPECT_EQ(way, CreationWay::kHardLink);
}

TEST(GlusterArbiterTest, RecordsAreMadeWithoutOneBrickAndWithoutTwoItIsUnavailable) {
  testing::Gluster& gluster = *OneGluster::gluster;
  const auto site = SiteOnGluster();
  const auto arbiter = site->Make();
  ASSERT_OK(arbiter->Create("launch.1", "with three"));
  gluster.KillBrick(2);
  ASSERT_OK(arbiter->Create("launch.2", "with two"));
  EXPECT_STATUS(absl::StatusCode::kAlreadyExists, arbiter->Create("launch.1", "another"), "launch.1");
  gluster.KillBrick(0);
  EXPECT_STATUS(absl::StatusCode::kUnavailable, arbiter->Create("launch.3", "with one"), "");
  EXPECT_STATUS(absl::StatusCode::kUnavailable, arbiter->Names(), "");
  ASSERT_TRUE(gluster.StartBricks());
  EXPECT_EQ(site->RecordOf("launch.2"), "with two");
  ASSERT_OK(arbiter->Create("launch.3", "with three again"));
  EXPECT_STATUS(absl::StatusCode::kAlreadyExists, arbiter->Create("launch.2", "another"), "launch.2");
}

}  // namespace
}  // namespace cairn

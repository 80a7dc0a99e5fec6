#include "tests/support/gluster.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace cairn::testing {
namespace {

namespace fs = std::filesystem;

bool Write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}
std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text;
}

TEST(GlusterTest, AVolumeWithoutOneBrickWorksWithoutTwoItDoesNotAndThenItDoesAgain) {
  std::unique_ptr<Gluster> gluster;
  CAIRN_GLUSTER_OR_SKIP(gluster);
  const std::string file = gluster->mount_point() + "/file";
  ASSERT_TRUE(Write(file, "with three"));
  EXPECT_EQ(gluster->LivingBricks().size(), 3u);

  gluster->KillBrick(1);
  EXPECT_EQ(gluster->LivingBricks().count(1), 0u);
  EXPECT_EQ(Read(file), "with three");
  ASSERT_TRUE(Write(file, "with two"));

  gluster->KillBrick(0);
  EXPECT_EQ(gluster->LivingBricks().size(), 1u);
  EXPECT_EQ(::open((gluster->mount_point() + "/other").c_str(), O_WRONLY | O_CREAT, 0600), -1);
  EXPECT_EQ(errno, ENOTCONN);

  ASSERT_TRUE(gluster->StartBricks());
  EXPECT_EQ(Read(file), "with two");
  ASSERT_TRUE(Write(file, "with three again"));
  ASSERT_TRUE(gluster->AwaitHealed());
}

TEST(GlusterTest, TwoOfThemRunSideBySideAndLeaveNothingBehind) {
  const std::vector<std::string> machines = {"/run/gluster/vols", "/run/glusterd.socket", "/var/lib/glusterd/vols"};
  std::vector<bool> before, after;
  for (const std::string& path : machines) before.push_back(fs::exists(path));
  std::string mounted;
  {
    std::unique_ptr<Gluster> one, other;
    CAIRN_GLUSTER_OR_SKIP(one);
    CAIRN_GLUSTER_OR_SKIP(other);
    mounted = one->mount_point();
    ASSERT_TRUE(Write(one->mount_point() + "/file", "of one"));
    ASSERT_TRUE(Write(other->mount_point() + "/file", "of the other"));
    EXPECT_EQ(Read(one->mount_point() + "/file"), "of one");
    other->KillBrick(0);
    EXPECT_EQ(one->LivingBricks().size(), 3u);
    EXPECT_EQ(other->LivingBricks().size(), 2u);
  }
  EXPECT_FALSE(fs::exists(fs::path(mounted).parent_path()));
  for (const std::string& path : machines) after.push_back(fs::exists(path));
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace cairn::testing

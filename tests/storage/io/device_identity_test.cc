#include "storage/io/device_identity.h"

#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <filesystem>

#include "storage/io/posix_disk.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

TEST(DeviceIdentityTest, ARealFolderHasOneThatStays) {
  const auto disk = MakePosixDisk();
  const std::string folder = std::filesystem::temp_directory_path();
  const auto identity = IdentifyDevice(*disk, folder);
  ASSERT_OK(identity);
  EXPECT_EQ(identity->device, disk->Info(folder)->device);
  EXPECT_EQ(identity->file_system, *disk->FileSystemType(folder));
  struct utsname system {};
  ASSERT_EQ(uname(&system), 0);
  EXPECT_EQ(identity->kernel, system.release);
  const std::string block =
      "/sys/dev/block/" + std::to_string(identity->device >> 8 & 0xfff) + ":" + std::to_string(identity->device & 0xff);
  EXPECT_EQ(identity->bytes != 0, std::filesystem::exists(block + "/size")) << block;
  const auto again = IdentifyDevice(*disk, folder);
  ASSERT_OK(again);
  EXPECT_EQ(*again, *identity);
}

TEST(DeviceIdentityTest, AnotherDeviceIsAnother) {
  FakeDisk one, other;
  ASSERT_OK(one.MakeDirectory("/cache", 0700));
  ASSERT_OK(one.MakeDirectory("/mounted", 0700));
  one.Mount("/mounted");
  const auto cache = IdentifyDevice(one, "/cache"), mounted = IdentifyDevice(one, "/mounted");
  ASSERT_OK(cache);
  ASSERT_OK(mounted);
  EXPECT_NE(*cache, *mounted);
}

TEST(DeviceIdentityTest, WhatTheDiskRefusesIsTold) {
  FakeDisk disk;
  EXPECT_EQ(IdentifyDevice(disk, "/nowhere").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace cairn

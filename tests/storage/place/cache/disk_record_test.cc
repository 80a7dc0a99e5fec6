#include "storage/place/cache/disk_record.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>

#include "storage/file/trees/tree_file.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr std::int64_t kNow = std::int64_t{1'700'000'000} * 1'000'000;

DiskRecord Sample() {
  return {.device = {.device = 65024, .file_system = 0xEF53, .bytes = 1 << 30, .model = "SSD 9", .kernel = "6.1.0-9"},
          .measured_us = kNow,
          .compared = true,
          .shapes = {.write = {.bytes = 1 << 20, .depth = 4}, .read = {.bytes = 256 << 10, .depth = 16}},
          .write_speed = 3'000'000'000,
          .read_speed = 6'500'000'000};
}

class DiskRecordTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(MakeDirectories(disk_, "/cache/ada"));
    ASSERT_OK(WriteDiskRecord(disk_, path_, Sample()));
  }
  void Change(const std::function<void(kvtree::Tree&)>& change) {
    ASSERT_OK(WriteDiskRecord(disk_, path_, Sample()));
    auto tree = ReadTree(disk_, path_);
    ASSERT_OK(tree);
    change(*tree);
    ASSERT_OK(ReplaceTree(disk_, path_, *tree));
  }
  // Such a value is refused, and the message names file and field.
  template <typename Value>
  void ExpectRefused(std::string_view key, Value value) {
    Change([&](kvtree::Tree& tree) { tree.Set(key, value); });
    const auto record = ReadDiskRecord(disk_, path_);
    EXPECT_EQ(record.status().code(), absl::StatusCode::kDataLoss) << key << " " << value;
    const std::string message(record.status().message());
    EXPECT_NE(message.find(path_), std::string::npos) << message;
    EXPECT_NE(message.find(key), std::string::npos) << message;
  }

  FakeDisk disk_;
  const std::string path_ = DiskRecordPath("/cache", "ada");
};

TEST_F(DiskRecordTest, IsReadAsItWasWritten) {
  EXPECT_EQ(path_, "/cache/ada/disk.cairn");
  auto read = ReadDiskRecord(disk_, path_);
  ASSERT_OK(read);
  EXPECT_EQ(*read, Sample());
  DiskRecord empty;
  ASSERT_OK(WriteDiskRecord(disk_, path_, empty));
  read = ReadDiskRecord(disk_, path_);
  ASSERT_OK(read);
  EXPECT_EQ(*read, empty);
}

TEST_F(DiskRecordTest, NoneIsNotFound) {
  EXPECT_EQ(ReadDiskRecord(disk_, "/cache/eve/disk.cairn").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DiskRecordTest, AnyTruncationOrBitFlipIsRefused) {
  const std::string whole = *ReadWhole(disk_, path_, 1 << 20);
  for (std::size_t n = 1; n < whole.size(); ++n) {
    ASSERT_OK(ReplaceFile(disk_, path_, whole.substr(0, n)));
    EXPECT_EQ(ReadDiskRecord(disk_, path_).status().code(), absl::StatusCode::kDataLoss) << "cut at " << n;
  }
  ASSERT_OK(ReplaceFile(disk_, path_, whole));
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    disk_.FlipBit(path_, bit);
    EXPECT_FALSE(ReadDiskRecord(disk_, path_).ok()) << "flip of " << bit;
    disk_.FlipBit(path_, bit);
  }
  EXPECT_OK(ReadDiskRecord(disk_, path_).status());
}

TEST_F(DiskRecordTest, EachFieldIsBounded) {
  for (const char* key : {"VERSION", "DEVICE", "FILESYSTEM", "BYTES", "MODEL", "KERNEL", "MEASURED_US", "COMPARED",
                          "WRITE_BYTES", "WRITE_DEPTH", "WRITE_SPEED", "READ_BYTES", "READ_DEPTH", "READ_SPEED"}) {
    Change([&](kvtree::Tree& tree) { tree.Erase(key); });
    EXPECT_EQ(ReadDiskRecord(disk_, path_).status().code(), absl::StatusCode::kDataLoss) << key;
  }
  for (const char* key : {"WRITE_BYTES", "READ_BYTES"}) {
    for (const std::uint64_t bytes : {0ull, 4096ull, 3ull << 20, 32ull << 20, (1ull << 32) + (1 << 20), ~0ull}) {
      ExpectRefused(key, bytes);
    }
  }
  for (const char* key : {"WRITE_DEPTH", "READ_DEPTH"}) {
    for (const std::uint64_t depth : {0ull, 65ull, (1ull << 32) + 1, ~0ull}) ExpectRefused(key, depth);
  }
  for (const char* key : {"DEVICE", "MEASURED_US", "WRITE_SPEED", "COMPARED"}) {
    ExpectRefused(key, std::string_view("many"));
    ExpectRefused(key, std::string_view("-1"));
  }
  ExpectRefused("VERSION", std::uint64_t{0});
  ExpectRefused("COMPARED", std::uint64_t{2});
  ExpectRefused("MEASURED_US", ~std::uint64_t{0});
  ExpectRefused("READ_SPEED", ~std::uint64_t{0});
  for (const char* key : {"MODEL", "KERNEL"}) {
    ExpectRefused(key, std::string_view("a\x1b[2J"));
    Change([&](kvtree::Tree& tree) { tree.Set(key, std::string(129, 'x')); });
    EXPECT_EQ(ReadDiskRecord(disk_, path_).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST_F(DiskRecordTest, ANewerVersionIsNotRead) {
  Change([](kvtree::Tree& tree) { tree.Set("VERSION", std::uint64_t{2}); });
  EXPECT_EQ(ReadDiskRecord(disk_, path_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DiskRecordTest, CountsForThisDeviceAndKernelForThirtyDays) {
  const DiskRecord record = Sample();
  const std::int64_t day = std::int64_t{24} * 3600 * 1'000'000;
  EXPECT_OK(CheckCounts(record, record.device, kNow));
  EXPECT_OK(CheckCounts(record, record.device, kNow + 30 * day));
  EXPECT_FALSE(CheckCounts(record, record.device, kNow + 30 * day + 1).ok());
  EXPECT_OK(CheckCounts(record, record.device, kNow - day));
  EXPECT_FALSE(CheckCounts(record, record.device, kNow - day - 1).ok());
  EXPECT_FALSE(CheckCounts(record, record.device, std::int64_t{-1}).ok());
  DiskRecord uncompared = record;
  uncompared.compared = false;
  EXPECT_OK(CheckCounts(uncompared, record.device, kNow + day));
  EXPECT_FALSE(CheckCounts(uncompared, record.device, kNow + day + 1).ok()) << "it may only have been busy";
  const auto other = [&](auto change) {
    DeviceIdentity device = record.device;
    change(device);
    EXPECT_FALSE(CheckCounts(record, device, kNow).ok());
  };
  other([](DeviceIdentity& device) { device.device = 1; });
  other([](DeviceIdentity& device) { device.file_system = 1; });
  other([](DeviceIdentity& device) { device.bytes = 1; });
  other([](DeviceIdentity& device) { device.model = "SSD 10"; });
  other([](DeviceIdentity& device) { device.kernel = "6.2"; });
}

}  // namespace
}  // namespace cairn

// One variable out of a checkpoint file.
#include "storage/job/extract/extract.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>

#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using ftiff::testing::DataOf;
using ftiff::testing::FileOf;
using ftiff::testing::MixedLayout;

constexpr char kPath[] = "/Ckpt3-Rank0.fti";

class ExtractTest : public ::testing::Test {
 protected:
  absl::StatusOr<StoredVariable> Open(const std::string& bytes, std::int32_t id) {
    EXPECT_OK(WriteTestFile(disk_, kPath, bytes));
    return StoredVariable::Open(disk_, kPath, id);
  }
  // The bytes of the variable as they lie in the sample.
  static std::string Expected(std::int32_t id) {
    const ftiff::FileLayout layout = MixedLayout();
    const std::string data = DataOf(layout);
    std::string bytes;
    for (const ftiff::Container& container : layout.containers) {
      if (container.id == id) bytes += data.substr(container.file_offset, container.chunk_bytes);
    }
    return bytes;
  }
  static std::string Streamed(const StoredVariable& variable) {
    std::string bytes;
    EXPECT_OK(variable.Stream([&](std::span<const std::byte> piece) {
      bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      return absl::OkStatus();
    }));
    return bytes;
  }

  FakeDisk disk_;
};

TEST_F(ExtractTest, TheBytesAreThoseOfMemoryInBothWays) {
  const std::int32_t id = MixedLayout().containers.front().id;
  ASSERT_OK_AND_ASSIGN(const StoredVariable variable, Open(FileOf(MixedLayout(), {.checkpoint_id = 3}), id));
  const std::string expected = Expected(id);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(variable.bytes(), expected.size());
  EXPECT_EQ(Streamed(variable), expected);
  std::string copied(expected.size(), '\0');
  std::mutex mutex;
  ASSERT_OK(variable.Copy([&](std::uint64_t offset, std::span<const std::byte> piece) {
    const std::lock_guard lock(mutex);
    copied.replace(offset, piece.size(), reinterpret_cast<const char*>(piece.data()), piece.size());
    return absl::OkStatus();
  }));
  EXPECT_EQ(copied, expected);
}

TEST_F(ExtractTest, DamageIsToldBeforeAnythingIsStreamed) {
  const ftiff::Container container = MixedLayout().containers.front();
  std::string bytes = FileOf(MixedLayout(), {.checkpoint_id = 3});
  bytes[container.file_offset] ^= 1;
  ASSERT_OK_AND_ASSIGN(const StoredVariable variable, Open(bytes, container.id));
  bool given = false;
  const absl::Status streamed = variable.Stream([&](std::span<const std::byte>) {
    given = true;
    return absl::OkStatus();
  });
  EXPECT_STATUS(StatusCode::kDataLoss, streamed, kPath);
  EXPECT_FALSE(given);
  const auto copied = variable.Copy([](std::uint64_t, std::span<const std::byte>) { return absl::OkStatus(); });
  EXPECT_EQ(copied.code(), StatusCode::kDataLoss);
}

TEST_F(ExtractTest, InLayoutAWholeFileMustBeRight) {
  const ftiff::FileLayout layout = MixedLayout();
  std::string bytes = FileOf(ftiff::Letter::kA, layout, {});
  ASSERT_OK(Open(bytes, layout.containers.front().id).status());
  bytes.back() ^= 1;  // of another variable, or a record
  EXPECT_EQ(Open(bytes, layout.containers.front().id).status().code(), StatusCode::kDataLoss);
}

TEST_F(ExtractTest, AVariableThatIsNotThereIsToldWithThoseThatAre) {
  EXPECT_STATUS(StatusCode::kNotFound, Open(FileOf(MixedLayout(), {.checkpoint_id = 3}), 99).status(),
                "no variable 99; there are");
}

TEST_F(ExtractTest, AnErrorOfTheTargetEndsIt) {
  const std::int32_t id = MixedLayout().containers.front().id;
  ASSERT_OK_AND_ASSIGN(const StoredVariable variable, Open(FileOf(MixedLayout(), {.checkpoint_id = 3}), id));
  const auto full = [](auto&&...) { return absl::ResourceExhaustedError("full"); };
  EXPECT_EQ(variable.Stream(full).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(variable.Copy(full).code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace cairn

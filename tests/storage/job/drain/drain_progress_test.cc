// How far a drain is, as it tells others.
#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "tests/storage/job/drain/drain_fixture.h"

namespace cairn {
namespace {

using testing::Bytes;
using testing::DrainFixture;

class DrainProgressTest : public DrainFixture {
 protected:
  DrainProgressTest() {
    options_.progress = &progress_;
    options_.parallel = 1;
    Hook();
  }
  using Pair = std::pair<std::uint64_t, std::uint64_t>;
  Pair Left() const { return {progress_.left_files, progress_.left_bytes}; }
  Pair Brought() const { return {progress_.brought_files, progress_.brought_bytes}; }

  DrainProgress progress_;
};

TEST_F(DrainProgressTest, TellsThatItLooksAndWhatItBringsWhileItDoes) {
  Put("a", Bytes(1000));
  Put("b", Bytes(50));
  std::filesystem::create_symlink("a", from_ + "/link");
  bool looked = false, brought = false;
  source_hooks_.before = [&](std::string_view what, const std::string&) {
    if (what != "list" || std::exchange(looked, true)) return absl::OkStatus();
    EXPECT_TRUE(progress_.open);
    EXPECT_NE(progress_.began_ns, 0);
    EXPECT_EQ(progress_.bringing_ns, 0);
    return absl::OkStatus();
  };
  target_hooks_.before = [&](std::string_view what, const std::string&) {
    if (what != "rename to" || std::exchange(brought, true)) return absl::OkStatus();
    EXPECT_GE(progress_.bringing_ns, progress_.began_ns);
    EXPECT_EQ(progress_.files_all, 3U);
    EXPECT_EQ(progress_.bytes_all, 1050U);
    EXPECT_EQ(Left(), Pair(3, 1050));
    EXPECT_EQ(Brought(), Pair(0, 0)) << "none has its name yet";
    return absl::OkStatus();
  };
  Drained();
  EXPECT_TRUE(looked && brought);
  EXPECT_FALSE(progress_.open);
  EXPECT_EQ(progress_.began_ns, 0);
  EXPECT_EQ(progress_.files, 3U);
  EXPECT_EQ(Left(), Pair(0, 0));
  EXPECT_EQ(Brought(), Pair(3, 1050));
}

TEST_F(DrainProgressTest, WhatWaitsIsLeftAndWhatOnlyHasToSettleIsToldApart) {
  Put("a", Bytes(1000));
  Put("b", Bytes(50));
  UniqueFd writer(::open((from_ + "/b").c_str(), O_WRONLY));
  Drained();
  EXPECT_EQ(Left(), Pair(1, 50));
  EXPECT_FALSE(progress_.settling) << "its writer may have it open for good";
  writer = UniqueFd();
  options_.settle_ms = 600'000;
  Put("c", Bytes(7));
  Drained();
  EXPECT_EQ(Left(), Pair(2, 57));
  EXPECT_TRUE(progress_.settling);
  EXPECT_EQ(progress_.bringing_ns, 0) << "there is nothing to bring";
  options_.settle_ms = 0;
  Drained();
  EXPECT_EQ(Left(), Pair(0, 0));
  EXPECT_FALSE(progress_.settling);
  EXPECT_EQ(Brought(), Pair(3, 1057));
}

TEST_F(DrainProgressTest, WhatFailedOrHasGoneIsNotLeft) {
  for (const char* name : {"fails", "gone", "same", "well"}) Put(name, Bytes(100));
  std::filesystem::create_hard_link(from_ + "/well", from_ + "/well-too");
  std::ofstream(to_ + "/same") << Bytes(100);
  source_hooks_.before = [&](std::string_view what, const std::string& path) -> absl::Status {
    if (what == "open" && path == "fails") return PermissionDenied("not for you");
    if (what == "open" && path == "gone") std::filesystem::remove(from_ + "/gone");
    return absl::OkStatus();
  };
  const DrainReport report = Drained();
  EXPECT_EQ(report.failed.count(), 1U);
  EXPECT_EQ(report.gone, 1U);
  EXPECT_EQ(report.there_files, 1U);
  EXPECT_EQ(Left(), Pair(0, 0));
  EXPECT_EQ(Brought(), Pair(2, 100)) << "the further name has no bytes of its own";
}

TEST_F(DrainProgressTest, WhatIsDamagedIsNotLeft) {
  Put("file", Bytes(1000));
  target_hooks_.came = [](const std::string&, std::span<std::byte> bytes) {
    if (!bytes.empty()) bytes[0] ^= std::byte{1};
  };
  EXPECT_EQ(Drained().damaged.count(), 1U);
  EXPECT_EQ(Left(), Pair(0, 0));
  EXPECT_EQ(Brought(), Pair(0, 0));
}

TEST_F(DrainProgressTest, WhatIsHeldBackIsLeftAndNoPartOfThisPass) {
  Put("run/ckpt.1/a", Bytes(100));
  Put("run/.scr/index.scr", Bytes(30));
  const UniqueFd writer(::open((from_ + "/run/ckpt.1/a").c_str(), O_WRONLY));
  const DrainReport report = Drained();
  EXPECT_EQ(report.waiting.count(), 2U);
  EXPECT_EQ(Left(), Pair(2, 130));
  EXPECT_EQ(progress_.files, progress_.files_all);
  EXPECT_EQ(progress_.bytes_all, 100U);
}

TEST_F(DrainProgressTest, WhatAPassThatIsStoppedHasNotReachedIsLeft) {
  Put("large", Bytes(5 << 20));
  Put("small", Bytes(100));
  target_hooks_.before = [&](std::string_view what, const std::string&) {
    if (what == "write") stop_ = true;
    return absl::OkStatus();
  };
  const DrainReport report = Drained();
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(Left().first, 2U - report.files);
  EXPECT_EQ(Left().second, (5U << 20) + 100 - report.bytes);
  EXPECT_GT(Left().first, 0U);
}

TEST_F(DrainProgressTest, WhatWasBroughtAddsUpAlsoOverADrainThatFailed) {
  Put("a", Bytes(1000));
  Drained();
  Put("b", Bytes(50));
  bool named = false;
  target_hooks_.before = [&](std::string_view what, const std::string&) -> absl::Status {
    named = named || what == "rename to";
    return named && (what == "sync all" || what == "sync folder") ? Unavailable("gone") : absl::OkStatus();
  };
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(progress_.began_ns, 0);
  EXPECT_FALSE(progress_.open);
  EXPECT_EQ(Brought(), Pair(2, 1050));
  target_hooks_ = {};
  options_.delete_source = true;
  Drained();
  EXPECT_EQ(progress_.deleted, 2U);
  EXPECT_EQ(Brought(), Pair(2, 1050));
}

}  // namespace
}  // namespace cairn

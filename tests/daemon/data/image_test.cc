#include "daemon/data/image.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <thread>
#include <vector>

#include "tests/support/refusals/refusals.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

TEST(ImageTest, IsRoundedUpAlignedAndCountedUntilItGoes) {
  ImageBudget budget(16 << 20);
  {
    ASSERT_OK_AND_ASSIGN(const auto image, Image::Make(budget, (2 << 20) + 1));
    EXPECT_EQ(image->bytes().size(), std::size_t{4} << 20);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(image->bytes().data()) % Image::kAlignment, 0u);
    EXPECT_EQ(budget.used(), std::uint64_t{4} << 20);
    ASSERT_OK_AND_ASSIGN(const auto other, Image::Make(budget, 1));
    EXPECT_NE(other->id(), image->id());
    EXPECT_EQ(budget.used(), std::uint64_t{6} << 20);
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(ImageTest, WhoeverMakesItMayPauseBeforeEachPart) {
  ImageBudget budget(128 << 20);
  int parts = 0;
  ASSERT_OK_AND_ASSIGN(const auto image, Image::Make(budget, 2 * Image::kPartBytes + 1, [&parts] { ++parts; }));
  EXPECT_EQ(parts, 3);
  std::vector<unsigned char> touched(image->bytes().size() / 4096);
  ASSERT_EQ(mincore(image->bytes().data(), image->bytes().size(), touched.data()), 0);
  EXPECT_EQ(std::count_if(touched.begin(), touched.end(), [](unsigned char page) { return (page & 1) == 0; }), 0);
}

TEST(ImageTest, BeyondTheBudgetIsResourceExhaustedAndTakesNothing) {
  ImageBudget budget(4 << 20);
  ASSERT_OK_AND_ASSIGN(const auto image, Image::Make(budget, 2 << 20));
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, Image::Make(budget, (2 << 20) + 1), "2097152 of 4194304");
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, Image::Make(budget, UINT64_MAX), "");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Image::Make(budget, 0), "");
  EXPECT_EQ(budget.used(), std::uint64_t{2} << 20);
  EXPECT_OK(Image::Make(budget, 2 << 20));
}

TEST(ImageTest, WhatTheMachineHasNoRoomForIsResourceExhaustedBeforeAPageIsTouched) {
  ImageBudget budget(UINT64_MAX);
  const auto memory = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(getpagesize());
  for (const std::uint64_t bytes : {memory, std::uint64_t{1} << 60}) {
    EXPECT_STATUS(absl::StatusCode::kResourceExhausted, Image::Make(budget, bytes), "the machine has");
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(ImageTest, NobodyCanShrinkGrowOrUnsealIt) {
  ImageBudget budget(16 << 20);
  ASSERT_OK_AND_ASSIGN(const auto image, Image::Make(budget, 2 << 20));
  EXPECT_NE(ftruncate(image->fd(), 4096), 0);
  EXPECT_NE(ftruncate(image->fd(), 4 << 20), 0);
  EXPECT_NE(fcntl(image->fd(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_EQ(fcntl(image->fd(), F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  EXPECT_NE(fcntl(image->fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(ImageTest, IsTouchedAndSharedThroughItsDescriptor) {
  ImageBudget budget(16 << 20);
  ASSERT_OK_AND_ASSIGN(const auto image, Image::Make(budget, 4 << 20));
  const std::size_t size = image->bytes().size();
  std::vector<unsigned char> resident(size / 4096);
  ASSERT_EQ(mincore(image->bytes().data(), size, resident.data()), 0);
  EXPECT_TRUE(std::all_of(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; }));
  void* const client = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, image->fd(), 0);
  ASSERT_NE(client, MAP_FAILED);
  static_cast<std::byte*>(client)[size - 1] = std::byte{42};
  EXPECT_EQ(image->bytes().back(), std::byte{42});
  munmap(client, size);
}

TEST(ImageTest, TheBudgetHoldsAgainstManyThreads) {
  ImageBudget budget(1000);
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) {
        if (budget.Take(7)) taken += 7;
        EXPECT_LE(budget.used(), budget.bytes_max());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, 994u);
  EXPECT_EQ(budget.used(), 994u);
  budget.Give(994);
  EXPECT_FALSE(budget.Take(UINT64_MAX));
  EXPECT_TRUE(budget.Take(1000));
}

// --- What an older kernel or a container refuses ---

// An image made while `refusals` hold: each of its pages is there and zero, or the test fails. Whether they are huge.
std::optional<bool> HugeWithout(const Refusals& refusals) {
  std::optional<bool> huge;
  EXPECT_OK(RunRefused(refusals, [&huge] {
    ImageBudget budget(128 << 20);
    ASSERT_OK_AND_ASSIGN(const auto image, Image::Make(budget, Image::kPartBytes + (4 << 20)));
    std::vector<unsigned char> resident(image->bytes().size() / 4096);
    ASSERT_EQ(mincore(image->bytes().data(), image->bytes().size(), resident.data()), 0);
    EXPECT_TRUE(std::ranges::all_of(resident, [](unsigned char page) { return (page & 1) != 0; }));
    struct stat told {};
    ASSERT_EQ(fstat(image->fd(), &told), 0);
    EXPECT_EQ(static_cast<std::size_t>(told.st_blocks) * 512, image->bytes().size());
    EXPECT_TRUE(std::ranges::all_of(image->bytes(), [](std::byte byte) { return byte == std::byte{0}; }));
    huge = image->in_huge_pages();
  }));
  return huge;
}

TEST(ImageTest, WithoutHugePagesItHasSmallOnes) {
  CAIRN_SKIP_UNLESS_REFUSED(NoHugePages());
  EXPECT_EQ(HugeWithout(NoHugePages()), false);
}

TEST(ImageTest, WithoutMadvPopulateWriteItsPagesAreWritten) {
  CAIRN_SKIP_UNLESS_REFUSED(NoPopulate());
  for (const int error : {EINVAL, EPERM, ENOSYS}) {
    Refusals refusals = NoPopulate();
    refusals.calls.front().error = error;
    EXPECT_TRUE(HugeWithout(refusals).has_value()) << error;
    // An old kernel has neither; and nothing else is needed in its place.
    refusals.Add(NoHugePages());
    refusals.Add(NoReservation());
    EXPECT_EQ(HugeWithout(refusals), false) << error;
  }
}

TEST(ImageTest, WhereItsPagesCannotBeWrittenEitherThatIsTold) {
  CAIRN_SKIP_UNLESS_REFUSED(NoPopulate());
  Refusals refusals = NoPopulate();
  refusals.Add({.calls = {{.call = SYS_pwrite64, .error = ENOSPC}}});
  EXPECT_OK(RunRefused(refusals, [] {
    ImageBudget budget(16 << 20);
    EXPECT_STATUS(absl::StatusCode::kResourceExhausted, Image::Make(budget, 4 << 20), "No space left");
    EXPECT_EQ(budget.used(), 0u);
  }));
}

TEST(ImageTest, WithoutMemoryNothingElseIsTried) {
  CAIRN_SKIP_UNLESS_REFUSED(NoPopulate());
  Refusals refusals = NoPopulate();
  refusals.calls.front().error = ENOMEM;
  EXPECT_OK(RunRefused(refusals, [] {
    ImageBudget budget(16 << 20);
    EXPECT_STATUS(absl::StatusCode::kResourceExhausted, Image::Make(budget, 4 << 20), "Cannot allocate memory");
  }));
}

TEST(ImageBudgetTest, TellsWhenAnImageIsLetGoOf) {
  ImageBudget budget(4 << 20);
  auto image = Image::Make(budget, 1);
  ASSERT_TRUE(image.ok()) << image.status();
  std::uint64_t used = 1;
  budget.SetOnGiven([&] { used = budget.used(); });
  image->reset();
  EXPECT_EQ(used, 0u);
}

TEST(ImageBudgetTest, AnImageMayOutliveIt) {
  auto budget = std::make_unique<ImageBudget>(4 << 20);
  auto image = Image::Make(*budget, 1);
  ASSERT_TRUE(image.ok()) << image.status();
  budget->SetOnGiven([] { FAIL() << "nobody is there to be told"; });
  budget = nullptr;
  image->reset();
}

}  // namespace
}  // namespace cairn

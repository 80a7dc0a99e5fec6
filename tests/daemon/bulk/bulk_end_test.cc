// Bulk bytes when something ends early: connections, peers, this very daemon. Every wait ends.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/bulk/bulk.h"
#include "tests/daemon/bulk/bulk_node.h"
#include "tests/daemon/trust/members.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::Barrier;
using testing::BulkNode;
using testing::Cutter;
using testing::NewAuthority;
using testing::Pattern;
using testing::ReadAll;
using testing::ReadInHand;
using testing::RunOf;

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
constexpr std::size_t kMiB = 1 << 20;

const RunId kRun = RunOf(1);

class BulkEndTest : public ::testing::Test {
 protected:
  BulkEndTest() {
    here_.Enter(authority_);
    there_.Enter(authority_);
    there_.Write("/cache/file", bytes_);
  }

  const std::string bytes_ = Pattern(12 * kMiB);
  const std::shared_ptr<const Authority> authority_ = NewAuthority(kRun);
  BulkNode here_{1};
  BulkNode there_{2};
};

TEST_F(BulkEndTest, WhatACutConnectionDidNotBringIsAskedForAgain) {
  Cutter cutter(there_.door().port(), /*cuts=*/1, /*after_bytes=*/2 * kMiB + 77'777);
  const auto files = here_.FilesOf(kRun, there_, cutter.address());
  ASSERT_OK_AND_ASSIGN(const std::string all, ReadAll(*files, "/file"));
  EXPECT_TRUE(all == bytes_);
  EXPECT_EQ(cutter.cut(), 1);
}

TEST_F(BulkEndTest, WhenAllAreCutTheReadFails) {
  Cutter cutter(there_.door().port(), /*cuts=*/1 << 20, /*after_bytes=*/300'000);
  const auto files = here_.FilesOf(kRun, there_, cutter.address());
  ASSERT_OK_AND_ASSIGN(const auto file, files->Open("/file", {}));
  EXPECT_STATUS(kUnavailable, ReadInHand(*file, 0, bytes_.size()).Wait(), "/file");
  std::string part(1000, '\0');
  ASSERT_OK(file->ReadAt(5, std::as_writable_bytes(std::span(part))));  // small enough
  EXPECT_TRUE(part == bytes_.substr(5, 1000));
}

TEST_F(BulkEndTest, ReadsEndBeforeTheirNet) {
  const auto files = here_.FilesOf(kRun, there_);
  ASSERT_OK_AND_ASSIGN(const auto file, files->Open("/file", {}));
  Barrier barrier(there_.disk());
  std::vector<std::unique_ptr<ReadInHand>> reads;
  for (std::size_t i = 0; i < 12; ++i) reads.push_back(std::make_unique<ReadInHand>(*file, i * kMiB, kMiB));
  barrier.AwaitReads(2);
  here_.Shut();
  for (const auto& read : reads) {
    EXPECT_TRUE(read->over());
    EXPECT_STATUS(kUnavailable, read->Wait(), "goes away");
  }
  // What is left of it does no harm.
  EXPECT_STATUS(kUnavailable, ReadInHand(*file, 0, 1).Wait(), "goes away");
  EXPECT_STATUS(kUnavailable, files->Info("/file"), "goes away");
}

TEST_F(BulkEndTest, APeerThatGoesAwayInMidRead) {
  const auto files = here_.FilesOf(kRun, there_);
  ASSERT_OK_AND_ASSIGN(const auto file, files->Open("/file", {}));
  auto barrier = std::make_unique<Barrier>(there_.disk());
  ReadInHand read(*file, 0, bytes_.size());
  barrier->AwaitReads(2);
  std::thread shut([&] { there_.Shut(); });  // waits for its disk
  EXPECT_STATUS(kUnavailable, read.Wait(), "/file");
  barrier.reset();
  shut.join();
}

TEST_F(BulkEndTest, MadeAndEndedWhileOthersRead) {
  for (int i = 0; i < 20; ++i) {
    BulkNode third(3);
    third.Enter(authority_);
    const auto files = third.FilesOf(kRun, there_);
    const auto file = files->Open("/file", {});
    ASSERT_OK(file);
    ReadInHand read(**file, 0, bytes_.size());
    if (i % 2 == 0) third.Shut();
    read.Wait().IgnoreError();  // either; it ends
  }
  EXPECT_OK(here_.FilesOf(kRun, there_)->Info("/file"));
}

}  // namespace
}  // namespace cairn

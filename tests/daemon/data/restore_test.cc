#include "daemon/data/restore.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "storage/base/transfer_shape.h"
#include "storage/io/posix_disk.h"
#include "tests/daemon/data/restore_fixture.h"
#include "tests/support/deep_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

TEST_F(RestoreTest, AnyPiecesFromAnySourcesArriveAsTheyWere) {
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    const Scene scene = RandomScene(fake_);
    ExpectRestored(scene, fake_, ImageOf(Restore::ImageBytes(scene.sources, scene.pieces)));
  }
}

TEST_F(RestoreTest, AnyPiecesThroughTheSmallestRing) {
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    const Scene scene = RandomScene(fake_);
    ExpectRestored(scene, fake_, ImageOf(kRingBytesMin));
  }
}

TEST_F(RestoreTest, ARealDiskGivesTheSame) {
  std::string folder = std::filesystem::temp_directory_path() / "cairn-restore-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  for (const bool io_uring : {true, false}) {
    const std::unique_ptr<PosixDisk> disk = MakePosixDisk({.engine = {.io_uring = io_uring}});
    for (int round = 0; round < 4 && !HasFailure(); ++round) {
      const Scene scene = RandomScene(*disk, folder);
      ExpectRestored(scene, *disk, ImageOf(round % 2 == 0 ? 6 << 20 : 2 << 20));
    }
  }
  std::filesystem::remove_all(folder);
}

TEST_F(RestoreTest, ReadsAsMuchAtOnceAsTheDiskSays) {
  const std::uint32_t kMi = 1 << 20;
  for (const TransferShape& shape :
       {TransferShape{.bytes = kMi / 4, .depth = 8}, TransferShape{.bytes = kMi / 2, .depth = 2},
        TransferShape{.bytes = kMi, .depth = 1}, TransferShape{.bytes = kMi, .depth = 3},
        TransferShape{.bytes = 4 * kMi, .depth = 2}, TransferShape{}}) {
    DeepDisk disk(shape.depth);
    ASSERT_OK(disk.MakeDirectory("/cache", 0700));
    disk.UseShapes({.write = {}, .read = shape});
    Scene scene;
    AddSource(scene, RandomText(40 * kMi), false, disk);
    scene.pieces.push_back({0, 0, 0, 0, scene.files[0].size()});
    scene.expected = scene.files;
    ExpectRestored(scene, disk, ImageOf(40 * kMi));
    EXPECT_EQ(disk.seen().bytes_max, shape.bytes);
    EXPECT_EQ(disk.seen().at_once_max, shape.depth) << shape.bytes;
    EXPECT_EQ(disk.seen().transfers, 40 * kMi / shape.bytes);
  }
}

TEST_F(RestoreTest, AnyPiecesInTransfersOfAnySize) {
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    const std::uint32_t bytes = TransferShape::kBytesMin << random_() % 7;
    fake_.UseShapes({.write = {}, .read = {.bytes = bytes, .depth = 1 + static_cast<std::uint32_t>(random_() % 9)}});
    const Scene scene = RandomScene(fake_);
    ExpectRestored(scene, fake_, ImageOf(round % 2 == 0 ? 8 << 20 : kRingBytesMin));
  }
}

TEST_F(RestoreTest, APartOfABlockThatCannotBeReadFailsItOnceAllPartsHaveEnded) {
  fake_.UseShapes({.write = {}, .read = {.bytes = 256 << 10, .depth = 4}});
  Scene scene;
  AddSource(scene, RandomText(4 << 20), false, fake_);
  scene.pieces.push_back({0, 0, 0, 0, scene.files[0].size()});
  scene.expected = scene.files;
  for (std::uint64_t nth = 1; nth <= 16; ++nth) {
    fake_.FailOn({.op = FakeOp::kRead, .nth = nth});
    std::vector<std::string> variables;
    const End end = Run(scene, fake_, ImageOf(4 << 20), &variables);
    EXPECT_EQ(end.status.code(), absl::StatusCode::kUnavailable) << nth;
    fake_.ClearFaults();
  }
}

TEST_F(RestoreTest, ReadsEveryBlockOnceAndOpensEveryFileOnce) {
  Scene scene;
  AddSource(scene, RandomText(7 << 20), false, fake_);
  AddSource(scene, RandomText(1 << 20), false, fake_);
  // Many small pieces of all blocks, the two files by turns.
  scene.expected.resize(1);
  for (std::uint64_t at = 0; at + 100 < scene.files[0].size(); at += 100000) {
    for (const std::size_t source : {0, 1}) {
      scene.pieces.push_back({0, scene.expected[0].size(), source, at % (1 << 19), 100});
      scene.expected[0] += scene.files[source].substr(at % (1 << 19), 100);
      scene.pieces.push_back({0, scene.expected[0].size(), 0, at, 100});
      scene.expected[0] += scene.files[0].substr(at, 100);
    }
  }
  EXPECT_EQ(Restore::ImageBytes(scene.sources, scene.pieces), std::uint64_t{8} << 20);
  std::mutex mutex;
  std::map<FakeOp, int> operations;
  fake_.SetHook([&](FakeOp op, const std::string&) {
    const std::lock_guard lock(mutex);
    ++operations[op];
  });
  ExpectRestored(scene, fake_, ImageOf(8 << 20));
  EXPECT_EQ(operations[FakeOp::kOpen], 2);
  EXPECT_EQ(operations[FakeOp::kRead], 3) << "blocks 0 to 3, 4 to 6, and the other file";
}

TEST_F(RestoreTest, DamageInAnyBlockIsDataLossOfItsSource) {
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    Scene scene;
    for (int i = 0; i < 3; ++i) AddSource(scene, RandomText(1 + random_() % (3 << 20)), i == 2, fake_);
    scene.expected.resize(3);
    for (std::uint32_t i = 0; i < 3; ++i) {
      scene.expected[i] = scene.files[i];
      scene.pieces.push_back({i, 0, i, 0, scene.files[i].size()});
    }
    const std::size_t damaged = random_() % 3;
    const std::uint64_t bit = random_() % (scene.files[damaged].size() * 8);
    if (damaged < 2) {
      fake_.FlipBit(scene.sources[damaged].path, bit);
    } else {
      scene.sources[2].crc32c[bit / 8 / kCrcBlockBytes] ^= 1;
    }
    std::vector<std::string> variables;
    const End end = Run(scene, fake_, ImageOf(round % 2 == 0 ? 12 << 20 : 2 << 20), &variables);
    EXPECT_STATUS(absl::StatusCode::kDataLoss, end.status,
                  std::string("at offset ") + std::to_string(bit / 8 / kCrcBlockBytes * kCrcBlockBytes));
    const std::string name = damaged < 2 ? scene.sources[damaged].path : "kept image";
    EXPECT_STATUS(absl::StatusCode::kDataLoss, end.status, name);
    EXPECT_EQ(end.source, damaged);
  }
}

TEST_F(RestoreTest, AFileOfAnotherSizeIsDataLossThatNamesPathAndOffset) {
  Scene scene;
  AddSource(scene, RandomText((2 << 20) + 5000), false, fake_);
  scene.pieces.push_back({0, 0, 0, 0, 100});
  scene.expected.push_back(scene.files[0].substr(0, 100));
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{2 << 20}, std::uint64_t{(2 << 20) + 4999}, std::uint64_t{(2 << 20) + 5001}}) {
    std::string text = scene.files[0];
    text.resize(bytes);
    ASSERT_OK(ReplaceFile(fake_, scene.sources[0].path, text));
    std::vector<std::string> variables;
    const End end = Run(scene, fake_, ImageOf(2 << 20), &variables);
    EXPECT_STATUS(absl::StatusCode::kDataLoss, end.status,
                  "/cache/file0: ends at offset " + std::to_string(bytes) + ", expected 2102152");
    EXPECT_EQ(end.source, 0u);
  }
}

TEST_F(RestoreTest, WhatTheDiskRefusesIsToldWithItsSource) {
  Scene scene;
  AddSource(scene, RandomText(3 << 20), false, fake_);
  AddSource(scene, RandomText(3 << 20), false, fake_);
  for (std::uint32_t i = 0; i < 2; ++i) {
    scene.pieces.push_back({i, 0, i, 0, 3 << 20});
    scene.expected.push_back(scene.files[i]);
  }
  for (const FakeOp op : {FakeOp::kOpen, FakeOp::kFileInfo, FakeOp::kRead}) {
    fake_.FailOn({.op = op, .path_part = "file1", .status = absl::UnavailableError("torn cable")});
    std::vector<std::string> variables;
    const End end = Run(scene, fake_, ImageOf(6 << 20), &variables);
    EXPECT_STATUS(absl::StatusCode::kUnavailable, end.status, "torn cable");
    EXPECT_EQ(end.source, 1u);
    fake_.ClearFaults();
  }
  ASSERT_OK(fake_.Remove("/cache/file1"));
  std::vector<std::string> variables;
  const End end = Run(scene, fake_, ImageOf(6 << 20), &variables);
  EXPECT_STATUS(absl::StatusCode::kNotFound, end.status, "/cache/file1");
  EXPECT_EQ(end.source, 1u);
}

TEST_F(RestoreTest, WhateverThrowsFailsTheRestoreAndNotTheProcess) {
  Scene scene;
  AddSource(scene, RandomText(3 << 20), false, fake_);
  scene.pieces.push_back({0, 0, 0, 0, 3 << 20});
  scene.expected.push_back(scene.files[0]);
  for (const FakeOp thrower : {FakeOp::kOpen, FakeOp::kFileInfo, FakeOp::kRead}) {
    fake_.SetHook([thrower](FakeOp op, const std::string&) {
      if (op == thrower) throw std::bad_alloc();
    });
    std::vector<std::string> variables;
    const End end = Run(scene, fake_, ImageOf(3 << 20), &variables);
    EXPECT_STATUS(absl::StatusCode::kResourceExhausted, end.status, "out of memory");
    EXPECT_EQ(end.source, 0u);
  }
  fake_.SetHook(nullptr);
  ExpectRestored(scene, fake_, ImageOf(3 << 20));
}

TEST_F(RestoreTest, RequestsThatDoNotFitAreRefused) {
  Scene good;
  AddSource(good, RandomText(3 << 20), false, fake_);
  AddSource(good, RandomText(3 << 20), true, fake_);
  good.expected.resize(1);
  good.pieces.push_back({0, 0, 1, 0, 100});
  const auto refused = [this](const Scene& scene, std::shared_ptr<Image> image) {
    Listener listener;
    // Held until the end: nothing comes from inside the call.
    const auto restore =
        Restore::Start(fake_, pool_, scene.sources, scene.pieces, std::move(image), listener.callbacks());
    return listener.WaitForEnd();
  };
  Scene scene = good;
  scene.pieces[0].source = 2;
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, refused(scene, ImageOf(2 << 20)).status, "source 2, there are 2");
  EXPECT_EQ(Restore::ImageBytes(scene.sources, scene.pieces), 0u);
  scene = good;
  scene.pieces[0].bytes = UINT64_MAX - 10;
  scene.pieces[0].file_offset = 20;
  const End beyond = refused(scene, ImageOf(2 << 20));
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, beyond.status, "beyond");
  EXPECT_EQ(beyond.source, 1u);
  scene = good;
  scene.sources[0].crc32c.pop_back();
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, refused(scene, ImageOf(2 << 20)).status, "2 checksums");
  scene = good;
  scene.sources[1].file_bytes -= 1;
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, refused(scene, ImageOf(2 << 20)).status, "kept image");
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, refused(good, nullptr).status, "a ring has at least");
}

TEST_F(RestoreTest, CopiedCountsThatCannotBeAreRefused) {
  Scene scene;
  AddSource(scene, RandomText(4 << 20), false, fake_);
  scene.pieces.push_back({0, 0, 0, 0, 4 << 20});
  Listener listener;
  const auto restore =
      Restore::Start(fake_, pool_, scene.sources, scene.pieces, ImageOf(2 << 20), listener.callbacks());
  ASSERT_EQ(restore->plan().size(), 4u);
  std::uint64_t ready = 0;
  while (ready < 2) ready = listener.WaitForReady(ready);
  EXPECT_EQ(ready, 2u) << "the ring is full";
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, restore->Copied(3), "3 pieces copied after 0, 2 are ready");
  EXPECT_OK(restore->Copied(1));
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, restore->Copied(0), "");
  restore->Abort();
  EXPECT_STATUS(absl::StatusCode::kCancelled, listener.WaitForEnd().status, "aborted");
}

TEST_F(RestoreTest, AnAbortDuringAnyOperationEndsItCancelled) {
  Scene scene;
  AddSource(scene, RandomText(9 << 20), false, fake_);
  scene.pieces.push_back({0, 0, 0, 0, 9 << 20});
  for (int nth = 1; nth <= 5; ++nth) {  // open, info, three reads
    std::atomic<int> operations{0};
    std::latch reached(1);
    std::latch aborted(1);
    fake_.SetHook([&](FakeOp, const std::string&) {
      if (++operations != nth) return;
      reached.count_down();
      aborted.wait();
    });
    Listener listener;
    const auto restore =
        Restore::Start(fake_, pool_, scene.sources, scene.pieces, ImageOf(10 << 20), listener.callbacks());
    reached.wait();
    restore->Abort();
    aborted.count_down();
    EXPECT_STATUS(absl::StatusCode::kCancelled, listener.WaitForEnd().status, "aborted");
    fake_.SetHook({});
  }
}

TEST_F(RestoreTest, NothingToRestoreIsRestoredAtOnce) {
  Scene scene;
  ExpectRestored(scene, fake_, nullptr);
  AddSource(scene, "", false, fake_);
  AddSource(scene, "", true, fake_);
  scene.pieces.push_back({0, 0, 0, 0, 0});
  scene.expected.resize(1);
  ExpectRestored(scene, fake_, nullptr);
}

}  // namespace
}  // namespace cairn

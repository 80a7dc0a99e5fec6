#include "daemon/data/shared_blocks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "tests/daemon/data/restore_fixture.h"

namespace cairn {
namespace {

class SharedBlocksTest : public RestoreTest {
 protected:
  // Two files, and all of both wanted.
  Scene TwoFiles(std::uint64_t bytes) {
    Scene scene;
    for (std::uint32_t i = 0; i < 2; ++i) {
      AddSource(scene, RandomText(bytes), false, fake_);
      scene.pieces.push_back({i, 0, i, 0, bytes});
      scene.expected.push_back(scene.files[i]);
    }
    return scene;
  }

  // A restore that has all blocks in its image, and does not end before it is told what has been copied.
  struct Holder {
    Listener listener;
    std::shared_ptr<Image> image;
    std::shared_ptr<Restore> restore;
  };
  void Hold(const Scene& scene, Holder& holder) {
    holder.image = ImageOf(Restore::ImageBytes(scene.sources, scene.pieces));
    holder.restore = Restore::Start(fake_, pool_, scene.sources, scene.pieces, holder.image,
                                    holder.listener.callbacks(), nullptr, &shared_);
    std::uint64_t ready = 0;
    while (ready < holder.restore->plan().size()) {
      const std::uint64_t before = ready;
      ready = holder.listener.WaitForReady(before);
      ASSERT_GT(ready, before);
    }
  }
  void Let(Holder& holder) {
    EXPECT_OK(holder.restore->Copied(holder.restore->plan().size()));
    EXPECT_OK(holder.listener.WaitForEnd().status);
  }

  void CountReads() {
    fake_.SetHook([this](FakeOp op, const std::string&) { reads_ += op == FakeOp::kRead ? 1 : 0; });
  }

  End RunShared(const Scene& scene, std::uint64_t image_bytes) {
    std::vector<std::string> variables;
    End end = Run(scene, fake_, ImageOf(image_bytes), &variables, &shared_);
    EXPECT_EQ(variables == scene.expected, end.status.ok());
    return end;
  }

  std::atomic<int> reads_{0};
  SharedBlocks shared_;
};

TEST_F(SharedBlocksTest, WhatAnotherRestoreHoldsIsNotReadAgain) {
  const Scene scene = TwoFiles((3 << 20) + 777);
  Holder holder;
  Hold(scene, holder);
  CountReads();
  EXPECT_OK(RunShared(scene, 8 << 20).status);
  EXPECT_OK(RunShared(scene, 2 << 20).status) << "in a ring";
  EXPECT_EQ(reads_, 0);
  Let(holder);
  EXPECT_OK(RunShared(scene, 8 << 20).status);
  EXPECT_EQ(reads_, 2) << "nobody holds them any more: a run of four blocks of each file";
}

TEST_F(SharedBlocksTest, OfThoseThatComeTogetherOneReads) {
  const Scene scene = TwoFiles(4 << 20);
  CountReads();
  std::vector<std::thread> ranks;
  std::vector<std::shared_ptr<Image>> images;
  std::vector<std::vector<std::string>> variables(3);
  std::vector<End> ends(3);
  std::latch all_ready(3);
  for (std::size_t i = 0; i < ends.size(); ++i) images.push_back(ImageOf(8 << 20));
  for (std::size_t i = 0; i < ends.size(); ++i) {
    ranks.emplace_back([&, i] {
      Listener listener;
      const auto restore =
          Restore::Start(fake_, pool_, scene.sources, scene.pieces, images[i], listener.callbacks(), nullptr, &shared_);
      std::uint64_t ready = 0;
      while (ready < restore->plan().size()) {
        const std::uint64_t before = ready;
        ready = listener.WaitForReady(before);
        if (ready == before) break;
      }
      all_ready.arrive_and_wait();
      for (std::uint32_t of = 0; of < 2; ++of) {
        const auto* const bytes = reinterpret_cast<const char*>(images[i]->bytes().data());
        variables[i].emplace_back(bytes + (std::size_t{of} << 22), 4 << 20);
      }
      EXPECT_OK(restore->Copied(ready));
      ends[i] = listener.WaitForEnd();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    EXPECT_OK(ends[i].status);
    EXPECT_TRUE(variables[i] == scene.expected);
  }
  EXPECT_LE(reads_, 8) << "each of the eight blocks once, in whatever runs";
}

TEST_F(SharedBlocksTest, WhatAHolderHasChangedComesFromTheFile) {
  const Scene scene = TwoFiles(2 << 20);
  Holder holder;
  Hold(scene, holder);
  holder.image->bytes()[1] ^= std::byte{1};                   // block 0 of the first file
  holder.image->bytes()[(3 << 20) + 4321] ^= std::byte{128};  // block 1 of the second
  CountReads();
  EXPECT_OK(RunShared(scene, 4 << 20).status);
  EXPECT_EQ(reads_, 2);
  Let(holder);
}

TEST_F(SharedBlocksTest, WhoWaitsForAReaderThatFailsReadsForItself) {
  const Scene scene = TwoFiles(2 << 20);
  for (const bool aborted : {false, true}) {
    std::latch reading(1), waiting(1);
    std::atomic<int> reads{0};
    fake_.SetHook([&](FakeOp op, const std::string& path) {
      if (op != FakeOp::kRead || !path.ends_with("file0") || reads++ > 0) return;
      reading.count_down();
      waiting.wait();
      if (!aborted) throw std::bad_alloc();
    });
    Listener first;
    const auto fails = Restore::Start(fake_, pool_, scene.sources, scene.pieces, ImageOf(4 << 20), first.callbacks(),
                                      nullptr, &shared_);
    reading.wait();
    if (aborted) fails->Abort();
    std::thread second([&] { EXPECT_OK(RunShared(scene, 4 << 20).status); });
    waiting.count_down();
    EXPECT_FALSE(first.WaitForEnd().status.ok());
    second.join();
    fake_.SetHook({});
  }
}

TEST_F(SharedBlocksTest, ADamagedBlockFailsAllWhoWantIt) {
  const Scene scene = TwoFiles(3 << 20);
  fake_.FlipBit(scene.sources[1].path, 8 * (1 << 20));
  std::vector<std::thread> ranks;
  for (int i = 0; i < 2; ++i) {
    ranks.emplace_back([&] {
      const End end = RunShared(scene, 6 << 20);
      EXPECT_STATUS(absl::StatusCode::kDataLoss, end.status, "at offset 1048576");
      EXPECT_EQ(end.source, 1u);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_F(SharedBlocksTest, RestoresOfAnyPiecesAtTheSameTimeThroughSmallRings) {
  for (int round = 0; round < 10 && !HasFailure(); ++round) {
    Scene files;
    for (int i = 0; i < 3; ++i) AddSource(files, RandomText(random_() % (3 << 20)), false, fake_);
    std::vector<Scene> scenes(3, files);
    std::vector<std::shared_ptr<Image>> images;
    for (Scene& scene : scenes) {
      AddPieces(scene);
      images.push_back(ImageOf(kRingBytesMin));
    }
    std::vector<std::thread> ranks;
    for (std::size_t i = 0; i < scenes.size(); ++i) {
      ranks.emplace_back([&, i] {
        std::vector<std::string> variables;
        EXPECT_OK(Run(scenes[i], fake_, images[i], &variables, &shared_).status);
        EXPECT_TRUE(variables == scenes[i].expected);
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
}

// --- Who reads, who waits, who is told ---

TEST(SharedFileTest, TheFirstReadsAndEachWhoAsksIsToldOnce) {
  ImageBudget budget(4 << 20);
  const std::shared_ptr<Image> image = *Image::Make(budget, 1);
  SharedFile file;
  const int a = 0, b = 0;
  std::vector<std::string> told;
  const auto note = [&told](const std::string& name) {
    return
        [&told, name](const SharedFile::Lent& lent) { told.push_back(name + (lent.image ? " has it" : " has none")); };
  };
  file.Ask(7, note("early"));
  EXPECT_TRUE(file.Claim(7, &a));
  EXPECT_FALSE(file.Claim(7, &b));
  file.Ask(7, note("b"));
  EXPECT_EQ(told, std::vector<std::string>({"early has none"}));
  file.Lend(7, &b, {image, image->bytes()});  // not b's
  file.Forget(7, &b);
  EXPECT_EQ(told.size(), 1u);
  file.Lend(7, &a, {image, image->bytes()});
  file.Ask(7, note("c"));
  EXPECT_EQ(told, std::vector<std::string>({"early has none", "b has it", "c has it"}));
  file.Forget(7, &a);
  EXPECT_TRUE(file.Claim(7, &b));
  file.Ask(7, note("d"));
  file.Forget(7, &b);
  EXPECT_EQ(told.back(), "d has none");
  EXPECT_EQ(told.size(), 4u);
}

}  // namespace
}  // namespace cairn

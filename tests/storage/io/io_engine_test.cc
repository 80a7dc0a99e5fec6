#include "storage/io/io_engine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/ioprio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "storage/base/unique_fd.h"
#include "storage/io/io_priority.h"
#include "tests/support/io_priorities.h"

namespace cairn {
namespace {

class IoEngineTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/io_engine.XXXXXX";
    file_ = UniqueFd(::mkstemp(name.data()));
    ASSERT_TRUE(file_.valid());
    ASSERT_EQ(::unlink(name.c_str()), 0);
  }

  std::unique_ptr<IoEngine> Make(IoEngineOptions options) {
    options.io_uring = GetParam() == "io_uring";
    auto engine = MakeIoEngine(options);
    if (!ProbeIoUring().ok()) return engine;
    EXPECT_EQ(engine->name(), GetParam());
    return engine;
  }

  IoTransfer Transfer(bool write, std::uint64_t offset, std::span<std::byte> bytes, IoTransfer::Done done) const {
    return {.fd = file_.get(),
            .write = write,
            .direct = false,
            .offset = offset,
            .data = bytes.data(),
            .bytes = bytes.size(),
            .done = std::move(done)};
  }

  UniqueFd file_;
};

INSTANTIATE_TEST_SUITE_P(Engines, IoEngineTest, testing::Values("io_uring", "threads"),
                         [](const auto& info) { return info.param; });

// The thread's that begins it: an engine serves those that clients wait for, and others.
TEST_P(IoEngineTest, EachTransferHasItsOwnPriority) {
  if (!MaySetIoPriority()) GTEST_SKIP() << "ioprio_set is refused here";
  const auto engine = Make({});
  std::vector<std::byte> bytes(4096, std::byte{7});
  std::promise<long> seen;
  std::promise<int> ended;
  const auto submit = [&](IoPriority priority) {
    seen = {}, ended = {};
    IoTransfer transfer = Transfer(true, 0, bytes, [&](int error, std::size_t) {
      seen.set_value(::syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0));
      ended.set_value(error);
    });
    transfer.priority = priority;
    engine->Submit(std::move(transfer));
    return ended.get_future().get();
  };
  const absl::StatusOr<IoPriority> low = IoPriority::Parse("best-effort:7");
  ASSERT_TRUE(low.ok()) << low.status();
  const bool by_threads = engine->name() == "threads";
  for (const IoPriority priority : {*low, IoPriority(), IoPriority::Idle(), *low}) {
    EXPECT_EQ(submit(priority), 0);
    const long number = seen.get_future().get();
    // A ring tells the kernel with each transfer, and its thread stays as it is.
    const IoPriority expected = by_threads ? priority : IoPriority();
    if (expected == IoPriority()) {
      EXPECT_TRUE(IsNone(number)) << number;
    } else {
      EXPECT_EQ(number, expected.number());
    }
  }
  constexpr IoPriority kNoneSuch(7 << IOPRIO_CLASS_SHIFT);
  EXPECT_EQ(submit(kNoneSuch), by_threads ? 0 : EINVAL) << "the kernel has heard of it";
}

TEST_P(IoEngineTest, ATransferHasThePriorityOfTheThreadThatBeginsItWhateverTheEnginesIs) {
  if (!MaySetIoPriority()) GTEST_SKIP() << "ioprio_set is refused here";
  std::thread([] {
    ASSERT_TRUE(IoPriority::Idle().Use().ok());
    EXPECT_EQ(IoTransfer().priority, IoPriority::Idle());
    std::thread([] { EXPECT_EQ(IoTransfer().priority, IoPriority::Idle()) << "one that it makes has it, too"; }).join();
  }).join();
  EXPECT_EQ(IoTransfer().priority, IoPriority());
}

// The first file that is opened makes the engine, and whose that is, is chance.
TEST_P(IoEngineTest, AnEngineHasNotThePriorityOfTheThreadThatMadeIt) {
  if (!MaySetIoPriority()) GTEST_SKIP() << "ioprio_set is refused here";
  std::unique_ptr<IoEngine> engine;
  std::thread([&] {
    ASSERT_TRUE(IoPriority::Idle().Use().ok());
    engine = Make({});
  }).join();
  std::vector<std::byte> bytes(4096, std::byte{7});
  std::promise<long> seen;
  engine->Submit(Transfer(true, 0, bytes,
                          [&](int, std::size_t) { seen.set_value(::syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0)); }));
  const long number = seen.get_future().get();
  EXPECT_TRUE(IsNone(number)) << number;
}

// What a kernel may answer of a thread that was given none must not go with each of its transfers.
TEST(IoPriorityTest, WhatTransfersHaveThatHaveNoneIsNoneUnlessItIsUsed) {
  if (!MaySetIoPriority()) GTEST_SKIP() << "ioprio_set is refused here";
  const absl::StatusOr<IoPriority> middle = IoPriority::Parse("best-effort:4");
  ASSERT_TRUE(middle.ok()) << middle.status();
  std::thread([&] {
    ASSERT_EQ(::syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, middle->number()), 0);
    EXPECT_EQ(IoPriority::OfThisThread(), IoPriority());
    EXPECT_TRUE(middle->Use().ok());
    EXPECT_EQ(IoPriority::OfThisThread(), *middle);
  }).join();
}

TEST(IoPriorityTest, IsAsSettingsHaveIt) {
  for (const char* const text : {"none", "idle", "best-effort:0", "best-effort:7"}) {
    EXPECT_TRUE(IoPriority::Parse(text).ok()) << text;
  }
  EXPECT_EQ(*IoPriority::Parse("none"), IoPriority());
  EXPECT_EQ(IoPriority::Parse("best-effort:7")->number(), IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 7));
  for (const char* const text :
       {"", "Idle", "best-effort", "best-effort:", "best-effort:8", "best-effort:77", "rt:0"}) {
    EXPECT_EQ(IoPriority::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST_P(IoEngineTest, WhoseEndThrowsSpoilsNobodyElsesTransfer) {
  std::vector<std::byte> bytes(4096, std::byte{7});
  std::promise<int> next;
  const auto engine = Make({.threads = 1});
  engine->Submit(Transfer(true, 0, bytes, [](int, std::size_t) { throw std::bad_alloc(); }));
  engine->Submit(Transfer(true, 4096, bytes, [&next](int error, std::size_t) { next.set_value(error); }));
  EXPECT_EQ(next.get_future().get(), 0);
}

TEST_P(IoEngineTest, DestructorFinishesEverythingSubmitted) {
  constexpr int kTransfers = 500;
  std::vector<std::byte> bytes(4096, std::byte{7});
  std::atomic<int> done{0};
  {
    const auto engine = Make({.in_flight_max = 4, .queued_max = 1000});
    for (int i = 0; i < kTransfers; ++i) {
      engine->Submit(Transfer(true, 4096u * i, bytes, [&](int error, std::size_t n) {
        EXPECT_EQ(error, 0);
        EXPECT_EQ(n, 4096u);
        ++done;
      }));
    }
  }
  EXPECT_EQ(done, kTransfers);
  EXPECT_EQ(::lseek(file_.get(), 0, SEEK_END), 4096 * kTransfers);
}

TEST_P(IoEngineTest, FullQueueHoldsTheSubmitterUntilThereIsRoom) {
  std::vector<std::byte> bytes(16, std::byte{7});
  std::promise<void> gate, entered;
  std::shared_future<void> open = gate.get_future().share();
  std::atomic<int> submitted{0}, done{0};
  {
    const auto engine = Make({.in_flight_max = 1, .queued_max = 2, .threads = 1});
    // The engine's only thread stands in this callback: nothing leaves the queue.
    engine->Submit(Transfer(true, 0, bytes, [&, open](int, std::size_t) {
      entered.set_value();
      open.wait();
    }));
    entered.get_future().wait();
    std::thread submitter([&] {
      for (int i = 0; i < 8; ++i) {
        engine->Submit(Transfer(true, 16u * i, bytes, [&](int, std::size_t) { ++done; }));
        ++submitted;
      }
    });
    while (submitted < 2) std::this_thread::yield();
    EXPECT_LE(submitted, 2);
    EXPECT_EQ(done, 0);
    gate.set_value();
    submitter.join();
  }
  EXPECT_EQ(done, 8);
}

TEST_P(IoEngineTest, CallbackMaySubmitEvenWhenTheQueueIsFull) {
  std::vector<std::byte> bytes(16, std::byte{7});
  std::atomic<int> done{0};
  {
    const auto engine = Make({.in_flight_max = 1, .queued_max = 1, .threads = 1});
    std::function<void(int)> chain = [&](int left) {
      engine->Submit(Transfer(true, 16u * left, bytes, [&, left](int error, std::size_t) {
        EXPECT_EQ(error, 0);
        ++done;
        if (left > 0) chain(left - 1);
      }));
    };
    for (int i = 0; i < 4; ++i) chain(9);
    while (done < 40) std::this_thread::yield();
  }
  EXPECT_EQ(done, 40);
}

TEST_P(IoEngineTest, ShortTransferAtTheEndOfTheFileSaysHowMuch) {
  std::vector<std::byte> bytes(100);
  ASSERT_EQ(::ftruncate(file_.get(), 60), 0);
  const auto engine = Make({});
  std::promise<std::pair<int, std::size_t>> answer;
  engine->Submit(Transfer(false, 10, bytes, [&](int error, std::size_t n) { answer.set_value({error, n}); }));
  EXPECT_EQ(answer.get_future().get(), (std::pair<int, std::size_t>{0, 50}));
}

TEST_P(IoEngineTest, PartsThatArriveOneByOneAreResubmitted) {
  // A pipe gives what is there: each part is a short transfer.
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const auto engine = Make({});
  if (engine->name() == "threads") GTEST_SKIP() << "pread takes no pipe";
  std::vector<std::byte> bytes(6);
  std::promise<std::pair<int, std::size_t>> answer;
  IoTransfer transfer = Transfer(false, 0, bytes, [&](int error, std::size_t n) { answer.set_value({error, n}); });
  transfer.fd = from.get();
  engine->Submit(std::move(transfer));
  ASSERT_EQ(::write(to.get(), "abc", 3), 3);
  ASSERT_EQ(::write(to.get(), "de", 2), 2);
  to.Reset();
  EXPECT_EQ(answer.get_future().get(), (std::pair<int, std::size_t>{0, 5}));
  EXPECT_EQ(bytes[4], std::byte{'e'});
}

TEST_P(IoEngineTest, ErrorOfTheKernelIsHandedOn) {
  std::vector<std::byte> bytes(16);
  const UniqueFd closed(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto engine = Make({});
  std::promise<int> answer;
  IoTransfer transfer = Transfer(true, 0, bytes, [&](int error, std::size_t) { answer.set_value(error); });
  transfer.fd = closed.get();
  engine->Submit(std::move(transfer));
  EXPECT_EQ(answer.get_future().get(), EBADF);
}

TEST_P(IoEngineTest, EmptyTransferAnswersToo) {
  const auto engine = Make({});
  std::promise<int> answer;
  engine->Submit(Transfer(true, 0, {}, [&](int error, std::size_t) { answer.set_value(error); }));
  EXPECT_EQ(answer.get_future().get(), 0);
}

TEST_P(IoEngineTest, SubmittersOnManyThreadsLoseNothing) {
  std::vector<std::byte> bytes(512, std::byte{1});
  std::atomic<int> done{0};
  {
    const auto engine = Make({.in_flight_max = 8, .queued_max = 4});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i) {
          engine->Submit(Transfer(true, 512u * (t * 500 + i), bytes, [&](int error, std::size_t) {
            EXPECT_EQ(error, 0);
            ++done;
          }));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(done, 2000);
}

// --- Pinned memory ---

class PinnedMemoryTest : public IoEngineTest {
 protected:
  static constexpr std::size_t kBytes = 3 << 20;

  void SetUp() override {
    IoEngineTest::SetUp();
    void* const space = mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(space, MAP_FAILED);
    all_ = {static_cast<std::byte*>(space), 2 * kBytes};
    for (std::size_t i = 0; i < all_.size(); ++i) all_[i] = static_cast<std::byte>(i * 7 + i / 4096);
  }
  void TearDown() override { munmap(all_.data(), all_.size()); }

  int Run(IoEngine& engine, bool write, std::uint64_t offset, std::span<std::byte> bytes) {
    std::promise<int> end;
    engine.Submit(Transfer(write, offset, bytes, [&](int error, std::size_t n) {
      end.set_value(error != 0 ? error : n == bytes.size() ? 0 : EIO);
    }));
    return end.get_future().get();
  }
  // Both ways.
  void ExpectMoved(IoEngine& engine, std::span<std::byte> bytes) {
    std::vector<std::byte> back(bytes.size());
    const std::vector<std::byte> content(bytes.begin(), bytes.end());
    ASSERT_EQ(Run(engine, true, 5, bytes), 0);
    ASSERT_EQ(Run(engine, false, 5, back), 0);
    EXPECT_TRUE(back == content);
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
    ASSERT_EQ(Run(engine, false, 5, bytes), 0);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), content.begin()));
  }

  std::span<std::byte> all_;  // the first half is to be pinned
};

INSTANTIATE_TEST_SUITE_P(Engines, PinnedMemoryTest, testing::Values("io_uring", "threads"),
                         [](const auto& info) { return info.param; });

TEST_P(PinnedMemoryTest, TransfersFromWithinAcrossAndOutsideMoveTheSameBytes) {
  const auto engine = Make({});
  auto pinned = engine->Pin(all_.first(kBytes));
  EXPECT_EQ(pinned != nullptr, engine->name() == "io_uring" && ProbePinning(kBytes).ok());
  for (const std::size_t from : {std::size_t{0}, std::size_t{1234}, kBytes - 4096, kBytes - 1, kBytes}) {
    ExpectMoved(*engine, all_.subspan(from, 4096 + from % 100));
  }
  ExpectMoved(*engine, all_.first(kBytes));
  pinned.reset();
  ExpectMoved(*engine, all_.first(kBytes));
}

// Only then can the kernel have used them: what lies at their addresses now is something else.
TEST_P(PinnedMemoryTest, ItsPagesAreLookedForOnce) {
  const auto engine = Make({});
  const auto pinned = engine->Pin(all_.first(kBytes));
  if (pinned == nullptr) GTEST_SKIP() << "nothing is pinned by " << GetParam() << ": " << ProbePinning(kBytes);
  const std::vector<std::byte> before(all_.begin(), all_.begin() + 8192);
  ASSERT_NE(mmap(all_.data(), kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            MAP_FAILED);
  ASSERT_EQ(Run(*engine, true, 0, all_.first(8192)), 0);
  std::vector<std::byte> back(8192);
  ASSERT_EQ(Run(*engine, false, 0, back), 0);
  EXPECT_TRUE(back == before);
}

TEST_P(PinnedMemoryTest, NumbersAreUsedAgainAndRefusedOnesHarmNothing) {
  const auto engine = Make({});
  for (int i = 0; i < 20'000; ++i) {
    const auto pinned = engine->Pin(all_.subspan(4096u * (i % 8), 4096));
    if (i == 0 && pinned == nullptr) GTEST_SKIP() << "nothing is pinned by " << GetParam();
    ASSERT_NE(pinned, nullptr) << i;
  }
  std::vector<std::shared_ptr<void>> many;
  while (many.empty() || many.back() != nullptr) {
    ASSERT_LT(many.size(), 20'000u) << "there is no end of numbers";
    many.push_back(engine->Pin(all_.subspan(64 * many.size(), 64)));
  }
  EXPECT_EQ(engine->Pin(all_.first(64)), nullptr) << "it is pinned already";
  ExpectMoved(*engine, all_.first(1 << 20));
}

TEST_P(PinnedMemoryTest, AHandleMayOutliveTheEngine) {
  auto engine = Make({});
  const auto pinned = engine->Pin(all_.first(kBytes));
  engine.reset();
}

TEST_P(PinnedMemoryTest, SwitchedOffNothingIsPinnedAndAllWorks) {
  const auto engine = Make({.pin = false});
  EXPECT_EQ(engine->Pin(all_.first(kBytes)), nullptr);
  ExpectMoved(*engine, all_.first(kBytes));
}

}  // namespace
}  // namespace cairn

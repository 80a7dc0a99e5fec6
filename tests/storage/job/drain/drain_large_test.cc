// Files of many windows: parts that are synced and read back while the next ones are written. The files have data at
// the begin of each window only, so that a part costs little; there each window has its number.
#include <absl/synchronization/mutex.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "tests/storage/job/drain/drain_fixture.h"

namespace cairn {
namespace {

using testing::Bytes;
using testing::DrainFixture;

constexpr std::size_t kWindow = 4 << 20;
constexpr std::size_t kPart = 64;                 // windows, as copy.h has it
constexpr std::size_t kWindows = 2 * kPart + 22;  // two parts and the begin of a third one
constexpr std::size_t kData = 5000;               // of each window; the file ends with them, in no block's end
constexpr absl::Duration kLong = absl::Seconds(30);

class DrainLargeTest : public DrainFixture {
 protected:
  static std::string DataOf(std::uint64_t window) {
    std::string data = Bytes(kData, static_cast<char>('a' + window % 7));
    ++window;  // what was lost reads as zeros, which are no number
    std::memcpy(data.data(), &window, sizeof window);
    return data;
  }
  static std::size_t NumberOf(std::span<const std::byte> bytes) {
    std::uint64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return static_cast<std::size_t>(number - 1);
  }
  static bool IsWork(const std::string& path) { return path.find("/work/") != std::string::npos; }

  void PutLarge() const {
    const UniqueFd fd(::open((from_ + "/large").c_str(), O_CREAT | O_RDWR | O_TRUNC, 0600));
    for (std::size_t window = 0; window < kWindows; ++window) {
      const std::string data = DataOf(window);
      ASSERT_EQ(::pwrite(fd.get(), data.data(), kData, static_cast<off_t>(window * kWindow)), ssize_t{kData});
    }
  }
  // Is it whole at the target?
  void ExpectLarge() const {
    ASSERT_TRUE(IsThere("large"));
    EXPECT_EQ(std::filesystem::file_size(to_ + "/large"), (kWindows - 1) * kWindow + kData);
    const UniqueFd fd(::open((to_ + "/large").c_str(), O_RDONLY));
    for (std::size_t window = 0; window < kWindows; ++window) {
      std::string data(kData, '\0');
      ASSERT_EQ(::pread(fd.get(), data.data(), kData, static_cast<off_t>(window * kWindow)), ssize_t{kData});
      ASSERT_TRUE(data == DataOf(window)) << window;
    }
  }
  void ExpectNothingLeft() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Own())) {
      EXPECT_FALSE(IsWork(entry.path()) && entry.is_regular_file()) << entry.path();
    }
  }
};

// A disk that gives back only what was synced after it was written, and keeps the last block's end to itself until a
// sync that comes after the cut.
TEST_F(DrainLargeTest, EachPartIsReadBackFromWhatWasSyncedWhileTheNextOnesAreWritten) {
  PutLarge();
  for (const std::size_t parallel : {1, 2, 5}) {
    SCOPED_TRACE(::testing::Message() << parallel << " workers");
    std::filesystem::remove_all(to_);
    std::filesystem::create_directory(to_);
    absl::Mutex mutex;
    absl::CondVar came;
    std::set<std::size_t> written, in_sync, synced, read;
    std::size_t writes = 0, lost = 0;
    bool waited_in_vain = false;
    target_hooks_.before = [&](std::string_view what, const std::string& path) {
      const absl::MutexLock lock(&mutex);
      if (!IsWork(path)) return absl::OkStatus();
      if (what == "sync") in_sync = written;
      if (what == "truncate") synced.erase(kWindows - 1);
      // One worker stays in its write until another one has read something back.
      if (what == "write" && ++writes == 2 * kPart + 1 && parallel > 1) {
        while (read.empty() && !waited_in_vain) waited_in_vain = came.WaitWithTimeout(&mutex, kLong);
      }
      return absl::OkStatus();
    };
    target_hooks_.after = [&](std::string_view what, const std::string& path, std::span<const std::byte> bytes) {
      const absl::MutexLock lock(&mutex);
      if (what == "write" && IsWork(path)) written.insert(NumberOf(bytes));
      if (what == "sync" && IsWork(path)) synced.insert(in_sync.begin(), in_sync.end());
    };
    target_hooks_.came = [&](const std::string& path, std::span<std::byte> bytes) {
      const absl::MutexLock lock(&mutex);
      if (!IsWork(path) || bytes.empty()) return;
      const std::size_t number = NumberOf(bytes);
      if (!synced.contains(number)) {
        ++lost;
        std::memset(bytes.data(), 0, bytes.size());
      }
      read.insert(number);
      came.SignalAll();
    };
    Hook();
    options_.parallel = parallel;
    EXPECT_TRUE(Drained().complete());
    EXPECT_EQ(lost, 0U) << "what was not synced was read back";
    EXPECT_FALSE(waited_in_vain) << "nothing was read back while something was written";
    EXPECT_EQ(written.size(), kWindows);
    EXPECT_EQ(read.size(), kWindows);
    EXPECT_EQ(writes, kWindows);
    ExpectLarge();
  }
}

TEST_F(DrainLargeTest, ABlockThatChangedOnTheDiskIsSeenInEachPart) {
  PutLarge();
  std::atomic<std::size_t> bad{0};
  std::atomic<int> bad_left{0};
  target_hooks_.came = [&](const std::string& path, std::span<std::byte> bytes) {
    if (!IsWork(path) || bytes.empty() || NumberOf(bytes) != bad || --bad_left < 0) return;
    bytes[bytes.size() / 2] ^= std::byte{1};
  };
  Hook();
  for (const std::size_t window : {std::size_t{0}, kPart - 1, kPart, kPart + 7, 2 * kPart, kWindows - 1}) {
    SCOPED_TRACE(window);
    std::filesystem::remove_all(to_);
    std::filesystem::create_directory(to_);
    bad = window;
    bad_left = 1000;
    EXPECT_NE(Why(Drained().damaged, "large"), "");
    EXPECT_FALSE(IsThere("large"));
    ExpectNothingLeft();
    bad_left = 1;  // once: it is written anew
    EXPECT_TRUE(Drained().complete());
    EXPECT_LE(bad_left, 0);
    ExpectLarge();
  }
}

TEST_F(DrainLargeTest, KilledWhileAPartIsReadBackNothingIsLostOrTwice) {
  PutLarge();
  for (const int reads : {1, 30, static_cast<int>(kPart) + 5, static_cast<int>(kWindows) - 1}) {
    SCOPED_TRACE(::testing::Message() << "killed before read " << reads);
    std::filesystem::remove_all(to_);
    std::filesystem::create_directory(to_);
    const pid_t child = ::fork();
    if (child == 0) {
      std::atomic<int> left{reads};
      target_hooks_.before = [&](std::string_view what, const std::string& path) {
        if (what == "read" && IsWork(path) && --left == 0) ::kill(::getpid(), SIGKILL);
        return absl::OkStatus();
      };
      Hook();
      const auto disk = MakePosixDisk();
      const auto drain = Drain::Open(*disk, options_);
      if (drain.ok()) (*drain)->Pass(stop_).IgnoreError();
      ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_TRUE(Files(to_).empty()) << "it has no name yet";
    target_hooks_ = {};
    Hook();
    DrainReport report = Drained();
    EXPECT_TRUE(report.complete());
    EXPECT_EQ(report.files, 1U);
    ExpectLarge();
    ExpectNothingLeft();
    report = Drained();
    EXPECT_EQ(report.files, 0U);
    EXPECT_EQ(report.there_files, 1U);
  }
}

TEST_F(DrainLargeTest, AStopWhileAPartIsReadBackLeavesNoName) {
  PutLarge();
  for (const int reads : {1, static_cast<int>(kWindows) - 1}) {
    std::filesystem::remove_all(to_);
    std::filesystem::create_directory(to_);
    std::atomic<int> left{reads};
    target_hooks_.came = [&](const std::string& path, std::span<std::byte>) {
      if (IsWork(path) && --left == 0) stop_ = true;
    };
    Hook();
    options_.parallel = 1;
    EXPECT_TRUE(Drained().stopped);
    EXPECT_TRUE(Files(to_).empty());
    ExpectNothingLeft();
    stop_ = false;
    EXPECT_TRUE(Drained().complete());
    ExpectLarge();
  }
}

TEST_F(DrainLargeTest, AnySyncOrReadThatFailsIsTheFilesEnd) {
  PutLarge();
  struct Trouble {
    std::string_view what;
    int at = 0;
  };
  for (const Trouble& trouble : {Trouble{"sync", 1},
                                 {"sync", 2},
                                 {"sync", 3},
                                 {"read", 1},
                                 {"read", kWindows},
                                 {"write", 1},
                                 {"write", kWindows},
                                 {"truncate", 2},
                                 {"set attributes", 1}}) {
    SCOPED_TRACE(::testing::Message() << trouble.what << " " << trouble.at);
    std::filesystem::remove_all(to_);
    std::filesystem::create_directory(to_);
    std::atomic<int> left{trouble.at};
    target_hooks_.before = [&](std::string_view what, const std::string& path) {
      const bool fails = what == trouble.what && IsWork(path) && --left == 0;
      return fails ? Unavailable("bad disk") : absl::OkStatus();
    };
    Hook();
    options_.parallel = 3;
    const DrainReport report = Drained();
    EXPECT_NE(Why(report.failed, "large").find("bad disk"), std::string::npos);
    EXPECT_FALSE(IsThere("large"));
    ExpectNothingLeft();
    target_hooks_ = {};
    EXPECT_TRUE(Drained().complete());
    ExpectLarge();
  }
}

TEST_F(DrainLargeTest, WithoutReadingBackOrPastTheCacheThereIsOneSync) {
  PutLarge();
  struct Way {
    bool check = false, direct = false;
  };
  for (const auto& [check, direct] : {Way{.direct = true}, Way{}, Way{.check = true}}) {
    SCOPED_TRACE(::testing::Message() << "check " << check << ", direct " << direct);
    std::filesystem::remove_all(to_);
    std::filesystem::create_directory(to_);
    std::atomic<int> syncs{0}, early{0}, bypasses{0};
    std::atomic<std::size_t> reads{0};
    target_hooks_.before = [&](std::string_view what, const std::string& path) -> absl::Status {
      if (!IsWork(path)) return absl::OkStatus();
      syncs += what == "sync" ? 1 : 0;
      reads += what == "read" ? 1 : 0;
      early += what == "read" && syncs == 0 ? 1 : 0;
      bypasses += what == "bypass cache" ? 1 : 0;
      return what == "bypass cache" && !direct ? Unavailable("no direct I/O") : absl::OkStatus();
    };
    Hook();
    options_.check = check;
    const DrainReport report = Drained();
    EXPECT_TRUE(report.complete());
    EXPECT_EQ(syncs, 1);
    EXPECT_EQ(early, 0);
    EXPECT_EQ(bypasses, check ? 2 : 1) << "what is not read back stays in the cache";
    EXPECT_EQ(reads, check ? kWindows : 0);
    EXPECT_EQ(report.read_through_cache, check ? 1U : 0U);
    ExpectLarge();
  }
}

TEST_F(DrainLargeTest, KeepsToTheBandwidthAndTellsOfAllBytes) {
  Put("large", Bytes((12 << 20) + 1));
  DrainProgress progress;
  options_.progress = &progress;
  options_.bytes_per_s = 40'000'000;
  const DrainReport report = Drained();
  EXPECT_TRUE(report.complete());
  EXPECT_GE(report.milliseconds, 150U);  // some may go at once
  EXPECT_EQ(progress.bytes, (12U << 20) + 1);
  EXPECT_TRUE(Files(to_) == Files(from_));
}

}  // namespace
}  // namespace cairn

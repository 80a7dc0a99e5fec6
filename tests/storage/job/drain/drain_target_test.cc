// What is at the target: whose it is, what is replaced, and what a target that fails leaves behind.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "tests/storage/job/drain/drain_fixture.h"

namespace cairn {
namespace {

using testing::Bytes;
using testing::DrainFixture;

class DrainTargetTest : public DrainFixture {};

TEST_F(DrainTargetTest, ANewVersionReplacesTheOneThatADrainHasMade) {
  Put("file", "one");
  Drained();
  Put("file", "two, longer");
  const DrainReport report = Drained();
  EXPECT_EQ(report.files, 1U);
  EXPECT_EQ(At("file"), "two, longer");
}

TEST_F(DrainTargetTest, AModeThatChangedIsBroughtWithoutTheBytes) {
  Put("small", Bytes(100));
  Put("large", Bytes(6 << 20));
  Drained();
  for (const char* name : {"/small", "/large"}) ASSERT_EQ(::chmod((from_ + name).c_str(), 0711), 0);
  std::atomic<int> creates{0};
  target_hooks_.before = [&](std::string_view what, const std::string&) {
    if (what == "create") ++creates;
    return absl::OkStatus();
  };
  Hook();
  const DrainReport report = Drained();
  EXPECT_EQ(report.there_files, 2U);
  EXPECT_EQ(creates, 0);
  for (const char* name : {"/small", "/large"}) {
    EXPECT_EQ(static_cast<int>(std::filesystem::status(to_ + name).permissions()), 0711) << name;
  }
}

TEST_F(DrainTargetTest, AFileOfSomebodyElseIsNeverReplaced) {
  Put("file", "mine");
  std::ofstream(to_ + "/file") << "hers";
  EXPECT_NE(Why(Drained().failed, "file"), "");
  EXPECT_EQ(At("file"), "hers");
  // Nor one of ours that somebody has changed since.
  Put("other", "one");
  Drained();
  std::ofstream(to_ + "/other") << "hers, too";
  Put("other", "second");
  EXPECT_NE(Why(Drained().failed, "other"), "");
  EXPECT_EQ(At("other"), "hers, too");
}

TEST_F(DrainTargetTest, TheSameFileOfSomebodyElseIsThere) {
  Put("file", Bytes(5 << 20));
  std::filesystem::copy_file(from_ + "/file", to_ + "/file");
  const DrainReport report = Drained();
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.files, 0U);
  EXPECT_EQ(report.there_files, 1U);
}

// Whoever made it may not have synced it; and a write that was lost on its way still lies in the page cache.
TEST_F(DrainTargetTest, WhatIsFoundThereCountsOnceItIsSyncedAndReadFromTheDisk) {
  Put("file", Bytes(5000));
  std::filesystem::copy_file(from_ + "/file", to_ + "/file");
  std::vector<std::string> calls;
  bool lost = true;
  target_hooks_.before = [&](std::string_view what, const std::string& path) -> absl::Status {
    if (path != "file") return absl::OkStatus();
    if (what == "sync" || what == "bypass cache" || what == "read") calls.emplace_back(what);
    return lost && what == "sync" ? Unavailable("bad disk") : absl::OkStatus();
  };
  Hook();
  options_.delete_source = true;
  EXPECT_NE(Why(Drained().failed, "file"), "");
  EXPECT_TRUE(Is(from_ + "/file"));
  lost = false;
  calls.clear();
  const DrainReport report = Drained();
  EXPECT_EQ(report.there_files, 1U);
  EXPECT_EQ(report.deleted, 1U);
  ASSERT_GE(calls.size(), 3U);
  EXPECT_EQ(calls[0], "sync");
  EXPECT_EQ(calls[1], "bypass cache");
  EXPECT_EQ(calls[2], "read");
}

TEST_F(DrainTargetTest, WhatIsFoundThereAndIsReadThroughTheCacheIsCounted) {
  Put("file", Bytes(5000));
  std::filesystem::copy_file(from_ + "/file", to_ + "/file");
  target_hooks_.before = [](std::string_view what, const std::string&) {
    return what == "bypass cache" ? Unavailable("not here") : absl::OkStatus();
  };
  Hook();
  EXPECT_EQ(Drained().read_through_cache, 1U);
}

TEST_F(DrainTargetTest, AFurtherNameIsNotMadeOfWhatSomebodyElseHasPutUnderTheFirstOne) {
  Put("first", "mine");
  std::filesystem::create_hard_link(from_ + "/first", from_ + "/second");
  bool put = false, refused = false;
  target_hooks_.before = [&](std::string_view what, const std::string&) {
    if (what != "link" || std::exchange(put, true)) return absl::OkStatus();
    std::filesystem::remove(to_ + "/first");
    if (!refused) std::ofstream(to_ + "/first") << "hers";
    return absl::OkStatus();
  };
  Hook();
  auto drain = Drain::Open(*disk_, options_);
  ASSERT_OK(drain);
  auto report = (*drain)->Pass(stop_);
  ASSERT_OK(report);
  EXPECT_NE(Why(report->failed, "second"), "");
  EXPECT_FALSE(IsThere("second"));
  report = (*drain)->Pass(stop_);
  ASSERT_OK(report);
  EXPECT_NE(Why(report->failed, "first"), "");  // that of somebody else
  EXPECT_EQ(At("first"), "hers");
  // And when it is only taken away, both come.
  std::filesystem::remove(to_ + "/first");
  put = false, refused = true;
  report = (*drain)->Pass(stop_);
  ASSERT_OK(report);
  EXPECT_NE(Why(report->failed, "second"), "");
  report = (*drain)->Pass(stop_);
  ASSERT_OK(report);
  EXPECT_TRUE(report->complete());
  EXPECT_TRUE(std::filesystem::equivalent(to_ + "/first", to_ + "/second"));
}

TEST_F(DrainTargetTest, AJournalForgetsWhatCannotBeAtTheTargetAnyMore) {
  constexpr int kFiles = 700, kPasses = 8;
  for (int i = 0; i < kFiles; ++i) Put("f" + std::to_string(i), "bytes");
  bool refuses = true;
  target_hooks_.before = [&](std::string_view what, const std::string& path) {
    return refuses && what == "rename to" && path.starts_with("f") ? Unavailable("not now") : absl::OkStatus();
  };
  Hook();
  for (int pass = 0; pass < kPasses; ++pass) EXPECT_EQ(Drained().failed.count(), static_cast<unsigned>(kFiles));
  refuses = false;
  const auto size = [&] {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Own())) {
      if (entry.path().filename() == "journal") return entry.file_size();
    }
    return std::uintmax_t{0};
  };
  const std::uintmax_t before = size();
  EXPECT_TRUE(Drained().complete());
  EXPECT_LT(size(), before / (kPasses / 2));
  const DrainReport report = Drained();
  EXPECT_EQ(report.there_files, static_cast<unsigned>(kFiles));
  EXPECT_EQ(report.files, 0U);
}

// So a drain that is killed then knows the folder for its own.
TEST_F(DrainTargetTest, TheJournalKnowsAFolderBeforeItHasItsName) {
  Put("made/sub/file", "bytes");
  int known = 0;
  target_hooks_.before = [&](std::string_view what, const std::string& path) {
    if ((what != "rename to" && what != "make folder") || (path != "made" && path != "made/sub")) {
      return absl::OkStatus();
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Own())) {
      if (entry.path().filename() != "journal") continue;
      known += ReadPath(entry.path()).find(path + "/") != std::string::npos ? 1 : 0;
    }
    return absl::OkStatus();
  };
  Hook();
  EXPECT_TRUE(Drained().complete());
  EXPECT_EQ(known, 2);
}

TEST_F(DrainTargetTest, WhereFoldersCannotBeRenamedTheyAreMadeUnderTheirNames) {
  Put("made/sub/file", "bytes");
  target_hooks_.before = [](std::string_view what, const std::string& path) {
    return what == "rename to" && path.starts_with("made") && !path.ends_with("file") ? PermissionDenied("no")
                                                                                      : absl::OkStatus();
  };
  Hook();
  const DrainReport report = Drained();
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.folders, 2U);
  EXPECT_EQ(At("made/sub/file"), "bytes");
  EXPECT_EQ(std::filesystem::last_write_time(to_ + "/made"), std::filesystem::last_write_time(from_ + "/made"));
}

TEST_F(DrainTargetTest, WhatWasOnlyFoundThereIsNotReplacedWhenTheSourceChanges) {
  Put("file", "one");
  std::filesystem::copy_file(from_ + "/file", to_ + "/file");
  std::filesystem::last_write_time(to_ + "/file", std::filesystem::last_write_time(from_ + "/file"));
  EXPECT_EQ(Drained().there_files, 1U);
  Put("file", "two, longer");
  EXPECT_NE(Why(Drained().failed, "file"), "");
  EXPECT_EQ(At("file"), "one");
}

TEST_F(DrainTargetTest, ATargetWithCoarserTimesStillKnowsItsFiles) {
  target_hooks_.coarse_times = true;
  Hook();
  Put("file", "one");
  Drained();
  EXPECT_EQ(Drained().there_files, 1U);
  Put("file", "two, longer");
  EXPECT_EQ(Drained().files, 1U);
  EXPECT_EQ(At("file"), "two, longer");
}

TEST_F(DrainTargetTest, AReplacementThatDidNotGetItsNameGetsItLater) {
  Put("file", "one");
  Drained();
  Put("file", "two, longer");
  bool refuses = true;
  target_hooks_.before = [&](std::string_view what, const std::string& path) -> absl::Status {
    return refuses && what == "rename to" && path == "file" ? Unavailable("not now") : absl::OkStatus();
  };
  Hook();
  EXPECT_NE(Why(Drained().failed, "file"), "");
  EXPECT_EQ(At("file"), "one");
  Put("file", "three, longer still");
  EXPECT_NE(Why(Drained().failed, "file"), "");
  refuses = false;
  EXPECT_TRUE(Drained().complete());
  EXPECT_EQ(At("file"), "three, longer still");
}

TEST_F(DrainTargetTest, AFileOfOursThatIsChangedThereMeanwhileIsNotReplaced) {
  Put("file", "one");
  Drained();
  Put("file", "two, longer");
  target_hooks_.before = [&](std::string_view what, const std::string& path) {
    if (what == "create" && path.find("/work/") != path.npos) std::ofstream(to_ + "/file") << "hers";
    return absl::OkStatus();
  };
  Hook();
  EXPECT_NE(Why(Drained().failed, "file"), "");
  EXPECT_EQ(At("file"), "hers");
}

TEST_F(DrainTargetTest, AFileThatIsMadeThereMeanwhileIsNotReplaced) {
  Put("file", "mine");
  target_hooks_.before = [&](std::string_view what, const std::string& path) {
    if (what == "rename to" && path == "file") std::ofstream(to_ + "/file") << "hers";
    return absl::OkStatus();
  };
  Hook();
  EXPECT_NE(Why(Drained().failed, "file"), "");
  EXPECT_EQ(At("file"), "hers");
}

TEST_F(DrainTargetTest, WhatIsReadBackOtherwiseIsWrittenAnewAndThenRefused) {
  std::atomic<int> bad_left{0};
  target_hooks_.came = [&](const std::string& path, std::span<std::byte> bytes) {
    if (path.find("/work/") == std::string::npos || bytes.empty() || --bad_left < 0) return;
    bytes[bytes.size() / 2] ^= std::byte{1};
  };
  Hook();
  options_.parallel = 1;
  for (const auto& [name, bytes] : {std::pair{"small", 1000}, {"large", 6 << 20}}) {
    Put(name, Bytes(static_cast<std::size_t>(bytes)));
    bad_left = 1;
    EXPECT_TRUE(Drained().complete()) << name;
    EXPECT_LE(bad_left, 0);
    EXPECT_TRUE(Files(to_) == Files(from_));
    Put(name, Bytes(static_cast<std::size_t>(bytes) + 1));
    bad_left = 1000;
    const DrainReport report = Drained();
    EXPECT_EQ(report.damaged.count(), 1U) << name;
    EXPECT_TRUE(At(name) == Bytes(static_cast<std::size_t>(bytes))) << name;
    bad_left = 0;
    EXPECT_TRUE(Drained().complete());
  }
}

TEST_F(DrainTargetTest, ATargetThatIsFullEndsItAndLeavesNothingHalf) {
  for (int i = 0; i < 40; ++i) Put("f" + std::to_string(100 + i), Bytes(1000 + i));
  Put("large", Bytes(9 << 20));
  std::atomic<int> creates{0};
  std::atomic<bool> full{true};
  target_hooks_.before = [&](std::string_view what, const std::string& path) -> absl::Status {
    if (!full || path.find("/work/") == std::string::npos) return absl::OkStatus();
    if (what == "create") ++creates;
    const bool no_room = what == "reserve" || (what == "write" && creates > 20);
    return no_room ? ResourceExhausted("no room") : absl::OkStatus();
  };
  Hook();
  DrainReport report = Drained();
  EXPECT_TRUE(report.stopped);
  EXPECT_NE(report.stopped_why.find("full"), std::string::npos);
  EXPECT_GT(report.files, 0U);
  const auto source = Files(from_);
  for (const auto& [name, bytes] : Files(to_)) EXPECT_EQ(bytes, source.at(name)) << name;
  full = false;
  report = Drained();
  EXPECT_TRUE(report.complete());
  EXPECT_TRUE(Files(to_) == source);
}

TEST_F(DrainTargetTest, WhatASyncHasFailedOnGetsNoNameThoughTheNextOneGoesWell) {
  for (int i = 0; i < 5000; ++i) Put("f" + std::to_string(i), Bytes(10));  // more than one batch
  std::atomic<bool> failed{false};
  target_hooks_.before = [&](std::string_view what, const std::string& path) -> absl::Status {
    const bool commits = what == "sync all" || (what == "sync" && path.ends_with("/journal"));
    return commits && !failed.exchange(true) ? Unavailable("bad disk") : absl::OkStatus();
  };
  Hook();
  EXPECT_STATUS(absl::StatusCode::kUnavailable, Run(), "bad disk");
  EXPECT_TRUE(Files(to_).empty());
  EXPECT_TRUE(Drained().complete());
  EXPECT_TRUE(Files(to_) == Files(from_));
}

TEST_F(DrainTargetTest, ALinkInPlaceOfTheDrainsOwnFolderIsNotFollowed) {
  Put("file", "bytes");
  Drained();
  std::string key;
  for (const auto& entry : std::filesystem::directory_iterator(Own())) key = entry.path().filename();
  ASSERT_NE(key, "");
  std::filesystem::create_directories(folder_ + "/hers/" + key + "/work");
  std::ofstream(folder_ + "/hers/" + key + "/work/kept") << "kept";
  // The key's folder, then the one above.
  std::filesystem::rename(Own() + "/" + key, folder_ + "/key");
  std::filesystem::create_directory_symlink(folder_ + "/hers/" + key, Own() + "/" + key);
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Run(), "not a folder");
  std::filesystem::rename(Own(), folder_ + "/own");
  std::filesystem::create_directory_symlink(folder_ + "/hers", Own());
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Run(), "not a folder");
  EXPECT_EQ(ReadPath(folder_ + "/hers/" + key + "/work/kept"), "kept");
}

TEST_F(DrainTargetTest, WorkOfADrainThatWasKilledIsRemoved) {
  Put("file", "bytes");
  Drained();
  std::string work;
  for (const auto& entry : std::filesystem::directory_iterator(Own())) work = entry.path().string() + "/work";
  std::ofstream(work + "/0/7") << "half";
  std::filesystem::create_symlink(from_, work + "/1/link");
  Drained();
  EXPECT_FALSE(Is(work + "/0/7"));
  EXPECT_FALSE(Is(work + "/1/link"));
  EXPECT_EQ(ReadPath(from_ + "/file"), "bytes");
}

TEST_F(DrainTargetTest, ATornJournalCostsACompareAndNothingElse) {
  for (int i = 0; i < 30; ++i) Put("f" + std::to_string(i), Bytes(100 + i));
  Drained();
  std::string journal;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Own())) {
    if (entry.path().filename() == "journal") journal = entry.path();
  }
  const std::string whole = ReadPath(journal);
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, whole.size() / 2, whole.size() - 1}) {
    std::ofstream(journal, std::ios::binary) << whole.substr(0, size);
    const DrainReport report = Drained();
    EXPECT_TRUE(report.complete());
    EXPECT_EQ(report.files, 0U) << size;
    EXPECT_EQ(report.there_files, 30U) << size;
  }
  std::ofstream(journal, std::ios::binary) << "cairn drain journal 9\n";
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Run(), "version");
}

TEST_F(DrainTargetTest, AFolderOfAnotherUserAtTheTargetKeepsItsOwnerAndMode) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, who may give folders away";
  Put("hers/file", "1");
  Put("made/file", "2");
  for (const char* name : {"/hers", "/made"}) {
    ASSERT_EQ(::chmod((from_ + name).c_str(), 0777), 0);
    ASSERT_EQ(::chown((from_ + name).c_str(), 65534, 65534), 0);
  }
  std::filesystem::create_directory(to_ + "/hers");
  ASSERT_EQ(::chmod((to_ + "/hers").c_str(), 0700), 0);
  EXPECT_TRUE(Drained().complete());
  struct stat hers {
  }, made{};
  ASSERT_EQ(::stat((to_ + "/hers").c_str(), &hers), 0);
  ASSERT_EQ(::stat((to_ + "/made").c_str(), &made), 0);
  EXPECT_EQ(hers.st_uid, 0U);
  EXPECT_EQ(hers.st_mode & 07777, 0700U);
  EXPECT_EQ(made.st_uid, 65534U);
  EXPECT_EQ(made.st_mode & 07777, 0777U);
}

// What one file is too large for does not mean that there is no room.
TEST_F(DrainTargetTest, AFileThatIsTooLargeForTheTargetFailsAlone) {
  Put("large", Bytes(3 << 20));
  Put("small", Bytes(1000));
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
    const auto disk = MakePosixDisk();
    auto drain = Drain::Open(*disk, options_);
    if (!drain.ok()) ::_exit(3);
    const auto report = (*drain)->Pass(stop_);
    const bool right = report.ok() && !report->stopped && report->files == 1 && report->failed.count() == 1 &&
                       report->failed.list()[0].path == "large";
    ::_exit(right ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(IsThere("small"));
  EXPECT_FALSE(IsThere("large"));
}

}  // namespace
}  // namespace cairn

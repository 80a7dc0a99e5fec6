// A file that a command makes: whole or not at all. What users see of it: extract_command_test.cc.
#include "client/cli/output_file.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include <span>

#include "storage/base/path.h"
#include "storage/io/posix_disk.h"
#include "tests/client/cli/file_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn::cli {
namespace {

class OutputFileTest : public testing::FileFixture {
 protected:
  static std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

  const std::unique_ptr<Disk> disk_ = MakePosixDisk();
};

TEST_F(OutputFileTest, ItIsThereOnlyAfterCommit) {
  auto output = OutputFile::Create(*disk_, Path("out"), {});
  ASSERT_OK(output);
  EXPECT_EQ((*output)->path(), Path("out"));
  ASSERT_OK((*output)->WriteAt(4, Bytes("efgh")));
  ASSERT_OK((*output)->WriteAt(0, Bytes("abcd")));
  ASSERT_EQ(Names().size(), 1u);
  EXPECT_TRUE(IsWorkName(Names()[0]));
  ASSERT_OK((*output)->Commit());
  EXPECT_EQ(Names(), std::vector<std::string>{"out"});
  output->reset();
  EXPECT_EQ(Read(Path("out")), "abcdefgh");
}

TEST_F(OutputFileTest, WithoutCommitNothingIsLeft) {
  auto output = OutputFile::Create(*disk_, Path("out"), {.bytes = 100});
  ASSERT_OK(output);
  output->reset();
  EXPECT_EQ(Names(), std::vector<std::string>());
}

TEST_F(OutputFileTest, WithoutRoomNothingIsBegun) {
  const auto output = OutputFile::Create(*disk_, Path("out"), {.bytes = std::uint64_t{1} << 62});
  EXPECT_EQ(output.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(output.status().message().find("it takes 4611686018427387904 bytes, "), std::string::npos)
      << output.status();
  EXPECT_EQ(Names(), std::vector<std::string>());
}

TEST_F(OutputFileTest, WhatWasMadeMeanwhileIsNotReplaced) {
  auto output = OutputFile::Create(*disk_, Path("out"), {});
  ASSERT_OK(output);
  Write("out", "another's");
  EXPECT_EQ((*output)->Commit().code(), absl::StatusCode::kAlreadyExists);
  output->reset();
  EXPECT_EQ(Names(), std::vector<std::string>{"out"});
  EXPECT_EQ(Read(Path("out")), "another's");
}

TEST_F(OutputFileTest, ANameWithoutAFolderIsOneInTheWorkingDirectory) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  auto output = OutputFile::Create(*disk_, "out", {});
  std::filesystem::current_path(before);
  ASSERT_OK(output);
  EXPECT_EQ((*output)->path(), Path("out"));
}

using OutputFileDeathTest = OutputFileTest;

TEST_F(OutputFileDeathTest, ASignalThatEndsTheProcessRemovesTheWorkFile) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int ending : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          const auto disk = MakePosixDisk();
          const auto output = OutputFile::Create(*disk, Path("out"), {.bytes = 100});
          if (!output.ok()) std::exit(9);
          raise(ending);
        },
        ::testing::KilledBySignal(ending), "");
  }
  EXPECT_EQ(Names(), std::vector<std::string>());
}

TEST_F(OutputFileDeathTest, AnIgnoredSignalStaysIgnored) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        signal(SIGHUP, SIG_IGN);
        const auto disk = MakePosixDisk();
        const auto output = OutputFile::Create(*disk, Path("out"), {});
        raise(SIGHUP);
        std::exit(output.ok() && (*output)->Commit().ok() ? 7 : 9);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace cairn::cli

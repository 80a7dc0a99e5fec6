// With what a daemon itself works, in the words of `cairn doctor` and `cairn status`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "proto/admin.pb.h"
#include "tests/client/cli/daemon_fixture.h"

namespace cairn {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

using MechanismsTest = testing::DaemonFixture;

TEST_F(MechanismsTest, DoctorSaysWhatTheDaemonUsesItself) {
  const auto doctor = [this](std::vector<std::string> more = {}) {
    more.insert(more.begin(), "doctor");
    return Run(more).out;
  };
  EXPECT_THAT(doctor(), Not(HasSubstr("the daemon"))) << "one that is older does not say it";

  admin::Mechanisms& used = *core_.status.mutable_mechanisms();
  used.mutable_cache()->set_engine("threads");
  used.mutable_prefix()->set_engine("io_uring");
  EXPECT_THAT(
      doctor(),
      AllOf(ContainsRegex(" io_uring: [^\n]*; the daemon uses threads for the cache, io_uring for its prefixes\n"),
            ContainsRegex(" huge pages for images: [^\n]*; the daemon has made no image yet\n"),
            ContainsRegex(" pinned images: [^\n]*; the daemon has made no image yet\n"),
            ContainsRegex(" direct I/O in the cache: [^\n]*; the daemon has opened no file of its "
                          "cache for it yet\n")));
  EXPECT_THAT(doctor(), ContainsRegex(" I/O priorities in the cache: [^;\n]*\n")) << "one that is older";
  used.set_background_io_priority("none");
  EXPECT_THAT(doctor(), ContainsRegex(" I/O priorities in the cache: [^\n]*; the daemon gives copies that nobody waits "
                                      "for none, and no limit beside captures and restores\n"));
  used.set_background_io_priority("best-effort:7");
  used.set_background_bytes_per_s(100 << 20);
  EXPECT_THAT(doctor(), ContainsRegex(" I/O priorities in the cache: [^\n]*; the daemon gives copies that nobody waits "
                                      "for best-effort:7, and 100.0 MiB/s together beside captures and restores\n"));

  used.mutable_prefix()->set_engine("threads");
  used.mutable_cache()->set_files(7);
  EXPECT_THAT(doctor(), ContainsRegex(" restores straight into memory: [^\n]*; the daemon was asked for none yet\n"));
  used.mutable_cache()->set_files_asked(3);
  used.mutable_cache()->set_files_handed(2);
  EXPECT_THAT(doctor(),
              ContainsRegex(" restores straight into memory: [^\n]*; the daemon has let applications read 2 of "
                            "3 files so\n"));
  used.mutable_prefix()->set_files(6);
  used.mutable_prefix()->set_files_direct(5);
  used.set_images(4);
  used.set_images_huge(3);
  EXPECT_THAT(doctor({"--prefix", "/nowhere"}),
              AllOf(ContainsRegex(" io_uring: [^\n]*; the daemon uses threads\n"),
                    ContainsRegex(" huge pages for images: [^\n]*; the daemon uses them for 3 of 4 images\n"),
                    ContainsRegex(" pinned images: [^\n]*; the daemon has pinned 0 of 4 images\n"),
                    ContainsRegex(" direct I/O in the cache: [^\n]*; the daemon uses it for 0 of 7 files of its "
                                  "cache\n"),
                    ContainsRegex(" direct I/O on the prefix: [^\n]*; the daemon uses it for 5 of 6 files of all its "
                                  "prefixes\n")));
  // Of another cache it says nothing.
  EXPECT_THAT(doctor({"--cache", "/nowhere"}), ContainsRegex(" direct I/O in the cache: [^;\n]*\n"));
  const json findings = json::parse(Run({"doctor", "--json"}).out)["findings"];
  const auto uring = std::ranges::find_if(findings, [](const json& row) { return row["name"] == "io_uring"; });
  ASSERT_NE(uring, findings.end());
  EXPECT_EQ((*uring)["daemon"], "the daemon uses threads");
}

TEST_F(MechanismsTest, WhatIsRefusedToTheDaemonAloneDoesNotWork) {
  admin::Mechanisms& used = *core_.status.mutable_mechanisms();
  const auto uring = [this, &used](const char* cache, const char* prefix) {
    used.mutable_cache()->set_engine(cache);
    used.mutable_prefix()->set_engine(prefix);
    return Run({"doctor"}).out;
  };
  EXPECT_THAT(uring("io_uring", "io_uring"), ContainsRegex(" io_uring: [^\n]*; the daemon uses io_uring\n"));
  const bool given_here = uring("io_uring", "io_uring").find("\nworks    io_uring: ") != std::string::npos;
  if (!given_here) GTEST_SKIP() << "io_uring is refused to the command, too";
  const std::string why =
      "\nno       io_uring: refused to the daemon, not to this command: a few threads read and write instead; ";
  EXPECT_THAT(uring("threads", "threads"), HasSubstr(why + "the daemon uses threads\n"));
  EXPECT_THAT(
      uring("io_uring", "io_uring, threads"),
      HasSubstr(why + "the daemon uses io_uring for the cache, threads for some file systems of its prefixes\n"));
}

TEST_F(MechanismsTest, WhatTheSettingsHaveOffWasNotRefused) {
  admin::Mechanisms& used = *core_.status.mutable_mechanisms();
  used.mutable_cache()->set_direct_off(true);
  EXPECT_THAT(Run({"doctor"}).out, ContainsRegex(" direct I/O in the cache: [^\n]*; the daemon does not use it: its "
                                                 "settings have it off\n"));
  EXPECT_THAT(Run({"status"}).out, Not(HasSubstr("without")));
}

TEST_F(MechanismsTest, StatusSaysWhatTheDaemonWorksWithout) {
  admin::Mechanisms& used = *core_.status.mutable_mechanisms();
  used.mutable_cache()->set_engine("io_uring");
  used.mutable_cache()->set_files(2);
  used.mutable_cache()->set_files_direct(2);
  used.mutable_prefix()->set_engine("io_uring");
  used.set_images(2);
  used.set_images_huge(2);
  used.set_images_pinned(2);
  EXPECT_THAT(Run({"status"}).out, Not(HasSubstr("without")));
  used.mutable_prefix()->set_engine("threads");
  EXPECT_THAT(Run({"status"}).out, HasSubstr("\nwithout io_uring for prefixes (see cairn doctor)\n"));
  used.mutable_prefix()->set_engine("io_uring, threads");
  EXPECT_THAT(Run({"status"}).out, HasSubstr("\nwithout io_uring for some file systems of prefixes (see cairn "));
  used.mutable_cache()->set_engine("threads");
  EXPECT_THAT(Run({"status"}).out,
              HasSubstr("\nwithout io_uring for the cache, io_uring for some file systems of pref"));
  used.mutable_prefix()->set_engine("threads");
  used.set_images_huge(1);
  used.set_images_pinned(0);
  used.mutable_prefix()->set_files(3);
  used.mutable_cache()->set_files_direct(1);
  used.mutable_cache()->set_files_asked(2);
  EXPECT_THAT(
      Run({"status"}).out,
      HasSubstr("\nwithout io_uring, huge pages for images (1 of 2), pinned images (2 of 2), direct I/O in the cache "
                "(1 of 2 files), direct I/O on the prefix (3 of 3 files of all prefixes), restores straight into "
                "memory (2 of 2 files) (see cairn doctor)\n"));
  EXPECT_EQ(json::parse(Run({"--json", "status"}).out)["mechanisms"]["images_huge"], 1);
}

}  // namespace
}  // namespace cairn

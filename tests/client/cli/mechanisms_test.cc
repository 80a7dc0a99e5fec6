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
  EXPECT_THAT(doctor(), AllOf(ContainsRegex(" io_uring: .*; the daemon uses threads for the cache, io_uring for the"),
                              ContainsRegex(" huge pages for images: .*; the daemon has made no image yet\n"),
                              ContainsRegex(" pinned images: .*; the daemon has made no image yet\n"),
                              ContainsRegex(" direct I/O in the cache: .*; the daemon has opened no file for it yet")));

  used.mutable_prefix()->set_engine("threads");
  used.mutable_cache()->set_files(7);
  used.mutable_prefix()->set_files(6);
  used.mutable_prefix()->set_files_direct(5);
  used.set_images(4);
  used.set_images_huge(3);
  EXPECT_THAT(doctor({"--prefix", "/nowhere"}),
              AllOf(ContainsRegex(" io_uring: .*; the daemon uses threads\n"),
                    ContainsRegex(" huge pages for images: .*; the daemon uses them for 3 of 4 images\n"),
                    ContainsRegex(" pinned images: .*; the daemon has pinned 0 of 4 images\n"),
                    ContainsRegex(" direct I/O in the cache: .*; the daemon uses it for 0 of 7 files\n"),
                    ContainsRegex(" direct I/O on the prefix: .*; the daemon uses it for 5 of 6 files\n")));
  // Of another cache it says nothing.
  EXPECT_THAT(doctor({"--cache", "/nowhere"}), ContainsRegex(" direct I/O in the cache: [^;]*\n"));
  const json findings = json::parse(Run({"doctor", "--json"}).out)["findings"];
  const auto uring = std::ranges::find_if(findings, [](const json& row) { return row["name"] == "io_uring"; });
  ASSERT_NE(uring, findings.end());
  EXPECT_EQ((*uring)["daemon"], "the daemon uses threads");
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
  EXPECT_THAT(Run({"status"}).out, HasSubstr("\nwithout io_uring for the prefix (see cairn doctor)\n"));
  used.mutable_cache()->set_engine("threads");
  used.set_images_huge(1);
  used.set_images_pinned(0);
  used.mutable_prefix()->set_files(3);
  used.mutable_cache()->set_files_direct(1);
  EXPECT_THAT(
      Run({"status"}).out,
      HasSubstr("\nwithout io_uring, huge pages for 1 of 2 images, pinning for 2 of 2 images, direct I/O for 1 of "
                "2 files of the cache, direct I/O for 3 of 3 files of the prefix (see cairn doctor)\n"));
  EXPECT_EQ(json::parse(Run({"--json", "status"}).out)["mechanisms"]["images_huge"], 1);
}

}  // namespace
}  // namespace cairn

// What `cairn status` shows of the folders that a real daemon drains.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/harness.h"

namespace cairn::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class DrainStatusTest : public ::testing::Test {
 protected:
  DrainStatusTest() {
    for (const std::string& folder : {from_, to_}) std::filesystem::create_directory(folder);
  }

  void Settings(const std::string& more) const {
    harness_.WriteSettings("[[drain]]\nfrom = \"" + from_ + "\"\nto = \"" + to_ +
                           "\"\nsettle = \"0\"\nlook = \"100ms\"\n" + more);
  }
  void Put(const std::string& name, std::size_t bytes) const {
    std::ofstream(from_ + "/" + name) << std::string(bytes, 'x');
  }
  std::string Cairn(std::vector<std::string> arguments) const {
    const Ending ending = RunProcess(harness_.Client("client/cli/cairn", std::move(arguments)));
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
    return ending.output;
  }
  // The one drain that there is, as soon as it is so.
  json Drain(const std::function<bool(const json& drain)>& is) const {
    json drain;
    for (int i = 0; i < 600; ++i) {
      const json drains = json::parse(Cairn({"--json", "status"}))["drains"];
      if (drains.size() == 1 && is(drain = drains[0])) return drain;
      ::usleep(50'000);
    }
    ADD_FAILURE() << drain.dump(2);
    return drain;
  }
  static std::function<bool(const json&)> Does(const std::string& state) {
    return [state](const json& drain) { return drain["state"] == state; };
  }

  Harness harness_;
  const std::string from_ = harness_.folder() + "/bb", to_ = harness_.folder() + "/pfs";
};

TEST_F(DrainStatusTest, TellsWhatIsBroughtWhatWaitsAndWhatFailed) {
  constexpr std::size_t kMiB = 1 << 20;
  for (int i = 0; i < 6; ++i) Put("file" + std::to_string(i), kMiB);
  Put("taken", 10);
  std::ofstream(to_ + "/taken") << "somebody else's";
  ASSERT_EQ(::mkfifo((from_ + "/pipe").c_str(), 0600), 0);
  const int writer = ::open((from_ + "/open").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);  // not the daemon's, too
  ASSERT_EQ(::write(writer, "half", 4), 4);
  Settings("bandwidth = \"2 MB/s\"\nparallel = 1\n");
  ASSERT_TRUE(harness_.StartDaemon());

  // The first may go at once; then the rate is what the limit lets through.
  json drain = Drain([](const json& one) { return one["pass"].is_object() && one["pass"]["bytes"] >= 3 * kMiB; });
  EXPECT_EQ(drain["state"], "bringing");
  EXPECT_EQ(drain["from"], from_);
  EXPECT_EQ(drain["to"], to_);
  EXPECT_EQ(drain["pass"]["files_all"], 8);
  EXPECT_GT(drain["pass"]["bytes_per_s"], 0);
  EXPECT_LT(drain["pass"]["bytes_per_s"], 20'000'000);
  EXPECT_GT(drain["pass"]["left_ms"], 0);
  EXPECT_EQ(drain["passed_us"], 0);
  EXPECT_THAT(Cairn({"status"}), HasSubstr("drain " + from_ + " to " + to_ + ": "));

  drain = Drain([](const json& one) { return one["state"] == "waiting" && one["passed_us"] > 0; });
  EXPECT_EQ(drain["files"], 6);
  EXPECT_EQ(drain["bytes"], 6 * kMiB);
  EXPECT_EQ(drain["files_left"], 1);
  EXPECT_EQ(drain["bytes_left"], 4);
  EXPECT_EQ(drain["waits_first"], "open");
  EXPECT_EQ(drain["waits_why"], "somebody has it open for writing");
  EXPECT_EQ(drain["failed"], 1);
  EXPECT_EQ(drain["failed_last"], "taken");
  EXPECT_NE(drain["failed_why"], "");
  EXPECT_EQ(drain["left_out"], 1);
  EXPECT_GT(drain["passed_us"], 0);
  const std::string text = Cairn({"status"});
  EXPECT_THAT(text, HasSubstr("  brought 6 files, 6.0 MiB; still to come: 1 file, 4 B; the last pass ended: 20"));
  EXPECT_THAT(text, HasSubstr("  1 waiting, first open: somebody has it open for writing\n"));
  EXPECT_THAT(text, HasSubstr("  1 FAILED, last taken: "));
  EXPECT_THAT(text, HasSubstr("  1 left out: "));

  // And again and again.
  const auto watch = Process::Start(harness_.Client("client/cli/cairn", {"status", "--watch", "--interval", "50ms"}));
  EXPECT_TRUE(watch->WaitForOutput("1 waiting, first open"));
  ::close(writer);
  EXPECT_TRUE(watch->WaitForOutput("brought 7 files, 6.0 MiB; still to come: 0 files"));
  watch->Signal(SIGINT);
  EXPECT_EQ(Drain(Does("idle"))["waiting"], 0);
}

TEST_F(DrainStatusTest, TellsWhyNothingCanBeBrought) {
  std::filesystem::rename(to_, to_ + "-away");
  Settings("");
  ASSERT_TRUE(harness_.StartDaemon());
  const json drain = Drain(Does("failed"));
  EXPECT_THAT(drain["trouble"].get<std::string>(), HasSubstr(to_));
  EXPECT_GT(drain["trouble_since_us"], 0);
  EXPECT_THAT(Cairn({"status"}), HasSubstr("; it is tried again\n"));
  std::filesystem::rename(to_ + "-away", to_);
  EXPECT_EQ(Drain(Does("idle"))["trouble"], "");
  // Folders that the settings have no longer are gone from there, too.
  harness_.WriteSettings("");
  harness_.daemon()->Signal(SIGHUP);
  for (int i = 0; i < 600 && !json::parse(Cairn({"--json", "status"}))["drains"].empty(); ++i) ::usleep(50'000);
  EXPECT_EQ(json::parse(Cairn({"--json", "status"}))["drains"], json::array());
}

TEST_F(DrainStatusTest, ADrainByHandThatIsInItsWayIsNamed) {
  const auto by_hand =
      Process::Start(harness_.Client("client/cli/cairn", {"drain", from_, "--to", to_, "--watch", "--settle", "0"}));
  Put("file", 10);
  for (int i = 0; i < 600 && !std::filesystem::exists(to_ + "/file"); ++i) ::usleep(50'000);
  Settings("");
  ASSERT_TRUE(harness_.StartDaemon());
  EXPECT_THAT(Drain(Does("failed"))["trouble"].get<std::string>(), HasSubstr(std::to_string(by_hand->pid())));
  by_hand->Signal(SIGTERM);
  Drain(Does("idle"));
}

}  // namespace
}  // namespace cairn::testing

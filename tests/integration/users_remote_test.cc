// Users on other nodes: each finds their own worker.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/process.h"
#include "tests/integration/users_fixture.h"

namespace cairn::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// Clients that share no memory with the node, and know the folder of their run.
class RemoteUsersTest : public UsersTest {
 protected:
  static constexpr int kPorts = 2;
  void StartListening(std::vector<std::string> flags = {}) {
    // For libcairn, which finds it by its name then; the folder that it lies in is not for all users.
    ASSERT_NE(::dlopen(DataPath("client/grpc/libcairn_grpc.so").c_str(), RTLD_NOW | RTLD_LOCAL), nullptr)
        << ::dlerror();
    first_ = 24'000 + ::getpid() % 2'000 * 4;
    flags.insert(flags.end(), {"--ingest-listen", fmt::format("127.0.0.1:{}-{}", first_, first_ + kPorts - 1)});
    Start(flags);
  }
  int WorkFromAfar(uid_t user, std::uint64_t expected_step, int steps) const {
    return Work(user, expected_step, steps, CAIRN_LEVEL_PREFIX, "grpc+run:");
  }
  // The file in which the user's worker tells of itself.
  std::string ToldBy(uid_t user) const {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(PrefixOf(user) + "/.cairn", none)) {
      if (entry.path().filename().string().starts_with("ingest.")) return entry.path();
    }
    return "";
  }
  bool Listens(uid_t user) const {
    return Within([&] { return !ToldBy(user).empty(); });
  }
  static std::string Content(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  int first_ = 0;
};

TEST_F(RemoteUsersTest, EachFindsTheirOwnWorkerAndNoneComesToAnothers) {
  StartListening();
  for (const uid_t user : {kAlice, kBob}) {  // the run is opened on the node
    EXPECT_EQ(As(user, [&] { return Work(user, 0, 1, CAIRN_LEVEL_LOCAL); }), 0);
    ASSERT_TRUE(Listens(user));
  }
  const pid_t alice = Begin(kAlice, [&] { return WorkFromAfar(kAlice, 1, 2); });
  const pid_t bob = Begin(kBob, [&] { return WorkFromAfar(kBob, 1, 3); });
  EXPECT_EQ(End(alice), 0);
  EXPECT_EQ(End(bob), 0);
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 3, 0, 0); }), 0);
  EXPECT_EQ(As(kBob, [&] { return Work(kBob, 4, 0, 0); }), 0);
  // Each says a port and keys of its own, to its user alone.
  const std::string of_alice = Content(ToldBy(kAlice)), of_bob = Content(ToldBy(kBob));
  EXPECT_THAT(of_alice + of_bob, HasSubstr(fmt::format("address 127.0.0.1:{}\n", first_)));
  EXPECT_THAT(of_alice + of_bob, HasSubstr(fmt::format("address 127.0.0.1:{}\n", first_ + 1)));
  EXPECT_EQ(As(kBob, [&] { return ::access(ToldBy(kAlice).c_str(), R_OK) == 0 ? 1 : 0; }), 0);
  // Bob says, where his client looks, that he is at Alice's port: her worker has not his keys, and does not take them.
  const auto address = [](const std::string& told) {
    const std::size_t at = told.find("address ");
    return told.substr(at, told.find('\n', at) - at);
  };
  std::string forged = of_bob;
  forged.replace(forged.find("address "), address(of_bob).size(), address(of_alice));
  EXPECT_EQ(As(kBob,
               [&] {
                 std::ofstream(ToldBy(kBob)) << forged;
                 return 0;
               }),
            0);
  EXPECT_NE(As(kBob, [&] { return WorkFromAfar(kBob, 4, 0); }), 0);
  EXPECT_THAT(ReadLog("run/5/cairnd.log"), Not(HasSubstr(PrefixOf(kBob))));
}

TEST_F(RemoteUsersTest, AfterTheEndOfAWorkerItsSuccessorIsFound) {
  StartListening();
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 1, CAIRN_LEVEL_LOCAL); }), 0);
  ASSERT_TRUE(Listens(kAlice));
  const std::string before = Content(ToldBy(kAlice));
  const auto pid = static_cast<pid_t>(Workers()[kAlice].pid);
  EXPECT_EQ(As(kAlice, [&] { return ::kill(pid, SIGKILL); }), 0);
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 1, 0, 0); }), 0);  // on the node: that starts the next
  EXPECT_TRUE(Within([&] { return Content(ToldBy(kAlice)) != before; }));
  EXPECT_EQ(As(kAlice, [&] { return WorkFromAfar(kAlice, 1, 1); }), 0);
}

TEST_F(RemoteUsersTest, WhoFindsNoPortIsToldAndServedOnTheNode) {
  StartListening();
  for (const uid_t user : {kAlice, kBob, kCarol}) {
    EXPECT_EQ(As(user, [&] { return Work(user, 0, 1, CAIRN_LEVEL_LOCAL); }), 0);
  }
  EXPECT_TRUE(
      Within([&] { return ReadLog("run/7/cairnd.log").find("no port of ingest.listen") != std::string::npos; }));
  EXPECT_TRUE(Within([&] { return Workers()[kCarol].counters.warnings >= 1; })) << "`cairn status` says it";
  EXPECT_EQ(ToldBy(kCarol), "");
  EXPECT_NE(As(kCarol, [&] { return WorkFromAfar(kCarol, 1, 0); }), 0);
}

}  // namespace
}  // namespace cairn::testing

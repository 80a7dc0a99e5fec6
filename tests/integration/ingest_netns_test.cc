// The application on one host, the daemon on another: two network namespaces with a virtual cable between them. Needs
// root, iproute2 and a kernel that lets us; elsewhere it is skipped and says why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "client/cairn.h"
#include "tests/integration/ingest_fixture.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kDaemonHost[] = "10.213.77.1", kClientHost[] = "10.213.77.2";

std::string IpProgram() {
  for (const char* path : {"/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip"}) {
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

// Two hosts. Gone, with all that is in them, at the end.
class TwoHosts {
 public:
  // Empty, or why it cannot be.
  std::string Make() {
    if (::geteuid() != 0) return "network namespaces are made by root only";
    if (ip_.empty()) return "there is no program `ip`: install iproute2";
    const std::vector<std::vector<std::string>> steps = {
        {"netns", "add", daemon_},
        {"netns", "add", client_},
        {"link", "add", "cable0", "netns", daemon_, "type", "veth", "peer", "name", "cable0", "netns", client_},
        {"-n", daemon_, "address", "add", std::string(kDaemonHost) + "/30", "dev", "cable0"},
        {"-n", client_, "address", "add", std::string(kClientHost) + "/30", "dev", "cable0"},
        {"-n", daemon_, "link", "set", "cable0", "up"},
        {"-n", client_, "link", "set", "cable0", "up"},
    };
    for (const auto& step : steps) {
      const Ending ending = Ip(step);
      if (ending.exit_code != 0) return "ip " + step[0] + " " + step[1] + ": " + ending.output;
    }
    return "";
  }
  ~TwoHosts() {
    if (ip_.empty()) return;
    Ip({"netns", "delete", client_});
    Ip({"netns", "delete", daemon_});
  }

  std::vector<std::string> OnDaemonHost() const { return {ip_, "netns", "exec", daemon_}; }
  Process::Options OnClientHost(Process::Options options) const {
    options.arguments.insert(options.arguments.begin(), {ip_, "netns", "exec", client_});
    return options;
  }
  void Plug(bool in) const { Ip({"-n", daemon_, "link", "set", "cable0", in ? "up" : "down"}); }

 private:
  Ending Ip(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), ip_);
    return RunProcess({.arguments = std::move(arguments), .environment = {}, .working_directory = {}});
  }

  const std::string ip_ = IpProgram();
  const std::string daemon_ = "cairn-d-" + std::to_string(::getpid()),
                    client_ = "cairn-c-" + std::to_string(::getpid());
};

class IngestNetnsTest : public IngestTest {
 protected:
  void SetUp() override {
    const std::string why_not = hosts.Make();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    harness.StartDaemonsWith(hosts.OnDaemonHost());
    ListenOn(kDaemonHost);
  }

  Process::Options FarClient(std::vector<std::string> arguments) {
    return hosts.OnClientHost(Client(TcpAddress(port()), std::move(arguments)));
  }

  TwoHosts hosts;
};

TEST_F(IngestNetnsTest, StateCrossesTheNetworkAndComesBackFromEveryTier) {
  ASSERT_TRUE(StartDaemon(Security::kTls));
  const Ending wrote = RunProcess(FarClient({"--mib", "16", "--steps", "3", "--flush-every", "3"}));
  EXPECT_EQ(wrote.exit_code, 0) << wrote.output;
  EXPECT_THAT(ReadPromises(promises()).refused, IsEmpty());
  EXPECT_THAT(RunProcess(FarClient({"--mib", "16", "--steps", "0"})).output, HasSubstr("resumed 3 3 1"));
  harness.KillDaemon();
  ASSERT_TRUE(StartAgain());
  EXPECT_THAT(RunProcess(FarClient({"--mib", "16", "--steps", "0"})).output, HasSubstr("resumed 3 3 2"));
  harness.KillDaemon();
  harness.DeleteCache();
  ASSERT_TRUE(StartAgain());
  EXPECT_THAT(RunProcess(FarClient({"--mib", "16", "--steps", "0"})).output, HasSubstr("resumed 3 3 5"));
}

TEST_F(IngestNetnsTest, AClientWithoutCertificatesDoesNotEvenTry) {
  ASSERT_TRUE(StartDaemon(Security::kTls));
  Process::Options client = FarClient({"--mib", "1", "--steps", "1", "--tries", "1"});
  client.environment.erase("CAIRN_TLS_CA");
  const Ending ending = RunProcess(client);
  EXPECT_THAT(ending.output, HasSubstr("open: " + std::to_string(CAIRN_INVALID_ARGUMENT)));
  EXPECT_THAT(ending.output, HasSubstr("needs TLS: set CAIRN_TLS_CA"));
}

TEST_F(IngestNetnsTest, TheRunGoesOnWhenTheDaemonsHostWasAwayForAWhile) {
  // Nothing is evicted: the client looks again at all that it was promised.
  ASSERT_TRUE(StartDaemon(Security::kTls, {"--cache-keep", "100"}));
  auto client = Process::Start(FarClient({"--mib", "16", "--steps", "6"}));
  ASSERT_TRUE(AwaitPromises(promises(), "local", 2));
  hosts.Plug(false);
  harness.KillDaemon();
  ASSERT_TRUE(StartAgain());
  hosts.Plug(true);
  const Ending ending = client->Wait();
  EXPECT_EQ(ending.exit_code, 0) << ending.output;
  EXPECT_THAT(ReadPromises(promises()).refused, IsEmpty());
  EXPECT_EQ(ReadPromises(promises()).by_kind["local"].size(), 6u);
}

}  // namespace
}  // namespace cairn::testing

// The application on one host, the daemon on another: two nodes of a cluster. Where none can be it is skipped and says
// why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "client/cairn.h"
#include "tests/integration/ingest_fixture.h"
#include "tests/support/cluster/cluster.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kDaemonHost = 1, kClientHost = 2;

class IngestNetnsTest : public IngestTest {
 protected:
  void SetUp() override {
    CAIRN_START_CLUSTER_OR_SKIP(hosts, {.nodes = 2});
    harness.StartDaemonsBy(
        [this](const Process::Options& options) { return hosts->StartProgram(kDaemonHost, options); });
    ListenOn(Cluster::address(kDaemonHost));
  }

  Process::Options FarClient(std::vector<std::string> arguments) {
    return Client(TcpAddress(port()), std::move(arguments));
  }
  Ending RunFarClient(std::vector<std::string> arguments) {
    return hosts->Run(kClientHost, FarClient(std::move(arguments)));
  }

  std::unique_ptr<Cluster> hosts;
};

TEST_F(IngestNetnsTest, StateCrossesTheNetworkAndComesBackFromEveryTier) {
  ASSERT_TRUE(StartDaemon(Security::kTls));
  const Ending wrote = RunFarClient({"--mib", "16", "--steps", "3", "--flush-every", "3"});
  EXPECT_EQ(wrote.exit_code, 0) << wrote.output;
  EXPECT_THAT(ReadPromises(promises()).refused, IsEmpty());
  EXPECT_THAT(RunFarClient({"--mib", "16", "--steps", "0"}).output, HasSubstr("resumed 3 3 1"));
  harness.KillDaemon();
  ASSERT_TRUE(StartAgain());
  EXPECT_THAT(RunFarClient({"--mib", "16", "--steps", "0"}).output, HasSubstr("resumed 3 3 2"));
  harness.KillDaemon();
  harness.DeleteCache();
  ASSERT_TRUE(StartAgain());
  EXPECT_THAT(RunFarClient({"--mib", "16", "--steps", "0"}).output, HasSubstr("resumed 3 3 5"));
}

TEST_F(IngestNetnsTest, AClientWithoutCertificatesDoesNotEvenTry) {
  ASSERT_TRUE(StartDaemon(Security::kTls));
  Process::Options client = FarClient({"--mib", "1", "--steps", "1", "--tries", "1"});
  client.environment.erase("CAIRN_TLS_CA");
  const Ending ending = hosts->Run(kClientHost, client);
  EXPECT_THAT(ending.output, HasSubstr("open: " + std::to_string(CAIRN_INVALID_ARGUMENT)));
  EXPECT_THAT(ending.output, HasSubstr("needs TLS: set CAIRN_TLS_CA"));
}

TEST_F(IngestNetnsTest, TheRunGoesOnWhenTheDaemonsHostWasAwayForAWhile) {
  // Nothing is evicted: the client looks again at all that it was promised.
  ASSERT_TRUE(StartDaemon(Security::kTls, {"--cache-keep", "100"}));
  auto client = hosts->StartProgram(kClientHost, FarClient({"--mib", "16", "--steps", "6"}));
  ASSERT_TRUE(AwaitPromises(promises(), "local", 2));
  hosts->Cut(kDaemonHost);
  harness.KillDaemon();
  ASSERT_TRUE(StartAgain());
  hosts->Heal(kDaemonHost);
  const Ending ending = client->Wait();
  EXPECT_EQ(ending.exit_code, 0) << ending.output;
  EXPECT_THAT(ReadPromises(promises()).refused, IsEmpty());
  EXPECT_EQ(ReadPromises(promises()).by_kind["local"].size(), 6u);
}

}  // namespace
}  // namespace cairn::testing

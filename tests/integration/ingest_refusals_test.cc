// Whoever is not let in, and whatever is not gRPC: the daemon says so and lives on.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include "client/cairn.h"
#include "proto/local.pb.h"
#include "storage/base/unique_fd.h"
#include "tests/daemon/door/ingest_client.h"
#include "tests/integration/ingest_fixture.h"

namespace cairn::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class IngestRefusalsTest : public IngestTest {
 protected:
  void ExpectRefused(Process::Options client, int code, const ::testing::Matcher<std::string>& text) {
    client.arguments.insert(client.arguments.end(), {"--tries", "1"});
    const Ending ending = RunProcess(client);
    EXPECT_EQ(ending.exit_code, 1);
    EXPECT_THAT(ending.output, AllOf(HasSubstr("open: " + std::to_string(code) + " "), text));
  }
  Process::Options Tiny(const std::string& address) { return Client(address, {"--mib", "1", "--steps", "1"}); }
  Process::Options TinyWith(std::map<std::string, std::string> variables) {
    Process::Options client = Tiny(TcpAddress(port()));
    for (const char* name : {"CAIRN_TLS_CA", "CAIRN_TLS_CERT", "CAIRN_TLS_KEY"}) client.environment.erase(name);
    client.environment.merge(variables);
    return client;
  }
  Certificates Shown(const std::string& authority) {
    const std::string folder = CertificateFolder(authority);
    return {.ca = ReadFile(CertificateFolder("ours") + "/ca.pem"),
            .cert = ReadFile(folder + "/client.pem"),
            .key = ReadFile(folder + "/client.key")};
  }
  std::string Target() const { return "127.0.0.1:" + std::to_string(port()); }
  // The daemon is the same as before and serves who is let in.
  void ExpectLivesOn() {
    ASSERT_TRUE(harness.daemon()->running());
    const Ending ending = RunProcess(Tiny(TcpAddress(port())));
    EXPECT_EQ(ending.exit_code, 0) << ending.output;
  }
  // Sends it and reads until the daemon has had enough.
  void SendRaw(const std::string& bytes) {
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);  // a daemon that closes early is right, too
    ::shutdown(fd.get(), SHUT_WR);
    char block[4096];
    while (::recv(fd.get(), block, sizeof block, 0) > 0) {
    }
  }
};

TEST_F(IngestRefusalsTest, WithoutTheRightCertificateNobodyComesInOverTls) {
  ASSERT_TRUE(StartDaemon(Security::kTls));
  // Another authority's certificate, and one for no client.
  ExpectRefused(TinyWith(TlsVariables("ours", "theirs")), CAIRN_PERMISSION_DENIED, HasSubstr("CAIRN_TLS_CERT"));
  auto server = TlsVariables("ours", "ours");
  server["CAIRN_TLS_CERT"] = CertificateFolder("ours") + "/server.pem";
  server["CAIRN_TLS_KEY"] = CertificateFolder("ours") + "/server.key";
  ExpectRefused(TinyWith(server), CAIRN_PERMISSION_DENIED, HasSubstr("CAIRN_TLS_CERT"));
  // No certificate at all, which libcairn does not even try.
  ExpectRefused(TinyWith({{"CAIRN_TLS_CA", CertificateFolder("ours") + "/ca.pem"}}), CAIRN_INVALID_ARGUMENT,
                HasSubstr("CAIRN_TLS_CERT is not set"));
  Certificates none = Shown("ours");
  none.cert.clear();
  none.key.clear();
  const auto bare = IngestClient::Connect(Target(), &none);
  bare->Hello();
  EXPECT_FALSE(bare->Receive().has_value());
  // Plain text.
  ExpectRefused(TinyWith({}), CAIRN_UNAVAILABLE, HasSubstr("CAIRN_TLS_CA"));
  // A daemon that the client does not trust.
  ExpectRefused(TinyWith(TlsVariables("theirs", "ours")), CAIRN_PERMISSION_DENIED, HasSubstr("CAIRN_TLS_CA"));
  ExpectLivesOn();
}

TEST_F(IngestRefusalsTest, AClientThatWantsTlsIsToldIfTheDaemonHasNone) {
  ASSERT_TRUE(StartDaemon(Security::kNone));
  ExpectRefused(TinyWith(TlsVariables("ours", "ours")), CAIRN_PERMISSION_DENIED, HasSubstr("TLS"));
  ExpectLivesOn();
}

TEST_F(IngestRefusalsTest, WithoutTlsOnlyLoopbackIsServedAndOnlyWhenAskedForByName) {
  const auto start = [&](const std::string& settings) {
    harness.WriteSettings("[ingest]\n" + settings);
    return harness.RunDaemon({});
  };
  const Ending open = start("listen = \"0.0.0.0:0\"\ninsecure_loopback = true\n");
  EXPECT_NE(open.exit_code, 0);
  EXPECT_THAT(open.output, HasSubstr("\"0.0.0.0:0\" is not a loopback address"));
  const Ending half = start("listen = \"127.0.0.1:0\"\ntls_ca = \"" + CertificateFolder("ours") + "/ca.pem\"\n");
  EXPECT_NE(half.exit_code, 0);
  EXPECT_THAT(half.output, HasSubstr("tls_cert"));
}

class IngestGarbageTest : public IngestRefusalsTest, public ::testing::WithParamInterface<Security> {};

TEST_P(IngestGarbageTest, GarbageEndsItsOwnConnectionOnly) {
  ASSERT_TRUE(StartDaemon(GetParam()));
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const std::string settings("\0\0\0\4\0\0\0\0\0", 9);
  SendRaw("");
  SendRaw("GET / HTTP/1.1\r\nHost: cairn\r\n\r\n");
  SendRaw(preface.substr(0, 10));
  SendRaw(preface + std::string(1000, '\xff'));
  SendRaw(preface + settings + std::string("\xff\xff\xff\0\0\0\0\0\1", 9));  // a DATA frame of 16 MiB for no stream
  for (int i = 0; i < 20; ++i) {
    std::string noise(Draw(1, 5000), '\0');
    for (char& c : noise) c = static_cast<char>(Draw(0, 255));
    SendRaw(i % 2 == 0 ? noise : preface + settings + noise);
  }
  ExpectLivesOn();
}

INSTANTIATE_TEST_SUITE_P(Securities, IngestGarbageTest, ::testing::Values(Security::kNone, Security::kTls),
                         [](const auto& param) { return param.param == Security::kTls ? "Tls" : "None"; });

TEST_F(IngestRefusalsTest, OversizedMessagesAndUnsoundOnesEndTheirOwnStreamOnly) {
  ASSERT_TRUE(StartDaemon(Security::kNone));
  {
    const auto client = IngestClient::Connect(Target());
    client->Hello();
    EXPECT_TRUE(client->Receive().has_value());
    local::Request huge;
    huge.set_call(2);
    huge.mutable_piece()->set_data(std::string(32 << 20, 'x'));
    client->Send(huge);
    EXPECT_FALSE(client->Receive().has_value());
    EXPECT_EQ(client->Finish(), IngestClient::Code::kResourceExhausted);
  }
  {
    const auto client = IngestClient::Connect(Target());
    local::Request first;
    first.set_call(1);
    first.mutable_latest();
    client->Send(first);
    const auto reply = client->Receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->status().code(), local::FAILED_PRECONDITION);
    EXPECT_FALSE(client->Receive().has_value());
  }
  {
    const auto client = IngestClient::Connect(Target());
    client->Hello(77, 78);
    const auto reply = client->Receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_THAT(reply->status().message(), HasSubstr("no common protocol version"));
  }
  {
    const auto client = IngestClient::Connect(Target());
    client->Hello();
    EXPECT_TRUE(client->Receive().has_value());
    local::Request open;
    open.set_call(2);
    open.mutable_open()->set_prefix("/" + std::string(1 << 20, 'p'));
    open.mutable_open()->set_nranks(1);
    open.mutable_open()->set_launch_key("k");
    client->Send(open);
    const auto reply = client->Receive();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->status().code(), local::INVALID_ARGUMENT);
  }
  ExpectLivesOn();
}

}  // namespace
}  // namespace cairn::testing

// Mutual TLS 1.3 of the ingest door, with certificates made by deploy/make-certs.sh.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "daemon/door/ingest_door.h"
#include "tests/daemon/door/fake_receiver.h"
#include "tests/daemon/door/ingest_client.h"
#include "tests/support/runfiles/runfiles.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::Certificates;
using testing::FakeReceiver;
using testing::IngestClient;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int Shell(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1 </dev/null").c_str());
}

class IngestTlsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string name = ::testing::TempDir() + "cairn-tls-XXXXXX";
    folder_ = mkdtemp(name.data());
    ASSERT_EQ(Shell(testing::Runfile("deploy/make-certs.sh") + " " + folder_ + "/ours localhost 127.0.0.1"), 0);
    ASSERT_EQ(Shell(testing::Runfile("deploy/make-certs.sh") + " " + folder_ + "/theirs localhost 127.0.0.1"), 0);
    ASSERT_EQ(Shell(testing::Runfile("deploy/make-certs.sh") + " " + folder_ + "/elsewhere other.example.org"), 0);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  static IngestDoor::Options Options(const std::string& authority) {
    IngestDoor::Options options;
    options.tcp.listen = "127.0.0.1:0";
    options.tcp.tls_ca = folder_ + "/" + authority + "/ca.pem";
    options.tcp.tls_cert = folder_ + "/" + authority + "/server.pem";
    options.tcp.tls_key = folder_ + "/" + authority + "/server.key";
    return options;
  }
  void Open(const std::string& authority = "ours") {
    auto door = IngestDoor::Listen(Options(authority), receiver_, nullptr);
    ASSERT_OK(door);
    door_ = *std::move(door);
  }
  static Certificates Client(const std::string& authority) {
    const std::string folder = folder_ + "/" + authority;
    return {.ca = Read(folder + "/ca.pem"), .cert = Read(folder + "/client.pem"), .key = Read(folder + "/client.key")};
  }
  // True: the daemon answered Hello.
  bool Greets(const Certificates* tls) {
    const auto client = IngestClient::Connect("127.0.0.1:" + std::to_string(door_->tcp_port()), tls);
    client->Hello();
    const auto reply = client->Receive();
    return reply.has_value() && reply->has_hello();
  }
  // The exit code of OpenSSL's client; 0: the handshake was completed.
  int OpenSsl(const std::string& version) {
    const std::string folder = folder_ + "/ours/";
    return Shell("openssl s_client -connect 127.0.0.1:" + std::to_string(door_->tcp_port()) + " " + version +
                 " -alpn h2 -verify_return_error -CAfile " + folder + "ca.pem -cert " + folder + "client.pem -key " +
                 folder + "client.key");
  }

  inline static std::string folder_;
  FakeReceiver receiver_;
  std::unique_ptr<IngestDoor> door_;
};

TEST_F(IngestTlsTest, BothSidesShowACertificateOfTheSameAuthority) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const Certificates ours = Client("ours");
  EXPECT_TRUE(Greets(&ours));
}

TEST_F(IngestTlsTest, AClientWithoutACertificateIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Certificates bare = Client("ours");
  bare.cert.clear();
  bare.key.clear();
  EXPECT_FALSE(Greets(&bare));
  EXPECT_FALSE(Greets(nullptr));  // nor one without TLS
  EXPECT_EQ(receiver_.attached(), 0u);
}

TEST_F(IngestTlsTest, AClientOfAnotherAuthorityIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Certificates theirs = Client("theirs");
  theirs.ca = Client("ours").ca;
  EXPECT_FALSE(Greets(&theirs));
  EXPECT_EQ(receiver_.attached(), 0u);
}

TEST_F(IngestTlsTest, AServersCertificateIsNoClients) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const Certificates server = {
      .ca = Client("ours").ca, .cert = Read(folder_ + "/ours/server.pem"), .key = Read(folder_ + "/ours/server.key")};
  EXPECT_FALSE(Greets(&server));
}

TEST_F(IngestTlsTest, ADaemonOfAnotherAuthorityOrNameIsNotTrusted) {
  ASSERT_NO_FATAL_FAILURE(Open("theirs"));
  const Certificates ours = Client("ours");
  EXPECT_FALSE(Greets(&ours));
  ASSERT_NO_FATAL_FAILURE(Open("elsewhere"));
  const Certificates elsewhere = Client("elsewhere");
  EXPECT_FALSE(Greets(&elsewhere));
}

TEST_F(IngestTlsTest, NothingOlderThanTls13IsSpoken) {
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_EQ(OpenSsl("-tls1_3"), 0);
  EXPECT_NE(OpenSsl("-tls1_2"), 0);
  EXPECT_NE(OpenSsl("-tls1_2 -cipher ALL:@SECLEVEL=0"), 0);
  EXPECT_NE(OpenSsl("-tls1_1 -cipher ALL:@SECLEVEL=0"), 0);
}

TEST_F(IngestTlsTest, CertificatesThatCannotBeUsedAreNamed) {
  IngestDoor::Options missing = Options("ours");
  missing.tcp.tls_key = folder_ + "/nowhere.key";
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, IngestDoor::Listen(missing, receiver_, nullptr),
                "ingest.tls_key " + folder_ + "/nowhere.key");
  IngestDoor::Options half = Options("ours");
  half.tcp.tls_ca.clear();
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, IngestDoor::Listen(half, receiver_, nullptr), "ingest.tls_ca");
  IngestDoor::Options mixed = Options("ours");
  mixed.tcp.tls_key = folder_ + "/theirs/server.key";
  EXPECT_STATUS(absl::StatusCode::kUnavailable, IngestDoor::Listen(mixed, receiver_, nullptr), "TLS files");
}

}  // namespace
}  // namespace cairn

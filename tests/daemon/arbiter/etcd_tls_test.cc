// TLS to etcd: both sides show a certificate (deploy/make-certs.sh).
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/daemon/arbiter/etcd_fixture.h"
#include "tests/support/etcd.h"
#include "tests/support/runfiles/runfiles.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using testing::Etcd;

class EtcdTlsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string name = ::testing::TempDir() + "cairn-etcd-tls-XXXXXX";
    folder_ = mkdtemp(name.data());
    ASSERT_TRUE(MakeCertificates("ours", "localhost 127.0.0.1"));
    ASSERT_TRUE(MakeCertificates("theirs", "localhost 127.0.0.1"));
    etcd_ = Etcd::Start({.members = 1, .certificates = folder_ + "/ours"}).release();
    ASSERT_NE(etcd_, nullptr);
  }
  static void TearDownTestSuite() {
    delete etcd_;
    std::filesystem::remove_all(folder_);
  }
  static bool MakeCertificates(const std::string& authority, const std::string& hosts) {
    const std::string command =
        testing::Runfile("deploy/make-certs.sh") + " " + folder_ + "/" + authority + " " + hosts;
    return std::system((command + " >/dev/null 2>&1 </dev/null").c_str()) == 0;
  }

  // Trusts the one authority, and shows a certificate of the other.
  static EtcdSettings Settings(const std::string& trusted, const std::string& shown) {
    return {.endpoints = etcd_->endpoints(),
            .ca = folder_ + "/" + trusted + "/ca.pem",
            .cert = folder_ + "/" + shown + "/client.pem",
            .key = folder_ + "/" + shown + "/client.key"};
  }
  // The refusal comes at once, and is tried again for a while: it may be a member that starts.
  static std::shared_ptr<EtcdClient> Hasty(EtcdSettings settings) {
    settings.call_time = std::chrono::milliseconds(1'000);
    return ClientOf(settings);
  }

  inline static std::string folder_;
  inline static Etcd* etcd_ = nullptr;
};

TEST_F(EtcdTlsTest, WorksWithACertificateOfTheSameAuthority) {
  EtcdRun run(ClientOf(Settings("ours", "ours")));
  EXPECT_OK(run.Make()->Create("launch.1", "one"));
  EXPECT_EQ(run.RecordOf("launch.1"), "one");
}

TEST_F(EtcdTlsTest, AForeignClientIsRefused) {
  EXPECT_STATUS(StatusCode::kUnavailable, Hasty(Settings("ours", "theirs"))->Get("/a"),
                "does etcd trust the authority of this client's cert?");
}

TEST_F(EtcdTlsTest, AForeignEtcdIsNotTrusted) {
  EXPECT_STATUS(StatusCode::kUnavailable, Hasty(Settings("theirs", "ours"))->Get("/a"), "certificate verify failed");
}

TEST_F(EtcdTlsTest, AClientWithoutTlsIsRefused) {
  const std::string plain = "http" + etcd_->endpoint(0).substr(sizeof "https" - 1);
  EXPECT_STATUS(StatusCode::kUnavailable, Hasty({.endpoints = {plain}})->Get("/a"), plain);
}

TEST_F(EtcdTlsTest, AnEtcdWithACertificateForAnotherHostIsNotTrusted) {
  ASSERT_TRUE(MakeCertificates("elsewhere", "localhost"));
  const auto etcd = Etcd::Start({.members = 1, .certificates = folder_ + "/elsewhere"});
  ASSERT_NE(etcd, nullptr);
  EtcdSettings settings = Settings("elsewhere", "elsewhere");
  settings.endpoints = {etcd->endpoint(0)};
  EXPECT_STATUS(StatusCode::kUnavailable, Hasty(settings)->Get("/a"), "127.0.0.1");
  settings.endpoints = {"https://localhost:" + std::to_string(etcd->port(0))};
  EXPECT_OK(ClientOf(settings)->Get("/a"));
}

}  // namespace
}  // namespace cairn

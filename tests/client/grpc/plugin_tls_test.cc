// The plug-in and the daemon's door over TCP, with certificates that either side knows or does not know.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "client/cairn.h"
#include "storage/base/unique_fd.h"
#include "tests/client/grpc/plugin_fixture.h"
#include "tests/support/runfiles/runfiles.h"

namespace cairn {
namespace {

using testing::Hello;
using testing::PluginTest;
using testing::Stream;

class PluginTlsTest : public PluginTest {
 protected:
  ~PluginTlsTest() override {
    for (const char* name : {"CAIRN_TLS_CA", "CAIRN_TLS_CERT", "CAIRN_TLS_KEY"}) unsetenv(name);
  }

  // Makes certificates for localhost in `folder_/name`.
  void MakeCertificates(const std::string& name, const std::string& host) {
    const std::string command =
        testing::Runfile("deploy/make-certs.sh") + " " + folder_ + "/" + name + " " + host + " >/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
  void OpenTls(const std::string& name) {
    options_.tcp.listen = "127.0.0.1:0";
    options_.tcp.tls_ca = folder_ + "/" + name + "/ca.pem";
    options_.tcp.tls_cert = folder_ + "/" + name + "/server.pem";
    options_.tcp.tls_key = folder_ + "/" + name + "/server.key";
    ASSERT_NO_FATAL_FAILURE(Open());
  }
  void UseCertificates(const std::string& authority, const std::string& client) {
    setenv("CAIRN_TLS_CA", (folder_ + "/" + authority + "/ca.pem").c_str(), 1);
    setenv("CAIRN_TLS_CERT", (folder_ + "/" + client + "/client.pem").c_str(), 1);
    setenv("CAIRN_TLS_KEY", (folder_ + "/" + client + "/client.key").c_str(), 1);
  }
  std::string TcpAddress() const { return "grpc://localhost:" + std::to_string(door_->tcp_port()); }
};

TEST_F(PluginTlsTest, ATlsConnectionThatIsClosedOnceIsTriedAgain) {
  ASSERT_NO_FATAL_FAILURE(MakeCertificates("ours", "localhost"));
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(::listen(listener.get(), 16), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  // As a daemon that is being stopped, then one that is not there.
  std::thread dying([&] {
    const UniqueFd taken(::accept(listener.get(), nullptr, nullptr));
    ::shutdown(listener.get(), SHUT_RDWR);
  });
  UseCertificates("ours", "ours");
  Stream stream;
  EXPECT_EQ(stream.Connect("grpc://localhost:" + std::to_string(ntohs(address.sin_port))), CAIRN_UNAVAILABLE)
      << stream.error();
  dying.join();
}

TEST_F(PluginTlsTest, TlsWorksWithBothCertificates) {
  ASSERT_NO_FATAL_FAILURE(MakeCertificates("ours", "localhost"));
  ASSERT_NO_FATAL_FAILURE(OpenTls("ours"));
  UseCertificates("ours", "ours");
  Stream stream;
  ASSERT_EQ(stream.Connect(TcpAddress()), CAIRN_OK) << stream.error();
  ASSERT_EQ(stream.Send(Hello()), CAIRN_OK);
  local::Reply reply;
  EXPECT_EQ(stream.Receive(&reply), CAIRN_OK) << stream.error();
}

TEST_F(PluginTlsTest, TlsThatEitherSideRefusesIsPermissionDenied) {
  ASSERT_NO_FATAL_FAILURE(MakeCertificates("ours", "localhost"));
  ASSERT_NO_FATAL_FAILURE(MakeCertificates("theirs", "localhost"));
  ASSERT_NO_FATAL_FAILURE(MakeCertificates("elsewhere", "other.example.org"));
  ASSERT_NO_FATAL_FAILURE(OpenTls("ours"));
  Stream stream;
  UseCertificates("ours", "theirs");  // the daemon does not know us
  EXPECT_EQ(stream.Connect(TcpAddress()), CAIRN_PERMISSION_DENIED) << stream.error();
  UseCertificates("theirs", "ours");  // we do not know the daemon
  EXPECT_EQ(stream.Connect(TcpAddress()), CAIRN_PERMISSION_DENIED) << stream.error();
  ASSERT_NO_FATAL_FAILURE(OpenTls("elsewhere"));  // a certificate for another name
  UseCertificates("elsewhere", "elsewhere");
  EXPECT_EQ(stream.Connect(TcpAddress()), CAIRN_PERMISSION_DENIED) << stream.error();
  EXPECT_EQ(receiver_.attached(), 0u);
}

}  // namespace
}  // namespace cairn

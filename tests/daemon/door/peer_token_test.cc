// A stream says by a token which connection it is of: no other is taken, and it is taken once. The client is a member
// that speaks gRPC as it likes.
#include <fcntl.h>
#include <fmt/format.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel_posix.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "daemon/trust/member_name.h"
#include "proto/peer.grpc.pb.h"
#include "storage/base/clock.h"
#include "storage/base/unique_fd.h"
#include "tests/daemon/door/peer_node.h"
#include "tests/daemon/door/raw_peer.h"
#include "tests/daemon/trust/members.h"

namespace cairn {
namespace {

using testing::FrameOf;
using testing::MemberOf;
using testing::PeerNode;
using testing::RawPeer;
using testing::RunOf;

const RunId kRun = RunOf(1);

class PeerTokenTest : public ::testing::Test {
 protected:
  PeerTokenTest() {
    node_.Enter(authority_);
    EXPECT_EQ(DialUntilServed(), "");
    EXPECT_TRUE(peer_.Introduce());
    for (const char byte : peer_.Binding("link")) token_ += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    carrier_ = std::thread([this, near = fds[1]] { peer_.Carry(UniqueFd(near)); });
    ::fcntl(fds[0], F_SETFL, O_NONBLOCK);
    stub_ = peer::Peer::NewStub(grpc::CreateCustomInsecureChannelFromFd("peer", fds[0], {}));
  }
  ~PeerTokenTest() override {
    stub_.reset();  // closes its end: the carrier ends
    carrier_.join();
  }

  // The door's thread may not have heard yet that it serves the run.
  std::string DialUntilServed() {
    for (int tries = 0;; ++tries) {
      std::string said = peer_.Dial({.shown = &credential_, .server_name = RunServerName(kRun)});
      if (said.find("unrecognized name") == std::string::npos || tries == 1000) return said;
      ::poll(nullptr, 0, 5);
      peer_ = RawPeer::Connect(node_.port());
    }
  }

  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<peer::Frame, peer::Frame>> stream;
  };
  std::unique_ptr<Call> Open(const std::string& token) {
    auto call = std::make_unique<Call>();
    if (!token.empty()) call->context.AddMetadata("cairn-connection", token);
    call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    call->stream = stub_->Link(&call->context);
    return call;
  }
  grpc::StatusCode CodeOf(const std::string& token) {
    const auto call = Open(token);
    peer::Frame none;
    EXPECT_FALSE(call->stream->Read(&none));
    return call->stream->Finish().error_code();
  }

  const std::shared_ptr<const Authority> authority_ = testing::NewAuthority(kRun);
  const Credential credential_ = testing::CredentialOf(*authority_, MemberOf(kRun, 9), WallNow());
  PeerNode node_{1};
  RawPeer peer_ = RawPeer::Connect(node_.port());
  std::string token_;
  std::thread carrier_;
  std::unique_ptr<peer::Peer::Stub> stub_;
};

TEST_F(PeerTokenTest, TheConnectionsOwnOpensItsLink) {
  const auto call = Open(token_);
  EXPECT_TRUE(call->stream->Write(FrameOf("hello")));
  const auto link = node_.Dialled();
  ASSERT_TRUE(link);
  EXPECT_EQ(link->peer(), MemberOf(kRun, 9));
  link->Start();
  EXPECT_EQ(link->Receive(), "hello");
  call->stream->WritesDone();
  EXPECT_TRUE(call->stream->Finish().ok());
  EXPECT_EQ(CodeOf(token_), grpc::StatusCode::UNAUTHENTICATED) << "a second time";
  EXPECT_EQ(node_.dialled(), 1u);
}

TEST_F(PeerTokenTest, NoOtherDoes) {
  EXPECT_EQ(CodeOf(""), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(CodeOf(std::string(64, '0')), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(CodeOf(token_.substr(1)), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(CodeOf(token_ + "0"), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(node_.dialled(), 0u);
}

}  // namespace
}  // namespace cairn

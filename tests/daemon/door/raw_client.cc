#include "tests/daemon/door/raw_client.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "daemon/door/frame_parser.h"
#include "proto/frame.h"
#include "storage/base/descriptor_message.h"

namespace cairn::testing {
namespace {

constexpr int kPatienceSeconds = 20;

}  // namespace

RawClient::RawClient(const std::string& socket_path) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size() + 1);
  const int result = connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  EXPECT_EQ(result, 0) << socket_path << ": " << std::strerror(errno);
  const timeval patience{.tv_sec = kPatienceSeconds, .tv_usec = 0};
  setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

bool RawClient::SendBytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::Send(const local::Request& request) {
  return SendBytes(EncodeFrame(request));
}

bool RawClient::Hello(std::uint32_t protocol_min, std::uint32_t protocol_max) {
  local::Request request;
  request.set_call(1);
  request.mutable_hello()->set_protocol_min(protocol_min);
  request.mutable_hello()->set_protocol_max(protocol_max);
  request.mutable_hello()->set_client("raw client");
  return Send(request);
}

std::size_t RawClient::SendSome(std::string_view bytes, int wait_ms) {
  pollfd item{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
  if (poll(&item, 1, wait_ms) <= 0) return 0;
  const ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent < 0 ? 0 : static_cast<std::size_t>(sent);
}

bool RawClient::Read(char* target, std::size_t bytes, UniqueFd* image) {
  while (bytes > 0) {
    UniqueFd received;
    const ssize_t got = ReceiveWithDescriptor(fd_.get(), {target, bytes}, &received);
    EXPECT_FALSE(got < 0 && errno == EAGAIN) << "nothing came";
    if (got <= 0) return false;
    if (received.valid()) {
      EXPECT_NE(image, nullptr) << "a descriptor that was not expected";
      if (image != nullptr) *image = std::move(received);
    }
    target += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

std::optional<local::Reply> RawClient::Receive(UniqueFd* image) {
  cairn_frame_header header{};
  if (!Read(reinterpret_cast<char*>(&header), sizeof(header), image)) return std::nullopt;
  EXPECT_EQ(header.magic, CAIRN_FRAME_MAGIC);
  EXPECT_LE(header.bytes, CAIRN_FRAME_BYTES_MAX);
  std::string message(header.bytes, '\0');
  if (!Read(message.data(), message.size(), nullptr)) return std::nullopt;
  local::Reply reply;
  EXPECT_TRUE(reply.ParseFromString(message));
  return reply;
}

bool RawClient::AtEnd() {
  char byte = 0;
  return !Read(&byte, 1, nullptr);
}

}  // namespace cairn::testing

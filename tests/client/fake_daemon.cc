#include "tests/client/fake_daemon.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "proto/frame.h"

namespace cairn {
namespace {

constexpr int kPatienceMs = 10000;

bool WaitReadable(int fd) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, kPatienceMs) > 0;
}

// False: the other side closed first.
bool ReadAll(int fd, void* target, std::size_t bytes) {
  auto* at = static_cast<std::uint8_t*>(target);
  while (bytes > 0) {
    if (!WaitReadable(fd)) {
      ADD_FAILURE() << "the client sent nothing";
      return false;
    }
    const ssize_t n = read(fd, at, bytes);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

FakeImage::FakeImage(std::uint64_t id, std::uint64_t bytes, bool sealed)
    : id_(id), bytes_(bytes), fd_(memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(bytes)), 0);
  base_ = static_cast<std::uint8_t*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
  const int seals = sealed ? F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL : F_SEAL_GROW;
  EXPECT_EQ(fcntl(fd_, F_ADD_SEALS, seals), 0);
}

FakeImage::~FakeImage() {
  munmap(base_, bytes_);
  close(fd_);
}

void FakeImage::Describe(local::Image* image, bool fresh) const {
  image->set_id(id_);
  image->set_bytes(bytes_);
  image->set_fresh(fresh);
}

FakePeer::FakePeer(FakePeer&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), told_(other.told_), mark_(other.mark_) {}
FakePeer::~FakePeer() {
  Close();
}

void FakePeer::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

std::optional<local::Request> FakePeer::Receive() {
  cairn_frame_header header;
  if (!ReadAll(fd_, &header, sizeof header)) return std::nullopt;
  EXPECT_EQ(header.magic, CAIRN_FRAME_MAGIC);
  std::string message(header.bytes, '\0');
  local::Request request;
  if (!ReadAll(fd_, message.data(), message.size())) return std::nullopt;
  EXPECT_TRUE(request.ParseFromString(message));
  if (request.has_begin() || request.has_restore() || request.has_read()) told_ = 0;
  if (request.has_filled()) told_ = request.filled().pieces();
  if (request.has_copied()) told_ = request.copied().pieces();
  if (request.has_mark()) mark_ = request.dirty();
  return request;
}

local::Request FakePeer::Expect(local::Request::BodyCase body) {
  for (;;) {
    const std::optional<local::Request> request = Receive();
    if (!request) {
      ADD_FAILURE() << "the client closed instead of sending request kind " << body;
      return {};
    }
    const bool on_the_way = request->has_filled() || request->has_copied() || request->has_mark();
    if (request->body_case() != body && on_the_way) continue;
    EXPECT_EQ(request->body_case(), body) << request->ShortDebugString().substr(0, 300);
    return *request;
  }
}

void FakePeer::SendRaw(std::string_view bytes, int fd) {
  while (!bytes.empty()) {
    iovec part{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (fd >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
      fd = -1;
    }
    const ssize_t n = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (n < 0) return;  // the client is gone: what it says of that is the test's matter
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void FakePeer::Answer(const local::Request& request, local::Reply reply, int fd) {
  reply.set_call(request.call());
  const std::string message = reply.SerializeAsString();
  const cairn_frame_header header{CAIRN_FRAME_MAGIC, static_cast<std::uint32_t>(message.size())};
  SendRaw(std::string(reinterpret_cast<const char*>(&header), sizeof header) + message, fd);
}

void FakePeer::Refuse(const local::Request& request, local::Code code, const std::string& message) {
  local::Reply reply;
  reply.mutable_status()->set_code(code);
  reply.mutable_status()->set_message(message);
  Answer(request, std::move(reply));
}

local::Open FakePeer::Greet(std::uint64_t launch, std::uint32_t protocol) {
  local::Reply hello;
  hello.mutable_hello()->set_protocol(protocol);
  hello.mutable_hello()->set_daemon("fake");
  Answer(Expect(local::Request::kHello), std::move(hello));
  const local::Request open = Expect(local::Request::kOpen);
  local::Reply reply;
  reply.mutable_open()->set_launch(launch);
  reply.mutable_open()->set_token("token");
  Answer(open, std::move(reply));
  return open.open();
}

FakeDaemon::FakeDaemon() {
  std::string pattern = "/tmp/fake.XXXXXX";  // a test's own folder may be too deep for a socket's path
  folder_ = mkdtemp(pattern.data());
  path_ = folder_ + "/s";
  address_ = address();
  Reopen();
}

FakeDaemon::~FakeDaemon() {
  Join();
  CloseSocket();
  std::filesystem::remove_all(folder_);
}

cairn_options FakeDaemon::options() const {
  cairn_options options = CAIRN_OPTIONS_INIT;
  options.prefix = "/prefix";
  options.rank = 0;
  options.nranks = 1;
  options.launch = "key";
  options.address = address_.c_str();
  options.deadline_ms = 5000;
  return options;
}

void FakeDaemon::Reopen() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path_.size(), sizeof address.sun_path);
  std::copy(path_.begin(), path_.end(), address.sun_path);
  unlink(path_.c_str());
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << path_;
  ASSERT_EQ(listen(listener_, 8), 0);
}

void FakeDaemon::CloseSocket() {
  if (listener_ >= 0) close(std::exchange(listener_, -1));
}

FakePeer FakeDaemon::Accept() {
  const bool came = WaitReadable(listener_);
  EXPECT_TRUE(came) << "no client came";
  if (!came) return FakePeer(-1);
  return FakePeer(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
}

void FakeDaemon::Play(std::function<void()> script) {
  Join();
  script_ = std::thread(std::move(script));
}

void FakeDaemon::PlayPeer(std::function<void(FakePeer&)> script) {
  Play([this, script = std::move(script)] {
    FakePeer peer = Accept();
    peer.Greet();
    script(peer);
  });
}

void FakeDaemon::Join() {
  if (script_.joinable()) script_.join();
}

local::Plan MakeTestPlan(const google::protobuf::RepeatedPtrField<local::Variable>& variables,
                         std::uint64_t piece_bytes) {
  local::Plan plan;
  std::vector<std::uint64_t> done(static_cast<std::size_t>(variables.size()), 0);
  std::uint64_t place = 0;
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < variables.size(); ++i) {
      std::uint64_t& offset = done[static_cast<std::size_t>(i)];
      const std::uint64_t bytes = std::min(piece_bytes, variables[i].bytes() - offset);
      if (bytes == 0) continue;
      plan.add_variable(static_cast<std::uint32_t>(i));
      plan.add_variable_offset(offset);
      plan.add_image_offset(place);
      plan.add_bytes(bytes);
      offset += bytes;
      place += bytes;
      more = true;
    }
  }
  plan.set_doorbell_bytes(2 * piece_bytes);
  return plan;
}

cairn_session* OpenOrDie(const cairn_options& options) {
  cairn_session* session = nullptr;
  EXPECT_EQ(cairn_open(&options, &session), CAIRN_OK) << cairn_error(nullptr);
  return session;
}

}  // namespace cairn

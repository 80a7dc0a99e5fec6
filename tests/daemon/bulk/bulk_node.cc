#include "tests/daemon/bulk/bulk_node.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "tests/daemon/door/raw_peer.h"
#include "tests/daemon/trust/members.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {
namespace {

constexpr auto kPatience = absl::Seconds(60);
constexpr int kTickMs = 20;

bool SendAll(int fd, const char* bytes, ssize_t count) {
  while (count > 0) {
    const ssize_t n = ::send(fd, bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes += n;
    count -= n;
  }
  return true;
}

}  // namespace

BulkNode::BulkNode(std::uint8_t number, const BulkOptions& options) : door_(number) {
  EXPECT_OK(disk_.MakeDirectory("/cache", 0700));
  bulk_ = MakeBulk(options, door_.lines());
}

void BulkNode::Enter(const std::shared_ptr<const Authority>& authority) {
  door_.Enter(authority);
  bulk_->Serve(authority->run(), disk_, "/cache");
}

void BulkNode::Write(const std::string& path, const std::string& bytes) {
  ASSERT_OK_AND_ASSIGN(const auto file, disk_.Open(path, {.writable = true, .create = true}));
  ASSERT_OK(file->WriteAt(0, std::as_bytes(std::span(bytes))));
}

std::shared_ptr<Disk> BulkNode::FilesOf(const RunId& run, BulkNode& node, const std::string& address) {
  return bulk_->DiskOf(run, node.node(), address.empty() ? node.door().address() : address);
}

std::string Pattern(std::size_t bytes) {
  std::string pattern(bytes, '\0');
  std::uint64_t state = 88172645463325252u;
  for (char& byte : pattern) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<char>(state);
  }
  return pattern;
}

absl::StatusOr<std::string> ReadAll(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const auto file, disk.Open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
  std::string bytes(info.bytes, '\0');
  CAIRN_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

// --- Reads that wait ---

Barrier::Barrier(FakeDisk& disk) : disk_(disk) {
  disk_.SetHook([state = state_](FakeOp op, const std::string&) {
    if (op != FakeOp::kRead) return;
    const absl::MutexLock lock(&state->mutex);
    state->most = std::max(state->most, ++state->waiting);
    state->changed.SignalAll();
    const absl::Time end = absl::Now() + kPatience;
    while (!state->open) {
      if (!state->changed.WaitWithDeadline(&state->mutex, end)) continue;
      ADD_FAILURE() << "nobody lets go";
      break;
    }
    --state->waiting;
  });
}

Barrier::~Barrier() {
  LetGo();
  disk_.SetHook(nullptr);
}

void Barrier::AwaitReads(std::size_t count) {
  const absl::MutexLock lock(&state_->mutex);
  const absl::Time end = absl::Now() + kPatience;
  while (state_->waiting < count) {
    if (!state_->changed.WaitWithDeadline(&state_->mutex, end)) continue;
    ADD_FAILURE() << state_->waiting << " reads, not " << count;
    return;
  }
}

void Barrier::LetGo() {
  const absl::MutexLock lock(&state_->mutex);
  state_->open = true;
  state_->changed.SignalAll();
}

std::size_t Barrier::most() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->most;
}

ReadInHand::ReadInHand(File& file, std::uint64_t offset, std::size_t bytes) {
  state_->bytes.resize(bytes);
  file.ReadAsync(offset, state_->bytes, [state = state_](absl::Status status) {
    const absl::MutexLock lock(&state->mutex);
    EXPECT_FALSE(state->status.has_value()) << "told twice";
    state->status = std::move(status);
    state->came.SignalAll();
  });
}

absl::Status ReadInHand::Wait() {
  const absl::MutexLock lock(&state_->mutex);
  const absl::Time end = absl::Now() + kPatience;
  while (!state_->status) {
    if (!state_->came.WaitWithDeadline(&state_->mutex, end)) continue;
    ADD_FAILURE() << "the read does not end";
    return absl::DeadlineExceededError("of the test");
  }
  return *state_->status;
}

bool ReadInHand::over() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->status.has_value();
}

// --- Connections that are cut ---

Cutter::Cutter(int port, int cuts, std::size_t after_bytes)
    : target_(port), cuts_(cuts), after_bytes_(after_bytes), listening_(ListenOnLoopback(port_)) {
  thread_ = std::thread([this] { Accept(); });
}

Cutter::~Cutter() {
  stops_ = true;
  ::shutdown(listening_.get(), SHUT_RDWR);
  thread_.join();
}

void Cutter::Accept() {
  while (!stops_) {
    UniqueFd near(::accept(listening_.get(), nullptr, nullptr));
    if (!near.valid()) break;
    carriers_.emplace_back([this, fd = near.Release()] { Carry(UniqueFd(fd)); });
  }
  for (std::thread& carrier : carriers_) carrier.join();
}

void Cutter::Carry(UniqueFd near) {
  const bool cuts = connections_++ < cuts_;
  const UniqueFd far = ConnectToLoopback(target_);
  std::size_t came = 0;
  std::array<char, 16384> block;
  while (!stops_) {
    pollfd both[] = {{.fd = near.get(), .events = POLLIN, .revents = 0},
                     {.fd = far.get(), .events = POLLIN, .revents = 0}};
    if (::poll(both, 2, kTickMs) <= 0) continue;
    for (const int from : {0, 1}) {
      if (both[from].revents == 0) continue;
      const ssize_t n = ::recv(both[from].fd, block.data(), block.size(), 0);
      if (n <= 0 || !SendAll(both[1 - from].fd, block.data(), n)) return;
      if (from == 1) came += static_cast<std::size_t>(n);
    }
    if (cuts && came > after_bytes_) {
      ++cut_;
      return;
    }
  }
}

}  // namespace cairn::testing

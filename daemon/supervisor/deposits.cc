#include "daemon/supervisor/deposits.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

#include "daemon/supervisor/given.h"
#include "daemon/supervisor/hand_over.h"
#include "proto/supervisor.h"
#include "storage/base/clock.h"
#include "storage/base/sealed_memory.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr int kRequestsAtOnce = 64;  // of one worker
constexpr std::string_view kNameBegins = "cairn-";

// Of cairn-<uid>-<inode>.
std::optional<uid_t> UserIn(std::string_view name) {
  if (!name.starts_with(kNameBegins)) return std::nullopt;
  uid_t user = 0;
  const char* const end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + kNameBegins.size(), end, user);
  if (error != std::errc() || stopped == end || *stopped != '-') return std::nullopt;
  return user;
}

}  // namespace

absl::StatusOr<std::uint64_t> HeldDeposits::Make(std::uint64_t bytes, const Max& max) {
  if (held_.size() >= max.count || bytes == 0 || bytes > max.bytes - std::min(bytes_, max.bytes)) {
    return ResourceExhausted("{} deposits of {} bytes are held already", held_.size(), bytes_);
  }
  CAIRN_ASSIGN_OR_RETURN(UniqueFd fd, MakeSealedMemory("cairn-deposit", bytes));
  return Add(std::move(fd));
}

absl::StatusOr<std::uint64_t> HeldDeposits::Add(UniqueFd fd) {
  CAIRN_ASSIGN_OR_RETURN(const SealedMemory memory, LookAtMemory(fd.get()));
  // Else two images would be one memory.
  if (held_.contains(memory.inode)) return AlreadyExists("deposit {}: is held already", memory.inode);
  held_.emplace(memory.inode, Held{.fd = std::move(fd), .bytes = memory.bytes});
  bytes_ += memory.bytes;
  return memory.inode;
}

bool HeldDeposits::LetGo(std::uint64_t inode) {
  const auto held = held_.find(inode);
  if (held == held_.end()) return false;
  bytes_ -= held->second.bytes;
  held_.erase(held);
  return true;
}

int HeldDeposits::Of(std::uint64_t inode) const {
  return held_.at(inode).fd.get();
}

std::vector<std::uint64_t> HeldDeposits::inodes() const {
  std::vector<std::uint64_t> inodes;
  for (const auto& [inode, held] : held_) inodes.push_back(inode);
  return inodes;
}

std::vector<int> HeldDeposits::fds() const {
  std::vector<int> fds;
  for (const auto& [inode, held] : held_) fds.push_back(held.fd.get());
  return fds;
}

std::string DepositName(uid_t user, std::uint64_t inode) {
  return fmt::format("{}{}-{}", kNameBegins, user, inode);
}

bool IsDepositName(std::string_view name) {
  return UserIn(name).has_value();
}

std::vector<GivenDeposit> TakeGivenDeposits() {
  std::vector<GivenDeposit> deposits;
  for (const Given& given : LookAtGiven()) {
    const std::optional<uid_t> user = UserIn(given.name);
    if (!user || ::fcntl(given.fd, F_SETFD, FD_CLOEXEC) != 0) continue;
    deposits.push_back({.user = *user, .fd = UniqueFd(given.fd)});
  }
  return deposits;
}

// --- The desk ---

bool DepositDesk::Tell(std::string_view what, uid_t user, std::uint64_t inode, int fd) const {
  return !notify_ || notify_(fmt::format("{}\nFDNAME={}", what, DepositName(user, inode)), fd);
}

// What comes with a request the kernel drops: there is no room for it.
DepositDesk::Asked DepositDesk::Answer(uid_t user, HeldDeposits& held, int socket) {
  for (int i = 0; i < kRequestsAtOnce; ++i) {
    DepositRequest request{};
    const ssize_t got = ::recv(socket, &request, sizeof request, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Asked::kSome;
    if (got <= 0) return Asked::kEnded;
    if (got == sizeof request)
      request.bytes == 0 ? LetGo(user, held, request.inode) : Make(user, held, socket, request.bytes);
    if (!held.MayAskMore(SteadyNow())) return Asked::kLater;
  }
  return Asked::kSome;
}

void DepositDesk::Make(uid_t user, HeldDeposits& held, int socket, std::uint64_t bytes) {
  const absl::StatusOr<std::uint64_t> made = held.Make(bytes, max_);
  if (!made.ok()) {
    (void)SendByte(socket, Door::kNoDeposit);  // one that takes no answers asks in vain
    return;
  }
  const int fd = held.Of(*made);
  if (SendConnection(socket, Door::kDeposit, fd) != 0) {
    held.LetGo(*made);
    return;
  }
  TellPending();
  // Else it outlives this worker, but not us.
  if (Tell("FDSTORE=1\nFDPOLL=0", user, *made, fd)) told_.emplace(user, *made);
}

void DepositDesk::LetGo(uid_t user, HeldDeposits& held, std::uint64_t inode) {
  if (!held.LetGo(inode) || told_.erase({user, inode}) == 0) return;
  pending_.emplace(user, inode);
  TellPending();
}

void DepositDesk::TellPending() {
  while (!pending_.empty() && Tell("FDSTOREREMOVE=1", pending_.begin()->first, pending_.begin()->second, -1)) {
    pending_.erase(pending_.begin());
  }
}

void DepositDesk::LetGoOfAll(uid_t user, HeldDeposits& held) {
  for (const std::uint64_t inode : held.inodes()) LetGo(user, held, inode);
}

absl::StatusOr<std::uint64_t> DepositDesk::TakeBack(HeldDeposits& held, GivenDeposit given) {
  absl::StatusOr<std::uint64_t> added = held.Add(std::move(given.fd));
  if (added.ok()) told_.emplace(given.user, *added);
  return added;
}

}  // namespace cairn

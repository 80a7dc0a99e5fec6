#include "daemon/service_deposits.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include "daemon/process/service_notify.h"
#include "daemon/supervisor/deposits.h"
#include "storage/base/sealed_memory.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

class WithService final : public Deposits {
 public:
  WithService(std::string socket, std::size_t max, std::vector<UniqueFd> left)
      : socket_(std::move(socket)), max_(max), left_(std::move(left)) {
    const absl::MutexLock lock(&mutex_);
    for (const UniqueFd& fd : left_) {
      if (const auto memory = LookAtMemory(fd.get()); memory.ok()) held_.insert(memory->inode);
    }
  }

  absl::StatusOr<UniqueFd> Make(std::uint64_t bytes) override {
    const absl::MutexLock lock(&mutex_);
    GiveUpPending();
    if (held_.size() >= max_) return Refused(ResourceExhausted("the service manager holds {} descriptors", max_));
    CAIRN_ASSIGN_OR_RETURN(UniqueFd fd, MakeSealedMemory("cairn-deposit", bytes));
    CAIRN_ASSIGN_OR_RETURN(const SealedMemory memory, LookAtMemory(fd.get()));
    if (held_.contains(memory.inode)) return Refused(AlreadyExists("deposit {}: is held already", memory.inode));
    if (const absl::Status told = Tell("FDSTORE=1\nFDPOLL=0", memory.inode, fd.get()); !told.ok()) return Refused(told);
    held_.insert(memory.inode);
    return fd;
  }

  void GiveUp(std::uint64_t inode) override {
    const absl::MutexLock lock(&mutex_);
    if (held_.contains(inode)) pending_.insert(inode);
    GiveUpPending();
  }

  std::vector<UniqueFd> TakeLeft() override { return std::move(left_); }

  void NeedsTime(std::uint64_t seconds) override {
    const absl::Status told = NotifyService(socket_, fmt::format("EXTEND_TIMEOUT_USEC={}", seconds * 1'000'000));
    if (!told.ok()) spdlog::warn("{}", MessageOf(told));
  }

 private:
  absl::Status Tell(std::string_view what, std::uint64_t inode, int fd) const {
    return NotifyService(socket_, fmt::format("{}\nFDNAME={}", what, DepositName(::geteuid(), inode)), fd);
  }
  absl::Status Refused(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!std::exchange(told_, true)) {
      spdlog::warn("some of what is only captured is lost if this daemon crashes: {}", MessageOf(why));
    }
    return why;
  }
  // What it does not take now it is told the next time.
  void GiveUpPending() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (!pending_.empty() && Tell("FDSTOREREMOVE=1", *pending_.begin(), -1).ok()) {
      held_.erase(*pending_.begin());
      pending_.erase(pending_.begin());
    }
  }

  const std::string socket_;
  const std::size_t max_;
  std::vector<UniqueFd> left_;
  absl::Mutex mutex_;
  std::set<std::uint64_t> held_ ABSL_GUARDED_BY(mutex_), pending_ ABSL_GUARDED_BY(mutex_);
  bool told_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::size_t HeldByService(const std::optional<std::string>& max) {
  std::size_t number = 0;
  const std::string text = max.value_or("");
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

std::shared_ptr<Deposits> DepositsWithService(const std::optional<std::string>& socket,
                                              const std::optional<std::string>& max) {
  if (!socket || socket->empty() || HeldByService(max) == 0) return nullptr;
  std::vector<UniqueFd> left;
  for (GivenDeposit& given : TakeGivenDeposits()) {
    if (given.user == ::geteuid()) left.push_back(std::move(given.fd));
  }
  return std::make_shared<WithService>(*socket, HeldByService(max), std::move(left));
}

}  // namespace cairn

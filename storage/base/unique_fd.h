// A file descriptor that closes itself.
#ifndef CAIRN_STORAGE_BASE_UNIQUE_FD_H_
#define CAIRN_STORAGE_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <memory>
#include <utility>

namespace cairn {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));  // An error here has no one to act on it: data is synced before.
  }

 private:
  int fd_ = -1;
};

// Held by all who still have a use for it; null: none.
using SharedFd = std::shared_ptr<const UniqueFd>;

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_UNIQUE_FD_H_

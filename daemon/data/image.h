// Images: shared memory that a client fills and the daemon reads (or the other way round for a restore).
// A memfd sealed against shrinking, growing and further seals, on a 2 MiB aligned mapping in huge pages where the
// kernel gives them (MADV_COLLAPSE works for anybody), touched when made, so that no page is ever fresh when used.
#ifndef CAIRN_DAEMON_DATA_IMAGE_H_
#define CAIRN_DAEMON_DATA_IMAGE_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "daemon/data/deposits.h"
#include "daemon/data/image_label.h"
#include "storage/base/sealed_memory.h"
#include "storage/base/unique_fd.h"

namespace cairn {

// Counts the bytes of all images against `image_bytes_max`. Thread-safe. An image may outlive it: the last to let go of
// one may be a disk's thread, on its way out of a transfer that has ended.
class ImageBudget {
 public:
  explicit ImageBudget(std::uint64_t bytes_max) : account_(std::make_shared<Account>(bytes_max)) {}
  ~ImageBudget() { SetOnGiven(nullptr); }
  ImageBudget(const ImageBudget&) = delete;
  bool Take(std::uint64_t bytes);
  void Give(std::uint64_t bytes);
  // Runs after each Give, on whichever thread lets go of an image; null: nothing. Not from within itself.
  void SetOnGiven(std::function<void()> on_given);
  std::uint64_t used() const { return account_->used; }
  std::uint64_t bytes_max() const { return account_->bytes_max; }

 private:
  friend class Image;
  struct Account {
    explicit Account(std::uint64_t max) : bytes_max(max) {}
    void Give(std::uint64_t bytes);

    const std::uint64_t bytes_max;
    std::atomic<std::uint64_t> used{0};
    absl::Mutex mutex;
    std::function<void()> on_given ABSL_GUARDED_BY(mutex);
  };

  const std::shared_ptr<Account> account_;
};

class Image {
 public:
  static constexpr std::size_t kAlignment = 2 << 20;

  // Makes and touches an image of `bytes`, rounded up to kAlignment. Takes long (0.3 s per GiB): I/O pool.
  // `before_part` runs before each kPartBytes of it are touched, which takes the memory's bandwidth: it may wait.
  // kResourceExhausted: the budget or the machine has no room.
  static constexpr std::size_t kPartBytes = 32 << 20;
  // `deposits`: that its memory and its label are to be, if they can; null: memory of this process alone.
  static absl::StatusOr<std::shared_ptr<Image>> Make(ImageBudget& budget, std::uint64_t bytes,
                                                     const std::function<void()>& before_part = nullptr,
                                                     std::shared_ptr<Deposits> deposits = nullptr);
  // One that a daemon before this one has filled: sealed memory, mapped as it is, which stays as it is when this image
  // is let go of.
  // kInvalidArgument: it is no such memory; kResourceExhausted: it cannot be mapped.
  static absl::StatusOr<std::shared_ptr<Image>> TakeUp(ImageBudget& budget, UniqueFd fd);
  ~Image();
  Image(const Image&) = delete;

  std::uint64_t id() const { return id_; }  // unique in this process
  int fd() const { return fd_.get(); }
  // Its descriptor, which keeps it. Null: of no image.
  static SharedFd FdOf(const std::shared_ptr<Image>& image) {
    return image == nullptr ? nullptr : SharedFd(image, &image->fd_);
  }
  // The daemon's own mapping. A client may write to it at any time: copy, then validate the copy.
  std::span<std::byte> bytes() const { return {base_, size_}; }

  // The kernel gave huge pages for all of it when it was made.
  bool in_huge_pages() const { return huge_; }

  // --- For a daemon after this one: what it holds (image_label.h). Nothing if it is no deposit. One thread at a time
  bool has_label() const { return deposit_.has_value(); }
  bool is_labelled() const { return deposit_ && deposit_->label.written(); }
  void ClearLabel();  // before anything else is put into it
  void WriteLabel(const CapturedPart& part);
  void SealLabel();  // what was written is in it

  // What is let go of before the memory is: a disk's hold on it. Before others have the image.
  void KeepWithMemory(std::shared_ptr<void> handle) { with_memory_ = std::move(handle); }

 private:
  // Whoever else holds the memory, and the label beside it.
  struct Deposit {
    std::shared_ptr<Deposits> deposits;
    SealedMemory memory, label_memory;
    ImageLabel label;
    void GiveUp() const;
  };

  Image(std::shared_ptr<ImageBudget::Account> account, UniqueFd fd, std::byte* base, std::size_t size);
  static std::optional<Deposit> MakeDeposit(std::shared_ptr<Deposits> deposits, std::uint64_t bytes, UniqueFd* fd);
  const std::shared_ptr<ImageBudget::Account> account_;
  const std::uint64_t id_;
  UniqueFd fd_;
  std::byte* base_;
  std::size_t size_;
  std::shared_ptr<void> with_memory_;
  std::optional<Deposit> deposit_;
  bool huge_ = false;
  bool taken_up_ = false;  // its bytes are needed until whoever holds it lets go of it
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_IMAGE_H_

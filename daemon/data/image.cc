#include "daemon/data/image.h"

#include <absl/synchronization/mutex.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "daemon/data/image_reuse.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr int kMadvCollapse = 25;  // MADV_COLLAPSE, Linux 6.1; the distribution's headers are older
constexpr int kMadvPopulateWrite = 23;

std::uint64_t NextId() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// What the machine can give without killing a process for it; all there is if it does not say.
std::uint64_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kib) == 1) return kib << 10;
  }
  return std::numeric_limits<std::uint64_t>::max();
}

// A mapping of the whole file whose address is a multiple of the alignment, so that huge pages fit.
std::byte* MapAligned(int fd, std::size_t size) {
  void* const space =
      mmap(nullptr, size + Image::kAlignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(space);
  const auto misaligned = reinterpret_cast<std::uintptr_t>(first) % Image::kAlignment;
  const std::size_t before = misaligned == 0 ? 0 : Image::kAlignment - misaligned;
  std::byte* const base = first + before;
  void* const mapped = mmap(base, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) {
    munmap(space, size + Image::kAlignment);
    return nullptr;
  }
  if (before != 0) munmap(first, before);
  munmap(base + size, Image::kAlignment - before);
  return base;
}

// Makes every page of a part of a fresh file. False if the machine has no room: in `errno` is why.
bool WriteZeros(int fd, std::size_t offset, std::size_t size) {
  const std::vector<std::byte> zeros(std::min<std::size_t>(size, 1 << 20));
  const std::size_t end = offset + size;
  while (offset < end) {
    const ssize_t written = pwrite(fd, zeros.data(), std::min(zeros.size(), end - offset), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    offset += static_cast<std::size_t>(written);
  }
  return true;
}

// Touches every page of a part: huge ones where the kernel gives them, else `*huge` is false. False if the machine has
// no room.
bool PopulatePart(int fd, std::byte* base, std::size_t offset, std::size_t size, bool* huge) {
  base += offset;
  // A huge page is made of a range that has one small page: its holes need not be filled first. Six times as fast as
  // touching all and collapsing then. Where either is refused the pages are small.
  for (std::size_t at = 0; at < size; at += Image::kAlignment) {
    if (madvise(base + at, 1, kMadvPopulateWrite) != 0) break;
  }
  if (madvise(base, size, kMadvCollapse) != 0) *huge = false;
  if (madvise(base, size, kMadvPopulateWrite) == 0) return true;
  if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON) return false;
  // Kernels before 5.14 do not know it, and a filter may refuse it. A write answers for the room, too: a page that were
  // touched where there is none would kill this process.
  return WriteZeros(fd, offset, size);
}

bool Populate(int fd, std::byte* base, std::size_t size, const std::function<void()>& before_part, bool* huge) {
  for (std::size_t at = 0; at < size; at += Image::kPartBytes) {
    if (before_part) before_part();
    if (!PopulatePart(fd, base, at, std::min(Image::kPartBytes, size - at), huge)) return false;
  }
  return true;
}

}  // namespace

bool ImageBudget::Take(std::uint64_t bytes) {
  std::uint64_t used = account_->used.load();
  do {
    if (bytes > bytes_max() || used > bytes_max() - bytes) return false;
  } while (!account_->used.compare_exchange_weak(used, used + bytes));
  return true;
}

void ImageBudget::Account::Give(std::uint64_t bytes) {
  used -= bytes;
  const absl::MutexLock lock(&mutex);
  if (on_given) on_given();
}

void ImageBudget::Give(std::uint64_t bytes) {
  account_->Give(bytes);
}

void ImageBudget::SetOnGiven(std::function<void()> on_given) {
  const absl::MutexLock lock(&account_->mutex);
  account_->on_given = std::move(on_given);
}

Image::Image(std::shared_ptr<ImageBudget::Account> account, UniqueFd fd, std::byte* base, std::size_t size)
    : account_(std::move(account)), id_(NextId()), fd_(std::move(fd)), base_(base), size_(size) {}

Image::~Image() {
  with_memory_ = nullptr;
  // The label first, in its own memory: who holds both may hear of it later, or never.
  ClearLabel();
  if (deposit_) deposit_->GiveUp();
  if (ScopedImageReuse* const reuse = ScopedImageReuse::current) {
    --reuse->in_use_;
    reuse->spare_.push_back({std::move(fd_), base_, size_});
    account_->Give(size_);
    return;
  }
  munmap(base_, size_);
  // A client may keep it mapped for long; the memory is given back all the same (its seals allow that).
  if (!taken_up_) fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size_));
  account_->Give(size_);
}

absl::StatusOr<std::shared_ptr<Image>> Image::Make(ImageBudget& budget, std::uint64_t bytes,
                                                   const std::function<void()>& before_part,
                                                   std::shared_ptr<Deposits> deposits) {
  if (bytes == 0) return InvalidArgument("image: no bytes asked for");
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - kAlignment) {
    return ResourceExhausted("image: {} bytes are more than a file can have", bytes);
  }
  const std::uint64_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  ScopedImageReuse* const reuse = ScopedImageReuse::current;
  // What a simulation comes to must not hang upon the machine.
  if (const std::uint64_t available = reuse != nullptr ? size : AvailableBytes(); size > available) {
    return ResourceExhausted("image: {} bytes do not fit, the machine has {} available", size, available);
  }
  if (!budget.Take(size)) {
    return ResourceExhausted("image: {} bytes do not fit, {} of {} are in use", size, budget.used(),
                             budget.bytes_max());
  }
  if (reuse != nullptr) {
    for (auto spare = reuse->spare_.begin(); spare != reuse->spare_.end(); ++spare) {
      if (spare->size != size) continue;
      const std::shared_ptr<Image> image(new Image(budget.account_, std::move(spare->fd), spare->base, size));
      reuse->spare_.erase(spare);
      ++reuse->in_use_;
      return image;
    }
  }
  UniqueFd fd;
  std::optional<Deposit> deposit = reuse == nullptr ? MakeDeposit(std::move(deposits), size, &fd) : std::nullopt;
  const auto refuse = [&](const absl::Status& status) {
    budget.Give(size);
    if (deposit) deposit->GiveUp();
    return ResourceExhausted("image of {} bytes: {}", size, MessageOf(status));
  };
  const auto errno_of = [](const char* what) { return Internal("{}: {}", what, std::strerror(errno)); };
  if (!deposit) {
    absl::StatusOr<UniqueFd> made = MakeSealedMemory("cairn-image", size);
    if (!made.ok()) return refuse(made.status());
    fd = *std::move(made);
  }
  std::byte* const base = MapAligned(fd.get(), size);
  if (base == nullptr) return refuse(errno_of("mmap"));
  bool huge = true;
  if (!Populate(fd.get(), base, size, before_part, &huge)) {
    const absl::Status why = errno_of("populate");
    munmap(base, size);
    return refuse(why);
  }
  if (reuse != nullptr) ++reuse->in_use_;
  const std::shared_ptr<Image> image(new Image(budget.account_, std::move(fd), base, size));
  image->huge_ = huge;
  image->deposit_ = std::move(deposit);
  return image;
}

absl::StatusOr<std::shared_ptr<Image>> Image::TakeUp(ImageBudget& budget, UniqueFd fd) {
  CAIRN_ASSIGN_OR_RETURN(const SealedMemory memory, LookAtMemory(fd.get()));
  if (memory.bytes % kAlignment != 0) {
    return InvalidArgument("image of {} bytes: no multiple of {}", memory.bytes, kAlignment);
  }
  if (!budget.Take(memory.bytes)) return ResourceExhausted("image of {} bytes: no room", memory.bytes);
  std::byte* const base = MapAligned(fd.get(), memory.bytes);
  if (base == nullptr) {
    const int error = errno;
    budget.Give(memory.bytes);
    return ResourceExhausted("image of {} bytes: mmap: {}", memory.bytes, std::strerror(error));
  }
  const std::shared_ptr<Image> image(new Image(budget.account_, std::move(fd), base, memory.bytes));
  image->taken_up_ = true;
  return image;
}

// --- As a deposit ---

std::optional<Image::Deposit> Image::MakeDeposit(std::shared_ptr<Deposits> deposits, std::uint64_t bytes,
                                                 UniqueFd* fd) {
  if (!deposits) return std::nullopt;
  absl::StatusOr<UniqueFd> memory = deposits->Make(bytes);
  if (!memory.ok()) return std::nullopt;
  const absl::StatusOr<SealedMemory> of_image = LookAtMemory(memory->get());
  if (!of_image.ok() || of_image->bytes != bytes) return std::nullopt;
  absl::StatusOr<UniqueFd> label = deposits->Make(kLabelBytes);
  const absl::StatusOr<SealedMemory> of_label =
      label.ok() ? LookAtMemory(label->get()) : absl::StatusOr<SealedMemory>(label.status());
  if (!of_label.ok() || !IsLabel(*of_label)) {
    deposits->GiveUp(of_image->inode);
    return std::nullopt;
  }
  *fd = *std::move(memory);
  return Deposit{.deposits = std::move(deposits),
                 .memory = *of_image,
                 .label_memory = *of_label,
                 .label = ImageLabel(*std::move(label))};
}

void Image::Deposit::GiveUp() const {
  deposits->GiveUp(label_memory.inode);
  deposits->GiveUp(memory.inode);
}

void Image::ClearLabel() {
  if (!deposit_ || deposit_->label.Clear()) return;
  // Whoever holds it must not believe it.
  deposit_->GiveUp();
  deposit_.reset();
}

void Image::WriteLabel(const CapturedPart& part) {
  if (!deposit_) return;
  ClearLabel();
  // Without one it is lost with this daemon, as it would be without deposits.
  if (deposit_) deposit_->label.Write(part, deposit_->memory).IgnoreError();
}

void Image::SealLabel() {
  if (deposit_) deposit_->label.Seal();
}

// --- Reuse ---

thread_local ScopedImageReuse* ScopedImageReuse::current = nullptr;

ScopedImageReuse::ScopedImageReuse() {
  CAIRN_CHECK(current == nullptr);
  current = this;
}

ScopedImageReuse::~ScopedImageReuse() {
  current = nullptr;
  for (const Memory& memory : spare_) munmap(memory.base, memory.size);
}

}  // namespace cairn

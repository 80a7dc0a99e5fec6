#include "daemon/data/hash_company.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "storage/base/caught.h"

namespace cairn {

// One job: on a thread of the pool, and, if it starves there, on another that takes its work back.
class HashCompany::Round {
 public:
  Round(std::shared_ptr<HashCompany> company, std::uint64_t number, const std::shared_ptr<HashPartner>& partner)
      : company_(std::move(company)), number_(number) {
    parts_.push_back({partner, std::make_unique<HashPart>()});
    parts_.front().part->posted = true;
  }

  void Run() {
    company_->Begins(number_);
    bool claimed = false;
    if (const absl::Status status = Caught([&] { claimed = ClaimAll(); }); !status.ok()) return Failed(status);
    if (!claimed) return;
    bool hashed = false;
    if (const absl::Status status = Caught([&] { hashed = Hash(); }); !status.ok()) return Failed(status);
    if (!hashed) return;  // its work is taken back, or nobody wants it
    for (const Taken& taken : parts_) {
      taken.partner->HashingFailed(Caught([&] { taken.partner->Publish(*taken.part); }));
    }
  }

  void TakeBack() {
    {
      const absl::MutexLock lock(&mutex_);
      voided_ = true;  // no part is added any more
    }
    for (const Taken& taken : parts_) {
      taken.partner->HashingFailed(Caught([&] { taken.partner->TakeBack(*taken.part); }));
    }
  }

 private:
  struct Taken {
    std::shared_ptr<HashPartner> partner;
    std::unique_ptr<HashPart> part;
  };

  // False: the one that it was posted for has nothing.
  bool ClaimAll() {
    if (!parts_.front().partner->Claim(*parts_.front().part, kMd5LanesMax)) return false;
    std::size_t lanes = parts_.front().part->work.full_lanes;
    std::uint64_t bytes = parts_.front().part->work.bytes;
    while (lanes < kMd5LanesMax && bytes < kHashJobBytesMax && MakeRoom()) {
      const std::shared_ptr<HashPartner> next = company_->NextThatWaits();
      if (next == nullptr) break;
      // Without the lock: whoever takes all back must not wait for a thread of idle priority.
      auto part = std::make_unique<HashPart>();
      bool claimed = false;
      const absl::Status tried = Caught([&] { claimed = next->Claim(*part, kMd5LanesMax - lanes); });
      next->HashingFailed(tried);
      if (!claimed) continue;
      lanes += part->work.full_lanes;
      bytes += part->work.bytes;
      const absl::MutexLock lock(&mutex_);
      if (!voided_) {
        parts_.push_back({next, std::move(part)});
        continue;
      }
      next->TakeBack(*part);
      break;
    }
    return true;
  }

  // For one part more, so that what is claimed can be listed. False: none is to be added any more.
  bool MakeRoom() {
    const absl::MutexLock lock(&mutex_);
    if (voided_) return false;
    parts_.reserve(parts_.size() + 1);
    return true;
  }

  // False: there are no results.
  bool Hash() {
    std::vector<HashWork*> works;
    works.reserve(parts_.size());
    for (const Taken& taken : parts_) works.push_back(&taken.part->work);
    return HashTogether(works, [this] {
      return voided_ || std::ranges::all_of(parts_, [](const Taken& taken) { return taken.partner->NoMore(); });
    });
  }

  // That is the matter of the one that it was posted for; the others' work is done by their own jobs.
  void Failed(const absl::Status& status) {
    if (voided_) return;
    TakeBack();
    parts_.front().partner->HashingFailed(status);
  }

  const std::shared_ptr<HashCompany> company_;
  const std::uint64_t number_;
  absl::Mutex mutex_;
  std::atomic<bool> voided_{false};  // set under the lock
  std::vector<Taken> parts_;         // changed by Run, under the lock and only until voided_
};

void HashCompany::Post(const std::shared_ptr<HashPartner>& partner) {
  std::uint64_t number = 0;
  {
    const absl::MutexLock lock(&mutex_);
    number = ++last_;
    waiting_.emplace(number, partner);
  }
  const auto round = std::make_shared<Round>(shared_from_this(), number, partner);
  pool_.Post([round] { round->Run(); }, [round] { round->TakeBack(); });
}

void HashCompany::Begins(std::uint64_t number) {
  const absl::MutexLock lock(&mutex_);
  waiting_.erase(number);
}

std::shared_ptr<HashPartner> HashCompany::NextThatWaits() {
  const absl::MutexLock lock(&mutex_);
  while (!waiting_.empty()) {
    const std::shared_ptr<HashPartner> partner = waiting_.extract(waiting_.begin()).mapped().lock();
    if (partner != nullptr) return partner;
  }
  return nullptr;
}

}  // namespace cairn

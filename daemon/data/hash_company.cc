#include "daemon/data/hash_company.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "storage/base/caught.h"
#include "storage/base/status.h"

namespace cairn {

// One job, and after it another.
class HashCompany::Round {
 public:
  // What it holds until it has run.
  void Prepare(std::shared_ptr<HashCompany> company, std::shared_ptr<HashPartner> partner) {
    company_ = std::move(company);
    partner_ = std::move(partner);
    waits_ = true;
  }

  void Run() {
    company_->Begins(*this);
    bool hashed = false;
    const absl::Status status = Caught([&] {
      if (ClaimAll()) hashed = Hash();
    });
    for (const Taken& taken : std::span(parts_).first(taken_)) {
      Tell(*taken.partner,
           Caught([&] { hashed ? taken.partner->Publish(taken.part) : taken.partner->GiveBack(taken.part); }));
    }
    Tell(*partner_, status);  // only the partner that posted the job fails
  }

  // Lets go of all but its memory.
  std::shared_ptr<HashCompany> Clear() {
    for (Taken& taken : std::span(parts_).first(taken_)) taken.partner = nullptr;
    partner_ = nullptr;
    taken_ = lanes_ = bytes_ = 0;
    return std::move(company_);
  }

  // Under the company's lock.
  bool waits() const { return waits_; }
  std::shared_ptr<HashPartner> TakeAlong() { return std::exchange(waits_, false) ? partner_ : nullptr; }

 private:
  struct Taken {
    std::shared_ptr<HashPartner> partner;
    HashPart part;
  };

  // False: the one that it was posted for has nothing.
  bool ClaimAll() {
    if (!ClaimOf(partner_, true)) return false;
    while (lanes_ < kMd5LanesMax && bytes_ < kHashJobBytesMax) {
      const std::shared_ptr<HashPartner> next = company_->NextThatWaits();
      if (next == nullptr) break;
      ClaimOf(next, false);
    }
    return true;
  }

  bool ClaimOf(const std::shared_ptr<HashPartner>& partner, bool posted) {
    if (taken_ == parts_.size()) parts_.emplace_back();
    Taken& taken = parts_[taken_];
    taken.part.posted = posted;
    taken.part.work.Clear();
    bool claimed = false;
    const absl::Status status = Caught([&] { claimed = partner->Claim(taken.part, kMd5LanesMax - lanes_); });
    if (claimed) {
      taken.partner = partner;
      lanes_ += taken.part.work.full_lanes;
      bytes_ += taken.part.work.bytes;
      ++taken_;
    }
    Tell(*partner, status);
    return claimed;
  }

  // What one cannot take in keeps nobody else from what is its own.
  static void Tell(HashPartner& partner, const absl::Status& status) {
    const absl::Status told = Caught([&] { partner.HashingFailed(status); });
    if (!told.ok()) spdlog::error("a capture was not told of its end: {}", MessageOf(told));
  }

  // False: nobody wants the results.
  bool Hash() {
    const std::span<Taken> all = std::span(parts_).first(taken_);
    works_.clear();
    for (Taken& taken : all) works_.push_back(&taken.part.work);
    return HashTogether(
        works_, [all] { return std::ranges::all_of(all, [](const Taken& taken) { return taken.partner->NoMore(); }); });
  }

  std::shared_ptr<HashCompany> company_;
  std::shared_ptr<HashPartner> partner_;  // that it was posted for
  bool waits_ = false;                    // its job has not begun, and it was not taken along
  std::vector<Taken> parts_;              // of which the first `taken_` are of this job
  std::vector<HashWork*> works_;
  std::size_t taken_ = 0;
  std::size_t lanes_ = 0;
  std::uint64_t bytes_ = 0;
};

std::shared_ptr<HashCompany::Round> HashCompany::NewRound() {
  if (idle_.empty()) return std::make_shared<Round>();
  std::shared_ptr<Round> round = std::move(idle_.back());
  idle_.pop_back();
  return round;
}

void HashCompany::Post(const std::shared_ptr<HashPartner>& partner) {
  std::shared_ptr<Round> round;
  {
    const absl::MutexLock lock(&mutex_);
    round = NewRound();
    round->Prepare(shared_from_this(), partner);
    waiting_.push_back(round);
  }
  pool_.Post([round = std::move(round)]() mutable {
    round->Run();
    const std::shared_ptr<HashCompany> company = round->Clear();
    company->Ended(std::move(round));
  });
}

void HashCompany::Begins(Round& round) {
  const absl::MutexLock lock(&mutex_);
  round.TakeAlong();
  while (!waiting_.empty()) {
    const std::shared_ptr<Round> oldest = waiting_.front().lock();
    if (oldest != nullptr && oldest->waits()) break;
    waiting_.pop_front();
  }
}

std::shared_ptr<HashPartner> HashCompany::NextThatWaits() {
  const absl::MutexLock lock(&mutex_);
  while (!waiting_.empty()) {
    const std::shared_ptr<Round> oldest = waiting_.front().lock();
    waiting_.pop_front();
    if (oldest == nullptr) continue;
    if (std::shared_ptr<HashPartner> partner = oldest->TakeAlong()) return partner;
  }
  return nullptr;
}

void HashCompany::Ended(std::shared_ptr<Round> round) {
  const absl::MutexLock lock(&mutex_);
  // Each that ends may have had the next one posted.
  if (idle_.size() < 2 * pool_.threads()) idle_.push_back(std::move(round));
}

}  // namespace cairn

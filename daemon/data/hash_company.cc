#include "daemon/data/hash_company.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "storage/base/caught.h"
#include "storage/base/status.h"

namespace cairn {

// One job.
class HashCompany::Round {
 public:
  Round(std::shared_ptr<HashCompany> company, std::uint64_t number, std::shared_ptr<HashPartner> partner)
      : company_(std::move(company)), number_(number), partner_(std::move(partner)) {}

  void Run() {
    company_->Begins(number_);
    bool hashed = false;
    const absl::Status status = Caught([&] {
      if (ClaimAll()) hashed = Hash();
    });
    for (const Taken& taken : parts_) {
      Tell(*taken.partner,
           Caught([&] { hashed ? taken.partner->Publish(taken.part) : taken.partner->GiveBack(taken.part); }));
    }
    Tell(*partner_, status);  // only the partner that posted the job fails
  }

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
    parts_.push_back({partner, {.posted = posted, .work = {}}});  // first, so that what is claimed is listed
    bool claimed = false;
    const absl::Status status = Caught([&] { claimed = partner->Claim(parts_.back().part, kMd5LanesMax - lanes_); });
    if (claimed) {
      lanes_ += parts_.back().part.work.full_lanes;
      bytes_ += parts_.back().part.work.bytes;
    } else {
      parts_.pop_back();
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
    std::vector<HashWork*> works;
    works.reserve(parts_.size());
    for (Taken& taken : parts_) works.push_back(&taken.part.work);
    return HashTogether(works, [this] {
      return std::ranges::all_of(parts_, [](const Taken& taken) { return taken.partner->NoMore(); });
    });
  }

  const std::shared_ptr<HashCompany> company_;
  const std::uint64_t number_;
  const std::shared_ptr<HashPartner> partner_;  // that it was posted for
  std::vector<Taken> parts_;
  std::size_t lanes_ = 0;
  std::uint64_t bytes_ = 0;
};

void HashCompany::Post(const std::shared_ptr<HashPartner>& partner) {
  std::uint64_t number = 0;
  {
    const absl::MutexLock lock(&mutex_);
    number = ++last_;
    waiting_.emplace(number, partner);
  }
  const auto round = std::make_shared<Round>(shared_from_this(), number, partner);
  pool_.Post([round] { round->Run(); });
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

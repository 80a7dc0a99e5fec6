#include "tests/support/fake_arbiters.h"

#include <set>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/place/arbiter/folder_arbiter.h"

namespace cairn {

class FakeArbiter final : public Arbiter {
 public:
  FakeArbiter(const FakeArbiters& service, std::unique_ptr<Arbiter> folder, const RunId& run)
      : service_(service), folder_(std::move(folder)), stem_(run.Hex() + "/") {}

  absl::Status Create(const std::string& name, std::string_view bytes) override {
    std::string winner;
    {
      const absl::MutexLock lock(&service_.mutex_);
      CAIRN_RETURN_IF_ERROR(Reach());
      if (service_.refuses_) {
        ++service_.refused_;
        return ArbiterIsSilent(service_.where() + ": no answer");
      }
      winner = service_.values_.try_emplace(stem_ + name, bytes).first->second;
    }
    const absl::Status copied = folder_->Create(name, winner);
    if (!copied.ok() && !absl::IsAlreadyExists(copied)) return copied;
    return copied.ok() && winner == bytes ? absl::OkStatus() : absl::AlreadyExistsError(name);
  }

  absl::StatusOr<std::vector<std::string>> Names() override {
    CAIRN_ASSIGN_OR_RETURN(const auto there, folder_->Names());
    std::set<std::string> names(there.begin(), there.end());
    CAIRN_ASSIGN_OR_RETURN(const auto mine, Mine());
    for (const auto& [name, bytes] : mine) {
      if (!names.insert(name).second || name.ends_with(".lease")) continue;
      const absl::Status copied = folder_->Create(name, bytes);
      if (!copied.ok() && !absl::IsAlreadyExists(copied)) return copied;
    }
    return std::vector<std::string>(names.begin(), names.end());
  }

  absl::Status CreateLease(const std::string& name, std::string_view bytes) override {
    const absl::MutexLock lock(&service_.mutex_);
    CAIRN_RETURN_IF_ERROR(Reach());
    return service_.values_.try_emplace(stem_ + name, bytes).second ? absl::OkStatus() : absl::AlreadyExistsError(name);
  }

  absl::Status WriteLease(const std::string& name, std::string_view bytes) override {
    const absl::MutexLock lock(&service_.mutex_);
    CAIRN_RETURN_IF_ERROR(Reach());
    const auto found = service_.values_.find(stem_ + name);
    if (found == service_.values_.end()) return absl::NotFoundError(name);
    found->second = std::string(bytes);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadLease(const std::string& name, std::size_t bytes_max) override {
    const absl::MutexLock lock(&service_.mutex_);
    CAIRN_RETURN_IF_ERROR(Reach());
    const auto found = service_.values_.find(stem_ + name);
    if (found == service_.values_.end()) return absl::NotFoundError(name);
    return found->second.substr(0, bytes_max + 1);
  }

 private:
  absl::Status Reach() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(service_.mutex_) {
    return service_.down_ ? ArbiterIsSilent(service_.where() + ": no answer") : absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Mine() const {
    const absl::MutexLock lock(&service_.mutex_);
    CAIRN_RETURN_IF_ERROR(Reach());
    std::vector<std::pair<std::string, std::string>> mine;
    for (const auto& [key, bytes] : service_.values_) {
      if (key.starts_with(stem_)) mine.emplace_back(key.substr(stem_.size()), bytes);
    }
    return mine;
  }

  const FakeArbiters& service_;
  const std::unique_ptr<Arbiter> folder_;
  const std::string stem_;
};

absl::StatusOr<std::unique_ptr<Arbiter>> FakeArbiters::Make(Disk& disk, const std::string& prefix, const RunId& run,
                                                            const ArbiterRecord&) const {
  return std::make_unique<FakeArbiter>(*this, MakeFolderArbiter(disk, prefix), run);
}

absl::Status FakeArbiters::Reach() const {
  const absl::MutexLock lock(&mutex_);
  return down_ ? ArbiterIsSilent(where() + ": no answer") : absl::OkStatus();
}

void FakeArbiters::SetDown(bool down) {
  const absl::MutexLock lock(&mutex_);
  down_ = down;
}

void FakeArbiters::RefuseRecords(bool refuse) {
  const absl::MutexLock lock(&mutex_);
  refuses_ = refuse;
}

int FakeArbiters::refused() const {
  const absl::MutexLock lock(&mutex_);
  return refused_;
}

void FakeArbiters::Erase(const RunId& run, const std::string& name) {
  const absl::MutexLock lock(&mutex_);
  values_.erase(run.Hex() + "/" + name);
}

bool FakeArbiters::Has(const RunId& run, const std::string& name) const {
  const absl::MutexLock lock(&mutex_);
  return values_.contains(run.Hex() + "/" + name);
}

void FakeArbiters::Decide(const RunId& run, const std::string& name, std::string_view bytes) {
  const absl::MutexLock lock(&mutex_);
  values_.try_emplace(run.Hex() + "/" + name, bytes);
}

}  // namespace cairn

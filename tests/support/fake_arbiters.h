// An arbiter as a service of its own, in memory: what etcd is to runs, without etcd. It can be down, and it can have
// records that nobody has copied to the prefix yet. Thread-safe.
#ifndef CAIRN_TESTS_SUPPORT_FAKE_ARBITERS_H_
#define CAIRN_TESTS_SUPPORT_FAKE_ARBITERS_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/arbiter/arbiter_record.h"

namespace cairn {

class FakeArbiters final : public Arbiters {
 public:
  ArbiterKind kind() const override { return ArbiterKind::kEtcd; }
  std::string where() const override { return "fake:1"; }
  absl::Status Reach() const override;
  absl::StatusOr<std::unique_ptr<Arbiter>> Make(Disk& disk, const std::string& prefix, const RunId& run,
                                                const ArbiterRecord& record) const override;

  void SetDown(bool down);
  // Whoever would make a record gets no answer; all else goes on.
  void RefuseRecords(bool refuse);
  int refused() const;  // so often
  void Erase(const RunId& run, const std::string& name);
  bool Has(const RunId& run, const std::string& name) const;
  // Another node was first, and died before it came to the prefix.
  void Decide(const RunId& run, const std::string& name, std::string_view bytes);

 private:
  friend class FakeArbiter;
  mutable absl::Mutex mutex_;
  bool down_ ABSL_GUARDED_BY(mutex_) = false;
  bool refuses_ ABSL_GUARDED_BY(mutex_) = false;
  mutable int refused_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);  // by "<run>/<name>"
};

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_FAKE_ARBITERS_H_

// A real Core on folders of its own, for tests. Every wait here ends: after a minute without an answer the test fails.
#ifndef CAIRN_TESTS_DAEMON_CORE_CORE_HARNESS_H_
#define CAIRN_TESTS_DAEMON_CORE_CORE_HARNESS_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/core/threads.h"
#include "daemon/data/deposits.h"
#include "proto/admin.pb.h"
#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "tests/daemon/core/client_host.h"

namespace cairn {

// The core and its folders. Disks may be given; else it is the real one, below a folder that goes with the harness.
class CoreHarness : public ClientHost {
 public:
  explicit CoreHarness(Disk* cache_disk = nullptr, Disk* prefix_disk = nullptr);
  ~CoreHarness() override;

  Config config;                                 // as Start takes it; flushes only what it is asked to, and keeps all
  Clocks clocks;                                 // the same; empty: the system's
  const Arbiters* arbiters = &PrefixArbiters();  // the same
  std::shared_ptr<Deposits> deposits;            // the same
  std::string shared_prefix;                     // another harness' prefix; empty: one of its own
  absl::Status Start();
  void Stop();
  void Restart();  // another incarnation on the same folders
  Core& core() override { return core_->core(); }
  bool Quiesce() { return core_->Quiesce(); }
  absl::Status TryStop() { return core_->Stop(); }  // of those that hang: ThreadedCore::Stop
  bool running() const override { return core_ != nullptr; }
  bool Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
            const std::function<bool()>& holds) override;

  std::string prefix() const override { return shared_prefix.empty() ? root_ + "/prefix" : shared_prefix; }
  std::string root() const { return root_; }
  Disk& cache_disk() { return *cache_disk_; }
  Disk& prefix_disk() { return *prefix_disk_; }

  admin::StatusReply Status();
  std::vector<admin::DatasetRow> List();
  admin::DatasetRow Row(DatasetId id);  // empty: not listed
  admin::ShowReply Show(DatasetId id);  // empty: there is none
  admin::WaitReply Wait(DatasetId id, local::Level level, std::uint32_t timeout_ms = 30000);
  // `run`: empty: the one of prefix().
  local::Status Flush(DatasetId id, const std::string& run = {});
  local::Status Pin(DatasetId id, bool pinned, const std::string& run = {});
  local::Status Remove(DatasetId id);
  admin::LeaveReply Leave(std::uint32_t timeout_ms = 30000, bool to_prefix = false);
  admin::RemoveReply RemoveSetAside(admin::RemoveRequest::SetAside which, DatasetId besides = 0);
  // Asks again until it is so; false: it is not after a minute.
  bool Eventually(const std::function<bool()>& holds);
  bool Warned(const std::string& part);

  // Of this prefix' newest run.
  std::string CacheFolderPath();
  std::string CachedFile(DatasetId id, Rank rank);  // the checkpoint file
  std::string PrefixFile(DatasetId id, Rank rank);
  bool IsThere(Disk& disk, const std::string& path);
  void Flip(Disk& disk, const std::string& path, std::uint64_t offset);
  void Truncate(Disk& disk, const std::string& path, std::uint64_t bytes);
  void Write(Disk& disk, const std::string& path, const std::string& bytes);
  std::string Read(Disk& disk, const std::string& path);

 private:
  std::string root_;
  std::unique_ptr<Disk> real_disk_;
  Disk* cache_disk_;
  Disk* prefix_disk_;
  std::unique_ptr<ThreadedCore> core_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_CORE_HARNESS_H_

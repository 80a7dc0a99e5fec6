// A daemon that serves files of its cache to others of the run and reads theirs: a peer door on loopback, bulk bytes
// beside it, a disk in memory; and what tests do to it. Every wait ends after a minute, with a failure of the test.
#ifndef CAIRN_TESTS_DAEMON_BULK_BULK_NODE_H_
#define CAIRN_TESTS_DAEMON_BULK_BULK_NODE_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/bulk/bulk.h"
#include "storage/base/unique_fd.h"
#include "tests/daemon/door/peer_node.h"
#include "tests/support/fake_disk.h"

namespace cairn::testing {

class BulkNode {
 public:
  // Node `number`; "/cache" is the folder that it serves.
  explicit BulkNode(std::uint8_t number, const BulkOptions& options = {});

  PeerNode& door() { return door_; }
  BulkNet& bulk() { return *bulk_; }
  FakeDisk& disk() { return disk_; }
  std::string node() const { return door_.options().node; }

  void Enter(const std::shared_ptr<const Authority>& authority);  // a member of the run, and its files are served
  void Write(const std::string& path, const std::string& bytes);
  // As others see it: of `node`, at `address` instead of its own if that is set.
  std::shared_ptr<Disk> FilesOf(const RunId& run, BulkNode& node, const std::string& address = "");
  void Shut() { bulk_.reset(); }

 private:
  FakeDisk disk_;
  PeerNode door_;
  std::unique_ptr<BulkNet> bulk_;
};

// Bytes that tell where they are.
std::string Pattern(std::size_t bytes);
absl::StatusOr<std::string> ReadAll(Disk& disk, const std::string& path);

// Reads of a disk stop here until they are let go.
class Barrier {
 public:
  explicit Barrier(FakeDisk& disk);
  ~Barrier();                          // lets all go
  void AwaitReads(std::size_t count);  // so many wait here at once
  void LetGo();
  std::size_t most() const;  // that ever waited here at once

 private:
  struct State {
    absl::Mutex mutex;
    absl::CondVar changed;
    bool open ABSL_GUARDED_BY(mutex) = false;
    std::size_t waiting ABSL_GUARDED_BY(mutex) = 0;
    std::size_t most ABSL_GUARDED_BY(mutex) = 0;
  };
  FakeDisk& disk_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();  // the disk's threads have it, too
};

// A read under way, and its end.
class ReadInHand {
 public:
  ReadInHand(File& file, std::uint64_t offset, std::size_t bytes);
  absl::Status Wait();  // for its end
  bool over() const;
  std::string bytes() const { return {reinterpret_cast<const char*>(state_->bytes.data()), state_->bytes.size()}; }

 private:
  struct State {
    std::vector<std::byte> bytes;
    absl::Mutex mutex;
    absl::CondVar came;
    std::optional<absl::Status> status ABSL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Carries connections to a port of loopback, and cuts the first `cuts` of them after so many bytes from there.
class Cutter {
 public:
  Cutter(int port, int cuts, std::size_t after_bytes);
  ~Cutter();
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int cut() const { return cut_; }
  int connections() const { return connections_; }

 private:
  void Accept();
  void Carry(UniqueFd near);

  const int target_;
  const int cuts_;
  const std::size_t after_bytes_;
  int port_ = 0;
  UniqueFd listening_;
  std::atomic<int> cut_{0}, connections_{0};
  std::atomic<bool> stops_{false};
  std::thread thread_;
  std::vector<std::thread> carriers_;  // of that thread
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_DAEMON_BULK_BULK_NODE_H_

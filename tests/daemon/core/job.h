// A job of four ranks on a simulated daemon: each rank a script that opens, restarts from the newest checkpoint, writes
// some, waits for levels and closes, with connections that break and come back. What it is told goes to the model, and
// what it is told against that is a violation.
#ifndef CAIRN_TESTS_DAEMON_CORE_JOB_H_
#define CAIRN_TESTS_DAEMON_CORE_JOB_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/io/disk.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/run_model.h"
#include "tests/daemon/core/simulated_daemon.h"

namespace cairn {

// What all ranks of a launch do, in this order.
struct Deed {
  // kRestart: from the latest; kRestore: of `dataset`, which must be there.
  enum class Kind { kCheckpoint, kFiles, kRestart, kRestore } kind = Kind::kCheckpoint;
  Written written = {};
  local::Level wait = local::NONE;  // then for this level; NONE: for none
  bool abort = false;               // one rank gives it up
  DatasetId dataset = 0;
};

struct JobPlan {
  std::uint32_t number = 0;
  std::string prefix = {};
  std::vector<Deed> deeds = {};
  ClientOptions client = {};
  bool takeover = false;
  bool comes_back = false;  // a rank whose connection broke opens again
  bool closes = true;       // else it just ends
  // Nothing is wrong with disks and connections, and nobody takes over: each call but those for room must be OK.
  bool calm = false;
  bool restarts = false;    // of the daemon: it forgets what was retried
  bool reads_fail = false;  // then an older dataset may be the best there is
};

class Job : public std::enable_shared_from_this<Job> {
 public:
  Job(SimulatedDaemon& daemon, Disk& cache, Disk& prefix, RunModel& model, JobPlan plan);
  void Start();  // its ranks become fibers of the daemon's
  bool over() const { return running_ == 0; }
  // What it was offered and could not restore.
  const std::set<DatasetId>& retried() const { return retried_; }

 private:
  struct RankState {
    std::unique_ptr<FakeClient> client;
    LaunchId launch = 0;
    std::string token;
    std::size_t next = 0;  // deed
    DatasetId open = 0;    // begun and not ended
  };

  void Live(Rank rank);
  bool Open(RankState& self, Rank rank);
  void Do(RankState& self, Rank rank, const Deed& deed);
  void Checkpoint(RankState& self, Rank rank, const Deed& deed);
  // From piece `from` on to its level.
  void FinishCheckpoint(RankState& self, Rank rank, const Deed& deed, std::size_t from);
  void GoOn(RankState& self, Rank rank);  // with what was open when the stream broke
  void Files(FakeClient& client, Rank rank, const Deed& deed);
  void WaitFor(FakeClient& client, DatasetId id, local::Level level);
  void Restart(FakeClient& client, std::size_t deed, Rank rank);
  // What this rank is told; all agree on what the first of them has heard, as an application would.
  std::optional<DatasetId> Latest(FakeClient& client, std::size_t deed, std::uint32_t round);
  local::Code RestoreOnce(FakeClient& client, Rank rank, DatasetId id, std::size_t deed, std::uint32_t round);
  void RestorePromised(FakeClient& client, Rank rank, std::size_t deed);
  void CompareFiles(FakeClient& client, Rank rank, DatasetId id, const Written& written);
  bool Write(const std::string& path, const std::string& bytes);
  void Expect(const local::Reply& reply, const char* what);
  void ExpectWhole(FakeClient& client, const local::Reply& begun);
  // The same of what a launch that was shut out when it asked must not get.
  void ExpectIn(bool fenced, const local::Reply& reply, const char* what);
  // What a call about a dataset says of it.
  void Hear(DatasetId id, const local::Reply& reply, local::Level level);

  SimulatedDaemon& daemon_;
  Disk& cache_;
  Disk& prefix_;
  RunModel& model_;
  const JobPlan plan_;
  const DatasetId latest_at_least_;  // when it began
  std::vector<RankState> ranks_;
  std::uint32_t running_ = 0;
  std::set<DatasetId> retried_;                                            // not to be offered again
  std::map<std::pair<std::size_t, std::uint32_t>, local::Code> restored_;  // OK or RETRY, by deed and round
  bool full_ = false;  // somebody was refused for want of room: then others fail with it
  std::map<std::pair<std::size_t, std::uint32_t>, DatasetId> agreed_;  // by deed and round
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_JOB_H_

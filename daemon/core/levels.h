// What ranks, observers and commands ask of one run's datasets: which level has one, which is the newest to restart
// from, what does it hold. Strand only.
#ifndef CAIRN_DAEMON_CORE_LEVELS_H_
#define CAIRN_DAEMON_CORE_LEVELS_H_

#include <memory>
#include <string>

#include "daemon/core/call.h"
#include "daemon/core/dataset_ids.h"
#include "daemon/core/flusher.h"
#include "daemon/core/inventory.h"
#include "daemon/core/ledger.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/protector.h"
#include "daemon/core/session.h"
#include "daemon/core/waits.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"

namespace cairn {

// What is to be said of a dataset's level: final (OK: it has the level, or an error), or not yet.
struct LevelAnswer {
  bool final = false;
  local::Status status;
  Level level = Level::kNone;  // that it has now
};

class Levels {
 public:
  struct Given {  // all borrowed
    const std::string& run_name;
    Ledger& ledger;
    Waits& waits;
    const DatasetIds& ids;
    const PrefixGate& gate;
    Flusher& flusher;
    Inventory& inventory;
    const Protector& protector;
  };
  explicit Levels(const Given& given) : given_(given) {}
  Levels(const Levels&) = delete;

  LevelAnswer Ask(DatasetId id, Level level) const;
  void Test(const std::shared_ptr<Call>& call, const local::Test& test) const;
  // An observer's wait asks for no flush.
  void Wait(const Session& session, const std::shared_ptr<Call>& call, const local::Wait& wait);
  void Latest(const SessionPtr& session, const std::shared_ptr<Call>& call);
  // By name or by number.
  void Find(const std::shared_ptr<Call>& call, const local::Find& find) const;
  void Stored(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Stored& stored);

 private:
  bool TryLatest(const Session& session, const std::shared_ptr<Call>& call);
  void ObserveLatest(const std::shared_ptr<Call>& call) const;
  DatasetPtr FindNamed(const std::string& name) const;

  const Given given_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_LEVELS_H_

// Is one run still at its prefix? If it is not: since when, and until when the cache keeps what it has of the run.
// A prefix that cannot be asked is not lost. Strand only.
#ifndef CAIRN_DAEMON_CORE_PREFIX_WATCH_H_
#define CAIRN_DAEMON_CORE_PREFIX_WATCH_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/core/context.h"
#include "daemon/core/ledger.h"
#include "daemon/core/prefix_gate.h"
#include "storage/base/ids.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {

class PrefixWatch {
 public:
  struct Given {  // all borrowed
    const RunId& run;
    const std::string& run_name;
    std::shared_ptr<CacheFolder> cache;
    const Ledger& ledger;
    PrefixGate& gate;
  };
  struct Reports {
    std::function<void()> on_lost;   // nothing can be flushed there
    std::function<void()> on_found;  // it can again
  };
  PrefixWatch(const Context& context, const Given& given, Reports reports);
  PrefixWatch(const PrefixWatch&) = delete;

  // At the daemon's start, when the ledger knows the cache: looks if there is anything to lose.
  void Start();
  // Something says that the run may have gone: looks, in the prefix' lane. Again and again while it is lost.
  void Look();
  // An opening has found the run there.
  void Found();

  // The last look has found another run there, or none.
  bool lost() const { return lost_; }
  // Since the epoch, over restarts of the daemon; 0: it is not lost.
  std::int64_t lost_since_us() const { return lost_ ? since_us_ : 0; }
  // 0: it is not lost, or cache.grace is 0: for good.
  std::int64_t kept_until_us() const;
  // It is lost for longer than cache.grace, has no application, and the last look was answered.
  bool MayForget() const;

 private:
  void Looked(const absl::StatusOr<RunId>& there);
  void Lost();
  void ClockWasSet();
  void Warn();
  void LookLater();
  void Note();
  std::uint64_t OnlyCached(std::uint64_t* bytes) const;

  const Context& context_;
  const Given given_;
  const Reports reports_;
  bool looking_ = false, waiting_ = false, noting_ = false;
  bool warned_ = false, warned_of_end_ = false;
  bool lost_ = false;
  std::uint32_t looks_ = 0;     // that have found it lost, one after the other
  std::int64_t since_us_ = 0;   // 0: it was there when it was last asked
  std::int64_t noted_us_ = 0;   // the same, as run.cairn has it
  std::int64_t looked_us_ = 0;  // when the last look found it lost, by both clocks
  SteadyTime looked_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_PREFIX_WATCH_H_

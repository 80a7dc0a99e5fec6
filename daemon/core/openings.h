// Open, from the request to the session: what the prefix and the cache hold is looked at in the pools, and whether the
// client joins the newest launch, comes back to it, gets a new one or only reads is decided here. design.md,
// "Identity". One opening at a time for each prefix, so that two ranks of a launch never both make it. Strand only.
#ifndef CAIRN_DAEMON_CORE_OPENINGS_H_
#define CAIRN_DAEMON_CORE_OPENINGS_H_

#include <absl/status/status.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/call.h"
#include "daemon/core/context.h"
#include "daemon/core/door.h"
#include "daemon/core/inventory.h"
#include "daemon/core/ledger.h"
#include "daemon/core/runs.h"
#include "daemon/core/sessions.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

class Openings {
 public:
  Openings(const Context& context, const Connections& connections, Runs& runs, Sessions& sessions)
      : context_(context), connections_(connections), runs_(runs), sessions_(sessions) {}
  Openings(const Openings&) = delete;

  void Open(const std::shared_ptr<Connection>& connection, const std::shared_ptr<Call>& call, const local::Open& open);

 private:
  // What is kept of an Open until it is answered.
  struct Opening {
    std::shared_ptr<Connection> connection;
    std::shared_ptr<Call> call;
    local::Open open;
    bool looked = false;  // at what the prefix holds
  };
  using OpeningPtr = std::shared_ptr<Opening>;
  // What the pool found out about a prefix.
  struct Prepared {
    absl::Status status;
    std::string path;  // resolved
    std::shared_ptr<Prefix> prefix;
    bool read_only = false;
    std::optional<LaunchRecord> newest;
    std::vector<std::string> warnings;
    PrefixLook look;  // if the run's prefix was not known, and `folder`, too
    std::shared_ptr<CacheFolder> folder;
  };
  using PreparedPtr = std::shared_ptr<Prepared>;
  class Preparation;

  bool IsOpening(const Connection& connection) const;
  bool IsUnheard(const Opening& opening) const;
  void End(const OpeningPtr& opening);
  void Fail(const OpeningPtr& opening, const absl::Status& status);
  void Answer(const OpeningPtr& opening, local::OpenReply opened);

  // --- The run ---
  void Prepare(const OpeningPtr& opening);
  void LoadRun(const OpeningPtr& opening, const PreparedPtr& prepared);
  void RunKnown(const OpeningPtr& opening, const PreparedPtr& prepared);
  void RunReached(const OpeningPtr& opening, Run& run, const Prepared& prepared);
  void LaunchSeen(Run& run, const Prepared& prepared);
  void Warn(const std::vector<std::string>& warnings) const;

  // --- The launch ---
  void Decide(const OpeningPtr& opening, Run& run);
  void DecideLater(const OpeningPtr& opening, Run& run);
  bool NeverHeardOfItsSession(const Opening& opening, const Run& run) const;
  void Reattach(const OpeningPtr& opening, Run& run);
  void MakeLaunch(const OpeningPtr& opening, Run& run);
  void LaunchMade(const OpeningPtr& opening, Run& run, const absl::StatusOr<LaunchRecord>& record);
  void Admit(const OpeningPtr& opening, Run& run, const Launch& launch);

  // --- Observers ---
  void Observe(const OpeningPtr& opening, Run& run);
  bool HasLaunch(const Run& run) const;
  void AdmitObserver(const OpeningPtr& opening, Run& run);

  const Context& context_;
  const Connections& connections_;
  Runs& runs_;
  Sessions& sessions_;
  std::map<std::string, std::deque<OpeningPtr>> queues_;  // by prefix as given; the first one is under way
  std::map<RunId, std::vector<std::pair<OpeningPtr, PreparedPtr>>> loading_;
  std::map<RunId, std::vector<OpeningPtr>> making_;  // runs whose launch is being made: decided once it is
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_OPENINGS_H_

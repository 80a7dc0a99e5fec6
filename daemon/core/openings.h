// Open, from the request to the session: what the prefix and the cache hold is looked at in the pools, and whether the
// client joins the newest launch, comes back to it, gets a new one or only reads is decided here. design.md,
// "Identity". One opening at a time for each prefix, so that two ranks of a launch never both make it. Strand only.
#ifndef CAIRN_DAEMON_CORE_OPENINGS_H_
#define CAIRN_DAEMON_CORE_OPENINGS_H_

#include <absl/status/status.h>

#include <chrono>
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
#include "daemon/core/ended_jobs.h"
#include "daemon/core/inventory.h"
#include "daemon/core/ledger.h"
#include "daemon/core/other_caches.h"
#include "daemon/core/preparation.h"
#include "daemon/core/runs.h"
#include "daemon/core/sessions.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

class Openings {
 public:
  Openings(const Context& context, const Connections& connections, Runs& runs, Sessions& sessions)
      : context_(context), connections_(connections), runs_(runs), sessions_(sessions), jobs_(context) {}
  Openings(const Openings&) = delete;

  void Open(const std::shared_ptr<Connection>& connection, const std::shared_ptr<Call>& call, const local::Open& open);

 private:
  // What is kept of an Open until it is answered.
  struct Opening {
    std::shared_ptr<Connection> connection;
    std::shared_ptr<Call> call;
    local::Open open;
    SteadyTime begun;
    PreparedPtr prepared;      // as last looked
    bool looked = false;       // at what the prefix holds
    std::string silent = {};   // what of the run does not answer, when the prefix does; as last asked
    SteadyTime asked_at = {};  // the prefix, the last time
    Loop::TimerId patience = 0;
    bool left = false;                                 // the queue, while the prefix is still being asked
    std::optional<OtherCaches::Brought> brought = {};  // from other nodes' caches; none: they were not asked
    std::uint32_t bringing = 0;                        // so often: only the last is waited for
    bool late = false;                                 // it goes on before that has ended, to be in time
    std::vector<std::string> told = {};                // the last time, of what was not heard
    // What is only in the folder that is redundant itself was taken up, or what others' caches have was asked for;
    // without the prefix that is less, and does not count once it answers.
    enum class Asked : std::uint8_t { kNot, kOffline, kOnline };
    Asked took_up = Asked::kNot, brought_how = Asked::kNot;
    bool ask_again = false;   // others' caches: the arbiter was silent since they were asked
    bool was_slow = false;    // its prefix; for that they are asked again once
    LaunchId not_joined = 0;  // its home has said that it cannot be joined
    bool job_asked = false;   // since it looked last, of the newest launch's job
    LaunchId job_over = 0;    // whose job the batch system says is over
  };
  using OpeningPtr = std::shared_ptr<Opening>;

  void Enqueue(const OpeningPtr& opening);
  bool IsOpening(const Connection& connection) const;
  bool IsUnheard(const Opening& opening) const;
  void End(const OpeningPtr& opening);
  void Fail(const OpeningPtr& opening, const absl::Status& status);
  void Answer(const OpeningPtr& opening, local::OpenReply opened);

  // --- The run ---
  void Prepare(OpeningPtr opening);
  void LoadRun(const OpeningPtr& opening);
  void RunKnown(const OpeningPtr& opening);
  void RunReached(const OpeningPtr& opening, Run& run);
  void TellWhere(Run& run, const Prepared& prepared) const;
  void LaunchSeen(Run& run, const Prepared& prepared);
  void Warn(const std::vector<std::string>& warnings) const;

  // --- Without the prefix, which does not answer (openings_offline.cc) ---
  void DoesNotAnswer(const OpeningPtr& opening);
  void Answers(const OpeningPtr& opening);
  bool TakesTurn(const OpeningPtr& opening);
  static void AnsweredAfter(Opening& opening, SteadyTime::duration took);
  static void ArbiterWasSilent(Opening& opening);
  Run* KnownByPath(const std::string& path) const;
  bool DecideOffline(const OpeningPtr& opening);
  bool MayBeginOffline(const Opening& opening, const Run& run) const;
  void BeginOffline(const OpeningPtr& opening, Run& run);
  void BegunOffline(const OpeningPtr& opening, Run& run, const ProvisionalLaunch& launch, const absl::Status& noted);

  // --- The launch ---
  void Decide(const OpeningPtr& opening, Run& run);
  void DecideLater(const OpeningPtr& opening, Run& run);
  void Busy(const OpeningPtr& opening, const Run& run, const std::string& who);
  // The newest launch is another daemon's.
  void DecideAgainstOther(const OpeningPtr& opening, Run& run);
  // It has its home elsewhere, and this rank's key.
  void AskHome(const OpeningPtr& opening, Run& run);
  void HomeAnswered(const OpeningPtr& opening, Run& run, LaunchId launch, const absl::Status& status,
                    const local::Reply& reply);
  void ReferBack(const OpeningPtr& opening);
  void AwaitArbiter(const OpeningPtr& opening, const absl::Status& silent);
  bool AskOfItsJob(const OpeningPtr& opening, const Launch& newest);
  void LookAgain(const OpeningPtr& opening, std::chrono::milliseconds pause);
  void Again(const OpeningPtr& opening);
  static bool HasAllOf(const Opening& opening, const NodeId& node);
  bool TimeIsUp(const Opening& opening, std::chrono::milliseconds pause) const;
  SteadyTime MustBegin(const Opening& opening) const;
  void BroughtTo(const OpeningPtr& opening, std::uint32_t bringing, const OtherCaches::Brought& brought);
  bool NeverHeardOfItsSession(const Opening& opening, const Run& run) const;
  void Reattach(const OpeningPtr& opening, Run& run);
  void Join(const OpeningPtr& opening, Run& run);
  SteadyTime MustGoOn(const Opening& opening, const Run& run, bool offline) const;
  void TellIfNotAllHeard(Opening& opening, const Run& run) const;
  std::vector<std::string> WhatWasNotHeard(const Opening& opening, const Run& run) const;
  std::vector<std::string> NotHeard(const Opening& opening, const Run& run) const;
  bool TakeUpFirst(const OpeningPtr& opening, Run& run, bool offline);
  bool BringFirst(const OpeningPtr& opening, Run& run);
  bool BringBefore(const OpeningPtr& opening, Run& run, LaunchId launch, const NodeId& maker, bool offline);
  struct Made;
  void MakeLaunch(const OpeningPtr& opening, Run& run);
  void LaunchMade(const OpeningPtr& opening, Run& run, const Made& made);
  void Admit(const OpeningPtr& opening, Run& run, const Launch& launch);

  // --- Observers ---
  void Observe(const OpeningPtr& opening, Run& run);
  bool HasLaunch(const Run& run) const;
  void AdmitObserver(const OpeningPtr& opening, Run& run);

  const Context& context_;
  const Connections& connections_;
  Runs& runs_;
  Sessions& sessions_;
  EndedJobs jobs_;
  std::map<std::string, std::deque<OpeningPtr>> queues_;  // by prefix as given; the first one is under way
  std::map<RunId, std::vector<OpeningPtr>> loading_;
  std::map<std::string, RunId> opened_as_;  // by prefix as given: which run it was, the last time
  // Prefixes as given that have not answered for a while: who waits until one does.
  std::map<std::string, std::vector<OpeningPtr>> silent_;
  std::map<RunId, std::vector<OpeningPtr>> making_;  // runs whose launch is being made: decided once it is
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_OPENINGS_H_

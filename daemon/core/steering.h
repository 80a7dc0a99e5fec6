// How the user steers one run: should it stop, is a checkpoint due. The first rank that asks decides for all. SCR
// specification, 12.7; README.md, "Steering". Strand only.
#ifndef CAIRN_DAEMON_CORE_STEERING_H_
#define CAIRN_DAEMON_CORE_STEERING_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "daemon/core/call.h"
#include "daemon/core/context.h"
#include "daemon/core/ledger.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/session.h"
#include "daemon/core/steering_state.h"
#include "daemon/core/waits.h"
#include "proto/admin.pb.h"
#include "proto/local.pb.h"
#include "storage/format/scr/halt.h"

namespace cairn {

class Steering {
 public:
  Steering(const Context& context, std::string run_name, const Ledger& ledger, const PrefixGate& gate, Waits& waits);
  Steering(const Steering&) = delete;

  // A rank has come, or come back. REQUIRES: the ledger knows its launch, and that it is here; the prefix is in reach.
  void Join(const Session& session, const local::Open& open);

  // --- What a checkpoint costs: the rank computes no more from its begin until it has handed over its part ---
  void Arrived(const Session& session);  // its begin, unless it asks again for the dataset that it has open
  // REQUIRES of both: Arrived, and the session has not ended.
  void Begun(const Session& session, const Dataset& dataset);  // it has entered the dataset
  void HandedOver(const Session& session, const Dataset& dataset);
  void SessionEnded(const Session& session) { held_up_since_.erase(session.id); }

  // Which of the checkpoints that were handed over are whole now? With every change of the run.
  void CountWhole();
  // The last rank's Close: all ranks have closed, none was lost, so SCR's scripts do not start the job again.
  void Finalize(const std::shared_ptr<Call>& call);
  // ShouldExit, NeedCheckpoint.
  void Ask(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Request& request);
  void Describe(admin::RunStatus* status) const;

 private:
  SteadyTime HeldUpSince(const Session& session) const;
  void ReadHaltFile();
  // A try has ended. When it began, `whole` checkpoints were to be taken off, and `wanted` events asked for it;
  // `counted`: how it went to take them off.
  void HaltFileRead(std::uint64_t whole, std::uint64_t wanted, absl::StatusOr<scr::Halt> read,
                    const absl::Status& counted);
  std::optional<std::string> WhyHalted() const;
  std::optional<std::string> WhyCheckpoint(const Session& session, const Answer& answer);
  bool OneIsOnItsWay(const Session& session) const;
  bool TryAnswer(const Session& session, const std::shared_ptr<Answer>& answer, bool exit);
  bool HasSettling(const Session& session) const;

  const Context& context_;
  const std::string run_name_;
  const Ledger& ledger_;
  const PrefixGate& gate_;
  Waits& waits_;
  SteeringState state_;
  std::map<SessionId, SteadyTime> held_up_since_;  // by its last begin
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_STEERING_H_

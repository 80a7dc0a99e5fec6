// A restore is the launch's: all ranks get their memory back, or none does. First every rank's variables are matched,
// then every rank's bytes come from the nearest whole copy, then all are told. A copy found damaged is set aside and
// the next tier asked; when a rank has none left, all are told to RETRY and the pin moves to the next older dataset. A
// read is a restore of one variable by one session, for itself: no launch, no pin. Strand only.
#ifndef CAIRN_DAEMON_CORE_RESTORES_H_
#define CAIRN_DAEMON_CORE_RESTORES_H_

#include <absl/status/status.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "daemon/core/away.h"
#include "daemon/core/base_files.h"
#include "daemon/core/call.h"
#include "daemon/core/container_lists.h"
#include "daemon/core/context.h"
#include "daemon/core/image_store.h"
#include "daemon/core/inventory.h"
#include "daemon/core/ledger.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/read_ahead.h"
#include "daemon/core/redundant_tier.h"
#include "daemon/core/restore_copies.h"
#include "daemon/core/restore_files.h"
#include "daemon/core/restore_group.h"
#include "daemon/core/retry_rounds.h"
#include "daemon/core/run_cache.h"
#include "daemon/core/session.h"
#include "daemon/core/variables.h"
#include "daemon/core/waits.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"

namespace cairn {

class Restores {
 public:
  struct Given {  // all borrowed
    const RunId& run;
    const std::string& run_name;
    ImageStore& images;
    Ledger& ledger;
    Waits& waits;
    ContainerLists& lists;
    PrefixGate& gate;
    BaseFiles& bases;
    RunCache& cache;
    Inventory& inventory;
    Nodes& nodes;
    Away& away;
    RedundantTier& tier;
    std::function<void(DatasetId)> flush;  // it is wanted on the prefix, also if it was left out
    std::function<void()> look_for_parts;  // that are lost: questions wait until that has ended
  };
  Restores(const Context& context, const Given& given);
  ~Restores() { Stop(); }  // a part under way holds its group
  Restores(const Restores&) = delete;

  // --- What ranks ask. REQUIRES: no checkpoint or output is open in the session, nor begun while it restores ---
  void Restore(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Restore& restore);
  void Read(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Read& read);
  void Copied(const SessionPtr& session, const local::Request& request);
  bool IsRestoring(const Session& session) const;  // with all ranks
  // The session asks for something else: it has heard how its last restore ended.
  void HeardOfEnd(const Session& session) { ended_well_.erase(session.id); }

  // A rank's new session is there: it will most likely restore.
  void SessionOpened(const SessionPtr& session) { read_ahead_.SessionOpened(session); }
  // It captures: it needs no restore any more.
  void CaptureBegan(const Session& session) { read_ahead_.GiveUp(session); }

  // The launch does without the dataset. What its pin would pass over besides, since parts are lost, is looked for
  // before the next question moves the pin.
  void PassOver(LaunchId launch, DatasetId id);
  // The rank asks for the latest, and nothing is being looked for. If the pin's dataset cannot be restored any more,
  // since something else has found it to be damaged, ranks that have come to restore it are told to ask again, and its
  // parts that may be made anew are looked for before the pin moves. Once: when that happens again in the same launch,
  // or nothing may be made anew, the launch passes over it for good.
  void LatestAsked(const Session& session, const Call& call);
  // No restart is to choose it any more: ranks that restore it now are told to ask again.
  void Rejected(const Dataset& dataset);
  // The session has ended, or its connection has: a restore needs all ranks.
  void SessionLeft(const SessionPtr& session);
  void Stop();  // aborts what is under way

 private:
  // A restore that was refused before some ranks had come to it.
  struct Refused {
    LaunchId launch = 0;
    DatasetId dataset = 0;
    local::Code code = local::OK;
    std::string message;
    std::set<Rank> ranks;  // that have not heard of it
  };
  // How a session's last restore ended: all ranks have the dataset, and over which stream this one was told.
  struct EndedWell {
    DatasetId dataset = 0;
    std::weak_ptr<Connection> over;
  };
  using Answer = std::optional<local::Status>;  // none: go on

  // --- Requests ---
  Answer WhyNotNow(const Session& session) const;
  Answer WhyNotRestore(const Session& session, const Call& call, DatasetId id, const DatasetPtr& dataset);
  Answer WhyNotRead(const Session& session) const;
  Answer WhyNotRead(DatasetId id, const DatasetPtr& dataset) const;
  bool IsToldToRetry(const Session& session, const Call& call, const Launch& launch, const DatasetPtr& dataset);
  bool IsAlone(const Session& session, const Call& call, DatasetId id) const;
  DatasetPtr IfStillThere(const DatasetPtr& dataset) const;
  void NotDescribed(const Session& session, Call& call, DatasetId id, const absl::Status& status);
  void Join(const SessionPtr& session, const std::shared_ptr<Call>& call, const DatasetPtr& dataset,
            const VariableList& variables);
  std::shared_ptr<RestoreTransfer> MakeTransfer(const RestorePart& part, const DatasetPtr& dataset,
                                                VariableList variables);
  void StartRead(const SessionPtr& session, const std::shared_ptr<Call>& call, const DatasetPtr& dataset,
                 const local::Read& read);

  // --- One rank's part ---
  void MatchPart(const RestoreGroupPtr& group, const RestorePartPtr& part, const VariableList& variables);
  void FindPart(const RestoreGroupPtr& group, const RestorePartPtr& part);
  void FindLater(const RestoreGroupPtr& group, const RestorePartPtr& part, const std::string& why);
  void PartFound(const RestoreGroupPtr& group, const RestorePartPtr& part, const absl::Status& status,
                 std::size_t copy);
  void PartMatched(const RestoreGroupPtr& group, const RestorePartPtr& part);
  void StartPart(const RestoreGroupPtr& group, const RestorePartPtr& part);
  void PartEnded(const RestoreGroupPtr& group, const RestorePartPtr& part, const absl::Status& status,
                 std::size_t copy);
  void FilesEnded(const RestoreGroupPtr& group, const absl::Status& status);
  void FilesLater(const RestoreGroupPtr& group);

  // --- The launch's pin ---
  void MovePin(LaunchId launch);

  // --- The end of a group ---
  void LetGo(const RestoreGroupPtr& group);
  void EndGroup(const RestoreGroupPtr& group, local::Code code, const std::string& message);
  void RetryGroup(const RestoreGroupPtr& group, const std::string& why);
  bool MakeAnew(const RestoreGroupPtr& group, const std::string& why);
  void GroupDone(const RestoreGroupPtr& group);
  void RefetchNoted(const DatasetPtr& dataset);
  void MarkDirty(const RestoreGroup& group);
  void NoteEnd(const RestoreGroup& group, const RestorePart& part);

  const Context& context_;
  const Given given_;
  RestoreCopies copies_;
  RestoreFiles files_;
  ReadAhead read_ahead_;
  RestoreGroupPtr group_;                               // all ranks' restore; null: none is under way
  std::map<SessionId, RestoreGroupPtr> reading_;        // a group each
  Refused refused_;                                     // the last one
  std::map<SessionId, EndedWell> ended_well_;           // until the session asks for something else
  RetryRounds retry_rounds_;
  std::set<std::pair<LaunchId, DatasetId>> made_anew_;  // tried once
  std::set<std::pair<LaunchId, DatasetId>> awaited_;    // pinned, and looked for once
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_RESTORES_H_

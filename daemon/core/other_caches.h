// Checkpoints of the run that only other nodes' caches have. Before a launch begins here, the newest that it would
// choose is brought into this cache; then everything goes on as if it had been made here: it is verified, restored,
// flushed and evicted like any other. One that several nodes have in parts stays where it is, and is read there; a
// daemon that was started again looks for it once more. Parts that no node has any more are made anew on the nodes on
// which their ranks run now, if the others keep enough (rebuilder.h). Outputs come in parts only, to be brought to the
// prefix. README.md, "What only another node has". Strand only.
#ifndef CAIRN_DAEMON_CORE_OTHER_CACHES_H_
#define CAIRN_DAEMON_CORE_OTHER_CACHES_H_

#include <absl/status/status.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/core/away.h"
#include "daemon/core/context.h"
#include "daemon/core/dataset_folders.h"
#include "daemon/core/dataset_ids.h"
#include "daemon/core/fetch.h"
#include "daemon/core/in_parts.h"
#include "daemon/core/inventory.h"
#include "daemon/core/ledger.h"
#include "daemon/core/node_record.h"
#include "daemon/core/nodes.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/rebuilder.h"
#include "daemon/core/run_cache.h"
#include "daemon/peers/member.h"
#include "proto/catalogue.pb.h"
#include "proto/peer.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"

namespace cairn {

class OtherCaches {
 public:
  struct Given {  // all borrowed
    const std::string& run_name;
    Ledger& ledger;
    PrefixGate& gate;
    Nodes& nodes;
    NodeRecord& record;
    DatasetFolders& folders;
    RunCache& cache;
    DatasetIds& ids;
    Inventory& inventory;
    Away& away;
    Rebuilder& rebuilder;
  };
  // `on_change`: of the run.
  OtherCaches(const Context& context, const Given& given, std::function<void()> on_change);
  OtherCaches(const OtherCaches&) = delete;

  struct MadeAnew {
    Rank rank = 0;
    std::uint64_t bytes = 0;
    kept::Set set;                   // of which it was made
    std::vector<std::string> hosts;  // where the others of the set are
  };
  struct Brought {
    LaunchId launch = 0;         // for whose sake they were asked
    std::set<NodeId> heard;      // have told what they hold, and nothing there was still becoming whole
    std::map<NodeId, std::string> unheard = {};  // the others who are known, also if they are missing; by their names
    std::set<DatasetId> missed;  // that a launch would have chosen, and that could not be brought
    std::string lacks = {};      // which parts nobody who was heard has of the newest of these; empty: of none
    bool all_answered = true;    // who is known, and not missing
    bool others_known = true;    // Nodes::WhenAllKnown; else there may be more than those
    std::vector<MadeAnew> made;  // that no node had any more
    absl::Status why_not;        // why the last one that could not be brought was not

    std::vector<std::string> NamesOfUnheard() const;  // the first ones, and how many others
  };
  using Then = std::function<void(const Brought&)>;
  // Asks the others, waits for what is just becoming whole there, and brings the newest checkpoint that a launch after
  // `launch`, the newest one, would choose before all that is here: from whichever node gives it, else the next older
  // one. Parts that no node has any more are only looked at, whether they can be made anew: that is done on the nodes
  // on which their ranks come (LaunchBegan). One at a time, for all who had asked before the others were. `then` does
  // not come inside the call. It may take as long as the bytes need; each step ends.
  struct Before {
    LaunchId launch = 0;
    NodeId maker;          // a node that is waited for if it is not known yet; empty: none
    bool offline = false;  // the prefix does not answer: only what is in this cache in parts, and counts, is seen to
  };
  void Bring(const Before& before, Then then);
  // A launch that a daemon before this one has made goes on here: what other nodes' caches have in parts, together with
  // this one, is looked for again, since only they know of it. Once for a launch; for three to ten seconds, until all
  // ranks have come again, every node that is known has answered, and nothing that would be chosen lacks parts. That
  // time begins when this daemon knows the others (Nodes::WhenAllKnown); what is brought for somebody else meanwhile
  // does not prolong it, unless a launch is to restart from that. If it ends before all were heard, a warning says so.
  // REQUIRES: the prefix is in reach.
  void LookForParts(LaunchId launch);
  // The same, once more: parts of what the launch restores were found to be damaged or lost.
  void LookAgain(LaunchId launch) {
    looked_for_ = 0;
    LookForParts(launch);
  }
  // A launch has begun here: parts that Bring has left to be made anew are, each on its rank's node as soon as all
  // ranks of such parts have come, and five seconds later here. Besides, as LookForRest.
  void LaunchBegan(LaunchId launch);
  // A launch has begun here: outputs that other nodes' caches have in parts, together with this one, and that are not
  // on the prefix, are looked for once, unless a daemon sees to them. From then on this one brings them there. Or parts
  // were lost with a node's cache: what the others keep is looked for, to make them anew.
  void LookForRest(LaunchId launch);
  // Of this dataset what no node has any more is made anew now, in this cache, if the others keep enough. `then` does
  // not come inside the call. REQUIRES: the prefix is in reach.
  void MakeAnew(DatasetId id, Then then);
  // The same, as if that node were not there.
  void MakeAnewWithout(const NodeId& node, DatasetId id, Then then);
  // Meanwhile what is not here, or not all here, may still be found.
  bool looking() const { return looking_ != 0; }
  bool at_work() const { return !wishes_.empty() || looking(); }
  // Ends it at the next block.
  void Stop();

 private:
  struct Wish {
    LaunchId launch = 0;
    NodeId from;
    bool parts_only = false;  // what another cache has whole was brought when the launch began
    bool look = false;        // of a launch for which parts are looked for; it has begun
    DatasetId only = 0;       // no other one; whether a launch would choose it or not. 0: whichever is wanted
    NodeId without = {};      // of `only`: this node does not count
    bool offline = false;     // Before::offline
    Then then;
  };
  struct Making;
  using MakingPtr = std::shared_ptr<Making>;
  struct Job {
    LaunchId launch = 0;     // the newest one when it was wished for
    std::size_t wishes = 0;  // the first ones, which were there when the others were asked
    bool parts_only = false;
    bool look = false;
    DatasetId only = 0;
    NodeId without;
    bool offline = false;
    bool others_known = true;
    SteadyTime settled_by;
    Nodes::Holdings holdings;
    std::set<std::tuple<DatasetId, Rank, NodeId>> untrue;  // what these say of them
    std::vector<Candidate> candidates;                     // the best one is the last
    int missed = 0;                                        // so many candidates
    Brought brought;
  };
  using JobPtr = std::shared_ptr<Job>;

  void Add(Wish wish);
  void LookFor(LaunchId launch, std::chrono::milliseconds at_least);
  void Begin();
  void Look();
  void Looked(const Brought& brought);
  void EndLookAt(std::chrono::milliseconds after);
  void EndLook();
  void TellIfNotAllHeard() const;
  bool MoreMayCome() const;
  bool LacksParts() const;
  void Ask(const JobPtr& job);
  void Answered(const JobPtr& job, const Nodes::Holdings& holdings);
  void HearOfRejections(const std::set<DatasetId>& rejected);
  void NoteLostParts(const Nodes::Holdings& holdings, DatasetId only);
  std::vector<Candidate> CandidatesOf(const Job& job, const std::set<DatasetId>& rejected) const;
  InPartsOptions OptionsOf(const Job& job) const;
  bool IsWanted(const Dataset& dataset, bool look) const;
  bool IsLeft(const Dataset& dataset) const;
  bool MayMatter(const Dataset& dataset) const;
  bool IsWanted(const Job& job, const Candidate& candidate) const;
  absl::Status CheckMayCome(const Candidate& from) const;
  void Next(const JobPtr& job);
  void End(const JobPtr& job);
  void Check(const JobPtr& job, const Candidate& from);
  void Take(const JobPtr& job, const Candidate& from);
  void Lacks(const JobPtr& job, const Candidate& from);
  bool IsOffline(const Job& job) const;
  void Describe(const JobPtr& job, const Candidate& from);
  void DescribeParts(const JobPtr& job, const Candidate& from);
  void DescribeWithout(const JobPtr& job, const Candidate& from, const std::map<Rank, absl::Status>& untrue);
  void PartsDescribed(const JobPtr& job, const Candidate& from, std::vector<catalogue::Catalogue> ranks);
  void DescribeLostParts(const JobPtr& job, const Candidate& from, const DatasetPtr& dataset);
  bool HasBegun(const Job& job) const;
  void Later(const JobPtr& job, const Candidate& from);
  std::optional<NodeId> PlaceOf(Rank rank) const;
  bool IsInCache(const DatasetPtr& dataset) const;
  bool AwaitsRanks(const Job& job, const Candidate& from) const;
  void MakeLost(const JobPtr& job, const Candidate& from, const DatasetPtr& dataset,
                const std::vector<catalogue::Catalogue>& ranks);
  void MakeAt(const MakingPtr& making, const NodeId& node, const std::vector<Rank>& ranks);
  peer::Rebuild OrderOf(const Making& making, const std::vector<Rank>& ranks) const;
  void MadeAt(const MakingPtr& making, const NodeId& node, const std::vector<Rank>& ranks,
              const absl::StatusOr<std::map<Rank, kept::Set>>& by);
  void AllMade(const MakingPtr& making);
  MadeAnew TellMade(const Candidate& from, const catalogue::Catalogue& rank, const kept::Set& set) const;
  void PartsComplete(const JobPtr& job, const Candidate& from, const DatasetPtr& dataset);
  absl::Status Reserve(const Candidate& from, std::vector<catalogue::Catalogue> ranks, DatasetPtr* coming);
  void Fetch(const JobPtr& job, const Candidate& from, const DatasetPtr& dataset);
  void Came(const JobPtr& job, const Candidate& from, const DatasetPtr& dataset, const FetchResult& fetched);
  void Unwanted(const JobPtr& job, DatasetId id);
  void Failed(const JobPtr& job, const Candidate& from, const absl::Status& why);
  void Missed(const JobPtr& job, const Candidate& from, const absl::Status& why);
  std::string TextOf(const Candidate& from) const;

  const Context& context_;
  const Given given_;
  const std::function<void()> on_change_;
  std::vector<Wish> wishes_;   // none: nothing is under way
  LaunchId looked_for_ = 0;    // the last launch for which parts were looked for
  Loop::TimerId looking_ = 0;  // until that ends, come what may; 0: it has ended
  SteadyTime looks_until_;     // at least
  SteadyTime ranks_until_;     // those are waited for whose parts are lost
  bool later_ = false;         // parts are to be made anew when the next launch has begun
  bool postponed_ = false;     // to the launch that is looked for: what other caches have whole counts again
  bool at_work_ = false;       // what a look has found, or a launch's pin names, is being brought or made
  bool awaits_members_ = false;  // the others are not asked yet: it is waited until they are known
  bool look_asks_ = false;       // a look has begun, and nobody was asked yet since: its time begins then
  std::chrono::milliseconds pause_{0};
  std::optional<Brought> looked_;  // what the look's last question has come to; none: nobody was asked yet
  std::set<DatasetId> bad_;  // found by it, and of no use
  TransferProgress progress_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_OTHER_CACHES_H_

// Container lists: each rank's next checkpoint goes on with the containers of its last one; and the plan that each
// rank's connection was told last. README.md, "Container lists". Strand only.
#ifndef CAIRN_DAEMON_CORE_CONTAINER_LISTS_H_
#define CAIRN_DAEMON_CORE_CONTAINER_LISTS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/core/container_list.h"
#include "daemon/core/context.h"
#include "daemon/core/ledger.h"
#include "daemon/core/session.h"
#include "daemon/data/plan.h"
#include "storage/base/checksum.h"
#include "storage/base/ids.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {

using ListPtr = std::shared_ptr<ContainerList>;
using PlanPtr = std::shared_ptr<const std::vector<PlanPiece>>;

class ContainerLists {
 public:
  ContainerLists(const Context& context, std::shared_ptr<CacheFolder> cache, const Ledger& ledger)
      : context_(context), cache_(std::move(cache)), ledger_(ledger) {}
  ~ContainerLists();
  ContainerLists(const ContainerLists&) = delete;

  // `then` runs once it is known what the rank's last list is: at once, or after its newest checkpoint in the cache has
  // been read, when this daemon has not seen it being made. A list that cannot be read is none.
  void WhenKnown(const SessionPtr& session, std::function<void()> then);
  // The list of the rank's last checkpoint, or of what it has restored; null: none.
  ListPtr LastOf(const Session& session) const;
  // The list of its next checkpoint: it goes on with the last one. If it makes another plan, the one that was told
  // counts no more, also if nothing comes of this checkpoint. Errors as NextList.
  absl::StatusOr<ListPtr> Next(const Session& session, std::vector<ftiff::VariableSize> sizes, ftiff::Letter letter);

  // The plan of its last Next for an image of so many bytes; `told`: this connection has it already. Errors as
  // MakePlan.
  struct Planned {
    PlanPtr plan;
    bool told = false;
  };
  absl::StatusOr<Planned> PlanFor(const Session& session, const ListPtr& list, std::uint64_t image_bytes);
  // A stream broke under the answer: the next one is told again, and has it then.
  void TellAgain(const Session& session, const ListPtr& list, const PlanPtr& plan, std::uint64_t image_bytes);
  // Another connection knows no plan; an ended session needs none.
  void ConnectionChanged(const Session& session) { told_.erase(session.id); }

  // The rank has handed over what has this list.
  void HandedOver(const Session& session, const ListPtr& list);
  void Restored(LaunchId launch, Rank rank, const ListPtr& list);  // null: it has none
  // What the containers of `list` have now, or, if this file never came to be, had before, in `last` (null: nothing);
  // that is known once `last` is settled. Whoever waits for `list` (ContainerList::waiting) goes on, not within this
  // call. Once only: a second time nothing happens.
  void Settle(const ListPtr& list, const ListPtr& last, std::optional<std::vector<Md5Digest>> hashes);

 private:
  struct RankList {
    LaunchId launch = 0;
    ListPtr list;
  };
  struct Told {
    PlanPtr plan;
    ListPtr list;
    std::uint64_t image_bytes = 0;
  };
  DatasetPtr ToRead(const Session& session) const;
  void Read(const SessionPtr& session, const Dataset& dataset, std::function<void()> then);

  const Context& context_;
  const std::shared_ptr<CacheFolder> cache_;
  const Ledger& ledger_;
  std::map<Rank, RankList> lists_;
  std::map<SessionId, Told> told_;
  std::vector<std::weak_ptr<ContainerList>> unsettled_;  // some are settled by now, or gone
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_CONTAINER_LISTS_H_

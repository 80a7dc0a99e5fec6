#include "daemon/core/provisional.h"

#include <algorithm>
#include <map>
#include <utility>

#include "storage/base/launch_mark.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

absl::StatusOr<LaunchRecord> MakeOne(Prefix& prefix, const Maker& maker, const ProvisionalLaunch& provisional,
                                     const std::map<LaunchId, LaunchRecord>& before) {
  auto there = prefix.FindLaunchByMark(LaunchMark(provisional.secret));
  if (!absl::IsNotFound(there.status())) return there;
  NewLaunch wanted{.key = provisional.key,
                   .nranks = provisional.nranks,
                   .run = {},
                   .maker = maker,
                   .secret = provisional.secret,
                   .predecessor = provisional.predecessor};
  if (const auto last = before.find(provisional.predecessor); last != before.end()) {
    wanted.predecessor = last->second.id;
    wanted.after_abandoned = last->second.abandoned;
  }
  return prefix.MakeLaunch(wanted);
}

}  // namespace

absl::StatusOr<std::vector<ConfirmedLaunch>> ConfirmProvisional(Prefix& prefix, CacheFolder& folder,
                                                                const Maker& maker) {
  const RunRecord record = folder.record();
  std::map<LaunchId, LaunchRecord> made;
  std::vector<ConfirmedLaunch> confirmed;
  for (const ProvisionalLaunch& provisional : record.provisional) {
    CAIRN_ASSIGN_OR_RETURN(made[provisional.id], MakeOne(prefix, maker, provisional, made));
    confirmed.push_back({.carried = provisional.id, .made = made[provisional.id]});
  }
  if (confirmed.empty()) return confirmed;
  CAIRN_RETURN_IF_ERROR(folder.ChangeRecord([&](RunRecord& noted) {
    std::erase_if(noted.provisional, [&](const ProvisionalLaunch& launch) { return made.contains(launch.id); });
    noted.served = confirmed.back().made.id;
  }));
  return confirmed;
}

}  // namespace cairn

// What protects a dataset over nodes, as a picture. Pure.
#ifndef CAIRN_CLIENT_CLI_REDUNDANCY_TEXT_H_
#define CAIRN_CLIENT_CLI_REDUNDANCY_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/json.h"
#include "proto/admin.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"

namespace cairn::cli {

// One redundancy set, as the nodes that answered tell of it.
struct SetState {
  kept::Set set;
  struct Member {
    Rank rank = 0;
    std::vector<std::string> nodes;  // in whose caches its files are
    bool keeps = false;              // and what it keeps for the others
  };
  std::vector<Member> members;  // by their place in the set
  std::uint32_t lost = 0;       // of them; they are made anew when a launch wants them, if the set bears it
  // So many more of its members may be lost, whichever these are: all files could still be made anew. -1: some cannot.
  int bears = 0;
};
std::vector<SetState> SetsOf(const admin::ShowReply& show);

// What `cairn rebuild` has done.
std::string DescribeRebuilt(DatasetId dataset, const admin::RebuildReply& reply);
Json RebuiltJson(const admin::RebuildReply& reply);  // a list, one of each rank

std::string DescribeRedundancy(const admin::ShowReply& show);
Json RedundancyJson(const admin::ShowReply& show);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_REDUNDANCY_TEXT_H_

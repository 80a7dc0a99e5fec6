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
  std::uint32_t lost = 0;       // of them; a launch rebuilds them if the set allows it
  // How many more members, any of them, may be lost so that all files can still be rebuilt. -1: some cannot be now.
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

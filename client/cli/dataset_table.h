// Datasets as people at a terminal see them: how far each has climbed, as a small picture; what is usual is left out.
#ifndef CAIRN_CLIENT_CLI_DATASET_TABLE_H_
#define CAIRN_CLIENT_CLI_DATASET_TABLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/look.h"
#include "proto/admin.pb.h"

namespace cairn::cli {

// The ladder of durability and the level's name: "▂▄·· local", in ASCII "[##..] local". A step each for captured,
// local, redundant and prefix; a level is at least all that are below it.
std::string LadderPicture(const Look& look, local::Level level);

struct DatasetTableOptions {
  std::int64_t now_us = 0;  // since the epoch: ages are counted from it
  bool nodes = false;       // a column for the nodes that were asked
  std::string_view indent = "";
};

// Ended lines with a head, in the order of `rows`; "" for none.
std::string DatasetTable(const Look& look, const std::vector<const admin::DatasetRow*>& rows,
                         const DatasetTableOptions& options);

// The newest few of `rows`, newest first, and a line for the rest: what `cairn status` shows of a run.
std::string NewestDatasets(const Look& look, std::vector<const admin::DatasetRow*> rows,
                           const DatasetTableOptions& options);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_DATASET_TABLE_H_

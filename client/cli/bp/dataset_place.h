// Where the BP5 metadata of a dataset is: in the prefix, in this node's cache, or to be made from its catalogues.
#ifndef CAIRN_CLIENT_CLI_BP_DATASET_PLACE_H_
#define CAIRN_CLIENT_CLI_BP_DATASET_PLACE_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "client/cli/bp/place.h"

namespace cairn::cli {

// As FindBpPlace, once run and dataset are known; `rest`: the arguments behind them.
absl::StatusOr<BpPlace> DatasetBpPlace(const Context& context, Disk& disk, const std::string& prefix, DatasetId id,
                                       std::vector<std::string> rest);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_DATASET_PLACE_H_

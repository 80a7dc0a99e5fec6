// What `ls` and `show` show: from the daemon, or from the prefix itself if no daemon is there or knows the run.
#ifndef CAIRN_CLIENT_CLI_DATASETS_H_
#define CAIRN_CLIENT_CLI_DATASETS_H_

#include <absl/status/statusor.h>

#include <string>

#include "client/cli/context.h"
#include "proto/admin.pb.h"
#include "storage/base/ids.h"

namespace cairn::cli {

template <typename Reply>
struct Answer {
  Reply reply;
  bool from_prefix = false;
};

// `run` empty: all runs of the daemon. `this_node`: it asks no others. kNotFound, kUnavailable: no daemon, and no
// prefix.
absl::StatusOr<Answer<admin::ListReply>> ListDatasets(const Context& context, const std::string& run, bool this_node);
absl::StatusOr<Answer<admin::ShowReply>> ShowDataset(const Context& context, const std::string& run, DatasetId id,
                                                     bool this_node);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_DATASETS_H_

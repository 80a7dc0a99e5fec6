// What a daemon says of itself and its runs, as text.
#ifndef CAIRN_CLIENT_CLI_STATUS_TEXT_H_
#define CAIRN_CLIENT_CLI_STATUS_TEXT_H_

#include <cstdint>
#include <string>

#include "client/cli/look.h"
#include "proto/admin.pb.h"

namespace cairn::cli {

struct StatusView {
  Look look;
  const admin::ListReply* datasets = nullptr;  // borrowed; the newest of each run are shown. Null: none are
  std::int64_t now_us = 0;                     // since the epoch: their ages are counted from it
};

// Ended lines. With a plain look these are for scripts, too: they stay as they are.
std::string DescribeStatus(const admin::StatusReply& status, const StatusView& view);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_STATUS_TEXT_H_

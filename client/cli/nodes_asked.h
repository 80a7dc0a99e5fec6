// Which nodes of a run were asked, what they have, and which of them did not answer, for people and as JSON.
#ifndef CAIRN_CLIENT_CLI_NODES_ASKED_H_
#define CAIRN_CLIENT_CLI_NODES_ASKED_H_

#include <string>

#include "client/cli/json.h"
#include "proto/admin.pb.h"

namespace cairn::cli {

using NodeNames = google::protobuf::RepeatedPtrField<std::string>;
using NodeAnswers = google::protobuf::RepeatedPtrField<admin::NodeAnswer>;

// "n1, n2", "n1, n2 and 5 more", "-".
std::string NamesText(const NodeNames& names);
// A line for each node that did not answer, ended; "": all did.
std::string DescribeSilent(const NodeAnswers& nodes);
// A table of what each holds, ended.
std::string DescribeTotals(const NodeAnswers& nodes);
// Name, node, here, missing and error of each.
Json AskedJson(const NodeAnswers& nodes);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_NODES_ASKED_H_

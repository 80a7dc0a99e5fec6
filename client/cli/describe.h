// Variables and catalogues for people.
#ifndef CAIRN_CLIENT_CLI_DESCRIBE_H_
#define CAIRN_CLIENT_CLI_DESCRIBE_H_

#include <string>

#include "proto/catalogue.pb.h"

namespace cairn::cli {

std::string DescribeVariable(const local::Variable& variable);  // one line, indented by four
std::string DescribeCatalogue(const catalogue::Catalogue& catalogue);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_DESCRIBE_H_

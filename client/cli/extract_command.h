// `cairn extract`: one variable out of a checkpoint file. Needs no daemon.
#ifndef CAIRN_CLIENT_CLI_EXTRACT_COMMAND_H_
#define CAIRN_CLIENT_CLI_EXTRACT_COMMAND_H_

#include <cstdint>
#include <string>

#include "client/cli/context.h"

namespace cairn::cli {

struct ExtractRequest {
  std::string file;
  std::int32_t variable = 0;
  std::string output;  // "-": standard output, unless that is a terminal
  bool force = false;
};

// The hashes of the variable's chunks are compared, in layouts A and B all chunks and the checksum of the file, too (in
// A it alone covers what the records say); damage is kDamaged, and no output is left. Nothing goes to standard
// output before all was found right.
ExitCode RunExtract(const Context& context, const ExtractRequest& request);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_EXTRACT_COMMAND_H_

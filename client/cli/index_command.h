// `cairn index`: what a prefix's index lists, and changes of it. Works on the files themselves: needs no daemon, except
// to find the prefix of a run that is given by name or identity.
#ifndef CAIRN_CLIENT_CLI_INDEX_COMMAND_H_
#define CAIRN_CLIENT_CLI_INDEX_COMMAND_H_

#include <cstdint>
#include <string>

#include "client/cli/context.h"
#include "storage/base/ids.h"

namespace cairn::cli {

// `all`: what are no checkpoints, too, and all that the index says of each. JSON has that always.
ExitCode RunIndexList(const Context& context, const std::string& run, bool all);

enum class IndexChange : std::uint8_t { kCurrent, kDrop, kDropAfter, kRemove, kAdd };
// `name`: a dataset's name in the index, or its number.
ExitCode RunIndexChange(const Context& context, IndexChange change, const std::string& run, const std::string& name);

ExitCode RunIndexBuild(const Context& context, const std::string& run, DatasetId dataset);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_INDEX_COMMAND_H_

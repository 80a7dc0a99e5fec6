// `cairn verify`: reads every byte and compares it with what was noted when it was written. Needs no daemon, except to
// find the prefix of a run that is given by name or identity.
#ifndef CAIRN_CLIENT_CLI_VERIFY_COMMAND_H_
#define CAIRN_CLIENT_CLI_VERIFY_COMMAND_H_

#include <string>
#include <vector>

#include "client/cli/context.h"
#include "storage/base/ids.h"

namespace cairn::cli {

// `targets`: files, folders of FTI, prefixes, or runs that the daemon knows. `dataset` not 0: only this one of each
// run. All targets are looked at, whatever is wrong with some: kDamaged if any is damaged, else the first error.
ExitCode RunVerify(const Context& context, const std::vector<std::string>& targets, DatasetId dataset);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_VERIFY_COMMAND_H_

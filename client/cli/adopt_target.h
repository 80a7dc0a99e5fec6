// The run that something is adopted into: found or made, and locked.
#ifndef CAIRN_CLIENT_CLI_ADOPT_TARGET_H_
#define CAIRN_CLIENT_CLI_ADOPT_TARGET_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "client/cli/context.h"
#include "storage/base/lock_file.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/prefix.h"

namespace cairn::cli {

// Absolute, without symbolic links. kNotFound: it is not there.
absl::StatusOr<std::string> ExistingPath(const std::string& given);
absl::StatusOr<std::vector<std::string>> ExistingPaths(const std::vector<std::string>& given);

struct AdoptTarget {
  std::unique_ptr<Prefix> prefix;
  LockFile lock;  // no other adopt is under way while this lives
};

// `run`: a directory, made if it is given with a slash; or a run that the daemon knows.
//   kNotFound            a name without a slash that no daemon knows: an empty directory of that name would help nobody
//   kFailedPrecondition  another adopt is under way
//   kUnavailable         the file system gives no lock: two adopts would take each other's files for leftovers
absl::StatusOr<AdoptTarget> OpenAdoptTarget(const Context& context, Disk& disk, const std::string& run);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_ADOPT_TARGET_H_

// .cairn/authority.<run>: the key and the certificate of a run's own certificate authority, made once by whoever needs
// it first (storage/io/create_once.h). By run: a copy of the prefix, which is a branch, never finds its parent's under
// its own name. What the two texts say is judged by daemon/trust. Calls block on disk. Stateless, hence thread-safe.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_AUTHORITY_RECORD_H_
#define CAIRN_STORAGE_PLACE_PREFIX_AUTHORITY_RECORD_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>

#include "storage/base/ids.h"
#include "storage/io/disk.h"

namespace cairn {

struct AuthorityRecord {
  std::string key;          // PEM
  std::string certificate;  // PEM
};

namespace authority_record {

std::string PathOf(const std::string& prefix, const RunId& run);

//   kNotFound            there is none yet
//   kPermissionDenied    it, or the folder, is another user's or open to others: whoever could read it could join
//   kFailedPrecondition  of a newer program
//   kDataLoss            damaged, or another run's
absl::StatusOr<AuthorityRecord> Read(Disk& disk, const std::string& prefix, const RunId& run);

// Durable with mode 0600, in a folder of mode 0700. kAlreadyExists: somebody else has made it, completely.
// kPermissionDenied: as Read. Others of CreateFileOnce.
absl::Status Make(Disk& disk, const std::string& prefix, const RunId& run, const AuthorityRecord& record);

}  // namespace authority_record
}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_AUTHORITY_RECORD_H_

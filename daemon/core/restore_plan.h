// From what a rank asks for and what was stored to the pieces that a restore moves.
#ifndef CAIRN_DAEMON_CORE_RESTORE_PLAN_H_
#define CAIRN_DAEMON_CORE_RESTORE_PLAN_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/core/ledger.h"
#include "daemon/core/variables.h"
#include "daemon/data/restore.h"
#include "storage/base/disk.h"
#include "storage/ftiff/codec.h"

namespace cairn {

// Where each requested variable comes from: the rank whose file holds it (a value: the lowest rank that stored it,
// unless its type is unknown).
struct Wanted {
  std::uint32_t variable = 0;  // index in the request
  std::int32_t id = 0;
  Rank rank = 0;
  std::uint64_t bytes = 0;
};

// Pure. Nothing is read but the catalogues. What was stored with type 0 (unknown: it was adopted from another system)
// is matched by id and bytes only and may be asked for as anything: as plain memory, as a value, or as an array whose
// box has as many bytes. It belongs to one rank each, also if asked for as a value: the number of ranks must be the
// same.
//   kNotFound            a variable was not stored (by this rank)
//   kFailedPrecondition  it was stored as something else (kind, name, type, count, shape, box), or by another number
//                        of ranks; the message names the variable
absl::StatusOr<std::vector<Wanted>> Match(const Dataset& dataset, Rank rank, std::uint32_t nranks,
                                          const VariableList& variables);

// A checkpoint file's metadata (FTI-FF), of whichever layout. Blocks. kDataLoss: damaged, or not of the size given.
absl::StatusOr<ftiff::FileMetadata> ReadMetadata(Disk& disk, const RestoreSource& source);

// Reads the sources' metadata and finds the pieces, in file order. `sources[i]` is the file of `ranks[i]`;
// `metadata_of`, if given, gets what each has. Blocks. An error of a source sets `bad`.
absl::StatusOr<std::vector<RestorePiece>> FindPieces(Disk& disk, const std::vector<RestoreSource>& sources,
                                                     const std::vector<Rank>& ranks, const std::vector<Wanted>& wanted,
                                                     std::size_t* bad,
                                                     std::vector<ftiff::FileMetadata>* metadata_of = nullptr);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_RESTORE_PLAN_H_

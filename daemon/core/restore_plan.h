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
#include "storage/base/box.h"
#include "storage/format/ftiff/codec.h"
#include "storage/io/disk.h"

namespace cairn {

// Where (a part of) a requested variable comes from: the rank whose file holds it. A value comes from the lowest rank
// that stored it, unless its type is unknown.
struct Wanted {
  std::uint32_t variable = 0;  // index in the request
  std::int32_t id = 0;
  Rank rank = 0;
  std::uint64_t bytes = 0;  // that the rank has stored of it
  std::vector<RowPattern> rows =
      {};  // of those, in bytes: from a (as stored) to b (the variable); none: all, as they are
};

// Plans are not longer than about so many pieces.
inline constexpr std::uint64_t kRestorePiecesMax = 1u << 20;

// Pure. Nothing is read but the catalogues.
//
// An array whose box this rank has stored, on as many ranks, comes from there. Any other box is put together from the
// boxes of all ranks; of elements that several have stored, the highest rank's count. Elements that none has stored are
// left out if Variable.holes allows it.
//
// What was stored with type 0 (unknown: it was adopted from another system) is matched by id and bytes only and may be
// asked for as anything: as plain memory, as a value, or as an array whose box has as many bytes. It belongs to one
// rank each, also if asked for as a value: the number of ranks must be the same.
//   kNotFound            a variable was not stored (plain: by this rank)
//   kFailedPrecondition  it was stored as something else (kind, name, type, count, shape), by another number of ranks,
//                        not wholly, or falls apart into too many rows; the message names the variable
absl::StatusOr<std::vector<Wanted>> Match(const Dataset& dataset, Rank rank, std::uint32_t nranks,
                                          const VariableList& variables);

// A selection of one array or value, whatever its id; the lowest if several have the name.
struct ReadMatch {
  local::Variable variable;  // as if it had been asked for in a Restore: the selection, packed
  std::vector<Wanted> wanted;
};
//   kNotFound            nothing of that name
//   kInvalidArgument     start and count do not lie within it
//   kFailedPrecondition  it is plain, of another type, not wholly stored, or falls apart into too many rows
absl::StatusOr<ReadMatch> MatchRead(const Dataset& dataset, const local::Read& read);

// A checkpoint file's metadata (FTI-FF), of whichever layout. Blocks. kDataLoss: damaged, or not of the size given.
absl::StatusOr<ftiff::FileMetadata> ReadMetadata(Disk& disk, const RestoreSource& source);

// Reads the sources' metadata and finds the pieces, in file order. `sources[i]` is the file of `ranks[i]`;
// `metadata_of`, if given, gets what each has. `disk`: of sources that name none. Blocks. An error of a source sets
// `bad`.
absl::StatusOr<std::vector<RestorePiece>> FindPieces(Disk& disk, const std::vector<RestoreSource>& sources,
                                                     const std::vector<Rank>& ranks, const std::vector<Wanted>& wanted,
                                                     std::size_t* bad,
                                                     std::vector<ftiff::FileMetadata>* metadata_of = nullptr);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_RESTORE_PLAN_H_

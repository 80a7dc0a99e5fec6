// Records that are made once: of any number of processes on any nodes that make the same one exactly one succeeds, and
// all who read it see that one's content, whole. Calls block on disk. Thread-safe.
//
// The bytes are always written, and synced, under a work name first. Which operation then makes the name is a property
// of the file system, found by trying and remembered per device:
//
//   kHardLink     link(2)
//   kRenameNew    where there are no hard links: renameat2(2) with RENAME_NOREPLACE
//   kChecksummed  where there is neither: O_EXCL makes the name as an empty file, the claim, and rename(2) puts the
//   work
//                 file in its place, whose bytes are in a frame with length and CRC32C (once_frame.h)
//
// None of them ever replaces a record, so processes that came to different ways exclude each other, too: a name is
// free, a claim, or a record, and only a free name becomes a claim or, by the first two ways, a record. A record is
// plain, and then came to its name complete, or is in a frame that fits.
//
// A claim's maker may be dead or only slow. So anybody who wants to make the record may turn the claim into it, by a
// rename of his own work file, after he has revoked all others: he lists the directory, removes every other work file
// of this record, and then looks again whether it is still a claim. A maker whose work file is gone cannot rename it,
// sees that he lost, and begins anew. Of two who both want to replace the claim, each had his work file before he
// listed; so at least one of them saw the other's and removed it before he renamed his own, or saw the record that the
// other had made. Hence a claim is replaced once. (To look whether the name is still one's own file after a rename
// would not do: who decided before that to replace it may come later.) A process that dies leaves its work file, and
// the claim is as unfinished as before. Nobody waits for anybody else for longer than some 60 ms, which let a maker
// finish that is alive; those who revoke each other try again after times that chance gives.
//
// What is a claim? To those who make a record: an empty file, and what a power failure leaves of a record that was not
// durable: zeros, or a frame that does not fit. To those who read by ReadWhole, or make a file that is not framed: an
// empty file beside which lies a work file of this record; makers remove their work files last. Without one it is what
// it always was, an empty file of somebody's.
//
// The file system must have: O_EXCL and rename that are atomic for all nodes, and listings and contents that show what
// was there before the call. One that caches them per node (NFS) is safe by the first way, in which nobody ever meets a
// claim; NFS has hard links.
#ifndef CAIRN_STORAGE_IO_CREATE_ONCE_H_
#define CAIRN_STORAGE_IO_CREATE_ONCE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "storage/io/disk.h"

namespace cairn {

enum class CreationWay { kHardLink, kRenameNew, kChecksummed };

struct CreateOnceOptions {
  std::uint32_t mode = 0600;
  // False: nothing is synced, neither file nor directory, and a power failure, also one of the servers, may take the
  // record back. It is in a frame then, whichever the way, so that a torn one reads as kNotFound (ReadOnce) and can be
  // made again.
  bool durable = true;
  // False: the bytes are for other programs, which know no frames. The three ways are the same but for that. A crash in
  // the third leaves an empty file with a work file beside it: ReadWhole answers kNotFound, another CreateFileOnce
  // finishes it, but the other program sees an empty file. Callers who ask whether the file is there must take an empty
  // one for none.
  bool framed = true;
  // For tests. No other way is tried: kFailedPrecondition, if the file system cannot.
  std::optional<CreationWay> way = {};
  // For tests. Called instead of sleeping, which takes about 1 ms in round 0, twice that in the next, up to 0.5 s.
  std::function<void(int round)> pause = {};
};

// Makes `path` with this content.
//   OK              it is ours, and durable
//   kAlreadyExists  somebody else has made it, completely; durable if it was to be
//   kUnavailable    others were in the way all the time; also as disk.h says
// After any other error it may have been made, and where there is neither link nor RENAME_NOREPLACE a claim may stay.
absl::Status CreateFileOnce(Disk& disk, const std::string& path, std::string_view bytes,
                            const CreateOnceOptions& options);
absl::Status CreateFileOnce(Disk& disk, const std::string& path, std::string_view bytes, std::uint32_t mode = 0600);

// The content of a record that was made so, and not with `framed = false`. kNotFound: nobody has made it yet. As
// ReadWhole, which all other readers of records use, but nothing that a power failure leaves of a record that was not
// durable is taken for its content: neither an empty file nor zeros.
absl::StatusOr<std::string> ReadOnce(Disk& disk, const std::string& path, std::uint64_t bytes_max);

// The way in this directory, which must be there, tried with empty work files. CreateFileOnce does not need it: it
// tries with the record itself, and remembers what failed.
absl::StatusOr<CreationWay> ProbeCreation(Disk& disk, const std::string& directory);

// "hard links", "renameat2", "checksummed files".
std::string_view NameOf(CreationWay way);

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_CREATE_ONCE_H_

// A checkpoint file of layout A, whose records stand in front of the data: made from a file of layout F.
#ifndef CAIRN_DAEMON_DATA_LAYOUT_A_H_
#define CAIRN_DAEMON_DATA_LAYOUT_A_H_

#include <absl/status/statusor.h>

#include <functional>
#include <string>

#include "daemon/data/capture.h"
#include "storage/format/ftiff/write.h"
#include "storage/io/disk.h"

namespace cairn {

// At `path` lie the data of `file`, at the offsets of its layout. Puts the file itself in its place, synced: another
// work name, then a rename. Blocks on disk. Of the result: the file's bytes and checksums. After an error what was at
// `path` is still there, and nothing else. `stop` is asked on the way: true ends it with kCancelled.
//   kDataLoss  the data are not what the hashes say
absl::StatusOr<CaptureResult> WriteLayoutA(Disk& disk, const std::string& path, const ftiff::FileToWrite& file,
                                           const std::function<bool()>& stop);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_LAYOUT_A_H_

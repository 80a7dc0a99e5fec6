// The last byte of a file of layout A or B that was rebuilt in a group whose files have an odd length: the code files
// hold half of its code words only. Release 1.1 of FTI leaves such a file with a wrong byte; the hash of the chunk that
// it ends with tells the right one. Used by storage/file/fti/ only. Source: FTI-FF specification, section 7.3.
#ifndef CAIRN_STORAGE_FILE_FTI_LAST_BYTE_H_
#define CAIRN_STORAGE_FILE_FTI_LAST_BYTE_H_

#include <absl/status/status.h>

#include "storage/io/disk.h"

namespace cairn::fti {

// `file` is open for writing and right but for its last byte. What no value of that byte makes right stays as it is:
// whoever verifies the file will see it. Errors of the disk pass through; so does kDataLoss of its metadata.
absl::Status MendLastByte(File& file);

}  // namespace cairn::fti

#endif  // CAIRN_STORAGE_FILE_FTI_LAST_BYTE_H_

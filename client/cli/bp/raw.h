// What `cairn vars --raw` shows: the index, the formats and the records of a BP5 directory, field by field, with the
// offsets where they lie. As far as a damaged directory can be read: of the index and the formats all is shown that can
// be walked over, whatever Metadata says of it.
#ifndef CAIRN_CLIENT_CLI_BP_RAW_H_
#define CAIRN_CLIENT_CLI_BP_RAW_H_

#include <absl/status/status.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "client/cli/bp/text_out.h"
#include "storage/file/bpdir/file_source.h"
#include "storage/format/bp5/metadata.h"

namespace cairn::cli {

// md.idx: header and records. kDataLoss: where it cannot be followed any more, after what stands before.
absl::Status WriteRawIndex(bpdir::FileSource& files, TextOut& out);
// mmd.0: every entry, with its structures and fields.
absl::Status WriteRawFormats(bpdir::FileSource& files, TextOut& out);
// md.0: the records of all writers in all steps, and the attributes'.
void WriteRawRecords(const bp5::Metadata& metadata, TextOut& out);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_RAW_H_

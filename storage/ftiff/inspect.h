// A checkpoint file's metadata for people (a listing) and for programs (JSON). The field names are those of the FTI-FF
// specification, section 2. Pure.
#ifndef CAIRN_STORAGE_FTIFF_INSPECT_H_
#define CAIRN_STORAGE_FTIFF_INSPECT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "storage/ftiff/codec.h"

namespace cairn::ftiff {

// The file's fields, then each block with one line a chunk, with line ends. REQUIRES: `metadata` was decoded, or has a
// hash for each container and blocks that sum to the containers.
std::string DescribeText(const FileMetadata& metadata, std::string_view name);

// {"name", "layout", "file": {…}, "blocks": [{"numvars", "dbsize", "chunks": [{…}]}]}; hashes in hexadecimal. A name
// that is not UTF-8 is shown with replacement characters when dumped so.
nlohmann::json DescribeJson(const FileMetadata& metadata, std::string_view name);

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FTIFF_INSPECT_H_

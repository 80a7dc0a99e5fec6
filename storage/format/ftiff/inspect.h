// What a checkpoint file or a level 3 code file says of itself: for people (a listing) and for programs (JSON). The
// field names are those of the FTI-FF specification, section 2. Pure.
#ifndef CAIRN_STORAGE_FORMAT_FTIFF_INSPECT_H_
#define CAIRN_STORAGE_FORMAT_FTIFF_INSPECT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "storage/format/ftiff/codec.h"

namespace cairn::ftiff {

// Which releases of FTI write this layout.
std::string_view ReleasesOf(Letter letter);

// What the file is, the file record's fields, the variables, then each block with one line a chunk; with line ends.
// `name` is printed as it is. REQUIRES: `metadata` was decoded, or has a hash for each container and blocks that sum to
// the containers.
std::string DescribeText(const FileMetadata& metadata, std::string_view name);
std::string DescribeText(const EncodedFile& encoded, std::string_view name);

// {"name", "layout", "releases", "record_offset", "file": {…}, "variables": [{"id", "bytes", "containers"}],
//  "blocks": [{"numvars", "dbsize", "meta_offset", "chunks": [{…}]}]}: only fields that the layout has; hashes in
// hexadecimal. Of a code file without variables and blocks. A name that is not UTF-8 is shown with replacement
// characters when dumped so.
nlohmann::json DescribeJson(const FileMetadata& metadata, std::string_view name);
nlohmann::json DescribeJson(const EncodedFile& encoded, std::string_view name);

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FORMAT_FTIFF_INSPECT_H_

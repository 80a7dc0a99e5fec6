// Whether a put can be written: BP5 specification, sections 7 and 14.
#ifndef CAIRN_STORAGE_FORMAT_BP5_PUT_CHECK_H_
#define CAIRN_STORAGE_FORMAT_BP5_PUT_CHECK_H_

#include <absl/status/status.h>

#include <cstdint>

#include "storage/format/bp5/encode.h"

namespace cairn::bp5 {

// kInvalidArgument, naming the variable: name, type, kind, value, shape and blocks do not fit each other, or a block
// does not fit into `data_block_bytes`.
absl::Status CheckPut(const Put& put, std::uint64_t data_block_bytes);

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_PUT_CHECK_H_

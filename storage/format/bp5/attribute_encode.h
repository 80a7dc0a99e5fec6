// Attribute records in the layout of today: BP5 specification, section 8.
#ifndef CAIRN_STORAGE_FORMAT_BP5_ATTRIBUTE_ENCODE_H_
#define CAIRN_STORAGE_FORMAT_BP5_ATTRIBUTE_ENCODE_H_

#include <absl/status/statusor.h>

#include <memory>
#include <span>
#include <string>

#include "storage/format/bp5/format.h"
#include "storage/format/bp5/metadata.h"

namespace cairn::bp5 {

// The format of all such records: always the same object.
std::shared_ptr<const FormatBlock> AttributesFormat();

// The slot. kInvalidArgument, naming the attribute: twice, no name or a NUL in it, values that do not fit the type.
absl::StatusOr<std::string> EncodeAttributes(std::span<const Attribute> attributes);

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_ATTRIBUTE_ENCODE_H_

// What ranks say of their variables: is it sound, and do all ranks mean the same?
#ifndef CAIRN_DAEMON_CORE_VARIABLES_H_
#define CAIRN_DAEMON_CORE_VARIABLES_H_

#include <absl/status/status.h>

#include <cstdint>
#include <map>
#include <string>

#include "proto/local.pb.h"
#include "storage/base/ids.h"

namespace cairn {

// Bytes of one element of a type code (BP5 specification, section 7); 0: no such type, or no fixed size.
std::uint32_t ElementBytes(std::uint32_t type);

using VariableList = google::protobuf::RepeatedPtrField<local::Variable>;

// kInvalidArgument naming variable and field: ids twice or negative, unknown type, bytes that do not fit the count,
// names missing or too long, boxes that leave the shape, sums that overflow.
absl::Status ValidateVariables(const VariableList& variables);

// Collects what values and arrays are called and how they are shaped, over the ranks of one dataset.
class Agreement {
 public:
  // kFailedPrecondition naming the variable and both ranks if this rank means something else under the same id (name,
  // kind, type, value's count, array's shape).
  absl::Status Join(Rank rank, const VariableList& variables);

 private:
  struct First {
    Rank rank;
    local::Variable variable;
  };
  std::map<std::int32_t, First> first_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_VARIABLES_H_

// The values of a variable as text and as JSON, slab by slab.
#ifndef CAIRN_CLIENT_CLI_BP_DUMP_OUTPUT_H_
#define CAIRN_CLIENT_CLI_BP_DUMP_OUTPUT_H_

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "client/cli/bp/dump_plan.h"
#include "client/cli/bp/text_out.h"
#include "storage/format/bp5/metadata.h"

namespace cairn::cli {

struct DumpTarget {
  std::string title;
  const bp5::Metadata& metadata;
  bp5::ByteSource& source;
  bp5::VariableNumber number;
  std::vector<std::uint32_t> steps;  // absolute; in all of them the variable was written
  const DumpSelection& selection;

  const bp5::Variable& variable() const { return metadata.variables()[number]; }
};

// A title for each step or block, then its values, each with enough digits to be read back as the same number. What
// lies in no block is 0, and said to be so.
absl::Status DumpAsText(const DumpTarget& target, TextOut& out);
absl::Status DumpAsJson(const DumpTarget& target, TextOut& out);

// The writers' values of a local value in one step, or those of them that are wanted. By writer; empty: it has none.
// `append` is ScalarText or ScalarJson.
using ScalarAs = absl::StatusOr<std::string> (*)(const bp5::Metadata&, bp5::VariableNumber, std::uint32_t step,
                                                 std::uint32_t writer);
absl::StatusOr<std::vector<std::string>> LocalValues(const DumpTarget& target, std::uint32_t step, const Box& box,
                                                     ScalarAs as);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_DUMP_OUTPUT_H_

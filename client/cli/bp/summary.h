// A variable in one line: what holds over all its steps.
#ifndef CAIRN_CLIENT_CLI_BP_SUMMARY_H_
#define CAIRN_CLIENT_CLI_BP_SUMMARY_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "storage/format/bp5/metadata.h"

namespace cairn::cli {

struct Summary {
  bp5::VariableNumber number = 0;
  std::string steps_and_shape;  // as bpls: "3*{4, __}", "2*[3]*{5}", "scalar"; __ and [__]: differs
  std::string bounds;           // "1 / 7"; the value itself of a scalar in one step; empty: not known
  absl::Status status;          // damaged: the other two are "?" and empty
};

Summary Summarize(const bp5::Metadata& metadata, bp5::VariableNumber number);

// A scalar's value as one writer stored it: exact text, or JSON.
absl::StatusOr<std::string> ScalarText(const bp5::Metadata& metadata, bp5::VariableNumber number, std::uint32_t step,
                                       std::uint32_t writer);
absl::StatusOr<std::string> ScalarJson(const bp5::Metadata& metadata, bp5::VariableNumber number, std::uint32_t step,
                                       std::uint32_t writer);

// "1 / 7" of the variable's type; empty: none.
std::string BoundsText(bp5::Type type, const std::optional<bp5::MinMax>& bounds);

// Attribute values as bpls shows them: `5`, `"text"`, `{1, 2}`.
std::string AttributeText(const bp5::Attribute& attribute);

// The variables to show, by name. `patterns`: names, or globs (`*`, `?`, `[…]`); none: all.
//   kNotFound  a pattern matches nothing: the message has the names that there are
absl::StatusOr<std::vector<bp5::VariableNumber>> ChooseVariables(const bp5::Metadata& metadata,
                                                                 const std::vector<std::string>& patterns);
// One variable by its name. kNotFound as above.
absl::StatusOr<bp5::VariableNumber> FindNamed(const bp5::Metadata& metadata, const std::string& name);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_SUMMARY_H_

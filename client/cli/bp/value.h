// Elements of BP5 variables as text: short for people, exact for programs. Elements lie anywhere, aligned or not.
#ifndef CAIRN_CLIENT_CLI_BP_VALUE_H_
#define CAIRN_CLIENT_CLI_BP_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "storage/format/bp5/types.h"

namespace cairn::cli {

// One element, of a type that has a size of its own (no string, no struct).
// Six digits, as bpls shows them: "103.062", "(1.5,-2i)".
void AppendShort(std::string& out, bp5::Type type, const std::byte* at);
// As many digits as it takes to read the same number back: "103.0625".
void AppendExact(std::string& out, bp5::Type type, const std::byte* at);
// The same in JSON: a number with all digits, 64-bit integers too; "nan", "inf", "-inf"; [real, imaginary].
void AppendJson(std::string& out, bp5::Type type, const std::byte* at);

// Text from a file in double quotes; quotes, backslashes and control characters escaped as in C.
std::string Quoted(std::string_view text);
// A JSON string; what is not UTF-8 is shown with replacement characters.
std::string JsonString(std::string_view text);
std::string HexOf(std::span<const std::byte> bytes);

// "{4, 3}".
std::string Braces(std::span<const std::uint64_t> numbers);
// How many decimal digits it has.
std::size_t DigitsOf(std::uint64_t number);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_VALUE_H_

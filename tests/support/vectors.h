// Where other systems' files lie that Cairn's formats are checked against: $CAIRN_SHARED/vectors/<sub>.
//
// A test that uses them asks here first. Not having them must never pass silently where they are promised:
//   CAIRN_SHARED set, but there is no such folder   the test fails
//   CAIRN_SHARED unset, CI=true                     the test fails
//   CAIRN_SHARED unset otherwise                    nullopt: the test keeps to examples of its own
#ifndef CAIRN_TESTS_SUPPORT_VECTORS_H_
#define CAIRN_TESTS_SUPPORT_VECTORS_H_

#include <optional>
#include <string>
#include <string_view>

namespace cairn::testing {

// The folder of one format ("scr", "ftiff", "bp5") or of a scenario in it ("scr/xor_np4"), without a slash at the end.
// After a failure was recorded the answer is nullopt, too: the caller just returns.
std::optional<std::string> VectorsPath(std::string_view sub);

// The whole file; a missing one fails the test and reads as empty.
std::string ReadVector(const std::string& path);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_VECTORS_H_

// A checkpoint file of layout A as FTI 1.1 reads it: by the running number of a variable, its idx, never by its id.
// Written from the specification alone (2.2, 2.3, section 9): nothing of the codec that is tested is used.
#ifndef CAIRN_TESTS_STORAGE_FORMAT_FTIFF_BY_INDEX_H_
#define CAIRN_TESTS_STORAGE_FORMAT_FTIFF_BY_INDEX_H_

#include <string>
#include <string_view>
#include <vector>

namespace cairn::ftiff::testing {

// What the first, second, … variable gets that an application protects, whatever its id. Expects that no number is left
// out; the file is sound otherwise.
std::vector<std::string> ContentsByIndex(std::string_view file);

}  // namespace cairn::ftiff::testing

#endif  // CAIRN_TESTS_STORAGE_FORMAT_FTIFF_BY_INDEX_H_

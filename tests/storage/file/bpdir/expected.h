// Elements as the test vectors' JSON has them: numbers, complex ones as pairs, "nan", "inf", "-inf", structs as hex.
#ifndef CAIRN_TESTS_STORAGE_FILE_BPDIR_EXPECTED_H_
#define CAIRN_TESTS_STORAGE_FILE_BPDIR_EXPECTED_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "storage/base/box.h"
#include "storage/format/bp5/types.h"

namespace cairn::testing {

// What is not as expected in raw elements of this type; empty: nothing. `values`: a flat list.
std::string Differences(const nlohmann::json& values, bp5::Type type, std::span<const std::byte> elements);

Extents ExtentsOf(const nlohmann::json& numbers);
std::string FromHex(const std::string& hex);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_FILE_BPDIR_EXPECTED_H_

// What the test vectors' JSON says of a directory's metadata, compared with what was read.
#ifndef CAIRN_TESTS_STORAGE_FORMAT_BP5_EXPECTED_METADATA_H_
#define CAIRN_TESTS_STORAGE_FORMAT_BP5_EXPECTED_METADATA_H_

#include <nlohmann/json.hpp>

#include "storage/format/bp5/metadata.h"

namespace cairn::bp5::testing {

// Fails the test with each difference.
void ExpectMetadata(const nlohmann::json& expected, const Metadata& metadata);

}  // namespace cairn::bp5::testing

#endif  // CAIRN_TESTS_STORAGE_FORMAT_BP5_EXPECTED_METADATA_H_

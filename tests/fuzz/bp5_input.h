// What an input of bp5_fuzz is: how it is used, lengths, then md.idx, mmd.0 and md.0 one after the other.
#ifndef CAIRN_TESTS_FUZZ_BP5_INPUT_H_
#define CAIRN_TESTS_FUZZ_BP5_INPUT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tests/storage/format/bp5/bp_files.h"

namespace cairn::bp5 {

struct Input {
  bool ids_made_right = false;  // so that changed formats are not turned away at once
  bool in_two_tails = false;
  testing::BpFiles files;
};

// nullopt: too short to be one.
std::optional<Input> InputOf(std::span<const std::uint8_t> bytes);
// REQUIRES: index and formats are shorter than 64 KiB.
std::string BytesOf(const Input& input);

}  // namespace cairn::bp5

#endif  // CAIRN_TESTS_FUZZ_BP5_INPUT_H_

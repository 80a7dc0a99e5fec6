// Blocks as ADIOS2's operators store them, made with the same libraries.
#ifndef CAIRN_TESTS_STORAGE_FORMAT_BP5_OPERATOR_BLOCKS_H_
#define CAIRN_TESTS_STORAGE_FORMAT_BP5_OPERATOR_BLOCKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "storage/format/bp5/types.h"

namespace cairn::bp5::testing {

std::string Bzip2Block(const std::string& elements);

struct BloscOptions {
  std::string compressor = "lz4";
  std::size_t element_bytes = 8;
  std::size_t chunk_bytes = 1 << 30;
  bool older = false;  // one chunk, without a head
};
std::string BloscBlock(const std::string& elements, const BloscOptions& options = {});
// Elements that did not get smaller.
std::string RawBloscBlock(const std::string& elements);

using Parameters = std::map<std::string, std::string>;
// `merged_to`: dimensions that ADIOS2 leaves.
std::string ZfpBlock(const std::string& elements, Type type, const std::vector<std::uint64_t>& extents,
                     const Parameters& parameters = {}, std::size_t merged_to = 4);

// Smooth values, of which all operators make less.
std::string Doubles(std::size_t count);
std::string Floats(std::size_t count);

}  // namespace cairn::bp5::testing

#endif  // CAIRN_TESTS_STORAGE_FORMAT_BP5_OPERATOR_BLOCKS_H_

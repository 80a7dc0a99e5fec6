// The files of an SCR 3.1 job that the vectors hold, with what is known of each.
#ifndef CAIRN_TESTS_STORAGE_FORMAT_SCR_SCR_VECTORS_H_
#define CAIRN_TESTS_STORAGE_FORMAT_SCR_SCR_VECTORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::testing {

struct ScrVector {
  std::string scenario;
  std::string path;   // below the folder of the vectors, as in failures
  std::string role;   // "prefix index file", …
  std::string bytes;  // the whole file
  // Of a kvtree file:
  std::optional<std::string> print;  // as SCR's own tool prints it
  std::uint64_t declared_bytes = 0;
};

// Files whose role begins with `role` (empty: all), of one scenario or of all (empty), in the order of the lists.
// Empty where there are no vectors; where there should be, an empty answer has failed the test.
std::vector<ScrVector> ScrVectors(std::string_view role, std::string_view scenario = "");

// A malformed or odd kvtree file and what a careful reader answers to it.
struct MalformedTree {
  std::string path;
  std::string bytes;
  std::string recommended;  // begins with "accept", "either" or "reject"
  std::string print;        // if the original reader takes it
};
std::vector<MalformedTree> MalformedTrees();

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_FORMAT_SCR_SCR_VECTORS_H_

// The BP5 directories that others wrote, and what a right reader says of each.
#ifndef CAIRN_TESTS_CLIENT_CLI_BP_BP_VECTORS_H_
#define CAIRN_TESTS_CLIENT_CLI_BP_BP_VECTORS_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/bp/text_out.h"

namespace cairn::testing {

struct BpVector {
  std::string name;  // "tiny_w1"
  std::string directory;
  nlohmann::json facts;
  std::string bpls;  // what the reference tool prints with -la, then with -lD
};
// None if there are none here (tests/support/vectors.h).
std::vector<BpVector> BpVectors();
// One of them. REQUIRES: BpVectors has it.
BpVector FindBpVector(const std::vector<BpVector>& vectors, std::string_view name);

// The same value: numbers as the type has them, "nan" and the like, pairs, lists of all these.
bool SameValue(std::string_view type, const nlohmann::json& a, const nlohmann::json& b);

// What `write` writes.
std::string Written(const std::function<void(cli::TextOut&)>& write);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_CLIENT_CLI_BP_BP_VECTORS_H_

#include "tests/support/vectors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace cairn::testing {

std::optional<std::string> VectorsPath(std::string_view sub) {
  const char* shared = std::getenv("CAIRN_SHARED");
  if (shared == nullptr) {
    const char* ci = std::getenv("CI");
    if (ci != nullptr && std::string_view(ci) == "true") ADD_FAILURE() << "CI=true, but CAIRN_SHARED is not set";
    return std::nullopt;
  }
  const std::string path = std::string(shared) + "/vectors/" + std::string(sub);
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    ADD_FAILURE() << "CAIRN_SHARED is set, but there is no folder " << path;
    return std::nullopt;
  }
  return path;
}

std::string ReadVector(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    ADD_FAILURE() << "cannot read " << path;
    return {};
  }
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace cairn::testing

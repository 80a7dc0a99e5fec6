#include "tests/client/cli/bp/bp_vectors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/support/vectors.h"

namespace cairn::testing {

using nlohmann::json;

std::vector<BpVector> BpVectors() {
  std::vector<BpVector> vectors;
  const auto path = VectorsPath("bp5");
  if (!path) return vectors;
  const json manifest = json::parse(ReadVector(*path + "/MANIFEST.json"), nullptr, false);
  EXPECT_TRUE(manifest.is_array()) << *path;
  for (const json& entry : manifest) {
    const std::string directory = entry.at("name");
    BpVector vector;
    vector.name = directory.substr(0, directory.size() - 3);
    vector.directory = *path + "/" + directory;
    vector.facts = json::parse(ReadVector(*path + "/" + entry.at("expected").get<std::string>()), nullptr, false);
    vector.bpls = ReadVector(*path + "/" + entry.at("bpls").get<std::string>());
    EXPECT_TRUE(vector.facts.is_object()) << directory;
    vectors.push_back(std::move(vector));
  }
  EXPECT_FALSE(vectors.empty()) << *path;
  return vectors;
}

BpVector FindBpVector(const std::vector<BpVector>& vectors, std::string_view name) {
  const auto found =
      std::find_if(vectors.begin(), vectors.end(), [&](const auto& vector) { return vector.name == name; });
  if (found != vectors.end()) return *found;
  ADD_FAILURE() << "no vector " << name;
  return {};
}

bool SameValue(std::string_view type, const json& a, const json& b) {
  if (a.is_array() && b.is_array()) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](const json& x, const json& y) { return SameValue(type, x, y); });
  }
  if (!a.is_number() || !b.is_number()) return a == b;
  if (type.find("float") != std::string_view::npos) return a.get<float>() == b.get<float>();
  if (type.find("double") != std::string_view::npos) return a.get<double>() == b.get<double>();
  return a.is_number_integer() && a == b;
}

std::string Written(const std::function<void(cli::TextOut&)>& write) {
  char* bytes = nullptr;
  std::size_t size = 0;
  std::FILE* const file = open_memstream(&bytes, &size);
  {
    cli::TextOut out(file);
    write(out);
  }
  std::fclose(file);
  std::string text(bytes, size);
  std::free(bytes);
  return text;
}

}  // namespace cairn::testing

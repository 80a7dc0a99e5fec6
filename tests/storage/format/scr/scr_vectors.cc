#include "tests/storage/format/scr/scr_vectors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/vectors.h"

namespace cairn::testing {
namespace {

using nlohmann::json;

json ReadList(const std::string& folder, const std::string& name) {
  return json::parse(ReadVector(folder + "/" + name), nullptr, /*allow_exceptions=*/true);
}

}  // namespace

std::vector<ScrVector> ScrVectors(std::string_view role, std::string_view scenario) {
  std::vector<ScrVector> vectors;
  const std::optional<std::string> folder = VectorsPath("scr");
  if (!folder) return vectors;
  const json manifest = ReadList(*folder, "manifest.json");
  for (const json& item : manifest.at("scenarios")) {
    const std::string name = item.at("scenario");
    if (name == "kvtree_robustness" || (!scenario.empty() && name != scenario)) continue;
    const json listed = ReadList(*folder, name + "/scenario.json");
    for (const json& file : listed.at("files")) {
      ScrVector vector{.scenario = name, .path = file.at("path"), .role = file.at("role"), .bytes = {}, .print = {}};
      if (!vector.role.starts_with(role)) continue;
      vector.bytes = ReadVector(*folder + "/" + vector.path);
      if (file.contains("kvtree")) {
        vector.print = file["kvtree"].at("print").get<std::string>();
        vector.declared_bytes = file["kvtree"].at("declared_size");
      }
      vectors.push_back(std::move(vector));
    }
  }
  if (vectors.empty()) ADD_FAILURE() << "no vector of role '" << role << "' in scenario '" << scenario << "'";
  return vectors;
}

std::vector<MalformedTree> MalformedTrees() {
  std::vector<MalformedTree> trees;
  const std::optional<std::string> folder = VectorsPath("scr");
  if (!folder) return trees;
  const json listed = ReadList(*folder, "kvtree_robustness/scenario.json");
  for (const json& file : listed.at("files")) {
    const std::string path = file.at("file");
    trees.push_back({.path = path,
                     .bytes = ReadVector(*folder + "/" + path),
                     .recommended = file.at("recommended_for_cairn"),
                     .print = file.at("reference_print")});
  }
  if (trees.empty()) ADD_FAILURE() << "no malformed trees";
  return trees;
}

}  // namespace cairn::testing

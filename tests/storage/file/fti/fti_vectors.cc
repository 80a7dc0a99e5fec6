#include "tests/storage/file/fti/fti_vectors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/vectors.h"

namespace cairn::testing {

const VectorFile& VectorRun::Named(std::string_view name) const {
  for (const VectorFile& file : files) {
    if (file.name == name) return file;
  }
  ADD_FAILURE() << "no file " << name << " in this run";
  static const VectorFile none;
  return none;
}

std::optional<VectorRun> LoadRun(std::string_view scenario) {
  const std::optional<std::string> all = VectorsPath("ftiff");
  const std::optional<std::string> folder = VectorsPath("ftiff/" + std::string(scenario));
  if (!all || !folder) return std::nullopt;
  const auto json = nlohmann::json::parse(ReadVector(*folder + "/" + std::string(scenario) + ".json"));
  VectorRun run;
  run.ranks = json.at("nranks");
  run.node_size = json.at("config").at("node_size");
  run.group_size = json.at("config").at("group_size");
  run.heads = json.at("config").at("heads_per_node") != 0;
  for (const auto& entry : json.at("files")) {
    run.files.push_back({.name = entry.at("name"),
                         .dir = entry.at("dir"),
                         .kind = entry.at("kind"),
                         .id = entry.value("ckpt_id", 0),
                         .level = entry.value("level", 0),
                         .rank = entry.at("file_rank"),
                         .bytes_max = entry.at("file_meta").value("maxFs", std::int64_t{-1}),
                         .md5 = entry.at("md5"),
                         .bytes = ReadVector(*all + "/" + entry.at("stored").get<std::string>())});
  }
  return run;
}

}  // namespace cairn::testing

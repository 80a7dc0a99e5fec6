// `cairn vars` against what others say of their directories.
#include "client/cli/bp/listing.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <vector>

#include "storage/file/bpdir/directory.h"
#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/image.h"
#include "storage/format/bp5/metadata.h"
#include "tests/client/cli/bp/bp_vectors.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {
namespace {

using cli::BpPlace;
using cli::ListingOptions;
using cli::TextOut;
using nlohmann::json;

std::string List(const std::string& path, const ListingOptions& options,
                 decltype(cli::ListAsText)* list = cli::ListAsText) {
  const auto directory = bpdir::Directory::Open(path);
  EXPECT_OK(directory.status()) << path;
  if (!directory.ok()) return "";
  BpPlace place;
  place.title = place.path = path;
  return Written([&](TextOut& out) { EXPECT_OK(list(place, (*directory)->metadata(), options, out)) << path; });
}

json ListJson(const std::string& path) {
  const std::string text = List(path, {}, cli::ListAsJson);
  json listing = json::parse(text, nullptr, false);
  EXPECT_TRUE(listing.is_object()) << path << "\n" << text;
  return listing;
}

const std::map<std::string, std::string> kKinds = {{"GlobalValue", "global_value"},
                                                   {"LocalValue", "local_value"},
                                                   {"GlobalArray", "global_array"},
                                                   {"LocalArray", "local_array"},
                                                   {"JoinedArray", "joined_array"}};

// Bounds that are not there are null or left out in the facts.
void ExpectBounds(const std::string& type, const json& said, const json& facts, const std::string& where) {
  for (const char* const key : {"min", "max"}) {
    const json expected = facts.value(key, json());
    ASSERT_EQ(said.contains(key), !expected.is_null()) << where << " " << key << said.dump();
    if (!expected.is_null()) {
      EXPECT_TRUE(SameValue(type, said[key], expected)) << where << said[key] << expected;
    }
  }
}

void ExpectArrayStep(const json& variable, const json& said, const json& facts, const std::string& where) {
  const std::string type = variable["type"];
  const std::string kind = variable["kind"];
  if (kind != "local_array") {
    EXPECT_EQ(said["shape"], facts["shape"]) << where;
  }
  ASSERT_EQ(said["blocks"].size(), facts["blocks"].size()) << where;
  for (std::size_t i = 0; i < facts["blocks"].size(); ++i) {
    const json& block = said["blocks"][i];
    const json& fact = facts["blocks"][i];
    const std::string at = where + " block " + std::to_string(i);
    EXPECT_EQ(block["block"], i) << at;
    EXPECT_EQ(block["writer"], fact["writer"]) << at;
    EXPECT_EQ(block["count"], fact["count"]) << at;
    if (kind == "global_array") {
      EXPECT_EQ(block["start"], fact["start"]) << at;
    }
    if (type != "struct") ExpectBounds(type, block, fact, at);
  }
}

void ExpectScalarStep(const json& variable, const json& said, const json& facts, const std::string& where) {
  const std::string type = variable["type"];
  if (variable["kind"] == "global_value") {
    EXPECT_TRUE(SameValue(type, said["value"], facts["value"])) << where << said["value"] << facts["value"];
    return;
  }
  EXPECT_EQ(said["shape"], facts["shape"]) << where;
  std::set<std::size_t> written;
  for (const json& writer : facts["written_by"]) written.insert(writer.get<std::size_t>());
  for (std::size_t writer = 0; writer < said["values"].size(); ++writer) {
    const json& value = said["values"][writer];
    EXPECT_EQ(value.is_null(), !written.contains(writer)) << where;
    if (!value.is_null()) {
      EXPECT_TRUE(SameValue(type, value, facts["all"][writer])) << where << value;
    }
  }
}

void ExpectVariable(const json& said, const json& facts, const std::string& where) {
  EXPECT_EQ(said["type"], facts["type"]) << where;
  EXPECT_EQ(said["kind"], kKinds.at(facts["shape_id"])) << where;
  if (facts["type"] != "string") {
    EXPECT_EQ(said["element_bytes"], facts["element_size"]) << where;
  }
  ASSERT_EQ(said["absolute_steps"], facts["absolute_steps"]) << where;
  ASSERT_EQ(said["steps"].size(), facts["steps"].size()) << where;
  for (std::size_t i = 0; i < facts["steps"].size(); ++i) {
    const json& step = said["steps"][i];
    const std::string at = where + " relative step " + std::to_string(i);
    EXPECT_EQ(step["relative_step"], i) << at;
    EXPECT_EQ(step["step"], facts["absolute_steps"][i]) << at;
    const bool array = said["kind"].get<std::string>().ends_with("array");
    (array ? ExpectArrayStep : ExpectScalarStep)(said, step, facts["steps"][i], at);
  }
}

void ExpectAttributes(const json& said, const json& facts, const std::string& where) {
  std::map<std::string, json> by_name;
  for (const json& attribute : said) by_name[attribute["name"]] = attribute;
  EXPECT_EQ(by_name.size(), facts.size()) << where;
  for (const json& fact : facts) {
    const json& attribute = by_name[fact["name"]];
    EXPECT_EQ(attribute["type"], fact["type"]) << where << fact;
    EXPECT_EQ(attribute["single"], fact["single"]) << where << fact;
    EXPECT_TRUE(SameValue(fact["type"].get<std::string>(), attribute["values"], fact["values"]))
        << where << attribute << fact;
  }
}

TEST(ListingTest, JsonSaysOfEveryVectorWhatItsWritersStored) {
  for (const BpVector& vector : BpVectors()) {
    SCOPED_TRACE(vector.name);
    const json said = ListJson(vector.directory);
    if (said.is_discarded()) continue;
    EXPECT_EQ(said["steps"], vector.facts["steps"]);
    EXPECT_EQ(said["writers_per_step"], vector.facts["writers_per_step"]);
    EXPECT_EQ(said["flushes_per_step"], vector.facts["flushes_per_step"]);
    EXPECT_EQ(said["active"], vector.facts["active_flag"] != 0);
    EXPECT_EQ(said["column_major"], vector.facts["column_major"]);
    EXPECT_EQ(said["flatten"], vector.facts["flatten"] != 0);
    std::map<std::string, json> by_name;
    for (const json& variable : said["variables"]) by_name[variable["name"]] = variable;
    EXPECT_EQ(by_name.size(), vector.facts["variables"].size());
    for (const json& facts : vector.facts["variables"]) {
      const std::string name = facts["name"];
      ASSERT_TRUE(by_name.contains(name)) << name;
      ExpectVariable(by_name[name], facts, vector.name + " " + name);
    }
    ExpectAttributes(said["attributes"], vector.facts["attributes"], vector.name);
  }
}

// Lines with single spaces, so that columns of other widths compare equal.
std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    line = std::regex_replace(line, std::regex(" +"), " ");
    while (!line.empty() && line.back() == ' ') line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

// What the reference tool shows otherwise: it takes the least and greatest numbers of a type for bounds where there are
// none (BP5 specification, section 16), has forms of its own for some types, and escapes nothing.
const std::regex kOtherwise(
    "( (float|double) complex | long double | char ).*|.*(e\\+38|e\\+308|-2147483648) / .*|.* N/A / N/A"
    "|.* = \"some text with \"quotes\".*| struct parts int32_t s .*| int32_t new|line.*");

TEST(ListingTest, TextIsWhatAUserOfBplsKnows) {
  std::size_t same = 0, otherwise = 0;
  for (const BpVector& vector : BpVectors()) {
    if (vector.name == "flatten_w2") continue;  // all steps as one there
    std::set<std::string> said;
    for (const std::string& line : Lines(List(vector.directory, {.patterns = {}, .attributes = true}))) {
      said.insert(std::regex_replace(line, std::regex(" \\(processed\\)$"), ""));
    }
    for (const std::string& line : Lines(vector.bpls)) {
      if (line.starts_with("-----")) break;
      ++(said.contains(line) ? same : otherwise);
      EXPECT_TRUE(said.contains(line) || std::regex_match(line, kOtherwise)) << vector.name << ": " << line;
    }
  }
  EXPECT_GE(same, 4 * otherwise) << otherwise;
}

TEST(ListingTest, BlocksAreThoseThatBplsShows) {
  const auto vectors = BpVectors();
  if (vectors.empty()) return;
  const std::string text = List(FindBpVector(vectors, "grid_w2_async").directory, {.patterns = {"T"}, .blocks = true});
  std::set<std::string> said;
  for (const std::string& line : Lines(text)) said.insert(std::regex_replace(line, std::regex(" \\(writer .*"), ""));
  const std::string bpls = FindBpVector(vectors, "grid_w2_async").bpls;
  std::istringstream in(bpls.substr(bpls.find("-----")));
  std::string line;
  bool ours = false;
  std::size_t blocks = 0;
  while (std::getline(in, line)) {
    if (line.starts_with("  double    T ")) ours = true;
    if (ours && line.starts_with("  uint64_t")) break;
    if (!ours || line.find("block ") == std::string::npos) continue;
    ++blocks;
    EXPECT_TRUE(said.contains(Lines(line).front())) << line << "\n" << text;
  }
  EXPECT_GT(blocks, 1u);
}

TEST(ListingTest, BoundsThatLeaveSomethingOutSaySo) {
  const auto put = [](bool bounded) {
    bp5::Put x;
    x.name = "x";
    x.kind = bp5::Kind::kGlobalArray;
    x.type = bp5::Type::kInt8;
    x.shape = {2};
    x.blocks = {{.box = {.start = {0}, .count = {2}}, .location = 0, .min_max = bounded ? std::string("\1\7") : ""}};
    return x;
  };
  const auto list = [&](const std::vector<std::vector<bool>>& steps, bool json) {
    bpdir::Image image({});
    std::vector<bp5::WriterEncoder> writers(2);
    for (const std::vector<bool>& step : steps) {
      std::vector<bp5::EncodedStep> encoded;
      for (std::size_t w = 0; w < 2; ++w) encoded.push_back(*writers[w].Encode(std::vector{put(step[w])}, 16));
      image.Append(encoded, std::vector<bp5::WriterData>(2), std::vector<std::uint32_t>{0, 1});
    }
    bp5::Metadata metadata;
    const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
    EXPECT_OK(metadata.Extend({.index = bytes(image.index()),
                               .formats = bytes(image.formats()),
                               .metadata_begin = 0,
                               .metadata = bytes(image.metadata())}));
    const auto as = json ? cli::ListAsJson : cli::ListAsText;
    return Written([&](TextOut& out) { EXPECT_OK(as({}, metadata, {}, out)); });
  };
  EXPECT_NE(list({{true, true}, {true, true}}, false).find("2*{2} = 1 / 7\n"), std::string::npos);
  EXPECT_NE(list({{true, true}, {false, false}, {true, true}}, false).find("3*{2} = 1 / 7  (of 2 of 3 steps)\n"),
            std::string::npos);
  EXPECT_NE(list({{true, false}, {true, true}}, false).find("2*{2} = 1 / 7  (not of all blocks)\n"), std::string::npos);
  EXPECT_EQ(list({{false, false}}, false).find(" = "), std::string::npos);
  EXPECT_EQ(list({{true, true}}, true).find("bounds_partial"), std::string::npos);
  const json variable = json::parse(list({{true, false}, {true, true}, {false, false}}, true))["variables"][0];
  EXPECT_TRUE(variable["bounds_partial"]);
  EXPECT_TRUE(variable["steps"][0]["bounds_partial"]);
  EXPECT_FALSE(variable["steps"][1].contains("bounds_partial"));
  EXPECT_FALSE(variable["steps"][2].contains("min"));
}

TEST(ListingTest, PatternsChooseAndWhatMatchesNothingIsTold) {
  const auto vectors = BpVectors();
  if (vectors.empty()) return;
  const std::string path = FindBpVector(vectors, "absent_w2").directory;
  EXPECT_EQ(Lines(List(path, {.patterns = {"al*", "note"}})).size(), 4u);
  const auto directory = bpdir::Directory::Open(path);
  ASSERT_OK(directory.status());
  const std::string text = Written([&](TextOut& out) {
    const absl::Status status = cli::ListAsText({}, (*directory)->metadata(), {.patterns = {"always", "none*"}}, out);
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_EQ(status.message(),
              "no variable none*; there are alternating, always, even, from2, lastrank5, local14, note, only3");
  });
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace cairn::testing

// `cairn dump` against what others stored in their directories.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "client/cli/bp/dump_output.h"
#include "client/cli/bp/npy.h"
#include "client/cli/bp/summary.h"
#include "storage/file/bpdir/directory.h"
#include "tests/client/cli/bp/bp_vectors.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {
namespace {

using cli::DumpSelection;
using cli::DumpTarget;
using cli::TextOut;
using nlohmann::json;

// A directory that is open, and dumps of its variables.
class Dumper {
 public:
  explicit Dumper(const std::string& path) : path_(path) {
    auto directory = bpdir::Directory::Open(path);
    EXPECT_OK(directory.status()) << path;
    if (directory.ok()) directory_ = *std::move(directory);
  }
  bool ok() const { return directory_ != nullptr; }
  const bp5::Metadata& metadata() const { return directory_->metadata(); }

  template <typename Use>
  auto With(const std::string& name, const DumpSelection& selection, Use use) {
    const auto number = cli::FindNamed(metadata(), name);
    EXPECT_OK(number.status());
    auto steps = cli::StepsOf(metadata().variables()[*number], metadata().steps(), selection);
    EXPECT_OK(steps.status());
    return use(DumpTarget{.title = path_,
                          .metadata = metadata(),
                          .source = directory_->data(),
                          .number = *number,
                          .steps = *std::move(steps),
                          .selection = selection});
  }

  json Json(const std::string& name, const DumpSelection& selection) {
    const std::string text = With(name, selection, [](const DumpTarget& target) {
      return Written([&](TextOut& out) { EXPECT_OK(DumpAsJson(target, out)); });
    });
    json dump = json::parse(text, nullptr, false);
    EXPECT_TRUE(dump.is_object()) << path_ << " " << name << "\n" << text;
    return dump;
  }
  std::string Text(const std::string& name, const DumpSelection& selection) {
    return With(name, selection, [](const DumpTarget& target) {
      return Written([&](TextOut& out) { EXPECT_OK(DumpAsText(target, out)); });
    });
  }

 private:
  std::string path_;
  std::unique_ptr<bpdir::Directory> directory_;
};

void ExpectValues(const json& facts, const json& said, const json& values, const std::string& where) {
  EXPECT_TRUE(SameValue(facts["type"].get<std::string>(), said, values)) << where << "\n" << said << "\n" << values;
}

// The numbers in the text, behind the index of each line: reads what people read.
std::vector<std::string> ItemsOf(const std::string& text) {
  std::vector<std::string> items;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('(') || line.starts_with("(some")) continue;
    std::istringstream words(line.substr(line.find(')') + 1));
    for (std::string word; words >> word;) items.push_back(word);
  }
  return items;
}

void ExpectText(const json& facts, const std::string& text, const json& values, const std::string& where) {
  const std::vector<std::string> items = ItemsOf(text);
  ASSERT_EQ(items.size(), values.size()) << where << "\n" << text;
  const std::string type = facts["type"];
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!values[i].is_number()) continue;
    EXPECT_TRUE(SameValue(type, json::parse(items[i], nullptr, false), values[i])) << where << " " << items[i];
  }
}

void ExpectArrayStep(Dumper& dumper, const json& facts, const json& step, DumpSelection selection,
                     const std::string& where) {
  const std::string name = facts["name"];
  if (facts["shape_id"] == "LocalArray") {
    const json dump = dumper.Json(name, selection);
    const json& blocks = dump["steps"][0]["blocks"];
    ASSERT_EQ(blocks.size(), step["blocks"].size()) << where;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      ExpectValues(facts, blocks[i]["values"], step["blocks"][i]["values"], where);
      selection.block = i;
      ExpectText(facts, dumper.Text(name, selection), step["blocks"][i]["values"], where);
    }
    return;
  }
  const json dump = dumper.Json(name, selection);
  ExpectValues(facts, dump["steps"][0]["values"], step["all"], where);
  EXPECT_EQ(dump["steps"][0]["shape"], step["shape"]) << where;
  if (facts["type"].get<std::string>().find("complex") == std::string::npos) {
    ExpectText(facts, dumper.Text(name, selection), step["all"], where);
  }
  for (const json& part : step.value("selections", json::array())) {
    selection.start = part["start"].get<std::vector<std::int64_t>>();
    selection.count = part["count"].get<std::vector<std::int64_t>>();
    ExpectValues(facts, dumper.Json(name, selection)["steps"][0]["values"], part["values"], where);
  }
}

// Writers that have none are null; the facts have 0 there.
json WithZeros(json values, bool complex) {
  for (json& value : values) {
    if (value.is_null()) value = complex ? json({0, 0}) : json(0);
  }
  return values;
}

TEST(DumpTest, EveryVectorsValuesAreThoseThatWereStored) {
  std::size_t steps = 0;
  for (const BpVector& vector : BpVectors()) {
    Dumper dumper(vector.directory);
    if (!dumper.ok()) continue;
    for (const json& facts : vector.facts["variables"]) {
      if (facts["type"] == "struct" || vector.name.starts_with("statsonly") || vector.name.starts_with("opnull"))
        continue;
      for (const json& step : facts["steps"]) {
        const std::string name = facts["name"];
        const std::string where = vector.name + " " + name + " step " + step["abs"].dump();
        DumpSelection selection{.step = step["abs"].dump(), .start = {}, .count = {}, .block = {}};
        ++steps;
        if (facts["shape_id"] == "GlobalValue") {
          ExpectValues(facts, dumper.Json(name, selection)["steps"][0]["value"], step["value"], where);
        } else if (facts["shape_id"] == "LocalValue") {
          const json values = dumper.Json(name, selection)["steps"][0]["values"];
          const bool complex = facts["type"].get<std::string>().ends_with("complex");
          ExpectValues(facts, WithZeros(values, complex), step["all"], where);
        } else {
          ExpectArrayStep(dumper, facts, step, selection, where);
        }
      }
    }
  }
  EXPECT_EQ(steps == 0, BpVectors().empty());
}

// --- .npy ---

std::string Npy(Dumper& dumper, const std::string& name, const DumpSelection& selection) {
  return dumper.With(name, selection, [](const DumpTarget& target) {
    std::string file;
    const auto array = cli::PlanNpy(target);
    EXPECT_OK(array.status());
    if (!array.ok()) return file;
    const auto written = cli::WriteNpy(target, *array, [&](std::span<const std::byte> bytes) {
      file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return absl::OkStatus();
    });
    EXPECT_OK(written.status());
    EXPECT_EQ(file.size(), array->header.size() + array->data_bytes);
    return file;
  });
}

TEST(NpyTest, HeadersAreOfVersion1AndAMultipleOf64Long) {
  for (const std::vector<std::uint64_t>& shape :
       {std::vector<std::uint64_t>{}, {7}, {3, 4}, std::vector<std::uint64_t>(30, 18446744073709551615u)}) {
    const std::string header = cli::NpyHeader("'<f8'", shape);
    EXPECT_EQ(header.size() % 64, 0u);
    EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    EXPECT_EQ(static_cast<unsigned char>(header[8]) + 256u * static_cast<unsigned char>(header[9]), header.size() - 10);
    EXPECT_EQ(header.back(), '\n');
  }
  EXPECT_NE(cli::NpyHeader("'<f8'", std::vector<std::uint64_t>{7}).find("'shape': (7,), }"), std::string::npos);
  EXPECT_NE(cli::NpyHeader("'<f8'", std::vector<std::uint64_t>{}).find("'shape': (), }"), std::string::npos);
}

constexpr const char* kCompare = R"(
import json, sys, numpy
def number(x):
    return complex(*map(number, x)) if isinstance(x, list) else float(x) if isinstance(x, str) else x
for line in open(sys.argv[1]):
    case = json.loads(line)
    got = numpy.load(case["file"])
    want = numpy.array([number(x) for x in case["values"]], dtype=object).astype(got.dtype).reshape(case["shape"])
    if got.shape != want.shape or not numpy.array_equal(got, want, equal_nan=got.dtype.kind in "fc"):
        sys.exit("%s: %s is not %s" % (case, got, want))
)";

TEST(NpyTest, NumpyReadsBackWhatWasStored) {
  std::string folder = ::testing::TempDir() + "npy-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::ofstream cases(folder + "/cases");
  std::size_t count = 0;
  for (const BpVector& vector : BpVectors()) {
    if (vector.name.find("grid") == std::string::npos && !vector.name.starts_with("arrays") &&
        !vector.name.starts_with("specials") && !vector.name.starts_with("joined")) {
      continue;
    }
    Dumper dumper(vector.directory);
    for (const json& facts : vector.facts["variables"]) {
      const json& step = facts["steps"].back();
      if (!step.contains("all")) continue;
      const std::string file = folder + "/" + std::to_string(count++) + ".npy";
      std::ofstream(file, std::ios::binary)
          << Npy(dumper, facts["name"], {.step = step["abs"].dump(), .start = {}, .count = {}, .block = {}});
      cases << json({{"file", file}, {"values", step["all"]}, {"shape", step["shape"]}}) << "\n";
    }
  }
  cases.close();
  std::ofstream(folder + "/compare.py") << kCompare;
  const std::string command = "/usr/bin/python3 " + folder + "/compare.py " + folder + "/cases";
  EXPECT_EQ(std::system(command.c_str()), 0) << folder;
  std::filesystem::remove_all(folder);
}

TEST(NpyTest, StructsHaveTheirFields) {
  const auto vectors = BpVectors();
  if (vectors.empty()) return;
  Dumper dumper(FindBpVector(vectors, "structs_w2").directory);
  const std::string file = Npy(dumper, "parts", {.step = "0", .start = {}, .count = {}, .block = {}});
  EXPECT_NE(
      file.find("'descr': [('id', '<i4'), ('w', '<f4'), ('x', '<f8', (3,))], 'fortran_order': False, 'shape': (6,)"),
      std::string::npos)
      << file.substr(0, 200);
  const json facts = FindBpVector(vectors, "structs_w2").facts["variables"][1];
  std::string stored;
  for (const json& block : facts["steps"][0]["blocks"]) {
    const std::string hex = block["raw_hex"];
    for (std::size_t i = 0; i < hex.size(); i += 2)
      stored += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  EXPECT_EQ(file.substr(file.size() - stored.size()), stored);
}

TEST(NpyTest, SeveralStepsAreOneArrayWithADimensionForThem) {
  const auto vectors = BpVectors();
  if (vectors.empty()) return;
  Dumper dumper(FindBpVector(vectors, "spans_w2").directory);
  EXPECT_NE(Npy(dumper, "memsel", {.step = "all", .start = {}, .count = {}, .block = {}}).find("'shape': (2, 4, 3)"),
            std::string::npos);
}

TEST(NpyTest, WhatIsNoArrayOfOneShapeIsRefused) {
  const auto vectors = BpVectors();
  if (vectors.empty()) return;
  const auto refuse = [&](const char* vector, const char* name, DumpSelection selection, absl::StatusCode code,
                          std::string_view part) {
    Dumper dumper(FindBpVector(vectors, vector).directory);
    const absl::Status status =
        dumper.With(name, selection, [](const auto& target) { return cli::PlanNpy(target).status(); });
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << status;
  };
  const DumpSelection all{.step = "all", .start = {}, .count = {}, .block = {}};
  refuse("varshape_w2", "growing", all, absl::StatusCode::kInvalidArgument, "choose one with --step");
  refuse("local_w3", "cells", {}, absl::StatusCode::kInvalidArgument, "choose one with --block");
  refuse("absent_w2", "note", all, absl::StatusCode::kFailedPrecondition, "text");
}

}  // namespace
}  // namespace cairn::testing

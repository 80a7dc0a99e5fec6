// The data of every test vector, through mapped files and through read ones, against what its JSON says.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "storage/file/bpdir/directory.h"
#include "storage/io/posix_disk.h"
#include "tests/storage/file/bpdir/expected.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn::bpdir {
namespace {

using absl::StatusCode;
using nlohmann::json;
using testing::Differences;
using testing::ExtentsOf;

// One directory, opened in one way.
class Checked {
 public:
  explicit Checked(std::unique_ptr<Directory> directory) : directory_(std::move(directory)) {}

  void Check(const json& expected) {
    ASSERT_EQ(metadata().steps(), expected.at("steps"));
    for (const json& variable : expected.at("variables")) {
      SCOPED_TRACE(variable.at("name").dump());
      const auto number = metadata().FindVariable(variable.at("name").get<std::string>());
      ASSERT_TRUE(number);
      variable_ = *number;
      if (!IsArray(described().kind)) continue;  // values are metadata
      for (const json& step : variable.at("steps")) {
        SCOPED_TRACE("step " + step.at("abs").dump());
        step_ = step.at("abs").get<std::uint32_t>();
        CheckStep(step);
      }
    }
  }
  std::size_t elements() const { return elements_; }
  std::size_t in_place() const { return in_place_; }

 private:
  const bp5::Metadata& metadata() const { return directory_->metadata(); }
  const bp5::Variable& described() const { return metadata().variables()[variable_]; }

  void CheckStep(const json& step) {
    if (step.contains("read_error")) {
      const Box all{.start = {0}, .count = ExtentsOf(step.at("shape"))};
      EXPECT_STATUS(StatusCode::kFailedPrecondition, Read(all).status(), "not stored");
      return;
    }
    if (step.contains("all")) {
      Extents shape = ExtentsOf(step.at("shape"));
      const Box all{.start = Extents(shape.size(), 0), .count = shape};
      ExpectSelection(all, step.at("all"));
    }
    if (step.contains("selections")) {
      for (const json& selection : step.at("selections")) {
        SCOPED_TRACE(selection.at("start").dump() + " " + selection.at("count").dump());
        ExpectSelection({.start = ExtentsOf(selection.at("start")), .count = ExtentsOf(selection.at("count"))},
                        selection.at("values"));
      }
    }
    for (std::size_t id = 0; id < step.at("blocks").size(); ++id) {
      SCOPED_TRACE("block " + std::to_string(id));
      CheckBlock(id, step.at("blocks")[id]);
    }
  }

  absl::StatusOr<std::vector<std::byte>> Read(const Box& box) {
    std::vector<std::byte> elements(*Elements(box.count) * described().element_bytes);
    CAIRN_RETURN_IF_ERROR(bp5::ReadSelection(metadata(), variable_, step_, box, directory_->data(), elements).status());
    return elements;
  }

  void ExpectSelection(const Box& box, const json& values) {
    const auto read = Read(box);
    ASSERT_OK(read);
    EXPECT_EQ(Differences(values, described().type, *read), "");
    elements_ += values.size();
    const auto in_place = bp5::SelectionInPlace(metadata(), variable_, step_, box, directory_->data());
    ASSERT_OK(in_place);
    if (!*in_place) return;
    ++in_place_;
    EXPECT_EQ(Differences(values, described().type, **in_place), "");
  }

  void CheckBlock(std::size_t id, const json& block) {
    if (!block.contains("values") && !block.contains("raw_hex")) return;
    std::vector<std::byte> elements(*Elements(ExtentsOf(block.at("count"))) * described().element_bytes);
    ASSERT_OK(bp5::ReadBlock(metadata(), variable_, step_, id, std::nullopt, directory_->data(), elements));
    if (block.contains("values")) {
      EXPECT_EQ(Differences(block.at("values"), described().type, elements), "");
      elements_ += block.at("values").size();
      return;
    }
    const std::string raw = testing::FromHex(block.at("raw_hex"));
    ASSERT_EQ(raw.size(), elements.size());
    EXPECT_EQ(std::memcmp(raw.data(), elements.data(), raw.size()), 0);
    ++elements_;
  }

  const std::unique_ptr<Directory> directory_;
  bp5::VariableNumber variable_ = 0;
  std::uint32_t step_ = 0;
  std::size_t elements_ = 0, in_place_ = 0;
};

class DataVectorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto path = testing::VectorsPath("bp5");
    if (!path) GTEST_SKIP() << "no vectors";
    path_ = *path;
  }
  // All that have a JSON of their own name.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const json& one : json::parse(testing::ReadVector(path_ + "/MANIFEST.json"))) {
      names.push_back(one.at("name").get<std::string>());
    }
    return names;
  }
  json Expected(const std::string& name) const {
    return json::parse(testing::ReadVector(path_ + "/" + name.substr(0, name.size() - 3) + ".json"));
  }

  std::string path_;
  const std::unique_ptr<PosixDisk> disk_ = MakePosixDisk({.engine = {.io_uring = false, .threads = 1}});
};

TEST_F(DataVectorsTest, EveryElementIsWhatTheWriterPut) {
  std::size_t elements = 0, in_place = 0;
  for (const std::string& name : Names()) {
    SCOPED_TRACE(name);
    const json expected = Expected(name);
    for (const bool mapped : {true, false}) {
      const std::string path = path_ + "/" + name;
      auto directory = mapped ? Directory::Open(path) : Directory::Open(ReadFiles(*disk_, path));
      ASSERT_OK(directory);
      EXPECT_EQ((*directory)->active(), expected.at("active_flag") == 1);
      Checked checked(*std::move(directory));
      checked.Check(expected);
      elements += checked.elements();
      in_place += checked.in_place();
      if (!mapped) {
        EXPECT_EQ(checked.in_place(), 0u);
      }
    }
  }
  EXPECT_GT(elements, 100000u) << "the sweep looked at hardly anything";
  EXPECT_GT(in_place, 1000u);
}

// Metadata is fine, the array's data is not there: the error comes with the read, whichever way.
TEST_F(DataVectorsTest, DataThatIsNotThereIsAnErrorOfTheRead) {
  std::size_t seen = 0;
  for (const json& one : json::parse(testing::ReadVector(path_ + "/hostile/MANIFEST.json"))) {
    if (one.at("expect") != "open_ok_read_error") continue;
    ++seen;
    const std::string path = path_ + "/hostile/" + one.at("name").get<std::string>();
    SCOPED_TRACE(path);
    for (const bool mapped : {true, false}) {
      const auto directory = mapped ? Directory::Open(path) : Directory::Open(ReadFiles(*disk_, path));
      ASSERT_OK(directory);
      const auto x = (*directory)->metadata().FindVariable("x");
      ASSERT_TRUE(x);
      std::array<std::byte, 24> target;
      const Box all{.start = {0}, .count = {3}};
      const absl::Status read =
          bp5::ReadSelection((*directory)->metadata(), *x, 0, all, (*directory)->data(), target).status();
      EXPECT_TRUE(absl::IsDataLoss(read) || absl::IsNotFound(read)) << read;
      EXPECT_EQ(bp5::ReadBlock((*directory)->metadata(), *x, 0, 0, std::nullopt, (*directory)->data(), target), read);
      const auto in_place = bp5::SelectionInPlace((*directory)->metadata(), *x, 0, all, (*directory)->data());
      EXPECT_FALSE(in_place.ok() && *in_place);
    }
  }
  EXPECT_EQ(seen, 6u);
}

// All other damage: an error of the opening or the reading, or an answer, but an end.
TEST_F(DataVectorsTest, HostileDirectoriesAreOpenedAndReadToSomeEnd) {
  for (const json& one : json::parse(testing::ReadVector(path_ + "/hostile/MANIFEST.json"))) {
    const std::string path = path_ + "/hostile/" + one.at("name").get<std::string>();
    SCOPED_TRACE(path);
    const auto directory = Directory::Open(path);
    if (!directory.ok()) continue;
    const bp5::Metadata& metadata = (*directory)->metadata();
    for (bp5::VariableNumber variable = 0; variable < metadata.variables().size(); ++variable) {
      if (!IsArray(metadata.variables()[variable].kind)) continue;
      for (std::uint32_t step = 0; step < metadata.steps(); ++step) {
        std::vector<std::byte> target(metadata.variables()[variable].element_bytes);
        const auto shape = metadata.Shape(variable, step);
        if (!shape.ok()) continue;
        const Box box{.start = Extents(shape->size(), 0), .count = Extents(shape->size(), 1)};
        bp5::ReadSelection(metadata, variable, step, box, (*directory)->data(), target).status().IgnoreError();
        bp5::ReadBlock(metadata, variable, step, 0, box, (*directory)->data(), target).IgnoreError();
      }
    }
  }
}

}  // namespace
}  // namespace cairn::bpdir

// Directories that ADIOS2 wrote: what their metadata says, and what damaged ones may answer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "storage/base/status.h"
#include "storage/format/bp5/metadata.h"
#include "tests/storage/format/bp5/bp_files.h"
#include "tests/storage/format/bp5/expected_metadata.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn::bp5::testing {
namespace {

using ::cairn::testing::ReadVector;
using ::cairn::testing::VectorsPath;
using nlohmann::json;

json ReadJson(const std::string& path) {
  return json::parse(ReadVector(path));
}

TEST(MetadataVectorsTest, EveryDirectoryIsReadAsItsDescriptionSays) {
  const std::optional<std::string> folder = VectorsPath("bp5");
  if (!folder.has_value()) return;
  std::size_t count = 0;
  for (const std::string& path : DirectoriesIn(*folder)) {
    SCOPED_TRACE(path);
    const BpFiles files = ReadBpFiles(path);
    Metadata metadata;
    ASSERT_OK(ExtendWith(files, metadata));
    EXPECT_EQ(metadata.index_bytes(), files.index.size());
    EXPECT_EQ(metadata.formats_bytes(), files.formats.size());
    EXPECT_EQ(metadata.metadata_bytes(), files.metadata.size());
    ExpectMetadata(ReadJson(path.substr(0, path.size() - 3) + ".json"), metadata);
    EXPECT_OK(LookAtAll(metadata));
    ++count;
  }
  EXPECT_GE(count, 66u);
}

// The data that the steps need is there, and nearly nothing else.
TEST(MetadataVectorsTest, SubfilesAreAsLongAsTheStepsNeed) {
  const std::optional<std::string> folder = VectorsPath("bp5");
  if (!folder.has_value()) return;
  for (const std::string& path : DirectoriesIn(*folder)) {
    SCOPED_TRACE(path);
    const BpFiles files = ReadBpFiles(path);
    Metadata metadata;
    ASSERT_OK(ExtendWith(files, metadata));
    ASSERT_OK_AND_ASSIGN(const auto needed, metadata.SubfileBytes(metadata.steps() - 1));
    for (const auto& [subfile, bytes] : needed) {
      std::error_code error;
      const std::string data = fmt::format("{}/data.{}", path, subfile);
      const std::uint64_t there = std::filesystem::exists(data) ? std::filesystem::file_size(data, error) : 0;
      EXPECT_LE(bytes, there) << data;
    }
  }
}

// What a damaged directory answers: the first error of opening it, of looking at all, of where its data lies.
struct Answer {
  absl::Status open, metadata, data;
  std::uint32_t steps = 0;
  std::string text;
  absl::Status Any() const { return !open.ok() ? open : !metadata.ok() ? metadata : data; }
};

Answer Ask(const std::string& path, const BpFiles& files) {
  Answer answer;
  Metadata metadata;
  answer.open = ExtendWith(files, metadata);
  answer.steps = metadata.steps();
  EXPECT_LT(metadata.own_bytes(), 1u << 20);
  if (!answer.open.ok()) {
    EXPECT_EQ(metadata.steps(), 0u);
    EXPECT_EQ(metadata.index_bytes(), 0u);
    EXPECT_TRUE(metadata.variables().empty());
  }
  answer.metadata = LookAtAll(metadata);
  answer.data = LookAtAll(metadata, [&](const DataPlace& place, std::uint64_t bytes) -> absl::Status {
    const std::string data = fmt::format("{}/data.{}", path, place.subfile);
    if (!std::filesystem::exists(data)) return NotFound("no {}", data);
    const std::uint64_t there = std::filesystem::file_size(data);
    if (place.offset > there || bytes > there - place.offset) return DataLoss("{} ends before", data);
    return absl::OkStatus();
  });
  answer.text = TextOfAll(metadata);
  return answer;
}

void ExpectAnswer(const std::string& expect, const Answer& answer) {
  const absl::Status any = answer.Any();
  if (expect == "error" || expect == "error_on_open_or_read") {
    EXPECT_FALSE(any.ok());
  } else if (expect == "no_steps_or_error" || expect == "error_or_zero_steps") {
    EXPECT_TRUE(!answer.open.ok() || answer.steps == 0);
  } else if (expect == "zero_steps") {
    EXPECT_OK(answer.open);
    EXPECT_EQ(answer.steps, 0u);
  } else if (expect == "open_ok_read_error") {
    EXPECT_OK(answer.open);
    EXPECT_OK(answer.metadata);
    EXPECT_FALSE(answer.data.ok());
  } else if (expect == "ok") {
    EXPECT_OK(any);
  } else {
    EXPECT_TRUE(expect == "error_or_ok" || expect == "error_or_clip") << expect;
  }
  const absl::StatusCode code = any.code();
  EXPECT_TRUE(any.ok() || code == absl::StatusCode::kDataLoss || code == absl::StatusCode::kFailedPrecondition ||
              code == absl::StatusCode::kNotFound)
      << any;
}

TEST(MetadataVectorsTest, EveryDamagedDirectoryAnswersAsItMay) {
  const std::optional<std::string> folder = VectorsPath("bp5");
  if (!folder.has_value()) return;
  std::size_t count = 0;
  for (const json& entry : ReadJson(*folder + "/hostile/MANIFEST.json")) {
    const std::string path = *folder + "/hostile/" + entry["name"].get<std::string>();
    SCOPED_TRACE(entry.dump());
    BpFiles files = ReadBpFiles(path);
    ExpectAnswer(entry["expect"], Ask(path, files));
    // The identifier gives most damage to formats away. What if it did not?
    MakeIdsRight(files);
    ExpectAnswer(entry["expect"], Ask(path, files));
    ++count;
  }
  EXPECT_EQ(count, 115u);
}

TEST(MetadataVectorsTest, HarmlessDamageLeavesTheContentRight) {
  const std::optional<std::string> folder = VectorsPath("bp5");
  if (!folder.has_value()) return;
  const BpFiles bits = ReadBpFiles(*folder + "/hostile/bit_extra_bits.bp");
  Metadata with_bits;
  ASSERT_OK(ExtendWith(bits, with_bits));
  ExpectMetadata(ReadJson(*folder + "/tiny_w1.json"), with_bits);

  const BpFiles null = ReadBpFiles(*folder + "/hostile/str_null.bp"), whole = ReadBpFiles(*folder + "/scalars_w1.bp");
  Metadata with_null, without;
  ASSERT_OK(ExtendWith(null, with_null));
  ASSERT_OK(ExtendWith(whole, without));
  const std::optional<VariableNumber> string = with_null.FindVariable("g/str");
  ASSERT_TRUE(string.has_value());
  ASSERT_OK_AND_ASSIGN(const std::string_view text, with_null.String(*string, 0, 0));
  EXPECT_EQ(text, "");
  for (std::uint32_t step = 1; step < 3; ++step) {
    ASSERT_OK_AND_ASSIGN(const std::string_view right, without.String(*without.FindVariable("g/str"), step, 0));
    EXPECT_EQ(*with_null.String(*string, step, 0), right);
  }
}

// Opened again and again from the front of its files, a directory shows steps that are those of the whole, or an error.
void ExpectPrefixes(const std::string& path) {
  SCOPED_TRACE(path);
  const BpFiles whole = ReadBpFiles(path);
  Metadata all;
  ASSERT_OK(ExtendWith(whole, all));
  for (std::string BpFiles::*const file : {&BpFiles::index, &BpFiles::formats, &BpFiles::metadata}) {
    for (std::size_t bytes = 0; bytes < (whole.*file).size(); ++bytes) {
      BpFiles cut = whole;
      (cut.*file).resize(bytes);
      (cut.*file).shrink_to_fit();  // so that the sanitizers see what lies behind it
      Metadata metadata;
      const absl::Status status = ExtendWith(cut, metadata);
      ASSERT_TRUE(status.ok() || status.code() == absl::StatusCode::kDataLoss) << status;
      ASSERT_TRUE(file == &BpFiles::index || !status.ok() || metadata.steps() == all.steps());
      ASSERT_OK(LookAtAll(metadata));
      for (std::uint32_t step = 0; step < metadata.steps(); ++step) {
        ASSERT_EQ(metadata.index_end(step), all.index_end(step));
        ASSERT_EQ(metadata.metadata_end(step), all.metadata_end(step));
      }
      // What is missing comes, and all is as if it had been there at once.
      ASSERT_OK(ExtendWith(whole, metadata));
      ASSERT_EQ(metadata.steps(), all.steps());
    }
  }
}

TEST(MetadataVectorsTest, TruncationAtAnyByteLeavesAPrefixOfStepsOrAnError) {
  const std::optional<std::string> folder = VectorsPath("bp5");
  if (!folder.has_value()) return;
  for (const char* const name : {"tiny_w1", "append_w423", "legacy283_varshape_w2", "attrs_oldsimple_w2"}) {
    ExpectPrefixes(*folder + "/" + name + ".bp");
  }
}

TEST(MetadataVectorsTest, StepByStepIsTheSameAsAtOnce) {
  const std::optional<std::string> folder = VectorsPath("bp5");
  if (!folder.has_value()) return;
  for (const std::string& path : DirectoriesIn(*folder)) {
    SCOPED_TRACE(path);
    const BpFiles whole = ReadBpFiles(path);
    Metadata all, grown;
    ASSERT_OK(ExtendWith(whole, all));
    StepCursor cursor(grown);
    for (std::uint32_t step = 0; step < all.steps(); ++step) {
      Metadata::Tail tail = TailOf(whole, grown);
      tail.index = tail.index.first(all.index_end(step) - grown.index_bytes());
      tail.formats = tail.formats.first(all.formats_end(step) - grown.formats_bytes());
      tail.metadata = tail.metadata.first(all.metadata_end(step) - grown.metadata_bytes());
      EXPECT_FALSE(cursor.Next());
      ASSERT_OK(grown.Extend(tail));
      ASSERT_EQ(grown.steps(), step + 1);
      ASSERT_TRUE(cursor.Next());
      EXPECT_EQ(cursor.step(), step);
      for (VariableNumber v = 0; v < all.variables().size(); ++v) {
        const std::optional<VariableNumber> number = grown.FindVariable(all.variables()[v].name);
        const bool written = std::ranges::binary_search(all.variables()[v].steps, step);
        EXPECT_EQ(number.has_value() && cursor.Has(*number), written);
      }
    }
    ASSERT_OK(ExtendWith(whole, grown));  // formats and writer maps behind the last step
    EXPECT_EQ(TextOfAll(grown), TextOfAll(all));
  }
}

}  // namespace
}  // namespace cairn::bp5::testing

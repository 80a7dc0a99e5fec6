#include "tests/storage/file/bpdir/sample.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

namespace cairn::testing {
namespace {

template <typename T>
std::string Raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

bp5::Put Value(const std::string& name, bp5::Kind kind, bp5::Type type, std::string value) {
  bp5::Put put;
  put.name = name;
  put.kind = kind;
  put.type = type;
  put.value = std::move(value);
  return put;
}

// Appends the elements to the writer's data, of which the step's begins at `begin`.
template <typename T>
bp5::Put Array(const std::string& name, bp5::Kind kind, bp5::Type type, const Extents& shape, const Box& box,
               const std::vector<T>& values, bool statistics, std::size_t begin, std::string& data) {
  bp5::Put put;
  put.name = name;
  put.kind = kind;
  put.type = type;
  put.shape = shape;
  data.resize((data.size() + 7) / 8 * 8);
  put.blocks.push_back({.box = box, .location = data.size() - begin, .min_max = {}});
  if (statistics) put.blocks.back().min_max = Raw<T>({values.front(), values.back()});
  data += Raw(values);
  return put;
}

std::vector<bp5::Attribute> Attributes(std::int64_t step) {
  std::vector<bp5::Attribute> attributes(4);
  attributes[0].name = "title";
  attributes[0].type = bp5::Type::kString;
  attributes[0].strings = {"sample"};
  attributes[1].name = "a/unit";
  attributes[1].type = bp5::Type::kString;
  attributes[1].strings = {"K"};
  attributes[2].name = "a/scale";
  attributes[2].type = bp5::Type::kDouble;
  attributes[2].single = false;
  attributes[2].values = Raw<double>({1.5, 2.5});
  attributes[3].name = "steps";
  attributes[3].type = bp5::Type::kInt64;
  attributes[3].values = Raw<std::int64_t>({step});
  return attributes;
}

}  // namespace

SampleDirectory::SampleDirectory(const bp5::IndexOptions& options) : image_(options) {
  encoders_.resize(2);
}

bp5::EncodedStep SampleDirectory::EncodeWriter(std::size_t writer, std::string& data) {
  using enum bp5::Kind;
  using enum bp5::Type;
  const std::size_t begin = data.size();
  const double step = steps_, first = 100 * step + 6 * static_cast<double>(writer);
  const auto number = static_cast<std::int32_t>(steps_);
  std::vector<bp5::Put> puts;
  puts.push_back(Array<double>("a", kGlobalArray, kDouble, {4, 3}, {.start = {2 * writer, 0}, .count = {2, 3}},
                               {first, first + 1, first + 2, first + 3, first + 4, first + 5}, true, begin, data));
  puts.push_back(Value("n", kGlobalValue, kInt32, Raw<std::int32_t>({number})));
  puts.push_back(Value("title", kGlobalValue, kString, "step " + std::to_string(steps_)));
  if (steps_ % 2 == 0 || writer == 1) {
    puts.push_back(
        Value("who", kLocalValue, kUint16, Raw<std::uint16_t>({static_cast<std::uint16_t>(10 * writer + steps_)})));
  }
  puts.push_back(Array<float>("parts", kLocalArray, kFloat, {}, {.start = {0}, .count = {writer + 1}},
                              std::vector<float>(writer + 1, static_cast<float>(steps_)), true, begin, data));
  if (steps_ >= 2) puts.push_back(Value("late", kGlobalValue, kDouble, Raw<double>({step / 2})));
  puts.push_back(Array<std::int32_t>("holes", kGlobalArray, kInt32, {4}, {.start = {2 * writer}, .count = {1}},
                                     {number}, false, begin, data));
  data.resize((data.size() + 15) / 16 * 16);
  auto encoded = encoders_[writer].Encode(puts, data.size() - begin, Attributes(number));
  EXPECT_TRUE(encoded.ok()) << encoded.status();
  return *std::move(encoded);
}

void SampleDirectory::AddStep() {
  std::vector<bp5::EncodedStep> writers;
  std::vector<bp5::WriterData> data;
  for (std::size_t writer = 0; writer < 2; ++writer) {
    data.push_back({.flushed = {}, .position = data_[writer].size()});
    writers.push_back(EncodeWriter(writer, data_[writer]));
  }
  const std::vector<std::uint32_t> subfiles = {0, 1};
  image_.Append(writers, data, subfiles);
  index_ends_.push_back(image_.index().size());
  ++steps_;
}

void SampleDirectory::WriteTo(const std::string& directory) const {
  std::filesystem::create_directories(directory);
  for (std::size_t i = 0; i < data_.size(); ++i) WriteFile(directory + "/data." + std::to_string(i), data_[i]);
  WriteFile(directory + "/mmd.0", image_.formats());
  WriteFile(directory + "/md.0", image_.metadata());
  WriteFile(directory + "/md.idx", image_.index());
}

void WriteFile(const std::string& path, const std::string& bytes) {
  // In place, as a writer that goes on does: what is mapped stays.
  std::ofstream(path, std::ios::binary | std::ios::app).flush();
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file << bytes;
  file.close();
  ASSERT_FALSE(file.fail()) << path;
  std::filesystem::resize_file(path, bytes.size());
}

}  // namespace cairn::testing

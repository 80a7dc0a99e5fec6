// Inputs for bp5_fuzz to begin with: small directories of our own and, if given, those of ADIOS2.
//   bp5_corpus FOLDER [FOLDER OF ADIOS2'S DIRECTORIES]
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/format/bp5/encode.h"
#include "tests/fuzz/bp5_input.h"

namespace cairn::bp5 {
namespace {

constexpr std::size_t kInputBytesMax = 16 << 10;  // longer inputs only make it slow

void WriteInputs(const std::string& folder, const testing::BpFiles& files) {
  for (int use = 0; use < 4; ++use) {
    const std::string input =
        BytesOf({.ids_made_right = (use & 1) != 0, .in_two_tails = (use & 2) != 0, .files = files});
    if (input.size() > kInputBytesMax) return;
    std::ofstream out(folder + "/" + HexOf(Md5(std::as_bytes(std::span(input)))), std::ios::binary);
    out << input;
    out.close();
    CAIRN_CHECK(out.good());
  }
}

Put ArrayOf(const std::string& name, Kind kind, Type type, const Extents& shape, std::vector<PutBlock> blocks) {
  Put put;
  put.name = name;
  put.kind = kind;
  put.type = type;
  put.shape = shape;
  put.blocks = std::move(blocks);
  return put;
}

Put ValueOf(const std::string& name, Kind kind, Type type, const std::string& value) {
  Put put;
  put.name = name;
  put.kind = kind;
  put.type = type;
  put.value = value;
  return put;
}

std::vector<Put> PutsOf(std::uint32_t writer) {
  return {
      ValueOf("text", Kind::kGlobalValue, Type::kString, "hello"),
      ValueOf("n", Kind::kLocalValue, Type::kInt32, std::string(4, static_cast<char>(writer))),
      ArrayOf("x", Kind::kGlobalArray, Type::kFloat, {4, 2}, {{{{2 * writer, 0}, {2, 2}}, 0, std::string(8, '\1')}}),
      ArrayOf("l", Kind::kLocalArray, Type::kUint8, {}, {{{{}, {3}}, 16, "ab"}, {{{}, {5}}, 32, "cd"}}),
      ArrayOf("j", Kind::kJoinedArray, Type::kComplexDouble, {kJoinedMark, 2}, {{{{}, {1, 2}}, 48, ""}})};
}

// Two writers, two steps with flushes, attributes, formats that grow.
testing::BpFiles OwnFiles() {
  Attribute numbers, strings;
  numbers.name = "numbers";
  numbers.type = Type::kInt16;
  numbers.single = false;
  numbers.values = "abcdef";
  strings.name = "strings";
  strings.type = Type::kString;
  strings.single = false;
  strings.strings = {"one", "", "three"};
  const std::vector<Attribute> attributes = {numbers, strings};
  const std::vector<std::uint32_t> subfiles = {0, 1};
  testing::BpFiles files;
  files.index = EncodeIndexHeader({}) + EncodeWriterMap(subfiles, 2);
  std::vector<WriterEncoder> writers(2);
  for (int step = 0; step < 2; ++step) {
    std::vector<EncodedStep> steps;
    for (std::uint32_t w = 0; w < 2; ++w) {
      std::vector<Put> puts = PutsOf(w);
      if (step == 0) puts.resize(3);
      steps.push_back(*writers[w].Encode(puts, 96, attributes));
      files.formats += EncodeFormatEntry(*steps.back().format);
      files.formats += EncodeFormatEntry(*steps.back().attributes_format);
    }
    const std::string metadata = EncodeStepMetadata(steps);
    const std::vector<WriterData> data = {{{{0, 48}}, 4096}, {{{512, 48}}, 8192}};
    files.index += EncodeStepRecord(files.metadata.size(), metadata.size(), data);
    files.metadata += metadata;
  }
  return files;
}

int Main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: bp5_corpus FOLDER [FOLDER OF ADIOS2'S DIRECTORIES]\n");
    return 2;
  }
  WriteInputs(argv[1], OwnFiles());
  if (argc < 3) return 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[2])) {
    if (entry.path().extension() != ".bp") continue;
    const testing::BpFiles files = testing::ReadBpFiles(entry.path());
    if (files.index.size() + files.formats.size() + files.metadata.size() <= kInputBytesMax) {
      WriteInputs(argv[1], files);
    }
  }
  return 0;
}

}  // namespace
}  // namespace cairn::bp5

int main(int argc, char** argv) {
  return cairn::bp5::Main(argc, argv);
}

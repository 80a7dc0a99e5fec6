// Inputs for ftiff_fuzz to begin with: small files of each layout of our own and, if given, those of FTI.
//   ftiff_corpus FOLDER [FOLDER OF FTI'S FILES]
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/format/ftiff/codec.h"
#include "tests/fuzz/ftiff_input.h"
#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/support/gunzip.h"

namespace cairn::ftiff {
namespace {

constexpr std::size_t kFileBytesMax = 16 << 10;  // longer inputs only make it slow

void WriteInput(const std::string& folder, const InputKind& kind, const std::string& file) {
  const std::string input = static_cast<char>(ByteOf(kind)) + file;
  const std::string name = HexOf(Md5(std::as_bytes(std::span(input))));
  std::ofstream out(folder + "/" + name, std::ios::binary);
  out << input;
  out.close();
  CAIRN_CHECK(out.good());
}

// As it is, and so that its record is made right again after changes.
void WriteInputs(const std::string& folder, const std::string& file) {
  WriteInput(folder, {}, file);
  const ReadAt read = testing::ReaderOf(file);
  if (const auto metadata = DecodeMetadata("", file.size(), read); metadata.ok()) {
    WriteInput(folder, {.letter = metadata->letter, .encoded = false, .threads = 2}, file);
  } else if (const auto encoded = DecodeEncoded("", file.size(), read); encoded.ok()) {
    WriteInput(folder, {.letter = encoded->letter, .encoded = true, .threads = 1}, file);
  }
}

void WriteFilesOfFti(const std::string& folder, const std::string& from) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(from)) {
    const std::string extension = entry.path().extension().string();
    if (!entry.is_regular_file() || (extension != ".fti" && extension != ".gz")) continue;
    if (entry.file_size() > kFileBytesMax) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (extension == ".gz") bytes = ::cairn::testing::Gunzip(std::move(bytes), kFileBytesMax).value_or("");
    if (!bytes.empty()) WriteInputs(folder, bytes);
  }
}

int Main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: ftiff_corpus FOLDER [FOLDER OF FTI'S FILES]\n");
    return 2;
  }
  for (const Letter letter : testing::kLetters) {
    WriteInputs(argv[1], testing::FileOf(letter, testing::MixedLayout(), {.checkpoint_id = 1}));
    WriteInputs(argv[1], testing::FileOf(letter, *PlanFresh(std::vector<VariableSize>{{1, 0}}, Packing::kExact), {}));
    WriteInputs(argv[1], testing::CodeFileOf(letter, "these are code bytes" + std::string(200, 'c'), 190));
  }
  if (argc == 3) WriteFilesOfFti(argv[1], argv[2]);
  return 0;
}

}  // namespace
}  // namespace cairn::ftiff

int main(int argc, char** argv) {
  return cairn::ftiff::Main(argc, argv);
}

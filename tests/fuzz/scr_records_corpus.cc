// Inputs for scr_records_fuzz and kvtree_fuzz to begin with: Cairn's records and, if given, files of SCR.
//   scr_records_corpus FOLDER [FOLDER OF SCR'S FILES]
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/format/kvtree/tree.h"
#include "tests/fuzz/kvtree_input.h"
#include "tests/storage/format/scr/sample_records.h"

namespace cairn::kvtree {
namespace {

constexpr std::size_t kFileBytesMaxOfInput = 8 << 10;  // longer inputs only make it slow

void WriteInput(const std::string& folder, InputKind kind, const std::string& rest) {
  const std::string input = InputOf(kind, rest);
  std::ofstream out(folder + "/" + HexOf(Md5(std::as_bytes(std::span(input)))), std::ios::binary);
  out << input;
  out.close();
  CAIRN_CHECK(out.good());
}

void WriteInputs(const std::string& folder, const std::string& file) {
  WriteInput(folder, InputKind::kFile, file);
  const absl::StatusOr<Tree> tree = Decode("", file);
  if (!tree.ok()) return;
  const std::string own = Encode(*tree);
  WriteInput(folder, InputKind::kPacked, own.substr(20, own.size() - 24));
  WriteInput(folder, InputKind::kText, Print(*tree));
}

void WriteFilesOfScr(const std::string& folder, const std::string& from) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(from)) {
    if (!entry.is_regular_file() || entry.file_size() > kFileBytesMaxOfInput) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (bytes.starts_with("\x95\x1f\xc3\xf5")) WriteInputs(folder, bytes);
  }
}

int Main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: scr_records_corpus FOLDER [FOLDER OF SCR'S FILES]\n");
    return 2;
  }
  for (const auto& [name, tree] : testing::SampleRecords()) WriteInputs(argv[1], Encode(tree));
  if (argc == 3) WriteFilesOfScr(argv[1], argv[2]);
  return 0;
}

}  // namespace
}  // namespace cairn::kvtree

int main(int argc, char** argv) {
  return cairn::kvtree::Main(argc, argv);
}

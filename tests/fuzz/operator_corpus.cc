// Inputs for operator_fuzz to begin with: blocks of each operator, made with its library.
//   operator_corpus FOLDER
#include <fmt/format.h>

#include <fstream>
#include <string>

#include "storage/base/check.h"
#include "tests/fuzz/operator_input.h"
#include "tests/storage/format/bp5/operator_blocks.h"

namespace cairn::bp5 {
namespace {

class Corpus {
 public:
  explicit Corpus(std::string folder) : folder_(std::move(folder)) {}
  void Add(Type type, std::uint64_t bytes, const std::string& block) {
    std::ofstream out(fmt::format("{}/{}", folder_, count_++), std::ios::binary);
    out << InputOf(type, static_cast<std::uint32_t>(bytes), block);
    out.close();
    CAIRN_CHECK(out.good());
  }

 private:
  const std::string folder_;
  int count_ = 0;
};

void Write(Corpus& corpus) {
  const std::string doubles = testing::Doubles(256), floats = testing::Floats(256);
  corpus.Add(Type::kDouble, doubles.size(), testing::Bzip2Block(doubles));
  corpus.Add(Type::kDouble, doubles.size(), testing::RawBloscBlock(doubles));
  for (const char* const compressor : {"blosclz", "lz4", "lz4hc", "zlib", "zstd"}) {
    corpus.Add(Type::kDouble, doubles.size(), testing::BloscBlock(doubles, {.compressor = compressor}));
  }
  corpus.Add(Type::kFloat, floats.size(), testing::BloscBlock(floats, {.element_bytes = 4, .chunk_bytes = 300}));
  corpus.Add(Type::kFloat, floats.size(), testing::BloscBlock(floats, {.element_bytes = 4, .older = true}));
  for (const Type type : {Type::kDouble, Type::kInt64, Type::kComplexFloat}) {
    corpus.Add(type, doubles.size(), testing::ZfpBlock(doubles, type, {256}));
    corpus.Add(type, doubles.size(), testing::ZfpBlock(doubles, type, {4, 4, 4, 4}, {{"rate", "7.5"}}));
  }
  corpus.Add(Type::kFloat, floats.size(), testing::ZfpBlock(floats, Type::kFloat, {16, 16}, {{"accuracy", "0.01"}}));
  corpus.Add(Type::kFloat, floats.size(), testing::ZfpBlock(floats, Type::kFloat, {4, 8, 8}, {{"precision", "12"}}));
}

}  // namespace
}  // namespace cairn::bp5

int main(int argc, char** argv) {
  CAIRN_CHECK(argc > 1);
  cairn::bp5::Corpus corpus(argv[1]);
  cairn::bp5::Write(corpus);
  return 0;
}

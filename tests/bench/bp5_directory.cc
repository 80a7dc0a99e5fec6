#include "tests/bench/bp5_directory.h"

#include <fmt/format.h>

namespace cairn::bench {

bp5::Put GlobalDoubles(const std::string& name, std::uint64_t start, std::uint64_t shape, std::uint64_t location) {
  bp5::Put put;
  put.name = name;
  put.kind = bp5::Kind::kGlobalArray;
  put.type = bp5::Type::kDouble;
  put.shape = {shape};
  put.blocks.resize(1);
  put.blocks[0].box.start = {start};
  put.blocks[0].box.count = {16};
  put.blocks[0].location = location;
  const double bounds[2] = {-1, static_cast<double>(start)};
  put.blocks[0].min_max.assign(reinterpret_cast<const char*>(bounds), sizeof(bounds));
  return put;
}

std::vector<bp5::Put> PutsOf(std::uint32_t variables, std::uint32_t first, std::uint32_t writer,
                             std::uint32_t writers) {
  std::vector<bp5::Put> puts;
  for (std::uint32_t v = 0; v < variables; ++v) {
    puts.push_back(GlobalDoubles(fmt::format("variable_{:05}", first + v), 16 * writer, 16 * writers, 128 * v));
  }
  return puts;
}

bpdir::Image MakeDirectory(std::uint32_t variables, std::uint32_t writers, std::uint32_t steps, bool active) {
  bpdir::Image image({.active = active});
  std::vector<bp5::WriterEncoder> encoders(writers);
  std::vector<std::vector<bp5::Put>> puts;
  std::vector<std::uint32_t> subfiles;
  for (std::uint32_t w = 0; w < writers; ++w) {
    puts.push_back(PutsOf(variables, 0, w, writers));
    subfiles.push_back(w);
  }
  for (std::uint32_t step = 0; step < steps; ++step) {
    std::vector<bp5::EncodedStep> encoded;
    for (std::uint32_t w = 0; w < writers; ++w) encoded.push_back(*encoders[w].Encode(puts[w], 128 * variables));
    image.Append(encoded, std::vector<bp5::WriterData>(writers), subfiles);
  }
  return image;
}

}  // namespace cairn::bench

#include "tests/storage/format/bp5/operator_blocks.h"

#include <blosc.h>
#include <bzlib.h>
#include <zfp.h>

#include <algorithm>
#include <cmath>

#include "storage/base/check.h"

namespace cairn::bp5::testing {
namespace {

template <typename T>
void Add(T value, std::string& to) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Common(std::uint8_t number) {
  return {static_cast<char>(number), 1, 0, 0};
}

template <typename T>
std::string Wave(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) Add(static_cast<T>(std::sin(0.05 * static_cast<double>(i))), bytes);
  return bytes;
}

void AddText(const std::string& text, std::string& to) {
  Add(static_cast<std::uint8_t>(text.size()), to);
  to += text;
}

zfp_type ZfpTypeOf(Type type) {
  if (type == Type::kInt32) return zfp_type_int32;
  if (type == Type::kInt64) return zfp_type_int64;
  return type == Type::kFloat || type == Type::kComplexFloat ? zfp_type_float : zfp_type_double;
}

zfp_field* FieldOf(std::string& elements, Type type, const std::vector<std::uint64_t>& n) {
  const zfp_type zfp = ZfpTypeOf(type);
  if (n.size() == 1) return zfp_field_1d(elements.data(), zfp, n[0]);
  if (n.size() == 2) return zfp_field_2d(elements.data(), zfp, n[0], n[1]);
  if (n.size() == 3) return zfp_field_3d(elements.data(), zfp, n[0], n[1], n[2]);
  return zfp_field_4d(elements.data(), zfp, n[0], n[1], n[2], n[3]);
}

}  // namespace

std::string Bzip2Block(const std::string& elements) {
  std::string block = Common(1);
  Add<std::uint64_t>(elements.size(), block);
  Add<std::uint64_t>(1, block);
  std::string compressed(elements.size() + elements.size() / 100 + 600, '\0');
  auto bytes = static_cast<unsigned>(compressed.size());
  CAIRN_CHECK(BZ2_bzBuffToBuffCompress(compressed.data(), &bytes, const_cast<char*>(elements.data()),
                                       static_cast<unsigned>(elements.size()), 1, 0, 0) == BZ_OK);
  for (const std::size_t number : {std::size_t{0}, elements.size(), block.size() + 16, std::size_t{bytes}}) {
    Add(static_cast<std::uint32_t>(number), block);
  }
  return block + compressed.substr(0, bytes);
}

std::string BloscBlock(const std::string& elements, const BloscOptions& options) {
  std::string chunks;
  std::uint32_t count = 0;
  for (std::size_t begin = 0; begin < elements.size(); begin += options.chunk_bytes) {
    const std::size_t bytes = std::min(options.chunk_bytes, elements.size() - begin);
    std::string chunk(bytes + BLOSC_MAX_OVERHEAD, '\0');
    const int made = blosc_compress_ctx(5, BLOSC_SHUFFLE, options.element_bytes, bytes, elements.data() + begin,
                                        chunk.data(), chunk.size(), options.compressor.c_str(), 0, 1);
    CAIRN_CHECK(made > 0);
    chunks += chunk.substr(0, static_cast<std::size_t>(made));
    ++count;
  }
  std::string block = Common(0);
  Add<std::uint64_t>(elements.size(), block);
  block += "\1\x15\3";
  if (!options.older) {
    Add<std::uint32_t>(0, block);
    Add(count, block);
  }
  return block + chunks;
}

std::string RawBloscBlock(const std::string& elements) {
  std::string block = Common(0);
  Add<std::uint64_t>(elements.size(), block);
  block += "\1\x15\3";
  Add<std::uint64_t>(0, block);
  return block + elements;
}

std::string ZfpBlock(const std::string& elements, Type type, const std::vector<std::uint64_t>& extents,
                     const Parameters& parameters, std::size_t merged_to) {
  std::string block = Common(7);
  Add<std::uint64_t>(extents.size(), block);
  for (const std::uint64_t extent : extents) Add(extent, block);
  Add(static_cast<std::uint32_t>(type), block);
  block += "\1" + std::string(2, '\0');
  Add(static_cast<std::uint8_t>(parameters.size()), block);
  for (const auto& [name, value] : parameters) {
    AddText(name, block);
    AddText(value, block);
  }
  std::vector<std::uint64_t> merged = extents;
  std::erase(merged, 1u);
  while (merged.size() > merged_to) {
    merged[1] *= merged[0];
    merged.erase(merged.begin());
  }
  if (type == Type::kComplexFloat || type == Type::kComplexDouble) merged.back() *= 2;
  std::string copy = elements;
  zfp_field* const field = FieldOf(copy, type, merged);
  zfp_stream* const stream = zfp_stream_open(nullptr);
  for (const auto& [name, value] : parameters) {
    if (name == "accuracy") zfp_stream_set_accuracy(stream, std::stod(value));
    if (name == "precision") zfp_stream_set_precision(stream, static_cast<unsigned>(std::stoul(value)));
    if (name == "rate") {
      zfp_stream_set_rate(stream, std::stod(value), ZfpTypeOf(type), static_cast<unsigned>(merged.size()), 0);
    }
  }
  std::string compressed(zfp_stream_maximum_size(stream, field), '\0');
  bitstream* const bits = stream_open(compressed.data(), compressed.size());
  zfp_stream_set_bit_stream(stream, bits);
  zfp_stream_rewind(stream);
  const std::size_t bytes = zfp_compress(stream, field);
  CAIRN_CHECK(bytes > 0);
  stream_close(bits);
  zfp_stream_close(stream);
  zfp_field_free(field);
  return block + compressed.substr(0, bytes);
}

std::string Doubles(std::size_t count) {
  return Wave<double>(count);
}
std::string Floats(std::size_t count) {
  return Wave<float>(count);
}

}  // namespace cairn::bp5::testing

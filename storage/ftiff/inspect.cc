#include "storage/ftiff/inspect.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "storage/base/check.h"

namespace cairn::ftiff {
namespace {

// Calls `visit` with each block's first container and its containers.
template <typename Visit>
void ForEachBlock(const FileLayout& layout, Visit visit) {
  std::size_t first = 0;
  for (const std::uint32_t count : layout.block_containers) {
    CAIRN_CHECK(count <= layout.containers.size() - first);
    visit(first, std::span(layout.containers).subspan(first, count));
    first += count;
  }
  CAIRN_CHECK(first == layout.containers.size());
}

std::uint64_t BytesOf(std::span<const Container> containers) {
  std::uint64_t bytes = 0;
  for (const Container& container : containers) bytes += container.container_bytes;
  return bytes;
}

}  // namespace

std::string DescribeText(const FileMetadata& metadata, std::string_view name) {
  const FileLayout& layout = metadata.layout;
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{}: FTI-FF layout F, {} blocks, {} chunks\n", name, layout.block_containers.size(),
                 layout.containers.size());
  const auto field = [&out](std::string_view label, const auto& value) {
    fmt::format_to(out, "  {:<12} {}\n", label, value);
  };
  field("checksum", metadata.checksum_hex);
  field("myHash", HexOf(metadata.record_hash));
  field("ckptId", metadata.header.checkpoint_id);
  field("ckptSize", metadata.file_bytes);
  field("metaSize", metadata.file_bytes - layout.data_bytes);
  field("dataSize", layout.data_bytes);
  field("fs", metadata.file_bytes);
  field("maxFs", metadata.header.file_bytes_max);
  field("ptFs", metadata.header.partner_bytes);
  field("timestamp", metadata.header.timestamp_ns);
  std::size_t block = 0;
  ForEachBlock(layout, [&](std::size_t first, std::span<const Container> containers) {
    fmt::format_to(out, "\nblock {}: numvars {}, dbsize {}\n", ++block, containers.size(), BytesOf(containers));
    fmt::format_to(out, "  {:>10} {:>11} {:>10} {:>15} {:>15} {:>15} {:>15}  {}\n", "id", "containerid", "hascontent",
                   "dptr", "fptr", "chunksize", "containersize", "hash");
    for (std::size_t i = 0; i < containers.size(); ++i) {
      const Container& c = containers[i];
      fmt::format_to(out, "  {:>10} {:>11} {:>10} {:>15} {:>15} {:>15} {:>15}  {}\n", c.id, c.index,
                     c.has_content ? 1 : 0, c.variable_offset, c.file_offset, c.chunk_bytes, c.container_bytes,
                     HexOf(metadata.chunk_hashes[first + i]));
    }
  });
  return text;
}

nlohmann::json DescribeJson(const FileMetadata& metadata, std::string_view name) {
  const FileLayout& layout = metadata.layout;
  nlohmann::json blocks = nlohmann::json::array();
  ForEachBlock(layout, [&](std::size_t first, std::span<const Container> containers) {
    nlohmann::json chunks = nlohmann::json::array();
    for (std::size_t i = 0; i < containers.size(); ++i) {
      const Container& c = containers[i];
      chunks.push_back({{"id", c.id},
                        {"containerid", c.index},
                        {"hascontent", c.has_content},
                        {"hasCkpt", c.in_file_before},
                        {"dptr", c.variable_offset},
                        {"fptr", c.file_offset},
                        {"chunksize", c.chunk_bytes},
                        {"containersize", c.container_bytes},
                        {"hash", HexOf(metadata.chunk_hashes[first + i])}});
    }
    blocks.push_back({{"numvars", containers.size()}, {"dbsize", BytesOf(containers)}, {"chunks", std::move(chunks)}});
  });
  nlohmann::json file = {{"checksum", metadata.checksum_hex},
                         {"myHash", HexOf(metadata.record_hash)},
                         {"ckptId", metadata.header.checkpoint_id},
                         {"ckptSize", metadata.file_bytes},
                         {"metaSize", metadata.file_bytes - layout.data_bytes},
                         {"dataSize", layout.data_bytes},
                         {"fs", metadata.file_bytes},
                         {"maxFs", metadata.header.file_bytes_max},
                         {"ptFs", metadata.header.partner_bytes},
                         {"timestamp", metadata.header.timestamp_ns}};
  return {{"name", std::string(name)}, {"layout", "F"}, {"file", std::move(file)}, {"blocks", std::move(blocks)}};
}

}  // namespace cairn::ftiff

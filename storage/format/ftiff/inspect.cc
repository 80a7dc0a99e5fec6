#include "storage/format/ftiff/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/size_text.h"
#include "storage/format/ftiff/records.h"

namespace cairn::ftiff {
namespace {

bool RecordsComeFirst(Letter letter) {
  return letter == Letter::kA || letter == Letter::kB;
}

struct BlockView {
  std::uint64_t meta_offset = 0;  // of the block record in the file
  std::uint64_t dbsize = 0;       // as the layout counts it
  std::size_t first = 0;          // of its containers
  std::span<const Container> containers;
};

std::vector<BlockView> BlocksOf(const FileMetadata& metadata) {
  const FileLayout& layout = metadata.layout;
  const RecordTable& table = TableOf(metadata.letter);
  const bool records_first = RecordsComeFirst(metadata.letter);
  CAIRN_CHECK(metadata.chunk_hashes.size() == layout.containers.size());
  std::vector<BlockView> blocks;
  std::size_t first = 0;
  std::uint64_t meta_offset = records_first ? table.file_record_bytes : layout.data_bytes;
  for (const std::uint32_t count : layout.block_containers) {
    CAIRN_CHECK(count <= layout.containers.size() - first);
    BlockView block{
        .meta_offset = meta_offset, .first = first, .containers = std::span(layout.containers).subspan(first, count)};
    for (const Container& container : block.containers) block.dbsize += container.container_bytes;
    const std::uint64_t records = table.block_record_bytes + std::uint64_t{count} * table.chunk_record_bytes;
    if (records_first) block.dbsize += records;
    meta_offset += records_first ? block.dbsize : records;
    first += count;
    blocks.push_back(block);
  }
  CAIRN_CHECK(first == layout.containers.size());
  return blocks;
}

struct VariableView {
  std::int32_t id = 0;
  std::uint64_t bytes = 0;
  std::size_t containers = 0, empty = 0;
};

// In the order of first appearance.
std::vector<VariableView> VariablesOf(const FileLayout& layout) {
  std::vector<VariableView> variables;
  std::map<std::int32_t, std::size_t> places;
  for (const Container& container : layout.containers) {
    const auto [place, is_new] = places.try_emplace(container.id, variables.size());
    if (is_new) variables.push_back({.id = container.id});
    VariableView& variable = variables[place->second];
    variable.bytes += container.chunk_bytes;
    ++variable.containers;
    if (!container.has_content) ++variable.empty;
  }
  return variables;
}

std::uint64_t RecordOffset(const FileMetadata& metadata) {
  return RecordsComeFirst(metadata.letter) ? 0 : metadata.file_bytes - TableOf(metadata.letter).file_record_bytes;
}

bool HasFullTime(Letter letter) {
  return letter != Letter::kE && letter != Letter::kF;
}

// The number as the file has it: signed but in F. -1, all ones, where the clock failed.
std::int64_t TimestampOf(Letter letter, std::uint64_t timestamp_ns) {
  return letter == Letter::kE ? static_cast<std::int32_t>(timestamp_ns) : static_cast<std::int64_t>(timestamp_ns);
}

std::string TimeNote(Letter letter, std::uint64_t timestamp_ns) {
  if (!HasFullTime(letter)) return "the low 32 bits of the nanoseconds since 1970: tells no time";
  if (timestamp_ns == ~std::uint64_t{0}) return "the writer's clock failed";
  const auto seconds = static_cast<std::time_t>(timestamp_ns / 1'000'000'000);
  std::tm parts{};
  std::array<char, 64> text{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "nanoseconds since 1970";
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

std::string_view LayoutNote(Letter letter) {
  switch (letter) {
    case Letter::kA:
    case Letter::kB:
      return "the file record, then block after block: its records, then its containers";
    default:
      return "all containers, then the records of all blocks, the file record last";
  }
}

// "1 block", "2 blocks".
std::string Count(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::size_t DigitsOf(std::uint64_t number) {
  return fmt::formatted_size("{}", number);
}

// Collects lines.
class Listing {
 public:
  template <typename... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_.erase(text_.find_last_not_of(' ') + 1);
    text_ += '\n';
  }
  // A field of the file record, and what it means.
  template <typename Value>
  void Field(std::string_view label, const Value& value, std::string_view note) {
    Line("  {:<10} {:<20} {}", label, value, note);
  }
  void Size(std::string_view label, std::uint64_t bytes, std::string_view note) {
    Line("  {:<10} {:<20} {:>10}  {}", label, bytes, SizeText(bytes), note);
  }
  // -1 where it does not apply.
  void MaybeSize(std::string_view label, std::int64_t bytes, std::string_view note, std::string_view note_if_not) {
    if (bytes < 0) {
      Line("  {:<10} {:<20} {:>10}  {}", label, bytes, "-", note_if_not);
    } else {
      Size(label, static_cast<std::uint64_t>(bytes), note);
    }
  }
  // Too long for the column of numbers.
  void Hash(std::string_view label, std::string_view hex, std::string_view note) {
    Line("  {:<10} {:<32}  {}", label, hex, note);
  }

  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void ListHead(const FileMetadata& metadata, std::string_view name, std::span<const VariableView> variables,
              Listing& out) {
  const FileLayout& layout = metadata.layout;
  const auto empty = static_cast<std::size_t>(std::count_if(layout.containers.begin(), layout.containers.end(),
                                                            [](const Container& c) { return !c.has_content; }));
  std::uint64_t bytes = 0;
  for (const VariableView& variable : variables) bytes += variable.bytes;
  out.Line("{}: FTI-FF checkpoint file, layout {}", name, static_cast<char>(metadata.letter));
  out.Line("  written by  {}", ReleasesOf(metadata.letter));
  out.Line("  in order    {}", LayoutNote(metadata.letter));
  out.Line("  holds       {} of {}, in {} of {}{}", SizeText(bytes), Count(variables.size(), "variable"),
           Count(layout.containers.size(), "container"), Count(layout.block_containers.size(), "block"),
           empty == 0 ? "" : fmt::format("; {} empty", Count(empty, "container") + (empty == 1 ? " is" : " are")));
}

void ListFileRecord(const FileMetadata& metadata, Listing& out) {
  const bool has_parts = TableOf(metadata.letter).meta_bytes.bytes != 0;
  out.Line("");
  out.Line("file record at offset {}", RecordOffset(metadata));
  if (TableOf(metadata.letter).checkpoint_id.bytes == 0) {
    out.Field("ckptId", "-", "not in this layout: only the file's name tells it");
  } else {
    out.Field("ckptId", metadata.header.checkpoint_id, "number of the checkpoint");
  }
  out.Size("ckptSize", metadata.file_bytes, "the whole file");
  if (has_parts) {
    out.Size("metaSize", metadata.file_bytes - metadata.layout.data_bytes, "all records");
    out.Size("dataSize", metadata.layout.data_bytes, "all containers");
  }
  out.Size("fs", metadata.file_bytes, "the same as ckptSize");
  out.MaybeSize("maxFs", metadata.header.file_bytes_max, "level 3: what its group's files were filled up to",
                "not level 3");
  out.MaybeSize("ptFs", metadata.header.partner_bytes, "level 2: the left neighbour's file", "not level 2");
  out.Field("timestamp", TimestampOf(metadata.letter, metadata.header.timestamp_ns),
            TimeNote(metadata.letter, metadata.header.timestamp_ns));
  out.Hash("checksum", metadata.checksum_hex,
           metadata.letter == Letter::kA   ? "MD5 of all behind this record"
           : metadata.letter == Letter::kB ? "MD5 of all chunks"
                                           : "MD5 of the chunks' hashes");
  out.Hash("myHash", HexOf(metadata.record_hash), "MD5 of this record");
}

void ListVariables(std::span<const VariableView> variables, Listing& out) {
  std::size_t id_width = 2, bytes_width = 5;
  for (const VariableView& variable : variables) {
    id_width = std::max(id_width, fmt::formatted_size("{}", variable.id));
    bytes_width = std::max(bytes_width, DigitsOf(variable.bytes));
  }
  out.Line("");
  out.Line("variables");
  out.Line("  {:>{}}  {:>{}}  {:>10}  containers", "id", id_width, "bytes", bytes_width, "");
  for (const VariableView& variable : variables) {
    out.Line("  {:>{}}  {:>{}}  {:>10}  {}{}", variable.id, id_width, variable.bytes, bytes_width,
             SizeText(variable.bytes), variable.containers,
             variable.empty == 0 ? "" : fmt::format(", {} empty", variable.empty));
  }
}

struct ChunkColumns {
  std::size_t id = 2, dptr = 4, fptr = 4, size = 13;
};

ChunkColumns ColumnsOf(const FileLayout& layout) {
  ChunkColumns columns;
  for (const Container& c : layout.containers) {
    columns.id = std::max(columns.id, fmt::formatted_size("{}", c.id));
    columns.dptr = std::max(columns.dptr, DigitsOf(c.variable_offset));
    columns.fptr = std::max(columns.fptr, DigitsOf(c.file_offset));
    columns.size = std::max(columns.size, DigitsOf(c.container_bytes));
  }
  return columns;
}

std::string_view FillOf(const Container& container) {
  if (!container.has_content) return "empty";
  return container.chunk_bytes < container.container_bytes ? "partly filled" : "";
}

void ListBlock(const FileMetadata& metadata, const BlockView& block, std::size_t number, const ChunkColumns& columns,
               Listing& out) {
  out.Line("");
  out.Line("block {}: numvars {}, dbsize {} ({}), records at offset {}", number, block.containers.size(), block.dbsize,
           SizeText(block.dbsize), block.meta_offset);
  out.Line("  {:>{}}  containerid  hascontent  {:>{}}  {:>{}}  {:>{}}  {:>{}}  hash", "id", columns.id, "dptr",
           columns.dptr, "fptr", columns.fptr, "chunksize", columns.size, "containersize", columns.size);
  for (std::size_t i = 0; i < block.containers.size(); ++i) {
    const Container& c = block.containers[i];
    out.Line("  {:>{}}  {:>11}  {:>10}  {:>{}}  {:>{}}  {:>{}}  {:>{}}  {}  {}", c.id, columns.id, c.index,
             c.has_content ? 1 : 0, c.variable_offset, columns.dptr, c.file_offset, columns.fptr, c.chunk_bytes,
             columns.size, c.container_bytes, columns.size, HexOf(metadata.chunk_hashes[block.first + i]), FillOf(c));
  }
}

std::string_view NameOf(const EncodedFile& encoded) {
  switch (encoded.letter) {
    case Letter::kA:
      return "A";
    case Letter::kB:
      return "B";
    case Letter::kC:
      return "C or D";
    case Letter::kD:
      return "D";
    case Letter::kE:
      return "E";
    case Letter::kF:
      return "F";
  }
  return "";
}

std::string ReleasesOf(const EncodedFile& encoded) {
  const std::string releases(ReleasesOf(encoded.letter));
  return encoded.letter == Letter::kC ? fmt::format("{} or {}", releases, ReleasesOf(Letter::kD)) : releases;
}

}  // namespace

std::string_view ReleasesOf(Letter letter) {
  switch (letter) {
    case Letter::kA:
      return "FTI 1.1 (2018), or Cairn";
    case Letter::kB:
      return "FTI 1.2 (2018)";
    case Letter::kC:
      return "FTI 1.3 (2019)";
    case Letter::kD:
      return "FTI 1.4.0 (2020)";
    case Letter::kE:
      return "FTI 1.4.1 to 1.6 (2020 to 2021)";
    case Letter::kF:
      return "FTI after 1.6 (2022), or Cairn";
  }
  return "";
}

std::string DescribeText(const FileMetadata& metadata, std::string_view name) {
  Listing out;
  const std::vector<VariableView> variables = VariablesOf(metadata.layout);
  ListHead(metadata, name, variables, out);
  ListFileRecord(metadata, out);
  ListVariables(variables, out);
  const ChunkColumns columns = ColumnsOf(metadata.layout);
  std::size_t number = 0;
  for (const BlockView& block : BlocksOf(metadata)) ListBlock(metadata, block, ++number, columns, out);
  return out.Take();
}

std::string DescribeText(const EncodedFile& encoded, std::string_view name) {
  Listing out;
  out.Line("{}: FTI-FF level 3 code file, layout {}", name, NameOf(encoded));
  out.Line("  written by  {}", ReleasesOf(encoded));
  out.Line("  in order    the code bytes, then the file record");
  out.Line("  holds       no variables: {} that help to rebuild lost checkpoint files of this rank's group",
           SizeText(encoded.code_bytes));
  out.Line("");
  out.Line("file record at offset {}", encoded.code_bytes);
  if (TableOf(encoded.letter).checkpoint_id.bytes == 0) {
    out.Field("ckptId", "-", "not in this layout: only the file's name tells it");
  } else {
    out.Field("ckptId", encoded.checkpoint_id, "number of the checkpoint; arbitrary after a repair");
  }
  out.Size("ckptSize", encoded.checkpoint_bytes, "the checkpoint file of the same rank");
  out.Size("fs", encoded.code_bytes, "code bytes");
  out.Size("maxFs", encoded.code_bytes, "what its group's files were filled up to");
  out.MaybeSize("ptFs", -1, "", "not level 2");
  out.Field("timestamp", TimestampOf(encoded.letter, encoded.timestamp_ns),
            TimeNote(encoded.letter, encoded.timestamp_ns));
  out.Hash("checksum", encoded.checksum_hex, "MD5 of the code bytes");
  out.Hash("myHash", HexOf(encoded.record_hash), "MD5 of this record");
  return out.Take();
}

namespace {

nlohmann::json BlockJson(const FileMetadata& metadata, const BlockView& block) {
  nlohmann::json chunks = nlohmann::json::array();
  for (std::size_t i = 0; i < block.containers.size(); ++i) {
    const Container& c = block.containers[i];
    nlohmann::json chunk = {{"id", c.id},
                            {"containerid", c.index},
                            {"hascontent", c.has_content},
                            {"dptr", c.variable_offset},
                            {"fptr", c.file_offset},
                            {"chunksize", c.chunk_bytes},
                            {"containersize", c.container_bytes},
                            {"hash", HexOf(metadata.chunk_hashes[block.first + i])}};
    if (metadata.letter != Letter::kA) chunk["hasCkpt"] = c.in_file_before;
    if (!metadata.chunk_indexes.empty()) chunk["idx"] = metadata.chunk_indexes[block.first + i];
    chunks.push_back(std::move(chunk));
  }
  return {{"numvars", block.containers.size()},
          {"dbsize", block.dbsize},
          {"meta_offset", block.meta_offset},
          {"chunks", std::move(chunks)}};
}

}  // namespace

nlohmann::json DescribeJson(const FileMetadata& metadata, std::string_view name) {
  const RecordTable& table = TableOf(metadata.letter);
  nlohmann::json file = {{"checksum", metadata.checksum_hex},
                         {"myHash", HexOf(metadata.record_hash)},
                         {"ckptSize", metadata.file_bytes},
                         {"fs", metadata.file_bytes},
                         {"maxFs", metadata.header.file_bytes_max},
                         {"ptFs", metadata.header.partner_bytes},
                         {"timestamp", TimestampOf(metadata.letter, metadata.header.timestamp_ns)}};
  if (table.checkpoint_id.bytes != 0) file["ckptId"] = metadata.header.checkpoint_id;
  if (table.meta_bytes.bytes != 0) {
    file["metaSize"] = metadata.file_bytes - metadata.layout.data_bytes;
    file["dataSize"] = metadata.layout.data_bytes;
  }
  nlohmann::json variables = nlohmann::json::array(), blocks = nlohmann::json::array();
  for (const VariableView& variable : VariablesOf(metadata.layout)) {
    variables.push_back({{"id", variable.id}, {"bytes", variable.bytes}, {"containers", variable.containers}});
  }
  for (const BlockView& block : BlocksOf(metadata)) blocks.push_back(BlockJson(metadata, block));
  return {{"name", std::string(name)},
          {"layout", std::string(1, static_cast<char>(metadata.letter))},
          {"releases", std::string(ReleasesOf(metadata.letter))},
          {"record_offset", RecordOffset(metadata)},
          {"file", std::move(file)},
          {"variables", std::move(variables)},
          {"blocks", std::move(blocks)}};
}

nlohmann::json DescribeJson(const EncodedFile& encoded, std::string_view name) {
  nlohmann::json file = {{"checksum", encoded.checksum_hex},
                         {"myHash", HexOf(encoded.record_hash)},
                         {"ckptSize", encoded.checkpoint_bytes},
                         {"fs", encoded.code_bytes},
                         {"maxFs", encoded.code_bytes},
                         {"ptFs", -1},
                         {"timestamp", TimestampOf(encoded.letter, encoded.timestamp_ns)}};
  if (TableOf(encoded.letter).checkpoint_id.bytes != 0) file["ckptId"] = encoded.checkpoint_id;
  return {{"name", std::string(name)},
          {"layout", std::string(NameOf(encoded))},
          {"releases", ReleasesOf(encoded)},
          {"record_offset", encoded.code_bytes},
          {"file", std::move(file)}};
}

}  // namespace cairn::ftiff

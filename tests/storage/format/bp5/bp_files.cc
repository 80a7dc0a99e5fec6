#include "tests/storage/format/bp5/bp_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn::bp5::testing {
namespace {

constexpr std::size_t kIdBytes = 12, kEntryHeadBytes = 28;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::span<const std::byte> BytesFrom(const std::string& file, std::uint64_t from) {
  return std::as_bytes(std::span(file)).subspan(std::min<std::uint64_t>(from, file.size()));
}

void AddBytes(const std::byte* at, std::size_t bytes, std::string& text) {
  for (std::size_t i = 0; i < bytes; ++i)
    fmt::format_to(std::back_inserter(text), "{:02x}", std::to_integer<int>(at[i]));
}

std::string TextOf(const std::optional<MinMax>& min_max, std::uint32_t element_bytes) {
  if (!min_max.has_value()) return "none";
  std::string text;
  AddBytes(min_max->min.data(), element_bytes, text);
  AddBytes(min_max->max.data(), element_bytes, text += "..");
  return text;
}

// Goes over all, in order, and writes down what it sees.
class Looker {
 public:
  Looker(const Metadata& metadata, const Placed& placed, std::string* text)
      : metadata_(metadata), placed_(placed), text_(text) {}

  absl::Status Look() {
    for (VariableNumber v = 0; v < metadata_.variables().size(); ++v) CAIRN_RETURN_IF_ERROR(LookAtVariable(v));
    for (std::uint32_t step = 0; step < metadata_.steps(); ++step) LookAtStep(step);
    if (metadata_.steps() == 0) return absl::OkStatus();
    const std::uint32_t last = metadata_.steps() - 1;
    CAIRN_ASSIGN_OR_RETURN(const auto attributes, metadata_.Attributes(last));
    for (const auto& [name, attribute] : attributes) {
      Say("attribute {} {} {} {} {}", name, NameOf(attribute.type), attribute.single, attribute.values,
          fmt::join(attribute.strings, "|"));
    }
    CAIRN_ASSIGN_OR_RETURN(const auto subfiles, metadata_.SubfileBytes(last));
    for (const auto& [subfile, bytes] : subfiles) Say("subfile {} {}", subfile, bytes);
    return absl::OkStatus();
  }

 private:
  template <typename... Args>
  void Say(fmt::format_string<Args...> format, Args&&... args) {
    if (text_ == nullptr) return;
    fmt::format_to(std::back_inserter(*text_), format, std::forward<Args>(args)...);
    text_->push_back('\n');
  }

  absl::Status LookAtVariable(VariableNumber v) {
    const Variable& variable = metadata_.variables()[v];
    CAIRN_CHECK(metadata_.FindVariable(variable.name) == v);
    Say("variable {} {} {} {} {} {} {} {}", v, variable.name, static_cast<char>(variable.kind), NameOf(variable.type),
        variable.element_bytes, variable.dimensions, variable.has_operator, fmt::join(variable.steps, ","));
    for (const std::uint32_t step : variable.steps) {
      CAIRN_RETURN_IF_ERROR(IsArray(variable.kind) ? LookAtBlocks(v, step) : LookAtValues(v, step));
      CAIRN_ASSIGN_OR_RETURN(const std::optional<MinMax> min_max, metadata_.MinMaxOf(v, step));
      Say("  min/max {}", TextOf(min_max, variable.element_bytes));
    }
    CAIRN_ASSIGN_OR_RETURN(const std::optional<MinMax> min_max, metadata_.MinMaxOf(v));
    Say(" min/max {}", TextOf(min_max, variable.element_bytes));
    return absl::OkStatus();
  }

  absl::Status LookAtBlocks(VariableNumber v, std::uint32_t step) {
    BlockWalk walk = metadata_.Blocks(v, step);
    std::uint64_t blocks = 0;
    while (walk.Next()) {
      const Block& block = walk.block();
      CAIRN_CHECK(block.id == blocks && block.writer < metadata_.writers(step));
      ++blocks;
      const Box box = block.ToBox();
      Say("  step {} writer {} block {} [{}] + [{}] at {}, {} bytes, {} {}", step, block.writer, block.index,
          fmt::join(box.start, ","), fmt::join(box.count, ","), block.location, block.stored_bytes, block.has_operator,
          block.min == nullptr ? "none" : BytesText(block.min, metadata_.variables()[v].element_bytes));
      if (placed_ == nullptr || block.location == kNotStored) continue;
      CAIRN_ASSIGN_OR_RETURN(const DataPlace place,
                             metadata_.Place(step, block.writer, block.location, block.stored_bytes));
      CAIRN_RETURN_IF_ERROR(placed_(place, block.stored_bytes));
    }
    CAIRN_RETURN_IF_ERROR(walk.status());
    CAIRN_ASSIGN_OR_RETURN(const std::uint32_t dimensions, metadata_.Dimensions(v, step));
    if (blocks == 0) return absl::OkStatus();
    CAIRN_ASSIGN_OR_RETURN(const Extents shape, metadata_.Shape(v, step));
    CAIRN_CHECK(metadata_.variables()[v].kind == Kind::kLocalArray || shape.size() == dimensions);
    Say("  shape [{}]", fmt::join(shape, ","));
    return absl::OkStatus();
  }

  absl::Status LookAtValues(VariableNumber v, std::uint32_t step) {
    const Variable& variable = metadata_.variables()[v];
    std::uint32_t written = 0;
    for (std::uint32_t writer = 0; writer < metadata_.writers(step); ++writer) {
      const bool there = metadata_.Find(v, step, writer) != nullptr;
      written += there;
      if (variable.type == Type::kString) {
        const absl::StatusOr<std::string_view> text = metadata_.String(v, step, writer);
        if (there && !text.ok()) return text.status();
        CAIRN_CHECK(there == text.ok());
        if (there) Say("  step {} writer {}: {}", step, writer, *text);
      } else {
        const absl::StatusOr<std::span<const std::byte>> value = metadata_.Scalar(v, step, writer);
        CAIRN_CHECK(there == value.ok());
        if (there) Say("  step {} writer {}: {}", step, writer, BytesText(value->data(), value->size()));
      }
    }
    CAIRN_CHECK(written > 0 && metadata_.FirstWriter(v, step).ok());
    return absl::OkStatus();
  }

  void LookAtStep(std::uint32_t step) {
    Say("step {}: {} writers, {} flushes, ends {} {} {}", step, metadata_.writers(step), metadata_.flushes(step),
        metadata_.index_end(step), metadata_.metadata_end(step), metadata_.formats_end(step));
    for (std::uint32_t writer = 0; writer < metadata_.writers(step); ++writer) {
      const Metadata::RecordPlace record = metadata_.Record(step, writer);
      CAIRN_CHECK(record.format != nullptr && record.format->top().fixed_bytes <= record.body.size());
      Say(" writer {}: subfile {}, record at {}, {} bytes, {} of data", writer, metadata_.subfile(step, writer),
          record.offset, record.body.size(), metadata_.data_block_bytes(step, writer));
    }
    for (const Metadata::RecordPlace& record : metadata_.AttributeRecords(step)) {
      Say(" attributes at {}, {} bytes", record.offset, record.body.size());
    }
  }

  static std::string BytesText(const std::byte* at, std::size_t bytes) {
    std::string text;
    AddBytes(at, bytes, text);
    return text;
  }

  const Metadata& metadata_;
  const Placed& placed_;
  std::string* const text_;
};

}  // namespace

BpFiles ReadBpFiles(const std::string& directory) {
  return {ReadFile(directory + "/md.idx"), ReadFile(directory + "/mmd.0"), ReadFile(directory + "/md.0")};
}

std::vector<std::string> DirectoriesIn(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".bp") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

Metadata::Tail TailOf(const BpFiles& files, const Metadata& before) {
  return {BytesFrom(files.index, before.index_bytes()), BytesFrom(files.formats, before.formats_bytes()),
          before.metadata_bytes(), BytesFrom(files.metadata, before.metadata_bytes())};
}

absl::Status ExtendWith(const BpFiles& files, Metadata& metadata) {
  return metadata.Extend(TailOf(files, metadata));
}

void MakeIdsRight(BpFiles& files) {
  std::map<std::string, std::string> right;  // by the one before
  std::string& formats = files.formats;
  for (std::size_t at = 0; formats.size() - at >= kEntryHeadBytes;) {
    std::uint64_t bytes;
    std::memcpy(&bytes, &formats[at + 8], sizeof(bytes));
    const std::size_t block = at + kEntryHeadBytes;
    if (bytes > formats.size() - block || bytes < 8) break;
    const auto byte = [&](std::size_t i) { return std::size_t{static_cast<unsigned char>(formats[block + i])}; };
    const std::size_t length = byte(6) << 24 | byte(7) << 16 | byte(0) << 8 | byte(1);
    if (length <= bytes) {
      const FormatId id = IdOf(std::as_bytes(std::span(formats)).subspan(block, length));
      const std::string made(reinterpret_cast<const char*>(id.bytes.data()), kIdBytes);
      right.emplace(formats.substr(at + 16, kIdBytes), made);
      formats.replace(at + 16, kIdBytes, made);
    }
    at = block + bytes;
  }
  for (std::size_t at = 0; at + kIdBytes <= files.metadata.size(); at += 8) {
    const auto found = right.find(files.metadata.substr(at, kIdBytes));
    if (found != right.end()) files.metadata.replace(at, kIdBytes, found->second);
  }
}

absl::Status LookAtAll(const Metadata& metadata, const Placed& placed) {
  return Looker(metadata, placed, nullptr).Look();
}

std::string TextOfAll(const Metadata& metadata) {
  std::string text;
  const absl::Status status = Looker(metadata, nullptr, &text).Look();
  if (!status.ok()) text += MessageOf(status);
  return text;
}

}  // namespace cairn::bp5::testing

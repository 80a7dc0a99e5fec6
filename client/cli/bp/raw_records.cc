// Records by their formats. Source: BP5 specification, sections 5 to 8. What is read here was not checked beyond the
// record's length: every place is looked at before it is used, and no list is followed further than the record goes.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "client/cli/bp/raw.h"
#include "client/cli/bp/value.h"
#include "client/cli/text.h"
#include "storage/format/bp5/format.h"

namespace cairn::cli {
namespace {

constexpr std::uint64_t kValuesShown = 1024;  // of a list; how many more there are is said
constexpr int kDepthMax = 8;
constexpr std::uint64_t kFieldsMin = 1 << 16;
constexpr std::string_view kIndent = "      ";

class RecordText {
 public:
  RecordText(const bp5::Format& format, std::span<const std::byte> body, TextOut& out)
      : format_(format), body_(body), out_(out), fields_left_(kFieldsMin + body.size()) {}

  void Write() { WriteStructure(format_.top(), 0, 0); }

 private:
  bool Fits(std::uint64_t at, std::uint64_t bytes) const { return at <= body_.size() && bytes <= body_.size() - at; }

  std::optional<std::uint64_t> U64At(std::uint64_t at) const {
    if (!Fits(at, 8)) return std::nullopt;
    std::uint64_t number = 0;
    std::memcpy(&number, body_.data() + at, 8);
    return number;
  }

  void WriteStructure(const bp5::Structure& structure, std::uint64_t base, int depth) {
    for (const bp5::Field& field : structure.fields) {
      if (out_.broken() || fields_left_ == 0) return;
      if (--fields_left_ == 0) return out_.Write(fmt::format("{}… lists that lie in one another\n", kIndent));
      out_.Write(fmt::format("{}{:<6} {}{}", kIndent, base + field.offset,
                             std::string(2 * static_cast<std::size_t>(depth), ' '), Quoted(field.name)));
      WriteField(structure, field, base, depth);
    }
  }

  void WriteField(const bp5::Structure& structure, const bp5::Field& field, std::uint64_t base, int depth) {
    const auto type = bp5::ParseFieldType(field.type);
    const std::uint64_t at = base + field.offset;
    if (!type) return out_.Write(" ?\n");
    const bool is_string = type->base == bp5::FieldType::Base::kString;
    if (!type->Elsewhere() && !is_string) return WriteItems(*type, field.element_bytes, at, type->fixed_count, depth);
    const auto target = U64At(at);
    if (!target) return out_.Write(": behind the record's end\n");
    if (*target == 0) return out_.Write(": null\n");
    out_.Write(fmt::format(" -> {}", *target));
    if (is_string && type->length_field.empty()) return WriteString(*target);
    std::uint64_t count = 1;
    if (!type->length_field.empty()) {
      const auto counted = CountOf(structure, type->length_field, base);
      if (!counted) return out_.Write(": of unknown length\n");
      count = *counted;
    }
    WriteItems(*type, field.element_bytes, *target, count, depth);
  }

  std::optional<std::uint64_t> CountOf(const bp5::Structure& structure, std::string_view name,
                                       std::uint64_t base) const {
    for (const bp5::Field& field : structure.fields) {
      if (field.name == name && field.element_bytes == 8) return U64At(base + field.offset);
    }
    return std::nullopt;
  }

  void WriteString(std::uint64_t at) {
    if (!Fits(at, 1)) return out_.Write(": behind the record's end\n");
    const char* const text = reinterpret_cast<const char*>(body_.data() + at);
    out_.Write(fmt::format(": {}\n", Quoted({text, strnlen(text, body_.size() - at)})));
  }

  // `count` items from `at` on, each of `type.fixed` elements where the count is another field's.
  void WriteItems(const bp5::FieldType& type, std::uint32_t element_bytes, std::uint64_t at, std::uint64_t count,
                  int depth) {
    const std::uint64_t each = type.length_field.empty() ? 1 : type.fixed_count;
    const std::uint64_t left = at <= body_.size() ? (body_.size() - at) / std::max(element_bytes, 1u) / each : 0;
    if (count > left) return out_.Write(fmt::format(": {} where {} have room\n", count, left));
    const std::uint64_t elements = count * each;
    const std::uint64_t shown = std::min(elements, kValuesShown);
    if (type.base == bp5::FieldType::Base::kString) {
      WriteStrings(at, shown);
    } else if (const bp5::Structure* const inner = format_.Find(type.word); inner != nullptr) {
      WriteInner(*inner, element_bytes, at, shown, depth);
    } else {
      WriteNumbers(bp5::NumberTypeOf(type.base, element_bytes), element_bytes, at, shown);
    }
    if (shown < elements) out_.Write(fmt::format("{}       … and {} more\n", kIndent, elements - shown));
  }

  void WriteStrings(std::uint64_t at, std::uint64_t count) {
    out_.Write("\n");
    for (std::uint64_t i = 0; i < count && !out_.broken(); ++i) {
      const auto target = U64At(at + 8 * i);
      out_.Write(fmt::format("{}{:<6}   [{}]", kIndent, at + 8 * i, i));
      if (!target || *target == 0) {
        out_.Write(": null\n");
      } else {
        out_.Write(fmt::format(" -> {}", *target));
        WriteString(*target);
      }
    }
  }

  void WriteInner(const bp5::Structure& inner, std::uint32_t element_bytes, std::uint64_t at, std::uint64_t count,
                  int depth) {
    out_.Write(fmt::format(": {}\n", Clean(inner.name)));
    if (depth >= kDepthMax || inner.fixed_bytes > element_bytes) return;
    for (std::uint64_t i = 0; i < count && !out_.broken(); ++i) {
      if (count > 1) out_.Write(fmt::format("{}{:<6}   [{}]\n", kIndent, at + i * element_bytes, i));
      WriteStructure(inner, at + i * element_bytes, depth + 1);
    }
  }

  void WriteNumbers(std::optional<bp5::Type> type, std::uint32_t element_bytes, std::uint64_t at, std::uint64_t count) {
    std::string text = ":";
    if (!type || *type == bp5::Type::kChar) {
      text += " " + HexOf(body_.subspan(at, count * element_bytes));
    } else {
      for (std::uint64_t i = 0; i < count; ++i) {
        text += " ";
        AppendExact(text, *type, body_.data() + at + i * element_bytes);
      }
    }
    out_.Write(text + "\n");
  }

  const bp5::Format& format_;
  const std::span<const std::byte> body_;
  TextOut& out_;
  std::uint64_t fields_left_;  // a damaged record may name the same bytes over and over
};

void WriteRecord(std::string_view whose, const bp5::Metadata::RecordPlace& record, TextOut& out) {
  if (record.format == nullptr) return;
  out.Write(fmt::format("  {}: record at {}, format {} ({}), body of {} bytes\n", whose, record.offset,
                        record.format->id.Hex(), Clean(record.format->top().name), record.body.size()));
  RecordText(*record.format, record.body, out).Write();
}

}  // namespace

void WriteRawRecords(const bp5::Metadata& metadata, TextOut& out) {
  out.Write("md.0: offsets of fields count from the record's base\n");
  for (std::uint32_t step = 0; step < metadata.steps(); ++step) {
    out.Write(fmt::format("step {}:\n", step));
    for (std::uint32_t writer = 0; writer < metadata.writers(step) && !out.broken(); ++writer) {
      WriteRecord(fmt::format("writer {}", writer), metadata.Record(step, writer), out);
    }
    for (const bp5::Metadata::RecordPlace& record : metadata.AttributeRecords(step)) {
      if (out.broken()) return;
      WriteRecord("attributes", record, out);
    }
  }
}

}  // namespace cairn::cli

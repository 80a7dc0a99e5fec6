#include "storage/format/kvtree/json.h"

#include <cstddef>

namespace cairn::kvtree {
namespace {

constexpr std::string_view kHexMark = "hex:";
constexpr std::string_view kDigits = "0123456789abcdef";

unsigned char ByteAt(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// Of the well-formed UTF-8 character that `text` begins with (Unicode 15, table 3-7); 0: none.
std::size_t CharacterBytes(std::string_view text) {
  const unsigned char first = ByteAt(text, 0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((ByteAt(text, i) & 0xc0) != 0x80) return 0;
  }
  // Longer than need be, halves of UTF-16, and what lies beyond the last character.
  const unsigned char second = ByteAt(text, 1);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return wrong ? 0 : bytes;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

void AppendHex(unsigned char byte, std::string& text) {
  text += kDigits[byte >> 4];
  text += kDigits[byte & 15];
}

// `text` is UTF-8.
void AppendString(std::string_view text, std::string& json) {
  json += '"';
  while (!text.empty()) {
    const std::size_t bytes = CharacterBytes(text);
    const unsigned char first = ByteAt(text, 0);
    if (first == '"' || first == '\\') {
      json += '\\';
      json += text[0];
    } else if (first < 0x20 || first == 0x7f) {
      json += "\\u00";
      AppendHex(first, json);
    } else if (bytes == 2 && first == 0xc2 && ByteAt(text, 1) < 0xa0) {
      json += "\\u00";  // U+0080 to U+009F: control characters, too
      AppendHex(ByteAt(text, 1), json);
    } else {
      json += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  json += '"';
}

void AppendTree(const Tree& tree, std::string& json) {
  json += '[';
  bool first = true;
  for (const auto& [key, child] : tree.elements()) {
    if (!first) json += ',';
    first = false;
    json += '[';
    AppendString(KeyText(key), json);
    json += ',';
    AppendTree(child, json);
    json += ']';
  }
  json += ']';
}

}  // namespace

std::string KeyText(std::string_view key) {
  if (IsUtf8(key) && !key.starts_with(kHexMark)) return std::string(key);
  std::string text(kHexMark);
  for (std::size_t at = 0; at < key.size(); ++at) AppendHex(ByteAt(key, at), text);
  return text;
}

std::string JsonText(const Tree& tree) {
  std::string json;
  AppendTree(tree, json);
  return json;
}

}  // namespace cairn::kvtree

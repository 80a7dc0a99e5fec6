#include "tests/fuzz/kvtree_input.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/format/kvtree/tree.h"

namespace cairn::kvtree {
namespace {

constexpr std::size_t kKinds = 3;

std::string Big(std::uint64_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) text.push_back(static_cast<char>(value >> shift));
  return text;
}

std::string FileOfPacked(std::string_view packed) {
  std::string file = Big(0x951fc3f5, 4) + Big(0x00010001, 4) + Big(24 + packed.size(), 8) + Big(1, 4);
  file += packed;
  return file + Big(Crc32(std::as_bytes(std::span(file))), 4);
}

struct Line {
  std::size_t depth;  // the root's keys have 1
  std::string_view key;
};

// Any text is one: a line that is indented too far goes below the one before.
std::vector<Line> LinesOf(std::string_view text) {
  std::vector<Line> lines;
  std::size_t depth = 0;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('\0'));
    const std::size_t spaces = std::min(line.find_first_not_of(' '), line.size());
    depth = std::clamp<std::size_t>(spaces / 2, 1, std::min<std::size_t>(depth + 1, kDepthMax));
    lines.push_back({depth, line.substr(spaces)});
  }
  return lines;
}

Tree TreeOf(std::string_view text) {
  Tree root;
  std::vector<Tree*> path = {&root};  // each may be changed: those behind it are not used again
  for (const Line& line : LinesOf(text)) {
    path.resize(line.depth);
    path.push_back(&path.back()->At(line.key));
  }
  return root;
}

}  // namespace

std::string FileOfInput(std::string_view input) {
  if (input.empty()) return {};
  const std::string_view rest = input.substr(1);
  switch (static_cast<InputKind>(static_cast<unsigned char>(input[0]) % kKinds)) {
    case InputKind::kFile:
      return std::string(rest);
    case InputKind::kPacked:
      return FileOfPacked(rest);
    case InputKind::kText:
      return Encode(TreeOf(rest));
  }
  return {};
}

std::string InputOf(InputKind kind, std::string_view rest) {
  return static_cast<char>(kind) + std::string(rest);
}

}  // namespace cairn::kvtree

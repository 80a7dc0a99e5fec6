// Any bytes as a kvtree file: decoding answers with a status or with a tree that encodes and decodes to itself, and
// that can be shown, sorted and merged.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "storage/base/check.h"
#include "storage/format/kvtree/json.h"
#include "storage/format/kvtree/tree.h"
#include "tests/fuzz/kvtree_input.h"

namespace cairn::kvtree {
namespace {

void Sort(const Tree& tree) {
  Tree sorted = tree;
  for (const SortBy by : {SortBy::kText, SortBy::kNumber}) {
    for (const Direction direction : {Direction::kAscending, Direction::kDescending}) {
      const auto keys = tree.SortedKeys(by, direction);
      sorted.SortLevel(by, direction);
      CAIRN_CHECK(keys.size() == sorted.size() && sorted.SameAs(tree));
      for (std::size_t at = 0; at < keys.size(); ++at) CAIRN_CHECK(sorted.elements()[at].first == keys[at]);
    }
  }
  sorted.Sort();
  CAIRN_CHECK(sorted.SameAs(tree));
}

void DecodeAndBack(std::string_view file) {
  std::uint64_t declared = 0;
  const auto tree = Decode("input", file, &declared);
  if (!tree.ok()) return;
  CAIRN_CHECK(declared <= file.size());
  CAIRN_CHECK(Encodable(*tree).ok());
  const auto again = Decode("again", Encode(*tree));
  CAIRN_CHECK(again.ok() && again->SameAs(*tree));
  CAIRN_CHECK(Print(*again) == Print(*tree));
  CAIRN_CHECK(nlohmann::json::accept(JsonText(*tree)));
  Sort(*tree);
  Tree merged = *tree;
  merged.Merge(*again);
  CAIRN_CHECK(merged.SameAs(*tree));
}

}  // namespace
}  // namespace cairn::kvtree

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cairn::kvtree::DecodeAndBack(cairn::kvtree::FileOfInput({reinterpret_cast<const char*>(data), size}));
  return 0;
}

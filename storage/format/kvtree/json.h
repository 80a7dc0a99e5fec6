// A tree as JSON, exact: whatever the keys are, two trees that differ have texts that differ. Pure.
#ifndef CAIRN_STORAGE_FORMAT_KVTREE_JSON_H_
#define CAIRN_STORAGE_FORMAT_KVTREE_JSON_H_

#include <string>
#include <string_view>

#include "storage/format/kvtree/tree.h"

namespace cairn::kvtree {

// A key as text: itself, or "hex:" and its bytes in lower-case digits if it is not UTF-8, or begins with "hex:" itself.
std::string KeyText(std::string_view key);

// Nested [key, [children]] pairs in file order, on one line: [["SIZE",[["10",[]]]]] has one value. Keys as KeyText.
// Control characters are escaped, so that a terminal can be shown it.
std::string JsonText(const Tree& tree);

}  // namespace cairn::kvtree

#endif  // CAIRN_STORAGE_FORMAT_KVTREE_JSON_H_

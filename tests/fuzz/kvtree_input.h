// What the inputs of kvtree_fuzz and scr_records_fuzz are. The CRC would turn nearly every one away, and counts most of
// the rest; so the first byte chooses how much of a file the rest of the input is.
#ifndef CAIRN_TESTS_FUZZ_KVTREE_INPUT_H_
#define CAIRN_TESTS_FUZZ_KVTREE_INPUT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::kvtree {

enum class InputKind : std::uint8_t {
  kFile,    // the file as it is
  kPacked,  // the packed tree of a file that is right otherwise
  kText,    // the tree as SCR's printer shows it, in a file that is right
};

// The file that an input stands for.
std::string FileOfInput(std::string_view input);

// An input of that kind. `rest` as the kind says.
std::string InputOf(InputKind kind, std::string_view rest);

}  // namespace cairn::kvtree

#endif  // CAIRN_TESTS_FUZZ_KVTREE_INPUT_H_

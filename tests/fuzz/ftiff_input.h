// What the first byte of an input of ftiff_fuzz means.
#ifndef CAIRN_TESTS_FUZZ_FTIFF_INPUT_H_
#define CAIRN_TESTS_FUZZ_FTIFF_INPUT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "storage/format/ftiff/letter.h"

namespace cairn::ftiff {

struct InputKind {
  std::optional<Letter> letter;  // whose file record is made right; none: the file is taken as it is
  bool encoded = false;          // as a level 3 code file
  std::size_t threads = 1;       // that verify
};

InputKind InputKindOf(std::uint8_t byte);
std::uint8_t ByteOf(const InputKind& kind);

// Makes sizes, checksum (of C to F) and hash of the file record fit the rest of the file, if it is long enough.
void MakeRight(const InputKind& kind, std::string* file);

}  // namespace cairn::ftiff

#endif  // CAIRN_TESTS_FUZZ_FTIFF_INPUT_H_

// The six layouts of FTI-FF, as its specification names them (section 1). All are read, A and F are written.
#ifndef CAIRN_STORAGE_FORMAT_FTIFF_LETTER_H_
#define CAIRN_STORAGE_FORMAT_FTIFF_LETTER_H_

namespace cairn::ftiff {

enum class Letter : char {
  kA = 'A',  // the documented one: metadata in front of each block
  kB = 'B',
  kC = 'C',
  kD = 'D',
  kE = 'E',  // 32-bit sizes
  kF = 'F',  // the current one: containers first, all metadata at the end
};

// Layouts A and B leave the number of the checkpoint to the file's name.
constexpr bool HoldsCheckpointId(Letter letter) {
  return letter != Letter::kA && letter != Letter::kB;
}

// Whether it holds the order in which the writing run registered its variables (idx).
constexpr bool HoldsRegistration(Letter letter) {
  return letter == Letter::kA || letter == Letter::kB || letter == Letter::kC;
}

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FORMAT_FTIFF_LETTER_H_

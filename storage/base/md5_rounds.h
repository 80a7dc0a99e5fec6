// The 64 steps of MD5 (RFC 1321, 3.4) over vectors of lanes, for md5_avx512.cc and md5_avx2.cc only.
// `Lanes` is a struct of the including file's anonymous namespace, so that each instance is that file's own:
//   Vector                           32-bit words, one of each lane
//   Add, Rotate<n>, F, G, H, I, Set  of RFC 1321 on each word; Set copies one word to all lanes
#ifndef CAIRN_STORAGE_BASE_MD5_ROUNDS_H_
#define CAIRN_STORAGE_BASE_MD5_ROUNDS_H_

#include <cstddef>
#include <cstdint>
#include <utility>

namespace cairn::md5 {

inline constexpr std::uint32_t kSines[64] = {
    // floor(2^32 * |sin(i + 1)|), RFC 1321, 3.4
    0xd76aa478u, 0xe8c7b756u, 0x242070dbu, 0xc1bdceeeu, 0xf57c0fafu, 0x4787c62au, 0xa8304613u, 0xfd469501u,
    0x698098d8u, 0x8b44f7afu, 0xffff5bb1u, 0x895cd7beu, 0x6b901122u, 0xfd987193u, 0xa679438eu, 0x49b40821u,
    0xf61e2562u, 0xc040b340u, 0x265e5a51u, 0xe9b6c7aau, 0xd62f105du, 0x02441453u, 0xd8a1e681u, 0xe7d3fbc8u,
    0x21e1cde6u, 0xc33707d6u, 0xf4d50d87u, 0x455a14edu, 0xa9e3e905u, 0xfcefa3f8u, 0x676f02d9u, 0x8d2a4c8au,
    0xfffa3942u, 0x8771f681u, 0x6d9d6122u, 0xfde5380cu, 0xa4beea44u, 0x4bdecfa9u, 0xf6bb4b60u, 0xbebfbc70u,
    0x289b7ec6u, 0xeaa127fau, 0xd4ef3085u, 0x04881d05u, 0xd9d4d039u, 0xe6db99e5u, 0x1fa27cf8u, 0xc4ac5665u,
    0xf4292244u, 0x432aff97u, 0xab9423a7u, 0xfc93a039u, 0x655b59c3u, 0x8f0ccc92u, 0xffeff47du, 0x85845dd1u,
    0x6fa87e4fu, 0xfe2ce6e0u, 0xa3014314u, 0x4e0811a1u, 0xf7537e82u, 0xbd3af235u, 0x2ad7d2bbu, 0xeb86d391u,
};
inline constexpr int kShifts[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

constexpr std::size_t MessageWord(std::size_t step) {
  constexpr std::size_t kFactor[4] = {1, 5, 3, 7};
  constexpr std::size_t kStart[4] = {0, 1, 5, 0};
  return (kFactor[step / 16] * (step % 16) + kStart[step / 16]) % 16;
}

// Instead of moving a to d, d to c and so on after each step, the names of the four words turn.
// All groups take a step together: while one waits for its own result, the others keep the processor busy.
template <typename Lanes, std::size_t kGroups, std::size_t kStep>
[[gnu::always_inline]] inline void Step(typename Lanes::Vector (&s)[4][kGroups],
                                        const typename Lanes::Vector (&message)[16][kGroups]) {
  constexpr std::size_t kRound = kStep / 16;
  constexpr std::size_t a = (64 - kStep) % 4, b = (a + 1) % 4, c = (a + 2) % 4, d = (a + 3) % 4;
  for (std::size_t g = 0; g < kGroups; ++g) {
    // The sum that does not need b, which is the newest, comes first: it is off the critical path.
    auto sum = Lanes::Add(s[a][g], Lanes::Add(message[MessageWord(kStep)][g], Lanes::Set(kSines[kStep])));
    typename Lanes::Vector mixed;
    if constexpr (kRound == 0) mixed = Lanes::F(s[b][g], s[c][g], s[d][g]);
    if constexpr (kRound == 1) mixed = Lanes::G(s[b][g], s[c][g], s[d][g]);
    if constexpr (kRound == 2) mixed = Lanes::H(s[b][g], s[c][g], s[d][g]);
    if constexpr (kRound == 3) mixed = Lanes::I(s[b][g], s[c][g], s[d][g]);
    sum = Lanes::Add(sum, mixed);
    s[a][g] = Lanes::Add(Lanes::template Rotate<kShifts[kRound][kStep % 4]>(sum), s[b][g]);
  }
}

template <typename Lanes, std::size_t kGroups>
[[gnu::always_inline]] inline void Compress(typename Lanes::Vector (&state)[4][kGroups],
                                            const typename Lanes::Vector (&message)[16][kGroups]) {
  typename Lanes::Vector s[4][kGroups];
  for (std::size_t w = 0; w < 4; ++w) {
    for (std::size_t g = 0; g < kGroups; ++g) s[w][g] = state[w][g];
  }
  [&]<std::size_t... kSteps>(std::index_sequence<kSteps...>) {
    (Step<Lanes, kGroups, kSteps>(s, message), ...);
  }
  (std::make_index_sequence<64>());
  for (std::size_t w = 0; w < 4; ++w) {
    for (std::size_t g = 0; g < kGroups; ++g) state[w][g] = Lanes::Add(state[w][g], s[w][g]);
  }
}

}  // namespace cairn::md5

#endif  // CAIRN_STORAGE_BASE_MD5_ROUNDS_H_

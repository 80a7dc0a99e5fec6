// A hash of variable ids for maps over ids that come from files. A file may have as many ids of one bucket as it likes
// where it knows what they hash to: with this, it does not.
#ifndef CAIRN_STORAGE_FORMAT_FTIFF_ID_HASH_H_
#define CAIRN_STORAGE_FORMAT_FTIFF_ID_HASH_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

namespace cairn::ftiff {

// Random, the same for as long as the process lives.
std::uint64_t IdHashSeed();

class IdHash {
 public:
  IdHash() : seed_(IdHashSeed()) {}
  explicit IdHash(std::uint64_t seed) : seed_(seed) {}

  // The last steps of SplitMix64, after which each bit depends on all those of the seed and of what is mixed. Ids that
  // follow each other, as most do, stay together: 1024 of them, which do not meet, so that memory is used in order.
  std::size_t operator()(std::int32_t id) const noexcept {
    constexpr std::uint32_t kTogether = 1024;
    const auto number = static_cast<std::uint32_t>(id);
    std::uint64_t mixed = seed_ + number / kTogether * std::uint64_t{0x9e3779b97f4a7c15};
    mixed = (mixed ^ (mixed >> 30)) * std::uint64_t{0xbf58476d1ce4e5b9};
    mixed = (mixed ^ (mixed >> 27)) * std::uint64_t{0x94d049bb133111eb};
    return (mixed ^ (mixed >> 31)) + number % kTogether;
  }

 private:
  std::uint64_t seed_;
};

template <typename Value>
using IdMap = std::unordered_map<std::int32_t, Value, IdHash>;
using IdSet = std::unordered_set<std::int32_t, IdHash>;

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FORMAT_FTIFF_ID_HASH_H_

// Finds an element of a wide level by its key in constant time, also when the keys were chosen by an attacker: the hash
// is keyed with a secret of the process.
#ifndef CAIRN_STORAGE_FORMAT_KVTREE_KEY_INDEX_H_
#define CAIRN_STORAGE_FORMAT_KVTREE_KEY_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace cairn::kvtree {

// Positions by key, by open addressing. The keys stay with the owner, who passes `key_at(position)`.
class KeyIndex {
 public:
  // The position whose key is `key`.
  template <typename KeyAt>
  std::optional<std::uint32_t> Find(std::string_view key, KeyAt key_at) const {
    if (slots_.empty()) return std::nullopt;
    const std::uint32_t hash = HashOf(key);
    for (std::size_t at = hash & mask(); slots_[at].used(); at = (at + 1) & mask()) {
      if (slots_[at].hash == hash && key_at(slots_[at].position()) == key) return slots_[at].position();
    }
    return std::nullopt;
  }

  // REQUIRES: neither the key nor the position is there.
  void Insert(std::string_view key, std::uint32_t position);

  // Forgets a position and moves those above it down by one. REQUIRES: `key` is at `position`.
  void Erase(std::string_view key, std::uint32_t position);

  std::size_t size() const { return count_; }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t position_plus_1 = 0;  // 0: free

    bool used() const { return position_plus_1 != 0; }
    std::uint32_t position() const { return position_plus_1 - 1; }
  };

  static std::uint32_t HashOf(std::string_view key);
  std::size_t mask() const { return slots_.size() - 1; }
  void Place(Slot slot);
  void Grow();

  std::vector<Slot> slots_;  // a power of two, at most half of them used
  std::size_t count_ = 0;
};

}  // namespace cairn::kvtree

#endif  // CAIRN_STORAGE_FORMAT_KVTREE_KEY_INDEX_H_

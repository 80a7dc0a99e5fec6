#include "storage/format/kvtree/key_index.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "storage/base/check.h"

namespace cairn::kvtree {
namespace {

constexpr std::size_t kSlotsMin = 64;

// The state of SipHash (Aumasson and Bernstein, 2012), here with one round per word and three at the end: enough
// against chosen keys when the result is never shown.
struct SipState {
  std::uint64_t a, b, c, d;

  void Round() {
    a += b;
    b = std::rotl(b, 13) ^ a;
    a = std::rotl(a, 32);
    c += d;
    d = std::rotl(d, 16) ^ c;
    a += d;
    d = std::rotl(d, 21) ^ a;
    c += b;
    b = std::rotl(b, 17) ^ c;
    c = std::rotl(c, 32);
  }
  void Absorb(std::uint64_t word) {
    d ^= word;
    Round();
    a ^= word;
  }
};

SipState KeyedState() {
  static const std::array<std::uint64_t, 2> secret = [] {
    std::array<std::uint64_t, 2> words{};
    // The kernel never interrupts or cuts short a request this small.
    CAIRN_CHECK(::getrandom(words.data(), sizeof(words), 0) == static_cast<ssize_t>(sizeof(words)));
    return words;
  }();
  return {secret[0] ^ 0x736f6d6570736575, secret[1] ^ 0x646f72616e646f6d, secret[0] ^ 0x6c7967656e657261,
          secret[1] ^ 0x7465646279746573};
}

}  // namespace

std::uint32_t KeyIndex::HashOf(std::string_view key) {
  SipState state = KeyedState();
  const std::uint64_t length_byte = static_cast<std::uint64_t>(key.size()) << 56;
  for (; key.size() >= 8; key.remove_prefix(8)) {
    std::uint64_t word;
    std::memcpy(&word, key.data(), 8);
    state.Absorb(word);
  }
  std::uint64_t rest = 0;
  if (!key.empty()) std::memcpy(&rest, key.data(), key.size());
  state.Absorb(rest | length_byte);
  state.c ^= 0xff;
  for (int i = 0; i < 3; ++i) state.Round();
  return static_cast<std::uint32_t>(state.a ^ state.b ^ state.c ^ state.d);
}

void KeyIndex::Place(Slot slot) {
  std::size_t at = slot.hash & mask();
  while (slots_[at].used()) at = (at + 1) & mask();
  slots_[at] = slot;
}

void KeyIndex::Grow() {
  const std::vector<Slot> before = std::exchange(slots_, {});
  slots_.resize(std::max(kSlotsMin, before.size() * 2));
  for (const Slot& slot : before) {
    if (slot.used()) Place(slot);
  }
}

void KeyIndex::Insert(std::string_view key, std::uint32_t position) {
  CAIRN_CHECK(position < std::numeric_limits<std::uint32_t>::max() / 4);
  if (++count_ * 2 > slots_.size()) Grow();
  Place({.hash = HashOf(key), .position_plus_1 = position + 1});
}

void KeyIndex::Erase(std::string_view key, std::uint32_t position) {
  std::size_t hole = HashOf(key) & mask();
  while (slots_[hole].position_plus_1 != position + 1) {
    CAIRN_CHECK(slots_[hole].used());
    hole = (hole + 1) & mask();
  }
  // What probing would no longer reach across the hole moves into it, and leaves the next hole.
  for (std::size_t at = (hole + 1) & mask(); slots_[at].used(); at = (at + 1) & mask()) {
    const std::size_t home = slots_[at].hash & mask();
    if (((at - home) & mask()) >= ((at - hole) & mask())) slots_[std::exchange(hole, at)] = slots_[at];
  }
  slots_[hole] = {};
  --count_;
  for (Slot& slot : slots_) slot.position_plus_1 -= slot.position_plus_1 > position + 1 ? 1 : 0;
}

}  // namespace cairn::kvtree

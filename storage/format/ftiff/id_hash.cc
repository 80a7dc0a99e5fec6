#include "storage/format/ftiff/id_hash.h"

#include <chrono>
#include <exception>
#include <random>

namespace cairn::ftiff {
namespace {

std::uint64_t MakeSeed() {
  try {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
  } catch (const std::exception&) {  // no source of random numbers: what files cannot know will do
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
}

}  // namespace

std::uint64_t IdHashSeed() {
  static const std::uint64_t seed = MakeSeed();
  return seed;
}

}  // namespace cairn::ftiff

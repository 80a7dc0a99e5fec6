// What a checkpoint's variables are called in its view, so that each name means one thing: the same kind, type and
// number of dimensions in every step and on every rank, and in a step the same shape.
#ifndef CAIRN_STORAGE_FORMAT_VIEW_NAMES_H_
#define CAIRN_STORAGE_FORMAT_VIEW_NAMES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "storage/base/box.h"
#include "storage/base/ids.h"
#include "storage/format/bp5/types.h"

namespace cairn::view {

class Names {
 public:
  struct Meaning {
    bp5::Kind kind = bp5::Kind::kLocalArray;
    bp5::Type type = bp5::Type::kUint8;
    std::size_t dimensions = 0;
    bool value = false;  // one for all ranks: the lowest one's counts
    friend bool operator==(const Meaning&, const Meaning&) = default;
  };

  void BeginStep() { ++step_; }
  // The name for variable `id` of `rank`, which calls it `name`: that, or if it means something else already
  // `<name>#<id>`, or `<name>#<id>#<n>` with n from 2. nullopt: a value that a lower rank has given.
  // REQUIRES: ranks rise within a step. `shape`: of global arrays.
  std::optional<std::string> Take(Rank rank, std::string_view name, std::int32_t id, const Meaning& meaning,
                                  std::span<const std::uint64_t> shape);

 private:
  struct Use {
    Meaning meaning;
    std::uint64_t step = 0;  // the last one,
    Rank rank = 0;           // and its last rank
    Extents shape;
  };
  std::unordered_map<std::string, Use> uses_;
  std::uint64_t step_ = 0;
};

}  // namespace cairn::view

#endif  // CAIRN_STORAGE_FORMAT_VIEW_NAMES_H_

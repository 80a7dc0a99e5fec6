// Which run a directory is, or a cache belongs to, and which it was before. Pure.
#ifndef CAIRN_STORAGE_PLACE_RUN_IDENTITY_H_
#define CAIRN_STORAGE_PLACE_RUN_IDENTITY_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

#include "storage/base/ids.h"

namespace cairn {

struct RunIdentity {
  RunIdentity() = default;
  RunIdentity(const RunId& id) : run(id) {}  // NOLINT: a run that never had another

  RunId run;  // all zeros: not known
  // What this directory, or those that it was copied from, were before: what was made under these is its own.
  std::set<RunId> before;
  std::optional<RunId> parent;  // it is a branch of this run
  std::uint64_t number = 0;     // k of .cairn/run.<k>; 0: run
  bool made_now = false;        // by this call
  // A copy that nobody has opened yet who may write there: `run` is made from what it is, and the same at each look.
  bool provisional = false;

  bool Includes(const RunId& other) const { return other == run || before.contains(other); }
  bool Includes(std::string_view hex) const {
    const auto other = RunId::Parse(hex);
    return other.ok() && Includes(*other);
  }
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_RUN_IDENTITY_H_

// Whether boxes that may overlap cover another one wholly. Exact. Pure.
#ifndef CAIRN_STORAGE_FORMAT_BP5_COVERAGE_H_
#define CAIRN_STORAGE_FORMAT_BP5_COVERAGE_H_

#include <span>

#include "storage/base/box.h"

namespace cairn::bp5 {

// Takes a bit per element of `box`, at most 1 MiB of them at a time, and time for the elements of `parts` and for each
// part once per 8 Mi elements of `box`. One part that covers all, or too few elements together, cost next to nothing.
// REQUIRES: `parts` lie inside `box` and are not empty; elements of `box` fit into 64 bits.
bool Covers(std::span<const Box> parts, const Box& box);

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_COVERAGE_H_

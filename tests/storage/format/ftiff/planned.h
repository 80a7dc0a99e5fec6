// Lists of containers as they are planned, for tests.
#ifndef CAIRN_TESTS_STORAGE_FORMAT_FTIFF_PLANNED_H_
#define CAIRN_TESTS_STORAGE_FORMAT_FTIFF_PLANNED_H_

#include <gtest/gtest.h>

#include <vector>

#include "storage/format/ftiff/layout.h"
#include "tests/support/status_matchers.h"

namespace cairn::ftiff {

using Sizes = std::vector<VariableSize>;

inline FileLayout Fresh(const Sizes& sizes, Packing packing) {
  const auto layout = PlanFresh(sizes, packing);
  EXPECT_OK(layout);
  return layout.ok() ? *layout : FileLayout();
}

inline FileLayout Next(const FileLayout& last, const Sizes& sizes, Packing packing, bool is_restored = false) {
  const auto layout = PlanNext(last, is_restored, sizes, packing);
  EXPECT_OK(layout);
  return layout.ok() ? *layout : FileLayout();
}

inline void ExpectSame(const FileLayout& found, const FileLayout& expected) {
  EXPECT_EQ(found.containers, expected.containers);
  EXPECT_EQ(found.block_containers, expected.block_containers);
  EXPECT_EQ(found.data_bytes, expected.data_bytes);
}

}  // namespace cairn::ftiff

#endif  // CAIRN_TESTS_STORAGE_FORMAT_FTIFF_PLANNED_H_

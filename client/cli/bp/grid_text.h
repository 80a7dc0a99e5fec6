// Items of an array as lines of text: where each line begins, then a fixed number of columns. A line never goes over
// the end of a row (the fastest dimension).
#ifndef CAIRN_CLIENT_CLI_BP_GRID_TEXT_H_
#define CAIRN_CLIENT_CLI_BP_GRID_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "client/cli/bp/text_out.h"
#include "storage/base/box.h"

namespace cairn::cli {

class GridText {
 public:
  // `box`: the indices that the items have. Lines have at most `width` characters, if an item is not wider.
  GridText(TextOut& out, const Box& box, std::size_t width = 80);

  // The next items, in order. What comes in the first call decides on the columns; later items that are wider make
  // their column wider, and nothing is ever cut. Every call but the last ends with a row, or a multiple of 120 items
  // of one.
  void Add(std::span<const std::string> items);

 private:
  void Measure(std::span<const std::string> items);
  std::string Index() const;
  void Advance(std::uint64_t items);

  TextOut& out_;
  const Box box_;
  const std::size_t width_;
  const std::uint64_t row_;  // items of a row
  std::size_t index_width_ = 0, item_width_ = 0;
  std::uint64_t columns_ = 0;  // 0: not known yet
  Extents at_;                 // in the box
};

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_GRID_TEXT_H_

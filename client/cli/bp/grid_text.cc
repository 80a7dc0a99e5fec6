#include "client/cli/bp/grid_text.h"

#include <algorithm>
#include <array>

#include "client/cli/bp/value.h"
#include "client/cli/text.h"

namespace cairn::cli {

GridText::GridText(TextOut& out, const Box& box, std::size_t width)
    : out_(out),
      box_(box),
      width_(width),
      row_(box.dimensions() == 0 ? 1 : box.count.back()),
      at_(box.dimensions(), 0) {
  index_width_ = 2;
  for (std::size_t d = 0; d < box.dimensions(); ++d) {
    index_width_ += DigitsOf(box.start[d] + std::max<std::uint64_t>(box.count[d], 1) - 1) + (d == 0 ? 0 : 1);
  }
}

void GridText::Measure(std::span<const std::string> items) {
  for (const std::string& item : items) item_width_ = std::max(item_width_, ColumnsOf(item));
  if (columns_ != 0) return;
  const std::size_t room = width_ > index_width_ ? width_ - index_width_ : 0;
  const std::uint64_t fitting = room / (item_width_ + 2);
  columns_ = 1;
  // All divide 120.
  for (const std::uint64_t columns : std::to_array<std::uint64_t>({2, 3, 4, 5, 6, 8, 10, 20})) {
    if (columns <= fitting) columns_ = columns;
  }
  if (row_ <= fitting) columns_ = std::max<std::uint64_t>(row_, 1);
}

std::string GridText::Index() const {
  std::string text = "(";
  for (std::size_t d = 0; d < at_.size(); ++d) {
    if (d > 0) text += ",";
    text += std::to_string(box_.start[d] + at_[d]);
  }
  text += ")";
  return text + std::string(index_width_ - std::min(index_width_, text.size()), ' ');
}

void GridText::Advance(std::uint64_t items) {
  if (at_.empty()) return;
  at_.back() += items;
  for (std::size_t d = at_.size(); d-- > 1 && at_[d] == box_.count[d];) {
    at_[d] = 0;
    ++at_[d - 1];
  }
}

void GridText::Add(std::span<const std::string> items) {
  Measure(items);
  while (!items.empty() && !out_.broken()) {
    const std::uint64_t left = at_.empty() ? 1 : row_ - at_.back();
    const auto line = items.first(std::min<std::uint64_t>({columns_, left, items.size()}));
    std::string text = Index();
    for (const std::string& item : line) {
      text += std::string(2 + item_width_ - ColumnsOf(item), ' ');
      text += item;
    }
    out_.Write(text + "\n");
    Advance(line.size());
    items = items.subspan(line.size());
  }
}

}  // namespace cairn::cli

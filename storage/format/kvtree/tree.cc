#include "storage/format/kvtree/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <system_error>

#include "storage/base/check.h"
#include "storage/base/only_owner.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn::kvtree {
namespace {

constexpr std::size_t kLinearMax = 32;  // up to here a search from end to end is as fast as an index, and smaller

template <std::integral T>
std::optional<T> ParseNumber(std::string_view text, int base) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <std::integral T>
absl::StatusOr<T> GetNumber(const Tree& tree, std::string_view key, std::string_view kind) {
  const std::optional<std::string_view> text = tree.Get(key);
  if (!text) return NotFound("no {}", key);
  const std::optional<T> value = ParseNumber<T>(*text, 10);
  if (!value) return DataLoss("{} is {}, not {}", key, Quoted(*text), kind);
  return *value;
}

// A key with what it is ordered by.
class SortKey {
 public:
  SortKey(std::string_view text, SortBy by) : text_(text) {
    if (by == SortBy::kNumber) number_ = ParseNumber<std::int64_t>(text, 10);
  }
  std::string_view text() const { return text_; }

  friend bool operator<(const SortKey& a, const SortKey& b) {
    if (a.number_.has_value() != b.number_.has_value()) return a.number_.has_value();
    if (a.number_ != b.number_) return *a.number_ < *b.number_;
    return a.text_ < b.text_;
  }

 private:
  std::string_view text_;
  std::optional<std::int64_t> number_;
};

}  // namespace

Tree::Level::Level(const Level& other) {
  newest_last = other.newest_last;
  if (other.index) index = std::make_unique<KeyIndex>(*other.index);
}

std::optional<std::size_t> Tree::Level::PositionOf(std::string_view key, std::size_t from) const {
  if (index) {
    return index->Find(key, [this](std::uint32_t at) -> std::string_view { return newest_last[at].first; });
  }
  for (std::size_t at = from; at < newest_last.size(); ++at) {
    if (newest_last[at].first == key) return at;
  }
  return std::nullopt;
}

void Tree::Level::FillFromBehind(std::size_t count) {
  newest_last.Resize(count);
  if (count > kLinearMax) index = std::make_unique<KeyIndex>();
}

Tree& Tree::Level::Fill(std::size_t at, std::string_view key) {
  Element& element = newest_last.At(at);
  element.first = key;
  if (index) index->Insert(key, static_cast<std::uint32_t>(at));
  return element.second;
}

void Tree::Level::DropUnfilled(std::size_t count) {
  if (count == 0) return;
  std::vector<Element> all = newest_last.Take();
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
  newest_last.Assign(std::move(all));
  if (index) BuildIndex();
}

void Tree::Level::BuildIndex() {
  index = std::make_unique<KeyIndex>();
  for (std::uint32_t at = 0; at < newest_last.size(); ++at) index->Insert(newest_last[at].first, at);
}

Tree& Tree::Level::Append(std::string_view key) {
  Element& element = newest_last.Append(key, Tree());
  if (index) {
    index->Insert(key, static_cast<std::uint32_t>(newest_last.size() - 1));
  } else if (newest_last.size() > kLinearMax) {
    BuildIndex();
  }
  return element.second;
}

void Tree::Level::Erase(std::size_t position) {
  if (index) index->Erase(newest_last[position].first, static_cast<std::uint32_t>(position));
  newest_last.Erase(position);
  if (newest_last.size() <= kLinearMax / 2) index.reset();
}

Tree::Tree(const Tree& other) = default;

Tree& Tree::operator=(Tree&& other) noexcept {
  Tree moved(std::move(other));  // before anything is dropped: `other` may lie below this
  value_.swap(moved.value_);
  level_.swap(moved.level_);
  return *this;
}

Tree& Tree::operator=(const Tree& other) {
  Tree copy(other);
  return *this = std::move(copy);
}

const Tree Tree::kNothing;

Tree::Level& Tree::Change() {
  Level& level = Open();
  if (IsOnlyOwner(level_)) {
    level.packed.reset();
    return level;
  }
  level_ = std::make_shared<Level>(level);
  return *level_;
}

Tree::Level& Tree::Widen() {
  if (level_) return Change();
  level_ = std::make_shared<Level>();
  if (!value_.empty()) level_->Append(std::exchange(value_, {}));
  return *level_;
}

const Tree* Tree::Find(std::string_view key) const {
  if (!level_) return !value_.empty() && value_ == key ? &kNothing : nullptr;
  const Level& level = Open();
  const std::optional<std::size_t> at = level.PositionOf(key);
  return at ? &level.newest_last[*at].second : nullptr;
}

Tree* Tree::Find(std::string_view key) {
  if (!level_ && (value_.empty() || value_ != key)) return nullptr;
  Level& level = Widen();
  const std::optional<std::size_t> at = level.PositionOf(key);
  return at ? &level.newest_last.At(*at).second : nullptr;
}

const Tree* Tree::FindPath(std::initializer_list<std::string_view> keys) const {
  const Tree* tree = this;
  for (const std::string_view key : keys) {
    tree = tree->Find(key);
    if (tree == nullptr) return nullptr;
  }
  return tree;
}

Tree& Tree::Append(std::string_view key) {
  return Widen().Append(key);
}

void Tree::AppendValue(std::string value) {
  if (!level_ && value_.empty() && !value.empty()) {
    value_ = std::move(value);
  } else {
    Append(value);
  }
}

Tree& Tree::At(std::string_view key) {
  Tree* const there = Find(key);
  return there != nullptr ? *there : Append(key);
}

Tree& Tree::SetEmpty(std::string_view key) {
  const std::string own(key);  // `key` may point into what is erased
  Erase(own);
  return Append(own);
}

bool Tree::Erase(std::string_view key) {
  if (!level_) {
    const bool found = !value_.empty() && value_ == key;
    if (found) value_.clear();
    return found;
  }
  Level& level = Change();
  const std::optional<std::size_t> at = level.PositionOf(key);
  if (!at) return false;
  level.Erase(*at);
  return true;
}

void Tree::Merge(const Tree& other) {
  CAIRN_CHECK(&other != this);
  for (const auto& [key, child] : other.elements()) At(key).Merge(child);
}

void Tree::Reserve(std::size_t elements) {
  if (elements > 1) Widen().newest_last.Reserve(elements);
}

void Tree::Sort() {
  if (!level_) return;
  std::vector<Level::Element> elements = Change().newest_last.Take();
  std::sort(elements.begin(), elements.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [key, child] : elements) child.Sort();
  level_->newest_last.Assign(std::move(elements));
  if (level_->index) level_->BuildIndex();
}

void Tree::SortLevel(SortBy by, Direction direction) {
  if (!level_) return;
  std::vector<Level::Element> elements = Change().newest_last.Take();
  // Numbers are read once for each key, not in each comparison.
  std::vector<std::pair<SortKey, std::size_t>> order;
  order.reserve(elements.size());
  for (std::size_t at = 0; at < elements.size(); ++at) order.emplace_back(SortKey(elements[at].first, by), at);
  // The file order is the reverse of the vector's.
  std::sort(order.begin(), order.end(), [direction](const auto& a, const auto& b) {
    return direction == Direction::kAscending ? b.first < a.first : a.first < b.first;
  });
  std::vector<Level::Element> sorted;
  sorted.reserve(elements.size());
  for (const auto& [key, at] : order) sorted.push_back(std::move(elements[at]));
  level_->newest_last.Assign(std::move(sorted));
  if (level_->index) level_->BuildIndex();
}

std::vector<std::string_view> Tree::SortedKeys(SortBy by, Direction direction) const {
  std::vector<SortKey> order;
  order.reserve(size());
  for (const auto& [key, child] : elements()) order.emplace_back(key, by);
  std::sort(order.begin(), order.end(), [direction](const SortKey& a, const SortKey& b) {
    return direction == Direction::kAscending ? a < b : b < a;
  });
  std::vector<std::string_view> keys;
  keys.reserve(order.size());
  for (const SortKey& key : order) keys.push_back(key.text());
  return keys;
}

void Tree::Set(std::string_view key, std::string_view value) {
  std::string own(value);  // `value` may point into what is emptied
  SetEmpty(key).AppendValue(std::move(own));
}

void Tree::Set(std::string_view key, std::uint64_t value) {
  Set(key, std::string_view(fmt::format_int(value).c_str()));
}
void Tree::SetInt(std::string_view key, std::int64_t value) {
  Set(key, std::string_view(fmt::format_int(value).c_str()));
}
void Tree::SetBool(std::string_view key, bool value) {
  Set(key, std::string_view(value ? "1" : "0"));
}
void Tree::SetCrc32(std::string_view key, std::uint32_t value) {
  Set(key, value == 0 ? std::string("0") : fmt::format("{:#x}", value));
}

void Tree::SetDouble(std::string_view key, double value) {
  CAIRN_CHECK(std::isfinite(value));
  Set(key, std::string_view(fmt::format("{:.6f}", value)));
}

std::optional<std::string_view> Tree::Get(std::string_view key) const {
  const Tree* values = Find(key);
  if (values == nullptr || values->empty()) return std::nullopt;
  return values->elements().front().first;
}

absl::StatusOr<std::string> Tree::GetString(std::string_view key) const {
  const std::optional<std::string_view> value = Get(key);
  if (!value) return NotFound("no {}", key);
  return std::string(*value);
}

absl::StatusOr<std::uint64_t> Tree::GetUnsigned(std::string_view key) const {
  return GetNumber<std::uint64_t>(*this, key, "an unsigned number");
}

absl::StatusOr<std::int64_t> Tree::GetInt(std::string_view key) const {
  return GetNumber<std::int64_t>(*this, key, "a number");
}

absl::StatusOr<bool> Tree::GetBool(std::string_view key) const {
  const std::optional<std::string_view> text = Get(key);
  if (!text) return NotFound("no {}", key);
  if (*text != "0" && *text != "1") return DataLoss("{} is {}, not 0 or 1", key, Quoted(*text));
  return *text == "1";
}

absl::StatusOr<std::uint32_t> Tree::GetCrc32(std::string_view key) const {
  const std::optional<std::string_view> text = Get(key);
  if (!text) return NotFound("no {}", key);
  if (*text == "0") return 0u;
  if (text->starts_with("0x")) {
    if (const auto value = ParseNumber<std::uint32_t>(text->substr(2), 16)) return *value;
  }
  return DataLoss("{} is {}, not a CRC-32", key, Quoted(*text));
}

absl::StatusOr<double> Tree::GetDouble(std::string_view key) const {
  const std::optional<std::string_view> text = Get(key);
  if (!text) return NotFound("no {}", key);
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || !std::isfinite(value)) {
    return DataLoss("{} is {}, not a finite number", key, Quoted(*text));
  }
  return value;
}

std::size_t Tree::SharedAtTheEnd(const Tree& other) const {
  if (!level_ || !other.level_) return 0;
  return Open().newest_last.SharedWith(other.Open().newest_last);
}

bool Tree::SameAs(const Tree& other) const {
  if (level_ && level_ == other.level_) return true;
  if (level_ && other.level_ && level_->packed && other.level_->packed) {  // the same place of the same file?
    const std::string_view mine = level_->packed->bytes, theirs = other.level_->packed->bytes;
    if (mine.data() == theirs.data() && mine.size() == theirs.size()) return true;
  }
  if (size() != other.size()) return false;
  const Elements mine = elements();
  const std::size_t others = mine.size() - SharedAtTheEnd(other);
  for (std::size_t at = 0; at < others; ++at) {
    const auto& [key, child] = mine[at];
    const Tree* theirs = other.Find(key);
    if (theirs == nullptr || !child.SameAs(*theirs)) return false;
  }
  return true;
}

}  // namespace cairn::kvtree

#include "storage/kvtree/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <system_error>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/kvtree/quoted.h"

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

}  // namespace

Tree::Tree(const Tree& other)
    : newest_last_(other.newest_last_), index_(other.index_ ? std::make_unique<KeyIndex>(*other.index_) : nullptr) {}

Tree& Tree::operator=(const Tree& other) {
  Tree copy(other);  // before anything is dropped: `other` may lie below this
  return *this = std::move(copy);
}

std::optional<std::size_t> Tree::PositionOf(std::string_view key) const {
  if (index_) {
    return index_->Find(key, [this](std::uint32_t at) -> std::string_view { return newest_last_[at].first; });
  }
  for (std::size_t at = 0; at < newest_last_.size(); ++at) {
    if (newest_last_[at].first == key) return at;
  }
  return std::nullopt;
}

const Tree* Tree::Find(std::string_view key) const {
  const std::optional<std::size_t> at = PositionOf(key);
  return at ? &newest_last_[*at].second : nullptr;
}

Tree* Tree::Find(std::string_view key) {
  return const_cast<Tree*>(std::as_const(*this).Find(key));
}

const Tree* Tree::FindPath(std::initializer_list<std::string_view> keys) const {
  const Tree* tree = this;
  for (const std::string_view key : keys) {
    tree = tree->Find(key);
    if (tree == nullptr) return nullptr;
  }
  return tree;
}

void Tree::BuildIndex() {
  index_ = std::make_unique<KeyIndex>();
  for (const Element& element : newest_last_) index_->Append(element.first);
}

Tree& Tree::Append(std::string key, Tree child) {
  newest_last_.emplace_back(std::move(key), std::move(child));
  if (index_) {
    index_->Append(newest_last_.back().first);
  } else if (newest_last_.size() > kLinearMax) {
    BuildIndex();
  }
  return newest_last_.back().second;
}

Tree& Tree::At(std::string_view key) {
  Tree* const there = Find(key);
  return there != nullptr ? *there : Append(std::string(key), Tree());
}

Tree& Tree::SetEmpty(std::string_view key) {
  std::string own(key);  // `key` may point into what is erased
  Erase(own);
  return Append(std::move(own), Tree());
}

bool Tree::Erase(std::string_view key) {
  const std::optional<std::size_t> at = PositionOf(key);
  if (!at) return false;
  if (index_) index_->Erase(key, static_cast<std::uint32_t>(*at));
  newest_last_.erase(newest_last_.begin() + static_cast<std::ptrdiff_t>(*at));
  if (newest_last_.size() <= kLinearMax / 2) index_.reset();
  return true;
}

void Tree::Merge(const Tree& other) {
  CAIRN_CHECK(&other != this);
  for (const auto& [key, child] : other.elements()) At(key).Merge(child);
}

void Tree::Sort() {
  std::sort(newest_last_.begin(), newest_last_.end(),
            [](const Element& a, const Element& b) { return a.first > b.first; });
  for (Element& element : newest_last_) element.second.Sort();
  if (index_) BuildIndex();
}

void Tree::Set(std::string_view key, std::string_view value) {
  std::string own(value);  // `value` may point into what is emptied
  SetEmpty(key).Append(std::move(own), Tree());
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

std::optional<std::string_view> Tree::Get(std::string_view key) const {
  const Tree* values = Find(key);
  if (values == nullptr || values->empty()) return std::nullopt;
  return values->newest_last_.back().first;
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

bool Tree::SameAs(const Tree& other) const {
  if (size() != other.size()) return false;
  return std::all_of(newest_last_.begin(), newest_last_.end(), [&other](const Element& element) {
    const Tree* theirs = other.Find(element.first);
    return theirs != nullptr && element.second.SameAs(*theirs);
  });
}

}  // namespace cairn::kvtree

// A list whose copies share what they have in common: a long one costs a copy few bytes, and a change of the copy costs
// what is near to it, not the length of the list. A short one is a plain vector.
#ifndef CAIRN_STORAGE_FORMAT_KVTREE_CHUNKED_LIST_H_
#define CAIRN_STORAGE_FORMAT_KVTREE_CHUNKED_LIST_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "storage/base/only_owner.h"

namespace cairn::kvtree {

// Copies may be used by several threads, one each. References end with the next change of the list, or its next copy.
template <typename T>
class ChunkedList {
 public:
  static constexpr std::size_t kChunk = 128;  // elements

  std::size_t size() const { return chunks_.size() * kChunk + rest_.size(); }
  bool empty() const { return size() == 0; }

  const T& operator[](std::size_t at) const {
    return at / kChunk < chunks_.size() ? (*chunks_[at / kChunk])[at % kChunk] : rest_[at - chunks_.size() * kChunk];
  }
  // To be changed.
  T& At(std::size_t at) {
    return at / kChunk < chunks_.size() ? Own(chunks_[at / kChunk])[at % kChunk] : rest_[at - chunks_.size() * kChunk];
  }

  template <typename... Args>
  T& Append(Args&&... args) {
    if (rest_.size() == kChunk) {
      chunks_.push_back(std::make_shared<std::vector<T>>(std::move(rest_)));
      rest_.clear();
    }
    return rest_.emplace_back(std::forward<Args>(args)...);
  }

  // Those behind move up: takes time in their number.
  void Erase(std::size_t at) {
    for (; at + 1 < size(); ++at) At(at) = std::move(At(at + 1));
    if (rest_.empty()) {
      rest_ = std::move(Own(chunks_.back()));
      chunks_.pop_back();
    }
    rest_.pop_back();
  }

  // REQUIRES: empty.
  void Resize(std::size_t elements) {
    for (; elements > kChunk; elements -= kChunk) chunks_.push_back(std::make_shared<std::vector<T>>(kChunk));
    rest_.resize(elements);
  }
  // Room for so many in a short list, for speed alone.
  void Reserve(std::size_t elements) { rest_.reserve(std::min(elements, kChunk)); }

  // As a plain vector, and back: for what concerns all of them.
  std::vector<T> Take() {
    std::vector<T> all;
    all.reserve(size());
    for (std::size_t at = 0; at < size(); ++at) all.push_back(std::move(At(at)));
    *this = {};
    return all;
  }
  void Assign(std::vector<T> all) {
    chunks_.clear();
    std::size_t from = 0;
    for (; all.size() - from > kChunk; from += kChunk) {
      const auto begin = std::make_move_iterator(all.begin() + static_cast<std::ptrdiff_t>(from));
      chunks_.push_back(std::make_shared<std::vector<T>>(begin, begin + kChunk));
    }
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(from));
    rest_ = std::move(all);
  }

  // How many of the first elements are one and the same in both, known without a look at them.
  std::size_t SharedWith(const ChunkedList& other) const {
    const std::size_t most = std::min(chunks_.size(), other.chunks_.size());
    std::size_t same = 0;
    while (same < most && chunks_[same] == other.chunks_[same]) ++same;
    return same * kChunk;
  }

 private:
  using Chunk = std::shared_ptr<std::vector<T>>;

  static std::vector<T>& Own(Chunk& chunk) {
    if (!IsOnlyOwner(chunk)) chunk = std::make_shared<std::vector<T>>(*chunk);
    return *chunk;
  }

  std::vector<Chunk> chunks_;  // the first ones, kChunk each
  std::vector<T> rest_;        // this list's alone, at most kChunk
};

}  // namespace cairn::kvtree

#endif  // CAIRN_STORAGE_FORMAT_KVTREE_CHUNKED_LIST_H_

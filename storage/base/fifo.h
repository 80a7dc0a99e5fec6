// A queue that keeps its memory: once it has been as long as it gets, it allocates nothing. (A std::deque frees and
// allocates on as it moves through its blocks.)
#ifndef CAIRN_STORAGE_BASE_FIFO_H_
#define CAIRN_STORAGE_BASE_FIFO_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace cairn {

template <typename T>
class Fifo {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // REQUIRES: not empty.
  T& front() { return slots_[first_]; }
  const T& front() const { return slots_[first_]; }
  T& back() { return slots_[Slot(size_ - 1)]; }

  void reserve(std::size_t size) {
    if (size > slots_.size()) Grow(size);
  }
  void push_back(T item) {
    if (size_ == slots_.size()) Grow(2 * size_ + 8);
    slots_[Slot(size_)] = std::move(item);
    ++size_;
  }
  // What the item holds ends now. REQUIRES: not empty.
  void pop_front() {
    slots_[first_] = T();
    first_ = Slot(1);
    --size_;
  }

 private:
  std::size_t Slot(std::size_t index) const { return (first_ + index) % slots_.size(); }
  void Grow(std::size_t room) {
    std::vector<T> slots(room);
    for (std::size_t i = 0; i < size_; ++i) slots[i] = std::move(slots_[Slot(i)]);
    slots_ = std::move(slots);
    first_ = 0;
  }

  std::vector<T> slots_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_FIFO_H_

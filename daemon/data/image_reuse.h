// For simulations, which live through many daemons in one process: while one of these lives, memory of images that are
// let go of on this thread stays, with what is in it, for the next image of that size on this thread. Never in a
// program.
#ifndef CAIRN_DAEMON_DATA_IMAGE_REUSE_H_
#define CAIRN_DAEMON_DATA_IMAGE_REUSE_H_

#include <cstddef>
#include <vector>

#include "storage/base/unique_fd.h"

namespace cairn {

class ScopedImageReuse {
 public:
  ScopedImageReuse();
  ~ScopedImageReuse();
  ScopedImageReuse(const ScopedImageReuse&) = delete;
  ScopedImageReuse& operator=(const ScopedImageReuse&) = delete;

  // Made on this thread and not let go of yet: 0 once nobody has one, however it came to its end.
  std::size_t in_use() const { return in_use_; }

 private:
  friend class Image;
  struct Memory {
    UniqueFd fd;
    std::byte* base = nullptr;
    std::size_t size = 0;
  };
  static thread_local ScopedImageReuse* current;  // null: images come and go

  std::vector<Memory> spare_;
  std::size_t in_use_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_IMAGE_REUSE_H_

// Some of several pieces of work at the same time, on threads that live no longer than the call.
#ifndef CAIRN_STORAGE_BASE_AT_ONCE_H_
#define CAIRN_STORAGE_BASE_AT_ONCE_H_

#include <cstddef>
#include <functional>

namespace cairn {

// Calls `work` for each number below `count`, in order, on up to `at_once` threads, of which the calling one is the
// first; fewer if the system has no more. Once one has answered false no further one begins. Those that have begun have
// ended when this returns. `work` throws nothing (caught.h).
void EachAtOnce(std::size_t count, std::size_t at_once, const std::function<bool(std::size_t)>& work);

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_AT_ONCE_H_

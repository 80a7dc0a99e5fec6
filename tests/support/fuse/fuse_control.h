// What a FuseFolder tells the process that serves it. Each message is answered by the number of requests that hang.
#ifndef CAIRN_TESTS_SUPPORT_FUSE_FUSE_CONTROL_H_
#define CAIRN_TESTS_SUPPORT_FUSE_FUSE_CONTROL_H_

#include <cstdint>

namespace cairn {

struct FuseControl {
  enum Kind : std::uint32_t { kFail, kHang, kRelease, kAsk } kind;
  std::uint32_t opcode;
  std::int32_t error;
  std::uint32_t times;
  char name_part[256];
};

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_FUSE_FUSE_CONTROL_H_

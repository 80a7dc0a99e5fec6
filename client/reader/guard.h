// The edge of the library: no exception leaves it, and the words for an error are kept for the thread that made it.
#ifndef CAIRN_CLIENT_READER_GUARD_H_
#define CAIRN_CLIENT_READER_GUARD_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

namespace cairn::reader {

// Keeps the words of an error; the code for it.
int Answer(const absl::Status& status) noexcept;
int AnswerNoMemory() noexcept;
int AnswerException(const std::exception& exception) noexcept;

// `call` answers a status. REQUIRES of extern "C" functions: everything is inside.
template <typename Call>
int Guard(Call call) noexcept {
  try {
    return Answer(std::move(call)());
  } catch (const std::bad_alloc&) {
    return AnswerNoMemory();
  } catch (const std::exception& exception) {
    return AnswerException(exception);
  }
}

// As much of a structure as the caller knows, and 0 for what only the caller knows: `info` has its size in front.
template <typename Info>
absl::Status CheckSize(const Info* info) {
  if (info != nullptr && info->struct_size >= sizeof(std::size_t)) return absl::OkStatus();
  return absl::InvalidArgumentError("struct_size is not set");
}
template <typename Info>
void Give(Info found, Info* info) {
  const std::size_t known = info->struct_size < sizeof found ? info->struct_size : sizeof found;
  found.struct_size = info->struct_size;
  std::memcpy(info, &found, known);
  std::memset(reinterpret_cast<std::byte*>(info) + known, 0, found.struct_size - known);
}

}  // namespace cairn::reader

#endif  // CAIRN_CLIENT_READER_GUARD_H_

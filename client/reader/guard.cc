#include "client/reader/guard.h"

#include <string>
#include <string_view>

#include "client/reader/cairn_reader.h"

namespace cairn::reader {
namespace {

// Never freed at a bad time: trivially destroyed, so that calls from other threads' destructors find it.
constexpr std::size_t kTextBytes = 1024;
thread_local char text[kTextBytes] = "";

void Keep(std::string_view words) {
  const std::size_t size = words.size() < kTextBytes ? words.size() : kTextBytes - 1;
  std::memcpy(text, words.data(), size);
  text[size] = '\0';
}

int CodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return CAIRN_READER_OK;
    case absl::StatusCode::kNotFound:
      return CAIRN_READER_NOT_FOUND;
    case absl::StatusCode::kInvalidArgument:
      return CAIRN_READER_INVALID_ARGUMENT;
    case absl::StatusCode::kFailedPrecondition:
      return CAIRN_READER_FAILED_PRECONDITION;
    case absl::StatusCode::kResourceExhausted:
      return CAIRN_READER_RESOURCE_EXHAUSTED;
    case absl::StatusCode::kUnavailable:
      return CAIRN_READER_UNAVAILABLE;
    case absl::StatusCode::kDataLoss:
      return CAIRN_READER_DATA_LOSS;
    case absl::StatusCode::kPermissionDenied:
      return CAIRN_READER_PERMISSION_DENIED;
    default:
      return CAIRN_READER_INTERNAL;
  }
}

}  // namespace

int Answer(const absl::Status& status) noexcept {
  if (!status.ok()) Keep({status.message().data(), status.message().size()});
  return CodeOf(status.code());
}

int AnswerNoMemory() noexcept {
  Keep("out of memory");
  return CAIRN_READER_RESOURCE_EXHAUSTED;
}

int AnswerException(const std::exception& exception) noexcept {
  Keep(exception.what());
  return CAIRN_READER_INTERNAL;
}

}  // namespace cairn::reader

const char* cairn_reader_error(void) {
  return cairn::reader::text;
}

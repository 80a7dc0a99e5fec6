// The barrier at the entry of every thread, strand and pool: what throws (mostly std::bad_alloc, of a number that was
// believed) fails what caused it, and not the process with all its runs.
#ifndef CAIRN_STORAGE_BASE_CAUGHT_H_
#define CAIRN_STORAGE_BASE_CAUGHT_H_

#include <absl/status/status.h>

#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "storage/base/status.h"

namespace cairn {

// How a result says that it is a failure: by itself, by its FailWith, or by its member `status`; a shared one as what
// it shares.
template <typename Result>
Result FailedAs(absl::Status why) {
  if constexpr (requires(Result result) { result.FailWith(why); }) {
    auto result = Result();
    result.FailWith(std::move(why));
    return result;
  } else if constexpr (requires(Result result) { result.status = why; }) {
    auto result = Result();
    result.status = std::move(why);
    return result;
  } else if constexpr (requires { typename Result::element_type; }) {
    return std::make_shared<typename Result::element_type>(FailedAs<typename Result::element_type>(std::move(why)));
  } else {
    static_assert(!std::is_aggregate_v<Result>, "it needs a way to say that it has failed");
    return Result(std::move(why));
  }
}

// Runs `work`. What it answers, or kResourceExhausted if memory was refused, kInternal of any other exception. A `work`
// that answers nothing: OK.
template <typename Work>
auto Caught(Work&& work) {
  using Answer = std::invoke_result_t<Work>;
  using Result = std::conditional_t<std::is_void_v<Answer>, absl::Status, Answer>;
  try {
    if constexpr (std::is_void_v<Answer>) {
      std::invoke(std::forward<Work>(work));
      return absl::OkStatus();
    } else {
      return Result(std::invoke(std::forward<Work>(work)));
    }
  } catch (const std::bad_alloc&) {
    return FailedAs<Result>(ResourceExhausted("out of memory"));
  } catch (const std::exception& e) {
    return FailedAs<Result>(Internal("unexpected: {}", e.what()));
  }
}

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_CAUGHT_H_

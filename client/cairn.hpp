// libcairn for C++20: cairn.h with a session that closes itself, spans and results. Header only; link libcairn.so.
//
//   auto session = cairn::Session::open({.prefix = "/scratch/run7"});
//   if (!session) return fail(session.error().message);
//   if (auto done = session->protect(0, std::span(field)); !done) return fail(done.error().message);
//   auto resumed = session->resume();
//   if (resumed) step = resumed->step;
//   if (resumed.code() == cairn::Code::kDirty) ...  // initialise and protect all anew, then start from the beginning
//
// Threads, deadlines, borrowed memory and the meaning of each code: see cairn.h. Nothing here throws, except
// std::string and std::vector when memory runs out.
#ifndef CAIRN_HPP_
#define CAIRN_HPP_

#include <array>
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cairn.h"  // beside this file, also where both are installed

namespace cairn {

enum class Code : int {
  kOk = CAIRN_OK,
  kNotFound = CAIRN_NOT_FOUND,
  kInvalidArgument = CAIRN_INVALID_ARGUMENT,
  kFailedPrecondition = CAIRN_FAILED_PRECONDITION,
  kBusy = CAIRN_BUSY,
  kRetry = CAIRN_RETRY,
  kSuperseded = CAIRN_SUPERSEDED,
  kFailed = CAIRN_FAILED,
  kFenced = CAIRN_FENCED,
  kResourceExhausted = CAIRN_RESOURCE_EXHAUSTED,
  kDeadlineExceeded = CAIRN_DEADLINE_EXCEEDED,
  kUnavailable = CAIRN_UNAVAILABLE,
  kDataLoss = CAIRN_DATA_LOSS,
  kPermissionDenied = CAIRN_PERMISSION_DENIED,
  kUnsupported = CAIRN_UNSUPPORTED,
  kForked = CAIRN_FORKED,
  kInternal = CAIRN_INTERNAL,
  kDirty = CAIRN_DIRTY,
};

enum class Level : std::int32_t {
  kNone = CAIRN_LEVEL_NONE,
  kFrozen = CAIRN_LEVEL_FROZEN,
  kCaptured = CAIRN_LEVEL_CAPTURED,
  kLocal = CAIRN_LEVEL_LOCAL,
  kRedundant = CAIRN_LEVEL_REDUNDANT,
  kPrefix = CAIRN_LEVEL_PREFIX,
};

enum class Tier : std::int32_t {
  kNone = CAIRN_TIER_NONE,
  kImage = CAIRN_TIER_IMAGE,
  kCache = CAIRN_TIER_CACHE,
  kPartner = CAIRN_TIER_PARTNER,
  kRebuilt = CAIRN_TIER_REBUILT,
  kPrefix = CAIRN_TIER_PREFIX,
  kRedundant = CAIRN_TIER_REDUNDANT,
};

struct Error {
  Code code = Code::kInternal;
  std::string message;
  // The dataset that a failed checkpoint or output_begin had already been given; 0: none.
  std::uint64_t dataset = 0;
};

// A value, or an error: the part of std::expected that is needed here.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  Code code() const { return ok() ? Code::kOk : error().code; }
  // REQUIRES: ok().
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  T value_or(T other) const { return ok() ? **this : std::move(other); }
  // REQUIRES: !ok().
  const Error& error() const { return *std::get_if<1>(&state_); }
  void ignore() const {}

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  Code code() const { return ok() ? Code::kOk : error_->code; }
  // REQUIRES: !ok().
  const Error& error() const { return *error_; }
  void ignore() const {}

 private:
  std::optional<Error> error_;
};

// The type code of an element, or 0 if it has none.
template <typename T>
constexpr std::int32_t type_code() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, std::byte>) return CAIRN_BYTE;
  if constexpr (std::is_same_v<U, char>) return CAIRN_CHAR;
  if constexpr (std::is_same_v<U, float>) return CAIRN_FLOAT;
  if constexpr (std::is_same_v<U, double>) return CAIRN_DOUBLE;
  if constexpr (std::is_same_v<U, long double>) return CAIRN_LONG_DOUBLE;
  if constexpr (std::is_same_v<U, std::complex<float>>) return CAIRN_COMPLEX_FLOAT;
  if constexpr (std::is_same_v<U, std::complex<double>>) return CAIRN_COMPLEX_DOUBLE;
  if constexpr (std::is_integral_v<U> && !std::is_same_v<U, bool> && !std::is_same_v<U, char>) {
    constexpr int kPower = sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3;
    return (std::is_signed_v<U> ? CAIRN_INT8 : CAIRN_UINT8) + kPower;
  }
  return 0;
}

template <typename T>
concept Element = !std::is_const_v<T> && type_code<T>() != 0;

struct Options {
  std::string prefix{};  // what is empty, -1 or 0 has the default of cairn_options
  std::int32_t rank = -1;
  std::int32_t nranks = -1;
  std::string launch{};
  std::string address{};
  bool takeover = false;
  std::chrono::milliseconds deadline{0};
  bool observer = false;  // joins no launch; may call latest, find, dataset_name, stored, read, test and wait only
};

// This rank's box of a global array, slowest dimension first; all of them have as many entries as `shape`.
struct Box {
  std::vector<std::uint64_t> shape{};
  std::vector<std::uint64_t> start{};
  std::vector<std::uint64_t> count{};
  std::vector<std::uint64_t> mem_count{};  // both empty: the memory is the box
  std::vector<std::uint64_t> mem_start{};
};

struct Latest {
  std::uint64_t dataset = 0;
  std::uint64_t step = 0;
};

struct Resumed {
  std::uint64_t step = 0;
  std::uint64_t dataset = 0;
  Tier tier = Tier::kNone;  // which copy served this rank
};

// One rank's connection. Move-only; the destructor closes it. Calls come from one thread at a time.
class Session {
 public:
  static Result<Session> open(const Options& options = {}) {
    cairn_options c = CAIRN_OPTIONS_INIT;
    c.prefix = or_null(options.prefix);
    c.rank = options.rank;
    c.nranks = options.nranks;
    c.launch = or_null(options.launch);
    c.address = or_null(options.address);
    c.takeover = options.takeover ? 1 : 0;
    c.deadline_ms = static_cast<std::uint32_t>(options.deadline.count());
    c.observer = options.observer ? 1 : 0;
    cairn_session* session = nullptr;
    const int code = cairn_open(&c, &session);
    if (code != CAIRN_OK) return Error{static_cast<Code>(code), cairn_error(nullptr)};
    return Session(session);
  }

  Session(Session&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
  Session& operator=(Session&& other) noexcept {
    if (this != &other) {
      cairn_close(session_);
      session_ = std::exchange(other.session_, nullptr);
    }
    return *this;
  }
  ~Session() { cairn_close(session_); }

  // Ends the session, and answers as cairn_close does. After it the object can only be destroyed or assigned to.
  Result<void> close() {
    const int code = cairn_close(std::exchange(session_, nullptr));
    if (code == CAIRN_OK) return {};
    return Error{static_cast<Code>(code), cairn_strerror(code)};
  }

  // Borrows the memory until `id` is unprotected or protected anew, or the session is closed.
  template <Element T, std::size_t kExtent>
  Result<void> protect(std::int32_t id, std::span<T, kExtent> data) {
    return answer(cairn_protect(session_, id, data.data(), data.size(), type_code<T>()));
  }

  // Protects what is the same on all ranks, such as a loop counter.
  template <Element T>
  Result<void> value(std::int32_t id, const std::string& name, T& data) {
    return answer(cairn_protect_value(session_, id, name.c_str(), &data, 1, type_code<T>()));
  }
  template <Element T, std::size_t kExtent>
  Result<void> value(std::int32_t id, const std::string& name, std::span<T, kExtent> data) {
    return answer(cairn_protect_value(session_, id, name.c_str(), data.data(), data.size(), type_code<T>()));
  }

  // `data` is the whole block of memory: mem_count elements, or the box itself. If it is smaller: kInvalidArgument.
  template <Element T, std::size_t kExtent>
  Result<void> array(std::int32_t id, const std::string& name, std::span<T, kExtent> data, const Box& box) {
    const std::size_t ndims = box.shape.size();
    const bool whole = box.mem_count.empty() && box.mem_start.empty();
    if (box.start.size() != ndims || box.count.size() != ndims ||
        (!whole && (box.mem_count.size() != ndims || box.mem_start.size() != ndims))) {
      return Error{Code::kInvalidArgument, "array: the lists of the box differ in length"};
    }
    if (!holds(data.size(), whole ? box.count : box.mem_count)) {
      return Error{Code::kInvalidArgument, "array: the span has fewer elements than the box's memory"};
    }
    return answer(cairn_protect_array(session_, id, name.c_str(), data.data(), type_code<T>(),
                                      static_cast<std::int32_t>(ndims), box.shape.data(), box.start.data(),
                                      box.count.data(), whole ? nullptr : box.mem_count.data(),
                                      whole ? nullptr : box.mem_start.data()));
  }

  Result<void> unprotect(std::int32_t id) { return answer(cairn_unprotect(session_, id)); }

  // Answers the dataset's number. If `step` is 0, the step is the number of this rank's calls in this launch.
  Result<std::uint64_t> checkpoint(std::uint64_t step = 0) {
    std::uint64_t dataset = 0;
    const int code = cairn_checkpoint(session_, step, &dataset);
    return answer(code, dataset);
  }

  // Names the dataset that the next checkpoint or output_begin begins; empty: no name. It holds for that one call, and
  // if it cannot be a name, that call answers kInvalidArgument.
  Result<void> set_name(const std::string& name) { return answer(cairn_set_name(session_, name.c_str())); }

  // Sets the redundancy of all datasets that begin from now on: "single", "partner", "xor", "rs" or "folder"; with the
  // size of the sets "xor:7+1" or "rs:4+2". Empty: the default, CAIRN_REDUNDANCY or else the daemon's setting.
  Result<void> redundancy(const std::string& scheme = "") { return answer(cairn_redundancy(session_, scheme.c_str())); }

  Result<bool> test(std::uint64_t dataset, Level level) {
    std::int32_t reached = 0;
    const int code = cairn_test(session_, dataset, static_cast<std::int32_t>(level), &reached);
    if (code != CAIRN_OK) return failure(code);
    return reached != 0;
  }
  Result<void> wait(std::uint64_t dataset, Level level, std::chrono::milliseconds timeout) {
    return answer(
        cairn_wait(session_, dataset, static_cast<std::int32_t>(level), static_cast<std::uint32_t>(timeout.count())));
  }

  // Brings the newest checkpoint that is whole back. It calls latest() and restore(), and goes on to older checkpoints
  // as long as they answer kRetry. kNotFound: there is nothing to restart from, and the memory is untouched. kDirty:
  // there is nothing to restart from, and some rank's memory may be touched; initialise and protect all anew.
  Result<Resumed> resume() {
    Resumed resumed;
    std::int32_t tier = 0;
    int code = cairn_resume(session_, &resumed.step);
    if (code == CAIRN_OK) code = cairn_restored_dataset(session_, &resumed.dataset);
    if (code == CAIRN_OK) code = cairn_restored_tier(session_, &tier);
    if (code != CAIRN_OK) return failure(code);
    resumed.tier = static_cast<Tier>(tier);
    return resumed;
  }

  // The newest checkpoint that can be restored. kNotFound, kDirty: there is none.
  Result<Latest> latest() {
    Latest latest;
    const int code = cairn_latest(session_, &latest.dataset, &latest.step);
    if (code != CAIRN_OK) return failure(code);
    return latest;
  }

  // The newest whole dataset of that name. kNotFound: there is none.
  Result<Latest> find(const std::string& name) {
    Latest found;
    const int code = cairn_find(session_, name.c_str(), &found.dataset, &found.step);
    if (code != CAIRN_OK) return failure(code);
    return found;
  }
  Result<std::string> dataset_name(std::uint64_t dataset) {
    std::array<char, CAIRN_DATASET_NAME_MAX> name;
    const int code = cairn_dataset_name(session_, dataset, name.data(), name.size());
    if (code != CAIRN_OK) return failure(code);
    return std::string(name.data());
  }

  // All stored variables, in the order of their ids. The list is empty for a dataset of files, and for one that is not
  // there: restore tells the difference. Type 0: the checkpoint was adopted from another system; only ids and
  // bytes (`count`) are known.
  Result<std::vector<cairn_stored_info>> stored(std::uint64_t dataset) {
    std::vector<cairn_stored_info> all;
    for (;;) {
      cairn_stored_info info{};
      info.struct_size = sizeof info;
      const int code = cairn_stored(session_, dataset, all.size(), &info);
      if (code == CAIRN_NOT_FOUND) return all;
      if (code != CAIRN_OK) return failure(code);
      all.push_back(info);
    }
  }
  Result<cairn_stored_info> stored(std::uint64_t dataset, std::int32_t id) {
    cairn_stored_info info{};
    info.struct_size = sizeof info;
    const int code = cairn_stored_by_id(session_, dataset, id, &info);
    if (code != CAIRN_OK) return failure(code);
    return info;
  }

  // Says what a restore or read puts in place of elements of the global array that no rank has stored. After unset_fill
  // such elements are an error again.
  template <Element T>
  Result<void> set_fill(const std::string& name, T value) {
    return answer(cairn_set_fill(session_, name.c_str(), type_code<T>(), &value));
  }
  Result<void> unset_fill(const std::string& name) {
    return answer(cairn_set_fill(session_, name.c_str(), 0, nullptr));
  }

  // Reads elements [start, start + count) of a global array into `out`, packed. Both empty: all of a value.
  // kInvalidArgument also if `out` is too small; kFailedPrecondition also if it has another type.
  template <Element T, std::size_t kExtent>
  Result<void> read(std::uint64_t dataset, const std::string& name, const std::vector<std::uint64_t>& start,
                    const std::vector<std::uint64_t>& count, std::span<T, kExtent> out) {
    const bool all = start.empty() && count.empty();
    const auto info = find_stored(dataset, name);
    if (!info) return info.error();
    if (info->kind != CAIRN_KIND_PLAIN) {
      const std::size_t ndims = info->kind == CAIRN_KIND_ARRAY ? static_cast<std::size_t>(info->ndims) : 1;
      if (!all && (start.size() != ndims || count.size() != ndims)) {
        return Error{Code::kInvalidArgument, "read: start and count need one entry for each dimension"};
      }
      if (info->type != type_code<T>()) {
        return Error{Code::kFailedPrecondition, "read: \"" + name + "\" has another type than the span"};
      }
      if (!holds(out.size(), all ? std::vector<std::uint64_t>{info->count} : count)) {
        return Error{Code::kInvalidArgument, "read: the span has fewer elements than the selection"};
      }
    }
    return answer(cairn_read(session_, dataset, name.c_str(), all ? nullptr : start.data(),
                             all ? nullptr : count.data(), out.data()));
  }

  // Answers which copy served this rank. kRetry: call latest() again.
  Result<Tier> restore(std::uint64_t dataset) {
    std::int32_t tier = 0;
    int code = cairn_restore(session_, dataset);
    if (code == CAIRN_OK) code = cairn_restored_tier(session_, &tier);
    if (code != CAIRN_OK) return failure(code);
    return static_cast<Tier>(tier);
  }

  // The application cannot use what was restored: no restart chooses this dataset any more.
  Result<void> reject(std::uint64_t dataset) { return answer(cairn_reject(session_, dataset)); }

  // The answer is the same on all ranks. After a true, why() tells the reason.
  Result<bool> should_exit() {
    std::int32_t flag = 0;
    const int code = cairn_should_exit(session_, &flag);
    if (code != CAIRN_OK) return failure(code);
    return flag != 0;
  }
  Result<bool> need_checkpoint() {
    std::int32_t flag = 0;
    const int code = cairn_need_checkpoint(session_, &flag);
    if (code != CAIRN_OK) return failure(code);
    return flag != 0;
  }
  std::string why() const { return cairn_error(session_); }

  // The application's own files. `flags`: CAIRN_CHECKPOINT, CAIRN_OUTPUT or both; and CAIRN_GROWING.
  Result<std::uint64_t> output_begin(std::uint64_t step, std::uint32_t flags) {
    std::uint64_t dataset = 0;
    const int code = cairn_output_begin(session_, step, flags, &dataset);
    return answer(code, dataset);
  }
  Result<std::string> route_file(const std::string& file) {
    std::array<char, kPathBytes> path;
    const int code = cairn_route_file(session_, file.c_str(), path.data(), path.size());
    if (code != CAIRN_OK) return failure(code);
    return std::string(path.data());
  }
  Result<void> output_end(bool valid = true) { return answer(cairn_output_end(session_, valid ? 1 : 0)); }
  Result<std::string> restart_file(std::uint64_t dataset, const std::string& file) {
    std::array<char, kPathBytes> path;
    const int code = cairn_restart_file(session_, dataset, file.c_str(), path.data(), path.size());
    if (code != CAIRN_OK) return failure(code);
    return std::string(path.data());
  }

  // For calls of cairn.h. This object still owns it.
  cairn_session* handle() const { return session_; }

 private:
  static constexpr std::size_t kPathBytes = 8192;

  explicit Session(cairn_session* session) : session_(session) {}

  // The array or value of that name, of the lowest id; kind kPlain: there is none, and the daemon is to say why.
  Result<cairn_stored_info> find_stored(std::uint64_t dataset, const std::string& name) {
    for (std::uint64_t i = 0;; ++i) {
      cairn_stored_info info{};
      info.struct_size = sizeof info;
      const int code = cairn_stored(session_, dataset, i, &info);
      if (code == CAIRN_NOT_FOUND) return cairn_stored_info{};
      if (code != CAIRN_OK) return failure(code);
      if (info.kind != CAIRN_KIND_PLAIN && name.compare(0, CAIRN_NAME_MAX - 1, info.name) == 0) return info;
    }
  }

  static const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

  static bool holds(std::size_t elements, const std::vector<std::uint64_t>& counts) {
    std::uint64_t needed = 1;
    for (const std::uint64_t count : counts) {
      if (count == 0) return true;
      if (needed > elements / count) return false;
      needed *= count;
    }
    return needed <= elements;
  }

  Error failure(int code, std::uint64_t dataset = 0) const {
    return Error{static_cast<Code>(code), cairn_error(session_), dataset};
  }
  Result<void> answer(int code) const {
    if (code == CAIRN_OK) return {};
    return failure(code);
  }
  Result<std::uint64_t> answer(int code, std::uint64_t dataset) const {
    if (code == CAIRN_OK) return dataset;
    return failure(code, dataset);
  }

  cairn_session* session_ = nullptr;
};

}  // namespace cairn

#endif  // CAIRN_HPP_

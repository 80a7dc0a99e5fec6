// Expectations on absl::Status and absl::StatusOr.
#ifndef CAIRN_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define CAIRN_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "storage/base/status.h"

namespace cairn::testing_internal {

inline absl::Status StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
absl::Status StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

inline ::testing::AssertionResult IsOk(const char* expr, const absl::Status& status) {
  if (status.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << expr << " is " << status.ToString();
}

inline ::testing::AssertionResult HasStatus(absl::StatusCode code, const absl::Status& status, const char* expr,
                                            std::string_view part) {
  const bool found = MessageOf(status).find(part) != std::string_view::npos;
  if (status.code() == code && found) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << expr << " is " << status.ToString() << ", expected "
                                       << absl::StatusCodeToString(code) << " with \"" << part << "\"";
}

}  // namespace cairn::testing_internal

// `expr`: a Status or StatusOr.
#define EXPECT_OK(expr) EXPECT_TRUE(::cairn::testing_internal::IsOk(#expr, ::cairn::testing_internal::StatusOf(expr)))
#define ASSERT_OK(expr) ASSERT_TRUE(::cairn::testing_internal::IsOk(#expr, ::cairn::testing_internal::StatusOf(expr)))

// The code, an absl::StatusCode, and a part of the message ("": any message).
#define EXPECT_STATUS(code, expr, part) \
  EXPECT_TRUE(::cairn::testing_internal::HasStatus(code, ::cairn::testing_internal::StatusOf(expr), #expr, part))
#define ASSERT_STATUS(code, expr, part) \
  ASSERT_TRUE(::cairn::testing_internal::HasStatus(code, ::cairn::testing_internal::StatusOf(expr), #expr, part))

// `ASSERT_OK_AND_ASSIGN(auto file, disk.Open(path, {}));`
#define ASSERT_OK_AND_ASSIGN(lhs, expr) \
  ASSERT_OK_AND_ASSIGN_(CAIRN_STATUS_CONCAT_(cairn_assigned_, __LINE__), lhs, expr)
#define ASSERT_OK_AND_ASSIGN_(tmp, lhs, expr)                        \
  auto tmp = (expr);                                                 \
  ASSERT_TRUE(::cairn::testing_internal::IsOk(#expr, tmp.status())); \
  lhs = *std::move(tmp)

#endif  // CAIRN_TESTS_SUPPORT_STATUS_MATCHERS_H_

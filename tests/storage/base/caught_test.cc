#include "storage/base/caught.h"

#include <absl/status/statusor.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace cairn {
namespace {

struct Outcome {
  std::string what = "untouched";
  absl::Status status;
};
struct Nested {
  Outcome outcome;
  void FailWith(absl::Status why) { outcome.status = std::move(why); }
};

template <typename Result>
Result Throws() {
  throw std::runtime_error("of no use");
}

TEST(CaughtTest, WhatDoesNotThrowIsAnsweredAsItIs) {
  EXPECT_EQ(*Caught([]() -> absl::StatusOr<int> { return 7; }), 7);
  EXPECT_TRUE(Caught([] {}).ok());
  EXPECT_EQ(Caught([] { return Outcome{.what = "done", .status = {}}; }).what, "done");
}

TEST(CaughtTest, EachKindOfResultSaysThatItHasFailed) {
  EXPECT_EQ(Caught(Throws<absl::Status>).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Caught(Throws<absl::StatusOr<int>>).status().message(), "unexpected: of no use");
  EXPECT_EQ(Caught(Throws<void>).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Caught(Throws<Outcome>).status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Caught(Throws<Nested>).outcome.status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Caught(Throws<std::shared_ptr<Outcome>>)->status.code(), absl::StatusCode::kInternal);
}

TEST(CaughtTest, ANumberThatWasBelievedIsNoMoreThanAnError) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer's operator new ends the process in place of throwing";
#endif
  const absl::Status status = Caught([] { std::vector<std::string>(std::size_t{1} << 50); });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

}  // namespace
}  // namespace cairn

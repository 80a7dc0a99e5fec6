#include "tests/support/vectors.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace cairn::testing {
namespace {

// Sets or unsets a variable for one test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    Put(value);
  }
  ~ScopedVariable() { Put(before_ ? before_->c_str() : nullptr); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void Put(const char* value) {
    if (value == nullptr) {
      ::unsetenv(name_);
    } else {
      ::setenv(name_, value, 1);
    }
  }
  const char* name_;
  std::optional<std::string> before_;
};

TEST(VectorsTest, AFolderThatIsThereIsNamed) {
  const std::string root = ::testing::TempDir() + "/vectors_test";
  std::filesystem::create_directories(root + "/vectors/scr/one");
  std::ofstream(root + "/vectors/scr/one/file") << "bytes";
  const ScopedVariable shared("CAIRN_SHARED", root.c_str());
  const auto path = VectorsPath("scr/one");
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(*path, root + "/vectors/scr/one");
  EXPECT_EQ(ReadVector(*path + "/file"), "bytes");
}

TEST(VectorsTest, SetButNamingNothingFailsTheTest) {
  const ScopedVariable shared("CAIRN_SHARED", "/nonexistent");
  EXPECT_NONFATAL_FAILURE(EXPECT_FALSE(VectorsPath("scr").has_value()), "no folder /nonexistent/vectors/scr");
}

TEST(VectorsTest, UnsetInCiFailsTheTest) {
  const ScopedVariable shared("CAIRN_SHARED", nullptr);
  const ScopedVariable ci("CI", "true");
  EXPECT_NONFATAL_FAILURE(EXPECT_FALSE(VectorsPath("scr").has_value()), "CAIRN_SHARED is not set");
}

TEST(VectorsTest, UnsetElsewhereIsNoFailure) {
  const ScopedVariable shared("CAIRN_SHARED", nullptr);
  const ScopedVariable ci("CI", nullptr);
  EXPECT_FALSE(VectorsPath("scr").has_value());
}

TEST(VectorsTest, AMissingFileFailsTheTest) {
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(ReadVector("/nonexistent/file"), ""), "cannot read /nonexistent/file");
}

}  // namespace
}  // namespace cairn::testing

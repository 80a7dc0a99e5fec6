// A folder that goes with the test.
#ifndef CAIRN_TESTS_DAEMON_SUPERVISOR_PARTS_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_SUPERVISOR_PARTS_FIXTURE_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace cairn {

class PartsTest : public ::testing::Test {
 protected:
  PartsTest() {
    std::string folder = "/tmp/cairn-test.XXXXXX";
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  ~PartsTest() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text = "") const {
    std::filesystem::create_directories((std::filesystem::path(folder_) / name).parent_path());
    std::ofstream(folder_ + "/" + name) << text;
  }
  std::string Read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(folder_ + "/" + name).rdbuf();
    return text.str();
  }
  std::string folder_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_SUPERVISOR_PARTS_FIXTURE_H_

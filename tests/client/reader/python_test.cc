// cairn.open, as a program of its own that has libcairn_reader.so and no libcairn.so.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/client/reader/sample_run.h"
#include "tests/storage/file/bpdir/sample.h"

namespace cairn {
namespace {

int Execute(const std::string& command) {
  const int status = std::system(("CAIRN_LIB=/nonexistent.so " + command).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(PythonReaderTest, DirectoriesAndRunsAreArrays) {
  const std::string directory = ::testing::TempDir() + "python_test.bp", run = ::testing::TempDir() + "python_test_run";
  std::filesystem::remove_all(directory);
  testing::SampleDirectory sample;
  for (int step = 0; step < 3; ++step) sample.AddStep();
  sample.WriteTo(directory);
  testing::MakeSampleRun(run);
  EXPECT_EQ(Execute("/usr/bin/python3 tests/client/reader/reader_program.py " + directory + " " + run), 0);
}

TEST(PythonReaderTest, AFieldIsDrawn) {
  const std::string run = ::testing::TempDir() + "python_test_drawn",
                    picture = ::testing::TempDir() + "python_test.png";
  if (Execute("/usr/bin/python3 -c 'import matplotlib' 2>/dev/null") != 0) {
    const char* ci = std::getenv("CI");
    ASSERT_FALSE(ci != nullptr && std::string(ci) == "true") << "matplotlib is promised there";
    GTEST_SKIP() << "no matplotlib";
  }
  testing::MakeSampleRun(run);
  std::filesystem::remove(picture);
  const std::string program = "/usr/bin/python3 -B client/examples/plot_field.py " + run;
  EXPECT_EQ(Execute(program + " -o " + picture), 0);
  EXPECT_GT(std::filesystem::file_size(picture), 10000u);
  EXPECT_EQ(Execute(program + " time -o " + picture + " 2>/dev/null"), 1) << "no field";
  EXPECT_EQ(Execute(program + "/none -o " + picture + " 2>/dev/null"), 1);
}

}  // namespace
}  // namespace cairn

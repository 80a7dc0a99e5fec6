// Programs and files of this repository that a test names in its `data`.
#ifndef CAIRN_TESTS_SUPPORT_RUNFILES_RUNFILES_H_
#define CAIRN_TESTS_SUPPORT_RUNFILES_RUNFILES_H_

#include <filesystem>
#include <string>
#include <system_error>

namespace cairn::testing {

// The absolute path of `path`, relative to the workspace: also when the test is started by hand.
inline std::string Runfile(const std::string& path) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = program.string() + ".runfiles/cairn/" + path;
  return std::filesystem::exists(beside, error) ? beside.string() : std::filesystem::absolute(path, error).string();
}

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_RUNFILES_RUNFILES_H_

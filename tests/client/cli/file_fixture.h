// What the tests of the commands on files have in common: a folder, files in it, runs of `cairn` without a daemon.
#ifndef CAIRN_TESTS_CLIENT_CLI_FILE_FIXTURE_H_
#define CAIRN_TESTS_CLIENT_CLI_FILE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/layout.h"
#include "tests/client/cli/run_cairn.h"

namespace cairn::testing {

// Variables in processing order: id and bytes.
using Contents = std::vector<std::pair<std::int32_t, std::string>>;

struct CheckpointOptions {
  ftiff::Letter letter = ftiff::Letter::kF;  // A or F
  ftiff::Packing packing = ftiff::Packing::kExact;
  ftiff::FileHeader header = {.checkpoint_id = 17, .timestamp_ns = 1};
};

// The file of the last of several checkpoints: containers grow and shrink on the way.
std::string MakeCheckpoint(const std::vector<Contents>& checkpoints, const CheckpointOptions& options = {});

// A level 3 code file of layout F.
std::string MakeCodeFile(const std::string& code, std::int32_t checkpoint_id);

// `bytes` bytes that differ from variable to variable and place to place.
std::string Pattern(std::int32_t seed, std::size_t bytes);

class FileFixture : public ::testing::Test {
 protected:
  FileFixture();
  ~FileFixture() override;

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const;  // the path
  static std::string Read(const std::string& path);
  std::vector<std::string> Names() const;  // in the folder, sorted

  // Without a daemon, whoever else may run one here.
  CairnRun Run(const std::vector<std::string>& arguments) const;
  // The command must fail for want of room and leave nothing new: a file that may not grow beyond `bytes` stands for a
  // disk that is full. Not under ThreadSanitizer, which keeps its own memory in files.
  void ExpectFailsWhenFilesEndAt(std::uint64_t bytes, const std::vector<std::string>& arguments) const;
  nlohmann::json RunJson(std::vector<std::string> arguments, int exit_code = 0) const;
  static void ExpectSaid(const CairnRun& run, int exit_code, std::string_view part);

  std::string folder_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_CLIENT_CLI_FILE_FIXTURE_H_

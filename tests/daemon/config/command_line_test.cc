#include "daemon/config/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "storage/base/status.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<CommandLine> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "cairnd");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
}

const Surroundings kNone{.variable = [](const char*) { return std::nullopt; }, .uid = 7};

// A file of the test's own; the path is in `path`.
class CommandLineTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path) << text; }
  const std::string path = ::testing::TempDir() + "/cairnd.toml";
};

TEST_F(CommandLineTest, FlagsCountMoreThanTheFileAndTheFileMoreThanTheDefaults) {
  Write("log_level = \"warn\"\n[flush]\nevery = 3\nparallel = 5\n");
  const auto line = Parse({"--config", path.c_str(), "--flush-every", "4", "--cache=/ssd"});
  ASSERT_TRUE(line.ok()) << line.status();
  const auto config = MakeConfig(*line, kNone);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->flush.every, 4u);
  EXPECT_EQ(config->flush.parallel, 5u);
  EXPECT_EQ(config->log_level, "warn");
  EXPECT_EQ(config->cache.path, "/ssd");
  EXPECT_EQ(config->cache.keep, Config().cache.keep);
  EXPECT_EQ(config->runtime_dir, "/tmp/cairn-7");
}

TEST_F(CommandLineTest, EveryFieldHasAFlagThatHelpExplains) {
  const auto help = Parse({"--help"});
  ASSERT_TRUE(help.ok());
  ASSERT_TRUE(help->answered);
  for (const ConfigFieldInfo& info : ConfigFields()) {
    std::string flag = "--" + info.key;
    for (char& c : flag) c = c == '.' || c == '_' ? '-' : c;
    EXPECT_THAT(help->text, HasSubstr(flag));
    const auto line = Parse({flag.c_str(), "1"});
    ASSERT_TRUE(line.ok()) << flag;
    EXPECT_EQ(line->fields.front(), std::make_pair(info.key, std::string("1")));
  }
  EXPECT_THAT(help->text, HasSubstr("Exit codes"));
}

TEST_F(CommandLineTest, TheLastOfRepeatedFlagsCounts) {
  const auto line = Parse({"--flush-every", "4", "--flush-every", "5", "--cache", "/a", "--cache-path", "/b"});
  ASSERT_TRUE(line.ok()) << line.status();
  const auto config = MakeConfig(*line, kNone);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->flush.every, 5u);
  EXPECT_EQ(config->cache.path, "/b");
}

TEST_F(CommandLineTest, AFlagOfAnEarlierVersionIsTakenButTheNewOneCounts) {
  const auto old = Parse({"--flush-beside-captures", "2MB/s"});
  ASSERT_TRUE(old.ok()) << old.status();
  const auto config = MakeConfig(*old, kNone);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->background.beside_captures, 2'000'000u);
  EXPECT_EQ(config->warnings.size(), 1u);
  const auto both = Parse({"--background-beside-captures", "3MB/s", "--flush-beside-captures", "2MB/s"});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(MakeConfig(*both, kNone)->background.beside_captures, 3'000'000u);
  EXPECT_THAT(Parse({"--help"})->text, ::testing::Not(HasSubstr("--flush-beside-captures")));
}

TEST_F(CommandLineTest, RootServesAllUsersUnlessItSaysOtherwise) {
  Surroundings root = kNone;
  root.uid = 0;
  EXPECT_EQ(ServesOf(*Parse({}), root), Serves::kAllUsers);
  EXPECT_EQ(ServesOf(*Parse({"--single-user"}), root), Serves::kOneUser);
  EXPECT_EQ(ServesOf(*Parse({"--worker"}), root), Serves::kOneUser);
  EXPECT_EQ(ServesOf(*Parse({}), kNone), Serves::kOneUser);
  EXPECT_THAT(Parse({"--help"})->text, HasSubstr("--single-user"));
  EXPECT_THAT(Parse({"--help"})->text, ::testing::Not(HasSubstr("--worker")));
}

TEST_F(CommandLineTest, WorkersAreToldWhatTheSupervisorWasButTheirPlaces) {
  Write("[flush]\nevery = 3\n");
  const auto line = Parse({"--config", path.c_str(), "--cache", "/ssd", "--runtime-dir", "/r", "--log-file", "/l",
                           "--flush-every", "4", "--take-cache"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(FlagsForWorkers(*line, kNone),
              ::testing::ElementsAre("--config", path, "--take-cache", "--flush-every=4"));
  const auto worker = Parse({"--worker", "--log-file", "/l", "--runtime-dir", "/r/7", "--cache", "/ssd"});
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(MakeConfig(*worker, kNone)->log_file, "");
}

TEST_F(CommandLineTest, ACacheIsTakenOnlyByItsFlag) {
  Write("[cache]\nnode = \"node7\"\n");
  const auto line = Parse({"--config", path.c_str()});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_FALSE(MakeConfig(*line, kNone)->cache.take);
  const auto taking = Parse({"--config", path.c_str(), "--take-cache", "--cache-node", "node8"});
  ASSERT_TRUE(taking.ok()) << taking.status();
  EXPECT_TRUE(MakeConfig(*taking, kNone)->cache.take);
  EXPECT_EQ(MakeConfig(*taking, kNone)->cache.node, "node8");
  EXPECT_EQ(MakeConfig(*line, kNone)->cache.node, "node7");
  EXPECT_THAT(Parse({"--help"})->text, HasSubstr("--take-cache"));
}

TEST_F(CommandLineTest, ANodeWithoutANameIsLeftUnnamed) {
  // Settings that were printed on one node may be another's, too.
  EXPECT_EQ(MakeConfig(*Parse({"--cache", "/ssd"}), kNone)->cache.node, "");
}

TEST_F(CommandLineTest, VersionAnswers) {
  const auto version = Parse({"--version"});
  ASSERT_TRUE(version.ok());
  EXPECT_TRUE(version->answered);
  EXPECT_THAT(version->text, HasSubstr("cairnd 0"));
}

TEST_F(CommandLineTest, UnknownFlagsAndArgumentsAreRefused) {
  EXPECT_EQ(Parse({"--flush-evrey", "1"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse({"extra"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Parse({"--flush-every"}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CommandLineTest, AValueOutOfRangeNamesTheKey) {
  const auto line = Parse({"--flush-parallel", "0"});
  ASSERT_TRUE(line.ok());
  EXPECT_THAT(std::string(MessageOf(MakeConfig(*line, kNone).status())), HasSubstr("flush.parallel"));
}

TEST_F(CommandLineTest, TheFileIsTheNamedOneElseTheVariables) {
  const Surroundings variable{.variable = [](const char* name) -> std::optional<std::string> {
                                return std::string_view(name) == "CAIRN_CONFIG" ? std::optional("/nonexistent/v.toml")
                                                                                : std::nullopt;
                              },
                              .uid = 7};
  EXPECT_EQ(ConfigFileOf(*Parse({"--config", "/f.toml"}), variable), "/f.toml");
  EXPECT_EQ(ConfigFileOf(*Parse({}), variable), "/nonexistent/v.toml");
  EXPECT_EQ(MakeConfig(*Parse({}), variable).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace cairn

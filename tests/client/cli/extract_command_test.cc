// `cairn extract` as a user runs it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "storage/base/checksum.h"
#include "storage/base/unique_fd.h"
#include "tests/client/cli/file_fixture.h"
#include "tests/support/vectors.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::CairnRun;
using testing::MakeCheckpoint;
using testing::MakeCodeFile;
using testing::Pattern;

class ExtractCommandTest : public testing::FileFixture {
 protected:
  // Variable 2 in three containers, the last one partly filled; between them others'.
  const std::string second_ = Pattern(2, 6500);
  const std::string whole_ = MakeCheckpoint({{{1, Pattern(1, 100)}, {2, Pattern(2, 2000)}, {3, ""}},
                                             {{1, Pattern(1, 100)}, {2, Pattern(2, 5000)}, {3, Pattern(3, 70)}},
                                             {{1, Pattern(1, 100)}, {2, Pattern(2, 9000)}, {3, ""}},
                                             {{1, Pattern(1, 100)}, {2, second_}, {3, ""}}});
};

TEST_F(ExtractCommandTest, AVariableIsPutTogetherFromItsContainers) {
  const std::string path = Write("Ckpt17-Rank0.fti", whole_);
  const CairnRun run = Run({"extract", path, "--var", "2", "-o", Path("v.bin")});
  ExpectSaid(run, 0, Path("v.bin") + ": variable 2, 6500 bytes (6.3 KiB)\n");
  EXPECT_EQ(run.err, "");
  EXPECT_EQ(Read(Path("v.bin")), second_);
  EXPECT_EQ(Names(), (std::vector<std::string>{"Ckpt17-Rank0.fti", "v.bin"}));
  const json told = RunJson({"extract", path, "--var", "1", "--output", Path("w.bin")});
  EXPECT_EQ(told["bytes"], 100);
  EXPECT_EQ(told["containers"], 1);
  EXPECT_EQ(told["output"], Path("w.bin"));
}

TEST_F(ExtractCommandTest, LayoutAAndPaddedContainersMakeNoDifference) {
  const testing::Contents contents = {{1, Pattern(1, 5)}, {2, Pattern(2, 3'000'001)}};
  for (const auto& [letter, packing] :
       {std::pair(ftiff::Letter::kA, ftiff::Packing::kExact), std::pair(ftiff::Letter::kA, ftiff::Packing::kAligned),
        std::pair(ftiff::Letter::kF, ftiff::Packing::kAligned)}) {
    const std::string path = Write("a.fti", MakeCheckpoint({contents}, {.letter = letter, .packing = packing}));
    ExpectSaid(Run({"extract", path, "--var", "2", "-o", Path("v.bin"), "--force"}), 0, "variable 2");
    EXPECT_EQ(Read(Path("v.bin")), contents[1].second);
  }
}

TEST_F(ExtractCommandTest, AVariableWithoutBytesIsAnEmptyFile) {
  ExpectSaid(Run({"extract", Write("a.fti", whole_), "--var", "3", "-o", Path("v.bin")}), 0, "0 bytes (0 B)");
  EXPECT_EQ(Read(Path("v.bin")), "");
}

TEST_F(ExtractCommandTest, StandardOutputHasTheBytesAndNothingElse) {
  const std::string path = Write("a.fti", whole_);
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--json"}}) {
    std::vector<std::string> arguments = {"extract", path, "--var", "2", "-o", "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CairnRun run = Run(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, second_);
    EXPECT_EQ(run.err, "");
  }
}

TEST_F(ExtractCommandTest, ATerminalGetsNoBytes) {
  const CairnRun run = testing::RunCairnOnTerminal({"extract", Write("a.fti", whole_), "--var", "2", "-o", "-"});
  ExpectSaid(run, 1, "a terminal cannot show");
  EXPECT_EQ(run.out, "");
}

TEST_F(ExtractCommandTest, ADamagedChunkIsNamedAndLeavesNothing) {
  std::string bytes = whole_;
  bytes[2100 + 1500] ^= 2;  // variable 2, container 1
  const std::string path = Write("a.fti", bytes);
  const CairnRun run = Run({"extract", path, "--var", "2", "-o", Path("v.bin")});
  ExpectSaid(run, 5, "container 1 of variable 2");
  ExpectSaid(run, 5, "offset 2100");
  EXPECT_EQ(Names(), std::vector<std::string>{"a.fti"});
  // Nor does a pipe get what is not right, or a file that is to be replaced.
  const CairnRun piped = Run({"extract", path, "--var", "2", "-o", "-"});
  ExpectSaid(piped, 5, "container 1 of variable 2");
  EXPECT_EQ(piped.out, "");
  Write("v.bin", "before");
  ExpectSaid(Run({"extract", path, "--var", "2", "-o", Path("v.bin"), "--force"}), 5, "container 1 of variable 2");
  EXPECT_EQ(Read(Path("v.bin")), "before");
  // The other variables are not concerned.
  ExpectSaid(Run({"extract", path, "--var", "1", "-o", Path("w.bin")}), 0, "variable 1");
  EXPECT_EQ(Read(Path("w.bin")), Pattern(1, 100));
}

// Only the checksum of the whole file covers an id: unseen, the bytes of one variable would go out as another's.
TEST_F(ExtractCommandTest, InLayoutAADamagedRecordIsDamageWhereverItIs) {
  const testing::Contents contents = {{1, Pattern(1, 100)}, {2, Pattern(2, 5000)}};
  const std::string whole = MakeCheckpoint({contents}, {.letter = ftiff::Letter::kA});
  std::string bytes = whole;
  bytes[96 + 12] ^= 4;  // the id in the first chunk record, behind file record and block record
  const std::string path = Write("a.fti", bytes);
  for (const std::string variable : {"1", "2", "5"}) {
    ExpectSaid(Run({"extract", path, "--var", variable, "-o", Path("v.bin")}), 5, "checksum is");
    EXPECT_EQ(Names(), std::vector<std::string>{"a.fti"});
    const CairnRun piped = Run({"extract", path, "--var", variable, "-o", "-"});
    ExpectSaid(piped, 5, "checksum is");
    EXPECT_EQ(piped.out, "");
  }
  ExpectSaid(Run({"extract", Write("a.fti", whole), "--var", "1", "-o", Path("v.bin")}), 0, "variable 1");
}

TEST_F(ExtractCommandTest, AnUnknownVariableIsNotFoundAndTheOthersAreTold) {
  const std::string path = Write("a.fti", whole_);
  ExpectSaid(Run({"extract", path, "--var", "9", "-o", Path("v.bin")}), 4, "no variable 9; there are 1, 2, 3");
  ExpectSaid(Run({"extract", path, "--var", "-1", "-o", Path("v.bin")}), 4, "no variable -1");
  EXPECT_EQ(Names(), std::vector<std::string>{"a.fti"});
}

TEST_F(ExtractCommandTest, NothingIsReplacedUnasked) {
  const std::string path = Write("a.fti", whole_);
  Write("v.bin", "before");
  ExpectSaid(Run({"extract", path, "--var", "2", "-o", Path("v.bin")}), 1, "--force replaces it");
  EXPECT_EQ(Read(Path("v.bin")), "before");
  ExpectSaid(Run({"extract", path, "--var", "2", "-o", Path("v.bin"), "--force"}), 0, "variable 2");
  EXPECT_EQ(Read(Path("v.bin")), second_);
}

TEST_F(ExtractCommandTest, OutputsThatCannotBeAreRefused) {
  const std::string path = Write("a.fti", whole_);
  const auto extract = [&](const std::string& output) {
    return Run({"extract", path, "--var", "2", "--force", "-o", output});
  };
  ExpectSaid(extract(path), 1, "is the input itself");
  ExpectSaid(extract(folder_), 1, "is a directory");
  ExpectSaid(extract(Path("new/")), 4, "its directory");
  ExpectSaid(extract(Path("nowhere/v.bin")), 4, "its directory");
  ExpectSaid(extract("/dev/null"), 1, "a device or a pipe");
  ExpectSaid(extract("/proc/v.bin"), 4, "/proc/v.bin");
  ExpectSaid(extract(""), 1, "no name");
  std::filesystem::create_symlink(path, Path("link"));
  ExpectSaid(extract(Path("link")), 1, "is the input itself");
  std::filesystem::create_hard_link(path, Path("other-name"));
  ExpectSaid(extract(Path("other-name")), 1, "is the input itself");
  std::filesystem::create_symlink(Path("nowhere"), Path("dangling"));
  ExpectSaid(extract(Path("dangling")), 1, "leads nowhere");
  EXPECT_EQ(Read(path), whole_);
}

TEST_F(ExtractCommandTest, ALinkIsNotReplacedButWhatItPointsTo) {
  const std::string path = Write("a.fti", whole_);
  Write("v.bin", "before");
  std::filesystem::create_symlink(Path("v.bin"), Path("link"));
  ExpectSaid(Run({"extract", path, "--var", "2", "-o", Path("link"), "--force"}), 0, Path("v.bin"));
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_EQ(Read(Path("v.bin")), second_);
}

TEST_F(ExtractCommandTest, OthersMayReadItIfTheyMayReadTheFile) {
  const std::string path = Write("a.fti", whole_);
  for (const mode_t mode : {0600u, 0400u}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    ExpectSaid(Run({"extract", path, "--var", "2", "-o", Path("v.bin"), "--force"}), 0, "variable 2");
    struct stat stat {};
    ASSERT_EQ(::stat(Path("v.bin").c_str(), &stat), 0);
    EXPECT_EQ(stat.st_mode & 0777, 0600u);
  }
}

TEST_F(ExtractCommandTest, OnlyCheckpointFilesHaveVariables) {
  ExpectSaid(Run({"extract", Write("Ckpt3-RSed0.fti", MakeCodeFile(Pattern(9, 200), 3)), "--var", "1", "-o", "-"}), 1,
             "is a level 3 code file");
  ExpectSaid(Run({"extract", Write("notes.txt", "some words"), "--var", "1", "-o", "-"}), 5, "none that Cairn knows");
  ExpectSaid(Run({"extract", folder_, "--var", "1", "-o", "-"}), 1, "is a directory");
  ExpectSaid(Run({"extract", Path("nothing"), "--var", "1", "-o", "-"}), 4, "No such file");
}

TEST_F(ExtractCommandTest, WrongCommandsSayWhatIsMissing) {
  const std::string path = Write("a.fti", whole_);
  ExpectSaid(Run({"extract", path, "-o", "-"}), 2, "--var");
  ExpectSaid(Run({"extract", path, "--var", "1"}), 2, "--output");
  ExpectSaid(Run({"extract", path, "--var", "u", "-o", "-"}), 2, "--var");
  ExpectSaid(Run({"extract", "--help"}), 0, "Exit codes:");
}

TEST_F(ExtractCommandTest, AFullDiskIsAFailureThatLeavesNothing) {
  const std::string path = Write("a.fti", whole_);
  const UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full.valid());
  const CairnRun run = testing::RunCairnInto(full.get(), {"extract", path, "--var", "2", "-o", "-"});
  ExpectSaid(run, 1, "standard output: No space left on device");
  ExpectFailsWhenFilesEndAt(4096, {"extract", path, "--var", "2", "-o", Path("v.bin")});
}

TEST_F(ExtractCommandTest, AReaderThatGoesAwayEndsItQuietly) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd out(ends[1]);
  close(ends[0]);
  const CairnRun run = testing::RunCairnInto(out.get(), {"extract", Write("a.fti", whole_), "--var", "2", "-o", "-"});
  EXPECT_EQ(run.exit_code, 128 + SIGPIPE);
  EXPECT_EQ(run.err, "");
}

TEST_F(ExtractCommandTest, VariablesOfTheReferenceAreWhatTheRunHadInMemory) {
  const auto root = testing::VectorsPath("ftiff");
  if (!root.has_value()) return;
  for (const std::string scenario : {"restart-A", "seed-k-B", "seed-k-C", "seed-k-D", "types-E", "dcp-crc-F"}) {
    const json known = json::parse(testing::ReadVector(*root + "/" + scenario + "/" + scenario + ".json"));
    const json& file = known["files"].back();
    ASSERT_EQ(file["stored_encoding"], "raw");
    for (const json& variable : file["vars"]) {
      SCOPED_TRACE(scenario + " " + variable.dump());
      const std::string id = std::to_string(variable["id"].get<int>());
      const CairnRun run = Run({"extract", *root + "/" + file["stored"].get<std::string>(), "--var", id, "-o", "-"});
      EXPECT_EQ(run.exit_code, 0) << run.err;
      EXPECT_EQ(HexOf(Md5(std::as_bytes(std::span(run.out)))), variable["md5"].get<std::string>());
    }
  }
}

}  // namespace
}  // namespace cairn

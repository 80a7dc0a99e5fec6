// `cairn drain` as a user runs it.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/client/cli/file_fixture.h"

namespace cairn::testing {
namespace {

class DrainCommandTest : public FileFixture {
 protected:
  DrainCommandTest() {
    std::filesystem::create_directories(Path("from/sub"));
    std::ofstream(Path("from/file")) << "bytes";
    std::ofstream(Path("from/sub/other")) << "other bytes";
  }
  std::string From() const { return Path("from"); }
  std::string To() const { return Path("to"); }
};

TEST_F(DrainCommandTest, BringsWhatHasSettledAndSaysSo) {
  const CairnRun run = Run({"drain", From(), "--to", To(), "--settle", "0"});
  ExpectSaid(run, 0, "drained 2 files");
  EXPECT_NE(run.out.find("every byte read back and compared"), std::string::npos);
  EXPECT_EQ(Read(Path("to/sub/other")), "other bytes");
  ExpectSaid(Run({"drain", From(), "--to", To(), "--settle", "0"}), 0, "there already: 2 files");
}

TEST_F(DrainCommandTest, WaitsUntilFilesSettleIfItMay) {
  ExpectSaid(Run({"drain", From(), "--to", To(), "--settle", "1h", "--wait", "0"}), 7, "waiting: 2");
  ExpectSaid(Run({"drain", From(), "--to", To(), "--settle", "1s"}), 0, "drained 2 files");
}

TEST_F(DrainCommandTest, ADryRunOnlyTells) {
  ASSERT_EQ(::mkfifo(Path("from/pipe").c_str(), 0600), 0);
  const CairnRun run = Run({"drain", From(), "--to", To(), "--settle", "0", "--dry-run"});
  ExpectSaid(run, 7, "would drain 2 files");
  EXPECT_NE(run.out.find("left out: 1"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(To()));
}

TEST_F(DrainCommandTest, JsonHasEverything) {
  std::filesystem::create_symlink("/etc", Path("from/out"));
  const nlohmann::json json = RunJson({"drain", From(), "--to", To(), "--settle", "0", "--delete-source"});
  EXPECT_EQ(json["files"], 2);
  EXPECT_EQ(json["bytes"], 16);
  EXPECT_EQ(json["deleted"], 3);
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["links_that_lead_out"]["first"][0]["path"], "out");
  EXPECT_FALSE(std::filesystem::exists(Path("from/file")));
}

TEST_F(DrainCommandTest, ExitCodes) {
  ExpectSaid(Run({"drain", Path("none"), "--to", To()}), 4, "none");
  ExpectSaid(Run({"drain", From(), "--to", Path("none/to")}), 4, "none");
  EXPECT_EQ(Run({"drain", From()}).exit_code, 2);
  EXPECT_EQ(Run({"drain", From(), "--to", To(), "--settle", "soon"}).exit_code, 2);
  EXPECT_EQ(Run({"drain", From(), "--to", To(), "--marker", "a/b"}).exit_code, 2);
  EXPECT_EQ(Run({"drain", From(), "--to", To(), "--watch", "--dry-run"}).exit_code, 2);
  ExpectSaid(Run({"drain", From(), "--to", Path("from/sub")}), 1, "below");
  std::filesystem::create_directory(To());
  std::ofstream(Path("to/file")) << "another";
  ExpectSaid(Run({"drain", From(), "--to", To(), "--settle", "0"}), 1, "FAILED: 1");
  ExpectSaid(Run({"drain", From(), "--to", To(), "--marker", "DONE"}), 7, "waiting: 1");
}

TEST_F(DrainCommandTest, NamesOfOthersCannotWriteToTheTerminal) {
  std::ofstream(Path("from/\x1b[31mred\n")) << "x";
  const CairnRun run = Run({"drain", From(), "--to", To(), "--settle", "1h", "--wait", "0"});
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
}

TEST_F(DrainCommandTest, WatchesUntilASignalEndsIt) {
  CairnOnTerminal cairn({"drain", From(), "--to", To(), "--settle", "0", "--watch"}, {});
  cairn.WaitFor("drained 2 files");
  std::ofstream(Path("from/third")) << "third";
  cairn.WaitFor("drained 1 file");
  EXPECT_EQ(Read(Path("to/third")), "third");
  cairn.Send(SIGTERM);
  EXPECT_EQ(cairn.End().exit_code, 0);
}

// A look that the signal cuts short: 7 if there was none before, 1 if something had failed by then.
TEST_F(DrainCommandTest, AWatchThatIsEndedDuringItsFirstLookDoesNotSayThatAllIsWell) {
  std::filesystem::create_directory(To());
  std::filesystem::remove_all(Path("from/sub"));  // all that is found below the target stays there, or is a file
  for (const int code : {7, 1}) {
    std::ofstream(Path("from/large")) << std::string(12 << 20, 'x');
    if (code == 1) std::ofstream(Path("to/file")) << "another";
    CairnOnTerminal cairn({"drain", From(), "--to", To(), "--settle", "0", "--watch", "--bandwidth", "1 MB/s"}, {});
    const auto at_work = [&] {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(To())) {
        if (entry.path().string().find("/work/0/") != std::string::npos && entry.is_regular_file()) return true;
      }
      return false;
    };
    for (int i = 0; i < 3000 && !at_work(); ++i) ::usleep(10'000);
    cairn.Send(SIGTERM);
    EXPECT_EQ(cairn.End().exit_code, code);
    std::filesystem::remove_all(To());
    std::filesystem::create_directory(To());
  }
}

}  // namespace
}  // namespace cairn::testing

// The commands that need no daemon: on files, on a prefix, and the command line itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/base/clock.h"
#include "storage/base/path.h"
#include "storage/base/user_name.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/records.h"
#include "storage/io/device_identity.h"
#include "storage/io/disk.h"
#include "storage/io/file_system_kind.h"
#include "storage/io/posix_disk.h"
#include "storage/place/cache/disk_record.h"
#include "storage/place/prefix/prefix.h"
#include "tests/client/cli/file_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::CairnRun;
using ::testing::ContainsRegex;

// A checkpoint file of one variable, 3000 bytes.
std::string SampleCheckpoint() {
  return testing::MakeCheckpoint({{{5, std::string(3000, 'd')}}});
}

class FileCommandsTest : public testing::FileFixture {
 protected:
  // A prefix with dataset 1 (one rank, one file), committed. The path of its file.
  std::string MakePrefix() {
    const auto disk = MakePosixDisk();
    std::filesystem::create_directory(folder_ + "/heat");
    auto prefix = Prefix::Open(*disk, folder_ + "/heat");
    EXPECT_OK(prefix);
    const auto ids = (*prefix)->ReserveIds(0);
    EXPECT_OK(ids);
    dataset_ = ids->first;
    catalogue::Catalogue catalogue;
    catalogue.set_run((*prefix)->run().Hex());
    catalogue.set_launch(1);
    catalogue.set_dataset(dataset_);
    catalogue.set_step(40);
    catalogue.set_rank(0);
    catalogue.set_nranks(1);
    local::Variable& variable = *catalogue.add_variables();
    variable.set_id(5);
    variable.set_type(5);
    variable.set_count(3000);
    variable.set_bytes(3000);
    const std::string bytes = SampleCheckpoint();
    catalogue::FileEntry& file = *catalogue.add_file();
    file.set_name(CheckpointFileName(dataset_, 0));
    file.set_prefix_name("ckpt." + std::to_string(dataset_) + "/" + file.name());
    file.set_bytes(bytes.size());
    file.add_crc32c(Crc32c(std::as_bytes(std::span(bytes))));
    std::filesystem::create_directories(folder_ + "/heat/ckpt." + std::to_string(dataset_));
    const std::string path = Write("heat/" + file.prefix_name(), bytes);
    scr::Descriptor descriptor;
    descriptor.id = dataset_;
    descriptor.name = "ckpt." + std::to_string(dataset_);
    descriptor.created_us = 1'700'000'000'000'000;
    descriptor.launch = 1;
    descriptor.step = 40;
    descriptor.ranks = 1;
    descriptor.complete = true;
    EXPECT_OK((*prefix)->Commit(descriptor, {catalogue}));
    return path;
  }

  DatasetId dataset_ = 0;
};

TEST_F(FileCommandsTest, HelpIsForNewcomersAndNamesTheExitCodes) {
  const CairnRun help = Run({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* part : {"status", "ls",        "show",        "wait",       "flush",
                           "pin",    "rm",        "index",       "halt",       "print",
                           "verify", "inspect",   "extract",     "convert",    "diff",
                           "doctor", "Examples:", "Exit codes:", "5  damaged", "CAIRN_ADMIN_ADDRESS"}) {
    EXPECT_NE(help.out.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(help.err, "");
  for (const char* command : {"status", "ls", "show", "wait", "flush", "pin", "rm", "index", "halt", "print", "verify",
                              "inspect", "extract", "convert", "diff", "doctor", "run"}) {
    EXPECT_EQ(Run({command, "--help"}).exit_code, 0) << command;
  }
  ExpectSaid(Run({"--version"}), 0, "cairn ");
}

TEST_F(FileCommandsTest, ACommandsHelpHasItsOwnExamplesOnly) {
  const CairnRun help = Run({"wait", "--help"});
  EXPECT_NE(help.out.find("Examples:\n  cairn wait heat 17 prefix "), std::string::npos) << help.out;
  EXPECT_NE(help.out.find("RUN is the run's directory"), std::string::npos) << help.out;
  EXPECT_EQ(help.out.find("cairn flush"), std::string::npos) << help.out;
  EXPECT_EQ(Run({"doctor", "--help"}).out.find("RUN is"), std::string::npos);
}

TEST_F(FileCommandsTest, WrongCommandsAreToldApartFromFailedOnes) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{},
                                                {"nonsense"},
                                                {"show", "heat"},
                                                {"show", "heat", "x"},
                                                {"wait", "heat", "1", "paper"},
                                                {"wait", "heat", "1", "none"},
                                                {"wait", "heat", "1", "local", "--timeout", "5"},
                                                {"inspect"},
                                                {"status", "extra"}}) {
    EXPECT_EQ(Run(wrong).exit_code, 2);
  }
}

TEST_F(FileCommandsTest, WhatIsNotThereIsNotFound) {
  ExpectSaid(Run({"ls", folder_ + "/nothing"}), 4, "no such directory");
  ExpectSaid(Run({"ls", folder_}), 4, folder_);  // a directory, but no prefix
}

TEST_F(FileCommandsTest, APrefixIsListedAndShownWithoutADaemon) {
  MakePrefix();
  const std::string id = std::to_string(dataset_);
  ExpectSaid(Run({"ls", folder_ + "/heat"}), 0, "checkpoint  prefix  whole  prefix");
  const json list = json::parse(Run({"ls", folder_ + "/heat", "--json"}).out);
  EXPECT_EQ(list["from"], "prefix");
  EXPECT_EQ(list["datasets"][0]["dataset"], dataset_);
  EXPECT_EQ(list["datasets"][0]["step"], 40);
  ExpectSaid(Run({"show", folder_ + "/heat", id}), 0, "Ckpt" + id + "-Rank0.fti");
  ExpectSaid(Run({"show", folder_ + "/heat", "999"}), 4, "no dataset 999 is committed");
}

TEST_F(FileCommandsTest, APrefixIsVerifiedFileByFile) {
  const std::string file = MakePrefix();
  const std::string id = std::to_string(dataset_);
  ExpectSaid(Run({"verify", folder_ + "/heat"}), 0, "dataset " + id + ": 1 rank, 1 file");
  ExpectSaid(Run({"verify", folder_ + "/heat", "--dataset", "999"}), 4, "no dataset 999");
  std::string bytes = SampleCheckpoint();
  bytes[17] ^= 4;
  std::ofstream(file, std::ios::binary) << bytes;
  ExpectSaid(Run({"verify", folder_ + "/heat"}), 5, file);
  const json report = json::parse(Run({"verify", folder_ + "/heat", "--json"}).out);
  EXPECT_EQ(report["ok"], false);
  EXPECT_EQ(report["targets"].size(), 1u);
  std::filesystem::remove(file);
  ExpectSaid(Run({"verify", folder_ + "/heat", "--dataset", id}), 5, "DAMAGED");
}

TEST_F(FileCommandsTest, ListsOfAPrefixThatOnlyScrReadsAreVerifiedToo) {
  MakePrefix();
  const std::string folder = "heat/.scr/scr.dataset." + std::to_string(dataset_) + "/";
  for (const std::string name : {"summary.scr", "rank2file", "rank2file.0.0"}) {
    const std::string whole = Read(Path(folder + name));
    Write(folder + name, whole.substr(0, whole.size() / 2));
    ExpectSaid(Run({"verify", folder_ + "/heat"}), 5, Path(folder + name));
    ExpectSaid(Run({"index", "add", folder_ + "/heat", std::to_string(dataset_)}), 0, "added");
    EXPECT_EQ(Read(Path(folder + name)), whole);
  }
  ExpectSaid(Run({"verify", folder_ + "/heat"}), 0, "ok ");
}

TEST_F(FileCommandsTest, AFailedDatasetIsSaidToBeSoByVerify) {
  const std::string file = MakePrefix();
  const std::string heat = folder_ + "/heat", id = std::to_string(dataset_);
  const auto disk = MakePosixDisk();
  ASSERT_OK((*Prefix::Open(*disk, heat))->MarkFailed(dataset_));
  for (const std::vector<std::string>& one :
       {std::vector<std::string>{"verify", heat}, {"verify", heat, "--dataset", id}}) {
    const CairnRun run = Run(one);
    ExpectSaid(run, 1, "failed   " + heat + ": dataset " + id + ": a restart from it failed at 2");
    EXPECT_NE(run.err.find("cairn index add"), std::string::npos) << run.err;
  }
  EXPECT_EQ(json::parse(Run({"verify", heat, "--json"}).out)["targets"][0]["verdict"], "failed");
  std::string bytes = SampleCheckpoint();
  bytes[17] ^= 4;
  std::ofstream(file, std::ios::binary) << bytes;
  ExpectSaid(Run({"verify", heat}), 5, file);
  ExpectSaid(Run({"index", "add", heat, id}), 5, "dataset " + id + " failed at 2");
  std::ofstream(file, std::ios::binary) << SampleCheckpoint();
  ExpectSaid(Run({"index", "add", heat, id}), 0, "current is now dataset " + id);
  ExpectSaid(Run({"verify", heat}), 0, "ok ");
}

TEST_F(FileCommandsTest, OfScrsDatasetsSizesAloneAreVerified) {
  const std::string heat = folder_ + "/heat";
  std::filesystem::create_directories(heat + "/.scr/scr.dataset.2");
  Write("heat/rank_0.ckpt", "12345");
  scr::IndexEntry entry;
  entry.complete = true;
  entry.descriptor.id = 2;
  entry.descriptor.name = "step_2";
  entry.descriptor.files = 1;
  entry.descriptor.bytes = 5;
  entry.descriptor.complete = true;
  kvtree::Tree index;
  scr::PutIndexEntry(entry, index);
  Write("heat/.scr/index.scr", kvtree::Encode(index));
  Write("heat/.scr/scr.dataset.2/summary.scr", kvtree::Encode(scr::MakeSummary(entry.descriptor)));
  for (const auto& [suffix, tree] : scr::MakeRank2File({{"rank_0.ckpt"}})) {
    Write("heat/.scr/scr.dataset.2/rank2file" + suffix, kvtree::Encode(tree));
  }
  const CairnRun run = Run({"verify", heat});
  ExpectSaid(run, 0, "sizes only " + heat + ": dataset 2: SCR's own: 1 rank, 1 file, 5 B");
  EXPECT_NE(run.err.find("no checksums"), std::string::npos) << run.err;
  Write("heat/rank_0.ckpt", "123");
  ExpectSaid(Run({"verify", heat}), 5, "DAMAGED");
}

TEST_F(FileCommandsTest, DoctorTriesEachMechanismAndLeavesNothingBehind) {
  std::filesystem::create_directory(folder_ + "/cache");
  std::filesystem::create_directory(folder_ + "/prefix");
  const CairnRun run = Run({"doctor", "--cache", folder_ + "/cache", "--prefix", folder_ + "/prefix", "--json"});
  const json report = json::parse(run.out);
  EXPECT_EQ(run.exit_code, report["healthy"] == true ? 0 : 1);
  std::vector<std::string> names;
  for (const json& finding : report["findings"]) {
    names.push_back(finding["name"]);
    EXPECT_FALSE(finding["detail"].get<std::string>().empty()) << finding;
  }
  const json& inodes = report["findings"].back();
  EXPECT_EQ(inodes["copies_told_by"], inodes["works"] == true ? "inode" : "path");
  EXPECT_EQ(inodes["needed"], false);
  const std::string kind = inodes["file_system"];
  EXPECT_NE(inodes["detail"].get<std::string>().find(kind), std::string::npos) << inodes;
  const json& prefix = report["findings"].at(report["findings"].size() - 4);
  EXPECT_EQ(prefix["exclusive_creation"], "by hard links");
  EXPECT_NE(prefix["detail"].get<std::string>().find("; exclusive creation: by hard links"), std::string::npos);
  EXPECT_EQ(names, (std::vector<std::string>{"daemon",
                                             "peer credentials",
                                             "sealed shared memory",
                                             "huge pages for images",
                                             "images touched at once",
                                             "copies past the caches",
                                             "parallel MD5",
                                             "io_uring",
                                             "pinned images",
                                             "cache",
                                             "direct I/O in the cache",
                                             "restores straight into memory",
                                             "reserved blocks in the cache",
                                             "shared extents in the cache",
                                             "I/O priorities in the cache",
                                             "transfers of the cache",
                                             "cache survives a reboot",
                                             "prefix",
                                             "direct I/O on the prefix",
                                             "I/O priorities on the prefix",
                                             "inodes of the prefix"}));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/cache"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/prefix"));
}

TEST_F(FileCommandsTest, DoctorTellsByWhatACopyOfARunIsKnown) {
  // A file system of which nothing is known: nothing can be written there, but its kind can be asked.
  const CairnRun run = Run({"doctor", "--cache", folder_, "--prefix", "/proc/1/nowhere"});
  ExpectSaid(run, 1,
             "no       inodes of the prefix: file system of kind 0x9fa0, which is not known: a copy of the run's "
             "directory is told from it by its path");
}

TEST_F(FileCommandsTest, DoctorSaysNothingOfWhatItCannotTry) {
  // No file can be made there, and no disk lies below it.
  const std::vector<std::string> line = {"doctor", "--cache", "/proc/1/nowhere", "--prefix", "/proc/1/nowhere"};
  const CairnRun run = Run(line);
  for (const std::string name :
       {"direct I/O in the cache", "restores straight into memory", "reserved blocks in the cache",
        "shared extents in the cache", "direct I/O on the prefix"}) {
    EXPECT_THAT(run.out, ContainsRegex("\nunknown  " + name + ": [^\n:]*/proc/1/cairn-doctor[^\n:]*: [^\n:]*\n"));
  }
  for (const std::string name : {"I/O priorities in the cache", "I/O priorities on the prefix"}) {
    EXPECT_THAT(run.out, ContainsRegex("\nunknown  " + name +
                                       ": cannot be told here: the kernel names no scheduler for device 0:[0-9]+\n"));
  }
  std::vector<std::string> as_json = line;
  as_json.emplace_back("--json");
  const json report = json::parse(Run(as_json).out);
  for (const json& finding : report["findings"]) {
    if (finding["name"] == "direct I/O on the prefix") {
      EXPECT_TRUE(finding["works"].is_null()) << finding;
    }
    if (finding["name"] == "prefix") {
      EXPECT_EQ(finding["works"], false) << finding;
    }
  }
}

TEST_F(FileCommandsTest, DoctorSaysWhichTransfersTheCacheGetsAndWhyTheyWereNotMeasured) {
  const auto doctor = [this](const std::string& probe) {
    const std::string settings = Write("cairnd.toml", "[cache]\nprobe = " + probe + "\n");
    return testing::RunCairn({"doctor", "--cache", folder_}, {{"CAIRN_CONFIG", settings}}).out;
  };
  const std::string unknown = "no       transfers of the cache: writes of 4.0 MiB x 8, reads of 4.0 MiB x 8; ";
  EXPECT_NE(doctor("true").find(unknown + "not measured yet: a daemon does it"), std::string::npos) << doctor("true");
  EXPECT_NE(doctor("false").find(unknown + "cache.probe is off"), std::string::npos) << doctor("false");

  const auto disk = MakePosixDisk();
  const std::string path = DiskRecordPath(folder_, UserName());
  ASSERT_TRUE(MakeDirectories(*disk, ParentOf(path)).ok());
  auto device = IdentifyDevice(*disk, ParentOf(path));
  ASSERT_TRUE(device.ok()) << device.status();
  DiskRecord record{.device = *device,
                    .measured_us = NowMicros(),
                    .compared = true,
                    .shapes = {.write = {.bytes = 1 << 20, .depth = 4}, .read = {.bytes = 256 << 10, .depth = 16}},
                    .write_speed = 3'000'000'000,
                    .read_speed = 6'540'000'000};
  ASSERT_TRUE(WriteDiskRecord(*disk, path, record).ok());
  const std::string known =
      "works    transfers of the cache: writes of 1.0 MiB x 4 (3.0 GB/s), reads of 256.0 KiB x 16 (6.5 GB/s), "
      "measured ";
  EXPECT_NE(doctor("true").find(known), std::string::npos) << doctor("true");
  EXPECT_NE(doctor("true\nwrite_depth = 7").find("writes of 1.0 MiB x 7"), std::string::npos) << "as a daemon does";
  const std::vector<std::pair<std::string, std::string>> settings_off = {
      {"false", "cache.probe is off"},
      {"true\ndirect = false", "cache.direct is off"},
      {"true\nwrite_bytes = \"4MiB\"\nread_bytes = \"4MiB\"\nwrite_depth = 8\nread_depth = 8",
       "the settings say all of it"}};
  for (const auto& [settings, why] : settings_off) {
    const std::string said = doctor(settings);
    EXPECT_NE(said.find(unknown + why + ": what was measured "), std::string::npos) << said;
    EXPECT_NE(said.find(" is not used\n"), std::string::npos) << said;
  }

  record.device.kernel = "2.6.32";
  ASSERT_TRUE(WriteDiskRecord(*disk, path, record).ok());
  const std::string said = doctor("true");
  EXPECT_NE(said.find(unknown + "measured under kernel 2.6.32, this is "), std::string::npos) << said;
  EXPECT_NE(said.find(": what was measured "), std::string::npos) << said;
  Write(UserName() + "/disk.cairn", "no record");
  EXPECT_NE(doctor("true").find(unknown + path), std::string::npos) << doctor("true");
}

TEST_F(FileCommandsTest, DoctorLooksAtTheFolderThatIsRedundantItself) {
  const auto doctor = [this](const std::string& path) {
    const std::string settings = Write("cairnd.toml", "[redundant]\npath = \"" + path + "\"\n");
    return testing::RunCairn({"doctor", "--cache", folder_}, {{"CAIRN_CONFIG", settings}});
  };
  EXPECT_NE(doctor(folder_).out.find("no       redundant.path: " + folder_), std::string::npos);
  EXPECT_NE(doctor(folder_).out.find("it is on the device of the cache: is it mounted?"), std::string::npos);
  EXPECT_NE(doctor(folder_ + "/nowhere").out.find("is it mounted?"), std::string::npos);
  EXPECT_NE(doctor("/dev/shm").out.find("works    redundant.path: /dev/shm"), std::string::npos);
}

TEST_F(FileCommandsTest, DoctorsHelpHasTheTableOfFileSystems) {
  const CairnRun run = Run({"doctor", "--help"});
  EXPECT_EQ(run.exit_code, 0);
  const std::size_t by_inode = run.out.find("by inode"), by_path = run.out.find("by path");
  ASSERT_LT(by_inode, by_path) << run.out;
  for (const FileSystemKind& kind : FileSystemKinds()) {
    EXPECT_NE(run.out.find(kind.name, kind.inodes_count ? by_inode : by_path), std::string::npos) << kind.name;
    EXPECT_NE(run.out.find(kind.why), std::string::npos) << kind.name;
  }
}

TEST_F(FileCommandsTest, DoctorFailsWhereCairnCannotWork) {
  const std::string file = Write("file", "x");
  const CairnRun run = Run({"doctor", "--cache", folder_, "--prefix", "/proc/1/nowhere"});
  ExpectSaid(run, 1, "MISSING  prefix: /proc/1/nowhere");
  ExpectSaid(run, 1, "Cairn cannot work here");
}

}  // namespace
}  // namespace cairn

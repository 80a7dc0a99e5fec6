// `cairn vars`, `cairn dump`, `cairn bp` as a user runs them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "storage/base/checksum.h"
#include "storage/base/path.h"
#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/format.h"
#include "storage/format/bp5/image.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/prefix.h"
#include "tests/client/cli/file_fixture.h"
#include "tests/storage/place/view/sample.h"
#include "tests/support/status_matchers.h"
#include "tests/support/vectors.h"

namespace cairn::testing {
namespace {

using nlohmann::json;

class VariableCommandsTest : public FileFixture {
 protected:
  // The path of a directory that others wrote; empty: there are none here.
  static std::string Vector(const char* name) {
    const auto path = VectorsPath("bp5");
    return path ? *path + "/" + name : "";
  }

  scr::Descriptor DescriptorOf(DatasetId id, std::uint32_t ranks, bool own_files) const {
    scr::Descriptor descriptor;
    descriptor.id = id;
    descriptor.name = fmt::format("ckpt.{}", id);
    descriptor.launch = 1;
    descriptor.step = 10 * id;
    descriptor.ranks = ranks;
    descriptor.checkpoint = true;
    descriptor.own_files = own_files;
    descriptor.complete = true;
    return descriptor;
  }

  // Dataset `id` of the run heat: two ranks with a field {id, id + 1, id + 2, id + 3} and a value.
  void CommitField(DatasetId id) {
    const auto disk = MakePosixDisk();
    ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(*disk, Path("heat")));
    const auto number = static_cast<double>(id);
    const std::string field = view::Raw<double>({number, number + 1, number + 2, number + 3});
    view::SampleDataset dataset = view::MakeDataset(
        {{view::Array(1, "field", 10, {4}, {0}, {2}, field), view::Value(2, "time", 10, view::Raw<double>({number}))},
         {view::Array(1, "field", 10, {4}, {2}, {2}, field), view::Value(2, "time", 10, view::Raw<double>({number}))}},
        {.dataset = id, .step = 10 * id, .launch = 1});
    for (std::size_t rank = 0; rank < dataset.files.size(); ++rank) {
      catalogue::Catalogue& catalogue = dataset.catalogues[rank];
      catalogue.set_run(prefix->run().Hex());
      const std::string path = prefix->FilePath(catalogue.file(0).prefix_name());
      std::filesystem::create_directories(ParentOf(path));
      std::ofstream(path, std::ios::binary) << dataset.files[rank];
    }
    ASSERT_OK(prefix->Commit(DescriptorOf(id, 2, false), dataset.catalogues));
    prefix->MakeView(id, dataset.catalogues);
  }

  // Dataset `id` of files: copies of directories that others wrote, under these names.
  void CommitDirectories(DatasetId id, const std::vector<std::string>& names) {
    const auto disk = MakePosixDisk();
    ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(*disk, Path("heat")));
    catalogue::Catalogue catalogue;
    catalogue.set_run(prefix->run().Hex());
    catalogue.set_launch(1);
    catalogue.set_dataset(id);
    catalogue.set_step(10 * id);
    catalogue.set_nranks(1);
    catalogue.set_files(true);
    for (const std::string& name : names) {
      std::filesystem::create_directories(Path("heat/" + name));
      for (const auto& entry : std::filesystem::directory_iterator(Vector("tiny_w1.bp"))) {
        const std::string file = name + "/" + entry.path().filename().string();
        const std::string bytes = Read(entry.path());
        std::ofstream(Path("heat/" + file), std::ios::binary) << bytes;
        catalogue::FileEntry& listed = *catalogue.add_file();
        listed.set_name(file);
        listed.set_prefix_name(file);
        listed.set_bytes(bytes.size());
        listed.add_crc32c(Crc32c(std::as_bytes(std::span(bytes))));
        listed.set_mode(0600);
      }
    }
    ASSERT_OK(prefix->Commit(DescriptorOf(id, 1, true), {catalogue}));
  }
};

TEST_F(VariableCommandsTest, HelpHasExamplesAndExitCodes) {
  for (const char* const command : {"vars", "dump", "bp"}) {
    const CairnRun help = Run({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_NE(help.out.find("Examples:"), std::string::npos) << help.out;
    EXPECT_NE(help.out.find("Exit codes: 0 done"), std::string::npos) << help.out;
    EXPECT_NE(Run({"--help"}).out.find(fmt::format("  cairn {} ", command)), std::string::npos);
  }
}

TEST_F(VariableCommandsTest, WhatIsNoDirectoryOfBp5IsTold) {
  ExpectSaid(Run({"vars", Path("none")}), 4, "no such directory");
  ExpectSaid(Run({"vars", Write("file", "text")}), 2, "file: this is a file");
  ExpectSaid(Run({"vars", folder_}), 4, "it has no md.idx, no .scr and no .cairn");
  ExpectSaid(Run({"vars"}), 2, "required");
  ExpectSaid(Run({"dump", folder_}), 4, "no md.idx");
  ExpectSaid(Run({"vars", "somerun", "1"}), 4, "no daemon that may know it as a run");
  std::filesystem::create_directories(Path("new/.scr"));  // of a run that has nothing on its prefix yet
  ExpectSaid(Run({"vars", Path("new"), "1"}), 4, "dataset 1 is not committed there, nor is it in this node's cache");
  std::filesystem::create_directory(Path("garbage.bp"));
  Write("garbage.bp/md.idx", std::string(200, 'x'));
  Write("garbage.bp/md.0", "x");
  Write("garbage.bp/mmd.0", "x");
  ExpectSaid(Run({"vars", Path("garbage.bp")}), 1, Path("garbage.bp"));
  const CairnRun raw = Run({"vars", "--raw", Path("garbage.bp")});
  EXPECT_NE(raw.out.find("37  format version  120"), std::string::npos) << raw.out;
  EXPECT_EQ(raw.exit_code, 1);
  ExpectSaid(Run({"vars", "--raw", "--json", Path("garbage.bp")}), 2, "--raw is text");
}

// An attribute record of ADIOS2's first releases: a list of doubles, for which a field of its own has the length.
bp5::EncodedStep StepWithOldAttribute(const std::string& name, const std::vector<double>& values) {
  bp5::Put put;
  put.name = "n";
  put.type = bp5::Type::kInt32;
  put.value = view::Raw<std::int32_t>({7});
  bp5::EncodedStep step = *bp5::WriterEncoder().Encode(std::vector{put}, 0);
  const std::string count = "BPG_" + name + "_ElemCount";
  const auto format = bp5::EncodeFormat(
      {"Attributes", 16, 8, {{count, "integer", 8, 0}, {"BPG_" + name, "float[" + count + "]", 8, 8}}}, {});
  step.attributes_format = std::make_shared<const bp5::FormatBlock>(*format);
  const std::string body = view::Raw<std::uint64_t>({values.size(), 16}) + view::Raw(values);
  const std::string length = view::Raw<std::uint64_t>({body.size()});
  const bp5::FormatId& id = format->id;
  step.attributes.assign(id.bytes.begin(), id.bytes.end());
  step.attributes += length + std::string(4, '\0') + body;
  return step;
}

TEST_F(VariableCommandsTest, RawFollowsALengthFieldWithBracketsInItsName) {
  bpdir::Image image({});
  image.Append(std::vector{StepWithOldAttribute("a[1][b]", {1.5, -2})}, std::vector<bp5::WriterData>(1),
               std::vector<std::uint32_t>{0});
  std::filesystem::create_directory(Path("brackets.bp"));
  Write("brackets.bp/md.idx", image.index());
  Write("brackets.bp/md.0", image.metadata());
  Write("brackets.bp/mmd.0", image.formats());
  ExpectSaid(Run({"vars", "-a", Path("brackets.bp")}), 0, "a[1][b]  attr = {1.5, -2}");
  ExpectSaid(Run({"vars", "--raw", Path("brackets.bp")}), 0, "\"BPG_a[1][b]\" -> 16: 1.5 -2\n");
}

TEST_F(VariableCommandsTest, RawShowsADamagedIndexAsFarAsItGoes) {
  if (Vector("tiny_w1.bp").empty()) return;
  std::filesystem::copy(Vector("tiny_w1.bp"), Path("tiny.bp"));
  const std::string index = Read(Path("tiny.bp/md.idx"));
  const CairnRun whole = Run({"vars", "--raw", Path("tiny.bp")});
  Write("tiny.bp/md.idx", index + std::string("s\x20\0\0\0\0\0\0\0\1", 10));
  ExpectSaid(Run({"vars", "--raw", Path("tiny.bp")}), 5,
             fmt::format("at {}: 10 bytes of a record that is not whole yet\n", index.size()));
  Write("tiny.bp/md.idx", index + std::string("x\0\0\0\0\0\0\0\0", 9));
  const CairnRun damaged = Run({"vars", "--raw", Path("tiny.bp")});
  ExpectSaid(damaged, 5, fmt::format("md.idx: record at {}: type 0x78", index.size()));
  const std::string records = whole.out.substr(0, whole.out.find("mmd.0"));
  const std::string shown = records.substr(records.find('\n'));
  EXPECT_NE(damaged.out.find(shown.substr(0, shown.rfind('\n'))), std::string::npos) << damaged.out;
}

TEST_F(VariableCommandsTest, DamagedDirectoriesAnswerAsTheirManifestSays) {
  const auto path = VectorsPath("bp5/hostile");
  if (!path) return;
  for (const json& entry : json::parse(ReadVector(*path + "/MANIFEST.json"))) {
    const std::string name = entry["name"], expect = entry["expect"];
    const CairnRun run = Run({"vars", *path + "/" + name, "-aD"});
    EXPECT_TRUE(run.exit_code == 0 || run.exit_code == 1 || run.exit_code == 5) << name << run.exit_code << run.err;
    if (expect == "error") {
      EXPECT_NE(run.exit_code, 0) << name << "\n" << run.out;
    }
    if (expect == "ok") {
      EXPECT_EQ(run.exit_code, 0) << name << "\n" << run.err;
    }
    if (expect == "zero_steps") {  // of a record that is not whole, in a directory that is closed
      EXPECT_EQ(run.exit_code, 5) << name << "\n" << run.err;
      EXPECT_NE(run.out.find(": 0 steps"), std::string::npos) << run.out;
    }
    if (run.exit_code == 0) continue;
    EXPECT_NE(run.err.find(name), std::string::npos) << run.err;
    const bool file = run.err.find("md.idx") != std::string::npos || run.err.find("md.0") != std::string::npos ||
                      run.err.find("mmd.0") != std::string::npos;
    EXPECT_TRUE(file) << name << ": " << run.err;
    const int raw = Run({"vars", "--raw", *path + "/" + name}).exit_code;
    EXPECT_TRUE(raw == 0 || raw == 1 || raw == 5) << name << raw;
  }
}

TEST_F(VariableCommandsTest, ADataFileThatIsMissingOrShortIsNamedByTheDump) {
  if (Vector("tiny_w1.bp").empty()) return;
  std::filesystem::copy(Vector("tiny_w1.bp"), Path("tiny.bp"));
  ExpectSaid(Run({"dump", Path("tiny.bp"), "x"}), 0, "(0)  1.5   -2    4");
  std::filesystem::resize_file(Path("tiny.bp/data.0"), 20);
  ExpectSaid(Run({"dump", Path("tiny.bp"), "x"}), 5, "data.0");
  std::filesystem::remove(Path("tiny.bp/data.0"));
  ExpectSaid(Run({"dump", Path("tiny.bp"), "x"}), 4, "data.0");
  ExpectSaid(Run({"vars", Path("tiny.bp")}), 0, "double   x  {3} = -2 / 4");
  ExpectSaid(Run({"dump", Path("tiny.bp"), "n"}), 0, "int32_t n, step 0: 7");
  ASSERT_EQ(mkfifo(Path("tiny.bp/data.0").c_str(), 0600), 0);
  ExpectSaid(Run({"dump", Path("tiny.bp"), "x"}), 5, "data.0: not a regular file");
}

TEST_F(VariableCommandsTest, AFileThatIsMissingBesideTheIndexIsNamed) {
  const std::string directory = Vector("tiny_w1.bp");
  if (directory.empty()) return;
  for (const std::string name : {"md.0", "mmd.0"}) {
    const std::string path = Path("without_" + name + ".bp");
    std::filesystem::copy(directory, path);
    std::filesystem::remove(path + "/" + name);
    ExpectSaid(Run({"vars", path}), 5, path + "/" + name + ": missing, and md.idx has steps");
    ASSERT_EQ(mkfifo((path + "/" + name).c_str(), 0600), 0);
    ExpectSaid(Run({"vars", path}), 5, path + "/" + name + ": not a regular file");
  }
}

TEST_F(VariableCommandsTest, WhatAskedForIsNotThereIsTold) {
  const std::string directory = Vector("tiny_w1.bp");
  if (directory.empty()) return;
  ExpectSaid(Run({"dump", directory}), 2, "which variable?");
  ExpectSaid(Run({"dump", directory, "y"}), 4, "no variable y; there are n, x");
  ExpectSaid(Run({"dump", directory, "x", "--step", "1"}), 4, "there is 1 step");
  ExpectSaid(Run({"dump", directory, "x", "--step", "-2"}), 4, "there is 1 step of x");
  ExpectSaid(Run({"dump", directory, "x", "--step", "last"}), 2, "--step last");
  ExpectSaid(Run({"dump", directory, "x", "--start", "1", "--count", "3"}), 2, "outside of {3}");
  ExpectSaid(Run({"dump", directory, "x", "--start", "a"}), 2, "--start a");
  ExpectSaid(Run({"dump", directory, "x", "--block", "1"}), 4, "no block 1 in step 0: there are 1");
  ExpectSaid(Run({"dump", directory, "n", "--start", "0"}), 2, "a scalar");
  ExpectSaid(Run({"dump", directory, "--start", "-2", "--count", "-1", "x"}), 0, "(1)  -2   4");
}

TEST_F(VariableCommandsTest, ANpyIsMadeWholeOrNotAtAllAndReplacesNothing) {
  const std::string directory = Vector("tiny_w1.bp");
  if (directory.empty()) return;
  const std::string file = Path("x.npy");
  const json made = RunJson({"dump", directory, "x", "--npy", file});
  EXPECT_EQ(made["shape"], json({3}));
  EXPECT_EQ(made["output"], file);
  const std::string bytes = Read(file);
  EXPECT_EQ(made["bytes"], bytes.size());
  EXPECT_EQ(bytes.substr(bytes.size() - 24), view::Raw<double>({1.5, -2, 4}));
  EXPECT_EQ(Run({"dump", directory, "x", "--npy", "-"}).out, bytes);
  ExpectSaid(Run({"dump", directory, "n", "--npy", file}), 1, file);
  EXPECT_EQ(Read(file), bytes);
  ExpectSaid(Run({"dump", directory, "n", "--npy", file, "--force"}), 0, "int32_t n {}");
  const std::string damaged = Vector("hostile/data_truncated.bp");
  const json listing = RunJson({"vars", damaged});
  for (const json& variable : listing["variables"]) {
    if (variable["kind"] != "global_array") continue;
    EXPECT_EQ(Run({"dump", damaged, variable["name"], "--npy", Path("d.npy")}).exit_code, 5);
  }
  EXPECT_EQ(Names(), std::vector<std::string>{"x.npy"});
}

TEST_F(VariableCommandsTest, ADatasetIsShownWithOrWithoutItsView) {
  CommitField(3);
  const std::string heat = Path("heat");
  for (const bool view : {true, false}) {
    if (!view) std::filesystem::remove_all(Path("heat/ckpt.3.bp"));
    ExpectSaid(Run({"vars", heat, "3"}), 0, "double  field  {4}");
    ExpectSaid(Run({"vars", heat, "3"}), 0, "double  time   scalar = 3");
    ExpectSaid(Run({"dump", heat, "3", "field"}), 0, "(0)  3  4  5  6");
  }
  ExpectSaid(Run({"vars", heat}), 2, "which dataset of it?");
  ExpectSaid(Run({"vars", heat, "x"}), 2, "a dataset is a number");
  ExpectSaid(Run({"vars", heat, "9"}), 4, "dataset 9 is not committed there");
}

TEST_F(VariableCommandsTest, ADamagedViewIsMadeAnewInMemoryAndSaysSo) {
  CommitField(3);
  const std::string heat = Path("heat"), index = Path("heat/ckpt.3.bp/md.idx"), whole = Read(index);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{64}, whole.size() - 1}) {
    std::filesystem::resize_file(index, bytes);
    for (const std::string check : {"", "--no-check"}) {
      std::vector<std::string> command = {"vars", heat, "3"};
      if (!check.empty()) command.push_back(check);
      ExpectSaid(Run(command), 0, "double  field  {4}");
      ExpectSaid(Run(command), 0, "note: the view on disk is damaged, so one was made in memory: ");
    }
  }
  ExpectSaid(Run({"dump", heat, "3", "field"}), 0, "note: the view on disk is damaged");
  const json notes = RunJson({"vars", heat, "3"})["notes"];
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].get<std::string>().find("the view on disk is damaged"), std::string::npos);
}

TEST_F(VariableCommandsTest, AFlippedByteOfADatasetIsDamage) {
  CommitField(3);
  const std::string heat = Path("heat"), name = "heat/ckpt.3/Ckpt3-Rank1.fti";
  std::string file = Read(Path(name));
  file[7] = static_cast<char>(file[7] ^ 0x40);  // of field's first element there
  Write(name, file);
  ExpectSaid(Run({"dump", heat, "3", "field"}), 5, "Ckpt3-Rank1.fti: offset 0: ");
  ExpectSaid(Run({"dump", heat, "3", "field", "--npy", Path("field.npy")}), 5, "instead of");
  EXPECT_FALSE(std::filesystem::exists(Path("field.npy")));
  ExpectSaid(Run({"dump", heat, "3", "field", "--start", "0", "--count", "2"}), 0, "(0)  3  4");
  const CairnRun unchecked = Run({"dump", heat, "3", "field", "--no-check"});
  EXPECT_EQ(unchecked.exit_code, 0) << unchecked.err;
  EXPECT_EQ(unchecked.out.find("(0)  3  4  5  6"), std::string::npos) << unchecked.out;
}

// The value lies in the view's metadata, which no catalogue knows: it comes from the catalogue itself.
TEST_F(VariableCommandsTest, AFlippedByteOfAViewsMetadataChangesNothing) {
  CommitField(3);
  const std::string name = "heat/ckpt.3.bp/md.0", whole = Read(Path(name));
  for (std::size_t at = 0; at < whole.size(); at += 7) {
    std::string metadata = whole;
    metadata[at] = static_cast<char>(metadata[at] ^ 0x40);
    Write(name, metadata);
    ExpectSaid(Run({"dump", Path("heat"), "3", "time"}), 0, "double time, step 0: 3\n");
  }
}

TEST_F(VariableCommandsTest, AFlippedByteOfADatasetOfFilesIsDamage) {
  if (Vector("tiny_w1.bp").empty()) return;
  CommitDirectories(5, {"out/a.bp"});
  for (const char* const part : {"md.idx", "md.0", "mmd.0", "data.0"}) {
    const std::string name = std::string("heat/out/a.bp/") + part, whole = Read(Path(name));
    std::string damaged = whole;
    damaged[20] = static_cast<char>(damaged[20] ^ 1);
    Write(name, damaged);
    ExpectSaid(Run({"dump", Path("heat"), "5", "x"}), 5, std::string(part) + ": offset 0: ");
    Write(name, whole);
  }
  ExpectSaid(Run({"dump", Path("heat"), "5", "x"}), 0, "1.5");
}

TEST_F(VariableCommandsTest, AClosedDirectoryThatEndsEarlyIsDamagedAndShownAsFarAsItGoes) {
  const std::string scalars = Vector("scalars_w1.bp");
  if (scalars.empty()) return;
  std::filesystem::copy(scalars, Path("s.bp"));
  const std::string directory = Path("s.bp"), index = Read(Path("s.bp/md.idx"));
  Write("s.bp/md.idx", index.substr(0, index.size() - 1));
  const CairnRun cut = Run({"vars", directory});
  ExpectSaid(cut, 5, "s.bp: md.idx: the record at ");
  EXPECT_NE(cut.out.find(": 2 steps"), std::string::npos) << cut.out;
  ExpectSaid(Run({"vars", "--raw", directory}), 5, "steps are missing");
  ExpectSaid(Run({"dump", directory, "no such"}), 5, "no variable no such");
  ExpectSaid(Run({"dump", directory, "no such"}), 5, "note: ");
  Write("s.bp/md.idx", index.substr(0, 64));
  const CairnRun none = Run({"vars", "--json", directory});
  EXPECT_EQ(none.exit_code, 5);
  EXPECT_NE(json::parse(none.out)["notes"][0].get<std::string>().find("of no step in md.idx"), std::string::npos);
  std::string active = index.substr(0, index.size() - 1);
  active[39] = 1;
  Write("s.bp/md.idx", active);
  EXPECT_EQ(Run({"vars", directory}).exit_code, 0) << "a writer may be at work";
}

TEST_F(VariableCommandsTest, ADatasetOfFilesShowsTheBp5DirectoryInIt) {
  if (Vector("tiny_w1.bp").empty()) return;
  CommitDirectories(5, {"out/a.bp"});
  CommitDirectories(6, {"out/b.bp", "out/c.bp"});
  const std::string heat = Path("heat");
  ExpectSaid(Run({"dump", heat, "5", "n"}), 0, "int32_t n, step 0: 7");
  ExpectSaid(Run({"vars", heat, "6"}), 2, "name one behind its number: out/b.bp, out/c.bp");
  ExpectSaid(Run({"vars", heat, "6", "out/c.bp", "x"}), 0, "double  x  {3} = -2 / 4");
  ExpectSaid(Run({"bp", heat, "-o", Path("all.bp")}), 4, "own files");
}

TEST_F(VariableCommandsTest, BpMakesOneDirectoryOfAllCheckpoints) {
  CommitField(3);
  CommitField(4);
  const std::string heat = Path("heat"), all = Path("all.bp");
  const json made = RunJson({"bp", heat, "-o", all + "/"});
  EXPECT_EQ(made["directory"], all);
  EXPECT_EQ(made["steps"], json::parse(R"([{"dataset": 3, "step": 30}, {"dataset": 4, "step": 40}])"));
  EXPECT_TRUE(std::filesystem::read_symlink(all + "/data.0").is_relative());
  ExpectSaid(Run({"dump", all, "field", "--step", "0"}), 0, "(0)  3  4  5  6");
  ExpectSaid(Run({"dump", all, "field"}), 0, "(0)  4  5  6  7");
  ExpectSaid(Run({"dump", all, "time"}), 0, "double time, step 1: 4");
  ExpectSaid(Run({"bp", heat, "-o", all, "--dataset", "4"}), 0, "step 0: dataset 4, the application's step 40");
  ExpectSaid(Run({"bp", heat, "-o", heat}), 1, "is there");
  ExpectSaid(Run({"bp", heat, "-o", Path("no/all.bp")}), 4, "no");
  ExpectSaid(Run({"bp", heat, "-o", Path("x.bp"), "--dataset", "9"}), 4, "dataset 9 is not committed");
  ExpectSaid(Run({"bp", folder_, "-o", Path("x.bp")}), 4, "not a run's directory");
  EXPECT_FALSE(std::filesystem::exists(Path("x.bp")));
}

TEST_F(VariableCommandsTest, ARunWithoutCheckpointsHasNothingToShow) {
  const auto disk = MakePosixDisk();
  ASSERT_OK(Prefix::Open(*disk, Path("heat")).status());
  ExpectSaid(Run({"bp", Path("heat"), "-o", Path("all.bp")}), 4, "no dataset is committed");
}

}  // namespace
}  // namespace cairn::testing

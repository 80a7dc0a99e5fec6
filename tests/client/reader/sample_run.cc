#include "tests/client/reader/sample_run.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/format/bp5/types.h"
#include "storage/format/view/view.h"
#include "storage/io/disk.h"
#include "storage/io/posix_disk.h"
#include "storage/place/names.h"
#include "storage/place/prefix/prefix.h"
#include "storage/place/view/folder.h"
#include "tests/storage/file/bpdir/sample.h"
#include "tests/storage/place/view/sample.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {
namespace {

namespace fs = std::filesystem;

constexpr auto kDouble = static_cast<std::uint32_t>(bp5::Type::kDouble);
constexpr auto kInt32 = static_cast<std::uint32_t>(bp5::Type::kInt32);

scr::Descriptor DescriptorOf(DatasetId id, std::uint64_t step) {
  scr::Descriptor descriptor;
  descriptor.id = id;
  descriptor.name = "ckpt." + std::to_string(id);
  descriptor.created_us = static_cast<std::int64_t>(1'700'000'000'000'000 + id);
  descriptor.complete = true;
  descriptor.launch = 3;
  descriptor.step = step;
  descriptor.ranks = 2;
  return descriptor;
}

view::SampleDataset Variables(const RunId& run, DatasetId id, double first, const std::string& name) {
  std::vector<double> all(24);
  std::iota(all.begin(), all.end(), first);
  const std::string whole = view::Raw(all);
  std::vector<view::SampleRank> ranks(2);
  for (std::uint64_t r = 0; r < 2; ++r) {
    ranks[r].push_back(view::Array(1, name, kDouble, {4, 6}, {2 * r, 0}, {2, 6}, whole));
    ranks[r].push_back(view::Value(2, "time", kDouble, view::Raw<double>({12.5})));
  }
  ranks[1].push_back(view::Plain(3, kInt32, view::Raw<std::int32_t>({5, -1, 9})));
  view::SampleDataset dataset = view::MakeDataset(ranks, {.dataset = id, .step = (id - 6) * 100});
  for (catalogue::Catalogue& catalogue : dataset.catalogues) catalogue.set_run(run.Hex());
  return dataset;
}

void CommitVariables(Prefix& prefix, DatasetId id, double first) {
  const view::SampleDataset dataset = Variables(prefix.run(), id, first, "u");
  for (std::size_t r = 0; r < dataset.files.size(); ++r) {
    const std::string path = prefix.FilePath(dataset.catalogues[r].file(0).prefix_name());
    fs::create_directories(fs::path(path).parent_path());
    WriteFile(path, dataset.files[r]);
  }
  ASSERT_OK(prefix.Commit(DescriptorOf(id, (id - 6) * 100), dataset.catalogues));
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void CommitFiles(Prefix& prefix, DatasetId id) {
  SampleDirectory sample;
  for (int step = 0; step < 3; ++step) sample.AddStep();
  sample.WriteTo(prefix.FilePath("out/fields.bp"));
  WriteFile(prefix.FilePath("out/log"), "a line\n");
  std::vector<catalogue::Catalogue> catalogues(2);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    catalogue::Catalogue& catalogue = catalogues[rank];
    catalogue.set_run(prefix.run().Hex());
    catalogue.set_launch(3);
    catalogue.set_dataset(id);
    catalogue.set_step(300);
    catalogue.set_rank(rank);
    catalogue.set_nranks(2);
    catalogue.set_files(true);
    const std::vector<std::string> names = rank == 0 ? std::vector<std::string>{"fields.bp/md.idx", "fields.bp/md.0",
                                                                                "fields.bp/mmd.0", "fields.bp/data.0"}
                                                     : std::vector<std::string>{"fields.bp/data.1", "log"};
    for (const std::string& name : names) {
      catalogue::FileEntry& file = *catalogue.add_file();
      file.set_name(name);
      file.set_prefix_name("out/" + name);
      const std::string bytes = ReadFile(prefix.FilePath("out/" + name));
      file.set_bytes(bytes.size());
      file.add_crc32c(Crc32c(std::as_bytes(std::span(bytes))));
      file.set_has_crc32(true);
      file.set_mode(0100644);
    }
  }
  scr::Descriptor descriptor = DescriptorOf(id, 300);
  descriptor.checkpoint = false;
  descriptor.output = true;
  descriptor.own_files = true;
  ASSERT_OK(prefix.Commit(descriptor, catalogues));
}

}  // namespace

void MakeSampleRun(const std::string& prefix) {
  fs::remove_all(prefix);
  fs::create_directories(prefix);
  const std::unique_ptr<PosixDisk> disk = MakePosixDisk({.engine = {.io_uring = false, .threads = 1}});
  const auto opened = Prefix::Open(*disk, fs::canonical(prefix).string());
  ASSERT_OK(opened);
  CommitVariables(**opened, 7, 0);
  CommitVariables(**opened, 8, 1000);
  CommitFiles(**opened, 9);
}

void FlipByte(const std::string& path, std::uint64_t at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(at));
  const int before = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(before ^ 0x40));
  ASSERT_TRUE(file.flush().good()) << path;
}

void MakeOtherView(const std::string& prefix) {
  const std::unique_ptr<PosixDisk> disk = MakePosixDisk({.engine = {.io_uring = false, .threads = 1}});
  const auto files = view::BuildView(Variables(RunId(), 8, 1000, "v").catalogues);
  ASSERT_OK(files);
  ASSERT_OK(view::WriteFolder(*disk, prefix + "/" + ViewFolderName(8), *files));
}

}  // namespace cairn::testing

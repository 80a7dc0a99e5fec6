// A prefix on a disk in memory with checkpoints of real variables, which can be shown.
#ifndef CAIRN_TESTS_STORAGE_PLACE_PREFIX_SHOWN_H_
#define CAIRN_TESTS_STORAGE_PLACE_PREFIX_SHOWN_H_

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/scr/records.h"
#include "storage/place/names.h"
#include "storage/place/prefix/prefix.h"
#include "storage/place/view/folder.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/storage/place/view/sample.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {

inline constexpr char kShownPath[] = "/pfs/demo";

// Two ranks with a field, a value, and a plain variable of the first; what is in them depends on `id`.
inline view::SampleDataset ShownDataset(const RunId& run, DatasetId id, bool placed = true) {
  const auto number = static_cast<double>(id);
  const std::string field = view::Raw<double>({number, number + 1, number + 2, number + 3});
  view::SampleDataset dataset = view::MakeDataset(
      {{view::Array(1, "field", 10, {4}, {0}, {2}, field), view::Value(2, "time", 10, view::Raw<double>({number})),
        view::Plain(3, 5, "plain")},
       {view::Array(1, "field", 10, {4}, {2}, {2}, field), view::Value(2, "time", 10, view::Raw<double>({number}))}},
      {.dataset = id, .step = 10 * id, .launch = 1, .placed = placed});
  for (catalogue::Catalogue& catalogue : dataset.catalogues) catalogue.set_run(run.Hex());
  return dataset;
}

inline absl::Status PutBytes(Disk& disk, const view::SampleDataset& dataset) {
  for (std::size_t r = 0; r < dataset.files.size(); ++r) {
    const std::string path = fmt::format("{}/{}", kShownPath, dataset.catalogues[r].file(0).prefix_name());
    CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, ParentOf(path)));
    CAIRN_RETURN_IF_ERROR(WriteTestFile(disk, path, dataset.files[r]));
    CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(ParentOf(path)));
  }
  return absl::OkStatus();
}

inline absl::Status CommitShown(Disk& disk, Prefix& prefix, const view::SampleDataset& dataset) {
  CAIRN_RETURN_IF_ERROR(PutBytes(disk, dataset));
  const auto ranks = static_cast<std::uint32_t>(dataset.files.size());
  return prefix.Commit(TestDescriptor(dataset.catalogues[0].dataset(), ranks), dataset.catalogues);
}

// As BP5's reader finds it on the disk: links are followed.
inline absl::StatusOr<view::Reader> ReadFolder(Disk& disk, const std::string& folder) {
  view::ViewFiles files;
  CAIRN_ASSIGN_OR_RETURN(files.index, ReadWhole(disk, folder + "/md.idx", 1 << 20));
  CAIRN_ASSIGN_OR_RETURN(files.metadata, ReadWhole(disk, folder + "/md.0", 1 << 20));
  CAIRN_ASSIGN_OR_RETURN(files.formats, ReadWhole(disk, folder + "/mmd.0", 1 << 20));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(folder));
  std::map<std::string, std::string> contents;
  for (const std::string& name : names) {
    if (!name.starts_with("data.")) continue;
    CAIRN_ASSIGN_OR_RETURN(const std::string target, disk.ReadLink(folder + "/" + name));
    std::string path = target;
    for (std::string from = folder; path.starts_with("../");) {
      from = ParentOf(from);
      path = path.substr(3);
      if (!path.starts_with("../")) path = from + (from == "/" ? "" : "/") + path;
    }
    CAIRN_ASSIGN_OR_RETURN(contents[target], ReadWhole(disk, path, 1 << 20));
    files.links.push_back({name, target});
  }
  return view::Reader(files, contents);
}

inline std::string ViewPathOf(DatasetId id) {
  return fmt::format("{}/{}", kShownPath, ViewFolderName(id));
}

// The view of a dataset shows what it has stored.
inline void ExpectShown(Disk& disk, DatasetId id, const std::string& folder, std::uint32_t step = 0) {
  auto reader = ReadFolder(disk, folder);
  ASSERT_OK(reader.status());
  const auto number = static_cast<double>(id);
  EXPECT_EQ(reader->All("field", step), view::Raw<double>({number, number + 1, number + 2, number + 3}));
  EXPECT_EQ(reader->Scalar("time", 0, step), view::Raw<double>({number}));
  EXPECT_EQ(reader->Block("var_3", 0, step), "plain");
}

}  // namespace cairn

#endif  // CAIRN_TESTS_STORAGE_PLACE_PREFIX_SHOWN_H_

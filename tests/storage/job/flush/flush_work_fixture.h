// A flush on the disks, for the tests of storage/job/flush/flush_work.h: a cache with datasets of one rank, a prefix,
// and looks at what is there.
#ifndef CAIRN_TESTS_STORAGE_JOB_FLUSH_FLUSH_WORK_FIXTURE_H_
#define CAIRN_TESTS_STORAGE_JOB_FLUSH_FLUSH_WORK_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/file/transfer/transfer.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/records.h"
#include "storage/job/flush/flush_work.h"
#include "storage/place/prefix/flush_file.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {

class FlushWorkTest : public ::testing::Test {
 protected:
  inline static const std::string kPrefix = "/pfs/run", kIndex = kPrefix + "/.scr/index.scr";

  // A dataset of one rank, of the application's own files, in a cache.
  struct Files {
    scr::Descriptor descriptor;
    std::vector<catalogue::Catalogue> catalogues;
    std::string folder;
  };

  void SetUp() override {
    prefix_ = OpenPrefix();
    ASSERT_NE(prefix_, nullptr);
    pfs_.SyncAll();
  }

  std::unique_ptr<Prefix> OpenPrefix() {
    auto opened = Prefix::Open(pfs_, kPrefix);
    return opened.ok() ? *std::move(opened) : nullptr;
  }

  static std::string BytesOf(DatasetId id, const std::string& name) {
    return TestContent(id * 100 + name.size(), 3000 + 10 * id);
  }
  Files Make(DatasetId id, const std::vector<std::string>& names) {
    Files files;
    files.descriptor = TestDescriptor(id, 1);
    files.descriptor.own_files = true;
    files.folder = "/cache/scr.dataset." + std::to_string(id);
    EXPECT_OK(MakeDirectories(cache_, files.folder + "/out"));
    catalogue::Catalogue catalogue = EmptyCatalogue(prefix_->run(), id, 0, 1);
    catalogue.set_files(true);
    catalogue.clear_variables();
    for (const std::string& name : names) {
      *catalogue.add_file() = TestEntry(name, name, BytesOf(id, name));
      EXPECT_OK(WriteTestFile(cache_, files.folder + "/" + name, BytesOf(id, name)));
    }
    files.catalogues = {catalogue};
    return files;
  }
  FlushOutcome Copy(const Files& files) {
    return CopyDataset({cache_, files.folder, files.descriptor, files.catalogues}, {pfs_, *prefix_, *flush_file_},
                       throttle_, progress_);
  }
  FlushOutcome Commit(const Files& files, const FlushOutcome& copy) {
    return CommitCopied({cache_, files.folder, files.descriptor, files.catalogues}, {pfs_, *prefix_, *flush_file_},
                        copy.copied);
  }
  FlushOutcome Flush(const Files& files) {
    FlushOutcome copy = Copy(files);
    return copy.status.ok() ? Commit(files, copy) : copy;
  }
  static std::vector<DatasetId> IdsOf(const Withdrawn& withdrawn) {
    std::vector<DatasetId> ids;
    for (const auto& [id, catalogues] : withdrawn) ids.push_back(id);
    return ids;
  }
  std::set<DatasetId> Committed() {
    std::set<DatasetId> ids;
    const auto committed = prefix_->Committed();
    EXPECT_OK(committed);
    if (!committed.ok()) return ids;
    for (const auto& [id, dataset] : *committed) ids.insert(id);
    return ids;
  }
  // Every dataset that anybody may restore has its own bytes under its names.
  void ExpectSound(const std::string& when) {
    for (const DatasetId id : Committed()) {
      const auto catalogues = prefix_->Catalogues(id);
      ASSERT_OK(catalogues) << when;
      for (const catalogue::FileEntry& file : catalogues->front().file()) {
        EXPECT_OK(VerifyFile(pfs_, prefix_->FilePath(file.prefix_name()), file)) << when << ", dataset " << id;
      }
    }
  }
  std::string CompleteInIndex(DatasetId id) {
    const auto tree = ReadTree(pfs_, kIndex);
    if (!tree.ok()) return "no index";
    const kvtree::Tree* entry = tree->FindPath({"DSET", std::to_string(id)});
    return entry != nullptr ? std::string(entry->Get("COMPLETE").value_or("none")) : "no entry";
  }
  // What flush.scr says, as its keys.
  std::string Places(DatasetId id) {
    const auto tree = ReadTree(pfs_, kPrefix + "/.scr/flush.scr");
    if (!tree.ok()) return "no file";
    const auto entries = scr::GetFlushEntries(*tree);
    if (!entries.ok() || !entries->contains(id)) return "no entry";
    const scr::FlushEntry& entry = entries->at(id);
    return std::string(entry.in_cache ? "CACHE " : "") + (entry.flushing ? "FLUSHING " : "") +
           (entry.in_prefix ? "PFS " : "");
  }

  FakeDisk cache_, pfs_;
  std::unique_ptr<Prefix> prefix_;
  std::unique_ptr<FlushFile> flush_file_ = std::make_unique<FlushFile>("node1:/cache");
  Throttle throttle_{0};
  TransferProgress progress_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_STORAGE_JOB_FLUSH_FLUSH_WORK_FIXTURE_H_

// An execution of FTI's on a disk, the prefix that adopts it, and looks at what was adopted.
#ifndef CAIRN_TESTS_STORAGE_JOB_ADOPT_ADOPT_FIXTURE_H_
#define CAIRN_TESTS_STORAGE_JOB_ADOPT_ADOPT_FIXTURE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/fti/execution.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/variables.h"
#include "storage/job/adopt/adopt.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/file/fti/fti_tree.h"
#include "tests/storage/file/fti/sample_export.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {

class AdoptTest : public ::testing::Test {
 protected:
  static constexpr char kPrefix[] = "/pfs/heat";
  static constexpr char kFti[] = "/fti";

  // Four nodes of one rank, in one group.
  void PutSample(fti::Level level, std::int32_t id = 5, ftiff::Letter letter = ftiff::Letter::kF,
                 const std::string& folder = kFti) {
    testing::SampleExport sample({.ranks = 4, .node_size = 1, .group_size = 4, .heads = false}, level, letter, id);
    sample.what.folder = folder;
    ASSERT_OK(fti::Write(disk_, sample.what));
  }
  absl::StatusOr<fti::Execution> Find(std::vector<std::string> roots = {kFti}) {
    fti::Search search;
    search.roots = std::move(roots);
    search.config = search.roots[0] + "/config.fti";
    return fti::Find(disk_, search);
  }
  absl::StatusOr<Adopted> AdoptFrom(const fti::Execution& execution, std::optional<std::int32_t> id = std::nullopt) {
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::Open(disk_, kPrefix));
    return AdoptCheckpoint(disk_, *prefix, execution,
                           {.checkpoint = id, .note = [this](const std::string& text) { notes_ += text + "\n"; }});
  }
  absl::StatusOr<Adopted> Adopt() {
    CAIRN_ASSIGN_OR_RETURN(const fti::Execution execution, Find());
    return AdoptFrom(execution);
  }
  std::map<DatasetId, CommittedDataset> Committed() {
    const auto prefix = Prefix::Open(disk_, kPrefix);
    EXPECT_OK(prefix);
    auto committed = (*prefix)->Committed();
    EXPECT_OK(committed);
    return *std::move(committed);
  }
  // Every file as its catalogue has it, and the bytes those of the sample.
  void ExpectWhole(DatasetId id, std::uint64_t step, std::uint32_t ranks = 4) {
    const auto prefix = Prefix::OpenReadOnly(disk_, kPrefix);
    ASSERT_OK(prefix);
    const auto committed = (*prefix)->Committed();
    ASSERT_OK(committed);
    ASSERT_TRUE(committed->contains(id));
    const scr::Descriptor& descriptor = committed->at(id).descriptor;
    EXPECT_EQ(descriptor.step, step);
    EXPECT_EQ(descriptor.launch, 0u);
    EXPECT_EQ(descriptor.ranks, ranks);
    EXPECT_TRUE(descriptor.checkpoint);
    EXPECT_TRUE(committed->at(id).current);
    const auto catalogues = (*prefix)->Catalogues(id);
    ASSERT_OK(catalogues);
    ASSERT_EQ(catalogues->size(), ranks);
    for (Rank rank = 0; rank < ranks; ++rank) ExpectRank(**prefix, (*catalogues)[rank], rank);
  }
  void ExpectRank(Prefix& prefix, const catalogue::Catalogue& catalogue, Rank rank) {
    ASSERT_EQ(catalogue.file_size(), 1);
    const catalogue::FileEntry& entry = catalogue.file(0);
    const std::string path = prefix.FilePath(entry.prefix_name());
    EXPECT_EQ(entry.verified_by(), catalogue::CHECKSUM);
    EXPECT_OK(VerifyFile(disk_, path, entry));
    const std::string bytes = testing::GetFile(disk_, path);
    const ftiff::ReadAt read = [&](std::uint64_t offset, std::span<std::byte> target) {
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), target.size(),
                  reinterpret_cast<char*>(target.data()));
      return absl::OkStatus();
    };
    ASSERT_OK_AND_ASSIGN(const ftiff::FileMetadata metadata, ftiff::DecodeMetadata(path, bytes.size(), read));
    EXPECT_EQ(metadata.letter, ftiff::Letter::kF);
    EXPECT_EQ(metadata.header.checkpoint_id, static_cast<std::int32_t>(catalogue.dataset()));
    ASSERT_OK_AND_ASSIGN(const ftiff::Verdict verdict, ftiff::VerifyData(path, metadata, read));
    EXPECT_TRUE(verdict.ok());
    const ftiff::Variables variables(metadata.layout);
    ASSERT_EQ(variables.sizes().size(), 2u);
    ASSERT_EQ(catalogue.variables_size(), 2);
    for (int i = 0; i < 2; ++i) {
      const local::Variable& variable = catalogue.variables(i);
      EXPECT_EQ(variable.type(), 0u);
      EXPECT_EQ(variable.count(), variable.bytes());
      std::vector<std::byte> back(variable.bytes());
      ASSERT_OK(variables.Read(path, variable.id(), 0, back, read));
      for (std::size_t at = 0; at < back.size(); ++at) {
        ASSERT_EQ(back[at], testing::SampleExport::ByteOf(rank, variable.id(), at)) << rank << ", " << variable.id();
      }
    }
  }
  // What is below `path`, with the bytes of the files.
  static std::map<std::string, std::string> TreeOf(Disk& disk, const std::string& path) {
    std::map<std::string, std::string> tree;
    const auto info = disk.Info(path);
    if (!info.ok()) return tree;
    if (!info->is_directory()) {
      tree[path] = testing::GetFile(disk, path);
      return tree;
    }
    tree[path] = "";
    const auto names = disk.List(path);
    EXPECT_OK(names);
    for (const std::string& name : *names) tree.merge(TreeOf(disk, path + "/" + name));
    return tree;
  }
  void LoseNode(int node) { ASSERT_OK(RemoveTree(disk_, fmt::format("{}/Local/node{}", kFti, node))); }

  FakeDisk disk_;
  std::string notes_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_STORAGE_JOB_ADOPT_ADOPT_FIXTURE_H_

// Datasets of a run as FTI's executions: what goes out is what was stored, verified, and comes back by adopt.
#include "storage/job/export/export.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/file/known/known_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/ftiff/variables.h"
#include "storage/job/adopt/adopt.h"
#include "tests/storage/file/fti/fti_tree.h"
#include "tests/storage/format/ftiff/by_index.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr char kPrefix[] = "/pfs/heat";
constexpr char kOut[] = "/out";

std::string BytesOf(Rank rank, std::int32_t id, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 7 + (i >> 8) + rank * 31 + id * 3);
  return text;
}

class ExportTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kLarge = (1 << 20) + 17;  // several of Cairn's containers, and blocks of checksums

  void SetUp() override {
    auto prefix = Prefix::Open(disk_, kPrefix);
    ASSERT_OK(prefix);
    prefix_ = *std::move(prefix);
  }

  // A dataset as the daemon flushes it: variable 1 is plain, 2 a value, 3 an array; in the native API's packing.
  DatasetId Put(std::uint32_t ranks, std::uint64_t step, std::int32_t last_id = 3, bool empty_rank = false) {
    const auto ids = prefix_->ReserveIds(0);
    EXPECT_OK(ids);
    const DatasetId id = ids->first;
    std::vector<catalogue::Catalogue> catalogues;
    for (Rank rank = 0; rank < ranks; ++rank) {
      catalogue::Catalogue catalogue;
      catalogue.set_run(prefix_->run().Hex());
      catalogue.set_launch(1);
      catalogue.set_dataset(id);
      catalogue.set_step(step);
      catalogue.set_rank(rank);
      catalogue.set_nranks(ranks);
      if (!empty_rank || rank != 1) PutFile(rank, last_id, &catalogue);
      catalogues.push_back(std::move(catalogue));
    }
    scr::Descriptor descriptor;
    descriptor.id = id;
    descriptor.name = fmt::format("ckpt.{}", id);
    descriptor.launch = 1;
    descriptor.step = step;
    descriptor.ranks = ranks;
    EXPECT_OK(prefix_->Commit(descriptor, catalogues));
    return id;
  }
  void PutFile(Rank rank, std::int32_t last_id, catalogue::Catalogue* catalogue) {
    const std::vector<ftiff::VariableSize> sizes = {{1, kLarge + rank}, {2, 8}, {last_id, 1000}};
    std::vector<ftiff::VariableSize> registered = sizes;
    const std::vector<std::int32_t>& order = rank == 1 && !order_of_rank_1_.empty() ? order_of_rank_1_ : order_;
    for (std::size_t i = 0; i < order.size(); ++i) registered[i] = sizes[static_cast<std::size_t>(order[i] - 1)];
    for (const ftiff::VariableSize& size : registered) {
      local::Variable& variable = *catalogue->add_variables();
      variable.set_id(size.id);
      variable.set_type(15);
      variable.set_count(size.bytes);
      variable.set_bytes(size.bytes);
      if (size.id == 1) continue;
      variable.set_name(size.id == 2 ? "step" : "u");
      variable.set_kind(size.id == 2 ? local::VALUE : local::ARRAY);
      if (size.id == 2) continue;
      variable.add_shape(1000 * catalogue->nranks());
      variable.add_box_start(1000 * rank);
      variable.add_box_count(1000);
    }
    const auto layout = ftiff::PlanFresh(sizes, ftiff::Packing::kAligned);
    ASSERT_OK(layout);
    std::string bytes(layout->data_bytes, '\0');
    std::vector<Md5Digest> hashes;
    for (const ftiff::Container& container : layout->containers) {
      const auto size = std::find_if(sizes.begin(), sizes.end(), [&](const auto& s) { return s.id == container.id; });
      const std::string all = BytesOf(rank, container.id, size->bytes);
      const std::string_view chunk = std::string_view(all).substr(container.variable_offset, container.chunk_bytes);
      bytes.replace(container.file_offset, chunk.size(), chunk);
      hashes.push_back(Md5(std::as_bytes(std::span(chunk))));
    }
    const auto metadata = ftiff::EncodeMetadata(
        *layout, hashes, {.checkpoint_id = static_cast<std::int32_t>(catalogue->dataset()), .timestamp_ns = 1});
    bytes.append(reinterpret_cast<const char*>(metadata.data()), metadata.size());
    catalogue::FileEntry& file = *catalogue->add_file();
    file.set_name(CheckpointFileName(catalogue->dataset(), rank));
    file.set_prefix_name(fmt::format("ckpt.{}/{}", catalogue->dataset(), file.name()));
    file.set_bytes(bytes.size());
    for (std::size_t at = 0; at < bytes.size(); at += kCrcBlockBytes) {
      file.add_crc32c(Crc32c(
          std::as_bytes(std::span(bytes).subspan(at).first(std::min<std::size_t>(kCrcBlockBytes, bytes.size() - at)))));
    }
    testing::PutFile(disk_, prefix_->FilePath(file.prefix_name()), bytes);
  }

  absl::StatusOr<Exported> Export(ExportRequest request) {
    request.folder = kOut;
    return ExportDataset(disk_, *prefix_, request);
  }
  absl::StatusOr<fti::Recovered> Recover(fti::Checkpoint* checkpoint = nullptr) {
    fti::Search search;
    search.roots = {kOut};
    search.config = std::string(kOut) + "/config.fti";
    CAIRN_ASSIGN_OR_RETURN(const fti::Execution execution, fti::Find(disk_, search));
    EXPECT_EQ(execution.checkpoints.size(), 1u);
    if (checkpoint != nullptr) *checkpoint = execution.checkpoints[0];
    CAIRN_RETURN_IF_ERROR(MakeDirectories(disk_, "/scratch"));
    return fti::Recover(disk_, execution.topology, execution.checkpoints[0], "/scratch");
  }
  void ExpectContent(const fti::RankFile& file, Rank rank) {
    const std::string bytes = testing::GetFile(disk_, file.path);
    const ftiff::Variables variables(file.metadata.layout);
    for (const ftiff::VariableSize& size : variables.sizes()) {
      std::string back(size.bytes, '\0');
      ASSERT_OK(variables.Read(file.path, size.id, 0, std::as_writable_bytes(std::span(back)),
                               [&](std::uint64_t offset, std::span<std::byte> target) {
                                 std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), target.size(),
                                             reinterpret_cast<char*>(target.data()));
                                 return absl::OkStatus();
                               }));
      EXPECT_TRUE(back == BytesOf(rank, size.id, size.bytes)) << "rank " << rank << ", variable " << size.id;
    }
  }

  FakeDisk disk_;
  std::unique_ptr<Prefix> prefix_;
  // Of the variables 1 to 3 in the catalogues, where it is not that of the containers.
  std::vector<std::int32_t> order_, order_of_rank_1_;
};

TEST_F(ExportTest, TheNewestCheckpointGoesOutAtLevelFourUnderItsStep) {
  Put(2, 10);
  const DatasetId newest = Put(2, 20);
  ASSERT_OK_AND_ASSIGN(const Exported exported, Export({}));
  EXPECT_EQ(exported.dataset, newest);
  EXPECT_EQ(exported.checkpoint, 20);
  EXPECT_EQ(exported.application_ranks, 2u);
  EXPECT_EQ(exported.variable_id_max, 3);
  EXPECT_EQ(exported.bytes, 2 * kLarge + 1 + 2 * 1008);
  fti::Checkpoint checkpoint;
  ASSERT_OK_AND_ASSIGN(const fti::Recovered recovered, Recover(&checkpoint));
  EXPECT_EQ(checkpoint.level, fti::Level::kGlobal);
  EXPECT_EQ(checkpoint.id, 20);
  for (Rank rank = 0; rank < 2; ++rank) {
    const ftiff::FileMetadata& metadata = recovered.files[rank].metadata;
    EXPECT_EQ(metadata.letter, ftiff::Letter::kF);
    EXPECT_EQ(metadata.layout.containers.size(), 3u) << "exact: one container a variable";
    ExpectContent(recovered.files[rank], rank);
  }
}

TEST_F(ExportTest, EveryLevelLayoutAndPackingHoldsTheSameBytes) {
  Put(6, 20);
  for (const ftiff::Letter letter : {ftiff::Letter::kF, ftiff::Letter::kA}) {
    for (const fti::Level level :
         {fti::Level::kLocal, fti::Level::kPartner, fti::Level::kEncoded, fti::Level::kGlobal}) {
      for (const bool heads : {false, true}) {
        SCOPED_TRACE(
            fmt::format("layout {}, level {}, heads {}", static_cast<char>(letter), static_cast<int>(level), heads));
        ASSERT_OK(RemoveTree(disk_, kOut));
        ASSERT_OK_AND_ASSIGN(const Exported exported, Export({.level = level,
                                                              .letter = letter,
                                                              .keep_containers = heads,
                                                              .node_size = heads ? 3u : 2u,
                                                              .group_size = 3,
                                                              .heads = heads}));
        EXPECT_EQ(exported.topology.ranks, heads ? 9u : 6u);
        fti::Checkpoint checkpoint;
        ASSERT_OK_AND_ASSIGN(const fti::Recovered recovered, Recover(&checkpoint));
        EXPECT_EQ(checkpoint.level, level);
        ASSERT_EQ(recovered.files.size(), 6u);
        for (Rank rank = 0; rank < 6; ++rank) {
          EXPECT_EQ(recovered.files[rank].metadata.letter, letter);
          EXPECT_EQ(recovered.files[rank].metadata.layout.containers.size() > 3, heads) << "containers kept";
          ExpectContent(recovered.files[rank], rank);
        }
      }
    }
  }
}

TEST_F(ExportTest, WhatWasExportedIsAdoptedAgainWithTheSameBytes) {
  Put(2, 20);
  ASSERT_OK(Export({.level = fti::Level::kPartner, .node_size = 1, .group_size = 2}));
  fti::Search search;
  search.roots = {kOut};
  search.config = std::string(kOut) + "/config.fti";
  ASSERT_OK_AND_ASSIGN(const fti::Execution execution, fti::Find(disk_, search));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> other, Prefix::Open(disk_, "/pfs/other"));
  ASSERT_OK_AND_ASSIGN(const Adopted adopted, AdoptCheckpoint(disk_, *other, execution,
                                                              {.checkpoint = {}, .note = [](const std::string&) {}}));
  EXPECT_EQ(adopted.checkpoint, 20);
  ASSERT_OK(RemoveTree(disk_, kOut));
  ExportRequest request;
  request.folder = kOut;
  ASSERT_OK(ExportDataset(disk_, *other, request));
  ASSERT_OK_AND_ASSIGN(const fti::Recovered recovered, Recover());
  for (Rank rank = 0; rank < 2; ++rank) ExpectContent(recovered.files[rank], rank);
}

// FTI 1.1 copies by idx, and checks sizes by the order in which variables appear: both have to be that of registration.
TEST_F(ExportTest, LayoutAIsReadInTheOrderOfTheNewestRegistrationWhateverThatOfTheContainers) {
  order_ = {3, 2, 1};  // the containers are those of a launch that registered 1, 2, 3
  Put(2, 20);
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Export({.letter = ftiff::Letter::kA, .keep_containers = true}),
                "--packing exact orders them anew");
  EXPECT_FALSE(disk_.Info(kOut).ok());
  ASSERT_OK_AND_ASSIGN(const Exported exported, Export({.letter = ftiff::Letter::kA}));
  EXPECT_EQ(exported.protect_order, (std::vector<ProtectedVariable>{{3, "u"}, {2, "step"}, {1, ""}}));
  ASSERT_OK_AND_ASSIGN(const fti::Recovered recovered, Recover());
  for (Rank rank = 0; rank < 2; ++rank) {
    const std::string file = testing::GetFile(disk_, recovered.files[rank].path);
    const std::vector<std::string> contents = ftiff::testing::ContentsByIndex(file);
    ASSERT_EQ(contents.size(), 3u);
    EXPECT_TRUE(contents[0] == BytesOf(rank, 3, 1000));
    EXPECT_TRUE(contents[1] == BytesOf(rank, 2, 8));
    EXPECT_TRUE(contents[2] == BytesOf(rank, 1, kLarge + rank));
    ASSERT_OK_AND_ASSIGN(const CheckpointFile opened, OpenCheckpointFile(disk_, recovered.files[rank].path));
    EXPECT_EQ(opened.metadata.layout.containers.front().id, 3);
    EXPECT_EQ(opened.metadata.layout.containers.back().id, 1);
  }
}

TEST_F(ExportTest, LayoutAIsRefusedWhereRanksRegisteredInContradictingOrders) {
  order_of_rank_1_ = {2, 1, 3};
  Put(2, 20);
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Export({.letter = ftiff::Letter::kA}),
                "rank 0 protects variable 1 before 2");
  EXPECT_FALSE(disk_.Info(kOut).ok());
  ASSERT_OK_AND_ASSIGN(const Exported by_id, Export({}));
  EXPECT_TRUE(by_id.protect_order.empty()) << "the current FTI goes by ids";
}

TEST_F(ExportTest, AStepThatIsNoIdOfFtisGivesWayToTheDatasetsOwn) {
  const DatasetId zero = Put(1, 0);
  ASSERT_OK_AND_ASSIGN(const Exported of_zero, Export({}));
  EXPECT_EQ(of_zero.checkpoint, static_cast<std::int32_t>(zero));
  const DatasetId huge = Put(1, std::uint64_t{1} << 40);
  ASSERT_OK(RemoveTree(disk_, kOut));
  ASSERT_OK_AND_ASSIGN(const Exported of_huge, Export({}));
  EXPECT_EQ(of_huge.checkpoint, static_cast<std::int32_t>(huge));
  ASSERT_OK(RemoveTree(disk_, kOut));
  ASSERT_OK_AND_ASSIGN(const Exported named, Export({.dataset = zero, .checkpoint = 77}));
  EXPECT_EQ(named.dataset, zero);
  EXPECT_EQ(named.checkpoint, 77);
}

TEST_F(ExportTest, ADamagedByteIsFoundAndNothingIsLeft) {
  const DatasetId id = Put(2, 20);
  const std::string path = fmt::format("{}/ckpt.{}/Ckpt{}-Rank1.fti", kPrefix, id, id);
  const std::size_t bytes = testing::GetFile(disk_, path).size();
  // In a chunk, in the unused tail of a container (4 KiB for the 8 bytes of variable 2), and in the metadata.
  for (const std::size_t at : {std::size_t{100}, bytes - 1000}) {
    disk_.FlipBit(path, 8 * at);
    EXPECT_STATUS(absl::StatusCode::kDataLoss, Export({}), path);
    EXPECT_FALSE(disk_.Info(std::string(kOut) + "/config.fti").ok());
    disk_.FlipBit(path, 8 * at);
  }
  ASSERT_OK(disk_.Remove(path));
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Export({}), "missing");
}

TEST_F(ExportTest, WhatCannotBeExportedSaysWhy) {
  EXPECT_STATUS(absl::StatusCode::kNotFound, Export({}), "no checkpoint");
  const DatasetId id = Put(4, 20);
  EXPECT_STATUS(absl::StatusCode::kNotFound, Export({.dataset = id + 1}), "no dataset");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Export({.node_size = 3}), "4 ranks");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Export({.node_size = 1, .heads = true}), "head");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, Export({.level = fti::Level::kPartner}), "groups");
  testing::PutFile(disk_, std::string(kOut) + "/mine", "precious");
  EXPECT_STATUS(absl::StatusCode::kAlreadyExists, Export({}), "not empty");
  EXPECT_EQ(testing::GetFile(disk_, std::string(kOut) + "/mine"), "precious");
}

TEST_F(ExportTest, ARankWithoutVariablesSaysSo) {
  Put(2, 20, 3, /*empty_rank=*/true);
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Export({}), "rank 1 has no variables");
}

TEST_F(ExportTest, TheApplicationsOwnFilesAreNotExported) {
  const auto ids = prefix_->ReserveIds(0);
  ASSERT_OK(ids);
  catalogue::Catalogue catalogue;
  catalogue.set_run(prefix_->run().Hex());
  catalogue.set_launch(1);
  catalogue.set_dataset(ids->first);
  catalogue.set_nranks(1);
  catalogue.set_files(true);
  scr::Descriptor descriptor;
  descriptor.id = ids->first;
  descriptor.name = fmt::format("ckpt.{}", ids->first);
  descriptor.launch = 1;
  descriptor.ranks = 1;
  descriptor.own_files = true;
  ASSERT_OK(prefix_->Commit(descriptor, {catalogue}));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Export({.dataset = ids->first}), "own files");
  EXPECT_STATUS(absl::StatusCode::kNotFound, Export({}), "no checkpoint");
}

}  // namespace
}  // namespace cairn

// FTI's own executions as datasets of a run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "storage/file/fti/execution.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/ftiff/codec.h"
#include "storage/job/adopt/adopt.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/file/fti/fti_tree.h"
#include "tests/storage/file/fti/fti_vectors.h"
#include "tests/storage/job/adopt/adopt_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using AdoptFtiTest = AdoptTest;

struct FtiRun {
  const char* scenario;
  std::int32_t newest;
};

TEST_F(AdoptFtiTest, FtisOwnExecutionsAreAdoptedFromEveryLevel) {
  for (const FtiRun& run : {FtiRun{"levels-n1g4-F", 4}, FtiRun{"levels-n1g4-A", 4}, FtiRun{"levels-n2g2-F", 4},
                            FtiRun{"levels-n4g1-F", 4}, FtiRun{"rs-odd-F", 1}, FtiRun{"rs-g3-E", 2},
                            FtiRun{"heads-F", 4}, FtiRun{"dcp-md5-F", 4}, FtiRun{"dcp-2rank-E", 3}}) {
    SCOPED_TRACE(run.scenario);
    const auto vectors = testing::LoadRun(run.scenario);
    if (!vectors) return;  // none here
    ASSERT_OK(RemoveTree(disk_, kFti));
    ASSERT_OK(RemoveTree(disk_, kPrefix));
    testing::PutRun(disk_, kFti, *vectors);
    testing::PutConfig(disk_, kFti, *vectors);
    testing::PutTopology(disk_, kFti, *vectors);
    const auto before = TreeOf(disk_, kFti);
    ASSERT_OK_AND_ASSIGN(const fti::Execution execution, Find());
    ASSERT_OK_AND_ASSIGN(const Adopted newest, AdoptFrom(execution));
    EXPECT_EQ(newest.checkpoint, run.newest);
    for (const fti::Checkpoint& checkpoint : execution.checkpoints) {
      ASSERT_OK_AND_ASSIGN(const Adopted adopted, AdoptFrom(execution, checkpoint.id));
      EXPECT_EQ(adopted.checkpoint, checkpoint.id);
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::OpenReadOnly(disk_, kPrefix));
      ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(adopted.dataset));
      for (const catalogue::Catalogue& catalogue : catalogues) {
        EXPECT_OK(VerifyFile(disk_, prefix->FilePath(catalogue.file(0).prefix_name()), catalogue.file(0)));
      }
    }
    EXPECT_EQ(TreeOf(disk_, kFti), before);
  }
}

// The content of an adopted file is that of FTI's: chunk hashes and container lists are the same, in order.
TEST_F(AdoptFtiTest, ContainersAndHashesAreFtis) {
  const auto vectors = testing::LoadRun("levels-n2g2-F");
  if (!vectors) return;
  testing::PutRun(disk_, kFti, *vectors);
  testing::PutConfig(disk_, kFti, *vectors);
  testing::PutTopology(disk_, kFti, *vectors);
  ASSERT_OK_AND_ASSIGN(const fti::Execution execution, Find());
  ASSERT_OK_AND_ASSIGN(const Adopted adopted, AdoptFrom(execution));
  for (Rank rank = 0; rank < 4; ++rank) {
    const auto metadata = [this](const std::string& path) {
      const std::string bytes = testing::GetFile(disk_, path);
      return ftiff::DecodeMetadata(path, bytes.size(), [&](std::uint64_t offset, std::span<std::byte> target) {
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), target.size(),
                    reinterpret_cast<char*>(target.data()));
        return absl::OkStatus();
      });
    };
    const std::string theirs = testing::PlaceOf(kFti, vectors->Named(fmt::format("Ckpt4-Rank{}.fti", rank)));
    ASSERT_OK_AND_ASSIGN(const ftiff::FileMetadata fti, metadata(theirs));
    ASSERT_OK_AND_ASSIGN(const ftiff::FileMetadata ours, metadata(fmt::format("{}/ckpt.{}/Ckpt{}-Rank{}.fti", kPrefix,
                                                                              adopted.dataset, adopted.dataset, rank)));
    EXPECT_EQ(ours.layout.containers, fti.layout.containers);
    EXPECT_EQ(ours.layout.block_containers, fti.layout.block_containers);
    EXPECT_EQ(ours.chunk_hashes, fti.chunk_hashes);
    EXPECT_EQ(ours.checksum_hex, fti.checksum_hex);
  }
}

}  // namespace
}  // namespace cairn

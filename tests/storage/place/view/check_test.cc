#include "storage/place/view/check.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/image.h"
#include "storage/format/view/view.h"
#include "storage/place/view/folder.h"
#include "tests/storage/place/view/sample.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn::view {
namespace {

constexpr std::int32_t kDouble = 10;

// What a release that put empty blocks, too, made of ranks with a box of "a" each.
ViewFiles WithEmptyBlocks(const std::vector<bp5::PutBlock>& boxes) {
  std::vector<bp5::EncodedStep> writers;
  std::vector<std::uint32_t> subfiles;
  for (const bp5::PutBlock& box : boxes) {
    const bp5::Put put = {.name = "a",
                          .kind = bp5::Kind::kGlobalArray,
                          .type = bp5::Type::kDouble,
                          .value = {},
                          .shape = {3},
                          .blocks = {box}};
    auto encoded = bp5::WriterEncoder().Encode(std::vector{put}, 32);
    EXPECT_OK(encoded);
    if (encoded.ok()) writers.push_back(*std::move(encoded));
    subfiles.push_back(static_cast<std::uint32_t>(subfiles.size()));
  }
  bpdir::Image image{bp5::IndexOptions{}};
  image.Append(writers, std::vector<bp5::WriterData>(writers.size()), subfiles, /*new_map=*/true);
  return {.index = image.index(), .metadata = image.metadata(), .formats = image.formats(), .links = {}};
}

TEST(CheckFolderTest, BlocksWithoutElementsShowNothing) {
  const std::string whole = Raw<double>({1, 2, 3});
  const SampleDataset dataset =
      MakeDataset({{Array(1, "a", kDouble, {3}, {0}, {0}, whole)}, {Array(1, "a", kDouble, {3}, {0}, {3}, whole)}});
  ASSERT_OK_AND_ASSIGN(ViewFiles wanted, BuildView(dataset.catalogues));
  wanted.links.clear();
  FakeDisk disk;
  const auto check = [&](std::uint64_t begin, std::uint64_t count) {
    const ViewFiles found =
        WithEmptyBlocks({{.box = {.start = {begin}, .count = {count}}, .location = 0, .min_max = {}},
                         {.box = {.start = {0}, .count = {3}}, .location = 0, .min_max = {}}});
    EXPECT_OK(WriteFolder(disk, "/view", found));
    return CheckFolder(disk, "/view", wanted);
  };
  EXPECT_OK(check(0, 0));
  EXPECT_STATUS(absl::StatusCode::kDataLoss, check(0, 1), "block writer 0, [1] at [0]");
}

}  // namespace
}  // namespace cairn::view

// Whose files a capture starts from, and what becomes of those that were given away: daemon/core/base_files.h.
#include "daemon/core/base_files.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "daemon/core/dataset_folders.h"
#include "daemon/core/ledger.h"
#include "storage/place/cache/cache_folder.h"
#include "tests/daemon/core/by_hand.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class BaseFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(MakeDirectories(by_hand_.cache_disk, "/ssd"));
    ASSERT_OK_AND_ASSIGN(cache_,
                         CacheFolder::Open(by_hand_.cache_disk, "/ssd", "me", "run", RunId::Random(), "/prefix"));
    bases_ = std::make_unique<BaseFiles>(by_hand_.context, cache_, ledger_,
                                         [this](DatasetId id, std::uint64_t, std::function<void()> then) {
                                           folders_.Change(
                                               id, [this, id] { return cache_->Remove(id); }, std::move(then));
                                         });
    Dataset dataset;
    dataset.id = 3;
    dataset.nranks = 1;
    dataset.parts.resize(1);
    dataset.parts.front().state = Part::State::kStored;
    dataset.cache = dataset.prefix = Place::kWhole;
    spare_ = ledger_.Adopt(dataset);
    bases_->Give(*spare_, 4);
    ledger_.LeftCache(*spare_, "dataset 4 is written into its files");
  }

  ByHand by_hand_;
  Ledger ledger_{[](const DatasetPtr&, const std::string&) {}};
  DatasetFolders folders_{by_hand_.context, [](DatasetId) {}};
  std::shared_ptr<CacheFolder> cache_;
  std::unique_ptr<BaseFiles> bases_;
  DatasetPtr spare_;
};

TEST_F(BaseFilesTest, WhatHasGivenItsFilesRestsOnThePrefixOnceTheRestOfItsFolderHasGone) {
  EXPECT_EQ(spare_->cache, Place::kLeaving);
  bases_->End(4);
  EXPECT_EQ(spare_->cache, Place::kLeaving);
  by_hand_.RunAll();
  EXPECT_EQ(spare_->cache, Place::kAbsent);
  EXPECT_TRUE(ledger_.InPlay().empty());
}

TEST_F(BaseFilesTest, WhatIsFetchedAnewMeanwhileIsNotTakenAway) {
  ledger_.RefetchBegan(*spare_);
  ASSERT_OK(MakeDirectories(by_hand_.cache_disk, cache_->DatasetPath(3)));
  bases_->End(4);
  by_hand_.RunAll();
  EXPECT_OK(by_hand_.cache_disk.Info(cache_->DatasetPath(3)).status());
  ledger_.Refetched(*spare_);
  EXPECT_TRUE(spare_->in_cache());
}

}  // namespace
}  // namespace cairn

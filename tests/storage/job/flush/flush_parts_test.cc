// Flushes of datasets of which several nodes bring parts.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "storage/file/transfer/transfer.h"
#include "storage/io/lost_syncs.h"
#include "storage/job/flush/flush_work.h"
#include "tests/storage/job/flush/flush_work_fixture.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using enum absl::StatusCode;

// A dataset of two ranks: the first one's files are flushed here, the second one's by another node.
class PartsTest : public FlushWorkTest {
 protected:
  void SetUp() override {
    FlushWorkTest::SetUp();
    old_ = Make(1, {"out/b", "only_old"});
    ASSERT_OK(Flush(old_).status);
    here_ = Make(4, {"out/a"});
    there_ = Make(4, {"out/b", "c"});
    there_.catalogues[0].set_rank(1);
    for (Files* part : {&here_, &there_}) {
      part->descriptor = TestDescriptor(4, 2);
      part->descriptor.own_files = true;
      part->catalogues[0].set_nranks(2);
    }
  }
  FlushOutcome CopyThere() {
    return CopyPart({cache_, there_.folder, there_.descriptor, there_.catalogues}, pfs_, *prefix_, throttle_,
                    progress_);
  }
  absl::StatusOr<std::vector<CopiedFile>> Brought() {
    return FilesBrought(pfs_, *prefix_, there_.catalogues, throttle_, progress_);
  }
  FlushOutcome CommitBoth(const FlushOutcome& copy, const std::vector<CopiedFile>& brought) {
    const std::vector<catalogue::Catalogue> all = {here_.catalogues[0], there_.catalogues[0]};
    std::vector<CopiedFile> files = copy.copied;
    files.insert(files.end(), brought.begin(), brought.end());
    return CommitCopied({cache_, here_.folder, here_.descriptor, all, {}, {1}}, {pfs_, *prefix_, *flush_file_}, files);
  }
  void ExpectCommitted() {
    EXPECT_EQ(Committed(), std::set<DatasetId>{4});
    ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix_->Catalogues(4));
    ASSERT_EQ(catalogues.size(), 2u);
    for (const catalogue::Catalogue& catalogue : catalogues) {
      for (const catalogue::FileEntry& file : catalogue.file()) {
        EXPECT_OK(VerifyFile(pfs_, prefix_->FilePath(file.prefix_name()), file));
      }
    }
    EXPECT_STATUS(kNotFound, pfs_.Info(kPrefix + "/only_old"), "");
  }

  Files old_, here_, there_;
};

TEST_F(PartsTest, FilesOfOthersWaitAndTakeTheirNamesWithTheCommit) {
  ASSERT_OK(CopyThere().status);
  EXPECT_STATUS(kNotFound, pfs_.Info(kPrefix + "/c"), "");
  ExpectSound("an older one has the name");
  const FlushOutcome copy = Copy(here_);
  ASSERT_OK(copy.status);
  ASSERT_OK_AND_ASSIGN(const auto brought, Brought());
  ASSERT_EQ(brought.size(), 2u);
  for (const CopiedFile& file : brought) EXPECT_FALSE(file.work.empty()) << file.to;
  const FlushOutcome commit = CommitBoth(copy, brought);
  ASSERT_OK(commit.status);
  EXPECT_EQ(IdsOf(commit.withdrawn), std::vector<DatasetId>{1});
  ExpectCommitted();
}

TEST_F(PartsTest, WhatWasInItsPlaceBeforeIsComparedAgain) {
  ASSERT_OK(prefix_->Remove(1, old_.catalogues));
  ASSERT_OK(CopyThere().status);
  ASSERT_OK(PutInPlace(pfs_, *Brought()));  // then the power failed
  ASSERT_OK(CopyThere().status);
  const FlushOutcome copy = Copy(here_);
  ASSERT_OK(copy.status);
  ASSERT_OK_AND_ASSIGN(const auto brought, Brought());
  for (const CopiedFile& file : brought) EXPECT_TRUE(file.work.empty()) << file.to;
  pfs_.FlipBit(kPrefix + "/c", 77);
  EXPECT_STATUS(kAborted, Brought(), "/c");
  pfs_.FlipBit(kPrefix + "/c", 77);
  ASSERT_OK(CommitBoth(copy, brought).status);
  ExpectCommitted();
}

// A large file takes long to read: a daemon that is to end does not wait for that.
TEST_F(PartsTest, ToCompareWhatIsInItsPlaceIsPartOfTheFlush) {
  ASSERT_OK(prefix_->Remove(1, old_.catalogues));
  ASSERT_OK(CopyThere().status);
  ASSERT_OK(PutInPlace(pfs_, *Brought()));
  ASSERT_OK(CopyThere().status);
  const std::uint64_t before = progress_.bytes_done;
  ASSERT_OK(Brought());
  EXPECT_GT(progress_.bytes_done, before) << "it gets on";
  progress_.stop = true;
  EXPECT_STATUS(absl::StatusCode::kCancelled, Brought(), "");
}

TEST_F(PartsTest, WhatIsNotThereIsToBeCopiedAgain) {
  EXPECT_STATUS(kAborted, Brought(), "out/b") << "another's file has its name";
  ASSERT_OK(CopyThere().status);
  ASSERT_OK_AND_ASSIGN(const auto brought, Brought());
  ASSERT_OK(WriteTestFile(pfs_, brought[1].work, "short"));
  EXPECT_STATUS(kAborted, Brought(), brought[1].work);
  ASSERT_OK(pfs_.Remove(brought[1].work));
  EXPECT_STATUS(kAborted, Brought(), "/c");
}

// The daemon that has brought it may have synced it well: this node's kernel may have given up bytes of it all the
// same.
TEST_F(PartsTest, WhatHasLostASyncHereIsNotTaken) {
  ASSERT_OK(prefix_->Remove(1, old_.catalogues));
  ASSERT_OK(CopyThere().status);
  ASSERT_OK_AND_ASSIGN(const auto brought, Brought());
  ASSERT_OK_AND_ASSIGN(const auto file, pfs_.Open(brought[1].work, {.writable = true}));
  pfs_.FailOn({.op = FakeOp::kSync});
  EXPECT_FALSE(SyncOrDistrust(*file).ok());
  EXPECT_STATUS(kAborted, Brought(), brought[1].work);
  ASSERT_OK(PutInPlace(pfs_, brought));
  EXPECT_STATUS(kAborted, Brought(), "/c");
  ASSERT_OK(SyncOrDistrust(*file, /*written_anew=*/true));
  EXPECT_OK(Brought());
}

TEST_F(PartsTest, ALinkThatLeadsOutOfThePrefixStopsThePartToo) {
  ASSERT_OK(MakeDirectories(pfs_, "/pfs/elsewhere"));
  ASSERT_OK(pfs_.Symlink("/pfs/elsewhere", kPrefix + "/linked"));
  ASSERT_OK(MakeDirectories(cache_, there_.folder + "/linked"));
  there_ = Make(4, {"linked/x"});
  EXPECT_STATUS(kFailedPrecondition, CopyThere().status, "linked");
  EXPECT_STATUS(kNotFound, pfs_.Info("/pfs/elsewhere/x"), "");
}

}  // namespace
}  // namespace cairn

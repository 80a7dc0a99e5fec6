#include "storage/place/names.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

TEST(NamesTest, WhatCairnPutsIntoADatasetsFolderIsItsOwnAndNothingElse) {
  for (const char* name : {"Ckpt5-Rank0.fti", "rank_0.cat", "rank_12.cat", "Ckpt5-Rank0.fti.cairn-work0123456789abcdef",
                           "rank_3.cat.cairn-work01234567"}) {
    EXPECT_TRUE(IsDatasetFile(name, 5)) << name;
  }
  for (const char* name : {"rank_0.ckpt", "Ckpt6-Rank0.fti", "rank_x.cat", "files", "rank_0.ckpt.cairn-work01234567"}) {
    EXPECT_FALSE(IsDatasetFile(name, 5)) << name;
  }
}

TEST(NamesTest, ADatasetsNameIsANameOfAFileThatMeansNoOtherDataset) {
  for (const std::string& name : {std::string("best"), std::string("step 10"), std::string("10.h5"),
                                  std::string("ckpt."), std::string("ckpt.5.bp"), std::string("ckpt.5a"),
                                  std::string("Größe"), std::string("..."), std::string(kDatasetNameBytesMax, 'x')}) {
    EXPECT_OK(CheckDatasetName(name)) << name;
  }
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_STATUS(kInvalid, CheckDatasetName(""), "0 bytes");
  EXPECT_STATUS(kInvalid, CheckDatasetName(std::string(kDatasetNameBytesMax + 1, 'x')), "256 bytes, 1 to 255");
  EXPECT_STATUS(kInvalid, CheckDatasetName(std::string("a\0b", 3)), "'a?b': has a control character");
  EXPECT_STATUS(kInvalid, CheckDatasetName("a\nb"), "control character");
  for (const char* name : {"a/b", "/", ".", ".."}) {
    EXPECT_STATUS(kInvalid, CheckDatasetName(name), "must be a name of a file");
  }
  for (const char* name : {" a", "a ", " "}) EXPECT_STATUS(kInvalid, CheckDatasetName(name), "blank");
  for (const char* name : {"7", "007"}) EXPECT_STATUS(kInvalid, CheckDatasetName(name), "is a number");
  for (const char* name : {"ckpt.5", "ckpt.007", "scr.dataset.5"}) {
    EXPECT_STATUS(kInvalid, CheckDatasetName(name), "datasets without one");
  }
}

TEST(NamesTest, CairnsPlacesAreKeptWithAllBelow) {
  for (const char* name :
       {".scr", ".scr/index.scr", ".cairn/run", "ckpt.5.bp", "ckpt.5.bp/md.idx", "ckpt.007.bp", "ckpt.5/rank_0.cat",
        "ckpt.5/rank_0.cat/x", "ckpt.5/Ckpt5-Rank0.fti", "ckpt.5/Ckpt6-Rank0.fti", "ckpt.007/files", "ckpt.5/files/x",
        "ckpt.5/adopting", "ckpt.5/adopting/0.0"}) {
    EXPECT_TRUE(IsCairnsPlace(name)) << name;
    EXPECT_STATUS(absl::StatusCode::kInvalidArgument, CheckApplicationsName(name), "are kept");
  }
  for (const char* name : {"a", "ckpt.5/rank_0.ckpt", "ckpt.5/Ckpt5-Rank0.h5", "ckpt.5/fields.bp/md.idx", "ckpt.5/file",
                           "ckpt.x/files", "a/ckpt.5/files", "ckpt.5a/rank_0.cat", "ckpt.5/a/rank_0.cat", "ckpt."}) {
    EXPECT_FALSE(IsCairnsPlace(name)) << name;
    EXPECT_OK(CheckApplicationsName(name)) << name;
  }
}

TEST(NamesTest, WhatWouldBeInCairnsWayIsNoName) {
  EXPECT_FALSE(IsCairnsPlace("ckpt.5")) << "files may be in there";
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, CheckApplicationsName("ckpt.5"), "ckpt.5: such names");
  for (const char* name : {"rank_0.cat", "rank_0.cat/data", "rank_007.cat/a/b"}) {
    EXPECT_STATUS(absl::StatusCode::kInvalidArgument, CheckApplicationsName(name), "belong to the catalogues");
  }
  EXPECT_OK(CheckApplicationsName("rank_0.ckpt/data"));
  EXPECT_OK(CheckApplicationsName("a/rank_0.cat"));
}

}  // namespace
}  // namespace cairn

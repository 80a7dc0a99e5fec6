// Names of SCR's files below a run's prefix.
#include "storage/job/adopt/scr_names.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

struct Given {
  std::string original, directory, name;
};

std::vector<scr::Filemap> Filemaps(const std::vector<Given>& files) {
  std::vector<scr::Filemap> filemaps;
  for (const Given& given : files) {
    scr::Meta meta;
    meta.original = given.original;
    meta.directory = given.directory;
    meta.name = given.name;
    scr::Filemap filemap;
    filemap.files["/ssd/scr.1/scr.dataset.1/" + given.name] = meta;
    filemaps.push_back(std::move(filemap));
  }
  return filemaps;
}

std::string Names(const std::string& run, const std::string& prefix_was, const std::vector<Given>& files) {
  const auto names = NameScrFiles(run, prefix_was, Filemaps(files));
  if (!names.ok()) return names.status().ToString();
  std::string text;
  for (const auto& of_rank : names->names) {
    for (const auto& [recorded, name] : of_rank) text += (text.empty() ? "" : " ") + name;
  }
  return text;
}

TEST(ScrNamesTest, BelowTheRunTheyKeepTheirPlaces) {
  const std::vector<Given> files = {{"a/x", "/pfs/run/work/a", "x"}, {"/pfs/run/y", "/pfs/run", "y"}};
  EXPECT_EQ(Names("/pfs/run", "", files), "work/a/x y");
}

TEST(ScrNamesTest, ElsewhereTheyAreWhatTheApplicationCalledThem) {
  EXPECT_EQ(Names("/new", "", {{"a/b/x", "/pfs/demo/a/b", "x"}, {"./a//y", "/pfs/demo/a", "y"}}), "a/b/x a/y");
  EXPECT_EQ(Names("/new", "", {{"x", "/", "x"}}), "x");
}

TEST(ScrNamesTest, OrBelowWhatAllDirectoriesHaveInCommon) {
  EXPECT_EQ(Names("/new", "", {{"/pfs/demo/a/b/x", "/pfs/demo/a/b", "x"}, {"/pfs/demo/a/y", "/pfs/demo/a", "y"}}),
            "b/x y");
  EXPECT_EQ(Names("/new", "", {{"", "/pfs/a", "x"}, {"", "/pfs/ab", "y"}}), "a/x ab/y");
  EXPECT_EQ(Names("/new", "", {{"", "/one", "x"}, {"", "/two", "y"}}), "one/x two/y");
  const auto guessed = NameScrFiles("/new", "", Filemaps({{"/pfs/demo/x", "/pfs/demo", "x"}}));
  ASSERT_OK(guessed);
  EXPECT_EQ(guessed->prefix, "/pfs/demo");
  EXPECT_TRUE(guessed->guessed);
  const auto known = NameScrFiles("/new", "", Filemaps({{"x", "/pfs/demo", "x"}}));
  ASSERT_OK(known);
  EXPECT_FALSE(known->guessed);
}

TEST(ScrNamesTest, OrBelowWhatIsSaid) {
  EXPECT_EQ(Names("/pfs/demo/a", "/pfs", {{"x", "/pfs/demo/a", "x"}}), "demo/a/x");
  EXPECT_EQ(Names("/new", "/", {{"x", "/pfs/demo", "x"}}), "pfs/demo/x");
  EXPECT_NE(Names("/new", "/pfs/dem", {{"x", "/pfs/demo", "x"}}).find("is not below /pfs/dem"), std::string::npos);
}

TEST(ScrNamesTest, WithoutAPlaceTheyHaveTheirBaseNames) {
  EXPECT_EQ(Names("/new", "", {{"a/x", "", "x"}}), "x");
}

TEST(ScrNamesTest, TwoFilesOfOneNameAreRefusedWithBoth) {
  const auto names = NameScrFiles("/new", "", Filemaps({{"x", "", "x"}, {"x", "", "x"}}));
  EXPECT_STATUS(absl::StatusCode::kAlreadyExists, names, "scr.dataset.1/x of rank 0 and ");
  EXPECT_STATUS(absl::StatusCode::kAlreadyExists, names, "of rank 1 would both be x");
}

TEST(ScrNamesTest, NamesThatARunCannotHaveAreRefused) {
  for (const char* name : {"rank_0.cat", ".scr/x", ".cairn/x"}) {
    const std::string text = name;
    const std::size_t slash = text.find('/');
    const Given given{text, slash == std::string::npos ? "/old" : "/old/" + text.substr(0, slash),
                      slash == std::string::npos ? text : text.substr(slash + 1)};
    EXPECT_STATUS(absl::StatusCode::kInvalidArgument, NameScrFiles("/new", "/old", Filemaps({given})), "scr.dataset.1");
  }
}

}  // namespace
}  // namespace cairn

#include "storage/format/catalogue/catalogue.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <span>

#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/verified_by.h"

namespace cairn {
namespace {

using catalogue::Catalogue;

Catalogue Sample() {
  Catalogue sample;
  sample.set_run("0123456789abcdef0123456789abcdef");
  sample.set_launch(2);
  sample.set_dataset(41);
  sample.set_step(1000);
  sample.set_rank(3);
  sample.set_nranks(4);
  local::Variable* plain = sample.add_variables();
  plain->set_id(0);
  plain->set_type(10);
  plain->set_count(100);
  plain->set_bytes(800);
  local::Variable* value = sample.add_variables();
  value->set_id(7);
  value->set_kind(local::VALUE);
  value->set_type(4);
  value->set_name("step");
  value->set_count(1);
  value->set_bytes(8);
  local::Variable* array = sample.add_variables();
  array->set_id(9);
  array->set_kind(local::ARRAY);
  array->set_type(9);
  array->set_name("temperature");
  array->set_count(12);
  array->set_bytes(48);
  for (const std::uint64_t n : {10u, 8u}) array->add_shape(n);
  for (const std::uint64_t n : {4u, 5u}) array->add_box_start(n);
  for (const std::uint64_t n : {4u, 3u}) array->add_box_count(n);
  catalogue::FileEntry* file = sample.add_file();
  file->set_name("Ckpt41-Rank3.fti");
  file->set_prefix_name("ckpt.41/Ckpt41-Rank3.fti");
  file->set_bytes((1 << 20) + 1);
  file->add_crc32c(17);
  file->add_crc32c(18);
  return sample;
}

Catalogue FilesSample() {
  Catalogue sample = Sample();
  sample.set_files(true);
  sample.clear_variables();
  catalogue::FileEntry* file = sample.add_file();
  sample.set_scheme(local::SCHEME_RS);
  file->set_name("out/a b.h5");
  file->set_prefix_name("out/a b.h5");
  return sample;
}

// The frame around any message.
std::string Wrap(const std::string& message, std::uint32_t version = 1, std::uint32_t reserved = 0) {
  std::string file = "CAIRNCAT";
  const std::uint64_t bytes = message.size();
  file.append(reinterpret_cast<const char*>(&version), 4);
  file.append(reinterpret_cast<const char*>(&reserved), 4);
  file.append(reinterpret_cast<const char*>(&bytes), 8);
  file += message;
  const std::uint32_t crc = Crc32c(std::as_bytes(std::span(file)));
  file.append(reinterpret_cast<const char*>(&crc), 4);
  return file;
}

TEST(CatalogueTest, WhatIsEncodedIsDecoded) {
  for (const Catalogue& sample : {Sample(), FilesSample()}) {
    ASSERT_TRUE(ValidateCatalogue(sample).ok()) << ValidateCatalogue(sample);
    const auto decoded = DecodeCatalogue("rank_3.cat", EncodeCatalogue(sample));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->SerializeAsString(), sample.SerializeAsString());
  }
}

TEST(CatalogueTest, ARedundancySchemeOfANewerReleaseIsNoDamage) {
  Catalogue sample = Sample();
  sample.set_scheme(static_cast<local::Scheme>(77));
  EXPECT_TRUE(DecodeCatalogue("rank_3.cat", EncodeCatalogue(sample)).ok());
}

TEST(CatalogueTest, TheFileIsAsDescribed) {
  EXPECT_EQ(EncodeCatalogue(Sample()), Wrap(Sample().SerializeAsString()));
}

TEST(CatalogueTest, ARankWithoutVariablesHasNoFile) {
  Catalogue sample = Sample();
  sample.clear_variables();
  sample.clear_file();
  EXPECT_TRUE(DecodeCatalogue("rank_3.cat", EncodeCatalogue(sample)).ok());
}

TEST(CatalogueTest, AnyTruncationOrBitFlipIsDataLoss) {
  const std::string whole = EncodeCatalogue(Sample());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_EQ(DecodeCatalogue("c", whole.substr(0, n)).status().code(), absl::StatusCode::kDataLoss) << "cut at " << n;
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[n] = static_cast<char>(damaged[n] ^ (1 << bit));
      EXPECT_EQ(DecodeCatalogue("c", damaged).status().code(), absl::StatusCode::kDataLoss) << n << ", bit " << bit;
    }
  }
  EXPECT_EQ(DecodeCatalogue("c", whole + '\0').status().code(), absl::StatusCode::kDataLoss);
}

TEST(CatalogueTest, ANewerVersionIsAFailedPreconditionAndVersionZeroIsDataLoss) {
  const std::string message = Sample().SerializeAsString();
  const absl::Status newer = DecodeCatalogue("rank_3.cat", Wrap(message, 2)).status();
  EXPECT_EQ(newer.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(MessageOf(newer).starts_with("rank_3.cat: offset 8: version 2")) << newer;
  EXPECT_EQ(DecodeCatalogue("c", Wrap(message, 0)).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeCatalogue("c", Wrap(message, 1, 1)).status().code(), absl::StatusCode::kDataLoss);
}

TEST(CatalogueTest, BytesThatAreNoMessageAreDataLoss) {
  EXPECT_EQ(DecodeCatalogue("c", Wrap("\x0a\x7f")).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeCatalogue("c", Wrap("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(CatalogueTest, TooManyVariablesOrFilesAreRefusedBeforeTheyAreMade) {
  for (const char* empty_entry : {"\x42", "\x4a"}) {  // fields 8 and 9, each with length 0
    std::string message;
    for (int i = 0; i < (1 << 20) + 1; ++i) message += std::string(empty_entry) + '\0';
    const absl::Status status = DecodeCatalogue("c", Wrap(message)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_NE(MessageOf(status).find("at most"), std::string_view::npos) << status;
  }
}

TEST(CatalogueTest, WhatWasAdoptedHasNoLaunchAndVariablesOfUnknownType) {
  Catalogue adopted = Sample();
  adopted.set_launch(0);
  adopted.clear_variables();
  for (const std::uint64_t bytes : {0, 1, 12345}) {
    local::Variable& variable = *adopted.add_variables();
    variable.set_id(adopted.variables_size());
    variable.set_count(bytes);
    variable.set_bytes(bytes);
  }
  const auto back = DecodeCatalogue("c", EncodeCatalogue(adopted));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->SerializeAsString(), adopted.SerializeAsString());
}

struct Unsound {
  std::string field;  // the message begins so
  std::function<void(Catalogue&)> damage;
};

TEST(CatalogueTest, WhatIsNotSoundIsRefusedNamingTheField) {
  const std::vector<Unsound> cases = {
      {"run", [](Catalogue& c) { c.set_run("0123"); }},
      {"run", [](Catalogue& c) { c.set_run("0123456789ABCDEF0123456789ABCDEF"); }},
      {"dataset", [](Catalogue& c) { c.set_dataset(0); }},
      {"nranks", [](Catalogue& c) { c.set_nranks(0); }},
      {"nranks", [](Catalogue& c) { c.set_nranks((1u << 20) + 1); }},
      {"rank", [](Catalogue& c) { c.set_rank(4); }},
      {"variables", [](Catalogue& c) { c.set_files(true); }},
      {"file", [](Catalogue& c) { *c.add_file() = c.file(0); }},
      {"variables[0].id", [](Catalogue& c) { c.mutable_variables(0)->set_id(-1); }},
      {"variables[1].id", [](Catalogue& c) { c.mutable_variables(1)->set_id(0); }},
      {"variables[0].type", [](Catalogue& c) { c.mutable_variables(0)->set_type(16); }},
      {"variables[0].count",
       [](Catalogue& c) {
         c.mutable_variables(0)->set_type(0);
         c.mutable_variables(0)->clear_name();
       }},
      {"variables[1].type", [](Catalogue& c) { c.mutable_variables(1)->set_type(0); }},
      {"variables[2].type", [](Catalogue& c) { c.mutable_variables(2)->set_type(0); }},
      {"variables[0].bytes", [](Catalogue& c) { c.mutable_variables(0)->set_bytes(801); }},
      {"variables[0].bytes", [](Catalogue& c) { c.mutable_variables(0)->set_bytes(0); }},
      {"variables[0].bytes", [](Catalogue& c) { c.mutable_variables(0)->set_bytes(1700); }},
      {"variables[0].bytes", [](Catalogue& c) { c.mutable_variables(0)->set_count(0); }},
      {"variables[1].name", [](Catalogue& c) { c.mutable_variables(1)->set_name(""); }},
      {"variables[1].name", [](Catalogue& c) { c.mutable_variables(1)->set_name(std::string(4097, 'n')); }},
      {"variables[1].kind", [](Catalogue& c) { c.mutable_variables(1)->set_kind(static_cast<local::Kind>(3)); }},
      {"variables[1]", [](Catalogue& c) { c.mutable_variables(1)->add_shape(1); }},
      {"variables[2].shape", [](Catalogue& c) { c.mutable_variables(2)->clear_shape(); }},
      {"variables[2].shape",
       [](Catalogue& c) {
         for (int i = 0; i < 7; ++i) c.mutable_variables(2)->add_shape(1);
       }},
      {"variables[2]", [](Catalogue& c) { c.mutable_variables(2)->add_box_start(1); }},
      {"variables[2]", [](Catalogue& c) { c.mutable_variables(2)->set_box_start(0, 7); }},
      {"variables[2]", [](Catalogue& c) { c.mutable_variables(2)->set_box_start(0, ~std::uint64_t{0}); }},
      {"variables[2].box_count",
       [](Catalogue& c) {
         for (int d = 0; d < 2; ++d) {
           c.mutable_variables(2)->set_shape(d, ~std::uint64_t{0});
           c.mutable_variables(2)->set_box_count(d, std::uint64_t{1} << 33);
         }
       }},
      {"variables[2].count", [](Catalogue& c) { c.mutable_variables(2)->set_box_count(0, 3); }},
      {"file[0].name", [](Catalogue& c) { c.mutable_file(0)->set_name(""); }},
      {"file[0].name", [](Catalogue& c) { c.mutable_file(0)->set_name("/etc/passwd"); }},
      {"file[0].name", [](Catalogue& c) { c.mutable_file(0)->set_name("../x"); }},
      {"file[0].name", [](Catalogue& c) { c.mutable_file(0)->set_name("a//b"); }},
      {"file[0].name", [](Catalogue& c) { c.mutable_file(0)->set_name("./a"); }},
      {"file[0].name", [](Catalogue& c) { c.mutable_file(0)->set_name("a/../b"); }},
      {"file[0].prefix_name", [](Catalogue& c) { c.mutable_file(0)->set_prefix_name(".cairn/run"); }},
      {"file[0].prefix_name", [](Catalogue& c) { c.mutable_file(0)->set_prefix_name(""); }},
      {"file[0].crc32c", [](Catalogue& c) { c.mutable_file(0)->add_crc32c(1); }},
      {"file[0].crc32c", [](Catalogue& c) { c.mutable_file(0)->set_bytes(1 << 20); }},
      {"file[0].bytes", [](Catalogue& c) { c.mutable_file(0)->set_bytes(~std::uint64_t{0}); }},
      {"file[0]", [](Catalogue& c) { c.mutable_file(0)->set_mtime_ns(1'000'000'000); }},
      {"file[0].verified_by", [](Catalogue& c) { c.mutable_file(0)->set_verified_by(catalogue::VerifiedBy(99)); }},
      {"file[0]", [](Catalogue& c) { c.mutable_file(0)->set_atime_ns(1'000'000'000); }},
      {"file[2].name",
       [](Catalogue& c) {
         c = FilesSample();
         *c.add_file() = c.file(1);
       }},
      {"file[2].prefix_name",
       [](Catalogue& c) {
         c = FilesSample();
         *c.add_file() = c.file(1);
         c.mutable_file(2)->set_name("other");
       }},
  };
  for (const Unsound& unsound : cases) {
    Catalogue sample = Sample();
    unsound.damage(sample);
    const absl::Status status = ValidateCatalogue(sample);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << unsound.field;
    EXPECT_TRUE(MessageOf(status).starts_with(unsound.field + ":")) << unsound.field << " gave " << status;
    const absl::Status decoded = DecodeCatalogue("rank_3.cat", EncodeCatalogue(sample)).status();
    EXPECT_EQ(decoded.code(), absl::StatusCode::kDataLoss) << unsound.field;
    EXPECT_TRUE(MessageOf(decoded).starts_with("rank_3.cat: offset 24: " + unsound.field)) << decoded;
  }
}

TEST(VerifiedByTest, OnlyWhatIsNotedIsCountedAndNamed) {
  Catalogue rank;
  EXPECT_TRUE(VerifiedByOf(rank).empty());
  for (const char* name : {"a", "b", "c"}) rank.add_file()->set_prefix_name(name);
  EXPECT_TRUE(VerifiedByOf(rank).empty()) << "as in catalogues from before";
  EXPECT_TRUE(CountVerified({rank}).empty());
  rank.mutable_file(1)->set_verified_by(catalogue::NOTHING);
  rank.mutable_file(2)->set_verified_by(catalogue::COPY);
  const VerifiedCounts counts = CountVerified({rank, rank});
  EXPECT_EQ(counts, (VerifiedCounts{{catalogue::COPY, 2}, {catalogue::NOTHING, 2}}));
  EXPECT_EQ(UnverifiedFiles({rank, rank}), (std::vector<std::string>{"b", "b"}));
  const auto of_files = VerifiedByOf(rank);
  EXPECT_EQ(std::vector<int>(of_files.begin(), of_files.end()),
            (std::vector<int>{catalogue::NOT_NOTED, catalogue::NOTHING, catalogue::COPY}));
}

TEST(FileNamesTest, CataloguesAndCheckpointFilesAreNamedByRankAndDataset) {
  EXPECT_EQ(CatalogueName(12), "rank_12.cat");
  EXPECT_EQ(CheckpointFileName(7, 12), "Ckpt7-Rank12.fti");
}

TEST(FileNamesTest, NamesAreNormalizedBelowThePrefix) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a", "a"},
      {"out/a.h5", "out/a.h5"},
      {"./out//a.h5", "out/a.h5"},
      {"out/./x/../a.h5", "out/a.h5"},
      {"/scratch/run/out/a.h5", "out/a.h5"},
      {"/scratch//run/./a", "a"},
      {"/scratch/other/../run/a", "a"},
      {".scratch/a", ".scratch/a"},
      {"a/.scr/b", "a/.scr/b"},
      {"..a/b..", "..a/b.."},
      {"x/rank_0.cat", "x/rank_0.cat"},
      {"rank_.cat", "rank_.cat"},
      {"rank_0x.cat", "rank_0x.cat"},
      {"größe ω 😀", "größe ω 😀"},
      {std::string(255, 'p'), std::string(255, 'p')},
  };
  for (const auto& [file, normal] : cases) {
    for (const char* prefix : {"/scratch/run", "/scratch/run/", "//scratch/./run"}) {
      const auto found = NormalizeFileName(prefix, file);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(*found, normal);
    }
  }
  EXPECT_EQ(*NormalizeFileName("/", "/a/b"), "a/b");
}

TEST(FileNamesTest, NamesThatAreNoFileBelowThePrefixAreRefused) {
  const std::vector<std::string> cases = {"",
                                          "/",
                                          ".",
                                          "a/",
                                          "a/..",
                                          "..",
                                          "../a",
                                          "a/../../b",
                                          "/scratch/a",
                                          "/scratch/runaway/a",
                                          "/scratch/run",
                                          "/scratch/run/../a",
                                          "/etc/passwd",
                                          "/scratch/run/.scr/index.scr",
                                          ".scr/index.scr",
                                          ".cairn/run",
                                          "./.cairn",
                                          ".scr",
                                          "rank_0.cat",
                                          "./rank_12.cat",
                                          "/scratch/run/rank_0.cat",
                                          "a.cairn-work1f",
                                          "a.cairn-work1f/b",
                                          std::string("a\0b", 3),
                                          "a\nb",
                                          "a\x7f",
                                          "\xff",
                                          "a\xc3",
                                          "\xc0\xaf",
                                          "\xe0\x80\xaf",
                                          "\xed\xa0\x80",
                                          "\xf4\x90\x80\x80",
                                          "\xf0\x80\x80\xaf",
                                          std::string(256, 'p'),
                                          std::string(4097, '/') + "a"};
  for (const std::string& file : cases) {
    EXPECT_EQ(NormalizeFileName("/scratch/run", file).status().code(), absl::StatusCode::kInvalidArgument) << file;
  }
}

}  // namespace
}  // namespace cairn

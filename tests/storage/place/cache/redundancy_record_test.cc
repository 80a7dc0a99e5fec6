// The record of what a node keeps: sets, and that nothing of a record that is not sound is believed.
#include "storage/place/cache/redundancy_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "storage/format/framed/framed.h"
#include "storage/format/scr/sets.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr char kFolder[] = "/ssd/scr.dataset.7";
constexpr char kPath[] = "/ssd/scr.dataset.7/.scr/redundancy.cairn";

kept::Set RsSet() {
  kept::Set set;
  set.set_scheme(kept::RS);
  set.set_groups(2);
  set.set_group(1);
  set.set_checksums(2);
  for (const Rank rank : {1, 3, 5, 7}) set.add_ranks(rank);
  return set;
}

kept::File FileOf(Rank rank, bool of_filemap, std::size_t bytes) {
  kept::File file;
  file.set_rank(rank);
  *file.mutable_set() = RsSet();
  file.set_of_filemap(of_filemap);
  *file.mutable_file() = TestEntry(
      fmt::format("reddesc{}.er.{}.rs.grp_2_of_2.mem_{}_of_4.redset", of_filemap ? "map" : "", rank, (rank + 1) / 2),
      "", TestContent(rank, bytes));
  file.set_header_bytes(100);
  return file;
}

kept::File Older(kept::File file, std::uint64_t number) {
  file.mutable_file()->set_name(OlderName(file.file().name(), number));
  return file;
}

// With the members of its set that are not this one in another order: its name stays as it is.
kept::File OfAnotherSet(kept::File file, std::uint32_t number) {
  auto& ranks = *file.mutable_set()->mutable_ranks();
  std::vector<Rank> others;
  for (const Rank rank : ranks) {
    if (rank != file.rank()) others.push_back(rank);
  }
  for (; number > 1; --number) std::ranges::next_permutation(others);
  auto other = others.begin();
  for (std::uint32_t& rank : ranks) {
    if (rank != file.rank()) rank = *other++;
  }
  return file;
}

// What ranks 3 and 5 keep, and what rank 3 kept for so many sets before.
kept::Record WithOlder(std::uint32_t sets);

kept::Record Sound() {
  kept::Record record;
  record.set_run(TestRun().Hex());
  record.set_launch(1);
  record.set_dataset(7);
  record.set_step(70);
  record.set_nranks(8);
  for (const Rank rank : {3, 5}) {
    *record.add_files() = FileOf(rank, false, (2 << 20) + 100);
    *record.add_files() = FileOf(rank, true, 1000);
  }
  return record;
}

kept::Record WithOlder(std::uint32_t sets) {
  const kept::Record sound = Sound();
  kept::Record record = sound;
  record.mutable_files()->DeleteSubrange(2, 2);
  for (std::uint32_t n = 1; n <= sets; ++n) {
    for (const bool of_filemap : {false, true}) {
      *record.add_files() = Older(OfAnotherSet(FileOf(3, of_filemap, 1000 + n), n + 1), n);
    }
  }
  *record.add_files() = sound.files(2);
  *record.add_files() = sound.files(3);
  return record;
}

scr::Descriptor Holding() {
  scr::Descriptor descriptor = TestDescriptor(7, 8);
  descriptor.held.emplace();
  descriptor.held->AddRange(2, 5);
  return descriptor;
}

class RedundancyRecordTest : public ::testing::Test {
 protected:
  RedundancyRecordTest() { EXPECT_OK(MakeDirectories(disk_, std::string(kFolder) + "/.scr")); }

  absl::StatusOr<kept::Record> Read(const scr::Descriptor& descriptor = Holding()) {
    return ReadRedundancyRecord(disk_, kFolder, TestRun(), descriptor);
  }
  std::string Text() { return *ReadWhole(disk_, kPath, 1 << 30); }

  FakeDisk disk_;
};

TEST_F(RedundancyRecordTest, WhatIsWrittenIsReadAndDurable) {
  EXPECT_STATUS(absl::StatusCode::kNotFound, Read(), "redundancy.cairn");
  const kept::Record record = Sound();
  ASSERT_OK(WriteRedundancyRecord(disk_, kFolder, record));
  disk_.Restart(1);
  ASSERT_OK_AND_ASSIGN(const kept::Record read, Read());
  EXPECT_EQ(read.SerializeAsString(), record.SerializeAsString());
  EXPECT_EQ(KeptBytes(read), 2 * ((2 << 20) + 1100u));
  EXPECT_EQ(Text().substr(0, 8), "CAIRNRED");
  ASSERT_OK(RemoveRedundancyRecord(disk_, kFolder));
  disk_.Restart(2);
  EXPECT_STATUS(absl::StatusCode::kNotFound, Read(), "redundancy.cairn");
  EXPECT_OK(RemoveRedundancyRecord(disk_, kFolder));
}

TEST_F(RedundancyRecordTest, SetsOfARankThatAreStillKeptFollowTheNewest) {
  const kept::Record record = WithOlder(3);
  ASSERT_OK(WriteRedundancyRecord(disk_, kFolder, record));
  ASSERT_OK_AND_ASSIGN(const kept::Record read, Read());
  EXPECT_EQ(read.SerializeAsString(), record.SerializeAsString());
  const auto sets = SetsByRank(read);
  ASSERT_EQ(sets.at(3).size(), 4u);
  ASSERT_EQ(sets.at(5).size(), 1u);
  EXPECT_TRUE(AreSame(sets.at(3)[0], RsSet()));
  const auto pairs = PairsByRank(read);
  for (std::size_t n = 0; n < 4; ++n) {
    EXPECT_EQ(pairs.at(3)[n].data, &read.files(static_cast<int>(2 * n)));
    EXPECT_EQ(pairs.at(3)[n].filemap, &read.files(static_cast<int>(2 * n + 1)));
    EXPECT_TRUE(AreSame(pairs.at(3)[n].set(), sets.at(3)[n]));
  }
  EXPECT_STATUS(kInvalidArgument, CheckRedundancyRecord(WithOlder(4), TestRun(), Holding()), "of rank 3 more than 4");
}

TEST_F(RedundancyRecordTest, WhatIsOlderThanASetGoesAndNothingElse) {
  const kept::Record record = WithOlder(3);
  const auto without = [&record](int set) { return WithoutOlder(record, {record.files(2 * set).set()}).files_size(); };
  EXPECT_EQ(without(0), 4);
  EXPECT_EQ(without(1), 6);
  EXPECT_EQ(without(3), 10);
  EXPECT_EQ(WithoutOlder(record, {}).SerializeAsString(), record.SerializeAsString());
  EXPECT_EQ(WithoutOlder(record, {RsSet()}).files(3).rank(), 5u);
}

TEST(OlderNameTest, OnlyARedundancyFileHasOne) {
  const std::string name = FileOf(3, false, 1).file().name();
  EXPECT_EQ(OlderName(name, 12), "older.12." + name);
  EXPECT_TRUE(IsOlderName(OlderName(name, 1)));
  EXPECT_TRUE(IsOlderName(OlderName(FileOf(3, true, 1).file().name(), 1)));
  for (const std::string& other : {name, "older." + name, "older.x." + name, "older.01." + name, "older.-1." + name,
                                   "older.1." + name + "x", std::string("older.1.redundancy.cairn"), std::string()}) {
    EXPECT_FALSE(IsOlderName(other)) << other;
  }
}

TEST_F(RedundancyRecordTest, AnyCutOrFlippedBitIsDataLoss) {
  kept::Record record = Sound();
  record.mutable_files()->DeleteSubrange(1, 3);
  ASSERT_OK(WriteRedundancyRecord(disk_, kFolder, record));
  const std::string whole = Text();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    ASSERT_OK(WriteTestFile(disk_, kPath, whole.substr(0, n)));
    EXPECT_EQ(Read().status().code(), kDataLoss) << "cut at " << n;
    std::string flipped = whole;
    flipped[n] = static_cast<char>(flipped[n] ^ (1 << n % 8));
    ASSERT_OK(WriteTestFile(disk_, kPath, flipped));
    EXPECT_EQ(Read().status().code(), kDataLoss) << "flip at " << n;
  }
  // Also what no version ever wrote, and what a newer one might.
  const FramedKind kind{.magic = "CAIRNRED", .what = "", .version = 2, .bytes_max = 1 << 20};
  ASSERT_OK(WriteTestFile(disk_, kPath, EncodeFramed(kind, record)));
  EXPECT_STATUS(kDataLoss, Read(), "version 2 is newer");
  ASSERT_OK(disk_.Remove(kPath));
  ASSERT_OK(disk_.MakeDirectory(kPath, 0700));
  EXPECT_STATUS(kDataLoss, Read(), "redundancy.cairn");
}

TEST_F(RedundancyRecordTest, EachFieldHasToBeSound) {
  using Change = std::function<void(kept::Record&)>;
  const auto file = [](const std::function<void(kept::File&)>& change) {
    return [change](kept::Record& record) { change(*record.mutable_files(0)); };
  };
  const auto set = [](const std::function<void(kept::Set&)>& change) {
    return [change](kept::Record& record) {
      for (kept::File& file : *record.mutable_files()) change(*file.mutable_set());
    };
  };
  const std::vector<std::pair<Change, std::string>> changes = {
      {[](auto& r) { r.set_run(TestRun(2).Hex()); }, "run: "},
      {[](auto& r) { r.set_run("x"); }, "run: "},
      {[](auto& r) { r.set_launch(2); }, "launch: 2, expected 1"},
      {[](auto& r) { r.set_dataset(8); }, "dataset: 8, expected 7"},
      {[](auto& r) { r.set_step(71); }, "step: 71, expected 70"},
      {[](auto& r) { r.set_nranks(9); }, "nranks: 9, expected 8"},
      {[](auto& r) { r.mutable_files()->SwapElements(0, 1); }, "files[0]: set: another one than that of the data"},
      {[](auto& r) { r.mutable_files()->SwapElements(1, 2); }, "files[2]: of rank 3, comes twice or too late"},
      {[](auto& r) { *r.mutable_files(1) = r.files(0); }, "files[1]: of rank 3, comes twice"},
      {[](auto& r) {
         kept::Set& other = *r.mutable_files(1)->mutable_set();
         other.set_ranks(0, 7);
         other.set_ranks(3, 1);
       },
       "files[1]: set: another one"},
      {[](auto& r) { *r.mutable_files(2) = FileOf(3, false, 100); }, "files[2]: of rank 3, comes twice"},
      {[](auto& r) { *r.mutable_files(2) = Older(FileOf(3, true, 100), 1); }, "files[2]: of rank 3, comes twice"},
      {[](auto& r) { *r.mutable_files(2) = OfAnotherSet(FileOf(3, false, 100), 2); },
       "files[2]: file: name: reddesc.er.3.rs.grp_2_of_2.mem_2_of_4.redset comes twice"},
      {[](auto& r) { *r.mutable_files(3) = Older(OfAnotherSet(FileOf(3, true, 100), 2), 1); },
       "files[3]: of rank 3, comes twice or too late"},
      {[](auto& r) { r.mutable_files(0)->mutable_file()->set_name("older.0." + r.files(0).file().name()); },
       "files[0]: file: name: \"older.0."},
      {[](auto& r) { r.mutable_files(0)->mutable_file()->set_name("older.1." + r.files(1).file().name()); },
       "files[0]: file: name: \"older.1."},
      {file([](auto& f) { f.clear_set(); }), "files[0]: set: scheme: 0 protects nothing"},
      {file([](auto& f) { f.set_rank(2); }), "files[0]: rank: 2 is no member"},
      {file([](auto& f) { f = FileOf(1, false, 200); }), "files[0].rank: 1 does not lie here"},
      {file([](auto& f) { f.set_of_filemap(true); }), "files[0]: file: name: "},
      {file([](auto& f) { f.mutable_file()->set_name("../x"); }), "files[0]: file: name: \"../x\""},
      {file([](auto& f) { f.clear_file(); }), "files[0]: file: name: \"\""},
      {file([](auto& f) { f.mutable_file()->set_bytes(UINT64_MAX); }), "more than a file can have"},
      {file([](auto& f) { f.mutable_file()->set_bytes(1 << 20); }), "crc32c: 3 values, expected 1"},
      {file([](auto& f) { f.mutable_file()->add_crc32c(1); }), "crc32c: 4 values, expected 3"},
      {file([](auto& f) { f.mutable_file()->clear_crc32c(); }), "crc32c: 0 values, expected 3"},
      {file([](auto& f) { f.mutable_file()->set_mode(0600); }), "more than its size and checksums"},
      {file([](auto& f) { f.mutable_file()->set_prefix_name("x"); }), "more than its size and checksums"},
      {file([](auto& f) { f.mutable_file()->set_inode(1); }), "more than its size and checksums"},
      {file([](auto& f) { f.set_header_bytes(0); }), "files[0]: header_bytes: 0"},
      {file([](auto& f) { f.set_header_bytes(f.file().bytes() + 1); }), "files[0]: header_bytes: "},
      {set([](auto& s) { s.set_group(0); }), "file: name: "},
      {set([](auto& s) { s.add_ranks(6); }), "file: name: "},
      {set([](auto& s) { s.set_scheme(static_cast<kept::Scheme>(4)); }), "scheme: 4 protects nothing"},
      {set([](auto& s) { s.set_replicas(1); }), "replicas: 1, expected 0 to 0"},
  };
  for (const auto& [change, part] : changes) {
    kept::Record record = Sound();
    change(record);
    ASSERT_OK(WriteRedundancyRecord(disk_, kFolder, record));
    const auto read = Read();
    EXPECT_EQ(read.status().code(), kDataLoss) << part;
    EXPECT_THAT(read.status().ToString(), HasSubstr(part));
    EXPECT_STATUS(kInvalidArgument, CheckRedundancyRecord(record, TestRun(), Holding()), part);
  }
}

TEST_F(RedundancyRecordTest, OfAnotherDatasetItIsDataLoss) {
  ASSERT_OK(WriteRedundancyRecord(disk_, kFolder, Sound()));
  scr::Descriptor all = TestDescriptor(7, 8);
  EXPECT_OK(Read(all).status()) << "all ranks lie here";
  all.step.reset();
  EXPECT_OK(Read(all).status()) << "its step is not known";
  all.launch.reset();
  EXPECT_STATUS(kDataLoss, Read(all), "launch");
  all = TestDescriptor(7, 8);
  all.ranks.reset();
  EXPECT_STATUS(kDataLoss, Read(all), "");
}

// What an empty entry takes in memory is far more than its 2 bytes.
TEST_F(RedundancyRecordTest, EntriesAreCountedBeforeTheyAreMade) {
  kept::Record record = Sound();
  for (int i = 0; i < 29; ++i) record.add_files();  // 4 of 4 ranks' 32 files were there
  ASSERT_OK(WriteRedundancyRecord(disk_, kFolder, record));
  EXPECT_STATUS(kDataLoss, Read(), "files: more than 32");
}

TEST_F(RedundancyRecordTest, WhatIsTooLargeIsNeitherWrittenNorRead) {
  kept::Record record = Sound();
  record.mutable_files(0)->mutable_file()->mutable_crc32c()->Resize(16 << 20, 1);
  EXPECT_STATUS(kInvalidArgument, WriteRedundancyRecord(disk_, kFolder, record), "at most");
  ASSERT_OK(WriteTestFile(disk_, kPath, std::string((64 << 20) + 1, 'x')));
  EXPECT_STATUS(kDataLoss, Read(), "redundancy.cairn");
}

TEST_F(RedundancyRecordTest, WhatTheDiskSaysIsNoDamage) {
  ASSERT_OK(WriteRedundancyRecord(disk_, kFolder, Sound()));
  disk_.FailOn({.path_part = "redundancy.cairn"});
  EXPECT_STATUS(absl::StatusCode::kUnavailable, Read(), "injected");
}

TEST(RedundancySetTest, ASetHasToFitTheDatasetAndItsScheme) {
  const auto refused = [](const std::function<void(kept::Set&)>& change, std::string_view part,
                          std::uint32_t nranks = 8) {
    kept::Set set = RsSet();
    change(set);
    EXPECT_STATUS(kInvalidArgument, CheckSet(set, nranks), part);
  };
  EXPECT_OK(CheckSet(RsSet(), 8));
  refused([](auto& s) { s.set_scheme(kept::SINGLE); }, "scheme: 0");
  refused([](auto& s) { s.set_scheme(kept::XOR); }, "checksums: 2, expected 0 to 0");
  refused([](auto& s) { s.set_scheme(kept::PARTNER); }, "replicas: 0, expected 1 to 3");
  refused([](auto& s) { s.set_checksums(0); }, "checksums: 0, expected 1 to 3");
  refused([](auto& s) { s.set_checksums(4); }, "checksums: 4, expected 1 to 3");
  refused([](auto& s) { s.clear_ranks(); }, "ranks: 0 members");
  refused([](auto& s) { s.mutable_ranks()->Truncate(1); }, "ranks: 1 members");
  refused([](auto& s) { s.set_ranks(2, 8); }, "ranks: 8, expected less than 8");
  refused([](auto& s) { s.set_ranks(2, 1); }, "ranks: 1 comes twice");
  refused([](auto& s) { s.set_groups(0); }, "groups: 0");
  refused([](auto& s) { s.set_groups(9); }, "groups: 9, expected 1 to 8");
  refused([](auto& s) { s.set_group(2); }, "group: 2, expected less than 2");
  const auto ranks = [](std::uint32_t count) {
    return [count](kept::Set& s) {
      s.clear_ranks();
      for (Rank rank = 0; rank < count; ++rank) s.add_ranks(rank);
    };
  };
  refused(ranks(255), "checksums: 2 and 255 members are more than 256", 1000);
  refused([&](auto& s) { ranks(4097)(s); }, "ranks: 4097 members", 5000);
}

TEST(RedundancySetTest, SetsAreThoseThatWereMade) {
  const std::vector<std::string> groups = {"a", "a", "b", "c", "c"};
  for (const scr::Scheme scheme : {scr::Scheme::kPartner, scr::Scheme::kXor, scr::Scheme::kRs, scr::Scheme::kSingle}) {
    ASSERT_OK_AND_ASSIGN(const std::vector<scr::SetDescriptor> made,
                         scr::MakeSets({.scheme = scheme, .members_min = 3, .checksums = 1}, groups));
    const std::vector<kept::Set> sets = SetsOf(made);
    std::size_t members = 0;
    for (const kept::Set& set : sets) {
      EXPECT_OK(CheckSet(set, 5));
      for (const scr::SetDescriptor& member : DescriptorsOf(set, 5)) {
        const scr::SetDescriptor& wanted = made[member.world_rank];
        EXPECT_EQ(scr::FileNameOf(scr::HeaderNameOf(scr::RedsetKind::kData, member)),
                  scr::FileNameOf(scr::HeaderNameOf(scr::RedsetKind::kData, wanted)));
        EXPECT_EQ(member.world_ranks, 5u);
        EXPECT_EQ(member.replicas, wanted.replicas);
        EXPECT_EQ(member.checksums, wanted.checksums);
        ++members;
      }
    }
    EXPECT_EQ(members, scheme == scr::Scheme::kSingle ? 0 : 5);
  }
}

TEST(RedundancySetTest, AreSameLooksAtEverything) {
  EXPECT_TRUE(AreSame(RsSet(), RsSet()));
  const std::vector<std::function<void(kept::Set&)>> changes = {
      [](auto& s) { s.set_scheme(kept::XOR); }, [](auto& s) { s.set_groups(3); },
      [](auto& s) { s.set_group(0); },          [](auto& s) { s.set_replicas(1); },
      [](auto& s) { s.set_checksums(1); },      [](auto& s) { s.mutable_ranks()->SwapElements(0, 1); },
      [](auto& s) { s.add_ranks(6); }};
  for (const auto& change : changes) {
    kept::Set other = RsSet();
    change(other);
    EXPECT_FALSE(AreSame(RsSet(), other));
  }
}

}  // namespace
}  // namespace cairn

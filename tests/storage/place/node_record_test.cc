// The codec of flush.cairn: storage/place/node_record.h.
#include "storage/place/node_record.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

NodeNotes ThroughBytes(const NodeNotes& notes) {
  const kvtree::Tree tree = EncodeNodeRecord(notes);
  EXPECT_OK(kvtree::Encodable(tree));
  const auto read = kvtree::Decode("flush.cairn", kvtree::Encode(tree));
  EXPECT_OK(read);
  return read.ok() ? DecodeNodeRecord(*read) : NodeNotes();
}

// An entry of a record, as a daemon has written it.
kvtree::Tree& EntryOf(kvtree::Tree& record, std::string_view id) {
  return record.At("DATASET").At(id);
}

TEST(NodeRecordTest, EachNoteComesBackAlone) {
  NodeNotes notes;
  notes[1] = {};
  notes[2].in_prefix = true;
  notes[3].pinned = true;
  notes[4].dropped = true;
  notes[5].gave_way = true;
  notes[6].foreign = true;
  notes[7].id_taken = true;
  notes[8].doubted = true;
  notes[9].begun = true;
  notes[10].ordinal = UINT64_MAX;
  notes[12].rejected = true;
  notes[13].marked = true;
  notes[11].grown = {"a.bp", "out/b.bp", "one with blanks.bp"};
  notes[999999999999999999] = {.pinned = true};
  EXPECT_EQ(ThroughBytes(notes), notes);
}

TEST(NodeRecordTest, OneDatasetMayHaveAllNotes) {
  const NodeNotes notes = {{7,
                            {.in_prefix = true,
                             .pinned = true,
                             .dropped = true,
                             .gave_way = true,
                             .foreign = true,
                             .id_taken = true,
                             .doubted = true,
                             .begun = true,
                             .rejected = true,
                             .marked = true,
                             .ordinal = 3,
                             .grown = {"a.bp"}}}};
  EXPECT_EQ(ThroughBytes(notes), notes);
}

TEST(NodeRecordTest, NothingNotedIsAnEmptyRecord) {
  EXPECT_TRUE(EncodeNodeRecord({}).empty());
  const kvtree::Tree record = EncodeNodeRecord({{1, {}}});
  const kvtree::Tree* entry = record.FindPath({"DATASET", "1"});
  ASSERT_NE(entry, nullptr);
  EXPECT_TRUE(entry->empty()) << "what does not hold is left out";
  EXPECT_TRUE(DecodeNodeRecord({}).empty());
}

// Its names are those of the records that daemons before this one have written. They wrote PREFIX and PINNED also where
// they did not hold.
TEST(NodeRecordTest, ItIsReadAsItIsOnDisk) {
  kvtree::Tree record;
  EntryOf(record, "1").SetBool("PREFIX", true);
  EntryOf(record, "1").SetBool("PINNED", false);
  EntryOf(record, "2").SetBool("PREFIX", false);
  EntryOf(record, "2").SetBool("PINNED", true);
  EntryOf(record, "3").SetBool("DROPPED", true);
  EntryOf(record, "4").SetBool("GAVE_WAY", true);
  EntryOf(record, "5").SetBool("FOREIGN", true);
  EntryOf(record, "6").SetBool("ID_TAKEN", true);
  EntryOf(record, "7").SetBool("DOUBTED", true);
  EntryOf(record, "8").SetBool("BEGUN", true);
  EntryOf(record, "9").Set("ORDINAL", std::uint64_t{9});
  EntryOf(record, "10").At("GROWING").At("a.bp");
  const NodeNotes expected = {{1, {.in_prefix = true}}, {2, {.pinned = true}},  {3, {.dropped = true}},
                              {4, {.gave_way = true}},  {5, {.foreign = true}}, {6, {.id_taken = true}},
                              {7, {.doubted = true}},   {8, {.begun = true}},   {9, {.ordinal = 9}},
                              {10, {.grown = {"a.bp"}}}};
  EXPECT_EQ(DecodeNodeRecord(record), expected);
}

TEST(NodeRecordTest, WhatANewerDaemonAddsIsPassedOver) {
  kvtree::Tree record;
  EntryOf(record, "1").SetBool("PINNED", true);
  EntryOf(record, "1").At("LATER").At("x").At("y");
  record.Set("VERSION", std::uint64_t{2});
  const NodeNotes expected = {{1, {.pinned = true}}};
  EXPECT_EQ(DecodeNodeRecord(record), expected);
}

// --- Hostile trees ---

TEST(NodeRecordTest, WhatIsNoNumberOfADatasetIsPassedOver) {
  kvtree::Tree record;
  for (const char* key : {"", "0", "-1", "+1", " 1", "1 ", "01", "1x", "x", "0x1", "1.0", "18446744073709551617",
                          "9999999999999999999999"}) {
    EntryOf(record, key).SetBool("BEGUN", true);
  }
  EXPECT_TRUE(DecodeNodeRecord(record).empty());
}

TEST(NodeRecordTest, AFlagOrNumberThatCannotBeReadCountsAsAbsent) {
  kvtree::Tree record;
  for (const char* key : {"PREFIX", "PINNED", "DROPPED", "GAVE_WAY", "FOREIGN", "ID_TAKEN", "DOUBTED", "BEGUN"}) {
    EntryOf(record, "1").Set(key, "neither yes nor no");
    EntryOf(record, "2").At(key);  // without a value
  }
  EntryOf(record, "1").Set("ORDINAL", "-7");
  EntryOf(record, "2").Set("ORDINAL", "99999999999999999999999");
  const NodeNotes expected = {{1, {}}, {2, {}}};
  EXPECT_EQ(DecodeNodeRecord(record), expected);
}

TEST(NodeRecordTest, NamesThatLeadOutOfThePrefixDoNotComeIn) {
  kvtree::Tree record;
  kvtree::Tree& growing = EntryOf(record, "1").At("GROWING");
  for (const char* name : {"", ".", "..", "../a.bp", "a/../../b.bp", "/etc", "/", "a//b", "a/", "./a", "a/./b", "a\nb",
                           ".scr", ".cairn/run", "\xff.bp"}) {
    growing.At(name);
  }
  growing.At(std::string(300, 'n'));
  growing.At(std::string(5000, '/'));
  growing.At("good.bp");
  const NodeNotes expected = {{1, {.grown = {"good.bp"}}}};
  EXPECT_EQ(DecodeNodeRecord(record), expected);
}

TEST(NodeRecordTest, ATreeOfAnotherShapeHasNoNotes) {
  kvtree::Tree record;
  record.Set("DATASET", "1");
  const NodeNotes expected = {{1, {}}};  // a key without anything below it
  EXPECT_EQ(DecodeNodeRecord(record), expected);
  kvtree::Tree deep;
  kvtree::Tree* at = &deep;
  for (int level = 0; level < 200; ++level) at = &at->At("DATASET");
  EXPECT_TRUE(DecodeNodeRecord(deep).empty());
}

// Whatever a tree says, what is taken of it can be written, and then comes back as it is.
TEST(NodeRecordTest, WhatIsTakenOfAnyTreeCanBeWrittenAgain) {
  constexpr std::string_view kWords[] = {"DATASET", "1",        "2",       "007",      "PREFIX",  "PINNED",
                                         "DROPPED", "GAVE_WAY", "FOREIGN", "ID_TAKEN", "DOUBTED", "BEGUN",
                                         "ORDINAL", "GROWING",  "0",       "a.bp",     "../b",    "x"};
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    kvtree::Tree record;
    for (int path = 0; path < 12; ++path) {
      kvtree::Tree* at = &record.At("DATASET");
      for (int level = 0; level < 4; ++level) at = &at->At(kWords[random() % std::size(kWords)]);
    }
    const NodeNotes notes = DecodeNodeRecord(record);
    ASSERT_EQ(ThroughBytes(notes), notes) << kvtree::Print(record);
  }
}

}  // namespace
}  // namespace cairn

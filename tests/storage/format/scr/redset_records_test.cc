// The records of redundancy sets of every scheme: those that SCR wrote are read, those that contradict themselves not.
#include "storage/format/scr/redset_records.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "storage/format/scr/redset.h"
#include "tests/storage/format/scr/scr_vectors.h"

namespace cairn::scr {
namespace {

using kvtree::Tree;
using testing::ScrVector;
using testing::ScrVectors;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

void PutSet(const std::string& type, std::uint64_t ranks, std::uint64_t rank, Tree& tree) {
  tree.Set("TYPE", type);
  tree.Set("GROUPS", "2");
  tree.Set("GROUP", "1");
  tree.Set("RANKS", ranks);
  tree.Set("RANK", rank);
  tree.Set("WRANKS", "8");
  tree.Set("WRANK", rank + 4);
  if (type == "PARTNER") tree.Set("REPLICAS", "1");
  if (type == "RS") tree.Set("CKSUM", "2");
}

// Set rank 0's header in a set of four that are world ranks 4 to 7; each member has two files of together 9 bytes.
Tree Header(const std::string& type) {
  Tree header;
  header.Set("RANK", "0");
  std::vector<std::uint64_t> members = {0};
  if (type != "SINGLE") members.push_back(3);
  if (type == "RS") members.push_back(2);
  for (const std::uint64_t member : members) {
    Tree& entry = header.At("DESC").At(std::to_string(member));
    PutSet(type, 4, member, entry.At("DESC"));
    entry.Set("FILES", "2");
    entry.At("FILE").At("0").At("/c/b." + std::to_string(member)).Set("SIZE", "2");
    entry.At("FILE").At("1").At("/c/a." + std::to_string(member)).Set("SIZE", "7");
  }
  if (type == "XOR" || type == "RS") {
    header.At("GROUP").Set("RANKS", "4");
    for (int i = 0; i < 4; ++i) header.At("GROUP").At("RANK").Set(std::to_string(i), std::to_string(i + 4));
    header.Set("CHUNK", type == "XOR" ? "3" : "5");
  }
  return header;
}

TEST(RedundancyHeaderTest, SaysWhoseFilesThePayloadIsOf) {
  const auto header = GetRedundancyHeader(Header("RS"));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->rank, 0u);
  EXPECT_EQ(header->chunk_bytes, 5u);
  EXPECT_EQ(header->world_ranks, (std::map<std::uint32_t, Rank>{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  ASSERT_EQ(header->members.size(), 3u);
  const SetMember& left = header->members.at(3);
  EXPECT_EQ(left.descriptor.scheme, Scheme::kRs);
  EXPECT_EQ(left.descriptor.groups, 2u);
  EXPECT_EQ(left.descriptor.group, 1u);
  EXPECT_EQ(left.descriptor.ranks, 4u);
  EXPECT_EQ(left.descriptor.rank, 3u);
  EXPECT_EQ(left.descriptor.world_ranks, 8u);
  EXPECT_EQ(left.descriptor.world_rank, 7u);
  EXPECT_EQ(left.descriptor.checksums, 2u);
  EXPECT_EQ(left.bytes(), 9u);
  ASSERT_EQ(left.files.size(), 2u);
  EXPECT_EQ(left.files[0].first, "/c/b.3");  // by number, not by name
  EXPECT_EQ(left.files[1].second.bytes, 7u);
}

TEST(RedundancyHeaderTest, EachSchemeHasWhatItNeeds) {
  for (const std::string type : {"SINGLE", "PARTNER", "XOR", "RS"}) {
    const auto header = GetRedundancyHeader(Header(type));
    ASSERT_TRUE(header.ok()) << type << ": " << header.status();
    const bool parity = type == "XOR" || type == "RS";
    EXPECT_EQ(header->world_ranks.size(), parity ? 4u : 0u) << type;
    EXPECT_EQ(header->chunk_bytes > 0, parity) << type;
    EXPECT_EQ(header->members.at(0).descriptor.replicas, type == "PARTNER" ? 1u : 0u);
  }
}

// A rebuild of SCR's leaves the right neighbour's number beside the owner's.
TEST(RedundancyHeaderTest, AfterAPartnersRebuildTheOwnerIsWhoHasADescriptor) {
  Tree tree = Header("PARTNER");  // of 0 and 3: the file of 0
  tree.At("RANK").At("1");
  auto header = GetRedundancyHeader(tree);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->rank, 0u);
  const Tree other = tree.At("DESC").At("3");
  tree.At("DESC").At("2") = other;
  PutSet("PARTNER", 4, 2, tree.At("DESC").At("2").At("DESC"));
  tree.At("DESC").Erase("0");
  tree.Set("RANK", "3");  // whose right neighbour has the lower number
  tree.At("RANK").At("0");
  header = GetRedundancyHeader(tree);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->rank, 3u);
  tree.At("RANK").At("2");
  EXPECT_EQ(GetRedundancyHeader(tree).status().code(), kDataLoss);
}

TEST(RedundancyHeaderTest, UnknownKeysAndAnotherMemberDoNotMatter) {
  Tree tree = Header("XOR");
  tree.Set("NEW", "1");
  Tree& more = tree.At("DESC").At("1");  // as a rebuild of SCR leaves it
  PutSet("XOR", 4, 1, more.At("DESC"));
  more.At("DESC").Set("NEW", "1");
  more.Set("FILES", "0");  // and no FILE
  more.Set("NEW", "1");
  const auto header = GetRedundancyHeader(tree);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->members.at(1).bytes(), 0u);
}

// What is done to a header, and what the message then has in it.
struct Damage {
  std::string type, named;
  std::function<void(Tree&)> harm;
};

Tree& Own(Tree& header) {
  return header.At("DESC").At("0");
}
Tree& OwnSet(Tree& header) {
  return Own(header).At("DESC");
}

void ExpectRefused(const std::vector<Damage>& damages) {
  for (std::size_t i = 0; i < damages.size(); ++i) {
    Tree tree = Header(damages[i].type);
    damages[i].harm(tree);
    const auto header = GetRedundancyHeader(tree);
    EXPECT_EQ(header.status().code(), kDataLoss) << "damage " << i << ": " << damages[i].named;
    EXPECT_NE(header.status().ToString().find("redundancy header: "), std::string::npos) << header.status();
    EXPECT_NE(header.status().ToString().find(damages[i].named), std::string::npos) << i << ": " << header.status();
  }
}

TEST(RedundancyHeaderTest, WhatIsMissingIsNamed) {
  std::vector<Damage> damages = {
      {"XOR", "no RANK", [](Tree& t) { t.Erase("RANK"); }},
      {"XOR", "no DESC", [](Tree& t) { t.Erase("DESC"); }},
      {"XOR", "not of the owner, rank 0", [](Tree& t) { t.At("DESC").Erase("0"); }},
      {"XOR", "not of rank 3", [](Tree& t) { t.At("DESC").Erase("3"); }},
      {"PARTNER", "not of rank 3", [](Tree& t) { t.At("DESC").Erase("3"); }},
      {"RS", "not of rank 2", [](Tree& t) { t.At("DESC").Erase("2"); }},
      {"XOR", "rank 0: no DESC", [](Tree& t) { Own(t).Erase("DESC"); }},
      {"XOR", "rank 0: no FILES", [](Tree& t) { Own(t).Erase("FILES"); }},
      {"XOR", "FILES is 2, but FILE has 0", [](Tree& t) { Own(t).Erase("FILE"); }},
      {"XOR", "FILE: 1: 0 paths", [](Tree& t) { Own(t).At("FILE").SetEmpty("1"); }},
      {"XOR", "FILE: 0: no SIZE", [](Tree& t) { Own(t).At("FILE").At("0").SetEmpty("/c/b.0"); }},
      {"XOR", "no GROUP", [](Tree& t) { t.Erase("GROUP"); }},
      {"XOR", "GROUP: no RANKS", [](Tree& t) { t.At("GROUP").Erase("RANKS"); }},
      {"XOR", "GROUP: no RANK", [](Tree& t) { t.At("GROUP").Erase("RANK"); }},
      {"XOR", "no CHUNK", [](Tree& t) { t.Erase("CHUNK"); }},
      {"PARTNER", "no REPLICAS", [](Tree& t) { OwnSet(t).Erase("REPLICAS"); }},
      {"RS", "no CKSUM", [](Tree& t) { OwnSet(t).Erase("CKSUM"); }},
  };
  for (const std::string key : {"TYPE", "GROUPS", "GROUP", "RANKS", "RANK", "WRANKS", "WRANK"}) {
    damages.push_back({"XOR", "DESC: rank 0: no " + key, [key](Tree& t) { OwnSet(t).Erase(key); }});
  }
  ExpectRefused(damages);
}

TEST(RedundancyHeaderTest, WhatIsNoNumberOrOutOfRangeIsNamed) {
  std::vector<Damage> damages;
  const auto bad = [&](const std::string& type, const std::string& key, const std::vector<std::string>& values,
                       std::function<Tree&(Tree&)> at) {
    for (const std::string& value : values) {
      damages.push_back({type, key, [=](Tree& t) { at(t).Set(key, value); }});
    }
  };
  const auto root = [](Tree& t) -> Tree& { return t; };
  bad("XOR", "RANK", {"", "x", "-1", "4294967296", "99999999999999999999"}, root);
  damages.push_back({"XOR", "not of the owner, rank 1", [](Tree& t) { t.Set("RANK", "1"); }});
  bad("XOR", "CHUNK", {"", "0", "-1", "4611686018427387904", "18446744073709551615"}, root);
  bad("XOR", "TYPE", {"", "xor", "FULL"}, OwnSet);
  bad("XOR", "GROUPS", {"0", "9", "x"}, OwnSet);
  bad("XOR", "GROUP", {"2", "-1"}, OwnSet);
  bad("XOR", "RANKS", {"0", "1", "9", "x"}, OwnSet);
  bad("XOR", "RANK", {"4", "-1", "1"}, OwnSet);
  bad("XOR", "WRANKS", {"0", "2147483648"}, OwnSet);
  bad("XOR", "WRANK", {"8", "-1"}, OwnSet);
  bad("PARTNER", "REPLICAS", {"0", "4"}, OwnSet);
  bad("RS", "CKSUM", {"0", "4", "x"}, OwnSet);
  bad("XOR", "FILES", {"1", "3", "-1", "x"}, Own);
  bad("XOR", "SIZE", {"", "-1", "9223372036854775808"},
      [](Tree& t) -> Tree& { return Own(t).At("FILE").At("0").At("/c/b.0"); });
  bad("XOR", "MODE", {"x", "2147483648"}, [](Tree& t) -> Tree& { return Own(t).At("FILE").At("0").At("/c/b.0"); });
  bad("XOR", "RANKS", {"3", "5"}, [](Tree& t) -> Tree& { return t.At("GROUP"); });
  bad("XOR", "0", {"8", "x"}, [](Tree& t) -> Tree& { return t.At("GROUP").At("RANK"); });
  ExpectRefused(damages);
}

TEST(RedundancyHeaderTest, WhatContradictsItselfIsNamed) {
  ExpectRefused({
      {"XOR", "GROUP is 1, not 0 to 0", [](Tree& t) { OwnSet(t).Set("GROUPS", "1"); }},
      {"XOR", "WRANK is 4, not 0 to 3", [](Tree& t) { OwnSet(t).Set("WRANKS", "4"); }},
      {"XOR", "RANK: 0 is 4, but in its DESC 5", [](Tree& t) { OwnSet(t).Set("WRANK", "5"); }},
      {"XOR", "another set", [](Tree& t) { t.At("DESC").At("3").At("DESC").Set("GROUP", "0"); }},
      {"XOR", "another set", [](Tree& t) { PutSet("PARTNER", 4, 3, t.At("DESC").At("3").At("DESC")); }},
      {"XOR", "WRANK 4 is there twice", [](Tree& t) { t.At("DESC").At("3").At("DESC").Set("WRANK", "4"); }},
      {"XOR", "RANK is 1", [](Tree& t) { t.At("DESC").At("3").At("DESC").Set("RANK", "1"); }},
      {"XOR", "RANK: 3 is 5, but in its DESC 7",
       [](Tree& t) {
         t.At("GROUP").At("RANK").Set("3", "5");
         t.At("GROUP").At("RANK").Set("1", "7");
       }},
      {"XOR", "rank 5 is there twice", [](Tree& t) { t.At("GROUP").At("RANK").Set("3", "5"); }},
      {"XOR", "path '/c/b.0' is there twice",
       [](Tree& t) {
         Tree& second = t.At("DESC").At("0").At("FILE").SetEmpty("1");
         second.At("/c/b.0").Set("SIZE", "7");
       }},
      {"XOR", "RANK has 5 entries", [](Tree& t) { t.At("GROUP").At("RANK").Set("4", "1"); }},
      {"XOR", "do not hold the 9 bytes", [](Tree& t) { t.Set("CHUNK", "2"); }},
      {"RS", "do not hold the 9 bytes", [](Tree& t) { t.Set("CHUNK", "4"); }},
      {"XOR", "'../c' is not absolute", [](Tree& t) { Own(t).At("FILE").SetEmpty("0").At("../c").Set("SIZE", "2"); }},
      {"XOR", "leads upwards", [](Tree& t) { Own(t).At("FILE").SetEmpty("0").At("/c/../d").Set("SIZE", "2"); }},
      {"XOR", "2 paths", [](Tree& t) { Own(t).At("FILE").At("0").At("/c/c.0").Set("SIZE", "2"); }},
      {"XOR", "exceed 63 bits",
       [](Tree& t) {
         Own(t).At("FILE").At("0").At("/c/b.0").Set("SIZE", "9223372036854775807");
         Own(t).At("FILE").At("1").At("/c/a.0").Set("SIZE", "1");
       }},
      {"XOR", "DESC: rank '03'", [](Tree& t) { t.At("DESC").At("03"); }},
      {"XOR", "FILE: no 1",
       [](Tree& t) {
         Own(t).At("FILE").Erase("1");
         Own(t).At("FILE").At("2").At("/c/a.0").Set("SIZE", "7");
       }},
  });
}

TEST(RedundancyHeaderTest, RanksAndChecksumsFitTheField) {
  Tree tree;
  Tree& set = tree.At("0").At("DESC");
  PutSet("RS", 200, 0, set);
  set.Set("WRANKS", "1000");
  set.Set("WRANK", "0");
  set.Set("CKSUM", "56");
  EXPECT_TRUE(GetSetDescriptors(tree).ok()) << GetSetDescriptors(tree).status();
  set.Set("CKSUM", "57");
  EXPECT_EQ(GetSetDescriptors(tree).status().code(), kDataLoss);
  EXPECT_NE(GetSetDescriptors(tree).status().ToString().find("CKSUM"), std::string::npos);
}

TEST(SetDescriptorTest, OneForEachRankOfTheFile) {
  Tree tree;
  for (std::uint64_t rank : {0, 3}) PutSet("XOR", 4, rank, tree.At(std::to_string(rank + 4)).At("DESC"));
  const auto sets = GetSetDescriptors(tree);
  ASSERT_TRUE(sets.ok()) << sets.status();
  ASSERT_EQ(sets->size(), 2u);
  EXPECT_EQ(sets->at(7).rank, 3u);

  Tree misnamed = tree;
  misnamed.At("5") = *tree.Find("7");
  misnamed.Erase("7");
  EXPECT_NE(GetSetDescriptors(misnamed).status().ToString().find("rank 5: DESC: WRANK is 7"), std::string::npos);
  Tree twice = tree;
  PutSet("XOR", 4, 3, twice.At("5").At("DESC"));
  twice.At("5").At("DESC").Set("WRANK", "5");
  EXPECT_NE(GetSetDescriptors(twice).status().ToString().find("RANK 3 is there twice"), std::string::npos);
  EXPECT_EQ(GetSetDescriptors(Tree()).status().code(), kDataLoss);
  Tree name;
  name.At("four");
  EXPECT_EQ(GetSetDescriptors(name).status().code(), kDataLoss);
}

TEST(OwnershipTest, FilesOfEachRankInOrder) {
  const NamedTree made =
      MakeOwnership(RedsetKind::kData, "/d/.scr", {{SingleSet(1, 4), {"/d/b", "/d/a"}}, {SingleSet(3, 4), {}}});
  const auto owned = GetOwnership(made.second);
  ASSERT_TRUE(owned.ok()) << owned.status();
  ASSERT_EQ(owned->size(), 2u);
  ASSERT_EQ(owned->at(1).size(), 4u);
  EXPECT_EQ(owned->at(1)[0], "/d/b");
  EXPECT_EQ(owned->at(1)[2], "/d/.scr/reddesc.er.1.redset");
  EXPECT_EQ(owned->at(3).size(), 2u);
}

TEST(OwnershipTest, ABadOneIsRefused) {
  const Tree good = MakeOwnership(RedsetKind::kData, "/d/.scr", {{SingleSet(1, 4), {"/d/a"}}}).second;
  const auto refused = [&good](const std::string& named, const std::function<void(Tree&)>& harm) {
    Tree tree = good;
    harm(tree);
    const auto owned = GetOwnership(tree);
    EXPECT_EQ(owned.status().code(), kDataLoss) << named;
    EXPECT_NE(owned.status().ToString().find(named), std::string::npos) << owned.status();
  };
  refused("no RANK", [](Tree& t) { t.Erase("RANK"); });
  refused("rank 'x'", [](Tree& t) { t.At("RANK").At("x"); });
  refused("rank 1: no FILES", [](Tree& t) { t.At("RANK").At("1").Erase("FILES"); });
  refused("FILES is 4, but FILE has 3", [](Tree& t) { t.At("RANK").At("1").Set("FILES", "4"); });
  refused("'a' is not absolute", [](Tree& t) { t.At("RANK").At("1").At("FILE").At("a"); });
  refused("leads upwards", [](Tree& t) { t.At("RANK").At("1").At("FILE").At("/d/../../etc/passwd"); });
}

TEST(EncodeStateTest, CorruptEncodedOrUnknown) {
  Tree tree;
  EXPECT_EQ(*GetEncodeState(tree), EncodeState::kUnknown);
  tree.Set("STATE", "1");
  EXPECT_EQ(*GetEncodeState(tree), EncodeState::kCorrupt);
  EXPECT_EQ(*GetEncodeState(MakeEncodeState(RedsetKind::kData).second), EncodeState::kEncoded);
  for (const std::string state : {"", "0", "3", "two", "02"}) {
    tree.Set("STATE", state);
    EXPECT_EQ(GetEncodeState(tree).status().code(), kDataLoss) << state;
  }
}

TEST(RedsetNameTest, SaysKindAndMember) {
  const auto header = ParseRedsetName("reddescmap.er.17.rs.grp_3_of_12.mem_8_of_9.redset");
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->kind, RedsetKind::kFilemaps);
  EXPECT_EQ(header->what, RedsetName::What::kHeader);
  EXPECT_EQ(header->rank, 17u);
  EXPECT_EQ(header->scheme, Scheme::kRs);
  EXPECT_EQ(header->group, 2u);
  EXPECT_EQ(header->groups, 12u);
  EXPECT_EQ(header->member, 7u);
  EXPECT_EQ(header->members, 9u);
  EXPECT_EQ(ParseRedsetName("reddesc.er.0.redset")->what, RedsetName::What::kDescriptor);
  EXPECT_EQ(ParseRedsetName("reddesc.er.0.redset")->kind, RedsetKind::kData);
  EXPECT_EQ(ParseRedsetName("reddesc.er.er")->what, RedsetName::What::kEncodeState);
  EXPECT_EQ(ParseRedsetName("reddescmap.er.shuffile")->what, RedsetName::What::kOwnership);
}

TEST(RedsetNameTest, OtherNamesAreNone) {
  for (const std::string name : {"",
                                 "filemap_0",
                                 "reddesc",
                                 "reddesc.er",
                                 "reddesc.er.",
                                 "reddesc.er.x.redset",
                                 "reddesc.er.-1.redset",
                                 "reddesc.er.0",
                                 "reddesc.er.0.",
                                 "reddesc.er.0.redset2",
                                 "reddesc.er.01.redset",
                                 "reddesc.er.er2",
                                 "reddesc.er.2147483648.redset",
                                 "reddesc.er.99999999999999999999.redset",
                                 "reddesc.er.shuffile.tmp",
                                 "reddesc.er.0.lru.grp_1_of_1.mem_1_of_1.redset",
                                 "reddesc.er.0.xor.grp_0_of_1.mem_1_of_1.redset",
                                 "reddesc.er.0.xor.grp_2_of_1.mem_1_of_1.redset",
                                 "reddesc.er.0.xor.grp_1_of_1.mem_2_of_1.redset",
                                 "reddesc.er.0.xor.grp_1_of_1.mem_1_of_1",
                                 "reddesc.er.0.xor.grp_1_of_1.mem_1_of_1.redset.tmp",
                                 "reddesc.er.0.xor.mem_1_of_1.redset",
                                 "xreddesc.er.er"}) {
    EXPECT_FALSE(ParseRedsetName(name)) << name;
  }
}

// --- Files of SCR ---

Tree TreeOf(const ScrVector& vector, std::uint64_t& declared) {
  absl::StatusOr<Tree> tree = kvtree::Decode(vector.path, vector.bytes, &declared);
  EXPECT_TRUE(tree.ok()) << tree.status();
  return tree.ok() ? *std::move(tree) : Tree();
}

std::uint64_t PayloadBytes(const RedundancyHeader& header) {
  const SetDescriptor& set = header.members.at(header.rank).descriptor;
  switch (set.scheme) {
    case Scheme::kSingle:
      return 0;
    case Scheme::kPartner:
      return header.members.at((header.rank + set.ranks - 1) % set.ranks).bytes();
    case Scheme::kXor:
      return header.chunk_bytes;
    case Scheme::kRs:
      return header.chunk_bytes * set.checksums;
  }
  return 0;
}

TEST(RedsetRecordsVectorTest, RedundancyFilesAreWhatTheirNamesSayAndHaveTheirPayload) {
  for (const ScrVector& vector : ScrVectors("redundancy file")) {
    const auto name = ParseRedsetName(vector.path.substr(vector.path.rfind('/') + 1));
    ASSERT_TRUE(name.has_value()) << vector.path;
    EXPECT_EQ(name->what, RedsetName::What::kHeader) << vector.path;
    std::uint64_t declared = 0;
    const auto header = GetRedundancyHeader(TreeOf(vector, declared));
    ASSERT_TRUE(header.ok()) << vector.path << ": " << header.status();
    const SetMember& own = header->members.at(header->rank);
    EXPECT_EQ(header->rank, name->member) << vector.path;
    EXPECT_EQ(own.descriptor.scheme, name->scheme) << vector.path;
    EXPECT_EQ(own.descriptor.world_rank, name->rank) << vector.path;
    EXPECT_EQ(own.descriptor.group, name->group) << vector.path;
    EXPECT_EQ(own.descriptor.groups, name->groups) << vector.path;
    EXPECT_EQ(own.descriptor.ranks, name->members) << vector.path;
    EXPECT_EQ(vector.bytes.size() - declared, PayloadBytes(*header)) << vector.path;
    for (const auto& [path, meta] : own.files) EXPECT_GT(meta.mtime.tv_sec, 0) << vector.path << ": " << path;
  }
}

TEST(RedsetRecordsVectorTest, SetDescriptorsAgreeWithTheRedundancyFilesBesideThem) {
  std::map<std::string, SetDescriptor> own;  // by path up to the rank
  for (const ScrVector& vector : ScrVectors("set descriptor file")) {
    const auto name = ParseRedsetName(vector.path.substr(vector.path.rfind('/') + 1));
    ASSERT_TRUE(name.has_value() && name->what == RedsetName::What::kDescriptor) << vector.path;
    std::uint64_t declared = 0;
    const auto sets = GetSetDescriptors(TreeOf(vector, declared));
    ASSERT_TRUE(sets.ok()) << vector.path << ": " << sets.status();
    ASSERT_TRUE(sets->contains(name->rank)) << vector.path;
    own[vector.path.substr(0, vector.path.size() - std::string("redset").size())] = sets->at(name->rank);
  }
  for (const ScrVector& vector : ScrVectors("redundancy file")) {
    const auto descriptor = own.find(vector.path.substr(0, vector.path.find('.', vector.path.rfind(".er.") + 4) + 1));
    if (descriptor == own.end()) continue;  // one that a drain has rebuilt
    std::uint64_t declared = 0;
    const auto header = GetRedundancyHeader(TreeOf(vector, declared));
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->members.at(header->rank).descriptor.rank, descriptor->second.rank) << vector.path;
    EXPECT_EQ(header->members.at(header->rank).descriptor.checksums, descriptor->second.checksums) << vector.path;
  }
}

TEST(RedsetRecordsVectorTest, OwnershipListsNameTheRecordsOfTheirRanks) {
  for (const ScrVector& vector : ScrVectors("file ownership list")) {
    std::uint64_t declared = 0;
    const auto owned = GetOwnership(TreeOf(vector, declared));
    ASSERT_TRUE(owned.ok()) << vector.path << ": " << owned.status();
    EXPECT_FALSE(owned->empty()) << vector.path;
    for (const auto& [rank, files] : *owned) {
      int records = 0;  // last in the list of the rank that wrote the file, first in those that it merged
      for (const std::string& file : files) {
        const auto name = ParseRedsetName(file.substr(file.rfind('/') + 1));
        records += name && name->rank == rank;
      }
      EXPECT_EQ(records, 2) << vector.path << ": rank " << rank;
    }
  }
}

TEST(RedsetRecordsVectorTest, EncodeStatesAreEncoded) {
  for (const ScrVector& vector : ScrVectors("encode state file")) {
    std::uint64_t declared = 0;
    const auto state = GetEncodeState(TreeOf(vector, declared));
    ASSERT_TRUE(state.ok()) << vector.path << ": " << state.status();
    EXPECT_EQ(*state, EncodeState::kEncoded) << vector.path;
  }
}

}  // namespace
}  // namespace cairn::scr

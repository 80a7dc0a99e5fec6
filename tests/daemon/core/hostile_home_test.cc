// A daemon on another node that says what it must not, as a launch's home. What it says costs its own link, or the
// dataset or restore that it speaks of; the daemon here lives, and goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/local.pb.h"
#include "proto/peer.pb.h"
#include "storage/io/disk.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/hostile_nodes.h"
#include "tests/daemon/core/simulated_nodes.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

TEST_F(HostileHomeTest, ARankOfAnotherLaunchIsNotLetIn) {
  launch = 7;
  client = std::make_unique<FakeClient>(nodes[0]);
  local::Request open;
  open.set_deadline_ms(2000);
  open.mutable_open()->set_prefix(SimulatedNodes::kPrefix);
  open.mutable_open()->set_rank(1);
  open.mutable_open()->set_nranks(2);
  open.mutable_open()->set_launch_key("job.1");
  EXPECT_NE(CodeOfReply(client->Ask(open)), local::OK);
  EXPECT_NE(home, SIZE_MAX) << "it was asked";
  EXPECT_TRUE(Lives());
}

TEST_F(HostileHomeTest, WhatCannotBeChangesNothing) {
  ASSERT_NO_FATAL_FAILURE(OpenRank());
  std::vector<peer::FromHome> all(15);
  all[0].mutable_begun()->set_dataset(0);
  all[1].mutable_begun()->set_dataset(std::uint64_t{1} << 40);
  all[2].mutable_begun()->set_dataset(41);
  all[2].mutable_begun()->set_name("../../etc");
  all[3].mutable_begun()->set_dataset(42);
  all[3].mutable_begun()->set_user(std::string(100'000, 'u'));
  all[4].mutable_failed()->set_dataset(77);
  all[5].mutable_complete()->set_dataset(77);
  all[6].mutable_whole()->set_dataset(77);
  all[7].mutable_copy()->set_dataset(77);
  all[8].mutable_on_prefix()->set_dataset(77);
  all[9].mutable_leaves()->set_dataset(77);
  all[10].mutable_start()->set_session(session);
  all[11].mutable_abandon()->set_session(77);
  all[12].mutable_all_ended()->set_dataset(77);
  all[13].mutable_begun()->set_dataset(43);
  all[13].mutable_begun()->set_files(true);
  all[14].mutable_begun()->set_dataset(44);
  all[14].mutable_begun()->set_scheme(static_cast<local::Scheme>(77));
  for (const peer::FromHome& what : all) Post(what);
  Say(all[0]);
  EXPECT_FALSE(closed);
  for (const DatasetId id : {41, 42, 43, 44}) EXPECT_FALSE(nodes[0].Lists(id)) << id;
  ASSERT_EQ(CodeOfReply(client->Begin(1, own)), local::OK) << "the rank goes on";
  Say({});
  EXPECT_TRUE(closed);
  EXPECT_TRUE(Lives());
}

TEST_F(HostileHomeTest, ANumberThatIsSaidAheadAndIsAnothersThenFails) {
  ASSERT_NO_FATAL_FAILURE(OpenRank());
  peer::FromHome ahead;
  ahead.mutable_foretold()->set_launch(launch);
  ahead.mutable_foretold()->set_dataset(kDataset + 1);
  Say(ahead);
  const local::Reply begun = client->Begin(1, own);
  ASSERT_EQ(CodeOfReply(begun), local::OK);
  EXPECT_EQ(begun.begin().dataset(), kDataset + 1);
  ASSERT_TRUE(nodes.AdvanceUntil([this] { return heard.back().has_failed(); }));  // it was answered with kDataset
  EXPECT_THAT(heard.back().failed().why(), ::testing::HasSubstr("the launch's home takes it for dataset 40"));
  EXPECT_NE(CodeOfReply(client->Commit()), local::OK);

  answers_begins = false;
  peer::DatasetBegun of_another_step, of_another_scheme;
  of_another_step.set_step(77);
  of_another_scheme.set_step(3);
  of_another_scheme.set_scheme(local::SCHEME_PARTNER);
  for (peer::DatasetBegun other : {of_another_step, of_another_scheme}) {
    const DatasetId id = ahead.foretold().dataset() + 1;
    ahead.mutable_foretold()->set_dataset(id);
    Say(ahead);
    ASSERT_EQ(client->Begin(id - kDataset, own).begin().dataset(), id);  // the second's step is 3
    other.set_dataset(id);
    other.set_attempt(1);
    peer::FromHome said;
    *said.mutable_begun() = other;
    Post(said);
    ASSERT_TRUE(nodes.AdvanceUntil([this, id] { return heard.back().failed().dataset() == id; }));
    EXPECT_THAT(heard.back().failed().why(), ::testing::HasSubstr("different checkpoints"));
    EXPECT_NE(CodeOfReply(client->Commit()), local::OK);
  }

  ahead.mutable_foretold()->set_dataset(std::uint64_t{1} << 40);
  Say(ahead);
  EXPECT_TRUE(closed);
  EXPECT_TRUE(Lives());
}

TEST_F(HostileHomeTest, WhatIsNotNotedHereIsNotWhole) {
  ASSERT_NO_FATAL_FAILURE(OpenRank());
  ASSERT_EQ(CodeOfReply(client->Begin(1, own)), local::OK);
  peer::FromHome whole;
  whole.mutable_whole()->set_dataset(kDataset);
  Say(whole);
  EXPECT_THAT(nodes[0].RanksInCache(kDataset), ::testing::IsEmpty());
  ASSERT_TRUE(client->Fill(own));
  ASSERT_EQ(CodeOfReply(client->Commit()), local::OK);
  ASSERT_TRUE(nodes.AdvanceUntil([this] { return heard.back().has_stored(); }));
  Say(whole);
  EXPECT_THAT(nodes[0].RanksInCache(kDataset), ::testing::IsEmpty());
  peer::FromHome complete;
  complete.mutable_complete()->set_dataset(kDataset);
  Say(complete);
  ASSERT_TRUE(nodes.AdvanceUntil([this] { return heard.back().has_completed(); }));
  EXPECT_FALSE(heard.back().completed().has_refused());
  Say(whole);
  EXPECT_THAT(nodes[0].RanksInCache(kDataset), ::testing::ElementsAre(1));
}

// Each is answered, and nothing of it comes into the cache.
TEST_F(HostileHomeTest, AnOrderToMakePartsAnewThatCannotBeIsRefused) {
  ASSERT_NO_FATAL_FAILURE(OpenRank());
  ASSERT_EQ(CodeOfReply(client->Begin(1, own)), local::OK);
  ASSERT_TRUE(client->Fill(own));
  ASSERT_EQ(CodeOfReply(client->Commit()), local::OK);
  ASSERT_TRUE(nodes.AdvanceUntil([this] { return heard.back().has_stored(); }));
  peer::FromHome complete, whole, leaves;
  complete.mutable_complete()->set_dataset(kDataset);
  whole.mutable_whole()->set_dataset(kDataset);
  leaves.mutable_leaves()->set_dataset(kDataset);
  Say(complete);
  ASSERT_TRUE(nodes.AdvanceUntil([this] { return heard.back().has_completed(); }));
  Say(whole);
  ASSERT_THAT(nodes[0].RanksInCache(kDataset), ::testing::ElementsAre(1));

  constexpr DatasetId kOther = kDataset + 1;
  const NodeId here = NodeIdOf(nodes, 0);
  std::uint64_t number = 0;
  const auto sound = [&](DatasetId id, Rank lost) {
    peer::Rebuild order;
    peer::Holding& dataset = *order.mutable_dataset();
    dataset.set_dataset(id);
    dataset.set_launch(1);
    dataset.set_step(1);
    dataset.set_attempt(1);
    dataset.set_nranks(2);
    dataset.set_checkpoint(true);
    dataset.set_mark(std::string(32, 'a'));
    dataset.set_standing(peer::Holding::CURRENT);
    order.add_lost()->set_rank(lost);
    kept::Set& set = *order.mutable_lost(0)->add_sets();
    set.set_scheme(kept::PARTNER);
    set.set_groups(1);
    set.set_replicas(1);
    set.add_ranks(0);
    set.add_ranks(1);
    order.add_members()->set_rank(1 - lost);
    order.mutable_members(0)->set_node(std::string(32, 'b'));
    order.set_order(++number);
    return order;
  };
  const auto refused = [&](const peer::Rebuild& order) {
    peer::FromHome said;
    *said.mutable_rebuild() = order;
    Post(said);
    const auto answered = [&] { return heard.back().has_rebuilt() && heard.back().rebuilt().order() == order.order(); };
    EXPECT_TRUE(nodes.AdvanceUntil(answered)) << order.ShortDebugString();
    EXPECT_TRUE(heard.back().rebuilt().has_refused()) << order.ShortDebugString();
    return heard.back().rebuilt().refused().text();
  };
  using Spoil = std::function<void(peer::Rebuild&)>;
  const auto set_of = [](peer::Rebuild& order) { return order.mutable_lost(0)->mutable_sets(0); };
  const std::vector<std::pair<Spoil, std::string>> spoils = {
      {[](auto& order) { order.mutable_dataset()->set_dataset(0); }, "rebuild.dataset.dataset: 0"},
      {[](auto& order) { order.mutable_dataset()->set_dataset(std::uint64_t{1} << 40); }, "is no number of a dataset"},
      {[](auto& order) { order.mutable_dataset()->set_nranks(0); }, "rebuild.dataset.nranks: 0"},
      {[](auto& order) { order.mutable_dataset()->set_nranks(UINT32_MAX); }, "rebuild.dataset.nranks: 4294967295"},
      {[](auto& order) { order.mutable_dataset()->set_created_us(INT64_MIN); }, "rebuild.dataset.created_us"},
      {[](auto& order) { order.mutable_dataset()->set_mark("../.."); }, "rebuild.dataset.mark"},
      {[](auto& order) { order.mutable_dataset()->set_name(std::string(100'000, 'n')); }, "rebuild.dataset.name"},
      {[](auto& order) { order.clear_lost(); }, "rebuild.lost: none"},
      {[](auto& order) { order.mutable_lost(0)->set_rank(2); }, "rebuild.lost.rank: 2 is none of 2"},
      {[](auto& order) { order.mutable_lost(0)->set_rank(UINT32_MAX); }, "rebuild.lost.rank: 4294967295"},
      {[](auto& order) { *order.add_lost() = order.lost(0); }, "told twice"},
      {[](auto& order) { order.mutable_lost(0)->clear_sets(); }, "rebuild.lost.sets: none for rank 0"},
      {[&](auto& order) { set_of(order)->set_ranks(1, 7); }, "rebuild.lost.sets: "},
      {[&](auto& order) { set_of(order)->set_ranks(1, 0); }, "rebuild.lost.sets: "},
      {[&](auto& order) { set_of(order)->set_replicas(UINT32_MAX); }, "rebuild.lost.sets: replicas: 4294967295"},
      {[&](auto& order) { set_of(order)->set_checksums(UINT32_MAX); }, "rebuild.lost.sets: checksums: 4294967295"},
      {[&](auto& order) { set_of(order)->set_groups(UINT32_MAX); }, "rebuild.lost.sets: groups: 4294967295"},
      {[&](auto& order) { set_of(order)->set_group(UINT32_MAX); }, "rebuild.lost.sets: group: 4294967295"},
      {[](auto& order) { order.mutable_members(0)->set_rank(0); }, "rebuild.members: rank 0 is lost"},
      {[](auto& order) { order.mutable_members(0)->set_rank(UINT32_MAX); }, "rebuild.members: rank 4294967295"},
      {[&](auto& order) { order.mutable_members(0)->set_node(here); }, "the files of rank 1 are not here"},
      {[](auto&) {}, "which has rank 1's files, is not reached"},
  };
  for (const auto& [spoil, why] : spoils) {
    peer::Rebuild order = sound(kOther, 0);
    spoil(order);
    EXPECT_THAT(refused(order), ::testing::HasSubstr(why));
  }
  // Of what is here.
  EXPECT_THAT(refused(sound(kDataset, 0)), ::testing::HasSubstr("this node has something else"));
  EXPECT_THAT(refused(sound(kDataset, 1)), ::testing::HasSubstr("this node has something else"));
  EXPECT_THAT(nodes[0].RanksInCache(kDataset), ::testing::ElementsAre(1));
  Post(leaves);  // it goes meanwhile
  EXPECT_NE(refused(sound(kDataset, 0)), "");
  for (const DatasetId id : {kDataset, kOther}) EXPECT_FALSE(nodes[0].Lists(id)) << id;
  EXPECT_FALSE(closed);
  EXPECT_TRUE(Lives());
}

TEST_F(HostileHomeTest, AnOrderToKeepWhatCannotBeIsRefused) {
  ASSERT_NO_FATAL_FAILURE(OpenRank());
  ASSERT_EQ(CodeOfReply(client->Begin(1, own)), local::OK);
  ASSERT_TRUE(client->Fill(own));
  ASSERT_EQ(CodeOfReply(client->Commit()), local::OK);
  ASSERT_TRUE(nodes.AdvanceUntil([this] { return heard.back().has_stored(); }));
  peer::FromHome complete, whole;
  complete.mutable_complete()->set_dataset(kDataset);
  whole.mutable_whole()->set_dataset(kDataset);
  Say(complete);
  ASSERT_TRUE(nodes.AdvanceUntil([this] { return heard.back().has_completed(); }));
  Say(whole);
  ASSERT_THAT(nodes[0].RanksInCache(kDataset), ::testing::ElementsAre(1));
  const std::uint64_t used = nodes[0].Status().cache_bytes_used();

  peer::FromHome sound;
  peer::Keep& keep = *sound.mutable_keep();
  keep.set_dataset(kDataset);
  kept::Set& set = *keep.add_sets();
  set.set_scheme(kept::PARTNER);
  set.set_groups(1);
  set.set_replicas(1);
  for (const Rank rank : {0u, 1u}) {
    set.add_ranks(rank);
    peer::Keep::Member& member = *keep.add_members();
    member.set_rank(rank);
    member.set_node(rank == 1 ? NodeIdOf(nodes, 0) : std::string(32, 'b'));
  }
  keep.set_bytes(100'000);
  std::uint64_t number = 0;
  using Spoil = std::function<void(peer::Keep&)>;
  const std::vector<std::pair<Spoil, std::string>> spoils = {
      {[](auto& order) { order.set_bytes(UINT64_MAX); }, "keep.bytes: 18446744073709551615"},
      {[](auto& order) { order.set_bytes(std::uint64_t{1} << 63); }, "keep.bytes: 9223372036854775808"},
      {[](auto& order) { order.set_dataset(kDataset + 1); }, "is not whole in this node's cache"},
      {[](auto& order) { order.clear_sets(); }, "keep.sets: none"},
      {[](auto& order) { order.mutable_sets(0)->set_replicas(UINT32_MAX); }, "keep.sets: replicas: 4294967295"},
      {[](auto& order) { order.mutable_sets(0)->set_groups(UINT32_MAX); }, "keep.sets: groups: 4294967295"},
      {[](auto& order) { order.mutable_sets(0)->set_ranks(0, UINT32_MAX); }, "keep.sets: "},
      {[](auto& order) { order.mutable_sets(0)->set_ranks(0, 1); }, "keep.sets: "},
      {[](auto& order) { *order.add_sets() = order.sets(0); }, "is in two of them"},
      {[](auto& order) { order.clear_members(); }, "keep.members: not all members"},
      {[](auto& order) { order.mutable_members(0)->set_rank(UINT32_MAX); }, "keep.members: rank 4294967295"},
      {[](auto& order) { order.mutable_members(1)->set_node(std::string(32, 'b')); }, "are not where it says"},
      {[](auto&) {}, "which has rank 0's files, is not reached"},
  };
  for (const auto& [spoil, why] : spoils) {
    peer::FromHome said = sound;
    spoil(*said.mutable_keep());
    said.mutable_keep()->set_order(++number);
    Post(said);
    const auto answered = [&] { return heard.back().has_kept() && heard.back().kept().order() == number; };
    ASSERT_TRUE(nodes.AdvanceUntil(answered)) << why;
    ASSERT_TRUE(heard.back().kept().has_refused()) << why;
    EXPECT_THAT(heard.back().kept().refused().text(), ::testing::HasSubstr(why));
  }
  EXPECT_EQ(nodes[0].Status().cache_bytes_used(), used);
  EXPECT_FALSE(closed);
  EXPECT_TRUE(Lives());
}

TEST_F(HostileHomeTest, AStepOfARestoreThatCannotBeIsRefused) {
  using Spoil = std::function<void(peer::Find&)>;
  const std::vector<Spoil> spoils = {
      [](peer::Find& find) { find.mutable_wanted(0)->set_variable(9); },
      [](peer::Find& find) { find.clear_variables(); },
      [](peer::Find& find) { find.mutable_sources(0)->mutable_file()->set_name("../../etc/passwd"); },
      [](peer::Find& find) { find.mutable_sources(0)->set_tier(static_cast<local::Tier>(99)); },
      [](peer::Find& find) {
        peer::Rows& rows = *find.mutable_wanted(0)->add_rows();
        rows.set_row(1);
        for (int i = 0; i < 5; ++i) {
          rows.add_count(std::uint64_t{1} << 40);
          rows.add_a_stride(1 << 30);
          rows.add_b_stride(1 << 30);
        }
      },
      [](peer::Find& find) {
        peer::Rows& rows = *find.mutable_wanted(0)->add_rows();
        rows.set_row(1);
        rows.add_count(std::uint64_t{1} << 40);
        rows.add_a_stride(1 << 30);
        rows.add_b_stride(1 << 30);
      },
      [](peer::Find& find) { find.mutable_wanted(0)->add_rows()->add_count(0); },
  };
  ASSERT_NO_FATAL_FAILURE(OpenRank());
  for (const Spoil& spoil : spoils) {
    const std::uint64_t call = client->SendRestore(kDataset, own, 5000);
    ASSERT_TRUE(nodes.AdvanceUntil([this] { return heard.back().from_rank().request().has_restore(); }));
    heard.clear();
    peer::FromHome step;
    peer::Find& find = *step.mutable_find();
    find.set_session(session);
    find.set_call(call);
    find.set_dataset(kDataset);
    peer::Source& source = *find.add_sources();
    source.set_rank(1);
    source.set_tier(local::TIER_CACHE);
    source.mutable_file()->set_name("Ckpt40-Rank1.fti");
    source.mutable_file()->set_bytes(8192);
    peer::Wanted& wanted = *find.add_wanted();
    wanted.set_id(1);
    wanted.set_rank(1);
    wanted.set_bytes(15);
    *find.add_variables() = own[0].variable;
    spoil(find);
    Post(step);
    ASSERT_TRUE(nodes.AdvanceUntil([this] { return closed || !heard.empty(); }));
    ASSERT_FALSE(closed);
    EXPECT_TRUE(heard.back().moved().has_refused()) << heard.back().DebugString();
    peer::FromHome ended;  // the rank may ask for the next one
    ended.mutable_to_rank()->set_session(session);
    ended.mutable_to_rank()->mutable_reply()->set_call(call);
    ended.mutable_to_rank()->mutable_reply()->mutable_status()->set_code(local::NOT_FOUND);
    Post(ended);
    EXPECT_EQ(client->TakeRestore(call, own).code, local::NOT_FOUND);
  }
  EXPECT_FALSE(closed);
  EXPECT_TRUE(Lives());
}

}  // namespace
}  // namespace cairn

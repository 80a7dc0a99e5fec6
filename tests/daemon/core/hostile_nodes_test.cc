// A daemon on another node that says what it must not, as one that serves ranks. What it says costs its own link, or
// the dataset that it speaks of; the daemon here lives, and goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "storage/format/catalogue/catalogue.h"
#include "storage/io/disk.h"
#include "tests/daemon/core/hostile_nodes.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

TEST_F(HostileNodesTest, WhoDoesNotSayWhatItHasIsNotHeard) {
  for (const bool gone : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(Dial());
    peer::ToHome first;
    if (gone) {
      first.mutable_rank_gone()->set_session(1);
    } else {
      first = FromRank(1, 1);
    }
    Say(first);
    EXPECT_TRUE(closed);
  }
  EXPECT_TRUE(Lives());
}

TEST_F(HostileNodesTest, WhatIsNoRequestOfARankCostsTheLink) {
  ASSERT_NO_FATAL_FAILURE(Introduce());
  Say(FromRank(1, 1));
  EXPECT_TRUE(closed) << "no Open came before";
  ASSERT_NO_FATAL_FAILURE(Introduce());
  peer::ToHome observer = FromRank(1, 1);
  observer.mutable_from_rank()->mutable_request()->mutable_open()->set_observer(true);
  Say(observer);
  EXPECT_TRUE(closed);
  ASSERT_NO_FATAL_FAILURE(Introduce());
  Say({});
  EXPECT_TRUE(closed);
  ASSERT_NO_FATAL_FAILURE(Introduce());
  peer::ToHome again;
  again.mutable_parts()->set_launch(1);
  Say(again);
  EXPECT_TRUE(closed);
  EXPECT_TRUE(Lives());
}

TEST_F(HostileNodesTest, WhatNobodyAskedForChangesNothing) {
  ASSERT_NO_FATAL_FAILURE(Introduce());
  std::vector<peer::ToHome> all(6);
  all[0].mutable_completed()->set_dataset(77);
  all[1].mutable_copied()->set_dataset(77);
  all[2].mutable_left()->set_dataset(77);
  all[3].mutable_moved()->set_session(77);
  all[4].mutable_rank_gone()->set_session(77);
  all[5].mutable_failed()->set_dataset(77);
  for (const peer::ToHome& what : all) Say(what);
  EXPECT_FALSE(closed);
  EXPECT_TRUE(Lives());
}

TEST_F(HostileNodesTest, ACatalogueThatIsNotThePartsFailsTheDataset) {
  using Spoil = std::function<void(catalogue::Catalogue&)>;
  const std::vector<Spoil> spoils = {
      [](auto& one) { one.set_rank(0); },
      [](auto& one) { one.set_rank(1u << 31); },
      [](auto& one) { one.set_nranks(3); },
      [](auto& one) { one.set_launch(9); },
      [](auto& one) { one.set_run(std::string(32, '0')); },
      [](auto& one) { one.set_files(true); },
      [](auto& one) { one.mutable_file(0)->set_name("../../etc/passwd"); },
      [](auto& one) { one.mutable_file(0)->set_name("Ckpt1-Rank0.fti"); },
      [](auto& one) { one.mutable_file(0)->set_prefix_name("ckpt.1/Ckpt1-Rank0.fti"); },
      [](auto& one) { *one.add_file() = one.file(0); },
      [](auto& one) { one.mutable_file(0)->clear_crc32c(); },
      [](auto& one) { one.mutable_file(0)->set_bytes(UINT64_MAX); },
      [](auto& one) { one.mutable_file(0)->set_bytes(UINT64_MAX - (1 << 20)); },
      [](auto& one) { one.mutable_file(0)->set_bytes(std::uint64_t{1} << 63); },
      [](auto& one) { one.mutable_file(0)->set_bytes(0); },
  };
  ASSERT_NO_FATAL_FAILURE(Introduce());
  ASSERT_NO_FATAL_FAILURE(OpenRank());
  std::uint64_t step = 0;
  for (const Spoil& spoil : spoils) {
    const DatasetId id = Begin(++step);
    ASSERT_NE(id, 0u) << step;
    ASSERT_EQ(CodeOfReply(client->Commit()), local::OK) << step;
    peer::ToHome stored;
    *stored.mutable_stored()->mutable_catalogue() = Sound(id, step);
    spoil(*stored.mutable_stored()->mutable_catalogue());
    Say(stored);
    const local::Reply waited = client->Wait(id, local::LOCAL);
    EXPECT_EQ(CodeOfReply(waited), local::FAILED) << step << ": " << waited.status().message();
  }
  EXPECT_TRUE(Lives());
}

TEST_F(HostileNodesTest, AnOutputHasNoNamesThatAreNotTheApplications) {
  using Spoil = std::function<void(catalogue::FileEntry&)>;
  const std::vector<Spoil> spoils = {
      [](auto& file) { file.set_name(".scr/index.scr"), file.set_prefix_name(file.name()); },
      [](auto& file) { file.set_name("ckpt.1/Ckpt1-Rank0.fti"), file.set_prefix_name(file.name()); },
      [](auto& file) { file.set_name("another"); },
      [](auto& file) { file.set_name("mine"), file.set_prefix_name(file.name()); },
  };
  ASSERT_NO_FATAL_FAILURE(Introduce());
  ASSERT_NO_FATAL_FAILURE(OpenRank());
  const auto ask = [&](std::uint64_t call, const auto& what) {
    peer::ToHome asked = FromRank(1, call);
    what(*asked.mutable_from_rank()->mutable_request());
    Say(asked);
    return said.back().to_rank().reply();
  };
  std::uint64_t step = 0;
  for (const Spoil& spoil : spoils) {
    const local::Reply begun = client->OutputBegin(++step, /*checkpoint=*/false, /*output=*/true);
    ASSERT_EQ(CodeOfReply(begun), local::OK);
    const DatasetId id = begun.output_begin().dataset();
    const local::Reply mine = client->RouteFile("mine");
    ASSERT_EQ(CodeOfReply(mine), local::OK);
    ASSERT_OK(ReplaceFile(nodes[0].cache, mine.route_file().path(), "bytes"));
    ASSERT_EQ(ask(100 * step,
                  [&](local::Request& request) {
                    request.mutable_output_begin()->set_step(step);
                    request.mutable_output_begin()->set_attempt(1);
                    request.mutable_output_begin()->set_output(true);
                  })
                  .output_begin()
                  .dataset(),
              id);
    for (const char* const name : {"../x", "/etc/passwd", ".scr/x", "mine"}) {
      const auto route = [name](local::Request& request) { request.mutable_route_file()->set_file(name); };
      EXPECT_EQ(CodeOfReply(ask(100 * step + 1, route)), local::INVALID_ARGUMENT) << name;
    }
    ask(100 * step + 2, [](local::Request& request) { request.mutable_output_end()->set_valid(true); });
    ASSERT_EQ(CodeOfReply(client->OutputEnd()), local::OK);
    peer::ToHome stored;
    catalogue::Catalogue& catalogue = *stored.mutable_stored()->mutable_catalogue();
    catalogue = Sound(id, step);
    catalogue.set_files(true);
    catalogue.clear_variables();
    catalogue.mutable_file(0)->set_name("theirs");
    catalogue.mutable_file(0)->set_prefix_name("theirs");
    spoil(*catalogue.mutable_file(0));
    Say(stored);
    const local::Reply waited = client->Wait(id, local::LOCAL);
    EXPECT_EQ(CodeOfReply(waited), local::FAILED) << step << ": " << waited.status().message();
  }
  EXPECT_TRUE(Lives());
}

TEST_F(HostileNodesTest, APartThatIsNotNotedDoesNotCount) {
  ASSERT_NO_FATAL_FAILURE(Introduce());
  ASSERT_NO_FATAL_FAILURE(OpenRank());
  const DatasetId id = Begin(1);
  ASSERT_EQ(CodeOfReply(client->Commit()), local::OK);
  peer::ToHome stored;
  *stored.mutable_stored()->mutable_catalogue() = Sound(id, 1);
  Say(stored);
  nodes.Pass(std::chrono::seconds(1));
  EXPECT_FALSE(client->Test(id, local::LOCAL).test().reached());
  peer::ToHome refused;
  refused.mutable_completed()->set_dataset(id);
  ASSERT_TRUE(said.back().has_complete());
  refused.mutable_completed()->set_order(said.back().complete().order());
  refused.mutable_completed()->mutable_refused()->set_code(8);
  refused.mutable_completed()->mutable_refused()->set_text("no room");
  Say(refused);
  EXPECT_SAYS(client->Wait(id, local::LOCAL), local::FAILED, "no room");
  EXPECT_TRUE(Lives());
}

TEST_F(HostileNodesTest, OnlyWhoseItIsFailsADataset) {
  ASSERT_NO_FATAL_FAILURE(Introduce());
  const local::Reply begun = client->Begin(1, own);
  EXPECT_TRUE(client->Fill(own));
  peer::ToHome failed;
  failed.mutable_failed()->set_dataset(begun.begin().dataset());
  failed.mutable_failed()->set_why("out of spite");
  Say(failed);
  EXPECT_EQ(CodeOfReply(client->Commit()), local::OK);
}

}  // namespace
}  // namespace cairn

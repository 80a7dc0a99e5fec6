// Datasets whose application asks for a redundancy scheme, which counts more than what the daemons are configured for:
// README.md of daemon/core, "Redundancy".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "storage/base/path.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/redundancy_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RedundancySchemeTest : public RedundancyTest {
 protected:
  void AskFor(const AskedScheme& scheme) {
    for (const auto& client : clients) client->AskFor(scheme);
  }
  // By the names of SCR's redundancy files on all nodes.
  std::set<std::string> SchemesOf(DatasetId id) {
    std::set<std::string> schemes;
    for (int i = 0; i < nodes.count(); ++i) {
      const auto names = nodes[i].cache.List(nodes[i].FolderOf(id) + "/.scr");
      if (!names.ok()) continue;
      for (const std::string& name : *names) {
        const std::size_t group = name.find(".grp_");
        if (group == std::string::npos) continue;
        const std::size_t scheme = name.rfind('.', group - 1) + 1;
        schemes.insert(name.substr(scheme, group - scheme));
      }
    }
    return schemes;
  }
  // What this node knows itself.
  admin::ShowReply Show(int node, DatasetId id) {
    admin::DatasetRequest request;
    request.set_dataset(id);
    request.set_this_node_only(true);
    request.set_run(nodes[node].Status().runs(0).run());
    std::optional<absl::StatusOr<admin::ShowReply>> answer;
    nodes[node].core().Show(request, [&answer](absl::StatusOr<admin::ShowReply> reply) { answer = std::move(reply); });
    EXPECT_TRUE(nodes.AdvanceUntil([&answer] { return answer.has_value(); }));
    EXPECT_OK(answer->status());
    return answer->ok() ? **answer : admin::ShowReply();
  }
  // It becomes `local`, and as nobody can read node 2's files, no more than that for now.
  DatasetId LocalForNow(std::uint64_t step) {
    served_ = nodes.files.served;
    nodes.files.served.erase(nodes[2].address());
    const DatasetId id = Checkpoint(step);
    EXPECT_SAYS(clients[0]->Wait(id, local::LOCAL), local::OK, "");
    nodes.Pass(std::chrono::seconds(5));
    EXPECT_FALSE(clients[0]->Test(id, local::REDUNDANT).test().reached());
    return id;
  }
  void GoOn() {
    for (int i = 0; i < nodes.count(); ++i) {
      if (const auto was = served_.find(nodes[i].address()); was != served_.end()) nodes.files.served.insert(*was);
    }
  }
  decltype(FakeBulk::Shared::served) served_;
};

TEST_F(RedundancySchemeTest, WhatIsAskedForCountsUntilSomethingElseIs) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  AskFor(local::SCHEME_PARTNER);
  const DatasetId copied = Redundant(5);
  EXPECT_THAT(SchemesOf(copied), ElementsAre("partner"));
  AskFor(local::SCHEME_RS);
  EXPECT_THAT(SchemesOf(Redundant(6)), ElementsAre("rs"));
  AskFor(local::SCHEME_NOT_GIVEN);
  const DatasetId as_configured = Redundant(7);
  EXPECT_THAT(SchemesOf(as_configured), ElementsAre("xor"));
  for (const int node : {0, 3}) {
    EXPECT_EQ(Show(node, copied).asked_scheme(), local::SCHEME_PARTNER) << node;
    EXPECT_EQ(Show(node, as_configured).asked_scheme(), local::SCHEME_NOT_GIVEN) << node;
  }
}

TEST_F(RedundancySchemeTest, WhatTheSiteDoesNotProtectTheApplicationMay) {
  Start("single");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  AskFor(local::SCHEME_XOR);
  const DatasetId id = Redundant(5);
  ExpectBackWithout({3}, id, 5);
}

TEST_F(RedundancySchemeTest, WithSingleNothingIsKeptAndAWaitSaysWhy) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  AskFor(local::SCHEME_SINGLE);
  const DatasetId id = Checkpoint(5);
  ASSERT_SAYS(clients[0]->Wait(id, local::LOCAL), local::OK, "");
  for (const auto& client : clients) {
    EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::UNSUPPORTED, "its application has asked for `single`");
  }
  nodes.Pass(std::chrono::minutes(1));
  EXPECT_THAT(SchemesOf(id), ElementsAre("single"));
  EXPECT_FALSE(clients[0]->Test(id, local::REDUNDANT).test().reached());
  const admin::ShowReply shown = Show(1, id);
  EXPECT_EQ(shown.asked_scheme(), local::SCHEME_SINGLE);
  EXPECT_THAT(shown.not_redundant(), HasSubstr("asked for `single`"));
}

// The daemons' configuration may not have what it takes.
TEST_F(RedundancySchemeTest, WhatCannotBeMadeSaysWhy) {
  Start("xor", /*members=*/2);
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  AskFor(local::SCHEME_RS);
  const DatasetId id = Checkpoint(5);
  EXPECT_SAYS(clients[0]->Wait(id, local::REDUNDANT), local::UNSUPPORTED, "2 checksums");
}

// --- Of sets of a given size ---

TEST_F(RedundancySchemeTest, SetsAreAsLargeAsItSays) {
  Start("xor", /*members=*/2);
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  AskFor({local::SCHEME_RS, 6, 2});
  const DatasetId id = Redundant(5);
  EXPECT_THAT(SchemesOf(id), ElementsAre("rs"));
  EXPECT_EQ(Show(3, id).asked_members(), 6u) << "a node that is not the home";
  EXPECT_EQ(Show(3, id).asked_checksums(), 2u);
  AskFor({local::SCHEME_XOR, 3, 1});
  const admin::ShowReply of_three = Show(0, Redundant(6));
  ASSERT_GT(of_three.ranks_size(), 0);
  EXPECT_EQ(of_three.ranks(0).set().ranks_size(), 3);
  AskFor({local::SCHEME_RS, 6, 2});
  const DatasetId newest = Redundant(7);
  ASSERT_NO_FATAL_FAILURE(ExpectBackWithout({1, 4}, newest, 7));
  // Over the four nodes that are left it is made to bear two more.
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(newest, local::REDUNDANT), local::OK, "");
  const admin::ShowReply shown = Show(0, newest);
  ASSERT_GT(shown.ranks_size(), 0);
  EXPECT_EQ(shown.ranks(0).set().checksums(), 2u);
  // What is begun there needs six.
  AskFor({local::SCHEME_RS, 6, 2});
  const DatasetId another = Checkpoint(8);
  EXPECT_SAYS(clients[0]->Wait(another, local::REDUNDANT), local::UNSUPPORTED,
              "asked for `rs:4+2`, which needs ranks in 6 failure groups; they are in 4");
  EXPECT_SAYS(clients[0]->Wait(another, local::LOCAL), local::OK, "");
  AskFor({local::SCHEME_RS, 4, 2});
  Redundant(9);
}

TEST_F(RedundancySchemeTest, SetsThatCannotBeAreRefusedAndRanksThatDifferFail) {
  Start("rs");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  for (const AskedScheme& wrong :
       {AskedScheme(local::SCHEME_RS, 65, 2), AskedScheme(local::SCHEME_RS, 4, 4), AskedScheme(local::SCHEME_RS, 4, 0),
        AskedScheme(local::SCHEME_RS, 0, 2), AskedScheme(local::SCHEME_XOR, 4, 2), AskedScheme(local::SCHEME_RS, 1, 1),
        AskedScheme(local::SCHEME_PARTNER, 2, 1), AskedScheme(local::SCHEME_NOT_GIVEN, 4, 2)}) {
    for (const Rank rank : {0u, 1u}) {
      clients[rank]->AskFor(wrong);
      EXPECT_SAYS(clients[rank]->Begin(5, MemoryOf(rank, 5)), local::INVALID_ARGUMENT, "redundancy scheme");
      EXPECT_SAYS(clients[rank]->OutputBegin(6), local::INVALID_ARGUMENT, "redundancy scheme");
    }
  }
  AskFor({local::SCHEME_RS, 6, 2});
  clients[1]->AskFor({local::SCHEME_RS, 6, 3});
  ASSERT_SAYS(clients[0]->Begin(7, MemoryOf(0, 7)), local::OK, "");
  EXPECT_SAYS(clients[1]->Begin(7, MemoryOf(1, 7)), local::FAILED,
              "rank 1 began it with redundancy rs:3+3, others rs:4+2");
  clients[0]->Abort("it has failed");
}

// --- What the site has may change ---

// From then on, also for what could not be protected before.
TEST_F(RedundancySchemeTest, TheConfigurationIsReadAnew) {
  Start("xor", /*members=*/2);
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const auto reload = [this](const std::string& scheme, std::uint32_t members, std::uint32_t checksums) {
    for (int i = 0; i < nodes.count(); ++i) {
      nodes[i].config.redundancy.scheme = scheme;
      nodes[i].config.redundancy.members = members;
      nodes[i].config.redundancy.checksums = checksums;
      nodes[i].config.redundancy.group = "switch7";  // said at the start, once
      nodes[i].core().Reload(nodes[i].config);
    }
  };
  EXPECT_THAT(SchemesOf(Redundant(5)), ElementsAre("xor"));
  AskFor(local::SCHEME_RS);
  const DatasetId id = Checkpoint(6);
  EXPECT_SAYS(clients[0]->Wait(id, local::REDUNDANT), local::UNSUPPORTED, "2 checksums");
  reload("partner", 6, 3);
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
  const admin::ShowReply shown = Show(0, id);
  ASSERT_GT(shown.ranks_size(), 0);
  EXPECT_EQ(shown.ranks(0).set().ranks_size(), 6);
  EXPECT_EQ(shown.ranks(0).set().checksums(), 3u);
  AskFor(local::SCHEME_NOT_GIVEN);
  EXPECT_THAT(SchemesOf(Redundant(7)), ElementsAre("partner"));
  reload("folder", 6, 3);  // redundant.path is read at the start
  EXPECT_SAYS(clients[0]->Wait(Checkpoint(8), local::REDUNDANT), local::UNSUPPORTED,
              "redundancy.scheme is `folder`, and redundant.path was not set when this daemon was started");
}

TEST_F(RedundancySchemeTest, TheSiteSaysHowLargeSetsAreAsApplicationsDo) {
  Start("rs:4+2", /*members=*/2);
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  EXPECT_THAT(SchemesOf(id), ElementsAre("rs"));
  const admin::ShowReply shown = Show(0, id);
  ASSERT_GT(shown.ranks_size(), 0);
  EXPECT_EQ(shown.ranks(0).set().ranks_size(), 6);
  EXPECT_EQ(shown.ranks(0).set().checksums(), 2u);
  for (int i = 0; i < nodes.count(); ++i) {
    nodes[i].config.redundancy.scheme = "xor:6+1";
    nodes[i].core().Reload(nodes[i].config);
  }
  EXPECT_SAYS(clients[0]->Wait(Checkpoint(6), local::REDUNDANT), local::UNSUPPORTED,
              "redundancy.scheme is `xor:6+1`, which needs ranks in 7 failure groups; they are in 6");
  AskFor(local::SCHEME_PARTNER);  // counts more
  EXPECT_THAT(SchemesOf(Redundant(7)), ElementsAre("partner"));
}

TEST_F(RedundancySchemeTest, RanksThatDifferFailTheDataset) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  AskFor(local::SCHEME_PARTNER);
  clients[1]->AskFor(local::SCHEME_RS);  // on another node
  const DatasetId id = clients[0]->Begin(5, MemoryOf(0, 5)).begin().dataset();
  EXPECT_SAYS(clients[1]->Begin(5, MemoryOf(1, 5)), local::FAILED,
              "rank 1 began it with redundancy rs, others partner");
  for (const Rank rank : {0u, 2u}) EXPECT_SAYS(clients[rank]->Wait(id, local::LOCAL), local::FAILED, "redundancy rs");
  clients[0]->Abort("it has failed");
  // So do outputs, and those who say nothing.
  clients[1]->AskFor(local::SCHEME_NOT_GIVEN);
  const local::Reply begun = clients[0]->OutputBegin(6);
  EXPECT_SAYS(begun, local::OK, "");
  EXPECT_SAYS(clients[1]->OutputBegin(6), local::FAILED,
              "rank 1 began it with redundancy as it is configured, others partner");
  EXPECT_SAYS(clients[0]->Wait(begun.output_begin().dataset(), local::LOCAL), local::FAILED, "as it is configured");
  clients[0]->OutputEnd(/*valid=*/false);
  clients[1]->AskFor(local::SCHEME_PARTNER);
  EXPECT_THAT(SchemesOf(Redundant(7)), ElementsAre("partner"));
}

TEST_F(RedundancySchemeTest, OneThatIsNotKnownIsRefused) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  for (const Rank rank : {0u, 1u}) {
    clients[rank]->AskFor(static_cast<local::Scheme>(77));
    EXPECT_SAYS(clients[rank]->Begin(5, MemoryOf(rank, 5)), local::INVALID_ARGUMENT, "redundancy scheme 77");
    EXPECT_SAYS(clients[rank]->OutputBegin(6), local::INVALID_ARGUMENT, "redundancy scheme 77");
  }
}

// --- It is kept with the dataset ---

TEST_F(RedundancySchemeTest, AHomeThatIsStartedAgainStillGoesByIt) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  AskFor(local::SCHEME_PARTNER);
  const DatasetId id = LocalForNow(5);
  ASSERT_NO_FATAL_FAILURE(KillNode(0));
  nodes[0].Start();
  for (Rank rank = 0; rank < kMany; ++rank) ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
  GoOn();
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
  EXPECT_THAT(SchemesOf(id), ElementsAre("partner"));
  EXPECT_EQ(Show(0, id).asked_scheme(), local::SCHEME_PARTNER);
}

TEST_F(RedundancySchemeTest, AHomeThatIsStartedAgainStillLeavesAloneWhatIsSingle) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  AskFor(local::SCHEME_SINGLE);
  const DatasetId id = Checkpoint(5);
  ASSERT_SAYS(clients[0]->Wait(id, local::LOCAL), local::OK, "");
  ASSERT_NO_FATAL_FAILURE(KillNode(0));
  nodes[0].Start();
  for (Rank rank = 0; rank < kMany; ++rank) ASSERT_NO_FATAL_FAILURE(ComeAgain(rank));
  for (const auto& client : clients) {
    EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::UNSUPPORTED, "its application has asked for `single`");
  }
  nodes.Pass(std::chrono::minutes(1));
  EXPECT_THAT(SchemesOf(id), ElementsAre("single"));
}

// By a launch whose home is another node, of which one part is made anew.
TEST_F(RedundancySchemeTest, AfterALossItIsMadeRedundantAnewByTheSame) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  AskFor(local::SCHEME_PARTNER);
  const DatasetId id = Redundant(5);
  Lose({0});
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  EXPECT_EQ(RestoreLatest().id, id);
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
  EXPECT_THAT(SchemesOf(id), ElementsAre("partner"));
}

// --- Ranks that do not wait for the home ---

TEST_F(RedundancySchemeTest, OfACheckpointThatWasForetoldItCountsToo) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  AskFor(local::SCHEME_PARTNER);
  Redundant(5);
  nodes.Pass(std::chrono::milliseconds(100));  // the next number is said
  nodes.network.Block(nodes[0].address(), nodes[1].address());
  nodes.network.Block(nodes[1].address(), nodes[0].address());
  const Memory memory = MemoryOf(1, 6);
  const std::uint64_t call = clients[1]->SendBegin(6, memory);
  nodes.Pass(std::chrono::seconds(1));
  ASSERT_TRUE(clients[1]->HasReply(call)) << "it was not foretold";
  const DatasetId id = clients[1]->TakeBegin(call).begin().dataset();
  ASSERT_TRUE(clients[1]->Fill(memory));
  EXPECT_SAYS(clients[1]->Commit(), local::OK, "");
  nodes.network.UnblockAll();
  for (const Rank rank : {0u, 2u, 3u, 4u, 5u}) {
    EXPECT_SAYS(clients[rank]->Checkpoint(6, MemoryOf(rank, 6)), local::OK, "");
  }
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
  EXPECT_THAT(SchemesOf(id), ElementsAre("partner"));
}

TEST_F(RedundancySchemeTest, WhoGoesOnWithAForetoldNumberAndAnotherSchemeFailsIt) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  AskFor(local::SCHEME_PARTNER);
  Redundant(5);
  nodes.Pass(std::chrono::milliseconds(100));
  clients[1]->AskFor(local::SCHEME_RS);
  const DatasetId id = clients[0]->Begin(6, MemoryOf(0, 6)).begin().dataset();
  // Its node goes on with it, or has heard of it and waits for the home's word. Either way nobody gets it.
  clients[1]->Checkpoint(6, MemoryOf(1, 6));
  for (const Rank rank : {0u, 1u, 2u}) EXPECT_SAYS(clients[rank]->Wait(id, local::LOCAL), local::FAILED, "");
}

// --- Files ---

TEST_F(RedundancySchemeTest, OutputsOfFilesHaveItToo) {
  Start("xor");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  AskFor(local::SCHEME_PARTNER);
  DatasetId id = 0;
  for (Rank rank = 0; rank < kMany; ++rank) {
    const local::Reply begun = clients[rank]->OutputBegin(6);
    ASSERT_SAYS(begun, local::OK, "");
    id = begun.output_begin().dataset();
    const local::Reply routed = clients[rank]->RouteFile("out/rank" + std::to_string(rank));
    ASSERT_SAYS(routed, local::OK, "");
    FakeDisk& disk = nodes[NodeOf(rank)].cache;
    ASSERT_OK(MakeDirectories(disk, ParentOf(routed.route_file().path())));
    ASSERT_OK(ReplaceFile(disk, routed.route_file().path(), RandomBytes(rank, 20'000)));
  }
  for (const auto& client : clients) EXPECT_SAYS(client->OutputEnd(), local::OK, "");
  for (const auto& client : clients) EXPECT_SAYS(client->Wait(id, local::REDUNDANT), local::OK, "");
  EXPECT_THAT(SchemesOf(id), ElementsAre("partner"));
  for (const int node : {0, 1}) {
    ASSERT_NO_FATAL_FAILURE(KillNode(node));
    nodes[node].Start();
    ASSERT_NO_FATAL_FAILURE(ComeAgain(static_cast<Rank>(node)));
    EXPECT_EQ(Show(node, id).asked_scheme(), local::SCHEME_PARTNER) << node;
  }
}

// --- To the prefix ---

TEST_F(RedundancySchemeTest, WhatIsSingleGoesToThePrefixAsOftenAsWithoutRedundancy) {
  Start("xor");
  for (int i = 0; i < nodes.count(); ++i) {
    nodes[i].config.flush = {.every = 1, .every_redundant = 3, .superseded = true};
    nodes[i].core().Reload(nodes[i].config);
  }
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const auto on_prefix = [this](DatasetId id) { return clients[0]->Test(id, local::PREFIX).test().reached(); };
  AskFor(local::SCHEME_PARTNER);
  const DatasetId redundant = Redundant(1);
  nodes.Pass(std::chrono::seconds(1));
  EXPECT_FALSE(on_prefix(redundant));
  AskFor(local::SCHEME_SINGLE);
  const DatasetId single = Checkpoint(2);
  EXPECT_SAYS(clients[0]->Wait(single, local::PREFIX), local::OK, "");
}

}  // namespace
}  // namespace cairn

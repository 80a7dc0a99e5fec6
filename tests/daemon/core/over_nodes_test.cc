// What several nodes say of a run, as one: daemon/core/over_nodes.h.
#include "daemon/core/over_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const RunId kRun = *RunId::Parse("00112233445566778899aabbccddeeff");

peer::Question Asking(std::function<void(peer::Question&)> what) {
  peer::Question question;
  what(question);
  return question;
}
const peer::Question kList = Asking([](auto& question) { question.mutable_list(); });
const peer::Question kShow = Asking([](auto& question) { question.mutable_show()->set_dataset(7); });
const peer::Question kStatus = Asking([](auto& question) { question.mutable_status(); });

admin::NodeAnswer Own() {
  admin::NodeAnswer own;
  own.set_name("n1");
  own.set_node(std::string(32, '1'));
  own.set_here(true);
  return own;
}
Nodes::Said Says(const std::string& host, char node, absl::StatusOr<peer::Answer> answer) {
  return {.node = {.member = {.node = std::string(32, node),
                              .incarnation = 1,
                              .revision = 1,
                              .host = host,
                              .address = "10.0.0.9:1",
                              .since_us = 0,
                              .summary = {.datasets = 4, .bytes = 40, .sessions = 2, .newest_dataset = 9}},
                   .missing = false},
          .answer = std::move(answer)};
}
admin::DatasetRow Row(DatasetId id, local::Level level, const std::string& state = "whole") {
  admin::DatasetRow row;
  row.set_run(kRun.Hex());
  row.set_prefix("/elsewhere");
  row.set_dataset(id);
  row.set_nranks(2);
  row.set_level(level);
  row.set_state(state);
  row.set_in_cache(level == local::LOCAL);
  row.set_in_prefix(level == local::PREFIX);
  return row;
}
peer::Answer Listing(const std::vector<admin::DatasetRow>& rows) {
  peer::Answer answer;
  answer.mutable_list();
  for (const admin::DatasetRow& row : rows) *answer.mutable_list()->add_datasets() = row;
  return answer;
}
peer::Answer Showing(const admin::DatasetRow& dataset, std::vector<std::pair<std::uint32_t, bool>> ranks) {
  peer::Answer answer;
  *answer.mutable_show()->mutable_dataset() = dataset;
  for (const auto& [rank, in_cache] : ranks) {
    admin::RankRow& row = *answer.mutable_show()->add_ranks();
    row.set_rank(rank);
    row.set_level(dataset.level());
    row.set_in_cache(in_cache);
  }
  return answer;
}
std::vector<std::string> Names(const google::protobuf::RepeatedPtrField<std::string>& names) {
  return {names.begin(), names.end()};
}
std::string ErrorOf(const OverNodes& over, const std::string& name) {
  for (const admin::NodeAnswer& node : over.nodes()) {
    if (node.name() == name) return node.error();
  }
  return "there is no " + name;
}

TEST(OverNodesTest, EachDatasetHasOneRowOfTheNodeThatHasBroughtItFurthest) {
  const OverNodes over(kRun, kList, Own(),
                       {Says("n3", '3', Listing({Row(1, local::LOCAL), Row(7, local::NONE, "writing")})),
                        Says("n2", '2', Listing({Row(1, local::PREFIX), Row(5, local::LOCAL)}))});
  OverNodes::Rows own;
  own[1] = Row(1, local::LOCAL, "superseded");
  own[7] = Row(7, local::CAPTURED, "writing");
  const auto rows = over.List(own, "/here");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows.at(1).level(), local::PREFIX);
  EXPECT_EQ(rows.at(1).state(), "whole");
  EXPECT_TRUE(rows.at(1).in_cache());
  EXPECT_TRUE(rows.at(1).in_prefix());
  EXPECT_THAT(Names(rows.at(1).nodes()), ElementsAre("n1", "n3"));
  EXPECT_THAT(Names(rows.at(5).nodes()), ElementsAre("n2"));
  EXPECT_EQ(rows.at(5).prefix(), "/here") << "as it is called here";
  EXPECT_EQ(rows.at(7).level(), local::CAPTURED);
  EXPECT_THAT(Names(rows.at(7).nodes()), IsEmpty());
}

TEST(OverNodesTest, OfTwoThatHaveBroughtItAsFarThisNodeIsBelieved) {
  const OverNodes over(kRun, kList, Own(), {Says("n0", '2', Listing({Row(1, local::LOCAL, "whole")}))});
  OverNodes::Rows own;
  own[1] = Row(1, local::LOCAL, "superseded");
  const auto rows = over.List(own, "/here");
  EXPECT_EQ(rows.at(1).state(), "superseded");
  EXPECT_THAT(Names(rows.at(1).nodes()), ElementsAre("n1", "n0"));
}

TEST(OverNodesTest, TwoNodesOfOneHostHaveNamesOfTheirOwn) {
  const OverNodes over(kRun, kList, Own(),
                       {Says("n2", '3', Listing({})), Says("n2", '2', Listing({})), Says("n3", '4', Listing({}))});
  std::vector<std::string> names;
  for (const admin::NodeAnswer& node : over.nodes()) names.push_back(node.name());
  EXPECT_THAT(names, ElementsAre("n1", "n2 (22222222)", "n2 (33333333)", "n3"));
}

TEST(OverNodesTest, WhoDidNotAnswerIsNamedAndWhoHasNothingHasAnswered) {
  Nodes::Said missing = Says("n4", '4', Unavailable("it is missing"));
  missing.node.missing = true;
  const OverNodes over(kRun, kShow, Own(),
                       {Says("n2", '2', DeadlineExceeded("no answer within 2000 ms")),
                        Says("n3", '3', NotFound("there is no dataset 7")), missing});
  EXPECT_EQ(ErrorOf(over, "n2"), "no answer within 2000 ms");
  EXPECT_EQ(ErrorOf(over, "n3"), "");
  EXPECT_EQ(ErrorOf(over, "n4"), "it is missing");
  EXPECT_TRUE(over.nodes()[3].missing());
  const auto shown = over.Show(NotFound("no dataset 7"), "/here");
  EXPECT_STATUS(StatusCode::kNotFound, shown,
                "no dataset 7; n2 did not answer: no answer within 2000 ms; n4 did not answer: it is missing");
}

TEST(OverNodesTest, EachRankIsWhereItsCopiesAre) {
  const OverNodes over(kRun, kShow, Own(),
                       {Says("n2", '2', Showing(Row(7, local::LOCAL), {{0, true}, {1, true}})),
                        Says("n3", '3', Showing(Row(7, local::LOCAL), {{1, true}}))});
  admin::ShowReply own = Showing(Row(7, local::PREFIX), {{0, true}, {1, false}}).show();
  const auto shown = over.Show(own, "/here");
  ASSERT_OK(shown);
  EXPECT_EQ(shown->dataset().level(), local::PREFIX);
  EXPECT_EQ(shown->dataset().prefix(), "/here");
  ASSERT_EQ(shown->ranks_size(), 2);
  EXPECT_THAT(Names(shown->ranks(0).nodes()), ElementsAre("n1", "n2"));
  EXPECT_THAT(Names(shown->ranks(1).nodes()), ElementsAre("n2", "n3"));
  EXPECT_EQ(shown->ranks(1).level(), local::PREFIX);
  EXPECT_EQ(shown->nodes_size(), 3);
}

TEST(OverNodesTest, WhatOnlyAnotherNodeHasIsShownAndTroubleHereIsNamed) {
  const OverNodes over(kRun, kShow, Own(), {Says("n2", '2', Showing(Row(7, local::LOCAL), {{0, true}, {1, true}}))});
  const auto shown = over.Show(NotFound("no dataset 7"), "/here");
  ASSERT_OK(shown);
  EXPECT_EQ(shown->ranks_size(), 2);
  EXPECT_EQ(shown->nodes(0).error(), "");
  const auto trouble = over.Show(Unavailable("the prefix hangs"), "/here");
  ASSERT_OK(trouble);
  EXPECT_EQ(trouble->nodes(0).error(), "the prefix hangs");
}

TEST(OverNodesTest, TotalsAreThoseOfTheAnswerOrAsTheyWereToldLast) {
  peer::Answer answer;
  answer.mutable_status()->set_run(kRun.Hex());
  answer.mutable_status()->add_nodes()->set_datasets(77);
  const OverNodes over(kRun, kStatus, Own(), {Says("n2", '2', answer), Says("n3", '3', Unavailable("gone"))});
  const auto nodes = over.nodes();
  EXPECT_EQ(nodes[1].datasets(), 77u);
  EXPECT_EQ(nodes[2].datasets(), 4u);
  EXPECT_EQ(nodes[2].bytes(), 40u);
  EXPECT_EQ(nodes[2].sessions(), 2u);
  EXPECT_EQ(nodes[2].newest_dataset(), 9u);
}

TEST(OverNodesTest, NonsenseIsNoAnswerAndNamesItsField) {
  const auto other_run = [](admin::DatasetRow row) {
    row.set_run(std::string(32, '9'));
    return row;
  };
  peer::Answer status, foreign_status;
  peer::Answer strange = Showing(Row(7, local::LOCAL), {});
  strange.mutable_show()->set_asked_scheme(static_cast<local::Scheme>(77));
  status.mutable_status()->set_run(kRun.Hex());
  foreign_status.mutable_status()->set_run("x");
  const std::vector<std::tuple<std::string, peer::Question, peer::Answer>> bad = {
      {"answer.list.datasets[0].run", kList, Listing({other_run(Row(1, local::LOCAL))})},
      {"answer.list.datasets[1].dataset: 1 after 1", kList, Listing({Row(1, local::LOCAL), Row(1, local::LOCAL)})},
      {"answer.list.datasets[0].dataset: 0", kList, Listing({Row(0, local::LOCAL)})},
      {"answer.list.datasets[0].level: 77", kList, Listing({Row(1, static_cast<local::Level>(77))})},
      {"answer.show.dataset.dataset", kShow, Showing(Row(8, local::LOCAL), {})},
      {"answer.show.dataset.run", kShow, Showing(other_run(Row(7, local::LOCAL)), {})},
      {"answer.show.ranks[1].rank: 0 of 2", kShow, Showing(Row(7, local::LOCAL), {{0, true}, {0, true}})},
      {"answer.show.ranks[0].rank: 2 of 2", kShow, Showing(Row(7, local::LOCAL), {{2, true}})},
      {"answer.show.asked_scheme: redundancy scheme 77", kShow, strange},
      {"answer.status.nodes: 0", kStatus, status},
      {"answer.status.run", kStatus, foreign_status},
      {"answer.body: 0", kList, peer::Answer()},
  };
  for (const auto& [text, question, answer] : bad) {
    const OverNodes over(kRun, question, Own(), {Says("n2", '2', answer)});
    EXPECT_THAT(ErrorOf(over, "n2"), HasSubstr(text));
    EXPECT_EQ(over.voices()[1].answer.body_case(), peer::Answer::BODY_NOT_SET);
  }
}

}  // namespace
}  // namespace cairn

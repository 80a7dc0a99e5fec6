// What the commands that ask a daemon tell of the run's other nodes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "proto/admin.pb.h"
#include "tests/client/cli/daemon_fixture.h"
#include "tests/client/cli/run_cairn.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::CairnRun;
using testing::RunCairn;

using OtherNodesTest = testing::DaemonFixture;

TEST_F(OtherNodesTest, NodesAreShownWithWhatTheyHold) {
  admin::RunNodes& run = *core_.nodes->add_runs();
  run.set_run("0123456789abcdef0123456789abcdef");
  run.set_prefix("/scratch/\x1b[31mheat");
  run.set_epoch(7);
  run.set_coordinator("b" + std::string(31, '0'));
  run.set_coordinator_host("n2");
  run.set_coordinator_address("10.0.0.2:17600");
  run.set_attached(true);
  for (const char node : {'a', 'b', 'c'}) {
    admin::NodeRow& row = *run.add_nodes();
    row.set_node(node + std::string(31, '0'));
    row.set_host(std::string("n") + static_cast<char>('1' + (node - 'a')));
    row.set_here(node == 'a');
    row.set_missing(node == 'c');
    row.set_sessions(2);
    row.set_datasets(3);
    row.set_bytes(3 << 20);
    row.set_newest_dataset(17);
  }
  const CairnRun shown = Run({"nodes"});
  ExpectSaid(shown, 0, "run 01234567  /scratch/?[31mheat");
  ExpectSaid(shown, 0, "coordinated by n2 (10.0.0.2:17600), epoch 7\n");
  const auto line = [&](const std::string& host) {
    const std::size_t at = shown.out.find("\n" + host + " ");
    return at == std::string::npos ? "" : shown.out.substr(at + 1, shown.out.find('\n', at + 1) - at - 1);
  };
  EXPECT_NE(line("n1").find("  here  "), std::string::npos) << shown.out;
  EXPECT_NE(line("n2").find("  linked, coordinates  "), std::string::npos) << shown.out;
  EXPECT_NE(line("n3").find("  missing  "), std::string::npos) << shown.out;
  EXPECT_NE(line("n3").find("17   3.0 MiB"), std::string::npos) << shown.out;
  EXPECT_EQ(json::parse(Run({"--json", "nodes"}).out)["runs"][0]["nodes"].size(), 3u);

  auto in_job = Environment();
  in_job["SLURM_JOB_NODELIST"] = "n[1-5].site,gpu7";
  ExpectSaid(RunCairn({"nodes"}, in_job), 0,
             "nodes of this Slurm job that have no daemon yet: n4.site, n5.site, gpu7\n");
  EXPECT_EQ(json::parse(RunCairn({"--json", "nodes"}, in_job).out)["runs"][0]["job_nodes_without"],
            json({"n4.site", "n5.site", "gpu7"}));
  in_job["SLURM_JOB_NODELIST"] = "m[01-20]";
  ExpectSaid(RunCairn({"nodes"}, in_job), 0, "m07, m08 and 12 more\n");
  in_job["SLURM_JOB_NODELIST"] = "n[1-3]";
  EXPECT_EQ(RunCairn({"nodes"}, in_job).out, shown.out) << "each has one";
  in_job["SLURM_JOB_NODELIST"] = "n[1-";
  ExpectSaid(RunCairn({"nodes"}, in_job), 0, "cairn: SLURM_JOB_NODELIST: 'n[1-' is not a list of hosts");

  run.set_attached(false);
  ExpectSaid(Run({"nodes", "heat"}), 0, "this node has no link to it now");
  EXPECT_EQ(core_.asked().back(), "nodes heat");
  run.set_epoch(0);
  ExpectSaid(Run({"nodes"}), 0, "no coordinator is known yet");
  run.set_alone("peers.interface is not set");
  ExpectSaid(Run({"nodes"}), 0, "this node has no links to others: peers.interface is not set");
  core_.nodes = absl::NotFoundError("no run melt is known to this daemon");
  ExpectSaid(Run({"nodes", "melt"}), 4, "no run melt");
}

void AddNodes(google::protobuf::RepeatedPtrField<admin::NodeAnswer>& nodes) {
  for (const char node : {'1', '2', '3'}) {
    admin::NodeAnswer& answer = *nodes.Add();
    answer.set_name(std::string("cn0") + node);
    answer.set_node(std::string(32, node));
    answer.set_here(node == '1');
    answer.set_sessions(2);
    answer.set_datasets(3);
    answer.set_bytes(3 << 20);
    answer.set_newest_dataset(17);
  }
  nodes[2].set_error(
      "no answer within \x1b"
      "2000 ms");
}

TEST_F(OtherNodesTest, ListNamesTheCachesAndWhoDidNotAnswer) {
  admin::DatasetRow& row = *core_.list->mutable_datasets(0);
  admin::RunNodesAsked& asked = *core_.list->add_asked();
  asked.set_run(row.run());
  asked.set_prefix(row.prefix());
  AddNodes(*asked.mutable_nodes());
  row.add_nodes("cn01");
  row.add_nodes("cn02");
  const CairnRun list = Run({"ls", "heat"});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_EQ(list.out,
            "run 01234567  /scratch/heat\n"
            "DATASET  STEP  LAUNCH  RANKS  KIND        LEVEL  STATE          WHERE       SIZE  CREATED              "
            "IN CACHE OF\n"
            "     17   120       0      4  checkpoint  local  whole, pinned  cache  400.0 MiB  2023-11-14 22:13:20  "
            "cn01, cn02\n"
            "cn03 did not answer: no answer within ?2000 ms\n");
  EXPECT_FALSE(core_.this_node_only);
  json told = json::parse(Run({"ls", "heat", "--json"}).out);
  EXPECT_EQ(told["datasets"][0]["nodes"], json({"cn01", "cn02"}));
  EXPECT_EQ(told["asked"][0]["run"], row.run());
  EXPECT_EQ(told["asked"][0]["nodes"][2]["name"], "cn03");
  EXPECT_EQ(told["asked"][0]["nodes"][2]["here"], false);
  EXPECT_EQ(told["asked"][0]["nodes"][1]["error"], "");
  for (const char* more : {"cn03", "cn04"}) row.add_nodes(more);
  ExpectSaid(Run({"ls", "heat"}), 0, "cn01, cn02 and 2 more\n");
  core_.list->clear_datasets();
  ExpectSaid(Run({"ls", "heat"}), 0, "run 01234567  /scratch/heat\nno datasets\ncn03 did not answer");
}

TEST_F(OtherNodesTest, ShowNamesTheCachesOfEachRank) {
  AddNodes(*core_.show->mutable_nodes());
  core_.show->mutable_ranks(0)->add_nodes("cn02");
  const CairnRun show = Run({"show", "heat", "17"});
  ExpectSaid(show, 0, "rank 0: local, 50.0 MiB, of which 1.0 MiB written (2 %), in the cache of cn02\n");
  ExpectSaid(show, 0, "cn03 did not answer: no answer within ?2000 ms\n");
  const json told = json::parse(Run({"show", "heat", "17", "--json"}).out);
  EXPECT_EQ(told["ranks"][0]["nodes"], json({"cn02"}));
  EXPECT_EQ(told["asked"].size(), 3u);
}

TEST_F(OtherNodesTest, StatusHasTotalsOfEachNode) {
  AddNodes(*core_.status.mutable_runs(0)->mutable_nodes());
  const CairnRun status = Run({"status"});
  ExpectSaid(status, 0,
             "  NODE  STATE    RANKS  DATASETS  NEWEST  IN CACHE\n"
             "  cn01  here         2         3      17   3.0 MiB\n"
             "  cn02  answers      2         3      17   3.0 MiB\n"
             "  cn03  silent       2         3      17   3.0 MiB\n"
             "  cn03 did not answer: no answer within ?2000 ms\n");
  core_.status.mutable_runs(0)->mutable_nodes(2)->set_missing(true);
  ExpectSaid(Run({"status"}), 0, "  cn03  missing ");
  EXPECT_EQ(json::parse(Run({"status", "--json"}).out)["runs"][0]["nodes"][2]["missing"], true);
}

TEST_F(OtherNodesTest, ThisNodeIsAskedAloneIfTheUserWantsThat) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"ls", "heat"}, {"show", "heat", "17"}, {"status"}}) {
    std::vector<std::string> alone = arguments;
    alone.push_back("--this-node");
    Run(arguments);
    EXPECT_FALSE(core_.this_node_only) << arguments[0];
    Run(alone);
    EXPECT_TRUE(core_.this_node_only) << arguments[0];
  }
  // Without other nodes nothing of them is told.
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"ls", "--json"}, {"show", "heat", "17", "--json"}, {"status", "--json"}}) {
    const std::string out = Run(arguments).out;
    EXPECT_EQ(out.find("\"nodes\""), std::string::npos) << out;
    EXPECT_EQ(out.find("\"asked\""), std::string::npos) << out;
    EXPECT_EQ(out.find("\"in_cache\""), out.rfind("\"in_cache\"")) << out;
  }
}

}  // namespace
}  // namespace cairn

// The `cairn` command beside the real Admin service, with a core that answers as it was told: one run with a dataset
// that is being flushed.
#ifndef CAIRN_TESTS_CLIENT_CLI_DAEMON_FIXTURE_H_
#define CAIRN_TESTS_CLIENT_CLI_DAEMON_FIXTURE_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/door/admin_service.h"
#include "daemon/door/ingest_door.h"
#include "tests/client/cli/run_cairn.h"
#include "tests/daemon/door/fake_core.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {

class DaemonFixture : public ::testing::Test {
 protected:
  DaemonFixture() {
    std::string name = ::testing::TempDir() + "cairn-cli-XXXXXX";
    folder_ = mkdtemp(name.data());
    socket_ = folder_ + "/cairn/cairnd-grpc.sock";
  }
  ~DaemonFixture() override {
    door_.reset();
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override {
    admin_ = AdminService::Make(core_);
    IngestDoor::Options options;
    options.node_socket = socket_;
    auto door = IngestDoor::Listen(options, core_, admin_.get());
    ASSERT_OK(door);
    door_ = *std::move(door);

    core_.status.set_version("cairn test");
    core_.status.set_host("node1");
    core_.status.set_pid(4711);
    core_.status.set_uptime_ms(61'000);
    core_.status.set_cache("/ssd/cache");
    core_.status.set_cache_bytes_used(1 << 20);
    core_.status.set_cache_bytes_max(1 << 30);
    admin::RunStatus& run = *core_.status.add_runs();
    run.set_run("0123456789abcdef0123456789abcdef");
    run.set_prefix("/scratch/\x1b[31mheat");
    run.set_launch(3);
    run.set_nranks(4);
    run.set_sessions(4);
    run.set_newest_step(120);
    admin::FlushStatus& flush = *run.add_flushes();
    flush.set_dataset(17);
    flush.set_step(120);
    flush.set_state("running");
    flush.set_bytes(400 << 20);
    flush.set_bytes_done(100 << 20);
    flush.set_bytes_per_s(50 << 20);

    admin::DatasetRow& row = *core_.list->add_datasets();
    row.set_run(run.run());
    row.set_prefix("/scratch/heat");
    row.set_dataset(17);
    row.set_step(120);
    row.set_nranks(4);
    row.set_checkpoint(true);
    row.set_level(local::LOCAL);
    row.set_state("whole");
    row.set_pinned(true);
    row.set_in_cache(true);
    row.set_bytes(400 << 20);
    row.set_created_us(1'700'000'000'000'000);
    row.set_bytes_written(4 << 20);
    *core_.show->mutable_dataset() = row;
    admin::RankRow& rank = *core_.show->add_ranks();
    rank.set_bytes(50 << 20);
    rank.set_bytes_written(1 << 20);
    rank.set_rank(0);
    rank.set_level(local::LOCAL);
    rank.add_files("ckpt.17/Ckpt17-Rank0.fti");
    local::Variable& variable = *rank.add_variables();
    variable.set_id(5);
    variable.set_kind(local::ARRAY);
    variable.set_type(10);
    variable.set_name("temperature");
    variable.set_count(6);
    variable.set_bytes(48);
    for (const std::uint64_t n : {4, 3}) variable.add_shape(n);
    for (const std::uint64_t n : {2, 0}) variable.add_box_start(n);
    for (const std::uint64_t n : {2, 3}) variable.add_box_count(n);
  }

  std::map<std::string, std::string> Environment() const { return {{"CAIRN_ADMIN_ADDRESS", "grpc+unix:" + socket_}}; }
  CairnRun Run(const std::vector<std::string>& arguments) { return RunCairn(arguments, Environment()); }
  void ExpectSaid(const CairnRun& run, int exit_code, std::string_view part) {
    EXPECT_EQ(run.exit_code, exit_code) << run.out << run.err;
    EXPECT_NE((run.out + run.err).find(part), std::string::npos) << run.out << run.err;
  }

  std::string folder_, socket_;
  FakeCore core_;
  std::unique_ptr<AdminService> admin_;
  std::unique_ptr<IngestDoor> door_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_CLIENT_CLI_DAEMON_FIXTURE_H_

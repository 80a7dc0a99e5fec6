// Messages as JSON, to the letter: scripts read it.
#include "client/cli/json.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/admin.pb.h"
#include "proto/catalogue.pb.h"

namespace cairn::cli {
namespace {

TEST(JsonTest, NumbersAreNumbersHoweverLong) {
  admin::StatusReply status;
  status.set_version("cairnd 1");
  status.set_pid(7);
  status.set_incarnation(~std::uint64_t{0});
  status.set_quiescing(true);
  status.add_warnings("careful");
  EXPECT_EQ(ToJson(status).dump(),
            R"({"version":"cairnd 1","pid":7,"host":"","uptime_ms":0,"incarnation":18446744073709551615,)"
            R"("quiescing":true,"cache":"","cache_bytes_used":0,"cache_bytes_max":0,"image_bytes_used":0,)"
            R"("image_bytes_max":0,"runs":[],"warnings":["careful"],"hung":[],"drains":[],"transfers":null,)"
            R"("mechanisms":null})");
}

TEST(JsonTest, WhatIsNotKnownOfARunIsNull) {
  admin::RunStatus run;
  run.set_run("ab");
  run.add_flushes()->set_error("no room");
  run.add_growing()->set_dataset(4);
  const Json json = ToJson(run);
  EXPECT_EQ(json.dump(),
            R"({"run":"ab","prefix":"","cache_folder":"","launch":0,"nranks":0,"sessions":0,"newest_step":0,)"
            R"("halt":null,"rhythm":null,"flushes":[{"dataset":0,"step":0,"state":"","bytes_done":0,"bytes":0,)"
            R"("bytes_per_s":0,"error":"no room","retry_in_ms":0}],"growing":[{"dataset":4,"name":"",)"
            R"("steps_complete":0,"steps_flushed":0,"bytes":0,"error":""}],)"
            R"("branch_of":"","served_by":"","provisional":false,"hung_since_us":0,"lost_since_us":0,)"
            R"("kept_until_us":0,"aside":null,"job":""})");
}

TEST(JsonTest, ADrainHasItsPassOnlyWhileThereIsOne) {
  admin::DrainStatus drain;
  drain.set_from("/bb");
  drain.set_failed_last("\xff");
  EXPECT_EQ(ToJson(drain).dump(-1, ' ', false, Json::error_handler_t::replace),
            R"({"from":"/bb","to":"","state":"","files":0,"bytes":0,"deleted":0,"files_left":0,"bytes_left":0,)"
            R"("waiting":0,"waits_first":"","waits_why":"","failed":0,"failed_last":"�","failed_why":"",)"
            R"("left_out":0,"passed_us":0,"trouble":"","trouble_since_us":0,"pass":null})");
  drain.mutable_pass()->set_files_all(3);
  EXPECT_EQ(ToJson(drain)["pass"].dump(), R"({"began_us":0,"files":0,"files_all":3,"bytes":0,"bytes_all":0,)"
                                          R"("bytes_per_s":0,"left_ms":0})");
}

TEST(JsonTest, CheckpointsLeftCountOnlyIfTheyAreCounted) {
  admin::RunStatus run;
  run.mutable_halt()->set_exit_before_s(-5);
  EXPECT_EQ(ToJson(run)["halt"].dump(),
            R"({"why":"","reason":"","exit_before_s":-5,"exit_after_s":0,"halt_seconds":0,"end_time_s":0,"error":"",)"
            R"("checkpoints_left":null})");
  run.mutable_halt()->set_counts_checkpoints(true);
  EXPECT_EQ(ToJson(run)["halt"]["checkpoints_left"], 0);
}

TEST(JsonTest, ADatasetShowsItsMembersAndThenItsRanks) {
  admin::ShowReply show;
  show.mutable_dataset()->set_level(local::PREFIX);
  show.mutable_dataset()->set_created_us(3);
  admin::RankRow& rank = *show.add_ranks();
  rank.set_rank(1);
  rank.set_level(static_cast<local::Level>(77));
  rank.add_files("a");
  local::Variable& variable = *rank.add_variables();
  variable.set_id(-2);
  variable.set_kind(local::ARRAY);
  variable.set_type(10);
  variable.set_name("T");
  variable.add_shape(std::uint64_t{1} << 40);
  variable.set_holes(true);
  EXPECT_EQ(
      ToJson(show).dump(),
      R"({"run":"","prefix":"","dataset":0,"launch":0,"step":0,"nranks":0,"checkpoint":false,"output":false,)"
      R"("files":false,"level":"prefix","state":"","error":"","pinned":false,"in_cache":false,)"
      R"("in_prefix":false,"bytes":0,"bytes_written":0,"created_us":3,"growing":[],"unverified_files":0,"ranks":[{"rank":1,)"
      R"("level":"unknown","bytes":0,"bytes_written":0,"variables":[{"id":-2,"kind":"array","type":"double",)"
      R"("name":"T","count":0,"bytes":0,"shape":[1099511627776],"box_start":[],"box_count":[]}],)"
      R"("files":["a"]}]})");
}

TEST(JsonTest, OfACataloguesFileOnlyWhatIsKnownIsShown) {
  catalogue::Catalogue catalogue;
  catalogue::FileEntry& plain = *catalogue.add_file();
  plain.set_crc32(5);  // not said to be there
  plain.set_inode(9);
  catalogue::FileEntry& known = *catalogue.add_file();
  known.set_has_crc32(true);
  known.set_bytes_written(2);
  known.add_crc32c(~std::uint32_t{0});
  known.set_verified_by(catalogue::PARITY);
  catalogue.add_placement();
  EXPECT_EQ(ToJson(catalogue).dump(),
            R"({"run":"","launch":0,"dataset":0,"step":0,"rank":0,"nranks":0,"files":false,"variables":[],"file":[)"
            R"({"name":"","prefix_name":"","bytes":0,"crc32c":[],"mode":0,"mtime_s":0,"mtime_ns":0},)"
            R"({"name":"","prefix_name":"","bytes":0,"crc32c":[4294967295],"mode":0,"mtime_s":0,"mtime_ns":0,)"
            R"("crc32":0,"bytes_written":2,"verified_by":"parity"}]})");
}

TEST(JsonTest, ARedundancySchemeIsShownIfOneWasAskedFor) {
  admin::ShowReply show;
  EXPECT_FALSE(ToJson(show).contains("asked_scheme"));
  show.set_asked_scheme(local::SCHEME_SINGLE);
  EXPECT_EQ(ToJson(show)["asked_scheme"], "single");
  catalogue::Catalogue catalogue;
  catalogue.set_scheme(local::SCHEME_RS);
  EXPECT_EQ(ToJson(catalogue)["scheme"], "rs");
  catalogue.set_scheme_members(6);
  catalogue.set_scheme_checksums(2);
  EXPECT_EQ(ToJson(catalogue)["scheme"], "rs:4+2");
  EXPECT_FALSE(ToJson(catalogue).contains("scheme_members"));
  catalogue.set_scheme(static_cast<local::Scheme>(77));  // of a newer release
  EXPECT_FALSE(ToJson(catalogue).contains("scheme"));
}

TEST(JsonTest, TextThatIsNotUtf8IsReplaced) {
  EXPECT_EQ(Dump({{"name", "a\xff"}}), "{\n  \"name\": \"a\xef\xbf\xbd\"\n}\n");
}

}  // namespace
}  // namespace cairn::cli

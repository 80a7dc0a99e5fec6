// What the environment says about steering: client/library/rhythm.h, variable by variable.
#include "client/library/rhythm.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/cairn.h"

namespace {

using Environment = std::map<std::string, std::string>;

const char* Lookup(void* context, const char* name) {
  const auto& environment = *static_cast<const Environment*>(context);
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : found->second.c_str();
}

struct Resolved {
  int code = 0;
  lc_rhythm rhythm = {};
  std::string why;
};

Resolved Resolve(Environment environment) {
  Resolved resolved;
  lc_why why = {};
  resolved.code = lc_rhythm_resolve(Lookup, &environment, &resolved.rhythm, &why);
  resolved.why = why.text;
  return resolved;
}

TEST(RhythmTest, AnEmptyEnvironmentSaysNothing) {
  for (const Environment& environment :
       {Environment(), Environment{{"CAIRN_CHECKPOINT_EVERY", ""}, {"CAIRN_END_TIME", ""}}}) {
    const Resolved resolved = Resolve(environment);
    EXPECT_EQ(resolved.code, CAIRN_OK) << resolved.why;
    const lc_rhythm& r = resolved.rhythm;
    EXPECT_FALSE(r.has_every || r.has_interval || r.has_overhead || r.has_mtbf);
    EXPECT_EQ(r.end_time_s, 0);
  }
}

TEST(RhythmTest, OwnNamesCountMoreThanScrs) {
  Environment environment = {{"SCR_CHECKPOINT_INTERVAL", "7"},
                             {"SCR_CHECKPOINT_SECONDS", "60"},
                             {"SCR_CHECKPOINT_OVERHEAD", "5"},
                             {"SLURM_JOB_END_TIME", "3000"}};
  lc_rhythm r = Resolve(environment).rhythm;
  EXPECT_TRUE(r.has_every && r.has_interval && r.has_overhead);
  EXPECT_EQ(r.every, 7u);
  EXPECT_EQ(r.interval_ms, 60'000u);
  EXPECT_EQ(r.overhead_percent, 5);
  EXPECT_EQ(r.end_time_s, 3000);
  environment["SCR_END_TIME"] = "2000";
  EXPECT_EQ(Resolve(environment).rhythm.end_time_s, 2000);
  environment["CAIRN_END_TIME"] = "1000";
  environment["CAIRN_CHECKPOINT_EVERY"] = "0";
  environment["CAIRN_CHECKPOINT_INTERVAL"] = "2min";
  environment["CAIRN_CHECKPOINT_OVERHEAD"] = "0.5";
  environment["CAIRN_MTBF"] = "30d";
  r = Resolve(environment).rhythm;
  EXPECT_TRUE(r.has_every) << "0 is said, too: not by this";
  EXPECT_EQ(r.every, 0u);
  EXPECT_EQ(r.interval_ms, 120'000u);
  EXPECT_EQ(r.overhead_percent, 0.5);
  EXPECT_EQ(r.mtbf_ms, 30ull * 86400 * 1000);
  EXPECT_EQ(r.end_time_s, 1000);
}

TEST(RhythmTest, TimesAreSecondsOrHaveAUnit) {
  const std::map<std::string, std::uint64_t> times = {
      {"0", 0},         {"90", 90'000},      {"1.5", 1500},     {"250ms", 250},      {"30s", 30'000},
      {"30 s", 30'000}, {"2.5min", 150'000}, {"1h", 3'600'000}, {"2d", 172'800'000}, {"0.001", 1}};
  for (const auto& [text, ms] : times) {
    const Resolved resolved = Resolve({{"CAIRN_CHECKPOINT_INTERVAL", text}});
    EXPECT_EQ(resolved.code, CAIRN_OK) << text;
    EXPECT_EQ(resolved.rhythm.interval_ms, ms) << text;
  }
}

TEST(RhythmTest, WhatIsNoNumberIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"CAIRN_CHECKPOINT_EVERY", "often"},
      {"CAIRN_CHECKPOINT_EVERY", "-1"},
      {"CAIRN_CHECKPOINT_EVERY", "4294967296"},
      {"CAIRN_CHECKPOINT_INTERVAL", "5 weeks"},
      {"CAIRN_CHECKPOINT_INTERVAL", "-5"},
      {"CAIRN_CHECKPOINT_INTERVAL", "."},
      {"CAIRN_CHECKPOINT_INTERVAL", "1e3"},
      {"CAIRN_CHECKPOINT_INTERVAL", "99999999999999999999999"},
      {"CAIRN_CHECKPOINT_OVERHEAD", "101"},
      {"CAIRN_CHECKPOINT_OVERHEAD", "5%"},
      {"CAIRN_MTBF", "nan"},
      {"CAIRN_MTBF", "1000y"},
      {"SCR_CHECKPOINT_SECONDS", "x"},
      {"CAIRN_END_TIME", "tomorrow"},
      {"SLURM_JOB_END_TIME", "99999999999999999999"}};
  for (const auto& [name, text] : wrong) {
    const Resolved resolved = Resolve({{name, text}});
    EXPECT_EQ(resolved.code, CAIRN_INVALID_ARGUMENT) << name << "=" << text;
    EXPECT_NE(resolved.why.find(name), std::string::npos) << resolved.why;
  }
}

}  // namespace

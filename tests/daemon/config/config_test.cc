#include "daemon/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "storage/base/status.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ErrorOf(std::string_view toml) {
  const absl::StatusOr<Config> config = ParseConfig("x.toml", toml, Config());
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << toml;
  return std::string(MessageOf(config.status()));
}

// Defaults with what a test of the other checks needs.
Config Resolved() {
  Config config;
  config.runtime_dir = "/run/cairn";
  config.cache.path = "/cache";
  return config;
}

Surroundings With(std::map<std::string, std::string> variables, std::uint32_t uid) {
  return {.variable = [variables](const char* name) -> std::optional<std::string> {
            const auto it = variables.find(name);
            return it == variables.end() ? std::nullopt : std::optional(it->second);
          },
          .uid = uid};
}

TEST(ConfigTest, SampleFileIsTheDefaultsWithEveryFieldExplained) {
  std::ifstream file("deploy/cairnd.toml");
  ASSERT_TRUE(file.is_open());
  std::stringstream text;
  text << file.rdbuf();
  std::string sample = text.str();
  const std::size_t first = sample.find("\n\n");  // the introduction ends with an empty line
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(sample.substr(first + 2), PrintConfig(Config()));
}

TEST(ConfigTest, FileOverridesOnlyWhatItNames) {
  Config base;
  base.flush.every = 7;
  const auto config =
      ParseConfig("x.toml", "[flush]\nbandwidth = \"2 GB/s\"\nsuperseded = \"keep\"\n[cache]\ndirect = false\n", base);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->flush.bytes_per_s, 2'000'000'000u);
  EXPECT_TRUE(config->flush.superseded);
  EXPECT_EQ(config->flush.every, 7u);
  EXPECT_FALSE(config->cache.direct);
}

TEST(ConfigTest, PrintedConfigReadsBackEqual) {
  Config config;
  config.runtime_dir = "/a \"quoted\" \\ path\twith everything \xc3\xa9";
  config.cache.bytes_max = (3ull << 30) + 1;
  config.cache.linger_ms = 90'000;
  config.flush.bytes_per_s = 1'500'000;
  config.flush.superseded = true;
  config.ftiff.layout_a = true;
  config.ftiff.exact = true;
  config.ftiff.differential = false;
  config.prefix.keep_every = 10;
  config.ingest.insecure_loopback = true;
  config.cache.node = "node7";
  config.cache.take = true;
  config.lease.term_ms = 90'000;
  config.log_level = "debug";
  const std::string printed = PrintConfig(config);
  const auto again = ParseConfig("printed", printed, Config());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(PrintConfig(*again), printed);
  EXPECT_EQ(again->runtime_dir, config.runtime_dir);
  EXPECT_TRUE(again->ftiff.layout_a && again->ftiff.exact && !again->ftiff.differential);
  EXPECT_EQ(again->cache.bytes_max, config.cache.bytes_max);
  EXPECT_EQ(again->cache.node, "node7");
  EXPECT_EQ(again->lease.term_ms, 90'000u);
  EXPECT_FALSE(again->cache.take) << "a file must not take caches, start by start";
}

TEST(ConfigTest, ANameOfAnEarlierVersionIsTakenWithAWarning) {
  const auto old = ParseConfig("x.toml", "[flush]\nevery = 3\nbeside_captures = \"2MB/s\"\n", Config());
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ(old->background.beside_captures, 2'000'000u);
  EXPECT_EQ(old->flush.every, 3u);
  EXPECT_THAT(old->warnings, ElementsAre("flush.beside_captures is an old name of background.beside_captures, which "
                                         "counts where both are given"));
  const std::string new_one = "[background]\nbeside_captures = \"3MB/s\"\n";
  const std::string old_one = "[flush]\nbeside_captures = \"2MB/s\"\n";
  for (const std::string& both : {new_one + old_one, old_one + new_one}) {
    const auto config = ParseConfig("x.toml", both, Config());
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->background.beside_captures, 3'000'000u);
    EXPECT_EQ(config->warnings.size(), 1u);
  }
  EXPECT_THAT(ParseConfig("x.toml", new_one, Config())->warnings, IsEmpty());
  EXPECT_THAT(ErrorOf("[flush]\nbeside_captures = true\n"),
              HasSubstr("x.toml:2: flush.beside_captures: expected a rate such as"));
  const auto small = ParseConfig("x.toml", "[flush]\nbeside_captures = \"500kB/s\"\n", Config());
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ(small->background.beside_captures, 1'000'000u);
  EXPECT_THAT(small->warnings.back(), HasSubstr("500KB/s is raised to 1MB/s"));
  Config flags;
  EXPECT_TRUE(SetConfigField(flags, "flush.beside_captures", "4MB/s").ok());
  EXPECT_EQ(flags.background.beside_captures, 4'000'000u);
  EXPECT_EQ(flags.warnings.size(), 1u);
}

TEST(ConfigTest, TheBackgroundsRateHasAMinimum) {
  EXPECT_EQ(ErrorOf("[background]\nbeside_captures = \"999 kB/s\"\n"),
            "x.toml:2: background.beside_captures: 999 kB/s is less than 1MB/s; 0: no limit");
  for (const char* const rate : {"0", "1 MB/s"}) {
    const auto config = ParseConfig("x.toml", fmt::format("[background]\nbeside_captures = \"{}\"\n", rate), Config());
    EXPECT_TRUE(config.ok()) << config.status();
  }
}

TEST(ConfigTest, UnknownKeysAreErrorsNamingFileLineAndKey) {
  EXPECT_EQ(ErrorOf("log_level = \"info\"\n[flush]\n\nevrey = 2\n"), "x.toml:4: flush.evrey: unknown key");
  EXPECT_EQ(ErrorOf("[flash]\nevery = 2\n"), "x.toml:1: flash: unknown section");
  EXPECT_EQ(ErrorOf("[flush.deep]\nevery = 2\n"), "x.toml:1: flush.deep: unknown section");
}

TEST(ConfigTest, AllErrorsOfAFileComeAtOnce) {
  const std::string error = ErrorOf("a = 1\nthreads = \"two\"\n[cache]\nkeep = -1\nbytes_max = \"7 parsecs\"\n");
  EXPECT_THAT(error, HasSubstr("x.toml:1: a: unknown key"));
  EXPECT_THAT(error, HasSubstr("x.toml:2: threads: expected number"));
  EXPECT_THAT(error, HasSubstr("x.toml:4: cache.keep: \"-1\" is not a number"));
  EXPECT_THAT(error, HasSubstr("x.toml:5: cache.bytes_max: \"7 parsecs\": unknown unit \"parsecs\""));
}

TEST(ConfigTest, WrongTypesUnitsAndRangesAreRefused) {
  EXPECT_THAT(ErrorOf("flush = 3"), HasSubstr("x.toml:1: flush: unknown key"));
  EXPECT_THAT(ErrorOf("[flush]\nparallel = 0"), HasSubstr("0 is not in 1..64"));
  EXPECT_THAT(ErrorOf("[flush]\nevery = 4294967296"), HasSubstr("flush.every"));
  EXPECT_THAT(ErrorOf("[flush]\nretry_min = 30"), HasSubstr("unit"));
  EXPECT_THAT(ErrorOf("[flush]\nretry_min = 1.5"), HasSubstr("expected a duration such as \"30s\""));
  EXPECT_THAT(ErrorOf("[flush]\nsuperseded = \"maybe\""), HasSubstr("neither skip nor keep"));
  EXPECT_THAT(ErrorOf("[cache]\ndirect = \"yes\""), HasSubstr("expected true|false"));
  EXPECT_THAT(ErrorOf("log_level = 3"), HasSubstr("expected text"));
}

TEST(ConfigTest, TheFilesFormatIsChosenByWords) {
  EXPECT_FALSE(Config().ftiff.layout_a);
  EXPECT_FALSE(Config().ftiff.exact);
  EXPECT_TRUE(Config().ftiff.differential);
  const auto config =
      ParseConfig("x.toml", "[ftiff]\nlayout = \"A\"\npacking = \"exact\"\ndifferential = false\n", Config());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->ftiff.layout_a);
  EXPECT_TRUE(config->ftiff.exact);
  EXPECT_FALSE(config->ftiff.differential);
  EXPECT_EQ(ErrorOf("[ftiff]\nlayout = \"E\"\n"), "x.toml:2: ftiff.layout: \"E\" is neither F nor A");
  EXPECT_EQ(ErrorOf("[ftiff]\npacking = true\n"), "x.toml:2: ftiff.packing: expected aligned|exact");
  EXPECT_EQ(ErrorOf("[ftiff]\ndifferential = \"F\"\n"), "x.toml:2: ftiff.differential: expected true|false");
}

TEST(ConfigTest, TheTermOfALeaseIsASecondToADay) {
  EXPECT_EQ(Config().lease.term_ms, 120'000u);
  for (const char* term : {"1s", "24h"}) {
    EXPECT_TRUE(ParseConfig("x.toml", fmt::format("[lease]\nterm = \"{}\"\n", term), Config()).ok()) << term;
  }
  EXPECT_EQ(ErrorOf("[lease]\nterm = \"999ms\"\n"), "x.toml:2: lease.term: 999ms is not in 1s..1d");
  EXPECT_EQ(ErrorOf("[lease]\nterm = \"25h\"\n"), "x.toml:2: lease.term: 25h is not in 1s..1d");
}

TEST(ConfigTest, PeersAreCheckedByThemselvesAndTogether) {
  const auto error = [](const std::string& section) {
    const auto config = ParseConfig("x.toml", "[peers]\n" + section, Resolved());
    EXPECT_TRUE(config.ok()) << config.status();
    return std::string(MessageOf(ValidateConfig(*config)));
  };
  EXPECT_EQ(Config().peers.term_ms, 12'000u);
  EXPECT_EQ(error(""), "");
  EXPECT_EQ(error("interface = \"ib0\"\nports = \"5000\"\nmunge = \"require\"\nexplicit = \"10.0.0.7:1, [::1]:2\"\n"),
            "");
  EXPECT_THAT(error("ports = \"9-8\""), HasSubstr("peers.ports: '9-8' is no range of ports"));
  EXPECT_THAT(error("munge = \"maybe\""), HasSubstr("peers.munge: \"maybe\" is none of auto, require, off"));
  EXPECT_THAT(error("interface = \"ib0\"\nexplicit = \"node7\""), HasSubstr("peers.explicit: 'node7' is no address"));
  EXPECT_THAT(error("explicit = \"10.0.0.7:1\""), HasSubstr("needs peers.interface"));
  EXPECT_THAT(error("interface = \"ib 0\""), HasSubstr("peers.interface: neither"));
  EXPECT_THAT(error("tls_ca = \"/ca.pem\""), HasSubstr("all three or none"));
  EXPECT_THAT(error("tls_ca = \"ca.pem\""), HasSubstr("not an absolute path"));
  EXPECT_EQ(ErrorOf("[peers]\nterm = \"999ms\"\n"), "x.toml:2: peers.term: 999ms is not in 1s..10min");
  EXPECT_EQ(ErrorOf("[peers]\nterm = \"11min\"\n"), "x.toml:2: peers.term: 11min is not in 1s..10min");
}

TEST(ConfigTest, TheBackgroundsPriorityIsOneOfTheKernels) {
  const auto error = [](const std::string& priority) {
    const auto config = ParseConfig("x.toml", "[background]\nio_priority = \"" + priority + "\"\n", Resolved());
    EXPECT_TRUE(config.ok()) << config.status();
    return std::string(MessageOf(ValidateConfig(*config)));
  };
  for (const char* priority : {"none", "idle", "best-effort:0", "best-effort:7"}) EXPECT_EQ(error(priority), "");
  EXPECT_EQ(error("first"), "background.io_priority: \"first\" is none of none, idle, best-effort:0 to best-effort:7");
}

TEST(ConfigTest, RedundancyIsCheckedByItselfAndTogether) {
  const auto error = [](const std::string& section) {
    const auto config = ParseConfig("x.toml", "[redundancy]\n" + section, Resolved());
    EXPECT_TRUE(config.ok()) << config.status();
    return std::string(MessageOf(ValidateConfig(*config)));
  };
  EXPECT_EQ(Config().redundancy.scheme, "single");
  for (const char* scheme : {"single", "partner", "xor", "rs", "xor:7+1", "rs:4+2", "rs:62+2"}) {
    EXPECT_EQ(error(fmt::format("scheme = \"{}\"\n", scheme)), "");
  }
  EXPECT_THAT(error("scheme = \"raid6\""), HasSubstr("redundancy.scheme: 'raid6' is none of single, partner, xor, rs"));
  EXPECT_THAT(error("scheme = \"rs:4\""), HasSubstr("redundancy.scheme: 'rs:4': behind the colon"));
  EXPECT_THAT(error("scheme = \"rs:63+2\""), HasSubstr("redundancy.scheme: redundancy scheme rs: sets of 65 members"));
  EXPECT_EQ(error("scheme = \"rs:2+2\"\nmembers = 2\nchecksums = 4"), "");  // it says all of that itself
  EXPECT_THAT(error("scheme = \"rs\"\nmembers = 4\nchecksums = 4"),
              HasSubstr("redundancy.checksums: 4 of the 4 members"));
  EXPECT_EQ(error("scheme = \"xor\"\nmembers = 2\nchecksums = 4"), "");
  EXPECT_THAT(error("group = \"rack 7\""), HasSubstr("redundancy.group: a name without spaces"));
}

TEST(ConfigTest, TakingACacheIsNoKeyOfTheFile) {
  EXPECT_EQ(ErrorOf("[cache]\ntake = true\n"), "x.toml:2: cache.take: unknown key");
}

TEST(ConfigTest, WhatIsNotTomlNamesLineAndColumn) {
  EXPECT_THAT(ErrorOf("a = 1\nb = ]"), HasSubstr("x.toml:2:"));
}

TEST(ConfigTest, AMissingFileIsNotFound) {
  EXPECT_EQ(LoadConfigFile("/nonexistent/cairnd.toml", Config()).status().code(), absl::StatusCode::kNotFound);
}

TEST(ConfigTest, AnEndlessFileIsRefused) {
  EXPECT_EQ(LoadConfigFile("/dev/zero", Config()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ConfigTest, EveryFieldCanBeSetFromText) {
  for (const ConfigFieldInfo& info : ConfigFields()) {
    Config config;
    std::string value = info.value;
    if (value.starts_with('"')) value = value.substr(1, value.size() - 2);
    EXPECT_TRUE(SetConfigField(config, info.key, value).ok()) << info.key;
    EXPECT_EQ(PrintConfig(config), PrintConfig(Config())) << info.key;
    EXPECT_FALSE(info.help.empty()) << info.key;
  }
  Config config;
  EXPECT_EQ(SetConfigField(config, "flush", "1").code(), absl::StatusCode::kNotFound);
}

TEST(ConfigTest, FieldsAreCheckedAgainstEachOther) {
  EXPECT_TRUE(ValidateConfig(Resolved()).ok());
  const auto error_after = [](void (*change)(Config&)) {
    Config config = Resolved();
    change(config);
    return std::string(MessageOf(ValidateConfig(config)));
  };
  EXPECT_THAT(error_after([](Config& c) { c.runtime_dir = "relative"; }), HasSubstr("runtime_dir"));
  EXPECT_THAT(error_after([](Config& c) { c.runtime_dir = "/" + std::string(100, 'x'); }), HasSubstr("sockets"));
  EXPECT_THAT(error_after([](Config& c) { c.cache.path = "relative"; }), HasSubstr("cache.path"));
  EXPECT_THAT(error_after([](Config& c) { c.flush.retry_ms_min = c.flush.retry_ms_max + 1; }), HasSubstr("retry_min"));
  EXPECT_THAT(error_after([](Config& c) { c.log_level = "loud"; }), HasSubstr("log_level"));
  EXPECT_EQ(error_after([](Config& c) { c.cache.write_bytes = c.cache.read_bytes = 256 << 10; }), "");
  EXPECT_EQ(error_after([](Config& c) { c.cache.write_bytes = c.cache.read_bytes = 16 << 20; }), "");
  EXPECT_THAT(error_after([](Config& c) { c.cache.write_bytes = 3 << 20; }), HasSubstr("cache.write_bytes: 3MiB"));
  EXPECT_THAT(error_after([](Config& c) { c.cache.read_bytes = 4096; }), HasSubstr("cache.read_bytes: 4KiB"));
  EXPECT_THAT(error_after([](Config& c) { c.cache.read_bytes = 1ull << 40; }), HasSubstr("cache.read_bytes: 1TiB"));
  EXPECT_EQ(error_after([](Config& c) { c.cache.node = std::string(64, 'n'); }), "");
  EXPECT_THAT(error_after([](Config& c) { c.cache.node = std::string(65, 'n'); }), HasSubstr("cache.node: longer"));
  EXPECT_THAT(error_after([](Config& c) { c.cache.node = "node\n7"; }), HasSubstr("cache.node: contains"));
}

TEST(ConfigTest, TcpNeedsTlsOrLoopbackByName) {
  const auto listen = [](std::string address, bool loopback, bool tls) {
    Config config = Resolved();
    config.ingest.listen = address;
    config.ingest.insecure_loopback = loopback;
    if (tls) config.ingest.tls_ca = config.ingest.tls_cert = config.ingest.tls_key = "/x.pem";
    return std::string(MessageOf(ValidateConfig(config)));
  };
  EXPECT_EQ(listen("0.0.0.0:7000", false, true), "");
  EXPECT_EQ(listen("127.0.0.1:7000", true, false), "");
  EXPECT_EQ(listen("[::1]:0", true, false), "");
  EXPECT_EQ(listen("127.0.0.1:7000-7010", true, false), "");
  EXPECT_EQ(listen("0.0.0.0:7000", false, false), "") << "with keys of its own";
  EXPECT_THAT(listen("10.0.0.1:7000", true, false), HasSubstr("loopback"));
  EXPECT_THAT(listen("127.evil.example:7000", true, false), HasSubstr("loopback"));
  EXPECT_THAT(listen("10.0.0.1:7000", true, true), HasSubstr("contradicts"));
  EXPECT_THAT(listen("10.0.0.1", false, true), HasSubstr("host:port"));
  EXPECT_THAT(listen("10.0.0.1:70000", false, true), HasSubstr("host:port"));
  Config some = Resolved();
  some.ingest.listen = "10.0.0.1:1";
  some.ingest.tls_ca = "/x";
  EXPECT_THAT(std::string(MessageOf(ValidateConfig(some))), HasSubstr("all three"));
  some.ingest.tls_ca = "";
  for (const char* name : {"node7.example.org", "10.0.0.7", "[fd00::7]"}) {
    some.ingest.name = name;
    EXPECT_EQ(MessageOf(ValidateConfig(some)), "") << name;
  }
  for (const char* name : {"node7:7000", "fd00::7", "a b", "grpc://node7", "a\nb"}) {
    some.ingest.name = name;
    EXPECT_THAT(std::string(MessageOf(ValidateConfig(some))), HasSubstr("ingest.name")) << name;
  }
}

TEST(ConfigTest, WorkersGroupsAreNamedOrNot) {
  Config config = Resolved();
  for (const char* good : {"auto", "off", "/cairn", "/system.slice/cairn"}) {
    config.supervisor.cgroup = good;
    EXPECT_TRUE(ValidateConfig(config).ok()) << good;
  }
  for (const char* bad : {"", "cairn", "/", "/cairn/", "/a/../b", "/.."}) {
    config.supervisor.cgroup = bad;
    EXPECT_THAT(std::string(MessageOf(ValidateConfig(config))), HasSubstr("supervisor.cgroup")) << bad;
  }
}

TEST(ConfigTest, ClientsAreToldInAFolderOrAtHome) {
  Config config = Resolved();
  config.ingest.listen = "0.0.0.0:7100";
  for (const char* good : {"", "~", "/home/shared"}) {
    config.ingest.announce = good;
    EXPECT_EQ(MessageOf(ValidateConfig(config)), "") << good;
  }
  for (const char* bad : {"home", "~alice", "~/x"}) {
    config.ingest.announce = bad;
    EXPECT_THAT(std::string(MessageOf(ValidateConfig(config))), HasSubstr("ingest.announce")) << bad;
  }
}

TEST(ConfigTest, SharesAreOfUsersThatAreNamed) {
  Config config = Resolved();
  config.supervisor.shares_of = "alice=10,bob=2";
  EXPECT_TRUE(ValidateConfig(config).ok());
  config.supervisor.shares_of = "alice=ten";
  EXPECT_THAT(std::string(MessageOf(ValidateConfig(config))), HasSubstr("supervisor.shares_of"));
}

TEST(ConfigTest, EmptyPathsAreFoundFromTheSurroundings) {
  Config config;
  ResolvePaths(config, With({{"XDG_RUNTIME_DIR", "/run/user/7"}, {"CAIRN_CACHE", "/ssd"}}, 7));
  EXPECT_EQ(config.runtime_dir, "/run/user/7/cairn");
  EXPECT_EQ(config.cache.path, "/ssd");

  config = Config();
  ResolvePaths(config, With({}, 0));
  EXPECT_EQ(config.runtime_dir, "/run/cairn");
  EXPECT_EQ(config.cache.path, "/var/tmp/cairn-0/cache");

  config = Config();
  ResolvePaths(config, With({{"XDG_RUNTIME_DIR", "/run/user/0"}, {"CAIRN_CACHE", "/ssd"}}, 0), Serves::kAllUsers);
  EXPECT_EQ(config.runtime_dir, "/run/cairn");
  EXPECT_EQ(config.cache.path, "/var/cache/cairn");

  config = Config();
  config.cache.path = "/given";
  ResolvePaths(config, With({{"CAIRN_CACHE", "/ssd"}}, 7));
  EXPECT_EQ(config.runtime_dir, "/tmp/cairn-7");
  EXPECT_EQ(config.cache.path, "/given");
}

}  // namespace
}  // namespace cairn

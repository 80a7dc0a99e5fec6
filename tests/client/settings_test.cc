// From options and environment to settings: the table of cairn_options in cairn.h, row by row.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "client/library/redundancy.h"
#include "client/library/settings.h"

namespace {

using Environment = std::map<std::string, std::string>;

const char* Lookup(void* context, const char* name) {
  const auto& environment = *static_cast<const Environment*>(context);
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : found->second.c_str();
}

class SettingsTest : public testing::Test {
 protected:
  SettingsTest() {
    std::string pattern = testing::TempDir() + "/settings.XXXXXX";
    temporary_ = mkdtemp(pattern.data());
    environment_["CAIRN_PREFIX"] = "/scratch/run";
  }
  ~SettingsTest() override {
    lc_settings_free(&settings_);
    std::filesystem::remove_all(temporary_);
  }

  int Resolve() {
    lc_settings_free(&settings_);
    const lc_surroundings surroundings = {
        .variable = Lookup, .context = &environment_, .user = geteuid(), .temporary = temporary_.c_str()};
    why_.text[0] = '\0';
    return lc_settings_resolve(&options_, &surroundings, &settings_, &why_);
  }
  std::vector<std::string> Addresses() const {
    return {settings_.addresses, settings_.addresses + settings_.address_count};
  }
  bool Says(const std::string& text) const { return std::string(why_.text).find(text) != std::string::npos; }

  cairn_options options_ = CAIRN_OPTIONS_INIT;
  Environment environment_;
  std::string temporary_;
  lc_settings settings_ = {};
  lc_why why_ = {};
};

TEST_F(SettingsTest, ThePrefixIsTheOptionsElseTheVariables) {
  ASSERT_EQ(Resolve(), CAIRN_OK) << why_.text;
  EXPECT_STREQ(settings_.prefix, "/scratch/run");
  options_.prefix = "/other";
  ASSERT_EQ(Resolve(), CAIRN_OK);
  EXPECT_STREQ(settings_.prefix, "/other");
}

TEST_F(SettingsTest, WithoutAPrefixItSaysWhatToSet) {
  environment_.clear();
  EXPECT_EQ(Resolve(), CAIRN_INVALID_ARGUMENT);
  EXPECT_TRUE(Says("CAIRN_PREFIX")) << why_.text;
}

TEST_F(SettingsTest, ARelativePrefixIsMadeAbsolute) {
  options_.prefix = "run";
  ASSERT_EQ(Resolve(), CAIRN_OK);
  EXPECT_EQ(std::string(settings_.prefix), std::filesystem::current_path().string() + "/run");
}

TEST_F(SettingsTest, TextThatNoMessageCarriesIsRefused) {
  options_.prefix = "/bad\xff";
  EXPECT_EQ(Resolve(), CAIRN_INVALID_ARGUMENT);
  options_.prefix = nullptr;
  options_.launch = "\xc3";
  EXPECT_EQ(Resolve(), CAIRN_INVALID_ARGUMENT);
}

TEST_F(SettingsTest, AloneItIsRankZeroOfOneWithADefaultDeadline) {
  ASSERT_EQ(Resolve(), CAIRN_OK);
  EXPECT_EQ(settings_.rank, 0u);
  EXPECT_EQ(settings_.nranks, 1u);
  EXPECT_EQ(settings_.deadline_ms, 120000u);
  EXPECT_FALSE(settings_.takeover);
}

TEST_F(SettingsTest, ThreadsThatCopyAreOneUnlessAskedFor) {
  ASSERT_EQ(Resolve(), CAIRN_OK);
  EXPECT_EQ(settings_.copy_threads, 1u);
  environment_["CAIRN_COPY_THREADS"] = "64";
  ASSERT_EQ(Resolve(), CAIRN_OK);
  EXPECT_EQ(settings_.copy_threads, 64u);
  for (const char* const wrong : {"0", "65", "-1", "two", "4x"}) {
    environment_["CAIRN_COPY_THREADS"] = wrong;
    EXPECT_EQ(Resolve(), CAIRN_INVALID_ARGUMENT) << wrong;
    EXPECT_TRUE(Says("CAIRN_COPY_THREADS")) << why_.text;
  }
}

TEST_F(SettingsTest, OptionsWinOverEveryVariable) {
  environment_.insert({{"CAIRN_RANK", "1"}, {"CAIRN_NRANKS", "2"}, {"CAIRN_LAUNCH", "other"}});
  options_.rank = 3;
  options_.nranks = 5;
  options_.launch = "mine";
  options_.takeover = 1;
  options_.deadline_ms = 7;
  ASSERT_EQ(Resolve(), CAIRN_OK);
  EXPECT_EQ(settings_.rank, 3u);
  EXPECT_EQ(settings_.nranks, 5u);
  EXPECT_STREQ(settings_.launch_key, "mine");
  EXPECT_TRUE(settings_.takeover);
  EXPECT_EQ(settings_.deadline_ms, 7u);
}

struct RankCase {
  const char* name;
  Environment environment;
  std::uint32_t rank, nranks;
};

TEST_F(SettingsTest, RanksComeFromTheFirstLauncherInTheTable) {
  const Environment slurm = {{"SLURM_PROCID", "4"}, {"SLURM_NTASKS", "9"}, {"SLURM_STEP_ID", "0"}};
  Environment open_mpi = slurm, pmix, cairn;
  open_mpi.insert({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "8"}});
  pmix = open_mpi;
  pmix.insert({"PMIX_RANK", "2"});
  cairn = pmix;
  cairn.insert({{"CAIRN_RANK", "1"}, {"CAIRN_NRANKS", "7"}});
  Environment empty = slurm;
  empty.insert({{"CAIRN_RANK", ""}, {"OMPI_COMM_WORLD_SIZE", ""}});
  Environment batch = slurm;
  batch.erase("SLURM_STEP_ID");
  const RankCase cases[] = {
      {"Slurm", slurm, 4, 9},           {"Open MPI before Slurm", open_mpi, 3, 8},
      {"PMIx before both", pmix, 2, 8}, {"Cairn's own before all", cairn, 1, 7},
      {"empty is unset", empty, 4, 9},  {"a batch script is no task", batch, 0, 1},
  };
  for (const RankCase& one : cases) {
    environment_ = one.environment;
    environment_.insert({{"CAIRN_PREFIX", "/p"}, {"CAIRN_LAUNCH", "key"}});
    ASSERT_EQ(Resolve(), CAIRN_OK) << one.name << ": " << why_.text;
    EXPECT_EQ(settings_.rank, one.rank) << one.name;
    EXPECT_EQ(settings_.nranks, one.nranks) << one.name;
  }
}

TEST_F(SettingsTest, NumbersThatAreNoneAreNamed) {
  for (const char* text : {"x", "1x", "-1", "99999999999999999999", "1048577"}) {
    environment_["CAIRN_RANK"] = text;
    EXPECT_EQ(Resolve(), CAIRN_INVALID_ARGUMENT) << text;
    EXPECT_TRUE(Says("CAIRN_RANK")) << why_.text;
  }
}

TEST_F(SettingsTest, ARankBeyondTheLastIsRefused) {
  options_.rank = 2;
  options_.nranks = 2;
  options_.launch = "key";
  EXPECT_EQ(Resolve(), CAIRN_INVALID_ARGUMENT);
  EXPECT_TRUE(Says("rank 2 of 2")) << why_.text;
}

struct KeyCase {
  const char* name;
  Environment environment;
  const char* key;
};

TEST_F(SettingsTest, TheLaunchKeyComesFromTheFirstLauncherInTheTable) {
  const Environment slurm = {{"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "3"}};
  Environment restarted = slurm, pmix = slurm, open_mpi, job, cairn;
  restarted.insert({"SLURM_RESTART_COUNT", "2"});
  pmix.insert({"PMIX_NAMESPACE", "slurm.pmix.77.3"});
  open_mpi.insert({{"OMPI_MCA_ess_base_jobid", "42"}, {"OMPI_MCA_orte_hnp_uri", "42.0;tcp://h:1"}});
  job = {{"PMIX_NAMESPACE", "ns"}, {"PMIX_JOBID", "j"}};
  cairn = pmix;
  cairn.insert({"CAIRN_LAUNCH", "mine"});
  const KeyCase cases[] = {
      {"Slurm", slurm, "slurm:77.3.0"},
      {"Slurm, requeued", restarted, "slurm:77.3.2"},
      {"PMIx under Slurm", pmix, "pmix:slurm.pmix.77.3::77::"},
      {"PMIx with a job id", job, "pmix:ns:j:::"},
      {"Open MPI without PMIx", open_mpi, "ompi:42::::42.0;tcp://h:1"},
      {"Cairn's own", cairn, "mine"},
  };
  for (const KeyCase& one : cases) {
    environment_ = one.environment;
    environment_["CAIRN_PREFIX"] = "/p";
    ASSERT_EQ(Resolve(), CAIRN_OK) << one.name << ": " << why_.text;
    EXPECT_STREQ(settings_.launch_key, one.key) << one.name;
  }
}

TEST_F(SettingsTest, OneRankWithoutAKeyGetsARandomOne) {
  ASSERT_EQ(Resolve(), CAIRN_OK);
  const std::string first = settings_.launch_key;
  ASSERT_EQ(Resolve(), CAIRN_OK);
  EXPECT_NE(first, settings_.launch_key);
}

TEST_F(SettingsTest, MoreRanksWithoutAKeyAreToldWhatToSet) {
  options_.rank = 0;
  options_.nranks = 2;
  EXPECT_EQ(Resolve(), CAIRN_INVALID_ARGUMENT);
  EXPECT_TRUE(Says("CAIRN_LAUNCH")) << why_.text;
}

TEST_F(SettingsTest, AGivenAddressIsTheOnlyOne) {
  environment_["CAIRN_ADDRESS"] = "unix:/a";
  ASSERT_EQ(Resolve(), CAIRN_OK);
  EXPECT_EQ(Addresses(), std::vector<std::string>{"unix:/a"});
  options_.address = "grpc://host:1";
  ASSERT_EQ(Resolve(), CAIRN_OK);
  EXPECT_EQ(Addresses(), std::vector<std::string>{"grpc://host:1"});
}

TEST_F(SettingsTest, WhereDaemonsTellOfThemselvesIsTheRunsFolderUnlessAnotherIsNamed) {
  options_.address = "grpc+run:/home/me";
  ASSERT_EQ(Resolve(), CAIRN_OK);
  EXPECT_EQ(Addresses(), std::vector<std::string>{"grpc+run:/home/me"});
  options_.address = "grpc+run:";
  options_.prefix = "/scratch/run7";
  ASSERT_EQ(Resolve(), CAIRN_OK);
  EXPECT_EQ(Addresses(), std::vector<std::string>{"grpc+run:/scratch/run7"});
}

TEST_F(SettingsTest, AnAddressOfNoKnownKindIsRefused) {
  for (const char* address : {"/a/path", "unix:", "tcp:host", "grpc:host", "grpc://", "grpc+unix:"}) {
    options_.address = address;
    EXPECT_EQ(Resolve(), CAIRN_INVALID_ARGUMENT) << address;
  }
}

TEST_F(SettingsTest, WithoutAnAddressTheUsualSocketsAreTriedInOrder) {
  environment_["XDG_RUNTIME_DIR"] = "/run/user/7";
  ASSERT_EQ(Resolve(), CAIRN_OK);
  EXPECT_EQ(Addresses(),
            (std::vector<std::string>{"unix:/run/user/7/cairn/cairnd.sock", "unix:/run/cairn/cairnd.sock"}));
}

TEST_F(SettingsTest, AFolderInTmpCountsOnlyIfItIsTheUsersAndClosedToOthers) {
  const std::string folder = temporary_ + "/cairn-" + std::to_string(geteuid());
  const std::string last = "unix:" + folder + "/cairnd.sock";
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  ASSERT_EQ(Resolve(), CAIRN_OK);
  // Before the one of all users.
  EXPECT_EQ(Addresses(), (std::vector<std::string>{last, "unix:/run/cairn/cairnd.sock"}));
  for (const mode_t mode : {0755, 0770, 0701, 01700}) {
    ASSERT_EQ(chmod(folder.c_str(), mode), 0);
    ASSERT_EQ(Resolve(), CAIRN_OK);
    EXPECT_EQ(Addresses(), std::vector<std::string>{"unix:/run/cairn/cairnd.sock"}) << std::oct << mode;
  }
  ASSERT_EQ(rmdir(folder.c_str()), 0);
  const std::string real = temporary_ + "/elsewhere";
  ASSERT_EQ(mkdir(real.c_str(), 0700), 0);
  ASSERT_EQ(symlink(real.c_str(), folder.c_str()), 0);
  ASSERT_EQ(Resolve(), CAIRN_OK);
  EXPECT_EQ(Addresses(), std::vector<std::string>{"unix:/run/cairn/cairnd.sock"}) << "through a link";
}

TEST_F(SettingsTest, AStructOfANewerHeaderIsTakenIfWhatIsNewInItIsZero) {
  struct Newer {
    cairn_options known;
    std::uint64_t unknown;
  } newer = {CAIRN_OPTIONS_INIT, 0};
  newer.known.struct_size = sizeof newer;
  newer.known.prefix = "/newer";
  const lc_surroundings surroundings = {
      .variable = Lookup, .context = &environment_, .user = geteuid(), .temporary = temporary_.c_str()};
  ASSERT_EQ(lc_settings_resolve(&newer.known, &surroundings, &settings_, &why_), CAIRN_OK) << why_.text;
  EXPECT_STREQ(settings_.prefix, "/newer");
  lc_settings_free(&settings_);
  newer.unknown = 1;
  EXPECT_EQ(lc_settings_resolve(&newer.known, &surroundings, &settings_, &why_), CAIRN_INVALID_ARGUMENT);
}

TEST_F(SettingsTest, AStructTooSmallToBeOneIsRefused) {
  for (const std::size_t size : {std::size_t{0}, offsetof(cairn_options, observer) - 1}) {
    options_.struct_size = size;
    EXPECT_EQ(Resolve(), CAIRN_INVALID_ARGUMENT) << size;
    EXPECT_TRUE(Says("CAIRN_OPTIONS_INIT")) << why_.text;
  }
}

TEST_F(SettingsTest, ProgramsBuiltBeforeThereWereObserversGiveNoSuchOption) {
  options_.struct_size = offsetof(cairn_options, observer);
  options_.observer = 1;  // whatever lies behind their struct
  ASSERT_EQ(Resolve(), CAIRN_OK) << why_.text;
  EXPECT_FALSE(settings_.observer);
}

TEST_F(SettingsTest, AnObserverNeedsNeitherRankNorLaunch) {
  environment_["CAIRN_RANK"] = "nonsense";
  environment_["CAIRN_CHECKPOINT_EVERY"] = "nonsense";
  environment_["CAIRN_REDUNDANCY"] = "nonsense";
  options_.nranks = 17;
  options_.launch = nullptr;
  options_.observer = 1;
  ASSERT_EQ(Resolve(), CAIRN_OK) << why_.text;
  EXPECT_TRUE(settings_.observer);
  EXPECT_EQ(settings_.launch_key, nullptr);
}

TEST_F(SettingsTest, TheSchemeOfRedundancyIsTheVariables) {
  ASSERT_EQ(Resolve(), CAIRN_OK) << why_.text;
  EXPECT_EQ(settings_.scheme.kind, LC_SCHEME_NOT_GIVEN);
  environment_["CAIRN_REDUNDANCY"] = "";
  ASSERT_EQ(Resolve(), CAIRN_OK) << why_.text;
  EXPECT_EQ(settings_.scheme.kind, LC_SCHEME_NOT_GIVEN);
  for (const char* name : {"single", "partner", "xor", "rs"}) {
    environment_["CAIRN_REDUNDANCY"] = name;
    ASSERT_EQ(Resolve(), CAIRN_OK) << why_.text;
    EXPECT_NE(settings_.scheme.kind, LC_SCHEME_NOT_GIVEN);
    EXPECT_EQ(settings_.scheme.members, 0u) << name;
  }
  environment_["CAIRN_REDUNDANCY"] = "nonsense";
  EXPECT_EQ(Resolve(), CAIRN_INVALID_ARGUMENT);
  EXPECT_TRUE(Says("CAIRN_REDUNDANCY")) << why_.text;
}

TEST_F(SettingsTest, NoOptionsAtAllAreTheDefaults) {
  const lc_surroundings surroundings = {
      .variable = Lookup, .context = &environment_, .user = geteuid(), .temporary = temporary_.c_str()};
  EXPECT_EQ(lc_settings_resolve(nullptr, &surroundings, &settings_, &why_), CAIRN_OK) << why_.text;
}

}  // namespace

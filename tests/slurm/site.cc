#include "tests/slurm/site.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <utility>

#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace cairn::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct User {
  const char* name;
  int id;
};
constexpr User kUsers[] = {{"alice", 2001}, {"bob", 2002}};

std::string Read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void Write(const std::string& path, const std::string& text, fs::perms mode = fs::perms(0644)) {
  std::ofstream(path, std::ios::trunc) << text;
  fs::permissions(path, mode);
}

Process::Options Shell(std::vector<std::string> before, const std::string& line) {
  before.insert(before.end(), {"sh", "-c", line});
  return {.arguments = std::move(before), .environment = {}, .working_directory = "/"};
}

std::string Line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

absl::Status CheckMachine() {
  if (::geteuid() != 0) return FailedPrecondition("only root can run Slurm's daemons for several users");
  for (const char* program : {"/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/sbatch", "/usr/sbin/munged"}) {
    if (::access(program, X_OK) != 0) return FailedPrecondition("{} is not installed (deploy/packages.sh)", program);
  }
  return absl::OkStatus();
}

// $: the site's folder.
constexpr char kSlurmConf[] = R"(ClusterName=tests
SlurmctldHost=n1(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/run/munge/socket,cred_expire=5
StateSaveLocation=@SITE@/state
SlurmdSpoolDir=@SITE@/spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=@SITE@/slurmctld.log
SlurmdLogFile=@SITE@/log/slurmd.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
DebugFlags=BurstBuffer
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0,nohold_on_prolog_fail
SlurmctldParameters=preempt_send_user_signal
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=2
SlurmdTimeout=8
ReturnToService=2
MessageTimeout=10
InactiveLimit=0
UnkillableStepTimeout=10
JobRequeue=1
Prolog=@SITE@/prolog
Epilog=@SITE@/epilog
TaskProlog=@SITE@/cairn/lib/cairn/slurm/task_prolog
BurstBufferType=burst_buffer/lua
NodeName=n[2-5] CPUs=4 RealMemory=1000
PartitionName=work Nodes=n[2-5] Default=YES PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
PartitionName=idle Nodes=n[2-5] PriorityTier=1 GraceTime=20 MaxTime=INFINITE State=UP
)";

constexpr char kDaemonConf[] = R"(log_file = "@SITE@/log/cairnd.log"
[cache]
path = "@SITE@/cache"
bytes_max = "512MiB"
[image]
bytes_max = "128MiB"
[peers]
interface = "eth0"
term = "2s"
[flush]
every = 0
)";

// As Slurm runs the real one, with the time that it has taken.
constexpr char kTimed[] = R"(#!/bin/bash
begin=$EPOCHREALTIME
@SITE@/cairn/lib/cairn/slurm/@NAME@
code=$?
end=$EPOCHREALTIME
echo "@NAME@ $(((${end/./} - ${begin/./}) / 1000)) ms, job $SLURM_JOB_ID, exit $code" >>@SITE@/log/times
exit $code
)";

}  // namespace

bool Within(const std::function<bool()>& holds, seconds deadline) {
  const auto end = SteadyNow() + deadline;
  while (!holds()) {
    if (SteadyNow() >= end) return false;
    SleepFor(milliseconds(100));
  }
  return true;
}

absl::StatusOr<std::unique_ptr<SlurmSite>> SlurmSite::Start(const std::string& more) {
  CAIRN_RETURN_IF_ERROR(CheckMachine());
  std::string folder = "/var/tmp/cairn-slurm.XXXXXX";  // jobs may have a /tmp of their own
  if (::mkdtemp(folder.data()) == nullptr) return Unavailable("{}: {}", folder, std::strerror(errno));
  std::unique_ptr<SlurmSite> site(new SlurmSite(folder, more));
  CAIRN_RETURN_IF_ERROR(site->Prepare());
  return site;
}

SlurmSite::~SlurmSite() {
  for (auto& [node, slurmd] : slurmds_) slurmd->Signal(SIGKILL);
  if (controller_) controller_->Signal(SIGKILL);
  slurmds_.clear();
  controller_.reset();
  cluster_.reset();
  slow_.reset();
  munged_.reset();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

absl::Status SlurmSite::Prepare() {
  ::chmod(folder_.c_str(), 0755);
  for (const char* name :
       {"etc/slurm", "etc/cairn", "home", "state", "cache", "spool", "log", "node", "slow/real", "slow/shown"}) {
    fs::create_directories(folder_ + "/" + name);
  }
  CAIRN_RETURN_IF_ERROR(Install());
  // Before the nodes are there, who see what is mounted now.
  auto slow = FuseFolder::Mount(folder_ + "/slow/real", folder_ + "/slow/shown");
  if (!slow.ok()) return slow.status();
  slow_ = *std::move(slow);
  munged_ = Munged::Start(std::string(64, 'k'));
  if (munged_ == nullptr) return Unavailable("munged does not start");
  auto cluster = Cluster::Start({.nodes = kLast});
  if (!cluster.ok() && MaySkip(cluster.status())) return FailedPrecondition("{}", MessageOf(cluster.status()));
  if (!cluster.ok()) return cluster.status();
  cluster_ = *std::move(cluster);
  WriteFiles();
  for (int node = kController; node <= kLast; ++node) CAIRN_RETURN_IF_ERROR(Furnish(node));
  controller_ = cluster_->StartProgram(
      kController,
      Shell({"env", "PATH=" + folder_ + "/cairn/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, "exec slurmctld -D -c"));
  for (int node = kFirst; node <= kLast; ++node) {
    if (!StartDaemon(node) || !StartSlurmd(node)) return Unavailable("n{} does not start", node);
  }
  for (int node = kFirst; node <= kLast; ++node) {
    if (AwaitIdle(node, seconds(60))) continue;
    return Unavailable("n{} is not ready: {}\n{}\n{}", node, NodeState(node), Read(folder_ + "/slurmctld.log"),
                       Read(folder_ + "/node/" + NodeName(node) + "/log/slurmd.log"));
  }
  return absl::OkStatus();
}

absl::Status SlurmSite::Install() {
  const std::string script = DataPath("deploy/install.sh");
  const std::string built = script.substr(0, script.size() - std::string("/deploy/install.sh").size());
  const Ending ending = RunProcess(
      {.arguments = {script, "--built", built, folder_ + "/cairn"}, .environment = {}, .working_directory = built});
  if (ending.exit_code != 0) return Unavailable("deploy/install.sh: {}", ending.output);
  fs::copy_file(DataPath("tests/slurm/solver"), folder_ + "/cairn/bin/solver");
  return absl::OkStatus();
}

void SlurmSite::WriteFiles() {
  const auto fill = [&](std::string text, const std::string& name = "") {
    for (const auto& [word, value] : {std::pair<std::string, std::string>{"@SITE@", folder_}, {"@NAME@", name}}) {
      for (std::size_t at = text.find(word); at != text.npos; at = text.find(word))
        text.replace(at, word.size(), value);
    }
    return text;
  };
  std::string passwd = Read("/etc/passwd"), group = Read("/etc/group");  // the first of a name or id counts
  for (const User& user : kUsers) {
    passwd = fmt::format("{0}:x:{1}:{1}::{2}:/bin/bash\n", user.name, user.id, HomeOf(user.name)) + passwd;
    group = fmt::format("{0}:x:{1}:\n", user.name, user.id) + group;
    fs::create_directories(HomeOf(user.name));
    if (::chown(HomeOf(user.name).c_str(), static_cast<uid_t>(user.id), static_cast<gid_t>(user.id)) != 0) {
      ADD_FAILURE() << std::strerror(errno);
    }
  }
  fs::permissions(folder_ + "/slow/real", fs::perms(01777));
  const std::string etc = folder_ + "/etc";
  Write(etc + "/passwd", passwd);
  Write(etc + "/group", group);
  Write(etc + "/slurm/slurm.conf", fill(kSlurmConf) + more_);
  fs::create_directories(folder_ + "/containers");
  Write(etc + "/slurm/job_container.conf", fill("AutoBasePath=true\nBasePath=@SITE@/containers\n"));
  Write(etc + "/slurm/burst_buffer.conf", "");
  Write(etc + "/slurm/cgroup.conf", "CgroupPlugin=cgroup/v1\n");
  Write(etc + "/slurm/plugstack.conf", "optional " + scripts() + "/cairn_spank.so environment_only\n");
  fs::copy_file(scripts() + "/burst_buffer.lua", etc + "/slurm/burst_buffer.lua");
  Write(etc + "/cairn/cairnd.toml", fill(kDaemonConf));
  for (const char* name : {"prolog", "epilog"}) Write(folder_ + "/" + name, fill(kTimed, name), fs::perms(0755));
  Configure("");
}

absl::Status SlurmSite::Furnish(int node) {
  const Ending ending = cluster_->Run(node, {.arguments = {"sh", DataPath("tests/slurm/node.sh"), folder_,
                                                           NodeName(node), fs::path(munged_->socket()).parent_path()},
                                             .environment = {},
                                             .working_directory = "/"});
  if (ending.exit_code != 0) return FailedPrecondition("n{} cannot be furnished: {}", node, ending.output);
  return absl::OkStatus();
}

Ending SlurmSite::AsRoot(int node, const std::string& line) {
  return cluster_->Run(node, Shell({"env", "PATH=" + folder_ + "/cairn/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, line));
}

Ending SlurmSite::As(const std::string& user, const std::string& line, int node) {
  return cluster_->Run(node,
                       Shell({"setpriv", "--reuid", user, "--regid", user, "--init-groups", "env", "-i", "LANG=C.UTF-8",
                              "PATH=" + folder_ + "/cairn/bin:/usr/bin:/bin", "HOME=" + HomeOf(user), "USER=" + user},
                             "cd && { " + line + "\n}"));
}

int SlurmSite::Submit(const std::string& user, const std::string& what) {
  const Ending ending = As(user, "sbatch --parsable --output=out.%j " + what);
  EXPECT_EQ(ending.exit_code, 0) << what << ": " << ending.output;
  return std::atoi(ending.output.c_str());
}

JobFacts SlurmSite::Job(int job) {
  JobFacts facts;
  std::istringstream words(AsRoot(kController, "scontrol -o show job " + std::to_string(job)).output);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals != word.npos) facts.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return facts;
}

std::string SlurmSite::AwaitState(int job, const std::vector<std::string>& states, seconds deadline) {
  std::string state;
  const auto holds = [&] {
    state = StateOf(job);
    return std::find(states.begin(), states.end(), state) != states.end();
  };
  if (Within(holds, deadline)) return state;
  ADD_FAILURE() << "job " << job << " is " << state << " (" << Job(job)["Reason"] << ")";
  return "";
}

std::string SlurmSite::OutputOf(const std::string& user, int job) const {
  return Read(HomeOf(user) + "/out." + std::to_string(job));
}

std::string SlurmSite::NodeState(int node) {
  return Line(AsRoot(kController, "sinfo --noheader --format=%T --partition=work --nodes=" + NodeName(node)).output);
}

std::string SlurmSite::NodeReason(int node) {
  return Line(AsRoot(kController, "sinfo --noheader --format=%E --partition=work --nodes=" + NodeName(node)).output);
}

bool SlurmSite::AwaitIdle(int node, seconds deadline) {
  return Within([&] { return NodeState(node) == "idle"; }, deadline);
}

// Seen by all nodes at once: /etc/cairn/slurm.conf there is a copy from when the node was furnished, so it names this.
void SlurmSite::Configure(const std::string& slurm_conf_of_cairn) {
  const std::string text =
      "START=" + folder_ + "/cairn/bin/cairnd --background\nLOG=" + folder_ + "/log/jobs.log\n" + slurm_conf_of_cairn;
  Write(folder_ + "/etc/cairn/slurm.conf", text);
  if (!cluster_) return;
  for (int node = kFirst; node <= kLast; ++node) {
    const std::string own = folder_ + "/node/" + NodeName(node);
    if (fs::exists(own + "/log") && !off_.contains(node))
      AsRoot(node, "cp " + folder_ + "/etc/cairn/slurm.conf /etc/cairn/slurm.conf");
  }
}

bool SlurmSite::StartDaemon(int node) {
  const Ending ending = AsRoot(node, "exec cairnd --background </dev/null");
  EXPECT_EQ(ending.exit_code, 0) << NodeName(node) << ": " << ending.output;
  return ending.exit_code == 0;
}

// The node has process numbers of its own, and none but its own are found there.
void SlurmSite::KillDaemon(int node) {
  AsRoot(node, "pkill -KILL -x cairnd; while pgrep -x cairnd >/dev/null; do sleep 0.05; done");
}

bool SlurmSite::StartSlurmd(int node) {
  slurmds_[node] = cluster_->StartProgram(node, Shell({"env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, "exec slurmd -D"));
  return slurmds_[node] != nullptr;
}

void SlurmSite::KillSlurmd(int node) {
  slurmds_.at(node)->Signal(SIGKILL);
  slurmds_.at(node)->Wait();
}

void SlurmSite::PowerOff(int node) {
  cluster_->PowerOff(node);
  off_.insert(node);
}

void SlurmSite::Mend() {
  for (int node = kFirst; node <= kLast; ++node) {
    if (off_.erase(node) > 0) {
      cluster_->PowerOn(node);
      const absl::Status furnished = Furnish(node);
      EXPECT_TRUE(furnished.ok()) << furnished.ToString();
    }
    if (AsRoot(node, "pgrep -x cairnd").exit_code != 0) StartDaemon(node);
    if (!slurmds_[node]->running()) StartSlurmd(node);
  }
  if (!AsRoot(kController, "sinfo --noheader --nodes=n[2-5] --states=drain").output.empty()) {
    AsRoot(kController, "scontrol update NodeName=n[2-5] State=RESUME");
  }
}

std::string SlurmSite::LogOf(int node) const {
  return Read(folder_ + "/node/" + NodeName(node) + "/log/jobs.log");
}

std::string SlurmSite::DaemonLogOf(int node) const {
  const std::string own = folder_ + "/node/" + NodeName(node);
  return Read(own + "/log/cairnd.log") + Read(own + "/run/cairn/2001/cairnd.log");
}

std::vector<int> SlurmSite::TimesOf(const std::string& script) const {
  std::vector<int> times;
  for (int node = kFirst; node <= kLast; ++node) {
    std::istringstream lines(Read(folder_ + "/node/" + NodeName(node) + "/log/times"));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(script + " ")) times.push_back(std::atoi(line.c_str() + script.size() + 1));
    }
  }
  return times;
}

void SlurmSite::ShowTimes() const {
  for (const char* script : {"prolog", "epilog"}) {
    std::vector<int> times = TimesOf(script);
    if (times.empty()) continue;
    std::ranges::sort(times);
    std::cout << script << ": " << times.size() << " runs, median " << times[times.size() / 2] << " ms, quartiles "
              << times[times.size() / 4] << " … " << times[times.size() * 3 / 4] << " ms, longest " << times.back()
              << " ms\n";
  }
}

void SlurmSite::ForgetTimes() const {
  for (int node = kFirst; node <= kLast; ++node) fs::remove(folder_ + "/node/" + NodeName(node) + "/log/times");
}

}  // namespace cairn::testing

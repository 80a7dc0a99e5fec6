#include "tests/integration/harness.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "storage/base/unique_fd.h"
#include "tests/integration/notify_socket.h"

namespace cairn::testing {
namespace {

// A directory that its owner cannot enter, a file that it cannot read, or anything that anybody may change.
void ExpectUsable(const std::string& tree) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // a client that a test left alone may still remove what it has made
  for (auto at = fs::recursive_directory_iterator(tree, ignored); at != fs::end(at); at.increment(ignored)) {
    const fs::file_status status = at->symlink_status(ignored);
    if (status.type() != fs::file_type::directory && status.type() != fs::file_type::regular) continue;
    const fs::perms needed = status.type() == fs::file_type::directory ? fs::perms::owner_all : fs::perms::owner_read;
    EXPECT_EQ(status.permissions() & needed, needed) << at->path();
    EXPECT_EQ(status.permissions() & fs::perms::others_write, fs::perms::none) << at->path();
  }
}

}  // namespace

Harness::Harness() {
  // Not in TEST_TMPDIR: a socket's path must be short.
  std::string folder = "/tmp/cairn-test.XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    ADD_FAILURE() << "mkdtemp " << folder;
    return;
  }
  folder_ = folder;
  prefix_ = folder + "/prefix";
  MakeFolders();
}

Harness::Harness(Place place, Starter starter)
    : folder_(std::move(place.folder)), prefix_(std::move(place.prefix)), starter_(std::move(starter)) {
  MakeFolders();
}

void Harness::MakeFolders() const {
  for (const std::string& name : {folder_, runtime_dir(), cache(), prefix()}) {
    if (!std::filesystem::create_directory(name)) continue;
    std::filesystem::permissions(name, std::filesystem::perms::owner_all);
  }
}

Harness::~Harness() {
  daemon_.reset();
  for (const std::string& tree : {cache(), prefix()}) ExpectUsable(tree);
  if (::testing::Test::HasFailure()) {
    std::cerr << "--- log of the daemon in " << folder_ << ":\n" << DaemonLog() << "---\n";
  }
  std::error_code ignored;  // What cannot be removed is a temporary file left over.
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

Process::Options Harness::DaemonOptions(const std::vector<std::string>& flags) const {
  Process::Options options;
  options.arguments = {
      DataPath("daemon/cairnd"), "--single-user", "--runtime-dir", runtime_dir(), "--cache",       cache(),
      "--image-bytes-max",       "512MiB",        "--lease-term",  "1s",          "--cache-probe", "false"};
  options.arguments.insert(options.arguments.end(), flags.begin(), flags.end());
  options.environment = {{"CAIRN_CONFIG", folder_ + "/cairnd.toml"}};
  std::ofstream(folder_ + "/cairnd.toml", std::ios::app).flush();
  return options;
}

bool Harness::StartDaemon(const std::vector<std::string>& flags,
                          const std::map<std::string, std::string>& environment) {
  const std::string notify = folder_ + "/notify";
  NotifySocket ready(notify);
  Process::Options options = DaemonOptions(flags);
  options.arguments.insert(options.arguments.end(), {"--log-file", folder_ + "/cairnd.log"});
  options.environment.insert(environment.begin(), environment.end());
  options.environment["NOTIFY_SOCKET"] = notify;
  daemon_ = starter_(options);
  if (daemon_ && ready.Await(*daemon_) == "READY=1") return true;
  ADD_FAILURE() << "cairnd did not become ready: " << (daemon_ ? daemon_->Wait(std::chrono::seconds(0)).output : "");
  return false;
}

Ending Harness::StopDaemon() {
  daemon_->Signal(SIGTERM);
  const Ending ending = daemon_->Wait(std::chrono::seconds(90));
  daemon_.reset();
  return ending;
}

void Harness::KillDaemon() {
  daemon_->Signal(SIGKILL);
  EXPECT_EQ(daemon_->Wait().signal, SIGKILL);
  daemon_.reset();
}

std::string Harness::DaemonLog() const {
  std::ifstream file(folder_ + "/cairnd.log");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool Harness::WaitForLog(std::string_view text, std::chrono::seconds deadline) const {
  const UniqueFd changes(::inotify_init1(IN_CLOEXEC));
  EXPECT_GE(::inotify_add_watch(changes.get(), (folder_ + "/cairnd.log").c_str(), IN_MODIFY), 0);
  const auto end = std::chrono::steady_clock::now() + deadline;
  for (;;) {
    if (DaemonLog().find(text) != std::string::npos) return true;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd poll{.fd = changes.get(), .events = POLLIN, .revents = 0};
    if (left <= 0 || ::poll(&poll, 1, static_cast<int>(left)) <= 0) return false;
    std::array<char, 4096> events;
    EXPECT_GT(::read(changes.get(), events.data(), events.size()), 0);
  }
}

void Harness::WriteSettings(const std::string& text) const {
  std::ofstream(folder_ + "/cairnd.toml") << text;
}

Ending Harness::RunDaemon(const std::vector<std::string>& flags) {
  const std::unique_ptr<Process> daemon = starter_(DaemonOptions(flags));
  return daemon ? daemon->Wait() : Ending();
}

int Harness::DamageCheckpoints(std::string_view name_end) {
  EXPECT_EQ(daemon_, nullptr);
  int damaged = 0;
  for (const std::string& folder : {cache(), prefix()}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_symlink() || !entry.path().string().ends_with(name_end)) continue;
      const auto place = static_cast<std::streamoff>(entry.file_size()) - (300 << 10);
      EXPECT_GT(place, 8 << 20) << entry.path();
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(place);
      const char byte = static_cast<char>(file.get() ^ 1);
      file.seekp(place);
      file.put(byte);
      EXPECT_TRUE(file.good()) << entry.path();
      ++damaged;
    }
  }
  return damaged;
}

void Harness::DeleteCache() {
  ASSERT_EQ(daemon_, nullptr);
  std::filesystem::remove_all(cache());
  std::filesystem::create_directory(cache());
}

Process::Options Harness::Client(const std::string& program, std::vector<std::string> arguments) const {
  Process::Options options;
  options.arguments = {DataPath(program)};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  options.environment = {{"CAIRN_ADDRESS", address()}, {"CAIRN_PREFIX", prefix()}};
  if (program.ends_with(".py")) {
    options.arguments.insert(options.arguments.begin(), "/usr/bin/python3");  // the one that python3-numpy is for
    // The Python client looks beside itself, where an installation has it; the build puts it elsewhere.
    options.environment["CAIRN_LIB"] = DataPath("client/libcairn.so");
  }
  options.working_directory = folder_;
  return options;
}

Process::Options Harness::MpiClient(int ranks, const std::string& program, std::vector<std::string> arguments) const {
  Process::Options options = Client(program, std::move(arguments));
  const std::vector<std::string> mpirun = {"mpirun", "--oversubscribe",    "--bind-to", "none",
                                           "-n",     std::to_string(ranks)};
  options.arguments.insert(options.arguments.begin(), mpirun.begin(), mpirun.end());
  options.environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
  options.environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  // Its usual way of copying between processes is not allowed in every container; this one always is.
  options.environment["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none";
  options.environment["OMPI_MCA_rmaps_base_oversubscribe"] = "1";
  options.environment["OMPI_MCA_mpi_yield_when_idle"] = "1";
  options.environment["TMPDIR"] = folder_;
  return options;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace cairn::testing

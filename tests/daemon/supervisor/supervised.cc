#include "tests/daemon/supervisor/supervised.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "storage/base/clock.h"
#include "storage/base/status.h"
#include "tests/integration/process.h"

namespace cairn::testing {
namespace {

constexpr std::string_view kRefusal = "refused";

// Users whom only this test knows.
std::optional<Account> AccountHere(uid_t user) {
  if (user < 41'000 || user > 41'900) return std::nullopt;
  return Account{.name = fmt::format("user{}", user), .home = "/home/x", .group = user, .groups = {user, 42'000}};
}

}  // namespace

bool Within(const std::function<bool()>& holds, std::chrono::milliseconds deadline) {
  const auto end = SteadyNow() + deadline;
  while (!holds()) {
    if (SteadyNow() >= end) return false;
    SleepFor(std::chrono::milliseconds(10));
  }
  return true;
}

void Supervised::SetUp() {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can start processes of other users";
  std::string folder = "/tmp/cairn-test.XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  folder_ = folder;
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
}

void Supervised::TearDown() {
  if (pid_ != 0) {
    Signal(SIGTERM);
    const pid_t pid = pid_;
    if (!Within([&] { return ::waitpid(pid, nullptr, WNOHANG) != 0; }, std::chrono::seconds(30))) {
      ADD_FAILURE() << "the supervisor does not end";
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  if (HasFailure()) std::cerr << "--- log of the supervisor:\n" << Log() << "---\n";
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

void Supervised::Start(const std::function<void(Supervisor::Options*)>& change) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd ready(ends[0]);
  UniqueFd writer(ends[1]);
  const std::string program = DataPath("tests/daemon/supervisor/odd_worker");
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto log = std::make_shared<std::ofstream>(folder_ + "/log", std::ios::app);
    Supervisor::Options options;
    options.program = program;
    options.arguments = {"--flag"};
    options.runtime_dir = folder_ + "/run";
    options.cache_dir = folder_ + "/cache";
    options.account = AccountHere;
    options.refusal = kRefusal;
    options.deposits_max.bytes = 64 << 20;
    options.stop = std::chrono::seconds(2);
    options.pause_min = std::chrono::milliseconds(100);
    options.log = [log](Tone, std::string_view text) { *log << text << std::endl; };
    options.notify = [&](std::string_view state) {
      if (state == "READY=1" && ::write(writer.get(), "r", 1) != 1) std::_Exit(9);
    };
    if (change) change(&options);
    const auto supervisor = Supervisor::Open(std::move(options));
    if (!supervisor.ok()) {
      *log << "not opened: " << MessageOf(supervisor.status()) << std::endl;
      std::_Exit(8);
    }
    std::_Exit((*supervisor)->Run() ? 0 : 1);
  }
  writer.Reset();
  char byte = 0;
  ASSERT_EQ(::read(ready.get(), &byte, 1), 1) << "not ready";
}

void Supervised::Signal(int signal) const {
  ::kill(pid_, signal);
}

int Supervised::Wait() {
  int status = -1;
  const pid_t pid = std::exchange(pid_, 0);
  EXPECT_TRUE(Within([&] { return ::waitpid(pid, &status, WNOHANG) == pid; }, std::chrono::seconds(30)));
  return status;
}

std::string Supervised::Log() const {
  std::stringstream text;
  text << std::ifstream(folder_ + "/log").rdbuf();
  return text.str();
}

bool Supervised::LogSays(std::string_view text) const {
  return Within([&] { return Log().find(text) != std::string::npos; });
}

UniqueFd Supervised::Connect(uid_t user, const std::string& socket_name) const {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder_ + "/run/" + socket_name;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  EXPECT_EQ(::seteuid(user), 0);
  const int error = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  EXPECT_EQ(::seteuid(0), 0);
  if (error != 0) return UniqueFd();
  return fd;
}

void Supervised::SayWord(const UniqueFd& connection, const std::string& word) {
  // Who is refused may find the connection closed already; the answer is there all the same.
  const ssize_t sent = ::send(connection.get(), word.data(), word.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(sent == static_cast<ssize_t>(word.size()) || errno == EPIPE);
}

std::string Supervised::Hear(const UniqueFd& connection, std::chrono::milliseconds deadline) {
  const auto end = SteadyNow() + deadline;
  std::string text;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - SteadyNow()).count();
    pollfd poll{.fd = connection.get(), .events = POLLIN, .revents = 0};
    if (left <= 0 || ::poll(&poll, 1, static_cast<int>(left)) <= 0) return text + "(nothing more)";
    std::array<char, 4096> block;
    const ssize_t n = ::read(connection.get(), block.data(), block.size());
    if (n <= 0) return text;
    text.append(block.data(), static_cast<std::size_t>(n));
  }
}

std::string Supervised::Ask(uid_t user, const std::string& word) const {
  const UniqueFd connection = Connect(user);
  if (!connection.valid()) return "(no connection)";
  SayWord(connection, word);
  return Hear(connection);
}

pid_t Supervised::WorkerOf(uid_t user) const {
  const std::string text = Ask(user, "look");
  const std::size_t place = text.find(" pid ");
  return place == text.npos ? 0 : std::atoi(text.c_str() + place + 5);
}

Supervised::Rows Supervised::Status() const {
  const std::string text = Hear(Connect(0, kStatusSocketName));
  Rows rows;
  if (text.size() < sizeof rows.head) return rows;
  std::memcpy(&rows.head, text.data(), sizeof rows.head);
  EXPECT_EQ(rows.head.magic, kStatusMagic);
  EXPECT_EQ(text.size(), sizeof rows.head + rows.head.rows * sizeof(WorkerStatus));
  rows.rows.resize(rows.head.rows);
  std::memcpy(rows.rows.data(), text.data() + sizeof rows.head, text.size() - sizeof rows.head);
  return rows;
}

const WorkerStatus* Supervised::Rows::of(uid_t user) const {
  const auto row = std::ranges::find(rows, user, &WorkerStatus::uid);
  return row == rows.end() ? nullptr : &*row;
}

}  // namespace cairn::testing

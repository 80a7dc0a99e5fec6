#include "tests/support/gluster.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "storage/base/status.h"
#include "tests/support/mount_namespace.h"

namespace cairn::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(60);
constexpr char kVolume[] = "v";
constexpr char kAddress[] = "10.88.0.1";  // glusterd takes no brick on a loopback address
constexpr char kServer[] = "/usr/sbin/glusterd", kCommand[] = "/usr/sbin/gluster", kClient[] = "/usr/sbin/glusterfs";
constexpr char kEnter[] = "/usr/bin/nsenter", kUnshare[] = "/usr/bin/unshare";

// The first process of the servers' namespaces: with it all of them end. Bricks are not its children, but fall to it.
constexpr char kServerScript[] = R"(
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
mount --bind "$1/lib" /var/lib/glusterd && mount --bind "$1/log" /var/log/glusterfs &&
mount -t tmpfs none /run && mkdir /run/gluster &&
ip link set lo up && ip address add "$2/32" dev lo || exit 1
glusterd --no-daemon --log-level=WARNING
exit 1
)";

bool Await(const std::function<bool()>& condition) {
  const auto end = Clock::now() + kPatience;
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// "" if it cannot be read.
std::string TextOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t Count(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

absl::Status CheckMachine() {
  if (::geteuid() != 0) return FailedPrecondition("it needs root");
  if (::access("/dev/fuse", R_OK | W_OK) != 0) return FailedPrecondition("/dev/fuse: {}", std::strerror(errno));
  for (const char* const program : {kServer, kCommand, kClient, kEnter, kUnshare}) {
    if (::access(program, X_OK) != 0) {
      return FailedPrecondition("{}: {} (Debian: glusterfs-server, glusterfs-client, util-linux)", program,
                                std::strerror(errno));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool MaySkipGluster(const absl::Status& started) {
  const char* const ci = std::getenv("CI");
  const bool must = ci != nullptr && std::string_view(ci) == "true" && ::geteuid() == 0;
  return absl::IsFailedPrecondition(started) && !must;
}

absl::StatusOr<std::unique_ptr<Gluster>> Gluster::Start() {
  CAIRN_RETURN_IF_ERROR(CheckMachine());
  CAIRN_RETURN_IF_ERROR(EnterMountNamespace());
  std::string folder = ::testing::TempDir() + "cairn-gluster-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return Unavailable("{}: {}", folder, std::strerror(errno));
  std::unique_ptr<Gluster> gluster(new Gluster(folder));
  CAIRN_RETURN_IF_ERROR(gluster->StartServer());
  CAIRN_RETURN_IF_ERROR(gluster->MakeVolume());
  CAIRN_RETURN_IF_ERROR(gluster->Mount());
  return gluster;
}

Gluster::~Gluster() {
  // The client ends when nothing is mounted any more. Then the servers: nobody waits for them.
  ::umount2(mount_point_.c_str(), MNT_DETACH);
  if (client_ != nullptr) {
    client_->Signal(SIGTERM);
    client_->Wait(std::chrono::seconds(10));
  }
  server_.reset();
  // The kernel kills what was in its namespaces a moment later; until then bricks may write.
  EXPECT_TRUE(Await([this] { return LivingBricks().empty(); })) << "bricks outlive their namespaces";
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

absl::Status Gluster::StartServer() {
  for (const std::string& name : {mount_point_, folder_ + "/lib", folder_ + "/log"}) {
    std::filesystem::create_directory(name);
  }
  for (int brick = 0; brick < kBricks; ++brick) std::filesystem::create_directory(BrickFolder(brick));
  server_ = Process::Start({.arguments = {kUnshare, "--mount", "--net", "--pid", "--fork", "--kill-child",
                                          "--mount-proc", "/bin/sh", "-c", kServerScript, "sh", folder_, kAddress},
                            .environment = {},
                            .working_directory = folder_});
  const auto answers = [this] { return !server_->running() || Command({"volume", "list"}).exit_code == 0; };
  if (!Await(answers) || !server_->running()) {
    return Unavailable("glusterd does not start\n{}{}", server_->Wait(std::chrono::seconds(0)).output, Logs());
  }
  return absl::OkStatus();
}

absl::Status Gluster::MakeVolume() {
  std::vector<std::string> create = {"volume", "create", kVolume, "replica", std::to_string(kBricks)};
  for (int brick = 0; brick < kBricks; ++brick) create.push_back(std::string(kAddress) + ":" + BrickFolder(brick));
  create.push_back("force");  // bricks on the root file system
  // deploy/README.md tells why.
  const std::vector<std::string> decide = {"volume", "set", kVolume, "cluster.favorite-child-policy", "majority"};
  for (const std::vector<std::string>& command : {create, decide, {"volume", "start", kVolume}}) {
    if (const Ending ending = Command(command); ending.exit_code != 0) {
      return Unavailable("gluster {} {}: {}\n{}", command[0], command[1], ending.output, Logs());
    }
  }
  return absl::OkStatus();
}

// In the test's own mounts, as a child of the test: so it dies with that.
absl::Status Gluster::Mount() {
  struct stat before {
  }, now{};
  ::stat(mount_point_.c_str(), &before);
  client_ = Process::Start(
      {.arguments = {kEnter, "--net=" + Namespaces("net"), kClient, "--no-daemon", "--process-name", "fuse",
                     std::string("--volfile-server=") + kAddress, std::string("--volfile-id=/") + kVolume,
                     "--log-file=" + folder_ + "/log/client.log", "--log-level=WARNING", mount_point_},
       .environment = {},
       .working_directory = folder_});
  const auto mounted = [&] {
    if (!client_->running()) return true;
    return ::stat(mount_point_.c_str(), &now) == 0 && now.st_dev != before.st_dev && ReachesAllBricks();
  };
  if (!Await(mounted) || !client_->running()) {
    return Unavailable("glusterfs does not mount\n{}{}", client_->Wait(std::chrono::seconds(0)).output, Logs());
  }
  return absl::OkStatus();
}

std::string Gluster::Namespaces(const std::string& name) const {
  return "/proc/" + std::to_string(server_->pid()) + "/ns/" + name;
}

Ending Gluster::Command(std::vector<std::string> arguments) const {
  std::vector<std::string> all = {kEnter,
                                  "--mount=" + Namespaces("mnt"),
                                  "--net=" + Namespaces("net"),
                                  "--pid=" + Namespaces("pid_for_children"),
                                  kCommand,
                                  "--mode=script"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return RunProcess({.arguments = std::move(all), .environment = {}, .working_directory = folder_});
}

std::map<int, pid_t> Gluster::LivingBricks() const {
  std::map<int, pid_t> living;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string number = entry.path().filename();
    if (!std::ranges::all_of(number, [](unsigned char digit) { return std::isdigit(digit) != 0; })) continue;
    const std::string arguments = TextOf(entry.path() / "cmdline");
    for (int brick = 0; brick < kBricks; ++brick) {
      const std::string name = std::string("--brick-name") + '\0' + BrickFolder(brick) + '\0';
      if (arguments.find(name) != std::string::npos) living[brick] = static_cast<pid_t>(std::stol(number));
    }
  }
  return living;
}

void Gluster::KillBrick(int brick) {
  const std::map<int, pid_t> living = LivingBricks();
  ASSERT_TRUE(living.contains(brick)) << "brick " << brick << " does not live";
  EXPECT_TRUE(EndProcess(living.at(brick), SIGKILL)) << "brick " << brick;
}

bool Gluster::StartBricks() {
  if (LivingBricks().size() == kBricks && ReachesAllBricks()) return true;
  Ending ending;
  // glusterd may not have noticed yet that one has died.
  const bool started = Await([&] {
    ending = Command({"volume", "start", kVolume, "force"});
    return ending.exit_code == 0 && LivingBricks().size() == kBricks;
  });
  const bool reached = started && Await([this] { return ReachesAllBricks(); });
  EXPECT_TRUE(reached) << (started ? "the mount does not reach all bricks\n" : ending.output) << Logs();
  return reached;
}

bool Gluster::AwaitHealed() {
  Ending ending;
  const bool healed = Await([&] {
    Command({"volume", "heal", kVolume});  // what it missed when the bricks came back it looks for every ten minutes
    ending = Command({"volume", "heal", kVolume, "info", "summary"});
    return Count(ending.output, "Total Number of entries: 0\n") == kBricks;
  });
  EXPECT_TRUE(healed) << ending.output;
  return healed;
}

// As the client itself says, in the folder .meta of each mount.
bool Gluster::ReachesAllBricks() const {
  for (int brick = 0; brick < kBricks; ++brick) {
    const std::string peer = std::string(kVolume) + "-client-" + std::to_string(brick);
    const std::string said = TextOf(mount_point_ + "/.meta/graphs/active/" + peer + "/private");
    if (said.find("connected = 1\n") == std::string::npos) return false;
  }
  return true;
}

std::string Gluster::Logs() const {
  constexpr std::size_t kBytesMax = 4000;
  std::string logs;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ + "/log", ignored)) {
    if (!entry.is_regular_file(ignored)) continue;
    const std::string text = TextOf(entry.path());
    logs += entry.path().string() + ":\n" + text.substr(text.size() - std::min(text.size(), kBytesMax)) + "\n";
  }
  return logs;
}

}  // namespace cairn::testing

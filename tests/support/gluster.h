// A GlusterFS of a test's own: one glusterd and a volume of three bricks that hold the same, in plain folders, mounted
// by FUSE. All of it is gone with this. What can happen to a brick: it is killed, and it is started again with what it
// has on its disk. While two or three bricks live the volume works; with one it answers ENOTCONN to everything.
//
// Needs root, /dev/fuse, and Debian's glusterfs-server and glusterfs-client. The servers have a network, mounts and
// process numbers of their own: several of these run side by side, beside a glusterd of the machine's, and leave
// nothing in /var/lib/glusterd, /var/log or /run. The mount is in a mount namespace as of FuseFolder: threads and
// processes that the calling thread starts afterwards see it, nobody else. If the test is killed, the kernel ends all
// of it; only the folder stays.
#ifndef CAIRN_TESTS_SUPPORT_GLUSTER_H_
#define CAIRN_TESTS_SUPPORT_GLUSTER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/integration/process.h"

namespace cairn::testing {

class Gluster {
 public:
  static constexpr int kBricks = 3;

  // Mounted, with all bricks. REQUIRES: threads that are to see the mount are not there yet.
  //   kFailedPrecondition  this machine cannot: no root, no /dev/fuse, GlusterFS is not installed
  //   kUnavailable         it does not start; with its logs
  static absl::StatusOr<std::unique_ptr<Gluster>> Start();
  // REQUIRES: on the thread that called Start.
  ~Gluster();
  Gluster(const Gluster&) = delete;

  const std::string& mount_point() const { return mount_point_; }
  // Those whose process is there, from 0, with its process id.
  std::map<int, pid_t> LivingBricks() const;
  // SIGKILL; returns when it is gone. REQUIRES: it lives.
  void KillBrick(int brick);
  // Starts all that do not live, and waits until the mount reaches every brick. False, with a failure of the test, if
  // that takes longer than a minute.
  bool StartBricks();
  // Until each brick has what the others have. False: not within a minute.
  bool AwaitHealed();

 private:
  explicit Gluster(std::string folder) : folder_(std::move(folder)), mount_point_(folder_ + "/mount") {}
  std::string BrickFolder(int brick) const { return folder_ + "/brick" + std::to_string(brick); }
  std::string Namespaces(const std::string& name) const;
  Ending Command(std::vector<std::string> arguments) const;
  absl::Status StartServer();
  absl::Status MakeVolume();
  absl::Status Mount();
  bool ReachesAllBricks() const;
  std::string Logs() const;

  const std::string folder_, mount_point_;
  std::unique_ptr<Process> server_, client_;
};

// `CAIRN_GLUSTER_OR_SKIP(gluster);`: starts one in a std::unique_ptr<Gluster> that is there. Where the machine cannot,
// the test is skipped with the reason; in CI as root it fails.
#define CAIRN_GLUSTER_OR_SKIP(gluster)                                           \
  do {                                                                           \
    auto started_ = ::cairn::testing::Gluster::Start();                          \
    if (!started_.ok() && ::cairn::testing::MaySkipGluster(started_.status())) { \
      GTEST_SKIP() << "no GlusterFS here: " << started_.status().ToString();     \
    }                                                                            \
    ASSERT_TRUE(started_.ok()) << started_.status().ToString();                  \
    gluster = *std::move(started_);                                              \
  } while (false)

bool MaySkipGluster(const absl::Status& started);

// One for all tests of a program, which takes some seconds to start. Where there is none, all are skipped:
//   const auto* const kOneGluster = ::testing::AddGlobalTestEnvironment(new OneGluster);
class OneGluster : public ::testing::Environment {
 public:
  void SetUp() override { CAIRN_GLUSTER_OR_SKIP(gluster); }
  void TearDown() override { gluster.reset(); }
  inline static std::unique_ptr<Gluster> gluster;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_GLUSTER_H_

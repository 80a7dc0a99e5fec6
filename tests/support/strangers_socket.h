// A Unix socket on which another user listens, and answers nothing: what an impostor of a daemon has.
#ifndef CAIRN_TESTS_SUPPORT_STRANGERS_SOCKET_H_
#define CAIRN_TESTS_SUPPORT_STRANGERS_SOCKET_H_

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace cairn::testing {

// REQUIRES: root runs the test.
class StrangersSocket {
 public:
  static constexpr uid_t kStranger = 65'534;

  StrangersSocket() {
    char folder[] = "/tmp/cairn-stranger-XXXXXX";
    EXPECT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path().c_str(), path().size() + 1);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    // The kernel remembers who listens, not who has made the file.
    EXPECT_EQ(seteuid(kStranger), 0);
    EXPECT_EQ(listen(listener_, 4), 0);
    EXPECT_EQ(seteuid(0), 0);
  }
  ~StrangersSocket() {
    close(listener_);
    unlink(path().c_str());
    rmdir(folder_.c_str());
  }
  StrangersSocket(const StrangersSocket&) = delete;

  std::string path() const { return folder_ + "/cairnd.sock"; }

 private:
  std::string folder_;
  int listener_ = -1;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_STRANGERS_SOCKET_H_

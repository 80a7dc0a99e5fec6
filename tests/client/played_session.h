// Sessions with a daemon that plays a script.
#ifndef CAIRN_TESTS_CLIENT_PLAYED_SESSION_H_
#define CAIRN_TESTS_CLIENT_PLAYED_SESSION_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "tests/client/fake_daemon.h"

namespace cairn {

class PlayedSessionTest : public testing::Test {
 protected:
  ~PlayedSessionTest() override { daemon_.Join(); }
  // A session whose daemon does what the script says after the greeting.
  cairn_session* Open(std::function<void(FakePeer&)> script, std::uint32_t deadline_ms = 5000) {
    daemon_.PlayPeer(std::move(script));
    cairn_options options = daemon_.options();
    options.deadline_ms = deadline_ms;
    return OpenOrDie(options);
  }
  FakeDaemon daemon_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_CLIENT_PLAYED_SESSION_H_

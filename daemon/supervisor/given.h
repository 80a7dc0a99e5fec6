// Descriptors that the service manager gives to this process (sd_listen_fds(3)).
#ifndef CAIRN_DAEMON_SUPERVISOR_GIVEN_H_
#define CAIRN_DAEMON_SUPERVISOR_GIVEN_H_

#include <string>
#include <vector>

namespace cairn {

struct Given {
  int fd = -1;
  std::string name;  // in LISTEN_FDNAMES; empty: none
};
// By LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES, which stay as they are. None: nothing is given to this process, or more
// than can be.
std::vector<Given> LookAtGiven();

}  // namespace cairn

#endif  // CAIRN_DAEMON_SUPERVISOR_GIVEN_H_

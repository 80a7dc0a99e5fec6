// How a cluster is told what to do: a line to the socket in its folder, an answer.
#ifndef CAIRN_TESTS_SUPPORT_CLUSTER_CONTROL_H_
#define CAIRN_TESTS_SUPPORT_CLUSTER_CONTROL_H_

#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/unique_fd.h"

namespace cairn::testing {

inline std::string ControlSocket(const std::string& folder) {
  return folder + "/switch";
}

// What can be said, by its first word; `cairn-cluster --help` prints it.
inline constexpr char kCommands[] =
    "  cut K             pull the cable of node K out\n"
    "  mute K            lose what node K sends\n"
    "  deafen K          lose what is sent to node K\n"
    "  sever A B         lose what nodes A and B send to each other\n"
    "  partition 1,2 3   put these nodes on switches of their own; the others stay together\n"
    "  throttle K BITS   let so many bits per second through the cable of node K, in each direction\n"
    "  delay K MS        make the cable of node K so much longer, in each direction\n"
    "  heal [K]          undo all of these, or cut, mute, deafen, throttle and delay of node K\n"
    "  off K             pull the cable and kill all that runs on node K\n"
    "  on K              plug it in again; nothing runs there\n"
    "  pid K             print the process that holds node K, as the machine sees it\n";

// Sends the line to the cluster of that folder and returns its answer. Waits two minutes at most. Any thread or
// process.
//   kInvalidArgument     the line is none of the commands
//   kFailedPrecondition  not now: the node is off, or on already
//   kUnavailable         there is no cluster
absl::StatusOr<std::string> Ask(const std::string& folder, const std::string& line);

// The other side.
class ControlServer {
 public:
  // Listens there. REQUIRES: the folder is nobody else's to write.
  static absl::StatusOr<ControlServer> Listen(const std::string& folder);
  int fd() const { return socket_.get(); }
  // Takes one caller, if there is one, and answers what `handle` says to its words.
  void ServeOne(const std::function<absl::StatusOr<std::string>(const std::vector<std::string>&)>& handle);

 private:
  explicit ControlServer(UniqueFd socket) : socket_(std::move(socket)) {}
  UniqueFd socket_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_CLUSTER_CONTROL_H_

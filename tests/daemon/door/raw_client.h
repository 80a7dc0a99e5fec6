// A client of the Unix socket that can also misbehave: sends any bytes, and sees every frame and descriptor.
#ifndef CAIRN_TESTS_DAEMON_DOOR_RAW_CLIENT_H_
#define CAIRN_TESTS_DAEMON_DOOR_RAW_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/frame.h"
#include "proto/local.pb.h"
#include "storage/base/unique_fd.h"

namespace cairn::testing {

class RawClient {
 public:
  // Fails the test if nobody listens there.
  explicit RawClient(const std::string& socket_path);

  // False: the other side has hung up.
  bool SendBytes(std::string_view bytes);
  bool Send(const local::Request& request);
  // Sends a Hello with these versions; call 1.
  bool Hello(std::uint32_t protocol_min = CAIRN_PROTOCOL_OLDEST, std::uint32_t protocol_max = CAIRN_PROTOCOL_NEWEST);
  // What the socket takes at once, waiting at most `wait_ms` for room; 0: no room.
  std::size_t SendSome(std::string_view bytes, int wait_ms);

  // The next reply; nullopt after the end of the stream, or if none comes within 20 s (which fails the test).
  std::optional<local::Reply> Receive(UniqueFd* image = nullptr);
  // True: nothing more comes, the other side has hung up.
  bool AtEnd();

 private:
  // Exactly `bytes`; false at the end of the stream.
  bool Read(char* target, std::size_t bytes, UniqueFd* image);

  UniqueFd fd_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_DAEMON_DOOR_RAW_CLIENT_H_

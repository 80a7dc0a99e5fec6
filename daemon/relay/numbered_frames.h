// What one end of a carried link has sent and got: frames are numbered from 1 in each direction, kept until the other
// end has heard them, and sent again when the way between the two has changed. So none is lost or taken twice while
// both ends live. No I/O; not thread-safe.
#ifndef CAIRN_DAEMON_RELAY_NUMBERED_FRAMES_H_
#define CAIRN_DAEMON_RELAY_NUMBERED_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "proto/peer.pb.h"

namespace cairn {

class NumberedFrames {
 public:
  // On their way and not heard. What goes beyond it is one frame at most, which may be larger than all of it.
  static constexpr std::size_t kWindowBytes = 256 << 10;
  static constexpr std::size_t kTellBytes = kWindowBytes / 4;  // after so much that came, the other end is to be told

  // --- What goes out. `carried` has its body; all else is filled in here or by the caller ---
  void Put(peer::Carried carried);
  // The next one that may go now; to be asked until there is none.
  std::optional<peer::Carried> Next();
  std::deque<peer::Carried> Rest();  // all that has not gone, whatever the window says
  void SendAllAgain() { sent_ = sent_bytes_ = 0; }
  std::size_t bytes_kept() const { return bytes_; }

  // --- What came ---
  // kNew: the next frame. kKnown: it was taken before, or there is none. kWrong: one before it is missing, or more is
  // said to be heard than was sent.
  enum class Came { kNew, kKnown, kWrong };
  Came Take(const peer::Carried& carried);
  std::uint64_t heard() const { return heard_; }
  bool untouched() const { return last_ == 0 && heard_ == 0; }
  bool owes_word() const { return owed_bytes_ >= kTellBytes; }
  void ToldHeard() { owed_bytes_ = 0; }

 private:
  struct Kept {
    peer::Carried carried;
    std::size_t bytes = 0;
  };
  std::deque<Kept> kept_;  // not heard by the other end
  std::size_t bytes_ = 0;  // of these
  std::size_t sent_ = 0;   // so many of them are on their way
  std::size_t sent_bytes_ = 0;
  std::uint64_t last_ = 0;  // number of the newest that was put
  std::uint64_t last_sent_ = 0;
  std::uint64_t heard_ = 0;
  std::size_t owed_bytes_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_RELAY_NUMBERED_FRAMES_H_

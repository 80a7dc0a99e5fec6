// Frames between members, as values and as messages. What comes from a peer is hostile, even if it is a member: each
// field is looked at here, and each list has a bound. Pure.
//   kInvalidArgument  the message names the field
#ifndef CAIRN_DAEMON_PEERS_FRAMES_H_
#define CAIRN_DAEMON_PEERS_FRAMES_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/peers/member.h"
#include "proto/peer.pb.h"

namespace cairn {
namespace frames {

inline constexpr std::size_t kHostBytesMax = 64;  // HOST_NAME_MAX of Linux (gethostname(2))
inline constexpr std::size_t kAddressBytesMax = 128;
inline constexpr std::size_t kTextBytesMax = 500;
inline constexpr std::size_t kListMax = 256;  // of each list of a frame, so that it has at most some 100 KiB
inline constexpr std::size_t kPathMax = 64;
// Of what a frame carries for others: requests, replies, catalogues. A link takes somewhat more (peer_door.h).
inline constexpr std::size_t kCarriedBytesMax = 3u << 20;
// Epochs grow by one. A peer that names one so far above what is known here is not believed.
inline constexpr std::uint64_t kEpochAheadMax = 1 << 20;

// Where a member is in the tree.
struct Place {
  CoordinatorName coordinator;  // epoch 0: none
  std::vector<NodeId> path;     // from the coordinator down to it, without itself
  bool attached = false;        // links lead all the way
  friend bool operator==(const Place&, const Place&) = default;
};

// Who is below a member, as a change.
struct BelowChange {
  std::vector<Member> now;  // those that have come, or say something new
  std::vector<GoneMember> gone;
  bool empty() const { return now.empty() && gone.empty(); }
};

struct TablePart {
  std::uint64_t epoch = 0, version = 0;
  bool whole = false, more = false, gathers = false;
  TableChange change;
};

absl::StatusOr<Member> ToMember(const peer::Member& message, std::string_view field);
absl::StatusOr<Place> ToPlace(const peer::Place& message, std::string_view field);
absl::StatusOr<CoordinatorName> ToCoordinator(const peer::Coordinator& message, std::string_view field);
absl::StatusOr<BelowChange> ToBelow(const peer::Below& message);
absl::StatusOr<TablePart> ToTable(const peer::Table& message);
// The members of a Join: the child itself first.
absl::StatusOr<std::vector<Member>> ToJoined(const peer::Join& message);
// An address and a text of an Elsewhere. Both may be empty.
absl::Status Check(const peer::Elsewhere& message);

peer::Member From(const Member& member);
peer::Coordinator From(const CoordinatorName& name);
peer::Place From(const Place& place);
peer::Frame Welcome(const Place& place);
// One or more, each of these.
std::vector<peer::Frame> Join(std::uint64_t epoch, const Member& self, std::uint32_t height, std::vector<Member> below);
std::vector<peer::Frame> Below(const BelowChange& change);
// `gathers`: MemberTable's.
std::vector<peer::Frame> Table(std::uint64_t epoch, std::uint64_t version, bool whole, const TableChange& change,
                               bool gathers = false);
// `left`: of those who are not in it, those who have left lately, so that nobody takes them for lost.
std::vector<peer::Frame> WholeTable(const MemberTable& table, const std::vector<GoneMember>& left);
peer::Frame Elsewhere(peer::Elsewhere::Why why, std::string_view text, const CoordinatorName& coordinator,
                      const std::string& address = "");

}  // namespace frames
}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_FRAMES_H_

// One rank's bytes on their way back: found in the copies that were chosen, read and checked block by block, and handed
// to the client through an image. Blocks of the rank's own file that fit its memory the client reads and checks itself
// (daemon/data/straight.h); if it cannot, a next round brings all through the image. When a copy turns out to be bad it
// starts over with others, and the client is told the plan of the next round. Strand only.
#ifndef CAIRN_DAEMON_CORE_RESTORE_TRANSFER_H_
#define CAIRN_DAEMON_CORE_RESTORE_TRANSFER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/core/call.h"
#include "daemon/core/container_lists.h"
#include "daemon/core/context.h"
#include "daemon/core/image_store.h"
#include "daemon/core/restore_plan.h"
#include "daemon/core/session.h"
#include "daemon/core/variables.h"
#include "daemon/data/image.h"
#include "daemon/data/restore.h"
#include "daemon/data/straight.h"
#include "daemon/peers/member.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"
#include "storage/base/unique_fd.h"

namespace cairn {

// Which copy of which ranks' files is read; all by the same index.
struct ChosenCopies {
  std::vector<RestoreSource> sources;
  std::vector<Rank> ranks;  // whose file it is
  std::vector<Tier> tiers;
  std::vector<Tier> from;     // the tiers that the bytes came from: another one if they have been read ahead
  std::vector<NodeId> nodes;  // Tier::kPartner: in whose cache; else empty
  std::string lane;           // that reads what is not on this node: the prefix, or another node

  bool far() const;      // some are not on this node
  Tier weakest() const;  // that the bytes came from; kNone: nothing is read
};

class RestoreTransfer {
 public:
  // An error is one of copies()[copy], or, if there is no such copy, of none of them. kResourceExhausted of one that is
  // in memory: there is no room for its restore besides.
  using Then = std::function<void(const absl::Status& status, std::size_t copy)>;

  virtual ~RestoreTransfer() = default;

  // First Find, then Start; both again, with other copies, after an error. `then` runs once, unless Abort comes before.
  //
  // Looks in a pool where in the files the bytes are. `own_file`: the rank's next checkpoint goes on with the
  // containers of its own file: list() has them then.
  virtual void Find(ChosenCopies copies, std::vector<Wanted> wanted, bool own_file, Then then) = 0;
  // Tells the plan, then which pieces are ready; OK once the client has copied all of them.
  virtual void Start(Then then) = 0;
  // kInvalidArgument: more pieces than are ready, or fewer than before.
  virtual absl::Status Copied(const local::Copied& copied) = 0;
  // Nothing more comes of it; its image goes back once nothing is read into it any more.
  virtual void Abort() = 0;

  const ChosenCopies& copies() const { return copies_; }
  const ListPtr& list() const { return list_; }  // null: nothing is read from the rank's own file
  // The client may have written to its memory: it was given bytes, or a plan with holes, which it fills.
  bool delivered() const { return delivered_; }

 protected:
  ChosenCopies copies_;
  ListPtr list_;
  bool delivered_ = false;
};

// To a rank whose connection leads to this daemon.
class LocalTransfer final : public RestoreTransfer, public std::enable_shared_from_this<LocalTransfer> {
 public:
  // `variables`: what the client has asked for.
  LocalTransfer(const Context& context, ImageStore& images, SessionPtr session, std::shared_ptr<Call> call,
                VariableList variables);
  LocalTransfer(const LocalTransfer&) = delete;

  const VariableList& variables() const { return variables_; }

  void Find(ChosenCopies copies, std::vector<Wanted> wanted, bool own_file, Then then) override;
  void Start(Then then) override;
  absl::Status Copied(const local::Copied& copied) override;
  void Abort() override;

 private:
  // What goes through an image, and what the client reads itself, of files that are open.
  struct Division {
    std::vector<RestorePiece> pieces;
    std::uint64_t image_bytes = 0;  // that hold all blocks of these
    std::vector<StraightSource> straight = {};
    std::vector<SharedFd> files = {};  // of these
  };
  struct Found {
    absl::StatusOr<std::vector<RestorePiece>> pieces = absl::UnknownError("");
    std::uint64_t image_bytes = 0;
    std::optional<Division> divided;
    ListPtr list;
    std::size_t bad = 0;
    void FailWith(absl::Status why) { pieces = std::move(why); }
  };
  static std::optional<Division> Divide(Disk& disk, const std::vector<RestoreSource>& sources, std::size_t own,
                                        const std::vector<RestorePiece>& pieces, const VariableList& variables);
  void PiecesFound(Found found);
  std::size_t FirstKept() const;
  void ImageCame(absl::StatusOr<std::shared_ptr<Image>> image);
  absl::Status TellPlan();
  void TellStraight(local::RestoreReply& begun) const;
  void HandFiles();
  void Ready(std::uint64_t pieces);
  void SendPiece(std::uint64_t index);
  absl::Status ReadStraight(const local::Copied& copied);
  void Ended(const absl::Status& status, std::size_t copy);
  void Settle();
  void Tell(const absl::Status& status, std::size_t copy);

  const Context& context_;
  ImageStore& images_;
  const SessionPtr session_;
  const std::shared_ptr<Call> call_;
  const VariableList variables_;

  Then then_;  // null: nobody waits for a step to end
  struct Outcome {
    absl::Status status;
    std::size_t copy = 0;
  };

  Division all_;                     // nothing straight
  std::optional<Division> divided_;  // none: there is nothing to be read straight, or the client could not
  std::shared_ptr<Image> image_;
  std::shared_ptr<Restore> restore_;
  std::optional<Outcome> ended_;   // of the restore through the image; while the client still reads
  std::size_t files_read_ = 0;     // by the client, of divided_
  bool again_ = false;             // without divided_, once the restore has ended
  bool without_straight_ = false;  // the client could not read once: it is not asked to again
  std::uint32_t round_ = 0;        // of the plan that the client has
  std::uint64_t sent_ = 0;         // pieces sent as Pieces (gRPC)
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_RESTORE_TRANSFER_H_

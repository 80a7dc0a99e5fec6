// Who gets which image, within the budget. An image belongs to one session: a client that scribbles in an old one
// spoils nobody else's dataset. In steady state a session owns two, which take turns, and no page is ever fresh. One
// that has had to wait for its turn owns a third, the reserve: it makes waits even where the disk is slower now and
// then. Strand only; images themselves are let go of on any thread.
#ifndef CAIRN_DAEMON_CORE_IMAGE_STORE_H_
#define CAIRN_DAEMON_CORE_IMAGE_STORE_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/call.h"
#include "daemon/core/context.h"
#include "daemon/data/image.h"
#include "daemon/data/restore.h"
#include "proto/admin.pb.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"

namespace cairn {

// One session's images. Made by the store, which alone looks into it.
class ImageOwner {
 public:
  ImageOwner(const RunId& run, Rank rank) : run_(run), rank_(rank) {}

 private:
  friend class ImageStore;
  const RunId run_;
  const Rank rank_;
  bool gone_ = false;
  bool has_begun_ = false;                  // it has asked for one
  std::uint64_t largest_ = 0;               // bytes of the largest that it has had, or asked for
  std::uint64_t expected_ = 0;              // bytes of its next checkpoint, as it has said
  Loop::TimerId settles_ = 0;               // until that is acted upon
  std::chrono::nanoseconds usual_wait_{0};  // for a turn, of the last few checkpoints on average
  Loop::TimerId reserve_due_ = 0;           // then it has waited for longer than that
  bool reserve_tried_ = false;              // it was to be made during this wait
  std::uint64_t being_made_ = 0;            // bytes of the image that is being made ahead of need; 0: none
  int being_made_for_calls_ = 0;            // images that wishes of its wait for
  std::vector<std::shared_ptr<Image>> idle_;
  std::vector<std::weak_ptr<Image>> out_;  // on their way from the client to the cache
  std::weak_ptr<Image> read_ahead_;        // made by MakeIfFree, until it goes back
  std::deque<std::uint64_t> known_;        // whose descriptor its connection has, the last named at the end
};
using ImageOwnerPtr = std::shared_ptr<ImageOwner>;

class ImageStore {
 public:
  using Then = std::function<void(absl::StatusOr<std::shared_ptr<Image>>)>;
  struct Wish {
    ImageOwnerPtr owner;
    std::shared_ptr<Call> call;  // once it is answered nobody wants the image any more
    std::uint64_t bytes = 0;     // of the whole file or all blocks; 0: no image is needed
    bool takes_turn = false;     // for the cache: it waits for one of the session's two that are on their way there
    Then then;
    bool waits = true;         // for room; false: kResourceExhausted
    bool for_room = false;     // what it waits for; the store's to say
    SteadyTime since{};        // it has waited for its turn since then; the store's to say
    std::uint64_t making = 0;  // number of the image that is being made for it; 0: none; the store's to say
  };

  ImageStore(const Context& context, std::uint64_t bytes_max);
  ~ImageStore() { Stop(); }
  ImageStore(const ImageStore&) = delete;

  // Images that are let go of from now on tell nobody: the loop may be gone.
  void Stop() { budget_.SetOnGiven(nullptr); }

  ImageOwnerPtr NewOwner(const RunId& run, Rank rank);
  // Another connection has none of the descriptors.
  void ConnectionChanged(ImageOwner& owner) { owner.known_.clear(); }
  // The session has ended.
  void OwnerGone(const ImageOwnerPtr& owner);

  // `then` gets an image of at least the wished size, or a smaller one, to be used as a ring, when the budget is
  // smaller; at once, or when there is room, and if it takes turns fewer than two of the session's are out. While
  // one is being made for it, another of the session's may come back: that is given then, also the one that its last
  // dataset keeps. A client that is faster than the disk gets the third one, the reserve, only after it has waited for
  // longer than usual: so one slow write makes one wait longer by a quarter, and what the reserve has lent comes back
  // over the next ones.
  // kResourceExhausted: never, or not now if it does not wait; kAborted: it was dropped (DropWishes).
  void Acquire(Wish wish);
  void DropWishes(const ImageOwnerPtr& owner, std::uint64_t call = 0);  // 0: all calls
  // An image that is not needed any more goes back to its session, or away; null: nothing.
  void Release(const std::weak_ptr<ImageOwner>& owner, std::shared_ptr<Image> image);
  // Names the image, and says whether its descriptor must go along.
  void Describe(ImageOwner& owner, const std::shared_ptr<Image>& image, local::Image* out);

  // --- Images of checkpoints, kept for a restore until something needs the memory ---
  struct KeptCopy {
    std::shared_ptr<const KeptImage> kept;  // null: none
    Tier from = Tier::kImage;               // kImage: of the capture; else where it has been read ahead
  };
  void Keep(const RunId& run, DatasetId dataset, std::int64_t created_us, Rank rank,
            std::shared_ptr<const KeptImage> kept, const std::weak_ptr<ImageOwner>& owner, Tier from = Tier::kImage);
  // The same for one that no restore can use: only its label is needed, until NeedsNoLabels.
  void KeepLabel(const RunId& run, DatasetId dataset, std::int64_t created_us, Rank rank, std::shared_ptr<Image> image,
                 const std::weak_ptr<ImageOwner>& owner);
  KeptCopy KeptOf(const RunId& run, DatasetId dataset, Rank rank) const;
  void DropKept(const RunId& run, DatasetId dataset);
  // Of a copy that cannot be used. Others may still read it: wishes are tried again when the last of them lets go of
  // it.
  void DropKept(const RunId& run, DatasetId dataset, Rank rank);
  void DropKept(const RunId& run);
  // The dataset is whole in its store: no daemon after this one needs to take up its images.
  void NeedsNoLabels(const RunId& run, DatasetId dataset);
  // The dataset has failed: its images go back to their sessions.
  void ReturnKept(const RunId& run, DatasetId dataset);
  // The same for all datasets older than `before`, but for those that are not whole yet.
  void RetireKept(const RunId& run, DatasetId before);
  // The session's next checkpoint has about so many bytes: while the application computes, images are made for it that
  // it finds idle then, two if it has had none, as far as the budget goes and nobody waits. Of several words, one soon
  // after the other, the last counts.
  void Expect(const ImageOwnerPtr& owner, std::uint64_t bytes);
  // Makes the second image of each session that has one of this dataset kept, while the application computes.
  void MakeSpares(const RunId& run, DatasetId dataset);
  // An image of the session for something that nobody has asked for, later; null: others want the room, or the session
  // has one that is being made. It goes back by Release or Keep.
  void MakeIfFree(const ImageOwnerPtr& owner, std::uint64_t bytes,
                  std::function<void(std::shared_ptr<Image> image)> then);

  // How many it has made, and how.
  void Describe(admin::Mechanisms& told) const;
  std::uint64_t used() const { return budget_.used(); }
  std::uint64_t bytes_max() const { return budget_.bytes_max(); }

 private:
  struct KeptPart {
    std::shared_ptr<const KeptImage> kept;
    std::weak_ptr<ImageOwner> owner;  // gets the image back
    Tier from = Tier::kImage;
    bool for_label = false;  // no restore can use it
  };
  struct KeptDataset {
    std::int64_t created_us = 0;
    std::map<Rank, KeptPart> parts;
  };
  using KeptDatasets = std::map<DatasetId, KeptDataset>;

  struct Count {  // by threads that may block
    std::atomic<std::uint64_t> all{0}, huge{0}, pinned{0};
  };

  void Give(Wish& wish, std::shared_ptr<Image> image);
  void TellIfNotHeld(const Image& image);
  static void IsBack(ImageOwner& owner, const Image* image);
  bool TakeIdle(Wish& wish);
  void Await(Wish wish, bool for_room, const std::string& what);
  void AwaitTurn(Wish wish);
  void MakeReserve(const ImageOwnerPtr& owner);
  bool MayUseReserve(const Wish& wish) const;
  std::uint64_t MakeRoom(ImageOwner& owner, std::uint64_t bytes);
  static bool IsLabelled(const KeptDataset& dataset);
  bool DropOldestKept();
  static void DropPart(KeptDatasets& datasets, DatasetId dataset, Rank rank);
  absl::StatusOr<std::shared_ptr<Image>> MakeImage(std::uint64_t bytes, const std::function<void()>& before_part);
  void Make(Wish wish, std::uint64_t bytes);
  void Made(Wish wish, std::uint64_t bytes, const absl::StatusOr<std::shared_ptr<Image>>& image);
  std::optional<Wish> TakeWish(std::uint64_t making);
  void Prepare(const ImageOwnerPtr& owner);
  void MakeAhead(const ImageOwnerPtr& owner, std::uint64_t bytes);
  bool MayMakeAhead(const ImageOwner& owner, std::uint64_t bytes) const;
  void MakeInPeace(const ImageOwnerPtr& owner, std::uint64_t bytes,
                   std::function<void(std::shared_ptr<Image> image)> then);
  std::size_t CountOf(const ImageOwnerPtr& owner) const;
  void RetryWishes();
  bool Short() const;  // somebody waits for room
  void WishesChanged() { *hurry_ = Short(); }

  const Context& context_;
  ImageBudget budget_;
  Count made_;
  std::multimap<std::pair<RunId, Rank>, ImageOwnerPtr> owners_;  // until OwnerGone
  std::map<RunId, KeptDatasets> kept_;  // no run is taken out: references to its datasets outlive a retry of wishes
  std::deque<Wish> wishes_;
  std::uint64_t last_making_ = 0;
  bool told_not_held_ = false;
  // Somebody waits for room: what is made ahead gives way to nobody, since it may be wished for, or stand in its way.
  const std::shared_ptr<std::atomic<bool>> hurry_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_IMAGE_STORE_H_

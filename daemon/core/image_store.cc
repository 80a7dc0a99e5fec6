#include "daemon/core/image_store.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/data/plan.h"
#include "proto/frame.h"
#include "storage/base/only_owner.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

using namespace std::chrono_literals;

// Rather than a ring that is smaller than this, a dataset waits for others' images.
constexpr std::uint64_t kRingBytesWanted = 64 << 20;
constexpr std::chrono::milliseconds kImageRetry(50);
constexpr std::chrono::milliseconds kExpectationSettles(20);
constexpr std::size_t kTakeTurns = 2;  // of one session
constexpr int kWaitsForUsual = 4;      // what is usual follows the last few waits
// So long the making of an image ahead gives way to clients that copy, all in all: it has its place in the budget.
constexpr std::chrono::milliseconds kClientPatience(1000);

std::uint64_t RoundUp(std::uint64_t bytes) {
  return (bytes + Image::kAlignment - 1) / Image::kAlignment * Image::kAlignment;
}

std::uint64_t RoundDown(std::uint64_t bytes) {
  return bytes / Image::kAlignment * Image::kAlignment;
}

// How long a client waits for its turn before it gets the reserve.
std::chrono::nanoseconds Patience(std::chrono::nanoseconds usual) {
  return usual + usual / 4;
}

}  // namespace

ImageStore::ImageStore(const Context& context, std::uint64_t bytes_max) : context_(context), budget_(bytes_max) {
  // The last to let go of an image may be a connection or a pool.
  budget_.SetOnGiven([this] { context_.loop().Post([this] { RetryWishes(); }); });
}

// --- Whose images ---

ImageOwnerPtr ImageStore::NewOwner(const RunId& run, Rank rank) {
  auto owner = std::make_shared<ImageOwner>(run, rank);
  owners_.emplace(std::pair(run, rank), owner);
  return owner;
}

void ImageStore::OwnerGone(const ImageOwnerPtr& owner) {
  owner->gone_ = true;
  owner->idle_.clear();
  std::erase_if(owners_, [&owner](const auto& item) { return item.second == owner; });
  DropWishes(owner);
  RetryWishes();
}

// The descriptor goes along unless this connection has had it lately.
void ImageStore::Describe(ImageOwner& owner, const std::shared_ptr<Image>& image, local::Image* out) {
  out->set_id(image->id());
  out->set_bytes(image->bytes().size());
  // A client keeps so many images mapped, the least recently named one goes (proto/frame.h); what it may have let go of
  // is sent anew.
  std::deque<std::uint64_t>& known = owner.known_;
  out->set_fresh(std::erase(known, image->id()) == 0);
  known.push_back(image->id());
  if (known.size() > CAIRN_IMAGES_MAPPED_MIN) known.pop_front();
}

// --- Who gets one ---

void ImageStore::Acquire(Wish wish) {
  if (wish.bytes == 0) return wish.then(std::shared_ptr<Image>());
  if (budget_.bytes_max() < std::max<std::uint64_t>(kRingBytesMin, Image::kAlignment)) {
    return wish.then(ResourceExhausted("image.bytes_max is {} bytes; the smallest image has {}", budget_.bytes_max(),
                                       Image::kAlignment));
  }
  const std::uint64_t wanted = RoundUp(wish.bytes);
  wish.owner->has_begun_ = true;
  wish.owner->largest_ = std::max(wish.owner->largest_, wanted);
  std::erase_if(wish.owner->out_, [](const std::weak_ptr<Image>& image) { return image.expired(); });
  const bool has_turn = !wish.takes_turn || wish.owner->out_.size() < kTakeTurns;
  if ((has_turn || MayUseReserve(wish)) && TakeIdle(wish)) return;
  if (!has_turn) return AwaitTurn(std::move(wish));
  if (wish.making != 0) return Await(std::move(wish), false, "an image that is being made");
  if (wish.owner->being_made_ >= wanted) return Await(std::move(wish), true, "an image that is being made");
  const std::uint64_t room = MakeRoom(*wish.owner, wanted);
  const std::uint64_t least = std::min({wanted, kRingBytesWanted, RoundDown(budget_.bytes_max())});
  if (room >= least) return Make(std::move(wish), std::min(wanted, room));
  const std::string room_for =
      fmt::format("room for an image of {} bytes ({} of {} in use)", wanted, budget_.used(), budget_.bytes_max());
  if (!wish.waits) return wish.then(ResourceExhausted("no {}", room_for));
  Await(std::move(wish), true, room_for);
}

void ImageStore::Await(Wish wish, bool for_room, const std::string& what) {
  wish.call->WaitingFor(what);
  wish.for_room = for_room;
  // Those of answered calls go, so that repeated requests cannot grow the list.
  std::erase_if(wishes_, [](const Wish& other) { return other.call->answered(); });
  wishes_.push_back(std::move(wish));
  WishesChanged();
}

// Of two that are out the first is being written, and the next one goes when it is there. If that takes longer than
// usual, the reserve goes.
void ImageStore::AwaitTurn(Wish wish) {
  const ImageOwnerPtr& owner = wish.owner;
  if (wish.since == SteadyTime()) {
    wish.since = context_.now();
    owner->reserve_tried_ = false;
  }
  MakeReserve(owner);
  if (owner->reserve_due_ == 0) {
    const auto left = wish.since + Patience(owner->usual_wait_) - context_.now();
    if (left > left.zero()) {
      owner->reserve_due_ = context_.loop().After(std::chrono::ceil<std::chrono::milliseconds>(left),
                                                  [this, weak = std::weak_ptr<ImageOwner>(owner)] {
                                                    if (const ImageOwnerPtr its = weak.lock()) its->reserve_due_ = 0;
                                                    RetryWishes();
                                                  });
    }
  }
  Await(std::move(wish), false, "one of the rank's images, which are on their way to the cache");
}

// Once for each checkpoint that waits: what was refused would be refused again.
void ImageStore::MakeReserve(const ImageOwnerPtr& owner) {
  if (owner->reserve_tried_ || CountOf(owner) > kTakeTurns || !MayMakeAhead(*owner, owner->largest_)) return;
  owner->reserve_tried_ = true;
  MakeInPeace(owner, owner->largest_, [this, owner](std::shared_ptr<Image> image) {
    // What is captured in others survives this daemon.
    if (image && context_.env.deposits && !image->has_label()) image = nullptr;
    Release(owner, std::move(image));
  });
}

bool ImageStore::MayUseReserve(const Wish& wish) const {
  return wish.owner->out_.size() == kTakeTurns && wish.since != SteadyTime() &&
         context_.now() - wish.since >= Patience(wish.owner->usual_wait_);
}

bool ImageStore::Short() const {
  return std::ranges::any_of(wishes_, &Wish::for_room);
}

// What holds the others has a maximum, or does not answer. Said once in the daemon's life: it may come and go.
void ImageStore::TellIfNotHeld(const Image& image) {
  if (!context_.env.deposits || image.has_label() || std::exchange(told_not_held_, true)) return;
  context_.Warn(
      "a checkpoint that is captured, and not in the cache yet, is lost if this daemon is killed now: the supervisor "
      "holds no more memory for this user");
}

void ImageStore::Give(Wish& wish, std::shared_ptr<Image> image) {
  image->ClearLabel();
  if (wish.takes_turn) {
    TellIfNotHeld(*image);
    ImageOwner& owner = *wish.owner;
    const std::chrono::nanoseconds waited = wish.since == SteadyTime() ? 0ns : context_.now() - wish.since;
    owner.usual_wait_ += (waited - owner.usual_wait_) / kWaitsForUsual;
    owner.out_.push_back(image);
  }
  wish.then(std::move(image));
}

void ImageStore::IsBack(ImageOwner& owner, const Image* image) {
  if (owner.read_ahead_.lock().get() == image) owner.read_ahead_.reset();
  std::erase_if(owner.out_, [image](const std::weak_ptr<Image>& out) { return out.lock().get() == image; });
}

// An idle image of the session, or the one that its last dataset keeps: that copy gives way to the new dataset.
bool ImageStore::TakeIdle(Wish& wish) {
  ImageOwner& owner = *wish.owner;
  // What is larger than the budget goes through a ring, and a larger one than that cannot be had.
  const std::uint64_t enough = std::min(wish.bytes, RoundDown(budget_.bytes_max()));
  auto large_enough = [enough](const std::shared_ptr<Image>& image) { return image->bytes().size() >= enough; };
  auto best = owner.idle_.end();
  for (auto at = owner.idle_.begin(); at != owner.idle_.end(); ++at) {
    if (large_enough(*at) && (best == owner.idle_.end() || (*at)->bytes().size() < (*best)->bytes().size())) best = at;
  }
  if (best != owner.idle_.end()) {
    std::shared_ptr<Image> image = *best;
    owner.idle_.erase(best);
    Give(wish, std::move(image));
    return true;
  }
  KeptDatasets& datasets = kept_[owner.run_];
  for (auto& [id, dataset] : datasets) {
    const auto part = dataset.parts.find(owner.rank_);
    if (part == dataset.parts.end() || part->second.owner.lock() != wish.owner) continue;
    // A restore may be copying from it; then it is not alone in holding the kept image. With a label it is for the
    // daemon after this one, if this one dies.
    const KeptImage& kept = *part->second.kept;
    if (part->second.kept.use_count() > 1 || !large_enough(kept.image) || kept.image->is_labelled()) continue;
    std::shared_ptr<Image> image = part->second.kept->image;
    DropPart(datasets, id, owner.rank_);
    Give(wish, std::move(image));
    return true;
  }
  return false;
}

// Frees what may give way, as far as needed: the session's own idle images (too small, or they would have been taken),
// others' idle ones, kept ones. Returns how much can be had now, at most `bytes`.
std::uint64_t ImageStore::MakeRoom(ImageOwner& owner, std::uint64_t bytes) {
  auto room = [this] { return budget_.bytes_max() - std::min(budget_.used(), budget_.bytes_max()); };
  owner.idle_.clear();
  for (auto& [key, other] : owners_) {
    while (room() < bytes && !other->idle_.empty()) other->idle_.pop_back();
  }
  while (room() < bytes && DropOldestKept()) {
  }
  return std::min(bytes, RoundDown(room()));
}

// Any thread that may block. Its pages are looked for now, not when the client waits for the disk.
absl::StatusOr<std::shared_ptr<Image>> ImageStore::MakeImage(std::uint64_t bytes,
                                                             const std::function<void()>& before_part) {
  auto image = Image::Make(budget_, bytes, before_part, context_.env.deposits);
  if (!image.ok()) return image;
  std::shared_ptr<void> pinned = context_.env.cache_disk.Pin((*image)->bytes());
  ++made_.all;
  if ((*image)->in_huge_pages()) ++made_.huge;
  if (pinned != nullptr) ++made_.pinned;
  (*image)->KeepWithMemory(std::move(pinned));
  return image;
}

void ImageStore::Describe(admin::Mechanisms& told) const {
  told.set_images_huge(made_.huge);
  told.set_images_pinned(made_.pinned);
  told.set_images(made_.all);  // last: one that is made meanwhile must not make them more than all
}

// Fresh memory may take seconds, in which another image of the session may come back: the wish waits for either.
void ImageStore::Make(Wish wish, std::uint64_t bytes) {
  const ImageOwnerPtr owner = wish.owner;
  const std::uint64_t making = wish.making = ++last_making_;
  ++owner->being_made_for_calls_;
  Await(std::move(wish), false, "an image that is being made");
  context_.OnCache([this, bytes] { return MakeImage(bytes, nullptr); },
                   [this, owner, making, bytes](const absl::StatusOr<std::shared_ptr<Image>>& image) {
                     --owner->being_made_for_calls_;
                     if (std::optional<Wish> wish = TakeWish(making)) {
                       Made(*std::move(wish), bytes, image);
                     } else if (image.ok()) {
                       Release(owner, *image);  // the session's next checkpoint finds it
                     }
                   });
}

// None: another image was given, or nobody wants one any more.
std::optional<ImageStore::Wish> ImageStore::TakeWish(std::uint64_t making) {
  const auto at = std::ranges::find(wishes_, making, &Wish::making);
  if (at == wishes_.end()) return std::nullopt;
  Wish wish = std::move(*at);
  wishes_.erase(at);
  wish.making = 0;
  return wish;
}

void ImageStore::Made(Wish wish, std::uint64_t bytes, const absl::StatusOr<std::shared_ptr<Image>>& image) {
  if (image.ok() && wish.takes_turn && wish.owner->out_.size() >= kTakeTurns) {  // it has lost its turn
    const ImageOwnerPtr owner = wish.owner;
    wishes_.push_back(std::move(wish));
    return Release(owner, *image);
  }
  if (image.ok()) return Give(wish, *image);
  const bool exhausted = absl::IsResourceExhausted(image.status());
  if (!exhausted || !wish.waits || wish.call->answered()) return wish.then(image);
  // Others may have taken the room meanwhile: as long as some image is out, it comes back. It may have come back
  // between the two: hence the look after a while.
  if (budget_.used() == 0) return wish.then(Annotate(image.status(), fmt::format("an image of {} bytes", bytes)));
  wish.for_room = true;
  wishes_.push_back(std::move(wish));
  WishesChanged();
  context_.loop().After(kImageRetry, [this] { RetryWishes(); });
}

void ImageStore::Release(const std::weak_ptr<ImageOwner>& owner, std::shared_ptr<Image> image) {
  if (!image) return;
  image->ClearLabel();
  const ImageOwnerPtr known = owner.lock();
  if (known) IsBack(*known, image.get());
  if (known && !known->gone_) known->idle_.push_back(std::move(image));
  image.reset();
  RetryWishes();
}

void ImageStore::RetryWishes() {
  std::deque<Wish> wishes;
  wishes.swap(wishes_);
  for (Wish& wish : wishes) {
    if (!wish.call->answered()) Acquire(std::move(wish));
  }
  WishesChanged();
}

// The session has ended, or the dataset of one call has failed: who waits for an image is told at once.
void ImageStore::DropWishes(const ImageOwnerPtr& owner, std::uint64_t call) {
  std::deque<Wish> wishes;
  wishes.swap(wishes_);
  for (Wish& wish : wishes) {
    if (wish.owner == owner && (call == 0 || wish.call->number() == call)) {
      wish.then(Aborted("it is not needed any more"));
    } else {
      wishes_.push_back(std::move(wish));
    }
  }
  WishesChanged();
}

// --- Images of checkpoints, kept for a restore ---

void ImageStore::Keep(const RunId& run, DatasetId dataset, std::int64_t created_us, Rank rank,
                      std::shared_ptr<const KeptImage> kept, const std::weak_ptr<ImageOwner>& owner, Tier from) {
  const ImageOwnerPtr its = owner.lock();
  if (its && !kept->image->is_labelled()) IsBack(*its, kept->image.get());
  KeptDataset& known = kept_[run][dataset];
  known.created_us = created_us;
  known.parts[rank] = {.kept = std::move(kept), .owner = owner, .from = from};
  RetryWishes();  // kept ones give way
}

void ImageStore::KeepLabel(const RunId& run, DatasetId dataset, std::int64_t created_us, Rank rank,
                           std::shared_ptr<Image> image, const std::weak_ptr<ImageOwner>& owner) {
  auto kept = std::make_shared<KeptImage>();
  kept->image = std::move(image);
  KeptDataset& known = kept_[run][dataset];
  known.created_us = created_us;
  known.parts[rank] = {.kept = std::move(kept), .owner = owner, .for_label = true};
}

ImageStore::KeptCopy ImageStore::KeptOf(const RunId& run, DatasetId dataset, Rank rank) const {
  const auto datasets = kept_.find(run);
  if (datasets == kept_.end()) return {};
  const auto known = datasets->second.find(dataset);
  if (known == datasets->second.end()) return {};
  const auto part = known->second.parts.find(rank);
  if (part == known->second.parts.end() || part->second.for_label) return {};
  return {.kept = part->second.kept, .from = part->second.from};
}

// For the daemon after this one: a label goes only once the dataset is whole.
bool ImageStore::IsLabelled(const KeptDataset& dataset) {
  return std::ranges::any_of(dataset.parts, [](const auto& part) { return part.second.kept->image->is_labelled(); });
}

bool ImageStore::DropOldestKept() {
  KeptDatasets* its = nullptr;
  KeptDatasets::iterator oldest;
  for (auto& [run, datasets] : kept_) {
    const auto first = std::ranges::find_if(datasets, [](const auto& one) { return !IsLabelled(one.second); });
    if (first == datasets.end()) continue;
    if (its != nullptr && first->second.created_us >= oldest->second.created_us) continue;
    its = &datasets;
    oldest = first;
  }
  if (its == nullptr) return false;
  its->erase(oldest);
  return true;
}

void ImageStore::DropPart(KeptDatasets& datasets, DatasetId dataset, Rank rank) {
  const auto known = datasets.find(dataset);
  if (known == datasets.end()) return;
  known->second.parts.erase(rank);
  if (known->second.parts.empty()) datasets.erase(known);
}

void ImageStore::DropKept(const RunId& run, DatasetId dataset) {
  if (kept_[run].erase(dataset) > 0) RetryWishes();
}

void ImageStore::DropKept(const RunId& run, DatasetId dataset, Rank rank) {
  DropPart(kept_[run], dataset, rank);
}

void ImageStore::DropKept(const RunId& run) {
  kept_[run].clear();
  RetryWishes();
}

void ImageStore::ReturnKept(const RunId& run, DatasetId dataset) {
  const auto known = kept_[run].extract(dataset);
  if (!known) return;
  for (const auto& [rank, part] : known.mapped().parts) Release(part.owner, part.kept->image);
}

void ImageStore::RetireKept(const RunId& run, DatasetId before) {
  KeptDatasets& datasets = kept_[run];
  for (auto next = datasets.begin(); next != datasets.end() && next->first < before;) {
    const auto at = next++;
    if (IsLabelled(at->second)) continue;  // not whole yet: the next call takes it
    auto oldest = datasets.extract(at);
    for (auto& [rank, part] : oldest.mapped().parts) {
      std::shared_ptr<Image> image = part.kept->image;
      // A restore may be copying from it: then it does not go back for others to write to.
      const bool alone = IsOnlyOwner(part.kept);
      part.kept.reset();
      Release(part.owner, alone ? std::move(image) : nullptr);
    }
  }
}

void ImageStore::NeedsNoLabels(const RunId& run, DatasetId dataset) {
  const auto& datasets = kept_[run];
  const auto known = datasets.find(dataset);
  if (known == datasets.end()) return;
  for (const auto& [rank, part] : known->second.parts) {
    part.kept->image->ClearLabel();
    if (const ImageOwnerPtr its = part.owner.lock()) IsBack(*its, part.kept->image.get());
  }
  RetryWishes();
}

// The second image of a session is made while the application computes, so that its next checkpoint finds one.
void ImageStore::MakeSpares(const RunId& run, DatasetId dataset) {
  const auto& datasets = kept_[run];
  const auto known = datasets.find(dataset);
  if (known == datasets.end()) return;
  for (const auto& [rank, part] : known->second.parts) {
    const ImageOwnerPtr owner = part.owner.lock();
    if (owner && CountOf(owner) < kTakeTurns) MakeAhead(owner, part.kept->image->bytes().size());
  }
}

// The session's images, wherever they are.
std::size_t ImageStore::CountOf(const ImageOwnerPtr& owner) const {
  std::size_t count = owner->idle_.size() + owner->out_.size() + (owner->read_ahead_.expired() ? 0 : 1);
  const auto datasets = kept_.find(owner->run_);
  if (datasets == kept_.end()) return count;
  for (const auto& [id, dataset] : datasets->second) {
    const auto part = dataset.parts.find(owner->rank_);
    if (part == dataset.parts.end() || part->second.owner.lock() != owner) continue;
    if (!part->second.kept->image->is_labelled()) ++count;  // with a label it is out, too
  }
  return count;
}

void ImageStore::Expect(const ImageOwnerPtr& owner, std::uint64_t bytes) {
  if (bytes == 0 || owner->gone_) return;
  owner->expected_ = bytes;
  if (owner->settles_ != 0) context_.loop().Cancel(owner->settles_);
  owner->settles_ = context_.loop().After(kExpectationSettles, [this, weak = std::weak_ptr<ImageOwner>(owner)] {
    const ImageOwnerPtr owner = weak.lock();
    if (!owner) return;
    owner->settles_ = 0;
    Prepare(owner);
  });
}

void ImageStore::Prepare(const ImageOwnerPtr& owner) {
  if (owner->expected_ > budget_.bytes_max()) return;  // through a ring
  const std::uint64_t bytes = RoundUp(owner->expected_);
  if (owner->has_begun_ && bytes <= owner->largest_) return;  // it has what it needs, in use or kept
  std::erase_if(owner->idle_, [bytes](const std::shared_ptr<Image>& image) { return image->bytes().size() < bytes; });
  const bool lacks = owner->has_begun_ ? owner->idle_.empty() : CountOf(owner) < kTakeTurns;
  if (lacks) MakeAhead(owner, bytes);
}

bool ImageStore::MayMakeAhead(const ImageOwner& owner, std::uint64_t bytes) const {
  if (owner.gone_ || owner.being_made_ != 0 || owner.being_made_for_calls_ > 0 || context_.quiescing()) return false;
  // While wishes are tried again, those that have not been yet are not in the list.
  return budget_.used() + bytes <= budget_.bytes_max() && !*hurry_ && !Short();
}

void ImageStore::MakeAhead(const ImageOwnerPtr& owner, std::uint64_t bytes) {
  if (MayMakeAhead(*owner, bytes)) {
    MakeInPeace(owner, bytes, [this, owner](std::shared_ptr<Image> image) { Release(owner, std::move(image)); });
  }
}

void ImageStore::MakeIfFree(const ImageOwnerPtr& owner, std::uint64_t bytes,
                            std::function<void(std::shared_ptr<Image> image)> then) {
  bytes = RoundUp(bytes);
  if (!MayMakeAhead(*owner, bytes)) return then(nullptr);
  MakeInPeace(owner, bytes, [owner, then = std::move(then)](std::shared_ptr<Image> image) {
    owner->read_ahead_ = image;
    then(std::move(image));
  });
}

// While the application computes. REQUIRES: MayMakeAhead.
void ImageStore::MakeInPeace(const ImageOwnerPtr& owner, std::uint64_t bytes,
                             std::function<void(std::shared_ptr<Image> image)> then) {
  owner->being_made_ = bytes;
  auto make = [this, bytes, hurry = hurry_, &work = context_.env.pools.work] {
    std::chrono::milliseconds patience = kClientPatience;
    return MakeImage(bytes, [&] { work.GiveWayToClients(*hurry, patience); });
  };
  RunBlocking(context_.env.pools.images, context_.loop(), std::move(make),
              [this, owner, then = std::move(then)](absl::StatusOr<std::shared_ptr<Image>> image) {
                owner->being_made_ = 0;
                if (image.ok()) owner->largest_ = std::max<std::uint64_t>(owner->largest_, (*image)->bytes().size());
                // Without one the next checkpoint makes its own, or takes the kept one: nothing to report.
                const bool made = image.ok();
                then(made ? *std::move(image) : nullptr);
                RetryWishes();  // who waited for this one
                if (made && owner->expected_ != 0) Prepare(owner);
              });
}

}  // namespace cairn

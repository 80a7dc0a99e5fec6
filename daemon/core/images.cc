// Who gets which image, within the budget. An image belongs to one session: a client that scribbles in an old one
// spoils nobody else's dataset. In steady state a session owns two, which take turns, and no page is ever fresh.
#include <algorithm>

#include "daemon/core/core_impl.h"
#include "proto/frame.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// Rather than a ring that is smaller than this, a dataset waits for others' images.
constexpr std::uint64_t kRingBytesWanted = 64 << 20;
constexpr std::chrono::milliseconds kImageRetry(50);

std::uint64_t RoundUp(std::uint64_t bytes) {
  return (bytes + Image::kAlignment - 1) / Image::kAlignment * Image::kAlignment;
}

}  // namespace

void CoreImpl::AcquireImage(ImageWish wish) {
  if (wish.bytes == 0) return wish.then(std::shared_ptr<Image>());
  if (budget_.bytes_max() < std::max<std::uint64_t>(kRingBytesMin, Image::kAlignment)) {
    return wish.then(ResourceExhausted("image.bytes_max is {} bytes; the smallest image has {}", budget_.bytes_max(),
                                       Image::kAlignment));
  }
  if (TakeIdleImage(wish)) return;
  const std::uint64_t wanted = RoundUp(wish.bytes);
  const std::uint64_t room = MakeRoomForImage(*wish.session, wanted);
  const std::uint64_t least =
      std::min({wanted, kRingBytesWanted, budget_.bytes_max() / Image::kAlignment * Image::kAlignment});
  if (room >= least) return MakeImage(std::move(wish), std::min(wanted, room));
  wish.call->WaitingFor(
      fmt::format("room for an image of {} bytes ({} of {} in use)", wanted, budget_.used(), budget_.bytes_max()));
  image_wishes_.push_back(std::move(wish));
}

// An idle image of the session, or the one that its last dataset keeps: that copy gives way to the new dataset.
bool CoreImpl::TakeIdleImage(ImageWish& wish) {
  Session& session = *wish.session;
  // What is larger than the budget goes through a ring, and a larger one than that cannot be had.
  const std::uint64_t enough = std::min(wish.bytes, budget_.bytes_max() / Image::kAlignment * Image::kAlignment);
  auto large_enough = [&](const std::shared_ptr<Image>& image) { return image->bytes().size() >= enough; };
  auto best = session.idle_images.end();
  for (auto at = session.idle_images.begin(); at != session.idle_images.end(); ++at) {
    if (large_enough(*at) && (best == session.idle_images.end() || (*at)->bytes().size() < (*best)->bytes().size()))
      best = at;
  }
  if (best != session.idle_images.end()) {
    std::shared_ptr<Image> image = *best;
    session.idle_images.erase(best);
    wish.then(std::move(image));
    return true;
  }
  for (auto& [id, ranks] : session.run->kept) {
    auto kept = ranks.find(session.rank);
    if (kept == ranks.end() || kept->second.session.lock() != wish.session) continue;
    // A restore may be copying from it; then it is not alone in holding the kept image.
    if (kept->second.kept.use_count() > 1 || !large_enough(kept->second.kept->image)) continue;
    std::shared_ptr<Image> image = kept->second.kept->image;
    ranks.erase(kept);
    if (ranks.empty()) session.run->kept.erase(id);
    wish.then(std::move(image));
    return true;
  }
  return false;
}

// Frees what may give way, as far as needed: the session's own idle images (too small, or they would have been taken),
// others' idle ones, kept ones. Returns how much can be had now, at most `bytes`.
std::uint64_t CoreImpl::MakeRoomForImage(Session& session, std::uint64_t bytes) {
  auto room = [this] { return budget_.bytes_max() - std::min(budget_.used(), budget_.bytes_max()); };
  session.idle_images.clear();
  for (auto& [id, run] : runs_) {
    for (auto& [rank, other] : run->sessions) {
      while (room() < bytes && !other->idle_images.empty()) other->idle_images.pop_back();
    }
    for (const auto& other : run->observers) {
      while (room() < bytes && !other->idle_images.empty()) other->idle_images.pop_back();
    }
  }
  while (room() < bytes && DropOldestKept()) {
  }
  return std::min(bytes, room() / Image::kAlignment * Image::kAlignment);
}

bool CoreImpl::DropOldestKept() {
  Run* oldest = nullptr;
  std::int64_t oldest_us = 0;
  for (auto& [id, run] : runs_) {
    if (run->kept.empty()) continue;
    DatasetPtr dataset = run->ledger.Get(run->kept.begin()->first);
    const std::int64_t us = dataset ? dataset->created_us : 0;
    if (oldest == nullptr || us < oldest_us) {
      oldest = run.get();
      oldest_us = us;
    }
  }
  if (oldest == nullptr) return false;
  oldest->kept.erase(oldest->kept.begin());
  return true;
}

void CoreImpl::MakeImage(ImageWish wish, std::uint64_t bytes) {
  BlockingCache(
      [this, bytes] { return Image::Make(budget_, bytes); },
      [this, wish = std::move(wish), bytes](absl::StatusOr<std::shared_ptr<Image>> image) mutable {
        if (image.ok() || image.status().code() != absl::StatusCode::kResourceExhausted || wish.call->answered()) {
          return wish.then(std::move(image));
        }
        // Others may have taken the room meanwhile: as long as some image is out, it comes back. It may have come back
        // between the two: hence the look after a while.
        if (budget_.used() > 0) {
          image_wishes_.push_back(std::move(wish));
          loop_.After(kImageRetry, [this] { RetryImageWishes(); });
        } else {
          wish.then(Annotate(image.status(), fmt::format("an image of {} bytes", bytes)));
        }
      });
}

void CoreImpl::ReleaseImage(const std::weak_ptr<Session>& owner, std::shared_ptr<Image> image) {
  if (!image) return;
  SessionPtr session = owner.lock();
  if (session && !session->ended) session->idle_images.push_back(std::move(image));
  image.reset();
  RetryImageWishes();
}

void CoreImpl::RetryImageWishes() {
  std::deque<ImageWish> wishes;
  wishes.swap(image_wishes_);
  for (ImageWish& wish : wishes) {
    if (!wish.call->answered()) AcquireImage(std::move(wish));
  }
}

// The session has ended, or the dataset of one call (0: all calls) has failed: who waits for an image is told at once.
void CoreImpl::DropImageWishes(const SessionPtr& session, std::uint64_t call) {
  std::deque<ImageWish> wishes;
  wishes.swap(image_wishes_);
  for (ImageWish& wish : wishes) {
    if (wish.session == session && (call == 0 || wish.call->number() == call)) {
      wish.then(Aborted("it is not needed any more"));
    } else {
      image_wishes_.push_back(std::move(wish));
    }
  }
}

// Kept images of datasets older than `before` go back to their sessions.
void CoreImpl::RetireKept(const RunPtr& run, DatasetId before) {
  while (!run->kept.empty() && run->kept.begin()->first < before) {
    auto ranks = std::move(run->kept.begin()->second);
    run->kept.erase(run->kept.begin());
    for (auto& [rank, part] : ranks) {
      std::shared_ptr<Image> image = part.kept->image;
      const bool alone = part.kept.use_count() == 1;
      part.kept.reset();
      ReleaseImage(part.session, alone ? std::move(image) : nullptr);
    }
  }
}

// Memory is the application's first of all: when it is gone, the image that it might restart from is kept for a while
// only.
void CoreImpl::ForgetKeptLater(const RunPtr& run) {
  loop_.After(std::chrono::milliseconds(config_.image.linger_ms), [this, run] {
    const Launch* newest = run->ledger.newest();
    if (newest != nullptr && !newest->over()) return;
    run->kept.clear();
    RetryImageWishes();
  });
}

// The second image of a session is made while the application computes, so that its next checkpoint finds one.
void CoreImpl::MakeSpareImage(const SessionPtr& session, std::uint64_t bytes) {
  if (!session || session->ended || !session->idle_images.empty() || quiescing_) return;
  if (budget_.used() + bytes > budget_.bytes_max() || !image_wishes_.empty()) return;
  BlockingCache([this, bytes] { return Image::Make(budget_, bytes); },
                [this, session, bytes](absl::StatusOr<std::shared_ptr<Image>> image) {
                  // Without one the next checkpoint takes the kept image instead: nothing to report.
                  if (!image.ok()) return;
                  if (session->idle_images.empty() && image_wishes_.empty()) {
                    ReleaseImage(session, *std::move(image));
                  } else {
                    image->reset();
                    RetryImageWishes();
                  }
                });
}

// The descriptor goes along unless this connection has had it lately.
void CoreImpl::DescribeImage(Session& session, const std::shared_ptr<Image>& image, local::Image* out) {
  out->set_id(image->id());
  out->set_bytes(image->bytes().size());
  // A client keeps so many images mapped, the least recently named one goes (proto/frame.h); what it may have let go of
  // is sent anew.
  std::deque<std::uint64_t>& known = session.known_images;
  out->set_fresh(std::erase(known, image->id()) == 0);
  known.push_back(image->id());
  if (known.size() > CAIRN_IMAGES_MAPPED_MIN) known.pop_front();
}

}  // namespace cairn

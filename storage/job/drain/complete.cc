#include "storage/job/drain/complete.h"

#include <algorithm>
#include <string_view>

#include "storage/base/clock.h"
#include "storage/base/path.h"
#include "storage/base/status.h"

namespace cairn::drain {
namespace {

using std::chrono::milliseconds;

// What a server's clock may be behind ours: a file that is older than this, and has settled, is so by any clock.
constexpr std::chrono::hours kClockDifferenceMax(1);

}  // namespace

void Completeness::ClosedAndGone(const std::string& path) {
  constexpr std::size_t kKept = 4096;  // most were deleted, and no news of them will come
  if (closed_and_gone_.size() >= kKept) closed_and_gone_.clear();
  closed_and_gone_.insert(path);
}

void Completeness::Moved(const std::string& from, const std::string& to, const FileInfo& info) {
  if (closed_and_gone_.erase(from) > 0) return Closed(to, info);
  const auto closed = closed_.find(from);
  if (closed == closed_.end()) return;
  const bool same = closed->second.SameContent(IdentityOf(info));  // the rename itself moves ctime
  closed_.erase(closed);
  if (same) Closed(to, info);
}

void Completeness::Begin(const Scan& scan) {
  ++scans_;
  settles_at_.reset();
  marked_.clear();
  // What is gone, or was drained, is forgotten.
  std::erase_if(seen_, [&](const auto& seen) { return seen.second.scan + 1 < scans_; });
  if (closed_.size() > 2 * scan.items.size() + 1024) {
    std::erase_if(closed_, [&](const auto& closed) {
      const auto found = std::ranges::lower_bound(scan.items, closed.first, {}, &Item::path);
      return found == scan.items.end() || found->path != closed.first;
    });
  }
  if (rules_.marker.empty()) return;
  for (const Item& item : scan.items) {
    const std::string name = BaseOf("/" + item.path);
    if (!IsMarker(name, rules_.marker)) continue;
    const bool of_folder = !rules_.marker.starts_with('*');
    const std::size_t stem = of_folder ? 0 : item.path.size() - (rules_.marker.size() - 1);
    marked_[of_folder ? FolderOf(item.path) + "/" : item.path.substr(0, stem)] = Nanoseconds(item.info.ctime);
  }
}

// What changed after its marker was made is not what the marker speaks of.
bool Completeness::IsMarked(const Item& item) const {
  if (marked_.empty()) return false;
  if (IsMarker(BaseOf("/" + item.path), rules_.marker)) return true;
  const auto covers = [&](const std::string& what) {
    const auto marker = marked_.find(what);
    return marker != marked_.end() && Nanoseconds(item.info.ctime) <= marker->second;
  };
  if (covers(item.path)) return true;
  for (std::string folder = FolderOf(item.path);; folder = FolderOf(folder)) {
    if (covers(folder + "/")) return true;
    if (folder.empty()) return false;
  }
}

std::string Completeness::WhyNot(const Item& item) {
  if (item.kind == Item::Kind::kSymlink) return "";  // made at once
  if (!item.unfinished.empty()) return item.unfinished;
  if (item.finished || IsMarked(item)) return "";
  const auto closed = closed_.find(item.path);
  const bool marker_only = !rules_.marker.empty() && !rules_.settle_ms;
  if (!marker_only && closed != closed_.end() && closed->second == IdentityOf(item.info)) return "";
  if (!rules_.settle_ms) {
    return rules_.marker.empty() ? "its writer was not seen closing it"
                                 : "no marker " + rules_.marker + " was made after its last change";
  }
  return WhyNotSettled(item);
}

Completeness::Seen& Completeness::See(const Item& item) {
  Seen& seen = seen_[item.path];
  const Identity identity = IdentityOf(item.info);
  // A name more or less of the same file moves its ctime.
  const bool same = item.info.links > 1 ? seen.identity.SameContent(identity) : seen.identity == identity;
  if (seen.scan == 0 || !same) seen = {.identity = identity, .since = SteadyNow(), .scan = scans_};
  seen.scan = scans_;
  return seen;
}

void Completeness::SettlesAt(std::chrono::steady_clock::time_point at) {
  if (!settles_at_ || at < *settles_at_) settles_at_ = at;
}

bool Completeness::StayedAsItIs(const Item& item) {
  if (!rules_.settle_ms) return true;
  const auto at = See(item).since + milliseconds(*rules_.settle_ms);
  if (SteadyNow() >= at) return true;
  SettlesAt(at);
  return false;
}

// By the clock of the file system; or, where that is not ours, by how long we have seen it so.
std::string Completeness::WhyNotSettled(const Item& item) {
  const auto settle = milliseconds(*rules_.settle_ms);
  const std::int64_t now_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(WallNow().time_since_epoch()).count();
  std::int64_t age_ns = now_ns - Nanoseconds(item.info.ctime);
  if (!rules_.our_clock) age_ns -= std::chrono::nanoseconds(kClockDifferenceMax).count();
  if (age_ns >= std::chrono::nanoseconds(settle).count()) return "";
  const Seen& seen = See(item);
  const auto now = SteadyNow();
  if (now - seen.since >= settle) return "";
  auto at = seen.since + settle;
  if (age_ns > 0) at = std::min(at, now + std::chrono::ceil<milliseconds>(settle - std::chrono::nanoseconds(age_ns)));
  SettlesAt(at);
  return fmt::format("changed less than {} s ago, and its writer was not seen closing it",
                     std::chrono::ceil<std::chrono::seconds>(settle).count());
}

}  // namespace cairn::drain

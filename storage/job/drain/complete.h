// Is a file complete? Never a guess: its writer was seen closing it, or it has stayed as it is for long enough, or a
// marker says so, or the records of its set; and in each case nobody has it open for writing, as far as the kernel
// tells. Otherwise it waits, and the reason is told. Thread-safety: none.
#ifndef CAIRN_STORAGE_JOB_DRAIN_COMPLETE_H_
#define CAIRN_STORAGE_JOB_DRAIN_COMPLETE_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "storage/job/drain/identity.h"
#include "storage/job/drain/scan.h"

namespace cairn::drain {

struct CompleteRules {
  std::optional<std::uint64_t> settle_ms;  // none: age alone never counts
  std::string marker;
  bool our_clock = true;  // the file system takes its times from this machine's clock
};

class Completeness {
 public:
  explicit Completeness(CompleteRules rules) : rules_(std::move(rules)) {}
  void SetOurClock(bool ours) { rules_.our_clock = ours; }  // once it is known, before the first scan

  // The writer of a file has closed it: it was this then.
  void Closed(const std::string& path, const FileInfo& info) { closed_[path] = IdentityOf(info); }
  // Likewise, but when it was looked at it had another name already, of which Moved tells.
  void ClosedAndGone(const std::string& path);

  // It has another name now; whether its writer had closed it stays known, if it is still the same.
  void Moved(const std::string& from, const std::string& to, const FileInfo& info);

  // Before the items of a scan are asked about.
  void Begin(const Scan& scan);
  // "": it is complete. Whether somebody writes to it is not asked here.
  std::string WhyNot(const Item& item);
  // Has it been what it is for as long as it takes to settle, by our own clock and while we looked? Where nobody can
  // say who writes to a file, less is not enough for its deletion. True where age does not count.
  bool StayedAsItIs(const Item& item);
  // After all items: when the first of those that only have to settle has done so; none: none has to.
  std::optional<std::chrono::steady_clock::time_point> settles_at() const { return settles_at_; }

 private:
  struct Seen {
    Identity identity;
    std::chrono::steady_clock::time_point since;
    std::uint64_t scan = 0;
  };

  bool IsMarked(const Item& item) const;
  std::string WhyNotSettled(const Item& item);
  Seen& See(const Item& item);
  void SettlesAt(std::chrono::steady_clock::time_point at);

  CompleteRules rules_;
  std::unordered_map<std::string, Identity> closed_;
  std::set<std::string> closed_and_gone_;
  std::unordered_map<std::string, Seen> seen_;  // that were not settled, or not long enough to be deleted
  std::uint64_t scans_ = 0;
  std::map<std::string, std::int64_t> marked_;  // folders (with a slash) and files that a marker stands for: its ctime
  std::optional<std::chrono::steady_clock::time_point> settles_at_;
};

}  // namespace cairn::drain

#endif  // CAIRN_STORAGE_JOB_DRAIN_COMPLETE_H_

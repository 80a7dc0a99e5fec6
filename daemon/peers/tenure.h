// The coordinator's lease as one member uses it: looks for whoever holds it, takes over from a holder that is over,
// and while it holds one itself keeps it. storage/place/prefix/coordinator_lease.h has the rules.
//
// Strand only. No report comes inside a call.
#ifndef CAIRN_DAEMON_PEERS_TENURE_H_
#define CAIRN_DAEMON_PEERS_TENURE_H_

#include <absl/status/status.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/core/environment.h"
#include "daemon/core/loop.h"
#include "daemon/peers/gathering.h"
#include "daemon/peers/on_arbiter.h"
#include "daemon/peers/succession.h"
#include "storage/place/prefix/coordinator_lease.h"

namespace cairn {

class Tenure {
 public:
  struct Given {
    Loop& loop;
    Clocks clocks;
    OnArbiter on_arbiter;    // may answer after the tenure has gone
    CoordinatorRecord self;  // run, node, incarnation, host, term
    std::function<std::string()> address;
    // Those of them whom the table of members, if it is of this epoch or a later one, does not have.
    std::function<Awaited(Awaited awaited, std::uint64_t epoch)> besides;
    // What the lease is to say of the members; `awaited`: who may be there besides, as long as this daemon does not
    // hold it.
    std::function<KnownMembers(const Awaited& awaited)> members;
  };
  enum class Lost : std::uint8_t {
    kNewer,   // there is a newer epoch, or was: the next coordinator is to be found
    kSilent,  // it could not be renewed for a term: this daemon is cut off from the arbiter, and others perhaps not
  };
  struct Reports {
    // Another holds the newest lease, as far as this look tells. After each look.
    std::function<void(const CoordinatorRecord& holder)> on_found;
    // A look did not come to an end. After each that did not.
    std::function<void(const absl::Status& why)> on_silent;
    // This daemon holds the newest lease, which has this epoch; and who may be there that it does not know.
    std::function<void(std::uint64_t epoch, const Awaited& awaited)> on_held;
    // It does not any more. It is not looking yet.
    std::function<void(Lost why, const absl::Status& status)> on_lost;
    std::function<void()> on_acting;  // acting() may have changed
  };

  Tenure(Given given, Reports reports);
  Tenure(const Tenure&) = delete;
  ~Tenure();

  // Looks again and again until StopLooking or on_held.
  void Look();
  void StopLooking();
  // Another member knows of this epoch.
  void Heard(std::uint64_t epoch);
  // What the lease is to say of the members may have changed: it says so soon, since whoever follows goes by it. A 24th
  // of a term lies between two writes, however long they take.
  void MembersChanged();
  // Acts no more. If this daemon holds a lease, that says so. `done` runs once the arbiter has answered, however late;
  // no report comes any more.
  void End(std::function<void()> done);
  // The same without a word to the arbiter, as if the daemon had died.
  void Abandon();

  bool holds() const { return holds_; }
  bool acting() const;
  std::uint64_t epoch() const { return record_.epoch; }  // REQUIRES: holds()
  // The newest epoch that was seen or heard of; 0: none.
  std::uint64_t known() const { return known_; }
  // This daemon looks, and by the arbiter's last word finds a coordinator, or may take over (Succession::IsExpected).
  bool expects_one() const { return looking_ && succession_.IsExpected(now()); }

 private:
  using milliseconds = std::chrono::milliseconds;
  template <typename Result>
  using Then = std::function<void(SteadyTime began, const absl::StatusOr<Result>& result)>;
  template <typename Result>
  void Ask(std::function<absl::StatusOr<Result>(Arbiter&)> work, Then<Result> then);
  SteadyTime now() const { return given_.clocks.steady(); }
  milliseconds term() const { return milliseconds(given_.self.term_ms); }

  void LookNow();
  void Judge(SteadyTime began, const coordinator_lease::Found& found);
  void Silent(const absl::Status& why);
  void LookAgain(milliseconds left);
  void TryFirst(coordinator_lease::Found found);
  void Take(coordinator_lease::Found found, bool lapsed = false);
  void Taken(SteadyTime began, const absl::StatusOr<coordinator_lease::Taken>& taken);
  void RenewAt(SteadyTime at);
  void Renew();
  void Renewed(SteadyTime began, const absl::Status& renewed);
  void Remake();
  void Lose(Lost why, const absl::Status& status);
  void SetTimer(milliseconds delay, void (Tenure::*then)());
  void TellActing();
  void ClearTimers();

  const Given given_;
  const Reports reports_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  CoordinatorWatch watch_;
  Succession succession_;
  bool looking_ = false, coordinated_ = false;
  bool busy_ = false;       // the arbiter is being asked
  SteadyTime answered_at_;  // the last time that it was not any more
  std::uint64_t known_ = 0;
  milliseconds pause_{0};         // before the next look
  std::uint64_t paused_for_ = 0;  // the epoch that these looks found

  bool holds_ = false, ended_ = false;
  bool remaking_ = false;     // the lease that it held was removed
  CoordinatorRecord record_;  // as last written, or about to be
  SteadyTime written_at_;     // before the last write that counts
  SteadyTime acts_from_;
  Awaited awaited_;  // when it was taken
  std::function<void()> when_idle_;
  Loop::TimerId timer_ = 0, acting_timer_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_TENURE_H_

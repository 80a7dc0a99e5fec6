// One run's prefix: is it in reach, does the run still live there, and who may change it now. Strand only, but for what
// a Visitor does in a pool.
#ifndef CAIRN_DAEMON_CORE_PREFIX_GATE_H_
#define CAIRN_DAEMON_CORE_PREFIX_GATE_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/ledger.h"
#include "storage/base/ids.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

class PrefixGate {
 public:
  struct Reports {
    std::function<void()> on_reached;   // by a visit, for the first time
    std::function<void()> on_replaced;  // another run lives there now
    std::function<void()> on_free;      // a change has ended: others may have their turn
  };
  PrefixGate(const Context& context, const RunId& run, std::string run_name, std::string path, const Ledger& ledger,
             Reports reports);
  PrefixGate(const PrefixGate&) = delete;

  // --- Is it in reach? ---
  const std::string& path() const { return path_; }
  const std::shared_ptr<Prefix>& prefix() const { return prefix_; }  // null: gone or not reached yet
  bool writable() const { return prefix_ && !read_only_; }
  bool read_only() const { return read_only_; }  // an observer has reached it where nothing can be written
  bool usable() const { return prefix_ && !replaced_; }
  // Since when something has been waiting for it, if it hangs (kHangsAfter).
  std::optional<SteadyTime> HungSince() const;
  absl::Status OutOfReach() const;
  // An opening has reached it, at `path`, resolved: it may have been renamed. An observer may have been the first,
  // where nothing can be written.
  void Reached(const std::shared_ptr<Prefix>& prefix, const std::string& path, bool read_only);

  // --- Does the run live there? ---
  bool replaced() const { return replaced_; }  // the prefix was made anew: this run is history
  void Replaced(const RunId& by);
  void LivesHere() { replaced_ = false; }

  // --- Visits: work that must not happen at another run's prefix ---
  struct Visited {
    absl::Status status;
    std::shared_ptr<Prefix> prefix;  // reached meanwhile
    std::optional<RunId> other;      // another run at the prefix
  };
  using Step = std::function<absl::Status(Prefix& prefix)>;
  // For a pool, blocks: runs the step, if this run lives at the prefix; an unknown prefix is looked for, never made.
  using Visitor = std::function<Visited(const Step& step)>;
  Visitor MakeVisitor() const;
  void VisitEnded(const Visited& visited);

  // --- Who may change it now? ---
  enum class Change : std::uint8_t {
    kCommit,         // of what has names of its own (ckpt.<id>)
    kCommitFiles,    // of the application's files, over names that others may have
    kComplete,       // a commit of what was written past the cache and has names of its own: waits only for removals
    kCompleteFiles,  // of files that were written past the cache, whose names are held until then
    kRemove,         // of what has names of its own
    kRemoveFiles,    // of files, or of what was begun and never committed
    kRemoveFailed,   // of what was written past the cache and failed: waits only for commits of files
    kTakePlaces,     // of others' files, for growing directories
    kNames,          // files are about to be written past the cache: who may have their names is asked, nothing taken
  };
  // While one commits nobody removes, and the other way round. While files are written past the cache nobody else puts
  // files on the prefix or takes them away. A commit lets those go first who wait for their turn.
  // The holder ends it by name: a lease that is dropped with the loop ends with the core.
  class Lease {
   public:
    void End();

   private:
    friend class PrefixGate;
    Lease(PrefixGate* gate, Change change) : gate_(gate), change_(change) {}
    PrefixGate* gate_;
    const Change change_;
  };
  // Null: not now.
  std::shared_ptr<Lease> TryTake(Change change);
  // Runs `next` in one of the next turns: it asks again.
  void WhenFree(std::function<void()> next) { waiting_.push_back(std::move(next)); }
  // Those who waited have their turn; those who must wait again may.
  void GiveTurns();

 private:
  bool NamesHeld() const;
  bool MayTake(Change change) const;

  const Context& context_;
  const RunId run_;
  const std::string run_name_;
  const Ledger& ledger_;
  const Reports reports_;
  std::string path_;
  std::shared_ptr<Prefix> prefix_;
  bool read_only_ = false;
  bool replaced_ = false;
  std::uint32_t commits_ = 0, file_commits_ = 0;  // the second are among the first
  std::uint32_t removals_ = 0;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_PREFIX_GATE_H_

// One step of one actor of the model (fence_model.h).
#ifndef CAIRN_TESTS_STORAGE_PLACE_PREFIX_FENCE_TURN_H_
#define CAIRN_TESTS_STORAGE_PLACE_PREFIX_FENCE_TURN_H_

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <type_traits>

#include "tests/storage/place/prefix/fence_model.h"

namespace cairn::fence {

inline constexpr std::uint8_t kSlots = kLaunches + 1;  // by launch; 0 is none

// What the folders of datasets show. Each part of a state is a byte, so that states can be compared as bytes.
struct Look {
  Mask folders, withdrawn;                     // ckpt.<d> is there; it has removed.cairn
  std::array<Mask, kDatasets> commits, marks;  // by the launch that they name
};

// The prefix on its server.
struct Place {
  std::uint8_t newest;  // launches 1..newest are there
  std::array<std::uint8_t, kSlots> predecessor;
  Mask abandoned, based;                     // launches: the abandoned ones, those with a base
  std::array<Mask, kSlots> counts, removed;  // each base
  Look data;
  Mask bytes;  // of datasets
  // What has happened, which nobody in the protocol can see.
  std::array<Mask, kDatasets> told_counts, told_fenced;  // by the launch that the commit names
  std::array<Mask, kDatasets> policy_removed;            // by the launch of the remover
  Mask gone;                                             // datasets whose removal is decided
  Mask read_back;                                        // bases
};

// In this order an actor passes them; a reader may begin anew under a newer launch.
enum class Step : std::uint8_t {
  kStart,
  kLookForRemoved,
  kCreate,
  kLookAtLaunches,
  kDecide,             // as soon as the base is there
  kBased,              // an opener has its base
  kReadLaunchesFirst,  // with their bases
  kReadScr,
  kReadData,
  kReadMarks,  // Mutation::kReadsMarksAfterData
  kReadLaunches,
  kReadMarksLast,
  kReadLaunchesNext,  // Mutation::kLaunchesAfterScr
  kAnswer,
  kWithdraw,
  kUnmark,
  kTakeBytes,
};

struct Worker {
  std::uint8_t act;
  Step step;
  std::uint8_t serves;
  std::uint8_t target;                     // the launch that is to be made, or under which it reads
  std::uint8_t making, until, part, next;  // bases: the one at work, the last one wanted; step of it; the next dataset
  Look seen, listed;                       // by a reader; by the maker of a base
  std::uint8_t own_for;                    // Mutation::kOwnListForBase
  Mask own_counts, own_removed;
  Mask chosen;                    // when it opened
  Mask told_before, gone_before;  // when its reading began: datasets with a commit that counts; those gone
  std::uint8_t copy_newest;       // the folders as its client keeps them
  Look copy;
  bool lists;  // Scenario::slow_listings: it has begun, when there was this:
  std::uint8_t begun_newest;
  Look begun;
  Mask known;  // Mutation::kBelievesGaps: launches that its listing showed
};

struct State {
  Place place;
  std::array<Worker, kActors> workers;
};
static_assert(std::has_unique_object_representations_v<State>);

struct Set {
  Mask mask;
};

inline bool Has(Mask mask, int number) {
  return (mask & Bit(number)) != 0;
}
inline Mask Below(int launch) {
  return static_cast<Mask>(Bit(launch) - 1);
}
inline Mask Without(Mask mask, Mask other) {
  return static_cast<Mask>(mask & ~other);
}

struct Broken {
  int invariant = 0;  // 0: none
  const char* how = "";
};

class Turn {
 public:
  // All is borrowed. `wanted`: as Explore. `choice`: what a look shows, where several things are possible. `talks`:
  // label() is made.
  Turn(const Scenario& scenario, const std::set<int>& wanted, State& state, int actor, unsigned choice, bool talks);
  static bool Ended(const Scenario& scenario, const State& state, int actor);

  void Take();                                       // REQUIRES: the actor has not ended
  unsigned choices() const { return 1U << asked_; }  // 0 to choices() - 1 give different states
  const Broken& broken() const { return broken_; }
  const std::string& label() const { return label_; }
  const char* told() const { return told_; }  // nullptr: nothing

 private:
  const Act& act() const { return scenario_.actors[actor_].acts[me_.act]; }
  bool Is(Mutation mutation) const { return scenario_.mutation == mutation; }
  bool Opens() const { return act().deed == Deed::kOpen || act().deed == Deed::kOpenProvisional; }
  bool MakesNoBase() const { return MayNotWrite() || (Is(Mutation::kActsBeforeBase) && Opens()); }
  bool MayNotWrite() const { return act().deed == Deed::kReadOnly || act().deed == Deed::kReadStale; }
  std::uint64_t Way() const;
  bool Dead(int launch) const;
  void Break(int invariant, const char* how);
  void Tell(const char* what);
  void End();
  void Forget();
  void Go();
  void Resume();

  bool Choose();
  bool Stale(bool plain, bool differs);
  bool Begins(int folder);
  void Begin(const State& before);
  Mask Either(Mask then, Mask now);
  int LookAtLaunches(bool plain);
  void LookAtScr(bool plain, Look& look);
  void LookAtData(bool plain, int d, Look& look);
  void ChangedScr();

  Mask Counts(int k) const;
  Mask Removed(int k) const;
  int Next() const;
  int MissingFrom(int k, int m) const;
  void NeedBase(int m);
  void HaveBase();
  int BaseBefore(int k) const;
  bool Undecided(int d, int before) const;
  void NextUndecided(int before);
  void MakeBase();
  void PutBase(int k);
  void CheckBase(int k, Mask counts, Mask removed);

  void Open();
  void CreateLaunch();
  void Commit(int d);
  void CreateCommit(int d);
  void JudgeCommit(int d, int newest);
  void CommitCounts(int d);
  void CommitFenced(int d);
  void Remove(int d);
  void JudgeRemoval(bool listed);
  void Unmark(int d);
  void TakeAway(int d);
  void Withdraw(int d);
  void TakeBytes(int d);
  void UserRemove(int d);

  void Read();
  void GoBy(int m, Step step);
  int WithBase(int m) const;
  void ReadsBy();
  void ReadScr(bool plain);
  void BeginReading();
  void NextFolder();
  void ReadMarks();
  void ReadLaunches(bool plain);
  void Answer();
  Mask CountedBy(int m, int d) const;
  void CheckCounting(int d, Mask because);

  void Add(const char* text) { label_ += text; }
  void Add(int number) { label_ += std::to_string(number); }
  void Add(Set set);
  // Costs nothing unless it talks.
  template <typename... Parts>
  void Say(const Parts&... parts) {
    if (!talks_) return;
    if (!label_.empty()) label_ += "; ";
    (Add(parts), ...);
  }

  const Scenario& scenario_;
  const std::set<int>& wanted_;
  State& state_;
  Place& place_;
  const std::array<Worker, kActors>& workers_;
  Worker& me_;
  const int actor_;
  const unsigned choice_;
  const bool talks_;
  int asked_ = 0;   // binary questions that `choice_` has answered
  int begins_ = 0;  // the folder that this step would list: it only begins to
  Broken broken_;
  const char* told_ = nullptr;
  std::string label_;
};

}  // namespace cairn::fence

#endif  // CAIRN_TESTS_STORAGE_PLACE_PREFIX_FENCE_TURN_H_

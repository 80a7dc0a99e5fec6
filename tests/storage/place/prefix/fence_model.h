// A model of how launches, commits and removals of one prefix meet (design.md, "Launches and commits"), small enough
// that every order of its steps is tried. It uses none of Cairn's code: it judges the protocol, not the program.
//
// The protocol. Numbers n, k, m are launches, d is a dataset. A *plain* look at a folder may show what the client saw
// there before, from its own last change in the folder on; a *fresh* look shows what the server has.
//   Opener        Looks plainly for the highest launch and creates the next number exclusively, or the one after it if
//                 that is taken. By a fresh look it finds the launches up to its own that have no base, makes those
//                 bases, the oldest first, reads its own back, and chooses as a reader does. Then it acts under it.
//   Base of k     Its maker has base k-1, and looks freshly: at .scr (folders of datasets, marks of removals), then at
//                 the folder of each dataset of which base k-1 says neither that it counts nor that it is removed. The
//                 base counts those of base k-1, and each undecided one with a commit that names k-1 (unless launch k-1
//                 is abandoned) or no launch. It lists as removed those of base k-1, those that are marked under k-1,
//                 and those with removed.cairn. It is created exclusively: a maker that finds it taken uses that one.
//   Committer     Under n: makes the dataset's folder, looks plainly for removed.cairn, creates a commit that names n,
//                 looks freshly at the launches. No newer one: the commit counts. Else the base of n+1 tells, which is
//                 made if it lacks. A commit that names an abandoned launch never counts.
//   Policy        A remover under n: creates the mark (d, n), looks freshly at the launches. If there is a newer one
//                 and base n+1 does not list d as removed, it takes its mark away: the removal is void. Else it makes
//                 removed.cairn, then takes the mark away, then the bytes. Marks naming an abandoned launch are void.
//   User          Makes removed.cairn, takes the bytes.
//   Reader        Looks freshly at the launches; m is the newest, its base is made if it lacks. Then at .scr, at each
//                 dataset's folder, and at the launches again: if there is a newer one, it begins anew. d counts if
//                 there is no removed.cairn, no mark that names m or newer, base m does not list it as removed, and
//                 base m counts it or a commit names m or a newer launch. Both looks at the launches are needed: see
//                 Mutation::kLaunchesBeforeRecords and kLaunchesAfterRecords. A reader that may not write makes no
//                 base: it goes by the newest launch that has one.
//   Provisional   It began after launch p while the prefix could not be asked. Later its maker opens as above; the
//                 launch is abandoned if it is not p+1, or if p was an abandoned one of this kind.
//
// What must hold, by number:
//   1  A commit of which somebody was told that it counts is never told or read as anything else, unless d was removed.
//   2  A commit of which somebody was told that it is fenced is never read as counting.
//   3  What an opener of m found when it chose is not removed by a policy remover under n < m from then on.
//   4  After base m was read back, nothing counts by a commit that names a launch below m if base m does not count it.
//   5  A launch has one maker and one base for ever; each base follows from the one before it.
//   6  Each step brings its actor nearer to its end, and nobody waits for anybody.
//   7  A provisional launch that has another launch between its predecessor and itself never counts, nor does one that
//      follows it; and it removes nothing.
//   8  A dataset whose removal was decided before a reading began is not read as counting.
//
// A crash is a pause that does not end. Nobody waits for anybody, so all that a crash can leave behind is among the
// states here: those in which the actor takes no further step.
#ifndef CAIRN_TESTS_STORAGE_PLACE_PREFIX_FENCE_MODEL_H_
#define CAIRN_TESTS_STORAGE_PLACE_PREFIX_FENCE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace cairn::fence {

inline constexpr int kDatasets = 3;  // 0, 1, 2
inline constexpr int kLaunches = 4;  // 1..4; a commit that names 0 names none
inline constexpr int kActors = 4;

using Mask = std::uint8_t;  // of datasets, or of launches
inline Mask Bit(int number) {
  return static_cast<Mask>(1U << number);
}

enum class Deed : std::uint8_t {
  kOpen,
  kOpenProvisional,  // its predecessor is the launch that the actor serves
  kCommit,
  kRemove,  // by policy
  kUserRemove,
  kRead,
  kReadOnly,   // may not write, but sees what the server has
  kReadStale,  // may not write: all its looks are plain
};

struct Act {
  Deed deed;
  int dataset = 0;
};

struct Actor {
  std::string name;
  int serves = 0;  // the launch under which it acts at the start
  std::vector<Act> acts;
};

// Ways to break the protocol. Each but one must be noticed.
enum class Mutation : std::uint8_t {
  kNone,
  kLaunchByLook,                // the number of a launch is looked for, then taken without asking whether it is free
  kBaseByLook,                  // a base is looked for, then written over
  kCommitLooksFirst,            // that there is no newer launch is asked before the commit is created
  kCommitLooksPlainly,          // at the launches
  kBaseLooksPlainlyForFolders,  // in .scr
  kBaseLooksPlainlyForCommits,  // in folders of datasets
  kActsBeforeBase,              // an opener chooses and acts before its base is there
  kOwnListForBase,              // what the maker listed is used, whoever made the base
  kNoOlderBases,                // only the base that is needed is made, from the newest that there is
  kRemoveWithoutMark,
  kRemoveWithoutLook,
  kRemoveUnmarksFirst,     // the mark goes before removed.cairn is there
  kBaseWithoutMarks,       // bases do not list marked datasets as removed
  kReadsEveryCommit,       // a reader counts by existence
  kLaunchesBeforeRecords,  // a reader looks at the launches, then at the datasets, and does not look again
  kLaunchesAfterRecords,   // a reader looks at the launches only after it has looked at the datasets
  kLaunchesAfterScr,       // a reader looks at .scr, the launches, the datasets, the launches: this one does no harm
  kReadsMarksLast,         // a reader looks at the marks after it has looked at the launches
  kReadsMarksAfterData,    // a reader looks at .scr, the datasets, the marks, the launches
  kReadsScrPlainly,
  kReadsDataPlainly,
  kReadsLaunchesPlainly,
  kBelievesGaps,  // launches that a slow listing did not show are taken for missing
  kAbandonedIgnored,
  kAbandonedNotInherited,  // a launch whose predecessor is abandoned is not
  kAbandonedRemoves,       // marks that name an abandoned launch are heeded
};

// It begins with launch 1, whose maker has gone.
struct Scenario {
  std::string name;
  std::vector<Actor> actors;
  Mask counted = Bit(0);  // datasets with a commit that names no launch
  bool based = true;      // base 1 is there, and lists them; else it is still to be made
  // A name that comes or goes while a folder is listed may be in the listing or not (POSIX, readdir).
  bool slow_listings = false;
  Mutation mutation = Mutation::kNone;
};

struct Outcome {
  std::size_t states = 0, steps = 0;
  bool complete = false;           // every state was visited
  int violated = 0;                // which of the numbers above; 0: none
  std::string how;                 // in one line
  std::vector<std::string> trace;  // a shortest way there
  std::set<std::string> told;      // all that actors were told in some order: the scenario is not an empty one
};

// Tries all orders of steps, shortest first, up to `states_max` states, until one of `invariants` (by number; empty:
// all) is violated. Takes about 40 bytes of memory for each state.
Outcome Explore(const Scenario& scenario, const std::set<int>& invariants = {}, std::size_t states_max = 4'000'000);

}  // namespace cairn::fence

#endif  // CAIRN_TESTS_STORAGE_PLACE_PREFIX_FENCE_MODEL_H_

// What each kind of actor does, step by step.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/storage/place/prefix/fence_turn.h"

namespace cairn::fence {

void Turn::Go() {
  switch (act().deed) {
    case Deed::kOpen:
    case Deed::kOpenProvisional:
      return me_.step < Step::kDecide ? Open() : Read();
    case Deed::kCommit:
      return Commit(act().dataset);
    case Deed::kRemove:
      return Remove(act().dataset);
    case Deed::kUserRemove:
      return UserRemove(act().dataset);
    case Deed::kRead:
    case Deed::kReadOnly:
    case Deed::kReadStale:
      return Read();
  }
}

// The base that the actor needed is there.
void Turn::Resume() {
  const int d = act().dataset;
  if (act().deed == Deed::kCommit) return Has(Counts(Next()), d) ? CommitCounts(d) : CommitFenced(d);
  if (act().deed == Deed::kRemove) return JudgeRemoval(Has(Removed(Next()), d));
  if (Opens() && me_.step == Step::kDecide) me_.step = Step::kBased;
  if (me_.step == Step::kReadLaunchesFirst) return ReadsBy();
  if (me_.step == Step::kAnswer) Answer();
}

// --- Opening ---

void Turn::Open() {
  if (me_.step == Step::kStart) {
    me_.target = static_cast<std::uint8_t>(LookAtLaunches(!Is(Mutation::kLaunchByLook)) + 1);
    me_.step = Step::kCreate;
  } else if (me_.step == Step::kCreate) {
    CreateLaunch();
  } else {
    LookAtLaunches(false);
    me_.step = Step::kDecide;
    if (Is(Mutation::kActsBeforeBase)) return Resume();
    NeedBase(me_.serves);
  }
}

void Turn::CreateLaunch() {
  const int n = me_.target;
  if (n > kLaunches) {  // the scenario has more openers than the model has launches
    std::fprintf(stderr, "%s: more launches than the model holds\n", scenario_.name.c_str());
    std::abort();
  }
  if (n <= place_.newest && !Is(Mutation::kLaunchByLook)) {
    me_.target++;
    return Say("finds launch ", n, " taken");
  }
  if (n <= place_.newest) Break(5, "a launch was made twice");
  const int predecessor = act().deed == Deed::kOpenProvisional ? me_.serves : 0;
  bool abandoned = predecessor != 0 && predecessor != n - 1;
  if (predecessor != 0 && !Is(Mutation::kAbandonedNotInherited)) abandoned |= Has(place_.abandoned, predecessor);
  if (Is(Mutation::kAbandonedIgnored)) abandoned = false;
  place_.newest = std::max(place_.newest, me_.target);
  place_.predecessor[n] = static_cast<std::uint8_t>(predecessor);
  if (abandoned) place_.abandoned |= Bit(n);
  me_.copy_newest = place_.newest;
  me_.serves = me_.target;
  me_.chosen = 0;
  me_.target = 0;
  me_.step = Step::kLookAtLaunches;
  Say("makes launch ", n);
  if (predecessor != 0) Tell(abandoned ? "abandoned" : "not abandoned");
}

// --- Commits ---

void Turn::Commit(int d) {
  if (me_.step == Step::kStart) {
    place_.data.folders |= Bit(d);
    ChangedScr();
    me_.step = Step::kLookForRemoved;
    Say("makes the folder of dataset ", d);
  } else if (me_.step == Step::kLookForRemoved) {
    Look look = {};
    LookAtData(true, d, look);
    me_.step = Is(Mutation::kCommitLooksFirst) ? Step::kLookAtLaunches : Step::kCreate;
    if (!Has(look.withdrawn, d)) return;
    Tell("removed before its commit");
    End();
  } else if (me_.step == Step::kCreate) {
    CreateCommit(d);
    me_.step = Step::kLookAtLaunches;
  } else if (Is(Mutation::kCommitLooksFirst) && me_.step == Step::kLookAtLaunches) {
    me_.target = static_cast<std::uint8_t>(LookAtLaunches(false));
    me_.step = Step::kReadScr;  // any later one
  } else if (Is(Mutation::kCommitLooksFirst)) {
    CreateCommit(d);
    JudgeCommit(d, me_.target);
  } else {
    JudgeCommit(d, LookAtLaunches(Is(Mutation::kCommitLooksPlainly)));
  }
}

void Turn::CreateCommit(int d) {
  place_.data.commits[d] |= Bit(me_.serves);
  me_.copy.commits[d] = place_.data.commits[d];
  Say("commits dataset ", d, " under ", me_.serves);
}

void Turn::JudgeCommit(int d, int newest) {
  me_.step = Step::kDecide;
  if (newest == me_.serves) return CommitCounts(d);
  NeedBase(Next());
}

void Turn::CommitCounts(int d) {
  const int n = me_.serves;
  if (Has(place_.abandoned, n)) return CommitFenced(d);
  if (Has(place_.told_fenced[d], n)) Break(2, "another committer is told that it counts");
  if (Dead(n)) Break(7, "its committer is told that it counts");
  for (int m = n + 1; m <= place_.newest; ++m) {
    const bool out = Has(place_.based, m) && !Has(place_.counts[m], d) && !Has(place_.gone, d);
    if (out) Break(1, "told that it counts, though a base does not count it");
  }
  place_.told_counts[d] |= Bit(n);
  Tell("commit counts");
  End();
}

void Turn::CommitFenced(int d) {
  const int n = me_.serves;
  if (Has(place_.told_counts[d], n) && !Has(place_.gone, d)) Break(1, "another committer is told that it is fenced");
  place_.told_fenced[d] |= Bit(n);
  Tell("commit fenced");
  End();
}

// --- Removals ---

void Turn::Remove(int d) {
  if (me_.step == Step::kStart && !Is(Mutation::kRemoveWithoutMark)) {
    place_.data.marks[d] |= Bit(me_.serves);
    const bool heeded = !Has(place_.abandoned, me_.serves);
    if (heeded && place_.newest == me_.serves) place_.gone |= Bit(d);  // the next base will list it
    ChangedScr();
    me_.step = Is(Mutation::kRemoveWithoutLook) ? Step::kWithdraw : Step::kLookAtLaunches;
    Say("marks dataset ", d, " under ", me_.serves);
  } else if (me_.step <= Step::kLookAtLaunches) {
    const bool newer = LookAtLaunches(false) > me_.serves;
    me_.step = Step::kDecide;
    if (newer) return NeedBase(Next());
    JudgeRemoval(!Has(place_.abandoned, me_.serves) || Is(Mutation::kAbandonedRemoves));
  } else if (me_.step == Step::kUnmark && me_.target == 0) {  // void
    Unmark(d);
    End();
  } else {
    TakeAway(d);
  }
}

void Turn::JudgeRemoval(bool listed) {
  Tell(listed ? "removal goes on" : "removal void");
  me_.step = listed ? Step::kWithdraw : Step::kUnmark;
}

void Turn::Unmark(int d) {
  place_.data.marks[d] = Without(place_.data.marks[d], Bit(me_.serves));
  ChangedScr();
  Say("takes its mark of dataset ", d, " away");
}

void Turn::TakeAway(int d) {
  if (me_.step == Step::kTakeBytes) return TakeBytes(d);
  if ((me_.step == Step::kUnmark) != Is(Mutation::kRemoveUnmarksFirst)) {
    Unmark(d);
  } else {
    Withdraw(d);
    place_.policy_removed[d] |= Bit(me_.serves);
    const bool decided = Has(place_.based, me_.serves + 1) && Has(place_.removed[me_.serves + 1], d);
    if (Dead(me_.serves) && !decided) Break(7, "an abandoned launch removes a dataset");
    for (const Worker& other : workers_) {
      const bool chosen = Has(other.chosen, d) && other.serves > me_.serves;
      if (chosen) Break(3, "it is removed after it was chosen");
    }
  }
  me_.target = 1;  // not void
  me_.step = me_.step == Step::kWithdraw ? Step::kUnmark : Step::kTakeBytes;
}

void Turn::Withdraw(int d) {
  place_.data.withdrawn |= Bit(d);
  place_.gone |= Bit(d);
  me_.copy.withdrawn |= Bit(d);
  Say("makes removed.cairn of dataset ", d);
}

void Turn::TakeBytes(int d) {
  place_.bytes = Without(place_.bytes, Bit(d));
  Say("takes the bytes of dataset ", d);
  End();
}

void Turn::UserRemove(int d) {
  if (me_.step == Step::kTakeBytes) return TakeBytes(d);
  Withdraw(d);
  me_.step = Step::kTakeBytes;
}

// --- Reading, and the choice of an opener ---

// A commit under the newest launch counts because no newer launch was there after it was seen; a mark under an older
// one is void because that launch was an old one before it was seen. Hence two looks at the launches, which must agree.
void Turn::Read() {
  const bool plain = act().deed == Deed::kReadStale;
  switch (me_.step) {
    case Step::kReadScr:
      return ReadScr(plain);
    case Step::kReadData:
      LookAtData(plain || Is(Mutation::kReadsDataPlainly), me_.next, me_.seen);
      me_.next++;
      return NextFolder();
    case Step::kReadMarks:
    case Step::kReadMarksLast:
      return ReadMarks();
    case Step::kReadLaunchesNext:
      return GoBy(LookAtLaunches(false), Step::kReadLaunchesFirst);
    case Step::kReadLaunches:
      return ReadLaunches(plain || Is(Mutation::kReadsLaunchesPlainly));
    default:
      if (Is(Mutation::kLaunchesAfterRecords) || Is(Mutation::kLaunchesAfterScr)) return ReadScr(plain);
      return GoBy(LookAtLaunches(plain || Is(Mutation::kReadsLaunchesPlainly)), Step::kReadLaunchesFirst);
  }
}

// Reads by launch m, or if its base lacks and may not be made, by the newest that has one.
void Turn::GoBy(int m, Step step) {
  me_.step = step;
  me_.target = static_cast<std::uint8_t>(MakesNoBase() ? WithBase(m) : m);
  if (MakesNoBase()) return Resume();
  NeedBase(m);
}

// The launch by which it reads is known.
void Turn::ReadsBy() {
  me_.step = Is(Mutation::kLaunchesAfterScr) ? Step::kReadData : Step::kReadScr;
  if (me_.step == Step::kReadData) NextFolder();
}

int Turn::WithBase(int m) const {
  while (m > 0 && !Has(place_.based, m)) --m;
  return m;
}

void Turn::ReadScr(bool plain) {
  if (!me_.lists) BeginReading();
  LookAtScr(plain || Is(Mutation::kReadsScrPlainly), me_.seen);
  if (Is(Mutation::kReadsMarksLast) || Is(Mutation::kReadsMarksAfterData)) me_.seen.marks = {};
  me_.step = Is(Mutation::kLaunchesAfterScr) ? Step::kReadLaunchesNext : Step::kReadData;
  if (me_.step == Step::kReadData) NextFolder();
}

void Turn::BeginReading() {
  me_.gone_before = place_.gone;
  for (int d = 0; d < kDatasets; ++d) {
    if (place_.told_counts[d] != 0) me_.told_before |= Bit(d);
  }
}

void Turn::NextFolder() {
  while (me_.next < kDatasets && !Has(me_.seen.folders, me_.next)) me_.next++;
  if (me_.next < kDatasets) return;
  me_.next = 0;
  me_.step = Is(Mutation::kReadsMarksAfterData) ? Step::kReadMarks : Step::kReadLaunches;
  if (Is(Mutation::kLaunchesBeforeRecords)) Answer();
}

void Turn::ReadMarks() {
  Look look = {};
  LookAtScr(false, look);
  me_.seen.marks = look.marks;
  if (me_.step == Step::kReadMarksLast) return Answer();
  me_.step = Step::kReadLaunches;
}

void Turn::ReadLaunches(bool plain) {
  const int newest = LookAtLaunches(plain);
  if (Is(Mutation::kLaunchesAfterRecords)) return GoBy(newest, Step::kAnswer);
  if ((MakesNoBase() ? WithBase(newest) : newest) != me_.target) {  // begins anew
    me_.seen = {};
    if (Is(Mutation::kLaunchesAfterScr)) me_.step = Step::kReadScr;
    if (Is(Mutation::kLaunchesAfterScr)) return;
    return GoBy(newest, Step::kReadLaunchesFirst);
  }
  if (!Is(Mutation::kReadsMarksLast)) return Answer();
  me_.step = Step::kReadMarksLast;
}

// Judges all that was seen by the base of the launch `target`.
void Turn::Answer() {
  const int m = me_.target;
  Mask counting = 0;
  for (int d = 0; d < kDatasets; ++d) {
    Mask because = Without(me_.seen.commits[d], static_cast<Mask>(Below(m) | place_.abandoned));
    if (Has(Counts(m), d)) because |= CountedBy(m, d);
    if (Is(Mutation::kReadsEveryCommit)) because = me_.seen.commits[d];
    const Mask heeded = Is(Mutation::kAbandonedRemoves) ? Mask{0} : place_.abandoned;
    const bool marked = Without(me_.seen.marks[d], static_cast<Mask>(Below(m) | heeded)) != 0;
    const bool removed = Has(me_.seen.withdrawn, d) || Has(Removed(m), d) || marked;
    const bool counts = because != 0 && !removed;
    if (counts) counting |= Bit(d);
    if (counts) CheckCounting(d, because);
    // As long as the newest base is not made, a reader that may not make it cannot tell whether a mark is void.
    const bool excused = Has(place_.gone, d) || (marked && MayNotWrite()) || act().deed == Deed::kReadStale;
    if (!counts && Has(me_.told_before, d) && !excused) Break(1, "it is read as not counting");
  }
  Say("of launch ", m, ": datasets ", Set{counting}, " count");
  if (Opens()) me_.chosen = counting;
  End();
}

// The launches that the commits name by which the bases up to m count `d`.
Mask Turn::CountedBy(int m, int d) const {
  int first = m;
  while (first > 1 && Has(Counts(first - 1), d)) --first;
  return static_cast<Mask>(place_.data.commits[d] & (Bit(first - 1) | Bit(0)));
}

void Turn::CheckCounting(int d, Mask because) {
  if (Has(me_.gone_before, d)) Break(8, "it is read as counting, but it was removed before");
  const bool gone = Has(place_.gone, d);  // while it was being read: it did count when that began
  if (Without(because, place_.told_fenced[d]) == 0 && !gone) Break(2, "a fenced commit is read as counting");
  bool dead = true;
  for (int n = 0; n < kSlots; ++n) dead = dead && (!Has(because, n) || Dead(n));
  if (dead) Break(7, "a commit of an abandoned launch is read as counting");
  for (int m = 1; m <= place_.newest; ++m) {
    const bool out = Has(place_.read_back, m) && !Has(place_.counts[m], d) && Without(because, Below(m)) == 0;
    if (out && !gone) Break(4, "it is read as counting, but a base that was read back does not count it");
  }
  const bool removed = (place_.policy_removed[d] & Below(me_.serves)) != 0;
  if (Opens() && removed) Break(3, "it is removed while it is chosen");
}

}  // namespace cairn::fence

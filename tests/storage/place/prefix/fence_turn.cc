// How an actor looks at the prefix, and how bases are made.
#include "tests/storage/place/prefix/fence_turn.h"

namespace cairn::fence {

namespace {
constexpr int kCairnFolder = 1, kScrFolder = 2, kDatasetFolder = 3;  // the last: and following, by dataset
}  // namespace

Turn::Turn(const Scenario& scenario, const std::set<int>& wanted, State& state, int actor, unsigned choice, bool talks)
    : scenario_(scenario),
      wanted_(wanted),
      state_(state),
      place_(state.place),
      workers_(state.workers),
      me_(state.workers[actor]),
      actor_(actor),
      choice_(choice),
      talks_(talks) {}

bool Turn::Ended(const Scenario& scenario, const State& state, int actor) {
  return state.workers[actor].act == scenario.actors[actor].acts.size();
}

void Turn::Take() {
  const std::uint64_t way = Way();
  const bool may_begin = scenario_.slow_listings && !me_.lists;
  const State before = may_begin ? state_ : State{};
  if (me_.making != 0) {
    MakeBase();
  } else {
    Go();
  }
  if (begins_ != 0) {
    Begin(before);
  } else {
    me_.lists = false;
    me_.begun_newest = 0;
    me_.begun = {};
  }
  if (Way() <= way) Break(6, "a step that leads nowhere");
  Forget();
}

// How far the actor is. Each part is bounded, so that an actor that gets on comes to its end.
std::uint64_t Turn::Way() const {
  const bool reads = me_.step >= Step::kReadLaunchesFirst && me_.step <= Step::kAnswer;
  std::uint64_t way = me_.act;
  for (const unsigned part :
       {unsigned{reads}, reads ? me_.target : 0U, static_cast<unsigned>(me_.step), unsigned{me_.target},
        unsigned{me_.making}, unsigned{me_.part}, unsigned{me_.next}, unsigned{me_.lists}}) {
    way = way << 5 | part;
  }
  return way;
}

// Whether, by the history, nothing of this launch may count.
bool Turn::Dead(int launch) const {
  const int predecessor = place_.predecessor[launch];
  return predecessor != 0 && (predecessor != launch - 1 || Dead(predecessor));
}

void Turn::Break(int invariant, const char* how) {
  if (broken_.invariant == 0 && (wanted_.empty() || wanted_.count(invariant) != 0)) broken_ = {invariant, how};
}

void Turn::Tell(const char* what) {
  told_ = what;
  Say("told: ", what);
}

void Turn::End() {
  me_.act++;
  me_.step = Step::kStart;
  me_.target = me_.next = me_.told_before = me_.gone_before = 0;
  me_.own_for = me_.own_counts = me_.own_removed = 0;
  me_.seen = {};
}

// Drops copies that no later look can show, so that fewer states differ.
void Turn::Forget() {
  bool opens = false, commits = false;
  const auto& acts = scenario_.actors[actor_].acts;
  for (std::size_t i = me_.act; i < acts.size(); ++i) {
    const Deed deed = acts[i].deed;
    const bool no_more_plain_looks = Is(Mutation::kNone) || Is(Mutation::kLaunchesAfterScr);
    if (deed == Deed::kReadStale || !no_more_plain_looks) return;
    const bool now = i == me_.act;
    opens |= (deed == Deed::kOpen || deed == Deed::kOpenProvisional) && (!now || me_.step == Step::kStart);
    commits |= deed == Deed::kCommit && (!now || me_.step <= Step::kLookForRemoved);
  }
  if (!opens) me_.copy_newest = 0;
  const Mask withdrawn = commits ? me_.copy.withdrawn : 0;
  me_.copy = {};
  me_.copy.withdrawn = withdrawn;
}

void Turn::Add(Set set) {
  label_ += '{';
  for (int i = 0; i < 8; ++i) {
    if (!Has(set.mask, i)) continue;
    if (label_.back() != '{') label_ += ',';
    label_ += std::to_string(i);
  }
  label_ += '}';
}

// --- Looks: one in a step at most ---

bool Turn::Choose() {
  return (choice_ >> asked_++ & 1U) != 0;
}

bool Turn::Stale(bool plain, bool differs) {
  if (!plain || !differs) return false;
  const bool stale = Choose();
  if (stale) Say("(stale)");
  return stale;
}

// True: the listing is slow, and has not begun: what this step does is undone.
bool Turn::Begins(int folder) {
  if (!scenario_.slow_listings || me_.lists) return false;
  begins_ = folder;
  return true;
}

void Turn::Begin(const State& before) {
  const Mask told_before = me_.told_before, gone_before = me_.gone_before;
  state_ = before;
  me_.told_before = told_before;  // a reading begins with its first listing
  me_.gone_before = gone_before;
  broken_ = {};
  told_ = nullptr;
  label_.clear();
  asked_ = 0;
  me_.lists = true;
  const Look& now = place_.data;
  if (begins_ == kCairnFolder) {
    me_.begun_newest = place_.newest;
    return Say("begins to list .cairn");
  }
  if (begins_ == kScrFolder) {
    me_.begun.folders = now.folders;
    me_.begun.marks = now.marks;
    return Say("begins to list .scr");
  }
  const int d = begins_ - kDatasetFolder;
  me_.begun.commits[d] = now.commits[d];
  me_.begun.withdrawn = static_cast<Mask>(now.withdrawn & Bit(d));
  Say("begins to list dataset ", d);
}

// What a listing shows that began at `then`: names that came or went meanwhile may be in it or not.
Mask Turn::Either(Mask then, Mask now) {
  for (int i = 0; i < 8; ++i) {
    if (Has(then ^ now, i) && Choose()) now ^= Bit(i);
  }
  return now;
}

int Turn::LookAtLaunches(bool plain) {
  if (!plain && Begins(kCairnFolder)) return place_.newest;
  if (!Stale(plain, me_.copy_newest != place_.newest)) me_.copy_newest = place_.newest;
  Mask seen = Below(me_.copy_newest + 1);
  if (me_.lists) seen = Either(Below(me_.begun_newest + 1), seen);
  me_.copy_newest = 0;
  for (int n = 1; n <= kLaunches; ++n) {
    if (Has(seen, n)) me_.copy_newest = static_cast<std::uint8_t>(n);
  }
  if (Is(Mutation::kBelievesGaps)) me_.known = seen;
  Say("sees launches ", Set{Without(seen, 1)});
  return me_.copy_newest;
}

void Turn::LookAtScr(bool plain, Look& look) {
  if (!plain && Begins(kScrFolder)) return;
  const Look& now = place_.data;
  if (!Stale(plain, me_.copy.folders != now.folders || me_.copy.marks != now.marks)) ChangedScr();
  look.folders = me_.copy.folders;
  look.marks = me_.copy.marks;
  if (me_.lists) {
    look.folders = Either(me_.begun.folders, look.folders);
    for (int d = 0; d < kDatasets; ++d) look.marks[d] = Either(me_.begun.marks[d], look.marks[d]);
  }
  Say("sees .scr with folders ", Set{look.folders});
  for (int d = 0; d < kDatasets; ++d) {
    if (look.marks[d] != 0) Say("dataset ", d, " is marked under ", Set{look.marks[d]});
  }
}

void Turn::LookAtData(bool plain, int d, Look& look) {
  if (!plain && Begins(kDatasetFolder + d)) return;
  const Look& now = place_.data;
  const Mask differ = me_.copy.withdrawn ^ now.withdrawn;
  if (!Stale(plain, me_.copy.commits[d] != now.commits[d] || Has(differ, d))) {
    me_.copy.commits[d] = now.commits[d];
    me_.copy.withdrawn ^= static_cast<Mask>(differ & Bit(d));
  }
  look.commits[d] = me_.copy.commits[d];
  Mask withdrawn = static_cast<Mask>(me_.copy.withdrawn & Bit(d));
  if (me_.lists) {
    look.commits[d] = Either(me_.begun.commits[d], look.commits[d]);
    withdrawn = Either(me_.begun.withdrawn, withdrawn);
  }
  look.withdrawn |= withdrawn;
  Say("sees dataset ", d, " with commits ", Set{look.commits[d]}, Has(look.withdrawn, d) ? " and removed.cairn" : "");
}

// After an own change in .scr the client's copy is as new as that.
void Turn::ChangedScr() {
  me_.copy.folders = place_.data.folders;
  me_.copy.marks = place_.data.marks;
}

// --- Bases ---

Mask Turn::Counts(int k) const {
  if (Is(Mutation::kOwnListForBase) && me_.own_for == k) return me_.own_counts;
  return place_.counts[k];
}

Mask Turn::Removed(int k) const {
  if (Is(Mutation::kOwnListForBase) && me_.own_for == k) return me_.own_removed;
  return place_.removed[k];
}

// The launch after the one that this actor serves, if there is any newer one.
int Turn::Next() const {
  int next = me_.serves + 1;
  while (Is(Mutation::kBelievesGaps) && next < kLaunches && !Has(me_.known, next)) ++next;
  return next;
}

// The first launch from k to m without base; 0: none.
int Turn::MissingFrom(int k, int m) const {
  for (; k <= m; ++k) {
    const bool known = !Is(Mutation::kBelievesGaps) || Has(me_.known, k);
    if (known && !Has(place_.based, k)) return k;
  }
  return 0;
}

// Goes on with Resume() as soon as base `m` is there: now, or when this actor has made what lacks. Called in the step
// that looked at the launches.
void Turn::NeedBase(int m) {
  me_.until = static_cast<std::uint8_t>(m);
  me_.making = static_cast<std::uint8_t>(MissingFrom(Is(Mutation::kNoOlderBases) ? m : 1, m));
  if (me_.making == 0) HaveBase();
}

void Turn::HaveBase() {
  const int m = me_.until;
  place_.read_back |= Bit(m);
  Say("has base ", m, ": counts ", Set{Counts(m)}, ", removed ", Set{Removed(m)});
  me_.making = me_.until = 0;
  Resume();
}

int Turn::BaseBefore(int k) const {
  int before = k - 1;
  while (Is(Mutation::kNoOlderBases) && before > 0 && !Has(place_.based, before)) --before;
  while (Is(Mutation::kBelievesGaps) && before > 0 && !Has(me_.known, before)) --before;
  return before;
}

bool Turn::Undecided(int d, int before) const {
  return Has(me_.listed.folders, d) && !Has(Counts(before), d) && !Has(Removed(before), d);
}

void Turn::NextUndecided(int before) {
  while (me_.next < kDatasets && !Undecided(me_.next, before)) me_.next++;
  me_.part = me_.next < kDatasets ? 1 : 2;
}

void Turn::MakeBase() {
  const int k = me_.making;
  Say("for base ", k);
  if (me_.part == 0) {
    LookAtScr(Is(Mutation::kBaseLooksPlainlyForFolders), me_.listed);
    NextUndecided(BaseBefore(k));
  } else if (me_.part == 1) {
    LookAtData(Is(Mutation::kBaseLooksPlainlyForCommits), me_.next, me_.listed);
    me_.next++;
    NextUndecided(BaseBefore(k));
  } else if (me_.part == 2 && Is(Mutation::kBaseByLook) && !Has(place_.based, k)) {
    Say("sees that it is free");
    me_.part = 3;
  } else {
    PutBase(k);
    me_.listed = {};
    me_.part = me_.next = 0;
    me_.making++;
    while (Is(Mutation::kBelievesGaps) && me_.making < me_.until && !Has(me_.known, me_.making)) me_.making++;
    if (k == me_.until) HaveBase();
  }
}

void Turn::PutBase(int k) {
  const int before = BaseBefore(k);
  const int last = Is(Mutation::kBelievesGaps) ? before : k - 1;
  const bool acts = last > 0 && !Has(place_.abandoned, last);
  Mask counts = Counts(before);
  Mask removed = static_cast<Mask>(Removed(before) | me_.listed.withdrawn);
  for (int d = 0; d < kDatasets; ++d) {
    const Mask named = me_.listed.commits[d];
    const bool committed = (acts && Has(named, last)) || Has(named, 0);
    if (committed && Undecided(d, before)) counts |= Bit(d);
    const bool heeded = (acts || Is(Mutation::kAbandonedRemoves)) && !Is(Mutation::kBaseWithoutMarks);
    if (heeded && Has(me_.listed.marks[d], last)) removed |= Bit(d);
  }
  counts = Without(counts, removed);
  if (Is(Mutation::kOwnListForBase)) {
    me_.own_for = static_cast<std::uint8_t>(k);
    me_.own_counts = counts;
    me_.own_removed = removed;
  }
  place_.read_back |= Bit(k);
  const bool taken = Has(place_.based, k);
  const bool over = Is(Mutation::kBaseByLook) && me_.part == 3;
  if (taken && !over) return Say("finds it taken");
  if (taken && (place_.counts[k] != counts || place_.removed[k] != removed)) Break(5, "a base was changed");
  CheckBase(k, counts, removed);
  place_.based |= Bit(k);
  place_.counts[k] = counts;
  place_.removed[k] = removed;
  place_.gone |= removed;
  Say("makes it");
}

void Turn::CheckBase(int k, Mask counts, Mask removed) {
  const int before = k - 1;
  if (before > 0 && !Has(place_.based, before)) Break(5, "a base is made without the one before it");
  const Mask counted = place_.counts[before], decided = static_cast<Mask>(counts | removed);
  if ((counts & removed) != 0 || Without(place_.removed[before], removed) != 0 || Without(counted, decided) != 0) {
    Break(5, "a base does not follow from the one before it");
  }
  for (int d = 0; d < kDatasets; ++d) {
    const Mask named = place_.data.commits[d];
    if (Has(counts, d) && !Has(counted, d)) {  // by a commit of the launch before, or by one that names none
      if (!Has(named, before) && !Has(named, 0)) Break(5, "a base counts a dataset without a commit of that launch");
      if (!Has(named, 0) && Has(place_.told_fenced[d], before)) Break(2, "a base counts a fenced commit");
      if (!Has(named, 0) && Dead(before)) Break(7, "a base counts a commit of an abandoned launch");
    }
    const bool told = (place_.told_counts[d] & Below(k)) != 0;
    if (told && !Has(counts, d) && !Has(place_.gone | removed, d)) Break(1, "a base does not count it");
  }
}

}  // namespace cairn::fence

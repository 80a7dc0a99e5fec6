#include "tests/storage/place/prefix/fence_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/storage/place/prefix/fence_turn.h"

namespace cairn::fence {
namespace {

// 128 bits that stand for a state: two states in four million have the same ones with a chance of 1 in 10^25.
struct Fingerprint {
  std::uint64_t high = 0, low = 0;
  bool operator==(const Fingerprint&) const = default;
};

std::uint64_t Mix(
    std::uint64_t x) {  // the finalizer of SplitMix64 (Steele, Lea, Flood: doi.org/10.1145/2660193.2660195)
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

Fingerprint Of(const State& state) {
  constexpr std::size_t kWords = (sizeof(State) + 7) / 8;
  std::array<std::uint64_t, kWords> words = {};
  std::memcpy(words.data(), &state, sizeof(State));
  Fingerprint print = {0x9e3779b97f4a7c15ULL, 0xd1b54a32d192ed03ULL};
  for (const std::uint64_t word : words) {
    print.high = Mix(print.high + word);
    print.low = Mix(print.low ^ (word * 0x9e3779b97f4a7c15ULL)) + word;
  }
  return print.high == 0 && print.low == 0 ? Fingerprint{1, 0} : print;
}

class Visited {
 public:
  // False: it was there.
  bool Add(const Fingerprint& print) {
    if (2 * (size_ + 1) > slots_.size()) Grow();
    Fingerprint& slot = Find(print);
    if (slot == print) return false;
    slot = print;
    ++size_;
    return true;
  }
  std::size_t size() const { return size_; }

 private:
  Fingerprint& Find(const Fingerprint& print) {
    std::size_t i = print.low & (slots_.size() - 1);
    while (slots_[i] != Fingerprint{} && slots_[i] != print) i = (i + 1) & (slots_.size() - 1);
    return slots_[i];
  }
  void Grow() {
    std::vector<Fingerprint> old = std::exchange(slots_, std::vector<Fingerprint>(2 * slots_.size()));
    for (const Fingerprint& print : old) {
      if (print != Fingerprint{}) Find(print) = print;
    }
  }

  std::vector<Fingerprint> slots_ = std::vector<Fingerprint>(1024);  // free: all zeros
  std::size_t size_ = 0;
};

// How a state was reached first: which actor of the state before took a step, and what its look showed.
struct Origin {
  std::uint32_t parent;
  std::uint16_t actor, choice;
};

State Beginning(const Scenario& scenario) {
  State state = {};
  Place& place = state.place;
  place.newest = 1;
  place.data.folders = place.bytes = scenario.counted;
  for (int d = 0; d < kDatasets; ++d) {
    if (Has(scenario.counted, d)) place.data.commits[d] = place.told_counts[d] = Bit(0);
  }
  if (scenario.based) {
    place.based = place.read_back = Bit(1);
    place.counts[1] = scenario.counted;
  }
  for (std::size_t i = 0; i < scenario.actors.size(); ++i) {
    Worker& worker = state.workers[i];
    worker.serves = static_cast<std::uint8_t>(scenario.actors[i].serves);
    worker.copy_newest = place.newest;
    worker.copy = place.data;
  }
  return state;
}

class Exploration {
 public:
  Exploration(const Scenario& scenario, const std::set<int>& wanted, std::size_t states_max)
      : scenario_(scenario), wanted_(wanted), states_max_(states_max), beginning_(Beginning(scenario)) {}

  Outcome Run() {
    visited_.Add(Of(beginning_));
    origins_.push_back({0, 0, 0});
    level_.push_back(beginning_);
    first_ = 0;
    while (!level_.empty() && outcome_.violated == 0 && visited_.size() < states_max_) NextLevel();
    outcome_.complete = level_.empty() && outcome_.violated == 0;
    outcome_.states = visited_.size();
    for (const char* text : told_) outcome_.told.insert(text);
    return std::move(outcome_);
  }

 private:
  // States of one level are as many steps from the beginning, so a violation is found by a shortest way.
  void NextLevel() {
    const std::size_t next_first = origins_.size();
    for (std::size_t i = 0; i < level_.size() && outcome_.violated == 0; ++i) {
      for (std::size_t actor = 0; actor < scenario_.actors.size() && outcome_.violated == 0; ++actor) {
        if (Turn::Ended(scenario_, level_[i], static_cast<int>(actor))) continue;
        const auto from = static_cast<std::uint32_t>(first_ + i);
        const unsigned choices = Try(level_[i], {from, static_cast<std::uint16_t>(actor), 0});
        for (unsigned choice = 1; choice < choices && outcome_.violated == 0; ++choice) {
          Try(level_[i], {from, static_cast<std::uint16_t>(actor), static_cast<std::uint16_t>(choice)});
        }
      }
    }
    first_ = next_first;
    level_ = std::exchange(next_, {});
  }

  // In how many ways the step can be taken.
  unsigned Try(const State& from, Origin origin) {
    State state = from;
    Turn turn(scenario_, wanted_, state, origin.actor, origin.choice, /*talks=*/false);
    turn.Take();
    ++outcome_.steps;
    if (turn.told() != nullptr) told_.insert(turn.told());
    if (turn.broken().invariant != 0) {
      outcome_.violated = turn.broken().invariant;
      outcome_.how = turn.broken().how;
      Trace(origin);
    } else if (visited_.Add(Of(state))) {
      origins_.push_back(origin);
      next_.push_back(state);
    }
    return turn.choices();
  }

  void Trace(Origin last) {
    std::vector<Origin> way = {last};
    for (std::uint32_t at = last.parent; at != 0; at = origins_[at].parent) way.push_back(origins_[at]);
    std::reverse(way.begin(), way.end());
    State state = beginning_;
    for (const Origin& step : way) {
      Turn turn(scenario_, wanted_, state, step.actor, step.choice, /*talks=*/true);
      turn.Take();
      outcome_.trace.push_back(scenario_.actors[step.actor].name + ": " + turn.label());
    }
  }

  const Scenario& scenario_;
  const std::set<int>& wanted_;
  const std::size_t states_max_;
  const State beginning_;
  Visited visited_;
  std::vector<Origin> origins_;  // by state, in the order of their first visits
  std::vector<State> level_, next_;
  std::size_t first_ = 0;  // number of the level's first state
  std::set<const char*> told_;
  Outcome outcome_;
};

}  // namespace

Outcome Explore(const Scenario& scenario, const std::set<int>& invariants, std::size_t states_max) {
  return Exploration(scenario, invariants, states_max).Run();
}

}  // namespace cairn::fence

// A commit that need not look through the whole index does to it what one that looks does:
// storage/place/prefix/index_rules.h.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "storage/format/scr/records.h"
#include "storage/place/prefix/index_rules.h"

namespace cairn {
namespace {

constexpr char kFollowed[] = "CAIRN_FOLLOWED";

scr::Descriptor Checkpoint(DatasetId id, LaunchId launch, std::int64_t created_us) {
  scr::Descriptor descriptor;
  descriptor.id = id;
  descriptor.name = "ckpt." + std::to_string(id);
  descriptor.launch = launch;
  descriptor.created_us = created_us;
  descriptor.checkpoint = true;
  descriptor.ranks = 1;
  return descriptor;
}

void Commit(const scr::Descriptor& descriptor, kvtree::Tree& index) {
  scr::PutIndexEntry({.descriptor = descriptor, .complete = true, .flushed = "now", .fetched = {}, .failed = {}},
                     index);
  index_rules::FollowCommit(descriptor, index);
}

kvtree::Tree WithoutNote(kvtree::Tree index) {
  index.Erase(kFollowed);
  return index;
}

TEST(IndexFollowTest, WhateverHappenedBeforeACommitLeavesTheSameWithTheNoteAndWithout) {
  std::size_t quick = 0;
  for (unsigned seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::uint64_t limit) { return random() % limit; };
    kvtree::Tree noted, plain;  // the second never has the note
    std::vector<scr::Descriptor> there;
    DatasetId newest = 0;
    std::int64_t now = 100;
    for (int step = 0; step < 25; ++step, now += 10) {
      const auto both = [&](const std::function<void(kvtree::Tree&)>& change) {
        change(noted);
        change(plain);
        plain.Erase(kFollowed);
      };
      const std::uint64_t what = below(10);
      if (what < 6 || there.empty()) {
        const DatasetId id = below(6) == 0 ? 1 + below(newest + 1) : newest + 1;
        newest = std::max(newest, id);
        const auto late = static_cast<std::int64_t>(below(6) == 0 ? below(50) : 0);
        there.push_back(Checkpoint(id, 1 + id / 8, now - late));
        quick += noted.Find(kFollowed) != nullptr ? 1 : 0;
        both([&](kvtree::Tree& index) { Commit(there.back(), index); });
      } else {
        const scr::Descriptor one = there[below(there.size())];
        if (what == 6) {  // as SCR's tool does
          both([&](kvtree::Tree& index) {
            if (index.FindPath({"DSET", std::to_string(one.id)})) scr::SetCurrent(one.name, index);
          });
        } else if (what == 7) {
          both([&](kvtree::Tree& index) {
            if (index.FindPath({"DSET", std::to_string(one.id)})) index_rules::Bind(one.id, one.name, now, index);
          });
        } else if (what == 8) {
          both([&](kvtree::Tree& index) { index_rules::Erase(one.id, index); });
        } else {
          both([&](kvtree::Tree& index) {
            kvtree::Tree* const entry = index.At("DSET").Find(std::to_string(one.id));
            if (entry != nullptr) index_rules::MarkFailed(one.id, "now", index_rules::Because::kRefused, *entry, index);
          });
        }
      }
      ASSERT_TRUE(WithoutNote(noted).SameAs(plain)) << "step " << step << "\n"
                                                    << kvtree::Print(noted) << "\nwithout:\n"
                                                    << kvtree::Print(plain);
    }
  }
  EXPECT_GT(quick, 1000u);
}

}  // namespace
}  // namespace cairn

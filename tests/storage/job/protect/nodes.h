// Nodes with a cache each, a dataset whose ranks lie in these, and what they keep for each other.
#ifndef CAIRN_TESTS_STORAGE_JOB_PROTECT_NODES_H_
#define CAIRN_TESTS_STORAGE_JOB_PROTECT_NODES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "storage/format/scr/sets.h"
#include "storage/job/protect/keep.h"
#include "storage/job/protect/rebuild.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/cache/redundancy_record.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {

inline constexpr DatasetId kNodesDataset = 7;

struct Node {
  FakeDisk disk;
  std::vector<Rank> ranks;
  std::unique_ptr<CacheFolder> cache;
  std::string folder;  // the dataset's
};

class Nodes {
 public:
  // By node its ranks; 0 … nranks - 1 are all of them.
  explicit Nodes(const std::vector<std::vector<Rank>>& ranks) : groups_(CountOf(ranks)) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      auto node = std::make_unique<Node>();
      node->ranks = ranks[i];
      for (const Rank rank : ranks[i]) {
        groups_[rank] = "node" + std::to_string(i);
        node_of_[rank] = node.get();
      }
      EXPECT_OK(Write(*node));
      nodes_.push_back(std::move(node));
    }
  }

  std::uint32_t nranks() const { return static_cast<std::uint32_t>(groups_.size()); }
  Node& node(std::size_t i) { return *nodes_[i]; }
  std::size_t size() const { return nodes_.size(); }
  Node& NodeOf(Rank rank) { return *node_of_.at(rank); }
  std::string PathOf(Rank rank) { return NodeOf(rank).folder + "/" + fmt::format("Ckpt{}-Rank{}.fti", id_, rank); }
  // Of no two ranks the same, some of whole blocks, one without any.
  static std::string ContentOf(Rank rank) {
    const std::size_t bytes = rank == 2 ? (4 << 20) + 333 : rank == 4 ? 0 : 40'000 + 7'001 * rank;
    return TestContent(rank + 1, bytes);
  }
  // All nodes have this dataset now, too, and the folders are its.
  void Next(DatasetId id, std::function<std::string(Rank)> content) {
    id_ = id;
    content_ = std::move(content);
    for (const auto& node : nodes_) EXPECT_OK(Write(*node));
  }
  catalogue::Catalogue CatalogueOf(Rank rank) const {
    return TestCatalogue(TestRun(), id_, rank, nranks(), content_(rank));
  }
  scr::Descriptor DescriptorOf(const Node& node) const {
    scr::Descriptor descriptor = TestDescriptor(id_, nranks());
    descriptor.held.emplace();
    for (const Rank rank : node.ranks) descriptor.held->Add(rank);
    return descriptor;
  }

  std::vector<kept::Set> Sets(scr::Scheme scheme, std::uint32_t members_min = 8) const {
    const auto made = scr::MakeSets(
        {.scheme = scheme, .members_min = members_min, .checksums = scheme == scr::Scheme::kRs ? 2u : 0u}, groups_);
    EXPECT_OK(made.status());
    return made.ok() ? SetsOf(*made) : std::vector<kept::Set>();
  }

  KeepWish WishToKeep(const Node& node, const std::vector<kept::Set>& sets) {
    KeepWish wish{.here = {.disk = const_cast<FakeDisk*>(&node.disk), .folder = node.folder},
                  .run = TestRun(),
                  .descriptor = DescriptorOf(node),
                  .step = 10 * id_,
                  .sets = sets,
                  .elsewhere = {},
                  .earlier = earlier};
    for (const auto& [rank, other] : node_of_) {
      if (other != &node) wish.elsewhere[rank] = {.disk = &other->disk, .folder = other->folder};
    }
    return wish;
  }
  absl::Status Protect(Node& node, const std::vector<kept::Set>& sets) {
    CAIRN_ASSIGN_OR_RETURN(const kept::Record record, MakeKept(WishToKeep(node, sets), throttle, progress));
    return node.cache->Protect(DescriptorOf(node), record);
  }
  absl::Status Protect(const std::vector<kept::Set>& sets) {
    sets_ = sets;
    for (const auto& node : nodes_) CAIRN_RETURN_IF_ERROR(Protect(*node, sets));
    return absl::OkStatus();
  }

  // Of rank `lost`, as it was protected last, when these nodes are gone.
  RebuildWish WishToRebuild(Rank lost, const std::set<std::size_t>& gone) {
    kept::Set of_last;
    for (const kept::Set& set : sets_) {
      if (std::ranges::find(set.ranks(), lost) != set.ranks().end()) of_last = set;
    }
    return WishToRebuild(lost, gone, of_last);
  }
  RebuildWish WishToRebuild(Rank lost, const std::set<std::size_t>& gone, const kept::Set& set) {
    RebuildWish wish{.run = TestRun(),
                     .descriptor = TestDescriptor(id_, nranks()),
                     .step = 10 * id_,
                     .set = set,
                     .lost = lost,
                     .at = {},
                     .without = {}};
    for (const Rank rank : wish.set.ranks()) {
      Node* const node = node_of_.at(rank);
      const bool is_gone = std::ranges::any_of(gone, [&](std::size_t i) { return nodes_[i].get() == node; });
      if (!is_gone) wish.at[rank] = {.disk = &node->disk, .folder = node->folder};
    }
    return wish;
  }

  std::vector<EarlierDataset> earlier;  // of what is protected from now on
  Throttle throttle{0};
  TransferProgress progress;

 private:
  static std::size_t CountOf(const std::vector<std::vector<Rank>>& ranks) {
    std::size_t count = 0;
    for (const std::vector<Rank>& of_node : ranks) count += of_node.size();
    return count;
  }

  absl::Status Write(Node& node) {
    if (!node.cache) {
      CAIRN_ASSIGN_OR_RETURN(node.cache, CacheFolder::Open(node.disk, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"));
    }
    node.folder = node.cache->DatasetPath(id_);
    CAIRN_RETURN_IF_ERROR(node.cache->Begin(DescriptorOf(node)));
    for (const Rank rank : node.ranks) {
      const std::string work = node.cache->WorkPath(id_, rank);
      CAIRN_RETURN_IF_ERROR(WriteTestFile(node.disk, work, content_(rank)));
      CAIRN_RETURN_IF_ERROR(node.cache->CommitRank(CatalogueOf(rank), work));
    }
    return node.cache->Complete(DescriptorOf(node));
  }

  DatasetId id_ = kNodesDataset;
  std::function<std::string(Rank)> content_ = ContentOf;
  std::vector<std::string> groups_;  // by rank the node
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<Rank, Node*> node_of_;
  std::vector<kept::Set> sets_;
};

// Sets that are named alike, whoever is in them.
inline kept::Set XorOf(const std::vector<Rank>& ranks) {
  kept::Set set;
  set.set_scheme(kept::XOR);
  set.set_groups(1);
  for (const Rank rank : ranks) set.add_ranks(rank);
  return set;
}

inline Nodes SixNodes() {
  return Nodes({{0}, {1}, {2}, {3}, {4}, {5}});
}

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_JOB_PROTECT_NODES_H_

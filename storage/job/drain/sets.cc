#include "storage/job/drain/sets.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/bpdir/directory.h"
#include "storage/file/bpdir/file_source.h"
#include "storage/file/fti/execution.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/filemap.h"
#include "storage/format/scr/summary.h"
#include "storage/job/adopt/scr_cache.h"
#include "storage/place/names.h"
#include "storage/place/prefix/scr_dataset.h"

namespace cairn::drain {
namespace {

class Asker {
 public:
  Asker(Disk& disk, const std::string& root, Scan& scan) : disk_(disk), root_(root), scan_(scan) {}

  void Ask(const Set& set) {
    switch (set.kind) {
      case Set::Kind::kFti:
        return AskFti(set);
      case Set::Kind::kScrCache:
        return AskScrCache(set);
      case Set::Kind::kScrPrefix:
        return AskScrPrefix(set);
      case Set::Kind::kBp5:
        return AskBp5(set);
    }
  }

 private:
  std::string Full(const std::string& path) const { return path.empty() ? root_ : root_ + "/" + path; }

  Item* Find(std::string_view path) {
    const auto found =
        std::ranges::lower_bound(scan_.items, path, {}, [](const Item& item) { return std::string_view(item.path); });
    return found != scan_.items.end() && found->path == path ? &*found : nullptr;
  }
  // By its absolute path.
  Item* FindFull(std::string_view path) {
    if (!path.starts_with(root_ + "/")) return nullptr;
    return Find(path.substr(root_.size() + 1));
  }

  // All below a folder of the set.
  void Finish(const std::string& folder, std::uint64_t order) {
    const std::string front = folder.empty() ? "" : folder + "/";
    auto item = std::ranges::lower_bound(scan_.items, front, {}, &Item::path);
    for (; item != scan_.items.end() && item->path.starts_with(front); ++item) Finish(*item, order);
  }
  static void Finish(Item& item, std::uint64_t order) {
    item.finished = true;
    item.order = std::max(item.order, order);
  }

  void AskFti(const Set& set) {
    // Where it cannot be told which ranks there are, no checkpoint is known to be complete.
    const auto execution = fti::Find(disk_, {.roots = {root_}, .execution = set.name});
    if (!execution.ok()) return;
    const fti::Topology& topology = execution->topology;
    for (const fti::Checkpoint& checkpoint : execution->checkpoints) {
      if (!IsComplete(topology, checkpoint)) continue;
      const std::uint64_t order = static_cast<std::uint64_t>(std::max(checkpoint.id, 0)) + 1;
      for (const auto* files : {&checkpoint.files, &checkpoint.copies, &checkpoint.codes}) {
        for (const auto& [rank, path] : *files) {
          if (Item* const item = FindFull(path)) item->order = std::max(item->order, order);
        }
      }
    }
  }

  void AskScrCache(const Set& set) {
    const auto cache = FindScrCache(disk_, {root_}, set.name.substr(std::string_view("scr.").size()));
    if (!cache.ok()) return;
    for (const auto& [id, dataset] : cache->datasets) {
      for (const std::string& folder : dataset.folders) {
        if (IsWholePart(dataset, folder) && folder.size() > root_.size()) Finish(folder.substr(root_.size() + 1), id);
      }
    }
  }

  bool IsWholePart(const ScrDataset& dataset, const std::string& folder) {
    std::vector<std::string> warnings;
    const auto part = ReadScrPart(disk_, folder, &warnings);
    if (!part.ok() || part->filemaps.empty()) return false;
    for (const auto& [rank, path] : part->filemaps) {
      const auto tree = ReadTree(disk_, path);
      if (!tree.ok()) return false;
      const auto filemap = scr::GetFilemap(*tree);
      if (!filemap.ok()) return false;
      for (const auto& [recorded, meta] : filemap->files) {
        const auto place = PlaceInPart(dataset, folder, recorded);
        const Item* const item = place ? FindFull(*place) : nullptr;
        if (item == nullptr || item->info.bytes != meta.bytes || !meta.complete) return false;
      }
    }
    return true;
  }

  void AskScrPrefix(const Set& set) {
    const std::string records = set.folder.empty() ? ".scr" : set.folder + "/.scr";
    const auto names = disk_.List(Full(records));
    if (!names.ok()) return;
    for (const std::string& name : *names) {
      const auto id = DatasetOfRecords(name);
      if (!id) continue;
      const std::string folder = records + "/" + name;
      if (FinishDataset(set, folder, *id)) Finish(folder, *id);
    }
  }

  bool FinishDataset(const Set& set, const std::string& folder, std::uint64_t id) {
    const auto tree = ReadTree(disk_, Full(folder) + "/summary.scr");
    if (!tree.ok()) return false;
    const auto summary = scr::GetSummary(*tree);
    if (!summary.ok() || !summary->complete.value_or(false)) return false;
    const auto names = ListedNames(disk_, Full(folder));
    if (!names.ok()) return false;
    std::vector<Item*> items;
    for (const std::string& name : *names) {
      items.push_back(Find(set.folder.empty() ? name : set.folder + "/" + name));
      if (items.back() == nullptr) return false;
    }
    for (Item* const item : items) Finish(*item, id);
    return true;
  }

  void AskBp5(const Set& set) {
    const auto directory = bpdir::Directory::Open(bpdir::ReadFiles(disk_, Full(set.folder)));
    if (!directory.ok() || (*directory)->active() || !(*directory)->ending().ok()) return;
    Finish(set.folder, 1);
  }

  Disk& disk_;
  const std::string& root_;
  Scan& scan_;
};

}  // namespace

bool IsComplete(const fti::Topology& topology, const fti::Checkpoint& checkpoint) {
  for (std::uint32_t rank = 0; rank < topology.ranks; ++rank) {
    if (topology.writes(rank) && !checkpoint.files.contains(rank)) return false;
  }
  return topology.ranks > 0;
}

void AskSets(Disk& disk, const std::string& root, Scan& scan) {
  Asker asker(disk, root, scan);
  for (const Set& set : scan.sets) asker.Ask(set);
}

}  // namespace cairn::drain

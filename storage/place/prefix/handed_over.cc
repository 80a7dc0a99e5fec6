#include "storage/place/prefix/handed_over.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "proto/catalogue.pb.h"
#include "proto/frame.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/names.h"
#include "storage/place/prefix/commit.h"
#include "storage/place/prefix/in_flight.h"
#include "storage/place/prefix/inside.h"
#include "storage/place/prefix/removal.h"
#include "storage/place/prefix/scr_names.h"
#include "storage/place/publish/protocol.h"

namespace cairn {
namespace {

constexpr std::size_t kLookedAtMax = 16;
constexpr const char* kCurrentKeys[] = {"CURRENT", "CAIRN_CURRENT", "CAIRN_SET_BACK"};

// What the files must be, by rank; their bytes are compared with it by whoever restores them.
absl::StatusOr<std::vector<catalogue::Catalogue>> WholeCatalogues(Disk& disk, const std::string& prefix,
                                                                  const scr::Descriptor& descriptor) {
  const std::uint32_t ranks = descriptor.ranks.value_or(0);
  if (ranks == 0 || ranks > CAIRN_RANKS_MAX) return DataLoss("{} ranks", ranks);
  Inside inside(disk, prefix);
  std::vector<catalogue::Catalogue> catalogues;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const std::string path = prefix + "/" + CataloguePrefixName(descriptor.id, rank);
    const auto text = ReadWhole(disk, path, kCatalogueBytesMax);
    if (!text.ok()) return text.status();
    CAIRN_ASSIGN_OR_RETURN(catalogue::Catalogue catalogue, DecodeCatalogue(path, *text));
    for (const catalogue::FileEntry& file : catalogue.file()) {
      CAIRN_ASSIGN_OR_RETURN(const FileInfo info, inside.Find(file.prefix_name()));
      if (info.bytes != file.bytes()) {
        return DataLoss("{}: {} bytes instead of {}", file.prefix_name(), info.bytes, file.bytes());
      }
    }
    catalogues.push_back(std::move(catalogue));
  }
  return catalogues;
}

// A commit moves CURRENT, but SCR has had its say on these datasets already: unless another was committed meanwhile,
// what was current before is so again.
absl::Status KeepCurrent(SharedRecords& records, const kvtree::Tree& before, const std::vector<std::string>& names) {
  return records.ChangeIndex([&](kvtree::Tree& index) {
    const std::string now(index.Get("CURRENT").value_or(""));
    if (std::find(names.begin(), names.end(), now) == names.end()) return absl::OkStatus();
    for (const char* key : kCurrentKeys) {
      index.Erase(key);
      if (const kvtree::Tree* was = before.Find(key); was != nullptr) index.At(key) = *was;
    }
    return absl::OkStatus();
  });
}

// Below Prefix, which uses this.
class InRecords final : public PublishRecords {
 public:
  InRecords(Disk& disk, const std::string& prefix, SharedRecords& records,
            const std::vector<catalogue::Catalogue>& in_place)
      : disk_(disk), prefix_(prefix), records_(records), in_place_(in_place) {}

  const std::string& path() const override { return prefix_; }
  // Who has the same bytes under a name keeps it.
  absl::StatusOr<Withdrawn> Withdraw(DatasetId by, const std::set<std::string>& names) override {
    if (names.empty()) return Withdrawn();
    ScrNames scr_names;
    return WithdrawReplaced(disk_, prefix_, records_, scr_names, by, names, /*committer=*/0, &in_place_);
  }
  absl::Status Replace(const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues,
                       Replacement* replacement) override {
    ScrNames scr_names;
    return ReplaceDatasets(disk_, prefix_, records_, scr_names, descriptor, catalogues, /*committer=*/0, replacement);
  }
  absl::Status StoreCatalogue(const catalogue::Catalogue& catalogue) override {
    return cairn::StoreCatalogue(disk_, prefix_, catalogue);
  }
  absl::Status Commit(const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues) override {
    return CommitDataset(disk_, prefix_, records_, descriptor, catalogues, /*committer=*/0);
  }
  absl::Status Remove(DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) override {
    return RemoveDataset(disk_, prefix_, records_, id, catalogues);
  }
  void MakeView(DatasetId, const std::vector<catalogue::Catalogue>&) override {}

 private:
  Disk& disk_;
  const std::string& prefix_;
  SharedRecords& records_;
  const std::vector<catalogue::Catalogue>& in_place_;
};

}  // namespace

absl::Status CommitInPlace(Disk& disk, const std::string& prefix, SharedRecords& records,
                           const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues) {
  InRecords target(disk, prefix, records, catalogues);
  // Whether views are wanted is not known here: MakeMissingViews makes them where they are.
  Publication what{.descriptor = descriptor, .catalogues = catalogues, .arrived = true, .view = false};
  for (const catalogue::Catalogue& catalogue : catalogues) what.stored.insert(catalogue.rank());
  Published published;
  const absl::Status status = Publish(disk, target, what, &published);
  for (std::string& warning : published.warnings) records.Warn(std::move(warning));
  CAIRN_RETURN_IF_ERROR(status);
  return published.before ? AlreadyExists("{}: dataset {} is committed", prefix, descriptor.id) : status;
}

absl::StatusOr<bool> IsHandedOver(Disk& disk, SharedRecords& records, const scr::IndexEntry& entry) {
  const DatasetId id = entry.descriptor.id;
  if (!entry.complete || !entry.descriptor.launch) return false;
  const auto commit = records.ReadCommit(id);
  if (!absl::IsNotFound(commit.status())) return false;  // committed, or damaged, which is told elsewhere
  CAIRN_ASSIGN_OR_RETURN(const bool removed, records.IsRemoved(id));
  if (removed) return false;
  const auto summary = ReadTree(disk, records.DatasetFolder(id) + "/summary.scr");
  if (absl::IsNotFound(summary.status()) || absl::IsDataLoss(summary.status())) return false;
  if (!summary.ok()) return summary.status();
  return summary->GetBool("COMPLETE").value_or(false);
}

absl::StatusOr<bool> CommitHandedOver(Disk& disk, const std::string& prefix, SharedRecords& records,
                                      const PrefixView& view) {
  std::size_t looked = 0;
  std::vector<std::string> names;
  const auto& datasets = view.index.datasets;
  for (auto at = datasets.rbegin(); at != datasets.rend() && looked < kLookedAtMax; ++at) {
    const auto& [id, entry] = *at;
    if (!entry.descriptor.launch || !entry.failed.empty() || view.commits.contains(id)) continue;
    CAIRN_ASSIGN_OR_RETURN(const bool handed_over, IsHandedOver(disk, records, entry));
    if (!handed_over) continue;
    ++looked;
    const auto catalogues = WholeCatalogues(disk, prefix, entry.descriptor);
    const absl::Status committed =
        catalogues.ok() ? CommitInPlace(disk, prefix, records, entry.descriptor, *catalogues) : catalogues.status();
    if (absl::IsUnavailable(committed)) return committed;
    if (committed.ok() || absl::IsAlreadyExists(committed)) {
      names.push_back(entry.descriptor.name);
    } else {
      records.Warn(fmt::format("dataset {}, which SCR has brought, does not count: {}", id, MessageOf(committed)));
    }
  }
  if (names.empty()) return false;
  CAIRN_RETURN_IF_ERROR(KeepCurrent(records, view.tree, names));
  return true;
}

}  // namespace cairn

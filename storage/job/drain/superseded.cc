// Former checkpoints of FTI at the target. FTI removes them when a newer one is whole; where they stayed, FTI-FF, which
// has no index, would restart each rank from whichever of its files it meets first.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/fti/execution.h"
#include "storage/file/fti/names.h"
#include "storage/job/drain/identity.h"
#include "storage/job/drain/pass.h"
#include "storage/job/drain/sets.h"

namespace cairn::drain {
namespace {

// A checkpoint of this level, or of a higher one, takes its place. None: its user keeps it, or it has no number.
std::optional<int> LevelOf(std::string_view folder) {
  const auto level = fti::ParseLevelFolder(folder);
  if (!level || folder == "l4_archive") return std::nullopt;
  switch (*level) {
    case fti::LevelFolder::kLocal:
      return 1;
    case fti::LevelFolder::kPartner:
      return 2;
    case fti::LevelFolder::kEncoded:
      return 3;
    case fti::LevelFolder::kGlobal:
    case fti::LevelFolder::kReplica:
      return 4;
    case fti::LevelFolder::kDifferential:
      break;
  }
  return std::nullopt;
}

// Two applications may have chosen one id. Then nobody can say whose a newer checkpoint is.
bool IsOfOne(const fti::Execution& execution) {
  std::map<std::pair<bool, std::uint32_t>, std::string> folders;  // the execution's, of a rank: global, or its node's
  const auto one = [&](bool global, std::uint32_t rank, const std::string& path) {
    const std::string folder = FolderOf(FolderOf(path));
    return folders.try_emplace({global, rank}, folder).first->second == folder;
  };
  for (const fti::Checkpoint& checkpoint : execution.checkpoints) {
    if (checkpoint.level == fti::Level::kDifferential) continue;
    const bool global = checkpoint.level == fti::Level::kGlobal;
    for (const auto& [rank, path] : checkpoint.files) {
      if (!one(global, rank, path)) return false;
    }
    for (const auto* files : {&checkpoint.copies, &checkpoint.codes}) {
      for (const auto& [rank, path] : *files) {
        if (!one(false, rank, path)) return false;
      }
    }
    for (const auto& [path, other] : checkpoint.others) {
      if (FolderOf(FolderOf(path)) != FolderOf(FolderOf(other))) return false;
    }
  }
  return true;
}

}  // namespace

struct Pass::Former {
  std::string folder, path;
  int level = 0;
  fti::FileName name;
  Made there;

  bool GivesWayTo(const fti::Checkpoint& newer) const {
    return newer.level != fti::Level::kDifferential && static_cast<int>(newer.level) >= level && newer.id > name.id;
  }
};

// What this user's drains have brought, and the source has no more.
void Pass::FindFormer(const std::string& folder, int level, std::vector<Former>& former) const {
  const auto files = ground_.target->List(folder);
  if (!files.ok()) return;
  for (const TreeEntry& file : *files) {
    const auto name = fti::ParseFileName(file.name);
    if (!name || name->kind == fti::FileKind::kDifferential || !file.info.is_regular()) continue;
    const std::string path = folder + "/" + file.name;
    const Record* const record = ground_.journal->Find(path);
    if (FindItem(path) != nullptr || record == nullptr || !record->IsOurs(MadeOf(file.info))) continue;
    former.push_back({.folder = folder, .path = path, .level = level, .name = *name, .there = MadeOf(file.info)});
  }
}

std::vector<Pass::Former> Pass::FormerOf(const std::string& execution) const {
  std::vector<Former> former;
  for (const Folder& folder : scan_.folders) {
    if (BaseOf("/" + folder.path) != execution) continue;
    const auto levels = ground_.target->List(folder.path);
    if (!levels.ok()) continue;
    for (const TreeEntry& entry : *levels) {
      const auto level = LevelOf(entry.name);
      if (level && entry.info.is_directory()) FindFormer(folder.path + "/" + entry.name, *level, former);
    }
  }
  return former;
}

// Of a file that fti::Find has found; "": not below the target.
std::string Pass::AtTarget(const std::string& full) const {
  return full.starts_with(options_.to + "/") ? full.substr(options_.to.size() + 1) : "";
}

// A name at the target may be of somebody else's file, which this pass has refused to replace.
bool Pass::HasCome(const fti::Checkpoint& newer) const {
  return std::ranges::all_of(newer.files, [this](const auto& file) {
    const std::string path = AtTarget(file.second);
    const Item* const item = FindItem(path);
    return !path.empty() &&
           (item == nullptr || states_[static_cast<std::size_t>(item - scan_.items.data())] == State::kDone);
  });
}

// Ids begin anew when an application does, or goes back: an older file of a higher id takes no newer one's place.
bool Pass::CameLater(const fti::Checkpoint& newer, const Former& former) const {
  const auto own = newer.files.find(former.name.rank);
  if (own == newer.files.end()) return false;
  const auto there = ground_.target->Info(AtTarget(own->second));
  return there.ok() && Nanoseconds(there->mtime) >= former.there.mtime_ns;
}

// Those that a drain before has renamed, or another node's, may not be durable under their names yet.
absl::Status Pass::SyncNamesOf(const fti::Checkpoint& newer) {
  if (ground_.target->syncs_as_a_whole()) return ground_.target->SyncAll();
  std::set<std::string> folders;
  for (const auto& [rank, full] : newer.files) {
    // All above it, too: whoever made those may not have synced them.
    std::string folder = FolderOf(AtTarget(full));
    for (; folders.insert(folder).second && !folder.empty(); folder = FolderOf(folder)) {
    }
  }
  for (const std::string& folder : folders) CAIRN_RETURN_IF_ERROR(ground_.target->SyncFolder(folder));
  return absl::OkStatus();
}

// Only for a newer one that is whole at the target, with the files of all nodes: each node's drain may be as far as it
// likes.
absl::Status Pass::RemoveFormer() {
  std::set<std::string> folders;
  for (const Set& set : scan_.sets) {
    if (set.kind != Set::Kind::kFti || ended_ || stop_ || !SeenWhole(set)) continue;
    const std::vector<Former> former = FormerOf(set.name);
    if (former.empty()) continue;
    CAIRN_RETURN_IF_ERROR(CheckTarget());
    const auto there = fti::Find(ground_.disk, {.roots = {options_.to}, .execution = set.name});
    if (!there.ok() || !IsOfOne(*there)) continue;
    for (const fti::Checkpoint& newer : there->checkpoints) {
      if (!IsComplete(there->topology, newer) || !HasCome(newer)) continue;
      std::vector<Former> replaced;
      std::ranges::copy_if(former, std::back_inserter(replaced),
                           [&](const Former& one) { return one.GivesWayTo(newer) && CameLater(newer, one); });
      if (replaced.empty()) continue;
      CAIRN_RETURN_IF_ERROR(SyncNamesOf(newer));
      for (const Former& one : replaced) Remove(one, folders);
    }
  }
  if (folders.empty()) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(ground_.journal->Write());
  for (const std::string& folder : folders) CAIRN_RETURN_IF_ERROR(ground_.target->SyncFolder(folder));
  return absl::OkStatus();
}

// Unless it has gone, or is somebody else's by now.
void Pass::Remove(const Former& one, std::set<std::string>& folders) {
  const auto now = ground_.target->Info(one.path);
  if (!now.ok() || MadeOf(*now) != one.there) return;
  const absl::Status removed = ground_.target->Remove(one.path);
  if (!removed.ok() && !absl::IsNotFound(removed)) {
    return report_.failed.Add(one.path, fmt::format("a newer checkpoint has come: {}", MessageOf(removed)));
  }
  ground_.journal->Add(one.path, {});  // should it come again, it is brought again
  ++report_.former;
  folders.insert(one.folder);
}

}  // namespace cairn::drain

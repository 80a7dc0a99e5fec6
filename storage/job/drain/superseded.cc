// Former checkpoints of FTI at the target. FTI removes them when a newer one is whole; where they stayed, FTI-FF, which
// has no index, would restart each rank from whichever of its files it meets first.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/fti/execution.h"
#include "storage/file/fti/names.h"
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

}  // namespace

struct Pass::Former {
  std::string folder, path;
  int level = 0;
  std::int32_t id = 0;

  bool GivesWayTo(const fti::Checkpoint& newer) const {
    return newer.level != fti::Level::kDifferential && static_cast<int>(newer.level) >= level && newer.id > id;
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
    former.push_back({.folder = folder, .path = path, .level = level, .id = name->id});
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

// Only for a newer one that is whole at the target, with the files of all nodes: each node's drain may be as far as it
// likes.
absl::Status Pass::RemoveFormer() {
  std::set<std::string> folders;
  for (const Set& set : scan_.sets) {
    if (set.kind != Set::Kind::kFti || ended_ || stop_) continue;
    const std::vector<Former> all = FormerOf(set.name);
    if (all.empty()) continue;
    const auto there = fti::Find(ground_.disk, {.roots = {options_.to}, .execution = set.name});
    if (!there.ok()) continue;
    for (const Former& one : all) {
      const auto replaces = [&](const fti::Checkpoint& newer) {
        return one.GivesWayTo(newer) && IsComplete(there->topology, newer);
      };
      if (std::ranges::none_of(there->checkpoints, replaces)) continue;
      const absl::Status removed = ground_.target->Remove(one.path);
      if (!removed.ok() && !absl::IsNotFound(removed)) {
        report_.failed.Add(one.path, fmt::format("a newer checkpoint has come: {}", MessageOf(removed)));
        continue;
      }
      ground_.journal->Add(one.path, {});  // should it come again, it is brought again
      ++report_.former;
      folders.insert(one.folder);
    }
  }
  if (folders.empty()) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(ground_.journal->Write());
  for (const std::string& folder : folders) CAIRN_RETURN_IF_ERROR(ground_.target->SyncFolder(folder));
  return absl::OkStatus();
}

}  // namespace cairn::drain

// Folders at the target: made before what belongs into them comes, and at the end made to look as in the source.
#include <fmt/format.h>
#include <unistd.h>

#include <ranges>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/job/drain/pass.h"

namespace cairn::drain {

// A file's path never ends so.
std::string Pass::FolderKey(const Folder& folder) {
  return folder.path + "/";
}

// `now`: the name that it has now. While it is still empty, so that a drain that is killed after this gives it its
// attributes.
absl::Status Pass::NoteFolder(const Folder& folder, const std::string& now) {
  const auto there = ground_.target->Info(now);
  if (!there.ok()) return absl::OkStatus();  // somebody took it away
  ground_.journal->Add(FolderKey(folder),
                       {.source = IdentityOf(folder.info), .there = {.inode = there->inode}, .ours = true});
  return ground_.journal->Write();
}

// A folder of ours at the target that is closed to us, as the source's is. It gets its mode again at the end of the
// pass. False: it is open, or not ours.
bool Pass::OpenUp(const std::string& folder) {
  const auto there = ground_.target->Info(folder);
  if (!there.ok() || there->uid != ::geteuid() || (there->mode & 0300) == 0300) return false;
  const auto opened = ground_.target->OpenFolder(folder);
  if (!opened.ok()) return false;
  FileInfo info = *there;
  info.mode |= 0700;
  return (*opened)->SetAttributes(info, {}).ok();
}

// Gives a folder its name that was made and noted under `work`.
absl::Status Pass::NameFolder(const Folder& folder, const std::string& work) {
  Tree& target = *ground_.target;
  absl::Status named = target.RenameNew(work, folder.path);
  const std::string parent = FolderOf(folder.path);
  if (absl::IsPermissionDenied(named) && !parent.empty() && OpenUp(parent)) {
    named = target.RenameNew(work, folder.path);
  }
  if (named.ok()) return named;
  target.Remove(work).IgnoreError();  // the next drain's beginning removes it, too
  if (absl::IsAlreadyExists(named) || absl::IsNotFound(named) || absl::IsResourceExhausted(named)) return named;
  // Not every file system renames a folder without replacing another one.
  CAIRN_RETURN_IF_ERROR(target.MakeFolder(folder.path));
  return NoteFolder(folder, folder.path);
}

// Those that are to be made, under work names, and known to the journal: so all that a drain has made is known.
absl::StatusOr<std::vector<std::pair<const Folder*, std::string>>> Pass::PrepareFolders() {
  std::vector<std::pair<const Folder*, std::string>> prepared;
  for (const Folder& folder : scan_.folders) {
    const auto there = ground_.target->Info(folder.path);
    if (there.ok() && there->is_directory()) {
      if ((there->mode & 0300) != 0300 && !AllDoneBelow(folder.path, kAfterAll)) OpenUp(folder.path);
      continue;
    }
    if (there.ok()) {
      report_.failed.Add(folder.path, "the target has something else of this name");
      continue;
    }
    std::string work = fmt::format("{}/0/{}", ground_.work_folder, ground_.works++);
    CAIRN_RETURN_IF_ERROR(ground_.target->MakeFolder(work));
    CAIRN_RETURN_IF_ERROR(NoteFolder(folder, work));
    prepared.emplace_back(&folder, std::move(work));
  }
  if (!prepared.empty()) CAIRN_RETURN_IF_ERROR(ground_.journal->Sync());
  return prepared;
}

absl::Status Pass::MakeFolders() {
  CAIRN_ASSIGN_OR_RETURN(const auto prepared, PrepareFolders());
  std::set<std::string> parents;
  for (const auto& [folder, work] : prepared) {
    const absl::Status named = NameFolder(*folder, work);
    if (absl::IsResourceExhausted(named)) return named;
    if (absl::IsAlreadyExists(named)) continue;  // of another machine's drain, a moment ago
    if (!named.ok()) {
      report_.failed.Add(folder->path, std::string(MessageOf(named)));
      continue;
    }
    ++report_.folders;
    parents.insert(FolderOf(folder->path));
  }
  if (parents.empty()) return absl::OkStatus();
  if (ground_.target->syncs_as_a_whole() && parents.size() > 16) return ground_.target->SyncAll();
  for (const std::string& parent : parents) CAIRN_RETURN_IF_ERROR(ground_.target->SyncFolder(parent));
  return absl::OkStatus();
}

// Only of folders that a drain has made, or that are the same user's: one of somebody else's stays as it is. What is in
// a folder comes before its times, and before a mode that lets nothing more in. That they are not durable at once costs
// nobody anything: the next pass sets them again.
void Pass::SetFolderAttributes() {
  for (const Folder& folder : scan_.folders | std::views::reverse) {
    const auto there = ground_.target->Info(folder.path);
    if (!there.ok() || !there->is_directory()) continue;  // told by MakeFolders
    const Record* const record = ground_.journal->Find(FolderKey(folder));
    const bool made = record != nullptr && record->there.inode == there->inode;
    if (!made && there->uid != folder.info.uid) continue;
    FileInfo info = folder.info;
    if ((info.mode & 0700) != 0700 && !AllDoneBelow(folder.path, kAfterAll)) info.mode |= 0700;
    if (there->mode == info.mode && Nanoseconds(there->mtime) == Nanoseconds(info.mtime)) continue;
    const auto from = ground_.source.OpenFolder(folder.path);
    const auto to = ground_.target->OpenFolder(folder.path);
    if (!from.ok() || !to.ok()) {
      ++report_.attributes_lost;
      continue;
    }
    const auto attributes = (*from)->Attributes();
    const auto set = (*to)->SetAttributes(info, attributes.ok() ? *attributes : TreeAttributes());
    if (!set.ok() || !*set || !attributes.ok()) ++report_.attributes_lost;
  }
}

}  // namespace cairn::drain

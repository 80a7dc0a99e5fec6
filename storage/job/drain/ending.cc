// The end of a pass: what was brought leaves the source, if that was asked for.
#include <fmt/format.h>

#include <ranges>
#include <string>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/job/drain/pass.h"

namespace cairn::drain {
namespace {

constexpr std::size_t kNameBytesMax = 255;
constexpr char kTooFresh[] = "nobody can say whether it is being written to";
constexpr char kNotWhileWritten[] = "not deleted: somebody has it open for writing";
constexpr char kNotThere[] = "not deleted: what was brought is not at the target any more";

}  // namespace

absl::Status Pass::DeleteSource() {
  std::set<std::size_t> held_back;  // sets of which not all has come
  for (std::size_t at = 0; at < scan_.items.size(); ++at) {
    if (states_[at] != State::kDone) held_back.insert(scan_.items[at].sets.begin(), scan_.items[at].sets.end());
  }
  for (std::size_t set = 0; set < scan_.sets.size(); ++set) {
    if (!SeenWhole(scan_.sets[set])) held_back.insert(set);
  }
  std::vector<std::size_t> items;
  std::set<std::string> folders;
  for (std::size_t at = 0; at < scan_.items.size(); ++at) {
    const Item& item = scan_.items[at];
    const auto held = [&](std::size_t set) { return held_back.contains(set); };
    if (states_[at] != State::kDone || std::ranges::any_of(item.sets, held)) continue;
    items.push_back(at);
    // All above it, too: whoever made those may not have synced them.
    std::string folder = FolderOf(item.path);
    for (; folders.insert(folder).second && !folder.empty(); folder = FolderOf(folder)) {
    }
  }
  if (items.empty()) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(CheckTarget());
  // Those that a drain before has renamed may not be durable under their names yet.
  if (ground_.target->syncs_as_a_whole()) {
    CAIRN_RETURN_IF_ERROR(ground_.target->SyncAll());
  } else {
    for (const std::string& folder : folders) CAIRN_RETURN_IF_ERROR(ground_.target->SyncFolder(folder));
  }
  for (const std::size_t at : items) {
    if (stop_) break;
    Delete(at);
  }
  return absl::OkStatus();
}

// Is what was brought, or was found to be the same, at the target?
bool Pass::IsBrought(const Item& item) const {
  const auto there = ground_.target->Info(item.path);
  const Record* const record = ground_.journal->Find(item.path);
  return there.ok() && record != nullptr && MadeOf(*there) == record->there && there->bytes == item.info.bytes;
}

// The next pass brings it again, or tells of what is there instead.
void Pass::NotAtTheTarget(const Item& item, const std::string& name) {
  ground_.journal->Doubt(item.path);
  ++report_.busy;
  report_.failed.Add(name, kNotThere);
}

bool Pass::IsTooFresh(const Item& item, FileBelow::Writers writers) {
  return writers == FileBelow::Writers::kUnknown && !ground_.completeness.StayedAsItIs(item);
}

// Under its own name a file can be written to until the moment when it is gone, and that would be lost. So it first
// gets another name, by which nobody knows it; then it is looked at once more.
void Pass::Delete(std::size_t at) {
  const Item& item = scan_.items[at];
  if (!IsBrought(item)) return NotAtTheTarget(item, item.path);
  if (const auto now = ground_.source.Info(item.path); now.ok() && item.info.links == 1) {
    if (IdentityOf(*now) != IdentityOf(item.info)) {
      ++report_.busy;  // the next pass brings it
      return report_.waiting.Add(item.path, "not deleted: it changed");
    }
  }
  if (item.kind == Item::Kind::kFile) {
    const auto file = ground_.source.Open(item.path);
    const auto writers = file.ok() ? (*file)->LookForWriters() : FileBelow::Writers::kNone;
    if (writers == FileBelow::Writers::kSome) return report_.waiting.Add(item.path, kNotWhileWritten);
    if (file.ok() && IsTooFresh(item, writers)) {
      return report_.waiting.Add(item.path, fmt::format("not deleted yet: {}", kTooFresh));
    }
  }
  const std::string folder = FolderOf(item.path);
  const std::string name = std::string(kAsidePrefix) + BaseOf("/" + item.path);
  if (name.size() > kNameBytesMax) {
    return report_.failed.Add(item.path, "not deleted: its name is too long for the one that it gets before");
  }
  const std::string aside = folder.empty() ? name : folder + "/" + name;
  const absl::Status moved = ground_.source.RenameNew(item.path, aside);
  if (absl::IsNotFound(moved)) return;
  if (!moved.ok()) return report_.failed.Add(item.path, fmt::format("not deleted: {}", MessageOf(moved)));
  RemoveAside(item, aside);
}

std::string Pass::WhyNotRemoved(const Item& item, const std::string& aside) {
  if (item.kind == Item::Kind::kSymlink) {
    const auto info = ground_.source.Info(aside);
    if (!info.ok()) return std::string(MessageOf(info.status()));
    return info->is_symlink() && IdentityOf(*info).SameContent(IdentityOf(item.info)) ? "" : "it changed";
  }
  const auto file = ground_.source.Open(aside);
  if (!file.ok()) return std::string(MessageOf(file.status()));
  const auto info = (*file)->Info();
  if (!info.ok() || !IdentityOf(*info).SameContent(IdentityOf(item.info))) return "it changed";
  const FileBelow::Writers writers = (*file)->LookForWriters();
  if (writers == FileBelow::Writers::kSome) return "somebody has it open for writing";
  return IsTooFresh(item, writers) ? kTooFresh : "";
}

void Pass::RemoveAside(const Item& item, const std::string& aside) {
  std::string why = WhyNotRemoved(item, aside);
  // If what is at the target was this very file, under another mount, it has gone from there with the name.
  if (why.empty() && !IsBrought(item)) {
    const absl::Status back = ground_.source.RenameNew(aside, item.path);
    return NotAtTheTarget(item, back.ok() ? item.path : aside);
  }
  if (why.empty()) {
    const absl::Status removed = ground_.source.Remove(aside);
    if (removed.ok()) {
      ++report_.deleted;
      ++ground_.progress.deleted;
      return;
    }
    why = MessageOf(removed);
  }
  // Back to where it was, unless there is another one now: then the next pass tells of it.
  const absl::Status back = ground_.source.RenameNew(aside, item.path);
  report_.waiting.Add(
      item.path, back.ok() ? "not deleted: " + why : fmt::format("not deleted: {}; it is called {} now", why, aside));
}

}  // namespace cairn::drain

#include "storage/job/adopt/scr_names.h"

#include "storage/base/path.h"

#include <algorithm>
#include <optional>
#include <set>

#include "storage/base/ids.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/io/disk.h"
#include "storage/place/names.h"

namespace cairn {
namespace {

bool IsBelow(std::string_view path, std::string_view directory) {
  if (directory == "/") return path.starts_with("/");
  return path.size() > directory.size() && path.starts_with(directory) && path[directory.size()] == '/';
}

// Where the file was to go; empty: META does not say.
std::string TargetOf(const scr::Meta& meta) {
  if (meta.directory.empty() || meta.name.empty()) return "";
  return (meta.directory == "/" ? "" : meta.directory) + "/" + meta.name;
}

std::vector<const scr::Meta*> WithTarget(const std::vector<scr::Filemap>& filemaps) {
  std::vector<const scr::Meta*> metas;
  for (const scr::Filemap& filemap : filemaps) {
    for (const auto& [recorded, meta] : filemap.files) {
      if (!TargetOf(meta).empty()) metas.push_back(&meta);
    }
  }
  return metas;
}

// What the application's names were relative to, if all were, and to the same.
std::optional<std::string> WorkingDirectory(const std::vector<const scr::Meta*>& metas) {
  std::optional<std::string> directory;
  for (const scr::Meta* meta : metas) {
    const auto name = NormalizeFileName("", meta->original);
    const std::string target = TargetOf(*meta);
    if (!name.ok() || !target.ends_with("/" + *name)) return std::nullopt;
    const std::string base = target.substr(0, target.size() - name->size() - 1);
    if (directory && *directory != base) return std::nullopt;
    directory = base;
  }
  return directory;
}

std::string CommonDirectory(const std::vector<const scr::Meta*>& metas) {
  std::string common = metas.empty() ? "" : metas.front()->directory;
  for (const scr::Meta* meta : metas) {
    while (common != "/" && !IsBelow(TargetOf(*meta), common)) common = ParentOf(common);
  }
  return common;
}

ScrNaming FindPrefix(const std::string& run, const std::string& prefix_was, const std::vector<scr::Filemap>& filemaps) {
  ScrNaming naming;
  const std::vector<const scr::Meta*> metas = WithTarget(filemaps);
  const auto below_run = [&](const scr::Meta* meta) { return IsBelow(TargetOf(*meta), run); };
  if (!prefix_was.empty()) {
    naming.prefix = prefix_was;
  } else if (std::all_of(metas.begin(), metas.end(), below_run)) {
    naming.prefix = run;
  } else if (const auto directory = WorkingDirectory(metas)) {
    naming.prefix = directory->empty() ? "/" : *directory;
  } else {
    naming.prefix = CommonDirectory(metas);
    naming.guessed = true;
  }
  return naming;
}

absl::StatusOr<std::string> NameOf(const std::string& old_prefix, const std::string& recorded, const scr::Meta& meta) {
  const std::string target = TargetOf(meta);
  std::string relative = meta.name.empty() ? BaseOf(recorded) : meta.name;
  if (!target.empty()) {
    if (!IsBelow(target, old_prefix)) {
      return InvalidArgument("{}: its place was {}, which is not below {}", recorded, target, old_prefix);
    }
    relative = target.substr(old_prefix == "/" ? 1 : old_prefix.size() + 1);
  }
  auto name = NormalizeFileName("", relative);
  const absl::Status free = name.ok() ? CheckApplicationsName(*name) : name.status();
  return free.ok() ? std::move(name) : InvalidArgument("{}: {}", recorded, MessageOf(free));
}

}  // namespace

absl::StatusOr<ScrNaming> NameScrFiles(const std::string& run, const std::string& prefix_was,
                                       const std::vector<scr::Filemap>& filemaps) {
  ScrNaming naming = FindPrefix(run, prefix_was, filemaps);
  naming.names.resize(filemaps.size());
  std::map<std::string, std::string> owners;  // name -> recorded path, with its rank
  for (Rank rank = 0; rank < filemaps.size(); ++rank) {
    for (const auto& [recorded, meta] : filemaps[rank].files) {
      CAIRN_ASSIGN_OR_RETURN(const std::string name, NameOf(naming.prefix, recorded, meta));
      const std::string owner = fmt::format("{} of rank {}", recorded, rank);
      const auto [other, first] = owners.try_emplace(name, owner);
      if (!first) return AlreadyExists("{} and {} would both be {} in the run", other->second, owner, name);
      naming.names[rank][recorded] = name;
    }
  }
  return naming;
}

}  // namespace cairn

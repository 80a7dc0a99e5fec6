// Directories of the application's own, below which it writes what it likes: several ranks may route the same one. What
// is in them is known when the last rank has ended the output; until then nobody's records of them are written, but no
// rank waits for another.
#include <algorithm>

#include "daemon/core/core_impl.h"
#include "storage/base/file_tree.h"
#include "storage/base/status.h"
#include "storage/cache/catalogue.h"

namespace cairn {
namespace {

// Where the prefix has a dataset's own bytes and view: ckpt.<number>, ckpt.<number>.bp.
bool IsDatasetFolder(std::string_view name) {
  constexpr std::string_view kBefore = "ckpt.", kView = ".bp";
  if (!name.starts_with(kBefore)) return false;
  name.remove_prefix(kBefore.size());
  if (name.ends_with(kView)) name.remove_suffix(kView.size());
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

// A name in `names` below `name`, or one that `name` is below; empty: none.
template <typename Names>
std::string NameInTheWay(const Names& names, const std::string& name) {
  const std::string below = name + "/";
  if (const auto at = names.lower_bound(below); at != names.end() && at->first.starts_with(below)) return at->first;
  for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    if (names.contains(name.substr(0, slash))) return name.substr(0, slash);
  }
  return {};
}

}  // namespace

absl::StatusOr<std::string> CoreImpl::DirectoryName(const std::string& prefix, std::string given) {
  while (given.ends_with('/')) given.pop_back();
  return NormalizeFileName(prefix, given);
}

// A file's name is free of others' directories, and the other way round.
absl::Status CoreImpl::CheckRouted(Run& run, DatasetId id, const std::string& name, bool directory) {
  if (IsDatasetFolder(name.substr(0, name.find('/')))) {
    return InvalidArgument("{}: folders ckpt.<number> belong to checkpoints of memory", name);
  }
  const auto& files = run.routed[id];
  const auto& directories = run.routed_directories[id].by_name;
  if (directory ? files.contains(name) : directories.contains(name)) {
    return InvalidArgument("{} is a {} of dataset {}", name, directory ? "file" : "directory", id);
  }
  if (const std::string other = NameInTheWay(files, name); !other.empty()) {
    return InvalidArgument("{} and {} are files of dataset {}: one cannot be the other's directory", name, other, id);
  }
  if (const std::string other = NameInTheWay(directories, name); !other.empty()) {
    return InvalidArgument("{} and {} of dataset {}: what is below a routed directory is part of it", name, other, id);
  }
  return absl::OkStatus();
}

void CoreImpl::RouteDirectory(const SessionPtr& session, const std::shared_ptr<FilesWriter>& files, const CallPtr& call,
                              const std::string& given) {
  constexpr std::size_t kDirectoriesMax = 4096;
  auto name = DirectoryName(session->run->prefix_path, given);
  if (!name.ok()) return call->Fail(name.status());
  auto& known = session->run->routed_directories[files->dataset->id].by_name;
  if (!known.contains(*name)) {
    if (known.size() >= kDirectoriesMax) {
      return call->Fail(ResourceExhausted("more than {} directories of a dataset", kDirectoriesMax));
    }
    const absl::Status free = CheckRouted(*session->run, files->dataset->id, *name, /*directory=*/true);
    if (!free.ok()) return call->Fail(free);
  }
  CheckDirectory(session, files, *name + "/", [this, session, files, call, name = *name, given](absl::Status status) {
    if (!status.ok()) return call->Fail(status);
    MakeRouted(session, files, call, name, given);
  });
}

void CoreImpl::MakeRouted(const SessionPtr& session, const std::shared_ptr<FilesWriter>& files, const CallPtr& call,
                          const std::string& name, const std::string& given) {
  const DatasetPtr& dataset = files->dataset;
  auto make = [store = StoreOf(*session->run, *dataset), id = dataset->id, name]() -> absl::StatusOr<std::string> {
    CAIRN_ASSIGN_OR_RETURN(const std::string file, store->RouteFile(id, name + "/md.idx"));  // makes its directory
    return ParentOf(file);
  };
  BlockingStore(*dataset, std::move(make), [this, session, files, call, name, given](absl::StatusOr<std::string> path) {
    const RunPtr& run = session->run;
    const DatasetId id = files->dataset->id;
    if (files->dataset->bypass) TellWithdrawn(run);
    if (!path.ok()) return call->Fail(path.status());
    if (files->failed) return call->Fail(WhyFailed(*run, *files->dataset));
    if (files->ended) return call->Fail(FailedPrecondition("{}: the output has ended meanwhile", name));
    // Another's file may have come between.
    auto& known = run->routed_directories[id].by_name;
    const absl::Status free = known.contains(name) ? absl::OkStatus() : CheckRouted(*run, id, name, /*directory=*/true);
    if (!free.ok()) return call->Fail(free);
    RoutedDirectory& directory = known[name];
    if (directory.ranks.empty()) directory.routed = {.path = *path, .given = given};
    directory.ranks.insert(session->rank);
    files->has_directories = true;
    local::Reply reply;
    reply.mutable_route_file()->set_path(*path);
    call->Reply(std::move(reply));
  });
}

bool CoreImpl::IsLastToEnd(Run& run, const Dataset& dataset, Rank rank) {
  std::set<Rank>& ended = run.routed_directories[dataset.id].ended;
  ended.insert(rank);
  return ended.size() == dataset.nranks;
}

// Blocks. By the directories' names.
absl::StatusOr<std::map<std::string, ListedFiles>> CoreImpl::ListDirectories(
    Disk& disk, const std::map<std::string, RoutedDirectory>& directories) {
  std::map<std::string, ListedFiles> listed;
  for (const auto& [name, directory] : directories) {
    const std::string& root = directory.routed.path;
    std::string given = directory.routed.given;
    while (given.ends_with('/')) given.pop_back();
    CAIRN_ASSIGN_OR_RETURN(const auto files, ListFilesBelow(disk, root));
    for (const auto& [below, info] : files) {
      const std::string file = name + "/" + below;
      const auto normal = NormalizeFileName("", file);
      if (!normal.ok()) return Annotate(normal.status(), root);
      if (*normal != file) return InvalidArgument("{}: file name \"{}\" cannot be kept", root, below);
      listed[name][file] = {.routed = {.path = root + "/" + below, .given = given + "/" + below}, .info = info};
    }
  }
  return listed;
}

// The lowest rank that routed a directory has its files.
void CoreImpl::TakeDirectories(const RunPtr& run, const DatasetPtr& dataset, std::map<std::string, ListedFiles> below) {
  RoutedDirectories& directories = run->routed_directories[dataset->id];
  for (const auto& [name, directory] : directories.by_name) {
    const Rank owner = *directory.ranks.begin();
    for (auto& [file, listed] : below[name]) {
      dataset->parts[owner].bytes += listed.info.bytes;
      directories.files[owner][file] = std::move(listed);
    }
  }
  directories.taken = true;
  // Not from within: who waits may be what is being looked through.
  for (auto& [rank, next] : std::exchange(directories.waiting, {})) loop_.Post(std::move(next));
}

}  // namespace cairn

#include "tests/storage/place/prefix/fence_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string_view>

#include "storage/base/checksum.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/names.h"
#include "storage/place/prefix/fence_names.h"
#include "tests/support/fiber.h"

namespace cairn::fenced {
namespace {

constexpr std::string_view kServerRoot = "/pfs";
constexpr std::uint64_t kBytesMax = 1 << 20;

std::string Show(const std::set<DatasetId>& ids) {
  return fmt::format("{{{}}}", fmt::join(ids, ", "));
}

std::set<DatasetId> Without(std::set<DatasetId> ids, const std::set<DatasetId>& others) {
  for (const DatasetId id : others) ids.erase(id);
  return ids;
}

// Work files that nobody but their maker looks at, until they get another name. Those of index and flush file show
// others that a writer is at work.
bool IsOwnWork(std::string_view path) {
  if (!IsWorkName(path)) return false;
  return path.find("/index.scr.") == path.npos && path.find("/flush.scr.") == path.npos;
}

}  // namespace

std::string BasePath(std::string_view prefix, LaunchId launch) {
  return fmt::format("{}/.cairn/launch.{}.base", prefix, launch);
}

std::set<DatasetId> IdsOf(const std::map<DatasetId, CommittedDataset>& datasets) {
  std::set<DatasetId> ids;
  for (const auto& [id, dataset] : datasets) ids.insert(id);
  return ids;
}

// --- The disk of a node ---

NodeDisk::NodeDisk(World& world, std::string name)
    : world_(world), mount_("/" + std::move(name)), client_(world.server) {}

std::string NodeDisk::At(const std::string& path) const {
  return path.starts_with(mount_) ? std::string(kServerRoot) + path.substr(mount_.size()) : path;
}

// Pauses before it, if others could notice it or it could notice others: the bytes of data files and of work files are
// nobody else's.
absl::Status NodeDisk::Turn(std::string_view what, const std::string& path) {
  const bool records = path.find("/.scr") != path.npos || path.find("/.cairn") != path.npos;
  const bool noticed = what == "remove" || what == "rename" || records;
  const bool shown = what != "sync" || world_.pauses_at_syncs;
  const bool pauses = world_.every_operation || (noticed && shown && !IsOwnWork(path));
  if (pauses && !dead_ && Fiber::InOne()) Fiber::Pause();
  if (dead_) return Unavailable("the process is dead");
  if (world_.log != nullptr) world_.log->push_back(fmt::format("{} {} {}", mount_, what, path));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<File>> NodeDisk::Open(const std::string& path, OpenOptions options) {
  CAIRN_RETURN_IF_ERROR(Turn(options.create ? "create" : "open", path));
  return client_.Open(At(path), options);
}

absl::Status NodeDisk::Rename(const std::string& from, const std::string& to) {
  CAIRN_RETURN_IF_ERROR(Turn("rename", to));
  return client_.Rename(At(from), At(to));
}

absl::Status NodeDisk::RenameNew(const std::string& from, const std::string& to) {
  CAIRN_RETURN_IF_ERROR(Turn("rename", to));
  return client_.RenameNew(At(from), At(to));
}

absl::Status NodeDisk::Link(const std::string& existing, const std::string& link) {
  CAIRN_RETURN_IF_ERROR(Turn("link", link));
  return client_.Link(At(existing), At(link));
}

absl::Status NodeDisk::Clone(const std::string& from, const std::string& to) {
  CAIRN_RETURN_IF_ERROR(Turn("clone", to));
  return client_.Clone(At(from), At(to));
}

absl::Status NodeDisk::Symlink(const std::string& target, const std::string& link) {
  CAIRN_RETURN_IF_ERROR(Turn("symlink", link));
  return client_.Symlink(target, At(link));
}

absl::StatusOr<std::string> NodeDisk::ReadLink(const std::string& path) {
  CAIRN_RETURN_IF_ERROR(Turn("readlink", path));
  return client_.ReadLink(At(path));
}

absl::StatusOr<std::string> NodeDisk::RealPath(const std::string& path) {
  CAIRN_RETURN_IF_ERROR(Turn("realpath", path));
  CAIRN_ASSIGN_OR_RETURN(const std::string real, client_.RealPath(At(path)));
  return real.starts_with(kServerRoot) ? mount_ + real.substr(kServerRoot.size()) : real;
}

absl::Status NodeDisk::Remove(const std::string& path) {
  CAIRN_RETURN_IF_ERROR(Turn("remove", path));
  return client_.Remove(At(path));
}

absl::Status NodeDisk::MakeDirectory(const std::string& path, std::uint32_t mode) {
  CAIRN_RETURN_IF_ERROR(Turn("mkdir", path));
  return client_.MakeDirectory(At(path), mode);
}

absl::Status NodeDisk::SyncDirectory(const std::string& path) {
  CAIRN_RETURN_IF_ERROR(Turn("sync", path));
  return client_.SyncDirectory(At(path));
}

absl::StatusOr<std::vector<std::string>> NodeDisk::List(const std::string& path) {
  CAIRN_RETURN_IF_ERROR(Turn("list", path));
  return client_.List(At(path));
}

absl::StatusOr<FileInfo> NodeDisk::Info(const std::string& path) {
  CAIRN_RETURN_IF_ERROR(Turn("info", path));
  return client_.Info(At(path));
}

absl::Status NodeDisk::SetModeAndTimes(const std::string& path, std::uint32_t mode, timespec atime, timespec mtime) {
  CAIRN_RETURN_IF_ERROR(Turn("set", path));
  return client_.SetModeAndTimes(At(path), mode, atime, mtime);
}

absl::StatusOr<std::uint64_t> NodeDisk::FreeBytes(const std::string& path) {
  return client_.FreeBytes(At(path));
}

absl::StatusOr<std::uint64_t> NodeDisk::FileSystemType(const std::string& path) {
  return client_.FileSystemType(At(path));
}

// --- Nodes ---

Node::Node(World& world, const std::string& name) : world_(world), path_("/" + name + "/demo"), disk_(world, name) {}

bool Node::Open(bool writable) {
  const auto pause = [](std::chrono::milliseconds) {};
  auto prefix =
      writable ? Prefix::Open(disk_, path_, {.pause = pause}) : Prefix::OpenReadOnly(disk_, path_, {.pause = pause});
  world_.Answered(path_, prefix.status());
  if (!prefix.ok()) return false;
  prefix_ = *std::move(prefix);
  if (writable) world_.told.runs.push_back(prefix_->run());
  return true;
}

// The names are those that Cairn asks for without having seen them in a listing.
void Node::Warm() {
  const std::string own = path_ + "/.cairn", records = path_ + "/.scr";
  std::vector<std::string> folders = {path_, own, records}, names = {own + "/run.1"};
  for (LaunchId launch = 2; launch < 5; ++launch) {
    names.push_back(fmt::format("{}/launch.{}", own, launch));
    names.push_back(BasePath(path_, launch));
  }
  for (const DatasetId id : {kOld, kOutput, kNew}) {
    folders.push_back(fmt::format("{}/{}", records, RecordsFolderName(id)));
    for (const char* name : {"commit.cairn", "removed.cairn"}) names.push_back(folders.back() + "/" + name);
  }
  for (const std::string& folder : folders) disk_.List(folder).IgnoreError();  // it may not be there
  for (const std::string& name : names) disk_.Info(name).IgnoreError();
}

// --- What was told ---

std::set<DatasetId> Told::Counting() const {
  std::set<DatasetId> ids;
  for (const auto& [id, launch] : counted) ids.insert(id);
  return ids;
}

std::set<DatasetId> Told::Fenced() const {
  std::set<DatasetId> ids, open;
  for (const Commit& commit : tried) (fenced.contains(commit) ? ids : open).insert(commit.first);
  return Without(ids, open);
}

std::set<DatasetId> Told::Expected() const {
  std::set<DatasetId> ids = Counting();
  std::erase_if(ids, [this](DatasetId id) {
    const bool stays = kept.contains(id) && !removed.contains(id);
    return !stays && removing.contains(id);
  });
  return ids;
}

void Tally::Add(const Tally& other) {
  schedules += other.schedules;
  counts += other.counts;
  fenced += other.fenced;
  removed += other.removed;
  kept += other.kept;
  refused += other.refused;
}

// --- Images ---

Image Image::Of(FakeDisk& disk, const Told& told) {
  Image image;
  image.told_ = told;
  image.told_.runs.clear();
  image.told_.tally = {};
  std::vector<std::string> folders = {std::string(kServerRoot)};
  while (!folders.empty()) {
    const std::string folder = folders.back();
    folders.pop_back();
    const auto info = disk.Info(folder);
    image.entries_.push_back({.path = folder, .mode = info->mode & 07777, .directory = true, .content = {}});
    const auto names = disk.List(folder);
    for (auto name = names->rbegin(); name != names->rend(); ++name) {
      const std::string path = folder + "/" + *name;
      const auto inside = disk.Info(path);
      if (inside->is_directory()) {
        folders.push_back(path);
        continue;
      }
      Entry file{.path = path, .mode = inside->mode & 07777, .directory = false, .content = {}};
      file.content.resize(inside->bytes);
      const auto opened = disk.Open(path, {});
      (*opened)->ReadAt(0, std::as_writable_bytes(std::span(file.content))).IgnoreError();
      image.entries_.push_back(std::move(file));
    }
  }
  // In the order of the original's, so that .cairn gets the same inode and birth time: else it would be a copy.
  std::ranges::stable_partition(image.entries_, &Entry::directory);
  return image;
}

void Image::Restore(FakeDisk& disk) const {
  for (const Entry& entry : entries_) {
    if (entry.directory) {
      disk.MakeDirectory(entry.path, entry.mode).IgnoreError();
      continue;
    }
    const auto file = disk.Open(entry.path, {.writable = true, .create = true, .mode = entry.mode});
    (*file)->WriteAt(0, std::as_bytes(std::span(entry.content))).IgnoreError();
  }
  if (copied_) {
    disk.CopyTree(kServerPrefix, "/pfs/copy");
    disk.Rename(kServerPrefix, "/pfs/original").IgnoreError();
    disk.Rename("/pfs/copy", kServerPrefix).IgnoreError();
  }
  disk.SyncAll();
}

// --- The world ---

World::World(const Image* image) {
  // Locks that are of one node only: they hold nobody up.
  server.FailOn({.op = FakeOp::kLock, .times = UINT64_MAX, .status = absl::FailedPreconditionError("no locks")});
  if (image == nullptr) {
    server.MakeDirectory(std::string(kServerRoot), 0755).IgnoreError();
    return;
  }
  image->Restore(server);
  told = image->told();
  copied_ = image->copied();
}

// An error is no wonder once the power has failed, or the process is dead.
void World::Answered(const std::string& whose, const absl::Status& status) {
  if (status.ok() || (faults && absl::IsUnavailable(status))) return;
  Break(fmt::format("{} is told {}", whose, status.ToString()));
}

Node& World::AddNode() {
  nodes_.push_back(std::make_unique<Node>(*this, fmt::format("node{}", nodes_.size())));
  return *nodes_.back();
}

bool World::IsWhole(Node& node, DatasetId id) {
  const auto catalogues = node.prefix().Catalogues(id);
  if (!catalogues.ok()) return false;
  for (const catalogue::Catalogue& catalogue : *catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      const auto bytes = ReadWhole(node.disk(), node.prefix().FilePath(file.prefix_name()), kBytesMax);
      if (!bytes.ok() || Crc32(std::as_bytes(std::span(*bytes))) != file.crc32()) return false;
    }
  }
  return true;
}

void World::JudgeAnswers() {
  for (const DatasetId id : told.Fenced()) {
    if (told.read.contains(id)) Break(fmt::format("dataset {} was read as counting, and told to be fenced", id));
  }
  for (const auto& [id, launch] : told.fenced) {
    for (const auto& [other, under] : told.counted) {
      if (id == other && under <= launch) Break(fmt::format("dataset {} was told to count, and to be fenced", id));
    }
  }
}

void World::JudgeContents(const PrefixContents& contents, const std::string& whose) {
  const std::set<DatasetId> read = IdsOf(contents.datasets), aside = IdsOf(contents.fenced);
  for (const DatasetId id : Without(told.Expected(), read)) {
    Break(fmt::format("{} does not read dataset {}, of which somebody was told that it counts", whose, id));
  }
  for (const DatasetId id : told.Fenced()) {
    if (read.contains(id)) Break(fmt::format("{} reads dataset {}, which was told to be fenced", whose, id));
    if (!aside.contains(id)) Break(fmt::format("{} does not know dataset {} as fenced", whose, id));
  }
  for (const DatasetId id : told.removed) {
    if (read.contains(id) || aside.contains(id))
      Break(fmt::format("{} reads dataset {}, which was removed", whose, id));
  }
}

void World::JudgeWhole(Node& node, const PrefixContents& contents) {
  for (const auto* datasets : {&contents.datasets, &contents.fenced}) {
    for (const auto& [id, dataset] : *datasets) {
      if (!IsWhole(node, id)) Break(fmt::format("dataset {} is read, and is not whole", id));
    }
  }
  for (const DatasetId id : contents.removed) {
    const auto names = node.disk().List(fmt::format("{}/.scr/{}", node.path(), RecordsFolderName(id)));
    if (names.ok() && *names == std::vector<std::string>{"removed.cairn"}) continue;
    Break(fmt::format("dataset {} was removed, and nobody has come to the end of that", id));
  }
}

// What was noted as choosable stays, whatever removers under older launches do.
void World::JudgeChoices(Node& node) {
  for (const Told::Choice& choice : told.choices) {
    const auto base = ReadTree(node.disk(), BasePath(node.path(), choice.launch));
    if (!base.ok()) {
      Break(fmt::format("launch {} was acted under and has no base: {}", choice.launch, base.status().ToString()));
      continue;
    }
    for (const DatasetId id : choice.datasets) {
      if (!Counts(*base, id)) Break(fmt::format("launch {} chose dataset {}, against its base", choice.launch, id));
      if (told.by_user.contains(id)) continue;
      if (!IsWhole(node, id)) Break(fmt::format("dataset {}, which launch {} chose, is gone", id, choice.launch));
    }
  }
}

bool World::Counts(const kvtree::Tree& base, DatasetId id) {
  const kvtree::Tree* ranges = base.Find("COUNTS");
  if (ranges == nullptr) return false;
  bool within = false;
  for (const auto& [key, value] : ranges->elements()) {
    const auto first = NumberAfter(key, "");
    const auto last = ranges->GetUnsigned(key);
    within = within || (first && last.ok() && *first <= id && id <= *last);
  }
  return within;
}

void World::JudgeLaunches(Node& node) {
  std::set<LaunchId> numbers;
  for (const LaunchRecord& launch : told.launches) {
    if (!numbers.insert(launch.id).second) Break(fmt::format("launch {} was given out twice", launch.id));
    const auto found = node.prefix().FindLaunch(launch.id);
    if (!found.ok() || found->secret != launch.secret) Break(fmt::format("launch {} is another's", launch.id));
  }
  const auto newest = node.prefix().NewestLaunch();
  if (!newest.ok() || !*newest) return Break("no newest launch: " + newest.status().ToString());
  for (const auto& [id, launch] : told.fenced) {
    if ((*newest)->id == launch) Break(fmt::format("dataset {} was fenced without a newer launch", id));
  }
  if (!told.kept.empty() && (*newest)->id == 1) Break("a removal was fenced without a newer launch");
  for (LaunchId id = 1; id <= (*newest)->id; ++id) {
    if (!node.disk().Info(BasePath(node.path(), id)).ok()) Break(fmt::format("launch {} has no base", id));
  }
}

void World::JudgeIds() {
  for (const IdBlock& block : told.blocks) {
    if (block.first <= kOutput) Break(fmt::format("id {} was given out, which is a dataset's", block.first));
    for (const IdBlock& other : told.blocks) {
      const bool apart = block.first + block.count <= other.first || other.first + other.count <= block.first;
      if (&block != &other && !apart) Break(fmt::format("id {} was given out twice", block.first));
    }
  }
}

// What SCR and its tools go by.
void World::JudgeIndex(Node& node, const PrefixContents& contents) {
  const auto index = ReadTree(node.disk(), node.path() + "/.scr/index.scr");
  if (!index.ok()) return Break(index.status().ToString());
  const auto complete = [&](DatasetId id) {
    const kvtree::Tree* entry = index->FindPath({"DSET", fmt::format("{}", id)});
    return entry != nullptr && entry->Get("COMPLETE") == "1";
  };
  for (const auto& [id, dataset] : contents.datasets) {
    if (!complete(id)) Break(fmt::format("dataset {} counts and is not complete in the index", id));
  }
  for (const auto& [id, dataset] : contents.fenced) {
    if (complete(id)) Break(fmt::format("dataset {} is fenced, and SCR would restore it", id));
  }
  for (const DatasetId id : contents.removed) {
    if (complete(id)) Break(fmt::format("dataset {} was removed, and SCR would restore it", id));
  }
}

void World::Judge() {
  faults = false;
  JudgeAnswers();
  const auto look = [this](Node& node, bool writable, const std::string& whose) {
    if (!node.Open(writable)) return PrefixContents();
    const auto contents = node.prefix().Contents();
    Answered(whose, contents.status());
    if (!contents.ok()) return PrefixContents();
    JudgeContents(*contents, whose);
    return *contents;
  };
  look(AddNode(), false, "the first reader");
  Node& late = AddNode();
  const PrefixContents opened = look(late, true, "a late opener");
  if (!told.broken.empty()) return;
  const auto records = late.disk().List(late.path() + "/.scr");
  if (!records.ok()) return Break(records.status().ToString());
  for (const std::string& name : *records) {
    if (fence_names::ParseRemovalMark(name)) Break(name + " has stayed");
  }
  JudgeLaunches(late);
  JudgeWhole(late, opened);
  JudgeChoices(late);
  JudgeIndex(late, opened);
  JudgeIds();
  const PrefixContents again = look(AddNode(), false, "the last reader");
  if (IdsOf(again.datasets) != IdsOf(opened.datasets) || IdsOf(again.fenced) != IdsOf(opened.fenced)) {
    Break(fmt::format("a late opener reads {}, a reader after it {}", Show(IdsOf(opened.datasets)),
                      Show(IdsOf(again.datasets))));
  }
  if (late.prefix().identity().parent.has_value() != copied_) Break("a branch is where a copy is, and nowhere else");
  for (const RunId& run : told.runs) {
    if (run != told.runs.back()) Break("the directory was told to be two runs");
  }
}

}  // namespace cairn::fenced

// Nodes that share one prefix: Cairn's real code, on disks that remember stale listings. In a Fiber each operation that
// another could notice is a pause before it. Processes write down what they were told, and the World judges that.
#ifndef CAIRN_TESTS_STORAGE_PLACE_PREFIX_FENCE_WORLD_H_
#define CAIRN_TESTS_STORAGE_PLACE_PREFIX_FENCE_WORLD_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/ids.h"
#include "storage/base/random.h"
#include "storage/format/kvtree/tree.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/prefix.h"
#include "tests/support/fake_disk.h"
#include "tests/support/stale_disk.h"

namespace cairn::fenced {

// On the server; each node has it under a mount of its own, so that no two share what is one for each process.
inline constexpr char kServerPrefix[] = "/pfs/demo";

// What the first dataset of each kind is called.
inline constexpr DatasetId kOld = 1;     // a checkpoint, committed under launch 1 before it begins
inline constexpr DatasetId kOutput = 2;  // the application's own file, the same
inline constexpr DatasetId kNew = 3;     // a checkpoint that is committed meanwhile

std::string BasePath(std::string_view prefix, LaunchId launch);
std::set<DatasetId> IdsOf(const std::map<DatasetId, CommittedDataset>& datasets);

class World;

// The shared disk as one node sees it.
class NodeDisk final : public Disk {
 public:
  NodeDisk(World& world, std::string name);
  void Die() { dead_ = true; }

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenOptions options) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status RenameNew(const std::string& from, const std::string& to) override;
  absl::Status Link(const std::string& existing, const std::string& link) override;
  absl::Status Clone(const std::string& from, const std::string& to) override;
  absl::Status Symlink(const std::string& target, const std::string& link) override;
  absl::StatusOr<std::string> ReadLink(const std::string& path) override;
  absl::StatusOr<std::string> RealPath(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status MakeDirectory(const std::string& path, std::uint32_t mode) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::StatusOr<FileInfo> Info(const std::string& path) override;
  absl::Status SetModeAndTimes(const std::string& path, std::uint32_t mode, timespec atime, timespec mtime) override;
  absl::StatusOr<std::uint64_t> FreeBytes(const std::string& path) override;
  absl::StatusOr<std::uint64_t> FileSystemType(const std::string& path) override;

 private:
  absl::Status Turn(std::string_view what, const std::string& path);
  std::string At(const std::string& path) const;

  World& world_;
  const std::string mount_;
  StaleDisk client_;
  bool dead_ = false;
};

class Node {
 public:
  Node(World& world, const std::string& name);

  const std::string& path() const { return path_; }
  NodeDisk& disk() { return disk_; }
  Prefix& prefix() { return *prefix_; }  // REQUIRES: opened
  bool Open(bool writable);
  // Its client remembers from now on what is there, and what is not: the names that others are about to make.
  void Warm();

 private:
  World& world_;
  const std::string path_;
  NodeDisk disk_;
  std::unique_ptr<Prefix> prefix_;
};

// How often processes were told what, in one schedule or many.
struct Tally {
  std::uint64_t schedules = 0;
  std::uint64_t counts = 0, fenced = 0;  // commits
  std::uint64_t removed = 0, kept = 0;   // removals; kept: fenced
  std::uint64_t refused = 0;             // launches, since another had been made
  void Add(const Tally& other);
};

// What processes were told, and what they read.
struct Told {
  struct Choice {
    LaunchId launch = 0;
    std::set<DatasetId> datasets;
  };
  using Commit = std::pair<DatasetId, LaunchId>;
  std::vector<LaunchRecord> launches;
  std::vector<RunId> runs;
  std::vector<IdBlock> blocks;
  std::vector<Choice> choices;  // of openers: what a restart may choose
  std::set<Commit> tried, counted, fenced;
  std::set<DatasetId> removing;       // removals that have begun
  std::set<DatasetId> by_user;        // of these
  std::set<DatasetId> removed, kept;  // and how they ended
  std::set<DatasetId> read;           // as counting
  Tally tally;
  std::vector<std::string> broken;

  std::set<DatasetId> Counting() const;
  std::set<DatasetId> Fenced() const;    // whoever has tried to commit it
  std::set<DatasetId> Expected() const;  // what those have to read who begin now
};

// The files of a server that is set up once and made anew for each schedule, and what was told until then.
class Image {
 public:
  static Image Of(FakeDisk& disk, const Told& told);
  const Told& told() const { return told_; }
  bool copied() const { return copied_; }
  void set_copied() { copied_ = true; }
  void Restore(FakeDisk& disk) const;

 private:
  struct Entry {
    std::string path;
    std::uint32_t mode = 0;
    bool directory = false;
    std::string content;
  };
  std::vector<Entry> entries_;
  Told told_;
  bool copied_ = false;  // what is restored is a copy of it, by `cp -a`
};

class World {
 public:
  // `image`: what is there before.
  explicit World(const Image* image);

  FakeDisk server;
  Told told;
  bool faults = false;           // processes die, or the power fails: operations may be kUnavailable
  bool pauses_at_syncs = false;  // these are noticed only if the power fails
  bool every_operation = false;  // pauses also before those that commute with all that others do
  std::vector<std::string>* log = nullptr;

  Node& AddNode();
  void Answered(const std::string& whose, const absl::Status& status);  // breaks, if it is an error that none explains
  void Break(std::string text) { told.broken.push_back(std::move(text)); }
  // All have come to their end, whichever it was: new nodes read, open, and find all that was told.
  void Judge();

 private:
  void JudgeAnswers();
  void JudgeContents(const PrefixContents& contents, const std::string& whose);
  void JudgeWhole(Node& node, const PrefixContents& contents);
  void JudgeChoices(Node& node);
  void JudgeIds();
  void JudgeLaunches(Node& node);
  void JudgeIndex(Node& node, const PrefixContents& contents);
  static bool IsWhole(Node& node, DatasetId id);
  static bool Counts(const kvtree::Tree& base, DatasetId id);

  bool copied_ = false;
  std::mt19937_64 engine_{1};
  ScopedRandom random_{[this] { return engine_(); }};
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace cairn::fenced

#endif  // CAIRN_TESTS_STORAGE_PLACE_PREFIX_FENCE_WORLD_H_

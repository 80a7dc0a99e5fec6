// A prefix, a node's cache and the four ways from there to the prefix: flush, bypass, scavenge and adopt.
#ifndef CAIRN_TESTS_STORAGE_PLACE_PUBLISH_PUBLISHING_H_
#define CAIRN_TESTS_STORAGE_PLACE_PUBLISH_PUBLISHING_H_

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/records.h"
#include "storage/job/adopt/adoption.h"
#include "storage/job/flush/flush_work.h"
#include "storage/job/scavenge/scavenge.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/publish/bypass.h"
#include "storage/place/publish/publish.h"
#include "storage/place/publish/unfinished.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/storage/place/prefix/shown.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {

using Ids = std::vector<DatasetId>;

enum class User : std::uint8_t { kFlush, kBypass, kScavenge, kAdopt };
inline constexpr User kUsers[] = {User::kFlush, User::kBypass, User::kScavenge, User::kAdopt};

inline std::string NameOf(User user) {
  constexpr const char* kNames[] = {"Flush", "Bypass", "Scavenge", "Adopt"};
  return kNames[static_cast<int>(user)];
}

// A dataset of one file a rank.
struct Output {
  scr::Descriptor descriptor;
  std::vector<catalogue::Catalogue> catalogues;
  std::vector<std::string> bytes;  // by rank
  DatasetId id() const { return descriptor.id; }
};

// The application's files: the name out/a is every output's, out/<id> its own.
inline Output OutputOf(const RunId& run, DatasetId id, const std::vector<std::string>& names) {
  Output output{
      .descriptor = TestDescriptor(id, static_cast<std::uint32_t>(names.size())), .catalogues = {}, .bytes = {}};
  output.descriptor.own_files = output.descriptor.output = true;
  output.descriptor.checkpoint = false;
  for (Rank rank = 0; rank < names.size(); ++rank) {
    output.bytes.push_back(TestContent(100 * id + rank, 500 + id));
    catalogue::Catalogue catalogue = EmptyCatalogue(run, id, rank, static_cast<std::uint32_t>(names.size()));
    catalogue.set_files(true);
    catalogue::FileEntry& entry = *catalogue.add_file();
    entry = TestEntry(names[rank], names[rank], output.bytes.back());
    entry.set_mode(0100640);
    entry.set_mtime_s(1'700'000'000 + static_cast<std::int64_t>(id));
    output.catalogues.push_back(std::move(catalogue));
  }
  return output;
}
inline Output OutputOf(const RunId& run, DatasetId id) {
  return OutputOf(run, id, {"out/a", fmt::format("out/{}", id)});
}

inline Output CheckpointOf(const RunId& run, DatasetId id) {
  view::SampleDataset sample = ShownDataset(run, id);
  return {.descriptor = TestDescriptor(id, 2),
          .catalogues = std::move(sample.catalogues),
          .bytes = std::move(sample.files)};
}

class Publishing {
 public:
  Publishing() { Open(); }
  void Open() {
    auto opened = Prefix::Open(pfs, kShownPath);
    EXPECT_OK(opened.status());
    prefix = opened.ok() ? std::shared_ptr<Prefix>(*std::move(opened)) : nullptr;
  }
  const RunId& run() const { return prefix->run(); }

  absl::Status Publish(User user, const Output& output) {
    warnings.clear();
    absl::Status status;
    switch (user) {
      case User::kFlush:
        status = Flush(output);
        break;
      case User::kBypass:
        status = BypassCache(output);
        break;
      case User::kScavenge:
        status = Scavenge(output);
        break;
      case User::kAdopt:
        status = Adopt(output);
        break;
    }
    for (const std::string& warning : prefix->TakeWarnings()) warnings += warning + "\n";
    return status;
  }
  absl::Status Flush(const Output& output) { return Flush(output, *prefix); }
  // `by`: this process' prefix, or another's.
  absl::Status Flush(const Output& output, Prefix& by) {
    const std::string folder = fmt::format("/cache/{}", output.id());
    for (std::size_t r = 0; r < output.bytes.size(); ++r) {
      const std::string path = folder + "/" + output.catalogues[r].file(0).name();
      CAIRN_RETURN_IF_ERROR(MakeDirectories(node, ParentOf(path)));
      CAIRN_RETURN_IF_ERROR(WriteTestFile(node, path, output.bytes[r]));
    }
    FlushFile told("node:/cache");
    const FlushSource source{node, folder, output.descriptor, output.catalogues};
    const FlushTarget target{.disk = pfs, .prefix = by, .flush_file = told, .committer = committer};
    TransferProgress progress;
    const FlushOutcome copy = CopyDataset(source, target, throttle, progress);
    CAIRN_RETURN_IF_ERROR(copy.status);
    Copied();
    FlushOutcome commit = CommitCopied(source, target, copy.copied, gave_way);
    for (const std::string& warning : commit.warnings) warnings += warning + "\n";
    gave_way.merge(commit.withdrawn);
    return commit.status;
  }
  absl::Status BypassCache(const Output& output) {
    bypass = Bypass::Make(pfs, prefix);
    CAIRN_RETURN_IF_ERROR(bypass->Begin(output.descriptor));
    for (Rank rank = 0; rank < output.bytes.size(); ++rank)
      CAIRN_RETURN_IF_ERROR(StoreRank(*bypass, pfs, output, rank));
    Copied();
    const absl::Status status = bypass->Complete(output.descriptor);
    for (const std::string& warning : bypass->TakeWarnings()) warnings += warning + "\n";
    return status;
  }
  absl::Status Scavenge(const Output& output) {
    CAIRN_ASSIGN_OR_RETURN(const auto folder, CacheFolder::Open(node, "/node", "alice", "demo", run(), kShownPath));
    const absl::Status begun = folder->Begin(output.descriptor);
    if (begun.ok()) {
      for (Rank rank = 0; rank < output.bytes.size(); ++rank) {
        CAIRN_RETURN_IF_ERROR(StoreRank(*folder, node, output, rank));
      }
      CAIRN_RETURN_IF_ERROR(folder->Complete(output.descriptor));
    }
    pfs.SetHook([this](FakeOp op, const std::string& path) {
      if (op == FakeOp::kSync && path.find("/out/2.cairn-work") != std::string::npos) Copied();
    });
    const ScavengeRequest request{
        .dataset = output.id(), .all = false, .note = [this](const std::string& text) { warnings += text + "\n"; }};
    const auto saved = ScavengeRun(node, pfs, {folder->path(), "demo", run(), kShownPath}, *prefix, request);
    pfs.SetHook(nullptr);
    if (!saved.ok()) return saved.status();
    const SavedDataset& one = saved->at(0);
    if (one.state == SavedDataset::State::kTooLate) return Aborted("{}", one.why);
    std::string why;
    for (const MissingRank& missing : one.missing) why += missing.why + "\n";
    return one.missing.empty() ? absl::OkStatus() : FailedPrecondition("{}", why);
  }
  // As AdoptScr and AdoptBp do it, or, for what has names of its own, AdoptCheckpoint.
  absl::Status Adopt(const Output& output) {
    const auto note = [this](const std::string& text) { warnings += text + "\n"; };
    CAIRN_ASSIGN_OR_RETURN(const Claims claims, CleanUp(pfs, *prefix));
    const std::string claim = ClaimPath(*prefix, "a test's");
    if (claims.contains(claim)) return absl::OkStatus();
    NewDataset dataset{.descriptor = output.descriptor, .catalogues = output.catalogues};
    return AdoptDataset(
        pfs, *prefix, claim, {}, &dataset, [&] { return CopyAdopted(output, &dataset); }, note);
  }

  // What the power's failure interrupted comes to its end: gone on with by a flush, a scavenge and an adopt (which has
  // a new number then), taken away after a bypass.
  void Finish(User user, const Output& output) {
    if (user == User::kBypass) {
      ASSERT_OK_AND_ASSIGN(const PrefixContents contents, prefix->Contents());
      if (WasCommitted(contents, output.id())) return;
      ASSERT_OK(RemoveUnfinished(pfs, *prefix, output.id()));
    } else if (user == User::kAdopt) {
      ASSERT_OK(Publish(user, OutputOf(run(), output.id() + 1)));
    } else {
      ASSERT_OK(Publish(user, output));
    }
  }

  bool IsThere(const std::string& name) { return pfs.Info(prefix->FilePath(name)).ok(); }
  Ids Committed() {
    const auto committed = prefix->Committed();
    EXPECT_OK(committed);
    Ids ids;
    if (!committed.ok()) return ids;
    for (const auto& [id, dataset] : *committed) ids.push_back(id);
    return ids;
  }
  // What index.scr says as it lies there.
  Ids CompleteInIndex() {
    Ids ids;
    const auto tree = ReadTree(pfs, std::string(kShownPath) + "/.scr/index.scr");
    if (!tree.ok()) return ids;
    const auto index = scr::GetIndex(*tree);
    EXPECT_OK(index);
    if (!index.ok()) return ids;
    for (const auto& [id, entry] : index->datasets) {
      if (entry.complete) ids.push_back(id);
    }
    return ids;
  }
  // Each of them has its own bytes under its names.
  void ExpectWhole(const Ids& ids) {
    for (const DatasetId id : ids) {
      const Output output = OutputOf(run(), id);
      for (std::size_t r = 0; r < output.bytes.size(); ++r) {
        EXPECT_OK(
            VerifyFile(pfs, prefix->FilePath(output.catalogues[r].file(0).prefix_name()), output.catalogues[r].file(0)))
            << "dataset " << id;
      }
    }
  }

  // Who may not write restores one of those that it lists, by what it is told of them. Answers whether it had to read a
  // file where it waits.
  bool ExpectAReaderFindsOneWhole() {
    const auto reader = Prefix::OpenReadOnly(pfs, kShownPath);
    EXPECT_OK(reader);
    if (!reader.ok()) return false;
    const auto committed = (*reader)->Committed();
    EXPECT_OK(committed);
    bool waited = false;
    for (const auto& [id, dataset] : committed.ok() ? *committed : std::map<DatasetId, CommittedDataset>()) {
      const auto catalogues = (*reader)->Catalogues(id);
      EXPECT_OK(catalogues);
      if (!catalogues.ok()) continue;
      const auto waiting = (*reader)->Waiting(*catalogues);
      EXPECT_OK(waiting);
      for (const catalogue::Catalogue& catalogue : *catalogues) {
        const catalogue::FileEntry& file = catalogue.file(0);
        const auto at = waiting->find(file.prefix_name());
        waited |= at != waiting->end();
        EXPECT_OK(VerifyFile(pfs, at != waiting->end() ? at->second : (*reader)->FilePath(file.prefix_name()), file))
            << "dataset " << id;
      }
    }
    EXPECT_TRUE(committed.ok() && !committed->empty()) << "neither is there";
    return waited;
  }

  FakeDisk node, pfs;
  std::shared_ptr<Prefix> prefix;
  std::unique_ptr<Bypass> bypass;
  std::string warnings;
  LaunchId committer = 0;             // of flushes
  Withdrawn gave_way;                 // to flushes so far
  std::function<void()> when_copied;  // once, when all is copied and nothing published
  Throttle throttle{0};

 private:
  void Copied() {
    if (auto then = std::exchange(when_copied, nullptr)) then();
  }
  static absl::Status WriteAsNoted(Disk& disk, const std::string& path, const Output& output, Rank rank) {
    CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, ParentOf(path)));
    CAIRN_RETURN_IF_ERROR(WriteTestFile(disk, path, output.bytes[rank]));
    const timespec time{.tv_sec = output.catalogues[rank].file(0).mtime_s(), .tv_nsec = 0};
    return disk.SetModeAndTimes(path, 0640, time, time);
  }
  static absl::Status StoreRank(DatasetStore& store, Disk& disk, const Output& output, Rank rank) {
    const catalogue::Catalogue& catalogue = output.catalogues[rank];
    if (!catalogue.files()) {
      const std::string work = store.WorkPath(output.id(), rank);
      CAIRN_RETURN_IF_ERROR(WriteTestFile(disk, work, output.bytes[rank]));
      return store.CommitRank(catalogue, work);
    }
    CAIRN_ASSIGN_OR_RETURN(const std::string path, store.RouteFile(output.id(), catalogue.file(0).name()));
    CAIRN_RETURN_IF_ERROR(WriteAsNoted(disk, path, output, rank));
    return store.CommitRankFiles(catalogue);
  }
  absl::Status CopyAdopted(const Output& output, NewDataset* dataset) {
    if (output.descriptor.own_files) CAIRN_RETURN_IF_ERROR(MakeStage(pfs, *prefix, *dataset));
    for (Rank rank = 0; rank < output.bytes.size(); ++rank) {
      const std::string to = prefix->FilePath(output.catalogues[rank].file(0).prefix_name());
      const std::string work = output.descriptor.own_files ? StagedPath(*prefix, *dataset, rank, 0) : to;
      CAIRN_RETURN_IF_ERROR(WriteAsNoted(pfs, work, output, rank));
      CAIRN_RETURN_IF_ERROR(pfs.SyncDirectory(ParentOf(work)));
      if (output.descriptor.own_files) dataset->files.push_back({.work = work, .to = to, .in_place = {}});
    }
    Copied();
    return absl::OkStatus();
  }
};

}  // namespace cairn

#endif  // CAIRN_TESTS_STORAGE_PLACE_PUBLISH_PUBLISHING_H_

#include "tests/storage/place/prefix/fence_actors.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <cstddef>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/scr/records.h"
#include "storage/place/names.h"
#include "tests/storage/place/cache/datasets.h"

namespace cairn::fenced {
namespace {

constexpr std::uint32_t kRanks = 2;
constexpr std::size_t kFileBytes = 100;

// --- What is committed ---

std::string ContentOf(DatasetId id, Rank rank) {
  return TestContent(id * kRanks + rank, kFileBytes);
}

scr::Descriptor DescriptorOf(DatasetId id) {
  scr::Descriptor descriptor = TestDescriptor(id, id == kOutput ? 1 : kRanks);
  descriptor.own_files = descriptor.output = id == kOutput;
  descriptor.checkpoint = id != kOutput;
  return descriptor;
}

std::vector<catalogue::Catalogue> CataloguesOf(const RunId& run, DatasetId id) {
  if (id == kOutput) {
    catalogue::Catalogue catalogue = EmptyCatalogue(run, id, 0, 1);
    catalogue.set_files(true);
    *catalogue.add_file() = TestEntry(kOutputName, kOutputName, ContentOf(id, 0));
    return {catalogue};
  }
  std::vector<catalogue::Catalogue> catalogues;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    catalogues.push_back(TestCatalogue(run, id, rank, kRanks, ContentOf(id, rank)));
  }
  return catalogues;
}

// As a flush does it.
absl::Status Flush(Node& node, DatasetId id, LaunchId under) {
  const scr::Descriptor descriptor = DescriptorOf(id);
  const auto catalogues = CataloguesOf(node.prefix().run(), id);
  const absl::Status begun = node.prefix().BeginFlush(descriptor);
  if (!begun.ok()) return begun;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    const std::string path = node.prefix().FilePath(catalogue.file(0).prefix_name());
    CAIRN_RETURN_IF_ERROR(MakeDirectories(node.disk(), ParentOf(path)));
    if (!node.disk().Info(path).ok()) {
      CAIRN_RETURN_IF_ERROR(ReplaceFile(node.disk(), path, ContentOf(id, catalogue.rank())));
    }
  }
  return node.prefix().Commit(descriptor, catalogues, under);
}

// --- What is read ---

// `expected`: from before the look.
void Note(World& world, const std::string& whose, const PrefixContents& contents, const std::set<DatasetId>& expected) {
  const std::set<DatasetId> read = IdsOf(contents.datasets);
  for (const DatasetId id : expected) {
    if (read.contains(id) || world.told.removing.contains(id)) continue;
    world.Break(fmt::format("{} does not read dataset {}, of which somebody was told that it counts", whose, id));
  }
  world.told.read.insert(read.begin(), read.end());
}

void Choose(World& world, Node& node, const LaunchRecord& launch) {
  world.told.launches.push_back(launch);
  // Nobody acts under it before.
  if (!world.server.crashed() && !world.server.Info(BasePath(kServerPrefix, launch.id)).ok()) {
    world.Break(fmt::format("launch {} was given out without a base", launch.id));
  }
  const std::set<DatasetId> expected = world.told.Expected();
  const auto contents = node.prefix().Contents();
  world.Answered("an opener", contents.status());
  if (!contents.ok()) return;
  Note(world, fmt::format("the opener of launch {}", launch.id), *contents, expected);
  world.told.choices.push_back({.launch = launch.id, .datasets = IdsOf(contents->datasets)});
}

absl::StatusOr<LaunchRecord> MakeLaunch(Node& node, LaunchId after) {
  return node.prefix().MakeLaunch(
      {.key = "job", .nranks = kRanks, .run = {}, .maker = {.cache = "", .host = "host", .pid = 1}}, after);
}

}  // namespace

// --- Deeds ---

Deed Opens() {
  return {"opener", false, [](World& world, Node& node) {
            if (!node.Open(true)) return;
            for (int i = 0; i < 10; ++i) {
              const auto newest = node.prefix().NewestLaunch();
              world.Answered("an opener", newest.status());
              if (!newest.ok()) return;
              const auto launch = MakeLaunch(node, *newest ? (*newest)->id : 0);
              world.told.tally.Add({.refused = absl::IsAborted(launch.status())});
              if (absl::IsAborted(launch.status())) continue;
              world.Answered("an opener", launch.status());
              if (!launch.ok()) return;
              return Choose(world, node, *launch);
            }
            world.Break("an opener comes to no end");
          }};
}

Deed OpensAfter(LaunchId after) {
  return {fmt::format("opener after {}", after), true, [after](World& world, Node& node) {
            const auto launch = MakeLaunch(node, after);
            world.told.tally.Add({.refused = absl::IsAborted(launch.status())});
            if (absl::IsAborted(launch.status())) return;
            world.Answered("an opener", launch.status());
            if (!launch.ok()) return;
            Choose(world, node, *launch);
          }};
}

Deed OpensRun(bool cold) {
  return {cold ? "opener at a new node" : "opener of the run", false, [](World&, Node& node) { node.Open(true); },
          cold};
}

Deed ReservesIds() {
  return {"reserver", true, [](World& world, Node& node) {
            const auto block = node.prefix().ReserveIds(0);
            world.Answered("a reserver", block.status());
            if (block.ok()) world.told.blocks.push_back(*block);
          }};
}

Deed Commits(DatasetId id, LaunchId under) {
  return {fmt::format("committer of {} under {}", id, under), true, [=](World& world, Node& node) {
            world.told.tried.emplace(id, under);
            const absl::Status committed = Flush(node, id, under);
            const bool counts = committed.ok() || absl::IsAlreadyExists(committed), fenced = IsFenced(committed);
            if (counts) world.told.counted.emplace(id, under);
            if (fenced) world.told.fenced.emplace(id, under);
            if (!counts && !fenced) world.Answered("a committer", committed);
            world.told.tally.Add({.counts = counts, .fenced = fenced});
          }};
}

Deed Removes(DatasetId id, LaunchId under) {
  return {fmt::format("remover of {} under {}", id, under), true, [=](World& world, Node& node) {
            world.told.removing.insert(id);
            if (under == 0) world.told.by_user.insert(id);
            const auto catalogues = CataloguesOf(node.prefix().run(), id);
            const absl::Status removed = node.prefix().Remove(id, catalogues, under);
            if (removed.ok()) world.told.removed.insert(id);
            if (IsFenced(removed)) world.told.kept.insert(id);
            if (!IsFenced(removed)) world.Answered("a remover", removed);
            world.told.tally.Add({.removed = removed.ok(), .kept = IsFenced(removed)});
          }};
}

Deed Withdraws(DatasetId by, LaunchId under) {
  return {fmt::format("withdrawer under {}", under), true, [=](World& world, Node& node) {
            world.told.removing.insert(kOutput);
            const auto gave_way = node.prefix().Withdraw(by, {kOutputName}, under);
            const bool kept = IsFenced(gave_way.status());
            if (kept) world.told.kept.insert(kOutput);
            if (!kept) world.Answered("a withdrawer", gave_way.status());
            world.told.tally.Add({.removed = gave_way.ok(), .kept = kept});
            if (!gave_way.ok()) return;
            world.told.removed.insert(kOutput);
            if (!gave_way->contains(kOutput)) world.Break("nobody gave way to a file that replaces one of theirs");
            const absl::Status replaced = ReplaceFile(node.disk(), node.prefix().FilePath(kOutputName), "newer");
            world.Answered("a withdrawer", replaced);
          }};
}

Deed Reads() {
  return {"reader", true, [](World& world, Node& node) {
            const std::set<DatasetId> expected = world.told.Expected();
            const auto contents = node.prefix().Contents();
            world.Answered("a reader", contents.status());
            if (contents.ok()) Note(world, "a reader", *contents, expected);
          }};
}

Deed ReadsOnly() {
  return {"reader that may not write", false,
          [](World& world, Node& node) {
            const std::set<DatasetId> expected = world.told.Expected();
            if (!node.Open(false)) return;
            const auto contents = node.prefix().Contents();
            world.Answered("a reader that may not write", contents.status());
            if (contents.ok()) Note(world, "a reader that may not write", *contents, expected);
          },
          /*cold=*/true};
}

// --- What is there before ---

Image FirstLaunch() {
  World world(nullptr);
  Node& node = world.AddNode();
  node.Open(true);
  if (!MakeLaunch(node, 0).ok()) world.Break("no launch");
  for (const DatasetId id : {kOld, kOutput}) Commits(id, 1).act(world, node);
  return Image::Of(world.server, world.told);
}

Image BegunDataset() {
  const Image before = FirstLaunch();
  World world(&before);
  const absl::Status made =
      world.server.MakeDirectory(fmt::format("{}/.scr/{}", kServerPrefix, RecordsFolderName(kNew)), 0777);
  if (!made.ok()) world.Break(made.ToString());
  return Image::Of(world.server, world.told);
}

Image ThirdLaunch() {
  const Image before = FirstLaunch();
  World world(&before);
  Node& node = world.AddNode();
  node.Open(true);
  if (!MakeLaunch(node, 1).ok() || !MakeLaunch(node, 2).ok()) world.Break("no launch");
  return Image::Of(world.server, world.told);
}

Image FencedDataset() {
  const Image before = ThirdLaunch();
  World world(&before);
  Node& late = world.AddNode();
  late.Open(true);
  Commits(kNew, 1).act(world, late);
  if (!world.told.Fenced().contains(kNew)) world.Break("it is not fenced");
  return Image::Of(world.server, world.told);
}

Image CopiedRun() {
  Image image = FirstLaunch();
  image.set_copied();
  return image;
}

}  // namespace cairn::fenced

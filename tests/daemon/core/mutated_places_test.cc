// A whole prefix and a whole cache of one run, well-formed and wrong: numbers, names, links, missing parts, records of
// another run. Whatever they say, the daemon lives, every call is answered, no restore gives other bytes than those of
// one of the run's checkpoints, and the other run of the same user notices nothing. Repeat one with CAIRN_TEST_SEED.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "storage/base/path.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/kvtree/tree.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

constexpr std::size_t kBytes = 20'000;

Memory MemoryAt(std::uint64_t step) {
  return {ValueOf(1, "step", step), PlainOf(2, RandomBytes(step, kBytes))};
}

// One that is in nobody's place.
class Mutator {
 public:
  Mutator(Disk& disk, CoreHarness& files, std::string root, std::uint64_t seed)
      : disk_(disk), files_(files), root_(std::move(root)), random_(seed) {}

  // What was done, for a failing test.
  std::string Mutate() {
    std::vector<std::string> files;
    Walk(root_, &files);
    const std::string path = files[Draw(files.size())], other = files[Draw(files.size())];
    switch (Draw(8)) {
      case 0:
        EXPECT_TRUE(disk_.Remove(path).ok());
        return "removed " + path;
      case 1:
        files_.Write(disk_, path, files_.Read(disk_, other));
        return path + " holds what " + other + " does";
      case 2:
        EXPECT_TRUE(disk_.Remove(path).ok() && disk_.Symlink(other, path).ok());
        return path + " is a link to " + other;
      case 3:
        EXPECT_TRUE(disk_.Remove(path).ok() && disk_.MakeDirectory(path, 0700).ok());
        return path + " is a directory";
      default:
        return Rewrite(path);
    }
  }

 private:
  std::size_t Draw(std::size_t below) { return random_() % below; }

  void Walk(const std::string& folder, std::vector<std::string>* files) {
    auto names = disk_.List(folder);
    ASSERT_TRUE(names.ok()) << names.status();
    std::sort(names->begin(), names->end());
    for (const std::string& name : *names) {
      const std::string path = folder + "/" + name;
      const auto info = disk_.Info(path);
      if (info.ok() && info->is_directory()) Walk(path, files);
      if (info.ok() && info->is_regular()) files->push_back(path);
    }
  }

  std::string Rewrite(const std::string& path) {
    const std::string bytes = files_.Read(disk_, path);
    std::string what;
    if (auto tree = kvtree::Decode(path, bytes); tree.ok()) {
      what = ChangeTree(*tree);
      files_.Write(disk_, path, kvtree::Encode(*tree));
    } else if (auto catalogue = DecodeCatalogue(path, bytes); catalogue.ok()) {
      what = ChangeCatalogue(*catalogue);
      files_.Write(disk_, path, EncodeCatalogue(*catalogue));
    } else {
      what = "cut";
      files_.Write(disk_, path, bytes.substr(0, Draw(bytes.size() + 1)));
    }
    return path + ": " + what;
  }

  std::string AnyText() {
    static const std::array<std::string, 16> kTexts = {
        "0",          "1",          "2",          "3",
        "64",         "1048576",    "1048577",    "2147483647",
        "2147483648", "4294967295", "4294967296", "18446744073709551615",
        "-1",         "",           "../../x",    std::string(5000, 'x')};
    return kTexts[Draw(kTexts.size())];
  }

  // A value somewhere in it is another, or a key is gone, or has another name.
  std::string ChangeTree(kvtree::Tree& tree) {
    if (tree.empty()) {
      tree.Set("LAUNCH", AnyText());
      return "has a key";
    }
    const auto keys = tree.SortedKeys(kvtree::SortBy::kText);
    const std::string key(keys[Draw(keys.size())]);
    const kvtree::Tree child = *tree.Find(key);
    if (!child.empty() && Draw(8) != 0) return key + "/" + ChangeTree(tree.At(key));
    tree.Erase(key);
    if (Draw(6) == 0) return key + " is gone";
    const std::string next = AnyText();
    tree.At(next) = child;
    return key + " is " + next.substr(0, 30);
  }

  std::uint64_t AnyNumber() {
    static constexpr std::array<std::uint64_t, 9> kNumbers = {
        0, 1, 2, 1 << 20, (1 << 20) + 1, INT32_MAX, UINT32_MAX, std::uint64_t{1} << 40, UINT64_MAX};
    return kNumbers[Draw(kNumbers.size())];
  }

  std::string ChangeCatalogue(catalogue::Catalogue& catalogue) {
    const std::uint64_t number = AnyNumber();
    const std::string is = " is " + std::to_string(number);
    switch (Draw(8)) {
      case 0:
        catalogue.set_nranks(static_cast<std::uint32_t>(number));
        return "nranks" + is;
      case 1:
        catalogue.set_dataset(number);
        return "dataset" + is;
      case 2:
        catalogue.set_launch(number);
        return "launch" + is;
      case 3:
        catalogue.set_step(number);
        return "step" + is;
      case 4:
        catalogue.set_run(std::string(32, 'a'));
        return "of another run";
      case 5:
        if (catalogue.variables_size() > 0) catalogue.mutable_variables(0)->set_count(number);
        return "count" + is;
      case 6:
        if (catalogue.file_size() > 0) catalogue.mutable_file(0)->set_name(AnyText());
        return "another file";
      default:
        if (catalogue.file_size() > 0) catalogue.mutable_file(0)->set_bytes(number);
        return "bytes" + is;
    }
  }

  Disk& disk_;
  CoreHarness& files_;
  const std::string root_;
  std::mt19937_64 random_;
};

class MutatedPlacesTest : public ::testing::Test {
 protected:
  void Configure(CoreHarness& harness) { harness.config.lease.term_ms = 50; }
  static DatasetId Make(CoreHarness& harness, FakeClient& client, std::uint64_t step, bool flushed) {
    const local::Reply done = client.Checkpoint(step, MemoryAt(step));
    EXPECT_SAYS(done, local::OK, "");
    const DatasetId id = done.committed().dataset();
    EXPECT_SAYS(client.Wait(id, local::LOCAL), local::OK, "");
    if (flushed) {
      EXPECT_EQ(harness.Flush(id).code(), local::OK);
      EXPECT_SAYS(client.Wait(id, local::PREFIX), local::OK, "");
    }
    return id;
  }
  // Nothing but what was put there under one of the steps. The answer may be any refusal.
  static void ExpectOneOfItsOwn(FakeClient& client) {
    const local::Reply latest = client.Latest(5000);
    if (CodeOfReply(latest) != local::OK) return;
    Memory back = Blank(MemoryAt(0));
    const FakeClient::Restored restored = client.Restore(latest.latest().dataset(), back);
    if (restored.code != local::OK) return;
    const std::uint64_t step = NumberIn(back[0]);
    EXPECT_TRUE(step >= 1 && step <= 3) << step;
    EXPECT_EQ(back[1].bytes, RandomBytes(step, kBytes)) << "of step " << step;
  }
  void Round(std::uint64_t seed);
};

void MutatedPlacesTest::Round(std::uint64_t seed) {
  FakeDisk cache_disk, prefix_disk;
  CoreHarness harness(&cache_disk, &prefix_disk);
  Configure(harness);
  ASSERT_TRUE(harness.Start().ok());
  const std::string neighbour = harness.root() + "/neighbour";
  std::string cache_folder;
  {
    FakeClient other(harness), client(harness);
    ASSERT_SAYS(other.Open({.key = "other.1", .prefix = neighbour}), local::OK, "");
    Make(harness, other, 77, /*flushed=*/false);
    EXPECT_SAYS(other.Close(), local::OK, "");
    ASSERT_SAYS(client.Open({.key = "job.1"}), local::OK, "");
    Make(harness, client, 1, /*flushed=*/true);
    Make(harness, client, 2, /*flushed=*/true);
    Make(harness, client, 3, /*flushed=*/false);
    cache_folder = harness.CacheFolderPath();
    EXPECT_SAYS(client.Close(), local::OK, "");
  }
  harness.Stop();

  std::mt19937_64 random(seed);
  std::string done;
  for (std::uint64_t i = 0; i <= random() % 3; ++i) {
    const bool cached = random() % 2 == 0;
    Mutator mutator(cached ? cache_disk : prefix_disk, harness, cached ? cache_folder : harness.prefix(), random());
    done += mutator.Mutate() + "\n";
  }
  SCOPED_TRACE(done);
  const absl::Status started = harness.Start();
  ASSERT_TRUE(started.ok()) << started;
  FakeClient client(harness), other(harness);
  ASSERT_SAYS(other.Open({.key = "other.2", .takeover = true, .prefix = neighbour}), local::OK, "");
  if (CodeOfReply(client.Open({.key = "job.2", .takeover = true})) == local::OK) ExpectOneOfItsOwn(client);
  const local::Reply latest = other.Latest();
  ASSERT_SAYS(latest, local::OK, "");
  Memory back = Blank(MemoryAt(0));
  EXPECT_EQ(other.Restore(latest.latest().dataset(), back).code, local::OK);
  EXPECT_EQ(NumberIn(back[0]), 77u);
  EXPECT_FALSE(harness.List().empty());
}

TEST_F(MutatedPlacesTest, NothingThatARunsRecordsSayHarmsAnother) {
  const char* given = std::getenv("CAIRN_TEST_SEED");
  std::random_device device;
  const int rounds = given != nullptr ? 1 : std::getenv("CAIRN_SOAK") != nullptr ? 5000 : 60;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : device();
    SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
    Round(seed);
  }
}

}  // namespace
}  // namespace cairn

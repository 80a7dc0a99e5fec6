// One run whose caches of other nodes are played, in memory: for tests of daemon/core/other_caches.h.
#ifndef CAIRN_TESTS_DAEMON_CORE_OTHER_CACHES_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_CORE_OTHER_CACHES_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/flush_slots.h"
#include "daemon/core/holdings.h"
#include "daemon/core/image_store.h"
#include "daemon/core/other_caches.h"
#include "daemon/core/run.h"
#include "proto/frame.h"
#include "storage/base/launch_mark.h"
#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/names.h"
#include "tests/daemon/core/by_hand.h"
#include "tests/daemon/core/fake_access.h"
#include "tests/support/status_matchers.h"

namespace cairn {

inline constexpr char kPath[] = "/prefix";
inline const std::string kNode(32, 'a'), kOtherNode(32, 'b'), kThirdNode(32, 'c');
inline constexpr std::uint64_t kFileBytes = 3'000'000;

using CoreRun = Run;  // a test has a Run of its own

inline std::string BytesOf(DatasetId id) {
  std::string bytes(kFileBytes, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 131 + i / 977 + id);
  return bytes;
}

// Another daemon of the run: what it says that it has, and the files that it gives.
struct Elsewhere {
  Elsewhere(SimNetwork& network, ByHand& by_hand, const RunId& run, const std::string& node, int number)
      : access(network, "10.0.0." + std::to_string(number) + ":17600"),
        context{.env = EnvironmentOf(by_hand, number),
                .config = {},
                .cache_id = node,
                .incarnation = 8,
                .warnings = by_hand.context.warnings,
                .transfers = by_hand.context.transfers},
        run_id(run),
        gate(context, run_id, name, kPath, ledger, PrefixGate::Reports{[] {}, [] {}, [] {}}),
        nodes(context,
              Nodes::Given{run_id, name, ledger, gate,
                           [this](const peer::Question&, const Questions::Then& then) {
                             ++asked;
                             peer::Answer answer;
                             *answer.mutable_holdings() = holdings;
                             if (asked <= settles) answer.mutable_holdings()->set_settling(1);
                             then(std::move(answer));
                           },
                           "/cache", [](Relay*) {}},
              [] {}) {
    access.run = run_id;
    EXPECT_OK(access.Open(by_hand.loop, node, 8));
  }
  Environment EnvironmentOf(ByHand& by_hand, int number) {
    Environment environment = by_hand.context.env;
    environment.peers = &access;
    environment.process.host = "n" + std::to_string(number);
    return environment;
  }

  FakeAccess access;
  const std::shared_ptr<FakeDisk> files = std::make_shared<FakeDisk>();
  peer::Holdings holdings;
  int asked = 0;
  int settles = 0;  // so often it says that something is just becoming whole
  Context context;
  const RunId run_id;
  const std::string name = "prefix";
  Ledger ledger{[](const DatasetPtr&, const std::string&) {}};
  PrefixGate gate;
  Nodes nodes;
};

class NoReceiver final : public Receiver {
 public:
  void Attach(std::shared_ptr<Connection>) override { ADD_FAILURE() << "a rank on another node"; }
  void Receive(const std::shared_ptr<Connection>&, std::unique_ptr<local::Request>) override {}
  void Detach(const std::shared_ptr<Connection>&) override {}
};

class OtherCachesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Context& context = by_hand_.context;
    context.config.flush.every = 0;
    context.cache_id = kNode;
    context.incarnation = 7;
    auto prefix = Prefix::Open(by_hand_.prefix_disk, kPath);
    ASSERT_OK(prefix);
    prefix_ = *std::move(prefix);
    const auto launch =
        prefix_->MakeLaunch({.key = "job.1", .nranks = 1, .run = {}, .maker = {.cache = kOtherNode, .host = "n2"}}, 0);
    ASSERT_OK(launch);
    launch_ = launch->id;
    mark_ = LaunchMark(launch->secret);
    access_.run = prefix_->run();
    ASSERT_OK(access_.Open(by_hand_.loop, kNode, 7));
    room_.SetBytesMax(64 << 20);
    MakeRun();
    other_ = Start(kOtherNode, 2);
  }
  void MakeRun() {
    auto folder = CacheFolder::Open(by_hand_.cache_disk, "/cache", "me", "prefix", prefix_->run(), kPath);
    ASSERT_OK(folder);
    ASSERT_OK((*folder)->Load());
    run_ = std::make_unique<CoreRun>(
        CoreRun::Shared{.context = by_hand_.context,
                        .room = room_,
                        .images = images_,
                        .slots = slots_,
                        .receiver = nobody_,
                        .others_turn = [](const CoreRun&) {},
                        .on_newer_launch = [](CoreRun&, const LaunchRecord&) {},
                        .on_confirmed = [](CoreRun&, const std::vector<ConfirmedLaunch>&) {},
                        .answer_node = [](const CoreRun&, const peer::Question&,
                                          const Questions::Then& then) { then(Unavailable("nobody asks")); },
                        .on_change = [] {}},
        prefix_->run(), kPath, *std::move(folder));
    run_->gate.Reached(prefix_, kPath, /*read_only=*/false);
    run_->nodes.Update();
    Pass(std::chrono::seconds(1));
  }
  void TearDown() override {
    if (!run_) return;
    by_hand_.context.phase = Phase::kStopping;
    for (const auto& other : {other_.get(), third_.get()}) {
      if (other != nullptr) other->nodes.Stop();
    }
    run_->Stop();
  }

  void Pass(std::chrono::milliseconds time) {
    for (; time.count() > 0; time -= std::chrono::milliseconds(100)) {
      by_hand_.RunAll();
      by_hand_.Turn(std::chrono::milliseconds(100));
    }
    by_hand_.RunAll();
  }
  std::unique_ptr<Elsewhere> Start(const std::string& node, int number) {
    auto other = std::make_unique<Elsewhere>(network_, by_hand_, prefix_->run(), node, number);
    other->nodes.Update();
    access_.bulk().disks[node] = other->files;
    for (int i = 0; i < 100 && !other->nodes.has_others(); ++i) Pass(std::chrono::milliseconds(100));
    EXPECT_TRUE(other->nodes.has_others());
    return other;
  }

  // One rank's file, as the application wrote it.
  peer::Holding* Put(Elsewhere& there, DatasetId id) {
    const std::string folder = "/" + RecordsFolderName(id), file = folder + "/state.bin";
    EXPECT_OK(MakeDirectories(*there.files, folder));
    EXPECT_OK(ReplaceFile(*there.files, file, BytesOf(id)));
    catalogue::Catalogue catalogue;
    catalogue.set_run(prefix_->run().Hex());
    catalogue.set_launch(launch_);
    catalogue.set_dataset(id);
    catalogue.set_step(10 * id);
    catalogue.set_nranks(1);
    catalogue.set_files(true);
    catalogue::FileEntry* entry = catalogue.add_file();
    const auto info = there.files->Info(file);
    EXPECT_OK(info);
    EXPECT_OK(ChecksumFile(*there.files, file, *info, /*sync=*/false, entry));
    entry->set_name("state.bin");
    entry->set_prefix_name("out/state." + std::to_string(id));
    EXPECT_OK(ReplaceFile(*there.files, folder + "/" + CatalogueName(0), EncodeCatalogue(catalogue)));
    peer::Holding* holding = there.holdings.add_datasets();
    holding->set_dataset(id);
    holding->set_launch(launch_);
    holding->set_mark(mark_);
    holding->set_step(10 * id);
    holding->set_attempt(1);
    holding->set_nranks(1);
    holding->set_files(true);
    holding->set_checkpoint(true);
    holding->set_created_us(1'700'000'000'000'000 + static_cast<std::int64_t>(id));
    holding->set_ordinal(id);
    holding->set_standing(peer::Holding::CURRENT);
    holding->set_bytes(kFileBytes);
    return holding;
  }
  std::string FileOf(DatasetId id) { return "/" + RecordsFolderName(id) + "/state.bin"; }
  // Whole in this cache, byte for byte, and over a restart.
  void ExpectHere(DatasetId id) {
    const DatasetPtr dataset = run_->ledger.Get(id);
    ASSERT_NE(dataset, nullptr);
    EXPECT_TRUE(dataset->in_cache());
    EXPECT_EQ(dataset->step, 10 * id);
    EXPECT_EQ(dataset->ordinal, id);
    EXPECT_EQ(dataset->readers, 0u);
    const auto bytes = ReadWhole(by_hand_.cache_disk, run_->folder->DatasetPath(id) + "/state.bin", kFileBytes);
    ASSERT_OK(bytes);
    EXPECT_TRUE(*bytes == BytesOf(id));
    by_hand_.cache_disk.Restart(1);
    auto folder = CacheFolder::Open(by_hand_.cache_disk, "/cache", "me", "prefix", prefix_->run(), kPath);
    ASSERT_OK(folder);
    const auto loaded = (*folder)->Load();
    ASSERT_OK(loaded);
    EXPECT_TRUE(loaded->whole.contains(id));
  }
  void ExpectNotHere(DatasetId id) {
    EXPECT_EQ(run_->ledger.Get(id), nullptr);
    EXPECT_EQ(run_->ledger.FindGone(id), nullptr);
    EXPECT_FALSE(by_hand_.cache_disk.Info(run_->folder->DatasetPath(id)).ok());
    EXPECT_EQ(run_->cache.BytesUsed(), 0u);
  }
  using End = std::shared_ptr<std::optional<OtherCaches::Brought>>;
  End Bring(const std::string& from = "") {
    const auto end = std::make_shared<std::optional<OtherCaches::Brought>>();
    run_->others.Bring({.launch = launch_, .maker = from},
                       [end](const OtherCaches::Brought& brought) { *end = brought; });
    EXPECT_FALSE(end->has_value()) << "inside the call";
    return end;
  }
  OtherCaches::Brought BringNow() {
    const End end = Bring();
    by_hand_.RunAll();
    Pass(std::chrono::milliseconds(500));
    EXPECT_TRUE(end->has_value());
    return end->value_or(OtherCaches::Brought{});
  }
  bool Warned(std::string_view text) const {
    return std::ranges::any_of(by_hand_.context.warnings->all(),
                               [&](const std::string& warning) { return warning.find(text) != std::string::npos; });
  }

  SimNetwork network_{[] { return std::chrono::milliseconds(1); }};
  FakeAccess access_{network_, "10.0.0.1:17600"};
  ByHand by_hand_{&access_};
  std::shared_ptr<Prefix> prefix_;
  LaunchId launch_ = 0;
  std::string mark_;
  CacheRoom room_{by_hand_.context};
  NoReceiver nobody_;
  ImageStore images_{by_hand_.context, 64 << 20};
  FlushSlots slots_{0};
  std::unique_ptr<CoreRun> run_;
  std::unique_ptr<Elsewhere> other_, third_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_OTHER_CACHES_FIXTURE_H_

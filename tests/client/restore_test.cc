// cairn_restore, cairn_stored and the calls on files, against a daemon played by the test.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/client/fake_daemon.h"
#include "tests/client/restore_fixture.h"

namespace cairn {
namespace {

class RestoreTest : public RestoringTest {};

TEST_F(RestoreTest, CopiesWhatIsReadyAndTellsOfIt) {
  Open([this](FakePeer& peer) {
    const local::Request restore = peer.Expect(local::Request::kRestore);
    EXPECT_EQ(restore.restore().dataset(), 12u);
    EXPECT_EQ(restore.restore().variables_size(), 1);
    peer.Answer(restore, PlanFor(restore, true), image_.fd());
    for (const std::uint64_t pieces : {1u, 7u, 20u}) {
      Ready(peer, restore, pieces);
      WaitCopied(peer, pieces);  // a ring goes on only then
    }
    End(peer, restore, local::TIER_PREFIX);
  });
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(data_, expected_);
  std::int32_t tier = 0;
  EXPECT_EQ(cairn_restored_tier(session_, &tier), CAIRN_OK);
  EXPECT_EQ(tier, CAIRN_TIER_PREFIX);
}

TEST_F(RestoreTest, APlanThatComesAgainStartsAllOver) {
  Open([this](FakePeer& peer) {
    const local::Request restore = peer.Expect(local::Request::kRestore);
    image_.bytes()[0] ^= 1;  // damaged, found too late
    peer.Answer(restore, PlanFor(restore, true), image_.fd());
    Ready(peer, restore, 5);
    WaitCopied(peer, 5);
    image_.bytes()[0] ^= 1;
    peer.Answer(restore, PlanFor(restore, false));
    Ready(peer, restore, 20);
    WaitCopied(peer, 20);
    End(peer, restore);
  });
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(data_, expected_);
}

TEST_F(RestoreTest, RetryIsPassedOnAndForgetsWhatWasStored) {
  Open([this](FakePeer& peer) {
    for (int round = 0; round < 2; ++round) {
      const local::Request stored = peer.Expect(local::Request::kStored);
      local::Reply reply;
      reply.mutable_stored()->set_nranks(1);
      peer.Answer(stored, std::move(reply));
      if (round > 0) break;
      const local::Request restore = peer.Expect(local::Request::kRestore);
      peer.Answer(restore, PlanFor(restore, true), image_.fd());
      Ready(peer, restore, 5);
      peer.Refuse(restore, local::RETRY, "rank 1: no whole copy");
    }
  });
  cairn_stored_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(cairn_stored(session_, 12, 0, &info), CAIRN_NOT_FOUND);
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_RETRY);
  EXPECT_TRUE(Says(session_, "rank 1: no whole copy"));
  EXPECT_EQ(cairn_stored(session_, 12, 0, &info), CAIRN_NOT_FOUND);
  std::int32_t tier = 9;
  EXPECT_EQ(cairn_restored_tier(session_, &tier), CAIRN_OK);
  EXPECT_EQ(tier, CAIRN_TIER_NONE);
}

TEST_F(RestoreTest, AMismatchWritesNothing) {
  Open([](FakePeer& peer) {
    peer.Refuse(peer.Expect(local::Request::kRestore), local::FAILED_PRECONDITION, "variable 3 has another type");
  });
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_FAILED_PRECONDITION);
  EXPECT_EQ(data_, std::vector<std::int32_t>(5000, -1));
}

TEST_F(RestoreTest, ADaemonThatDiesIsAskedAgain) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet(11);
      const local::Request restore = first.Expect(local::Request::kRestore);
      first.Answer(restore, PlanFor(restore, true), image_.fd());
      Ready(first, restore, 3);
      WaitCopied(first, 3);
    }
    FakePeer peer = daemon_.Accept();
    peer.Greet(11);
    const local::Request restore = peer.Expect(local::Request::kRestore);
    peer.Answer(restore, PlanFor(restore, true), image_.fd());
    Ready(peer, restore, 20);
    WaitCopied(peer, 20);
    End(peer, restore);
  });
  OpenSession();
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(data_, expected_);
}

TEST_F(RestoreTest, ARestoreThatStallsEndsAtTheDeadlineAndSaysHowFarItCame) {
  Open(
      [this](FakePeer& peer) {
        const local::Request restore = peer.Expect(local::Request::kRestore);
        peer.Answer(restore, PlanFor(restore, true), image_.fd());
        Ready(peer, restore, 3);
        while (peer.Receive()) {
        }
      },
      300);
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_DEADLINE_EXCEEDED);
  EXPECT_TRUE(Says(session_, "dataset 12 to be restored (3 of 20 pieces are)")) << cairn_error(session_);
  EXPECT_EQ(cairn_close(session_), CAIRN_OK);
  session_ = nullptr;
}

TEST_F(RestoreTest, ADatasetOfFilesWritesNoMemory) {
  Open([](FakePeer& peer) { End(peer, peer.Expect(local::Request::kRestore)); });
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(data_, std::vector<std::int32_t>(5000, -1));
}

struct BadRestore {
  const char* name;
  std::function<void(local::Plan&)> spoil;
  std::uint64_t ready = 20;
  bool end = false;
};

class BadRestoreTest : public RestoreTest, public testing::WithParamInterface<BadRestore> {};

TEST_P(BadRestoreTest, IsRefused) {
  Open([this](FakePeer& peer) {
    const local::Request restore = peer.Expect(local::Request::kRestore);
    local::Reply reply = PlanFor(restore, true);
    GetParam().spoil(*reply.mutable_restore()->mutable_plan());
    peer.Answer(restore, std::move(reply), image_.fd());
    Ready(peer, restore, GetParam().ready);
    if (GetParam().end) End(peer, restore);
    while (peer.Receive()) {
    }
  });
  EXPECT_EQ(cairn_restore(session_, 12), CAIRN_INTERNAL) << cairn_error(session_);
  EXPECT_TRUE(Says(session_, "protocol")) << cairn_error(session_);
}

const BadRestore kBadRestores[] = {
    {"VariableBeyondTheLast", [](local::Plan& p) { p.set_variable(3, 1); }},
    {"PieceBeyondItsVariable", [](local::Plan& p) { p.set_variable_offset(3, 19001); }},
    {"PieceBeyondTheImage", [](local::Plan& p) { p.set_image_offset(3, (2 << 20) - 999); }},
    {"BytesForgotten", [](local::Plan& p) { p.set_bytes(3, 999); }},
    {"MoreReadyThanThereAre", [](local::Plan&) {}, 21},
    {"OverTooEarly", [](local::Plan&) {}, 19, true},
    {"NoPieces", [](local::Plan& p) { p.Clear(); }, 0},
};

INSTANTIATE_TEST_SUITE_P(All, BadRestoreTest, testing::ValuesIn(kBadRestores),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(RestoreTest, StoredIsAskedOnceForADataset) {
  Open([](FakePeer& peer) {
    const local::Request stored = peer.Expect(local::Request::kStored);
    EXPECT_EQ(stored.stored().dataset(), 12u);
    local::Reply reply;
    reply.mutable_stored()->set_nranks(6);
    local::Variable* plain = reply.mutable_stored()->add_variables();
    plain->set_id(2);
    plain->set_type(CAIRN_FLOAT);
    plain->set_count(77);
    local::Variable* array = reply.mutable_stored()->add_variables();
    array->set_id(8);
    array->set_kind(local::ARRAY);
    array->set_type(CAIRN_DOUBLE);
    array->set_name(std::string(300, 'n'));
    for (const std::uint64_t extent : {10, 20}) array->add_shape(extent);
    for (const std::uint64_t start : {1, 2}) array->add_box_start(start);
    for (const std::uint64_t count : {3, 4}) array->add_box_count(count);
    array->set_count(12);
    peer.Answer(stored, std::move(reply));
    const local::Request other = peer.Expect(local::Request::kStored);
    EXPECT_EQ(other.stored().dataset(), 13u);
    peer.Refuse(other, local::NOT_FOUND, "no dataset 13");
  });
  cairn_stored_info info;
  std::memset(&info, 0xff, sizeof info);
  info.struct_size = sizeof info;
  ASSERT_EQ(cairn_stored(session_, 12, 1, &info), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(info.id, 8);
  EXPECT_EQ(info.kind, CAIRN_KIND_ARRAY);
  EXPECT_EQ(info.type, CAIRN_DOUBLE);
  EXPECT_EQ(info.ndims, 2);
  EXPECT_EQ(info.count, 12u);
  EXPECT_EQ(info.shape[1], 20u);
  EXPECT_EQ(info.shape[2], 0u);
  EXPECT_EQ(info.start[0], 1u);
  EXPECT_EQ(info.box_count[1], 4u);
  EXPECT_EQ(info.nranks, 6u);
  EXPECT_EQ(std::string(info.name), std::string(CAIRN_NAME_MAX - 1, 'n')) << "cut";
  ASSERT_EQ(cairn_stored_by_id(session_, 12, 2, &info), CAIRN_OK);
  EXPECT_EQ(info.count, 77u);
  EXPECT_STREQ(info.name, "");
  EXPECT_EQ(cairn_stored_by_id(session_, 12, 3, &info), CAIRN_NOT_FOUND);
  EXPECT_TRUE(Says(session_, "dataset 12 has no variable 3"));
  EXPECT_EQ(cairn_stored(session_, 12, 2, &info), CAIRN_NOT_FOUND);

  struct Newer {
    cairn_stored_info known;
    std::uint64_t unknown;
  } newer;
  std::memset(&newer, 0xff, sizeof newer);
  newer.known.struct_size = sizeof newer;
  ASSERT_EQ(cairn_stored(session_, 12, 0, &newer.known), CAIRN_OK);
  EXPECT_EQ(newer.known.struct_size, sizeof newer);
  EXPECT_EQ(newer.known.id, 2);
  EXPECT_EQ(newer.unknown, 0u);
  EXPECT_EQ(cairn_stored(session_, 13, 0, &info), CAIRN_NOT_FOUND);
  EXPECT_TRUE(Says(session_, "no dataset 13"));
}

TEST_F(RestoreTest, StoredVariablesOfTooManyDimensionsAreRefused) {
  Open([](FakePeer& peer) {
    const local::Request stored = peer.Expect(local::Request::kStored);
    local::Reply reply;
    local::Variable* array = reply.mutable_stored()->add_variables();
    for (int d = 0; d < CAIRN_DIMS_MAX + 1; ++d) {
      array->add_shape(1);
      array->add_box_start(0);
      array->add_box_count(1);
    }
    peer.Answer(stored, std::move(reply));
    EXPECT_FALSE(peer.Receive());
  });
  cairn_stored_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(cairn_stored(session_, 12, 0, &info), CAIRN_INTERNAL);
}

TEST_F(RestoreTest, RandomMemoryComesBackAsItWas) {
  HonestDaemon honest;
  Open([&](FakePeer& peer) { honest.Serve(peer); });
  const std::uint64_t seed = std::getenv("CAIRN_TEST_SEED") != nullptr
                                 ? std::strtoull(std::getenv("CAIRN_TEST_SEED"), nullptr, 10)
                                 : std::random_device{}();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  cairn_unprotect(session_, 3);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::vector<std::uint8_t>> memory, saved;
    const int variables = static_cast<int>(random() % 6);
    for (int i = 0; i < variables; ++i) {
      memory.emplace_back(random() % 30000);
      for (std::uint8_t& byte : memory.back()) byte = static_cast<std::uint8_t>(random());
    }
    for (int i = 0; i < variables; ++i) {
      auto& bytes = memory[static_cast<std::size_t>(i)];
      ASSERT_EQ(cairn_protect(session_, i * 7, bytes.data(), bytes.size(), CAIRN_BYTE), CAIRN_OK);
    }
    std::uint64_t dataset = 0;
    ASSERT_EQ(cairn_checkpoint(session_, 0, &dataset), CAIRN_OK) << cairn_error(session_);
    saved = memory;
    for (auto& bytes : memory) std::fill(bytes.begin(), bytes.end(), 0);
    ASSERT_EQ(cairn_restore(session_, dataset), CAIRN_OK) << cairn_error(session_);
    ASSERT_EQ(memory, saved);
    for (int i = 0; i < variables; ++i) cairn_unprotect(session_, i * 7);
  }
  cairn_close(session_);
  session_ = nullptr;
  daemon_.Join();
}

TEST_F(RestoreTest, FilesAreBegunRoutedEndedAndFoundAgain) {
  Open([](FakePeer& peer) {
    const local::Request begin = peer.Expect(local::Request::kOutputBegin);
    EXPECT_EQ(begin.output_begin().step(), 9u);
    EXPECT_EQ(begin.output_begin().attempt(), 1u);
    EXPECT_TRUE(begin.output_begin().checkpoint());
    EXPECT_FALSE(begin.output_begin().output());
    EXPECT_TRUE(begin.output_begin().growing());
    local::Reply begun, routed, committed, found;
    begun.mutable_output_begin()->set_dataset(21);
    peer.Answer(begin, std::move(begun));
    routed.mutable_route_file()->set_path("/cache/21/a");
    const local::Request route = peer.Expect(local::Request::kRouteFile);
    EXPECT_EQ(route.route_file().file(), "out/a");
    peer.Answer(route, routed);
    peer.Answer(peer.Expect(local::Request::kRouteFile), routed);
    committed.mutable_committed()->set_dataset(21);
    const local::Request end = peer.Expect(local::Request::kOutputEnd);
    EXPECT_TRUE(end.output_end().valid());
    peer.Answer(end, std::move(committed));
    found.mutable_restart_file()->set_path("/cache/21/a");
    const local::Request restart = peer.Expect(local::Request::kRestartFile);
    EXPECT_EQ(restart.restart_file().dataset(), 21u);
    peer.Answer(restart, std::move(found));
  });
  std::uint64_t dataset = 0;
  char path[16] = "", small[4] = "";
  const std::uint32_t flags = CAIRN_CHECKPOINT | CAIRN_GROWING;
  ASSERT_EQ(cairn_output_begin(session_, 9, flags, &dataset), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(dataset, 21u);
  EXPECT_EQ(cairn_checkpoint(session_, 9, nullptr), CAIRN_FAILED_PRECONDITION) << "memory and files do not mix";
  EXPECT_EQ(cairn_output_begin(session_, 9, CAIRN_CHECKPOINT, &dataset), CAIRN_FAILED_PRECONDITION);
  EXPECT_EQ(cairn_route_file(session_, "out/a", path, sizeof path), CAIRN_OK) << cairn_error(session_);
  EXPECT_STREQ(path, "/cache/21/a");
  EXPECT_EQ(cairn_route_file(session_, "out/a", small, sizeof small), CAIRN_INVALID_ARGUMENT);
  EXPECT_TRUE(Says(session_, "needs 12 bytes")) << cairn_error(session_);
  EXPECT_EQ(cairn_output_end(session_, 1), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(cairn_output_end(session_, 1), CAIRN_FAILED_PRECONDITION);
  EXPECT_EQ(cairn_restart_file(session_, 21, "out/a", path, sizeof path), CAIRN_OK);
}

TEST_F(RestoreTest, AnOutputThatIsEndedAsInvalidIsAnsweredWithoutABody) {
  Open([](FakePeer& peer) {
    local::Reply begun;
    begun.mutable_output_begin()->set_dataset(21);
    peer.Answer(peer.Expect(local::Request::kOutputBegin), std::move(begun));
    const local::Request end = peer.Expect(local::Request::kOutputEnd);
    EXPECT_FALSE(end.output_end().valid());
    peer.Answer(end, {});
  });
  ASSERT_EQ(cairn_output_begin(session_, 1, CAIRN_OUTPUT, nullptr), CAIRN_OK);
  EXPECT_EQ(cairn_output_end(session_, 0), CAIRN_OK) << cairn_error(session_);
}

TEST_F(RestoreTest, ADaemonThatDiesWhileFilesAreWrittenFailsTheDatasetAndTheNextCanWork) {
  daemon_.Play([this] {
    local::Reply begun;
    begun.mutable_output_begin()->set_dataset(21);
    {
      FakePeer first = daemon_.Accept();
      first.Greet();
      first.Answer(first.Expect(local::Request::kOutputBegin), begun);
    }
    FakePeer peer = daemon_.Accept();
    peer.Greet();
    peer.Refuse(peer.Expect(local::Request::kOutputEnd), local::FAILED_PRECONDITION, "no output is begun");
    peer.Answer(peer.Expect(local::Request::kOutputBegin), begun);
  });
  OpenSession();
  ASSERT_EQ(cairn_output_begin(session_, 1, CAIRN_OUTPUT, nullptr), CAIRN_OK);
  EXPECT_EQ(cairn_output_end(session_, 1), CAIRN_FAILED);
  EXPECT_TRUE(Says(session_, "broke while dataset 21")) << cairn_error(session_);
  EXPECT_EQ(cairn_output_begin(session_, 2, CAIRN_OUTPUT, nullptr), CAIRN_OK) << cairn_error(session_);
}

}  // namespace
}  // namespace cairn

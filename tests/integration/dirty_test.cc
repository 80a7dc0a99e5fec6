// Two ranks with a checkpoint that is damaged in all copies of one of them: neither goes on with a part of it, also
// after the daemon was killed.
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/harness.h"
#include "tests/integration/rank_session.h"

namespace cairn::testing {
namespace {

constexpr std::size_t kElements = 3 << 20;  // 12 MiB

class DirtyTest : public ::testing::Test {
 protected:
  ~DirtyTest() override { Close(); }

  void Open(const std::string& key) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(OpenRank(harness, key, rank, 2, &sessions[rank]), CAIRN_OK) << cairn_error(nullptr);
      Protect(rank);
    }
  }
  void Close() {
    for (cairn_session*& session : sessions) {
      cairn_close(session);
      session = nullptr;
    }
  }
  void Protect(std::size_t rank) {
    ASSERT_EQ(cairn_protect(sessions[rank], 1, fields[rank].data(), kElements, CAIRN_INT32), CAIRN_OK);
  }
  // What all ranks are told, asked at the same time.
  std::array<int, 2> All(int (*ask)(cairn_session*, std::uint64_t), std::uint64_t argument = 0) {
    auto other = std::async(std::launch::async, ask, sessions[1], argument);
    const int mine = ask(sessions[0], argument);
    return {mine, other.get()};
  }
  static int Resume(cairn_session* session, std::uint64_t) { return cairn_resume(session, nullptr); }
  static int Checkpoint(cairn_session* session, std::uint64_t step) { return cairn_checkpoint(session, step, nullptr); }
  static constexpr std::array<int, 2> Both(int code) { return {code, code}; }

  Harness harness;
  std::array<std::vector<std::int32_t>, 2> fields{std::vector<std::int32_t>(kElements, 7),
                                                  std::vector<std::int32_t>(kElements, 8)};
  std::array<cairn_session*, 2> sessions{};
};

TEST_F(DirtyTest, OneRanksHalfFieldStopsAllUntilItIsProtectedAnew) {
  harness.WriteSettings(Harness::kSmallImages);
  ASSERT_TRUE(harness.StartDaemon());
  Open("first");
  ASSERT_EQ(All(Checkpoint, 1), Both(CAIRN_OK)) << cairn_error(sessions[0]);
  ASSERT_EQ(cairn_wait(sessions[0], 1, CAIRN_LEVEL_PREFIX, 60000), CAIRN_OK) << cairn_error(sessions[0]);
  Close();
  harness.KillDaemon();
  ASSERT_EQ(harness.DamageCheckpoints("-Rank0.fti"), 2);

  for (auto& field : fields) field.assign(kElements, -1);
  ASSERT_TRUE(harness.StartDaemon());
  Open("second");
  EXPECT_EQ(All(Resume), Both(CAIRN_DIRTY)) << cairn_error(sessions[0]);
  EXPECT_EQ(fields[0].front(), 7);
  EXPECT_EQ(fields[0].back(), -1);
  EXPECT_EQ(All(Checkpoint, 2), Both(CAIRN_DIRTY)) << cairn_error(sessions[0]);
  fields[1].assign(kElements, -1);
  Protect(1);
  EXPECT_EQ(All(Resume), Both(CAIRN_DIRTY)) << "rank 0 is dirty: " << cairn_error(sessions[1]);

  // The next daemon may not know yet that the copy on the prefix is bad: then it is tried once more, by both.
  harness.KillDaemon();
  ASSERT_TRUE(harness.StartDaemon());
  EXPECT_EQ(All(Resume)[0], CAIRN_DIRTY) << cairn_error(sessions[0]);
  EXPECT_EQ(cairn_checkpoint(sessions[0], 3, nullptr), CAIRN_DIRTY) << cairn_error(sessions[0]);
  fields[1].assign(kElements, -1);
  Protect(1);
  EXPECT_EQ(cairn_checkpoint(sessions[1], 3, nullptr), CAIRN_DIRTY) << cairn_error(sessions[1]);
  EXPECT_NE(std::string(cairn_error(sessions[1])).find("rank 0"), std::string::npos) << cairn_error(sessions[1]);

  fields[0].assign(kElements, -1);
  Protect(0);
  EXPECT_EQ(All(Resume), Both(CAIRN_NOT_FOUND)) << cairn_error(sessions[0]);
  std::uint64_t dataset = 0;
  ASSERT_EQ(cairn_checkpoint(sessions[0], 4, &dataset), CAIRN_OK) << cairn_error(sessions[0]);
  ASSERT_EQ(cairn_checkpoint(sessions[1], 4, nullptr), CAIRN_OK) << cairn_error(sessions[1]);
  EXPECT_EQ(cairn_wait(sessions[1], dataset, CAIRN_LEVEL_LOCAL, 60000), CAIRN_OK) << cairn_error(sessions[1]);
}

}  // namespace
}  // namespace cairn::testing

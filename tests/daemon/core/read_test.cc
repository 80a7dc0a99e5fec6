// cairn_read: selections of a dataset for one session, whoever it is and whatever else goes on.
#include "tests/daemon/core/elastic_fixture.h"

namespace cairn {
namespace {

class ReadTest : public ElasticFixture {
 protected:
  // What is read into is blank before.
  FakeClient::Restored ExpectReads(FakeClient& client, DatasetId id, const Field& box) {
    const Protected wanted = ArrayAt(box);
    Protected out = Blank({wanted}).front();
    const FakeClient::Restored restored = client.Read(id, out);
    EXPECT_EQ(restored.code, local::OK) << restored.message;
    EXPECT_TRUE(out.bytes == wanted.bytes);
    return restored;
  }
  static Protected Named(const std::string& name, std::uint64_t start, std::uint64_t count, std::size_t bytes) {
    Protected out = ArrayOf(1, name, {count}, {start}, {count}, std::string(bytes, 0));
    return out;
  }
};

TEST_F(ReadTest, OneSelectionAfterTheOtherFromWhateverTierThereIs) {
  const DatasetId id = Store(MemoryOf(Strips(3, false)), local::PREFIX);
  const Field boxes[] = {{0, 0, kRows, kColumns}, {17, 1000, 900, 3}, {kRows - 1, 0, 1, kColumns}, {5, 5, 0, 7}};
  const auto read_all = [&](local::Tier tier, const std::string& key) {
    Ranks ranks(harness_, 2, key);  // the other rank does nothing
    for (const Field& box : boxes) {
      const FakeClient::Restored read = ExpectReads(ranks[1], id, box);
      EXPECT_EQ(read.tier, box.rows > 0 ? tier : local::TIER_NONE);
    }
    // Nothing was pinned or begun by it.
    EXPECT_EQ(ranks[0].Latest().latest().dataset(), id);
  };
  read_all(local::TIER_IMAGE, "job.2");
  harness_.Restart();
  read_all(local::TIER_CACHE, "job.3");
  LoseCache();
  read_all(local::TIER_PREFIX, "job.4");
}

TEST_F(ReadTest, WithoutSharedMemoryToo) {
  const DatasetId id = Store(MemoryOf(Strips(3, true)), local::LOCAL);
  FakeClient client(harness_, {.shares_memory = false});
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  ExpectReads(client, id, {100, 200, 300, 400});
  ExpectReads(client, id, {0, 0, kRows, 1});
}

TEST_F(ReadTest, ValuesByName) {
  const DatasetId id = Store(MemoryOf(Strips(2, false)), local::LOCAL);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  Protected out = ValueOf(1, "step", 0);
  const FakeClient::Restored restored = client.Read(id, out);
  ASSERT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(NumberIn(out), 42u);
}

TEST_F(ReadTest, WhatCannotBeReadIsSaidAndTheNextReadWorks) {
  std::vector<Memory> memory = MemoryOf(Strips(2, false));
  memory[0].push_back(PlainOf(7, "plain"));
  const DatasetId id = Store(memory, local::LOCAL);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  Protected none = Named("none", 0, 1, 1);
  EXPECT_EQ(client.Read(id, none).code, local::NOT_FOUND);
  Protected plain = Named("var_7", 0, 1, 1);
  EXPECT_EQ(client.Read(id, plain).code, local::FAILED_PRECONDITION);
  Protected u = ArrayAt({0, 0, 1, 1});
  EXPECT_EQ(client.Read(id + 1, u).code, local::NOT_FOUND);
  Protected beyond = ArrayAt({kRows - 1, 0, 1, 1});
  beyond.variable.set_box_count(0, 2);
  EXPECT_EQ(client.Read(id, beyond).code, local::INVALID_ARGUMENT);
  ExpectReads(client, id, {0, 0, 5, 5});
}

TEST_F(ReadTest, FilesCannotBeRead) {
  Ranks ranks(harness_, 1, "job.1");
  const local::Reply begun = ranks[0].OutputBegin(1);
  harness_.Write(harness_.cache_disk(), ranks[0].RouteFile("a.dat").route_file().path(), "bytes");
  ASSERT_SAYS(ranks[0].OutputEnd(), local::OK, "");
  const DatasetId id = begun.output_begin().dataset();
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  Protected u = ArrayAt({0, 0, 1, 1});
  const FakeClient::Restored refused = ranks[0].Read(id, u);
  EXPECT_EQ(refused.code, local::FAILED_PRECONDITION);
  EXPECT_NE(refused.message.find("files"), std::string::npos);
}

TEST_F(ReadTest, HolesAreRefusedUnlessTheyAreTheClients) {
  std::vector<Field> boxes = Strips(3, false);
  boxes.erase(boxes.begin());
  const DatasetId id = Store(MemoryOf(boxes), local::LOCAL);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  Protected out = Blank({ArrayAt({0, 3, kRows, 10})}).front();
  EXPECT_EQ(client.Read(id, out).code, local::FAILED_PRECONDITION);
  out.variable.set_holes(true);
  EXPECT_EQ(client.Read(id, out).code, local::OK);
  EXPECT_EQ(out.bytes.substr(10 * boxes[0].row), BytesOf({boxes[0].row, 3, kRows - boxes[0].row, 10}));
}

TEST_F(ReadTest, ADamagedCopyGivesWayToTheNextTierAndWithoutOneItIsDataLoss) {
  const DatasetId id = Store(MemoryOf(Strips(2, false)), local::PREFIX);
  harness_.Restart();
  harness_.Flip(harness_.cache_disk(), harness_.CachedFile(id, 1), 5000);
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
  EXPECT_EQ(ExpectReads(client, id, {0, 7, kRows, 9}).tier, local::TIER_PREFIX);
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Row(id).in_cache(); }));  // made anew
  LoseCache();
  harness_.Flip(harness_.prefix_disk(), harness_.PrefixFile(id, 1), 5000);
  FakeClient late(harness_);
  ASSERT_SAYS(late.Open({.key = "job.3"}), local::OK, "");
  Protected out = Blank({ArrayAt({0, 0, kRows, 9})}).front();
  EXPECT_EQ(late.Read(id, out).code, local::DATA_LOSS);
  EXPECT_EQ(CodeOfReply(late.Latest()), local::NOT_FOUND);
}

TEST_F(ReadTest, ASessionThatIsLostInTheMiddleLeavesNothingBehind) {
  const DatasetId id = Store(MemoryOf(Strips(2, false)), local::LOCAL);
  {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({.key = "job.2"}), local::OK, "");
    local::Request request;
    request.mutable_read()->set_dataset(id);
    request.mutable_read()->set_name("u");
    for (const std::uint64_t count : {kRows, kColumns}) {
      request.mutable_read()->add_start(0);
      request.mutable_read()->add_count(count);
    }
    const std::uint64_t call = client.Send(std::move(request));
    EXPECT_TRUE(client.Next(call).has_restore());
  }
  EXPECT_TRUE(harness_.Eventually([&] { return harness_.Status().runs(0).sessions() == 0; }));
  EXPECT_EQ(harness_.Remove(id).code(), local::OK);  // nobody reads it any more
}

}  // namespace
}  // namespace cairn

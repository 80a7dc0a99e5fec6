#include "daemon/data/hash_company.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/md5_lanes.h"

namespace cairn {
namespace {

// Runs a job when it is told to.
class PoolByHand final : public WorkPool {
 public:
  void Post(PoolJob job) override { jobs.push_back(std::move(job)); }
  void PostWaiting(PoolJob /*job*/) override { FAIL() << "nothing here waits for a disk"; }
  std::size_t threads() const override { return 1; }
  void GiveWayToClients(const std::atomic<bool>& /*hurry*/, std::chrono::milliseconds& /*patience*/) override {}

  void RunNext() {
    PoolJob job = std::move(jobs.front());
    jobs.pop_front();
    job();
  }

  std::deque<PoolJob> jobs;

 private:
  std::uint64_t BeginHold() override { return 0; }
  void EndHold(std::uint64_t /*number*/) override {}
};

// Has chunks of its own, each in one lane.
class Partner final : public HashPartner {
 public:
  Partner(std::string content, std::size_t chunks, bool full = true)
      : content_(std::move(content)), chunks_left(chunks), full_(full) {}

  bool Claim(HashPart& part, std::size_t lanes_max) override {
    if (throws) throw std::bad_alloc();
    for (; chunks_left > 0 && part.work.full_lanes < lanes_max; --chunks_left) {
      part.work.lanes.push_back({.hash = {}, .data = std::as_bytes(std::span(content_))});
      part.work.claims.emplace_back().bytes = content_.size();
      part.work.bytes += content_.size();
      if (full_) ++part.work.full_lanes;
    }
    return !part.work.claims.empty();
  }
  void Publish(const HashPart& part) override {
    for (const HashLane& lane : part.work.lanes) digests.push_back(lane.hash.Finish());
  }
  void GiveBack(const HashPart& part) override { chunks_left += part.work.claims.size(); }
  bool NoMore() const override {
    if (asked_throws) throw std::bad_alloc();
    return no_more;
  }
  void HashingFailed(const absl::Status& why) override { failed.Update(why); }

  void ExpectHashed(std::size_t chunks) const {
    EXPECT_EQ(digests, std::vector<Md5Digest>(chunks, Md5(std::as_bytes(std::span(content_)))));
    EXPECT_TRUE(failed.ok()) << failed;
  }

  const std::string content_;
  std::size_t chunks_left;
  bool throws = false, asked_throws = false, no_more = false;
  std::vector<Md5Digest> digests;
  absl::Status failed;

 private:
  const bool full_;
};

class HashCompanyTest : public testing::Test {
 protected:
  std::shared_ptr<Partner> Add(char fill, std::size_t chunks) {
    partners_.push_back(std::make_shared<Partner>(std::string(100'000, fill), chunks));
    company_->Post(partners_.back());
    return partners_.back();
  }

  PoolByHand pool_;
  const std::shared_ptr<HashCompany> company_ = std::make_shared<HashCompany>(pool_);
  std::vector<std::shared_ptr<Partner>> partners_;
};

TEST_F(HashCompanyTest, OneJobHashesForAllThatWaitUntilItsLanesAreFull) {
  for (char fill = 'a'; fill < 'a' + 20; ++fill) Add(fill, 1);
  pool_.RunNext();
  for (std::size_t i = 0; i < partners_.size(); ++i) partners_[i]->ExpectHashed(i < kMd5LanesMax ? 1 : 0);
  while (!pool_.jobs.empty()) pool_.RunNext();  // what was done for them is not done again
  for (const auto& partner : partners_) partner->ExpectHashed(1);
}

TEST_F(HashCompanyTest, OneWithAllLanesFullTakesNobodyAlong) {
  const auto large = Add('x', 40), small = Add('y', 1);
  pool_.RunNext();
  large->ExpectHashed(kMd5LanesMax);
  small->ExpectHashed(0);
  pool_.RunNext();
  small->ExpectHashed(1);
  EXPECT_EQ(large->chunks_left, 40 - kMd5LanesMax) << "its own next job was not posted";
}

TEST_F(HashCompanyTest, OneThatIsGoneIsPassedOver) {
  const auto first = Add('a', 1);
  auto gone = std::make_shared<Partner>("gone", 1);
  company_->Post(gone);
  pool_.jobs.pop_back();
  gone.reset();
  const auto last = Add('b', 1);
  pool_.RunNext();
  first->ExpectHashed(1);
  last->ExpectHashed(1);
}

TEST_F(HashCompanyTest, AJobThatFailsGivesBackWhatItHasOfAll) {
  const auto first = Add('a', 1), second = Add('b', 1);
  first->asked_throws = true;
  pool_.RunNext();
  EXPECT_FALSE(first->failed.ok());
  second->ExpectHashed(0);
  for (const auto& partner : partners_) EXPECT_EQ(partner->chunks_left, 1u);
  company_->Post(second);  // as one whose work is given back does
  while (!pool_.jobs.empty()) pool_.RunNext();
  second->ExpectHashed(1);
  EXPECT_TRUE(first->digests.empty());
}

TEST_F(HashCompanyTest, WhatNobodyWantsIsGivenBackAndWhatOneWantsIsHashed) {
  const auto first = Add('a', 1), second = Add('b', 1);
  first->no_more = second->no_more = true;
  pool_.RunNext();
  for (const auto& partner : partners_) {
    partner->ExpectHashed(0);
    EXPECT_EQ(partner->chunks_left, 1u);
  }
  second->no_more = false;
  company_->Post(first);
  company_->Post(second);
  while (!pool_.jobs.empty()) pool_.RunNext();
  second->ExpectHashed(1);
}

TEST_F(HashCompanyTest, OneJobTakesNoMoreThanSomeMilliseconds) {
  for (int i = 0; i < 400; ++i) {  // none of their chunks is worth a lane
    partners_.push_back(std::make_shared<Partner>(std::string(50'000, 'x'), 1, false));
    company_->Post(partners_.back());
  }
  pool_.RunNext();
  std::uint64_t hashed = 0;
  for (const auto& partner : partners_) hashed += 50'000 * partner->digests.size();
  EXPECT_GE(hashed, kHashJobBytesMax);
  EXPECT_LE(hashed, kHashJobBytesMax + 50'000);
}

TEST_F(HashCompanyTest, WhatFailsAtOneHarmsNoOther) {
  const auto first = Add('a', 1), second = Add('b', 1), third = Add('c', 1);
  second->throws = true;
  pool_.RunNext();
  first->ExpectHashed(1);
  EXPECT_FALSE(second->failed.ok());
  third->ExpectHashed(1);
  first->throws = true;
  company_->Post(first);
  while (!pool_.jobs.empty()) pool_.RunNext();
  EXPECT_FALSE(first->failed.ok());
}

}  // namespace
}  // namespace cairn

// Captures that wait for another, and captures that are hashed together.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <future>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/data/capture.h"
#include "daemon/data/hash_company.h"
#include "daemon/data/work_pool.h"
#include "tests/daemon/data/capture_fixture.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class CaptureCompanyTest : public CaptureFixture {
 protected:
  // Filled and committed.
  void HandOver(Job& job) {
    ASSERT_TRUE(FillAll(job.sample, *job.capture, *job.image, job.listener, 3));
    ASSERT_OK(job.capture->Commit());
  }
  void ExpectEnded(Job& job, const std::string& path) {
    const auto end = job.listener.WaitForEnd();
    ASSERT_TRUE(end.has_value());
    ASSERT_OK(*end);
    ExpectFile(fake_, path, job.sample, **end);
  }
};

TEST_F(CaptureCompanyTest, OneThatWaitsWritesNothingBeforeItMayGo) {
  const std::string waits = "/cache/waits", other = "/cache/other";
  std::atomic<int> writes{0};
  fake_.SetHook([&](FakeOp op, const std::string& path) { writes += op == FakeOp::kWrite && path == waits ? 1 : 0; });
  Job job = Start(Make({3 << 20, 5000}), {.path = waits, .waits = true});
  HandOver(job);
  // Whatever it had posted to the pool would have run before this one's end.
  for (int round = 0; round < 3; ++round) {
    Job before = Start(Make({4 << 20, 100}), {.path = other});
    HandOver(before);
    ExpectEnded(before, other);
  }
  EXPECT_EQ(writes, 0);
  EXPECT_FALSE(job.listener.ended());
  job.capture->Go();
  job.capture->Go();  // once more: nothing
  ExpectEnded(job, waits);
  EXPECT_GE(writes, 2);
}

TEST_F(CaptureCompanyTest, OneThatMayGoBeforeItsCommitWaitsForNothing) {
  Job job = Start(Make({2 << 20}), {.waits = true});
  job.capture->Go();
  RunWhole(job);
}

TEST_F(CaptureCompanyTest, ARingWaitsForNothing) {
  const JobOptions options{.image_bytes = 2 << 20, .waits = true};
  Job job = Start(Make({20 << 20}), options);
  RunWhole(job, options);
}

TEST_F(CaptureCompanyTest, OneThatWaitsCanBeAborted) {
  Job job = Start(Make({3 << 20}), {.waits = true});
  HandOver(job);
  job.capture->Abort();
  const auto end = job.listener.WaitForEnd();
  ASSERT_TRUE(end.has_value());
  EXPECT_STATUS(absl::StatusCode::kCancelled, *end, "aborted");
  job.capture->Go();
  ExpectNoWorkFile();
}

TEST_F(CaptureCompanyTest, WhateverIsHashedTogetherIsEachOnesOwn) {
  for (int round = 0; round < 10 && !HasFailure(); ++round) {
    const std::shared_ptr<HashCompany> company = MakeHashCompany(pool_);
    // They come while the pool has something else to do, so that they gather.
    std::vector<WorkPool::Hold> clients;
    for (int i = 0; i < 2; ++i) clients.push_back(pool_.HoldForClient());  // all cores are taken
    std::vector<Job> jobs;
    std::vector<std::string> paths;
    for (int i = 0; i < 12; ++i) {
      paths.push_back(kWorkPath + std::to_string(i));
      const JobOptions options{.path = paths.back(), .want_digests = i % 3 == 0, .company = company};
      jobs.push_back(Start(Make({1 + random_() % (2 << 20), random_() % 5000}), options));
    }
    for (Job& job : jobs) HandOver(job);
    if (round % 2 == 0) jobs[random_() % jobs.size()].capture->Abort();  // its bytes do not count, and nobody waits
    for (std::uint64_t n = random_() % 4096; n > 0; --n) std::this_thread::yield();
    clients.clear();
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const auto end = jobs[i].listener.WaitForEnd();
      ASSERT_TRUE(end.has_value());
      if (absl::IsCancelled(end->status())) continue;
      ASSERT_OK(*end);
      ExpectFile(fake_, paths[i], jobs[i].sample, **end);
    }
  }
}

// A job that fails takes the work of a capture along, whose own jobs have found nothing left to do meanwhile.
class FailingPartner final : public HashPartner {
 public:
  explicit FailingPartner(std::shared_future<void> until) : until_(std::move(until)) {}
  bool Claim(HashPart& part, std::size_t /*lanes_max*/) override {
    part.work.lanes.push_back({.hash = {}, .data = std::as_bytes(std::span(content_))});
    part.work.claims.emplace_back().bytes = part.work.bytes = content_.size();
    return true;
  }
  void Publish(const HashPart& /*part*/) override { ADD_FAILURE() << "it was not hashed"; }
  void GiveBack(const HashPart& /*part*/) override {}
  bool NoMore() const override {
    until_.wait();
    throw std::bad_alloc();
  }
  void HashingFailed(const absl::Status& why) override { failed_ = failed_ || !why.ok(); }
  bool failed() const { return failed_; }

 private:
  const std::shared_future<void> until_;
  const std::string content_ = "some bytes";
  std::atomic<bool> failed_{false};
};

TEST_F(CaptureCompanyTest, WhatAnothersJobGivesBackIsHashedAllTheSame) {
  const std::shared_ptr<HashCompany> company = MakeHashCompany(pool_);
  std::vector<WorkPool::Hold> clients;
  for (int i = 0; i < 2; ++i) clients.push_back(pool_.HoldForClient());  // all cores are taken
  std::promise<void> own_jobs_ran;
  const auto failing = std::make_shared<FailingPartner>(own_jobs_ran.get_future().share());
  company->Post(failing);
  Job job = Start(Make({300'000, 5000}), {.company = company});
  HandOver(job);
  pool_.Post([&own_jobs_ran] { own_jobs_ran.set_value(); });  // behind those of the capture
  clients.clear();
  ExpectEnded(job, kWorkPath);
  EXPECT_TRUE(failing->failed());
}

}  // namespace
}  // namespace cairn

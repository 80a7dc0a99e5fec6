// What the tests of captures share: a fake disk, a pool, and one capture with the client's side of it.
#ifndef CAIRN_TESTS_DAEMON_DATA_CAPTURE_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_DATA_CAPTURE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "daemon/data/capture.h"
#include "daemon/data/image.h"
#include "daemon/data/work_pool.h"
#include "tests/daemon/data/data_fixture.h"
#include "tests/support/fake_disk.h"

namespace cairn {

inline constexpr char kWorkPath[] = "/cache/Ckpt1-Rank0.fti.cairn-work1";

// One capture and the client's side of it.
struct Job {
  Sample sample;
  std::shared_ptr<Image> image;
  CaptureListener listener;
  std::shared_ptr<Capture> capture;
};

struct JobOptions {
  std::uint64_t image_bytes = 0;  // 0: for the whole file
  Disk* disk = nullptr;           // null: the fake one
  std::string path = kWorkPath;
  ftiff::Letter letter = ftiff::Letter::kF;
  std::vector<Md5Digest> last_hashes = {};
  std::optional<CaptureBase> base = {};
  bool want_digests = false;
  std::vector<view::BoundsScan> scans = {};
  bool waits = false;                              // for Go
  std::shared_ptr<HashCompany> company = nullptr;  // null: it is hashed alone
};

class CaptureFixture : public testing::Test {
 protected:
  explicit CaptureFixture(FakeDiskOptions options = {.direct = true});

  // The image is dirty all over.
  Job Start(Sample sample, const JobOptions& options = {});
  Sample Make(const std::vector<std::uint64_t>& sizes, ftiff::Packing packing = ftiff::Packing::kAligned);
  // Fills and commits; the result, or why it has none.
  absl::StatusOr<CaptureResult> Finish(Job& job);
  // And expects the right file.
  void RunWhole(Job& job, const JobOptions& options = {});
  void ExpectNoWorkFile();

  const std::uint64_t seed_;
  std::mt19937_64 random_;
  const testing::ScopedTrace trace_;
  ImageBudget budget_{1 << 30};
  FakeDisk fake_;
  const std::unique_ptr<WorkPool> owned_pool_ = MakeWorkPool(2, 2);
  WorkPool& pool_ = *owned_pool_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_DATA_CAPTURE_FIXTURE_H_

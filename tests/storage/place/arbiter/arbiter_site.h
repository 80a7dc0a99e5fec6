// Where arbiters are tested: two runs on a disk.
#ifndef CAIRN_TESTS_STORAGE_PLACE_ARBITER_ARBITER_SITE_H_
#define CAIRN_TESTS_STORAGE_PLACE_ARBITER_ARBITER_SITE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "storage/base/status.h"
#include "storage/io/create_once.h"
#include "storage/io/disk.h"
#include "storage/place/arbiter/arbiter.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {

// A disk, and a folder on it.
class ArbiterPlace {
 public:
  virtual ~ArbiterPlace() = default;
  virtual Disk& disk() = 0;
  virtual std::string folder() = 0;
  // What was not synced is gone; a real disk cannot.
  virtual void PowerFailure() {}
};
std::unique_ptr<ArbiterPlace> MakeFakePlace(FakeDiskOptions options = {});
// A folder of its own, in `parent`; removed with it.
std::unique_ptr<ArbiterPlace> MakePosixPlace(const std::string& parent = ::testing::TempDir());

// Two runs, 0 and 1, each with a prefix of its own that has a .cairn, and one back end for both.
class ArbiterSite {
 public:
  // A new arbiter of the run, as another node has it.
  using Open = std::function<std::unique_ptr<Arbiter>(Disk& disk, const std::string& prefix, int run)>;

  ArbiterSite(std::unique_ptr<ArbiterPlace> place, Open open) : place_(std::move(place)), open_(std::move(open)) {
    for (int run : {0, 1}) EXPECT_OK(MakeDirectories(disk(), prefix(run) + "/.cairn"));
  }
  Disk& disk() { return place_->disk(); }
  std::string prefix(int run = 0) { return fmt::format("{}/run{}", place_->folder(), run); }
  std::unique_ptr<Arbiter> Make(int run = 0) { return open_(disk(), prefix(run), run); }
  void PowerFailure() { place_->PowerFailure(); }
  // As whoever reads the prefix sees it; else why he cannot.
  std::string RecordOf(const std::string& name, int run = 0) {
    auto bytes = ReadOnce(disk(), prefix(run) + "/.cairn/" + name, Arbiter::kRecordBytesMax);
    return bytes.ok() ? *std::move(bytes) : bytes.status().ToString();
  }

 private:
  const std::unique_ptr<ArbiterPlace> place_;
  const Open open_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_STORAGE_PLACE_ARBITER_ARBITER_SITE_H_

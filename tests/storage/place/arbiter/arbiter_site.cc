#include "tests/storage/place/arbiter/arbiter_site.h"

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "storage/io/posix_disk.h"

namespace cairn {
namespace {

class FakePlace final : public ArbiterPlace {
 public:
  explicit FakePlace(FakeDiskOptions options) : disk_(options) {}
  Disk& disk() override { return disk_; }
  std::string folder() override { return "/work"; }
  void PowerFailure() override { disk_.Restart(/*seed=*/1); }

 private:
  FakeDisk disk_;
};

class PosixPlace final : public ArbiterPlace {
 public:
  explicit PosixPlace(const std::string& parent) {
    std::string name = parent + "/cairn-arbiter-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~PosixPlace() override { std::filesystem::remove_all(folder_); }
  Disk& disk() override { return *disk_; }
  std::string folder() override { return folder_; }

 private:
  const std::unique_ptr<PosixDisk> disk_ = MakePosixDisk();
  std::string folder_;
};

}  // namespace

std::unique_ptr<ArbiterPlace> MakeFakePlace(FakeDiskOptions options) {
  return std::make_unique<FakePlace>(options);
}

std::unique_ptr<ArbiterPlace> MakePosixPlace(const std::string& parent) {
  return std::make_unique<PosixPlace>(parent);
}

}  // namespace cairn

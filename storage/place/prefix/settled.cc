#include "storage/place/prefix/settled.h"

#include <thread>

#include "storage/file/trees/tree_file.h"

namespace cairn {
namespace {

constexpr int kReadsMax = 3;
constexpr std::chrono::milliseconds kPause{100};

}  // namespace

absl::StatusOr<kvtree::Tree> ReadSettled(Disk& disk, const std::string& path, const Pause& pause, std::string* text) {
  for (int reads = 1;; ++reads) {
    auto tree = ReadTree(disk, path, text);
    const bool empty = absl::IsNotFound(tree.status()) && disk.Info(path).ok();
    if ((!empty && !absl::IsDataLoss(tree.status())) || reads == kReadsMax) return tree;
    if (pause) {
      pause(kPause);
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

}  // namespace cairn

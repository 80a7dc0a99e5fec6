// What the tests of daemon/data share: random layouts and content, a client that copies by its plan, and a listener
// that waits for callbacks.
#ifndef CAIRN_TESTS_DAEMON_DATA_DATA_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_DATA_DATA_FIXTURE_H_

#include <absl/status/statusor.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "daemon/data/capture.h"
#include "daemon/data/image.h"
#include "daemon/data/plan.h"
#include "storage/format/ftiff/layout.h"
#include "storage/io/disk.h"

namespace cairn {

// $CAIRN_TEST_SEED, else random; a failing test prints it (SCOPED_TRACE with SeedText).
std::uint64_t TestSeed();
std::string SeedText(std::uint64_t seed);

// Variables, a layout of theirs, and what the file's data is to be: zeros wherever no chunk lies.
struct Sample {
  std::vector<ftiff::VariableSize> variables;
  std::vector<std::vector<std::byte>> content;
  ftiff::FileLayout layout;
  std::vector<std::byte> data;

  std::uint64_t windows_bytes() const {  // of an image for the whole file
    return (data.size() + kWindowBytes - 1) / kWindowBytes * kWindowBytes;
  }
};

// Fresh, aligned or exact, of some 0 to `bytes_max` bytes; every other one with containers that have shrunk or lost
// their content.
Sample RandomSample(std::mt19937_64& random, std::uint64_t bytes_max);
// One with these sizes.
Sample MakeSample(std::mt19937_64& random, const std::vector<std::uint64_t>& sizes, ftiff::Packing packing);

// What the file is after a while: this part of the 4 KiB of each variable has changed, some variables have other sizes,
// there may be new ones, and the container list is the next one or a fresh one.
Sample NextSample(std::mt19937_64& random, const Sample& last, double changed);
// Makes `data` of the other fields.
void FillData(Sample& sample);

// Waits for what a capture tells. Nothing here takes longer than a minute unless it never comes.
class CaptureListener {
 public:
  Capture::Callbacks callbacks();
  // The end, or none after a minute.
  std::optional<absl::StatusOr<CaptureResult>> WaitForEnd();
  // True when so many windows were released, false if the end came first.
  bool WaitForReleased(std::uint64_t windows);
  bool ended() const;
  std::uint64_t released() const;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t released = 0;
    std::size_t ends = 0;
    std::optional<absl::StatusOr<CaptureResult>> end;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Copies piece `index` of the plan to its place.
void CopyPiece(const Sample& sample, const PlanPiece& piece, std::span<std::byte> image);

// The client's part: copies and tells `batch` pieces at a time, waiting for slots of a ring; without the commit. False
// if the capture ended on the way.
bool FillAll(const Sample& sample, Capture& capture, Image& image, CaptureListener& listener, std::size_t batch);

// The file on `disk` is what the sample says, decodes, verifies, and has the checksums of `result`.
void ExpectFile(Disk& disk, const std::string& path, const Sample& sample, const CaptureResult& result);

// CRC32C of each MiB.
std::vector<std::uint32_t> BlockChecksums(std::span<const std::byte> bytes);

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_DATA_DATA_FIXTURE_H_

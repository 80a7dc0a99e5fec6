// What of a capture is to be hashed, and in which parts. The queue itself has no threads and no lock: its owner guards
// it. HashTogether works on copies.
#ifndef CAIRN_DAEMON_DATA_HASH_QUEUE_H_
#define CAIRN_DAEMON_DATA_HASH_QUEUE_H_

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "daemon/data/block_digests.h"
#include "daemon/data/lane_hash.h"
#include "daemon/data/window_table.h"

namespace cairn {

// Parts of chunks for one job.
struct HashWork {
  struct Claim {
    std::size_t chunk = 0;
    std::size_t window = 0;
    std::uint64_t file_offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t behind = 0;  // bytes of the window after these
    BlockCrc share;            // of the window; not if there are digests
  };
  std::vector<Claim> claims;
  std::vector<HashLane> lanes;                     // as many
  std::vector<BlockCrc> parts;                     // the lanes', if there are digests
  std::size_t full_lanes = 0;                      // that are worth a lane of MD5
  std::uint64_t bytes = 0;                         // of all
  std::optional<std::uint64_t> digest_data_bytes;  // of the file; none: there are no digests

  void Clear();  // keeps its memory
};

class HashQueue {
 public:
  // Both are borrowed.
  HashQueue(WindowTable& table, std::span<std::byte> image);

  // From now on digests are made, into `digests`, which is of zeros (borrowed). Then the table's windows get no CRCs:
  // WindowCrcs. Before anything is claimed.
  void MakeDigests(BlockDigests* digests) { digests_ = digests; }

  // More of the chunk is in the image.
  void Add(std::size_t chunk);
  std::size_t jobs_wanted() const { return (ready_.size() + kMd5LanesMax - 1) / kMd5LanesMax; }
  bool all_hashed() const { return unhashed_ == 0; }

  // Puts work for some ms, of at most so many full lanes, or none, in place of what `work` was. The chunks in it are
  // its own until Publish or GiveBack.
  void Claim(std::size_t lanes_max, HashWork& work);
  // Takes the results, and tells which windows are hashed by them.
  void Publish(const HashWork& work, absl::FunctionRef<void(std::size_t window)> hashed);
  void GiveBack(const HashWork& work);

 private:
  WindowTable& table_;
  const std::span<std::byte> image_;
  BlockDigests* digests_ = nullptr;
  std::vector<std::pair<std::uint64_t, std::size_t>> ready_;  // heap: bytes left, chunk
  std::vector<bool> taken_;                                   // chunk is in ready_ or claimed
  std::size_t unhashed_ = 0;                                  // chunks
};

// What takes long, of one queue or of several. Any thread; asks `stop` every MiB or so: true ends it. False: it was
// stopped, and there are no results.
bool HashTogether(std::span<HashWork* const> works, const std::function<bool()>& stop);

// One job takes no more.
inline constexpr std::uint64_t kHashJobBytesMax = 8 << 20;

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_HASH_QUEUE_H_

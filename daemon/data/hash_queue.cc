#include "daemon/data/hash_queue.h"

#include <algorithm>

namespace cairn {
namespace {

constexpr std::uint64_t kLaneBytesMax = kHashJobBytesMax / kMd5LanesMax;  // of one chunk: all lanes take some ms
constexpr std::uint64_t kLaneBytesMin = 64 << 10;  // less than this does not count as a lane of its job
constexpr std::size_t kChunksOfJobMax = 1024;

void MakeClaimsShares(HashWork& work) {
  for (std::size_t i = 0; i < work.claims.size(); ++i) {
    HashWork::Claim& claim = work.claims[i];
    HashLane& lane = work.lanes[i];
    if (!work.digest_data_bytes.has_value()) {
      claim.share = ShareOf(lane.crc, claim.bytes, claim.behind);
    } else {
      MakeShares(*work.digest_data_bytes, claim.file_offset, claim.bytes, lane.parts);
    }
  }
}

// Room for so many in all.
void GiveParts(std::size_t parts, HashWork& work) {
  work.parts.resize(parts);
  std::span<BlockCrc> left = work.parts;
  for (HashLane& lane : work.lanes) {
    lane.parts = left.first(LanePartsOf(*lane.in_block, lane.data.size()));
    left = left.subspan(lane.parts.size());
  }
}

}  // namespace

void HashWork::Clear() {
  claims.clear();
  lanes.clear();
  full_lanes = 0;
  bytes = 0;
  digest_data_bytes.reset();
}

HashQueue::HashQueue(WindowTable& table, std::span<std::byte> image)
    : table_(table), image_(image), taken_(table.chunks().size()), unhashed_(table.chunks().size()) {
  ready_.reserve(table.chunks().size());
}

// The chunk with the most bytes left comes first: so all end at about the same time, and lanes stay full.
void HashQueue::Add(std::size_t chunk) {
  if (taken_[chunk]) return;
  taken_[chunk] = true;
  const WindowTable::Chunk& of = table_.chunks()[chunk];
  ready_.emplace_back(of.bytes - of.hashed, chunk);
  std::push_heap(ready_.begin(), ready_.end());
}

void HashQueue::Claim(std::size_t lanes_max, HashWork& work) {
  work.Clear();
  std::size_t parts = 0;
  if (digests_ != nullptr) work.digest_data_bytes = digests_->data_bytes;
  while (!ready_.empty() && work.full_lanes < lanes_max && work.claims.size() < kChunksOfJobMax) {
    const std::size_t index = ready_.front().second;
    std::pop_heap(ready_.begin(), ready_.end());
    ready_.pop_back();
    const WindowTable::Chunk& chunk = table_.chunks()[index];
    const std::uint64_t at = chunk.file_offset + chunk.hashed;
    const std::size_t window = table_.WindowAt(at);
    const std::uint64_t window_end = table_.WindowBegin(window) + table_.windows()[window].bytes;
    const std::uint64_t bytes = std::min({chunk.filled - chunk.hashed, window_end - at, kLaneBytesMax});
    work.claims.push_back({index, window, at, bytes, window_end - at - bytes, {}});
    work.lanes.push_back(
        {.hash = chunk.hash, .data = image_.subspan(table_.ImageOffset(at), bytes), .scan = chunk.scan});
    work.bytes += bytes;
    if (bytes >= kLaneBytesMin) ++work.full_lanes;
    if (digests_ == nullptr) continue;
    work.lanes.back().in_block = at % kDigestBlockBytes;
    parts += LanePartsOf(at % kDigestBlockBytes, bytes);
  }
  if (digests_ != nullptr) GiveParts(parts, work);
}

void HashQueue::Publish(const HashWork& work, absl::FunctionRef<void(std::size_t window)> hashed) {
  for (std::size_t i = 0; i < work.claims.size(); ++i) {
    const HashWork::Claim& claim = work.claims[i];
    const HashLane& lane = work.lanes[i];
    WindowTable::Chunk& chunk = table_.chunks()[claim.chunk];
    chunk.hash = lane.hash;
    chunk.scan = lane.scan;
    chunk.hashed += claim.bytes;
    taken_[claim.chunk] = false;
    if (chunk.hashed == chunk.bytes) --unhashed_;
    if (chunk.filled > chunk.hashed) Add(claim.chunk);
    WindowTable::Window& window = table_.windows()[claim.window];
    window.crc ^= claim.share;
    if (digests_ != nullptr) AddShares(claim.file_offset, lane.parts, *digests_);
    window.unhashed -= claim.bytes;
    if (window.unhashed == 0) hashed(claim.window);
  }
}

void HashQueue::GiveBack(const HashWork& work) {
  for (const HashWork::Claim& claim : work.claims) {
    taken_[claim.chunk] = false;
    Add(claim.chunk);
  }
}

bool HashTogether(std::span<HashWork* const> works, const std::function<bool()>& stop) {
  std::vector<HashLane> together;  // none of one alone
  for (std::size_t i = 0; works.size() > 1 && i < works.size(); ++i) {
    together.insert(together.end(), works[i]->lanes.begin(), works[i]->lanes.end());
  }
  HashLanes(works.size() == 1 ? works[0]->lanes : together, stop);
  if (stop()) return false;
  auto next = together.begin();
  for (HashWork* const work : works) {
    for (std::size_t i = 0; !together.empty() && i < work->lanes.size(); ++i) work->lanes[i] = *next++;
    MakeClaimsShares(*work);
  }
  return true;
}

}  // namespace cairn

#include <algorithm>
#include <memory>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/md5_lanes.h"
#include "storage/base/status.h"
#include "storage/ftiff/codec.h"

namespace cairn::ftiff {
namespace {

constexpr std::uint64_t kPieceBytes = 1 << 20;
static_assert(kPieceBytes % kMd5BlockBytes == 0);

// Hashes the chunks of a file, as many at once as there are lanes, a piece of each at a time.
class ChunkVerifier {
 public:
  ChunkVerifier(std::string_view name, const FileMetadata& metadata, const ReadAt& read)
      : name_(name), metadata_(metadata), read_(read) {
    std::uint64_t chunk_bytes_max = 0;
    std::size_t chunks = 0;
    for (const Container& container : metadata.layout.containers) {
      if (!container.has_content) continue;
      ++chunks;
      chunk_bytes_max = std::max(chunk_bytes_max, container.chunk_bytes);
    }
    piece_bytes_ = std::min(kPieceBytes, (chunk_bytes_max + kMd5BlockBytes - 1) / kMd5BlockBytes * kMd5BlockBytes);
    lanes_.resize(std::min(chunks, kMd5LanesMax));
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(lanes_.size() * piece_bytes_);
    for (std::size_t i = 0; i < lanes_.size(); ++i) lanes_[i].buffer = {buffer_.get() + i * piece_bytes_, piece_bytes_};
  }

  absl::StatusOr<std::vector<BadChunk>> Run() {
    std::erase_if(lanes_, [this](Lane& lane) { return !Next(lane); });
    while (!lanes_.empty()) {
      CAIRN_RETURN_IF_ERROR(Round());
    }
    std::sort(bad_.begin(), bad_.end(), [](const auto& a, const auto& b) { return a.container < b.container; });
    return std::move(bad_);
  }

 private:
  struct Lane {
    std::size_t container = 0;
    std::uint64_t hashed = 0;  // bytes of its chunk
    std::span<std::byte> buffer;
    std::size_t filled = 0;  // of the buffer in this round
    Md5State state;
  };

  // Gives the lane the next chunk; false if there is none.
  bool Next(Lane& lane) {
    const std::vector<Container>& containers = metadata_.layout.containers;
    while (next_ < containers.size() && !containers[next_].has_content) ++next_;
    if (next_ == containers.size()) return false;
    lane.container = next_++;
    lane.hashed = 0;
    lane.state = Md5State{};
    return true;
  }

  absl::Status Round() {
    std::vector<Md5Lane> advance;
    for (Lane& lane : lanes_) {
      const Container& container = metadata_.layout.containers[lane.container];
      lane.filled = std::min<std::uint64_t>(container.chunk_bytes - lane.hashed, piece_bytes_);
      if (lane.filled == 0) continue;
      CAIRN_RETURN_IF_ERROR(read_(container.file_offset + lane.hashed, lane.buffer.first(lane.filled)));
      advance.push_back({&lane.state, lane.buffer.data(), lane.filled / kMd5BlockBytes * kMd5BlockBytes});
    }
    Md5Advance(advance);
    std::erase_if(lanes_, [this](Lane& lane) { return Finished(lane) && !Next(lane); });
    return absl::OkStatus();
  }

  // True after the last piece of the chunk, which is then compared.
  bool Finished(Lane& lane) {
    const Container& container = metadata_.layout.containers[lane.container];
    lane.hashed += lane.filled;
    if (lane.hashed < container.chunk_bytes) return false;
    const std::size_t whole = lane.filled / kMd5BlockBytes * kMd5BlockBytes;
    const Md5Digest found = Md5Finish(lane.state, lane.buffer.subspan(whole, lane.filled - whole));
    const Md5Digest& expected = metadata_.chunk_hashes[lane.container];
    if (found == expected) return true;
    bad_.push_back({.container = lane.container,
                    .why = fmt::format("{}: offset {}: MD5 of the {} bytes of container {} of variable {} is {}, "
                                       "expected {}",
                                       name_, container.file_offset, container.chunk_bytes, container.index,
                                       container.id, HexOf(found), HexOf(expected))});
    return true;
  }

  const std::string_view name_;
  const FileMetadata& metadata_;
  const ReadAt& read_;
  std::size_t piece_bytes_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
  std::vector<Lane> lanes_;
  std::size_t next_ = 0;  // container that no lane has had
  std::vector<BadChunk> bad_;
};

}  // namespace

absl::StatusOr<Verdict> VerifyData(std::string_view name, const FileMetadata& metadata, const ReadAt& read,
                                   std::size_t /*threads*/) {
  CAIRN_CHECK(metadata.chunk_hashes.size() == metadata.layout.containers.size());
  CAIRN_ASSIGN_OR_RETURN(std::vector<BadChunk> bad, ChunkVerifier(name, metadata, read).Run());
  return Verdict{.bad = std::move(bad), .bad_checksum = {}};
}

}  // namespace cairn::ftiff

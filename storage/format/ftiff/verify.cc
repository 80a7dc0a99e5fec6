#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/md5_lanes.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/records.h"

namespace cairn::ftiff {
namespace {

// Of each lane, read and hashed at a time: all lanes' pieces stay in the processor's cache in between.
constexpr std::uint64_t kPieceBytes = 32 << 10;
constexpr std::uint64_t kSerialPieceBytes = 256 << 10;
static_assert(kPieceBytes % kMd5BlockBytes == 0 && kSerialPieceBytes % kMd5BlockBytes == 0);

struct Source {
  std::string_view name;
  const FileMetadata& metadata;
  const ReadAt& read;
  std::atomic<bool>& stop;  // another thread has failed
};

// Containers [begin, end) of a file.
struct Range {
  std::size_t begin = 0, end = 0;
};

// Hashes the chunks of a range, as many at once as there are lanes, a piece of each at a time.
class ChunkVerifier {
 public:
  ChunkVerifier(const Source& source, Range range) : source_(source), end_(range.end), next_(range.begin) {
    std::uint64_t chunk_bytes_max = 0;
    std::size_t chunks = 0;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      if (!ContainerAt(i).has_content) continue;
      ++chunks;
      chunk_bytes_max = std::max(chunk_bytes_max, ContainerAt(i).chunk_bytes);
    }
    const std::uint64_t piece_bytes = chunk_bytes_max >= kPieceBytes
                                          ? kPieceBytes
                                          : (chunk_bytes_max + kMd5BlockBytes - 1) / kMd5BlockBytes * kMd5BlockBytes;
    lanes_.resize(std::min(chunks, kMd5LanesMax));
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(lanes_.size() * piece_bytes);
    for (std::size_t i = 0; i < lanes_.size(); ++i) lanes_[i].buffer = {buffer_.get() + i * piece_bytes, piece_bytes};
  }

  absl::StatusOr<std::vector<BadChunk>> Run() {
    std::erase_if(lanes_, [this](Lane& lane) { return !Next(lane); });
    while (!lanes_.empty() && !source_.stop.load(std::memory_order_relaxed)) {
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

  const Container& ContainerAt(std::size_t index) const { return source_.metadata.layout.containers[index]; }

  // Gives the lane the next chunk; false if there is none.
  bool Next(Lane& lane) {
    while (next_ < end_ && !ContainerAt(next_).has_content) ++next_;
    if (next_ == end_) return false;
    lane.container = next_++;
    lane.hashed = 0;
    lane.state = Md5State{};
    return true;
  }

  absl::Status Round() {
    advance_.clear();
    for (Lane& lane : lanes_) {
      const Container& container = ContainerAt(lane.container);
      lane.filled = std::min<std::uint64_t>(container.chunk_bytes - lane.hashed, lane.buffer.size());
      if (lane.filled == 0) continue;
      CAIRN_RETURN_IF_ERROR(source_.read(container.file_offset + lane.hashed, lane.buffer.first(lane.filled)));
      advance_.push_back({&lane.state, lane.buffer.data(), lane.filled / kMd5BlockBytes * kMd5BlockBytes});
    }
    Md5Advance(advance_);
    std::erase_if(lanes_, [this](Lane& lane) { return Finished(lane) && !Next(lane); });
    return absl::OkStatus();
  }

  // True after the last piece of the chunk, which is then compared.
  bool Finished(Lane& lane) {
    const Container& container = ContainerAt(lane.container);
    lane.hashed += lane.filled;
    if (lane.hashed < container.chunk_bytes) return false;
    const std::size_t whole = lane.filled / kMd5BlockBytes * kMd5BlockBytes;
    const Md5Digest found = Md5Finish(lane.state, lane.buffer.subspan(whole, lane.filled - whole));
    const Md5Digest& expected = source_.metadata.chunk_hashes[lane.container];
    if (found == expected) return true;
    bad_.push_back({.container = lane.container,
                    .why = fmt::format("{}: offset {}: MD5 of the {} bytes of container {} of variable {} is {}, "
                                       "expected {}",
                                       source_.name, container.file_offset, container.chunk_bytes, container.index,
                                       container.id, HexOf(found), HexOf(expected))});
    return true;
  }

  const Source& source_;
  const std::size_t end_;
  std::size_t next_;  // container that no lane has had
  std::unique_ptr<std::byte[]> buffer_;
  std::vector<Lane> lanes_;
  std::vector<Md5Lane> advance_;
  std::vector<BadChunk> bad_;
};

// One MD5 over pieces of the file, one after the other.
class SerialHash {
 public:
  explicit SerialHash(const Source& source)
      : source_(source), buffer_(std::make_unique_for_overwrite<std::byte[]>(kSerialPieceBytes)) {}

  absl::Status Append(std::uint64_t offset, std::uint64_t bytes) {
    while (bytes > 0 && !source_.stop.load(std::memory_order_relaxed)) {
      const std::size_t piece = std::min(bytes, kSerialPieceBytes - filled_);
      CAIRN_RETURN_IF_ERROR(source_.read(offset, {buffer_.get() + filled_, piece}));
      offset += piece;
      bytes -= piece;
      filled_ += piece;
      if (filled_ < kSerialPieceBytes) continue;
      const Md5Lane lane = {&state_, buffer_.get(), filled_};
      Md5Advance({&lane, 1});
      filled_ = 0;
    }
    return absl::OkStatus();
  }

  Md5Digest Finish() const {
    Md5State state = state_;
    const std::size_t whole = filled_ / kMd5BlockBytes * kMd5BlockBytes;
    const Md5Lane lane = {&state, buffer_.get(), whole};
    Md5Advance({&lane, 1});
    return Md5Finish(state, {buffer_.get() + whole, filled_ - whole});
  }

 private:
  const Source& source_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t filled_ = 0;
  Md5State state_;
};

// A and B (3.5): what is wrong with the file checksum, empty if nothing is.
absl::StatusOr<std::string> CompareChecksum(const Source& source) {
  const FileMetadata& metadata = source.metadata;
  SerialHash hash(source);
  if (metadata.letter == Letter::kA) {
    CAIRN_CHECK(metadata.file_bytes >= kFileRecordBytesA);
    CAIRN_RETURN_IF_ERROR(hash.Append(kFileRecordBytesA, metadata.file_bytes - kFileRecordBytesA));
  } else {
    for (const Container& container : metadata.layout.containers) {
      if (container.has_content) CAIRN_RETURN_IF_ERROR(hash.Append(container.file_offset, container.chunk_bytes));
    }
  }
  const std::string found = HexOf(hash.Finish());
  if (found == metadata.checksum_hex) return std::string();
  return fmt::format("{}: offset 0: checksum is {}, expected {}, the MD5 of {}", source.name, metadata.checksum_hex,
                     found, metadata.letter == Letter::kA ? "all that follows the file record" : "all chunks");
}

// At most `count` ranges that cover all containers and have about the same number of bytes to hash.
std::vector<Range> RangesOf(const std::vector<Container>& containers, std::size_t count) {
  constexpr std::uint64_t kContainerCost = 256;  // what a chunk costs besides its bytes, in bytes
  std::uint64_t total = 0;
  for (const Container& container : containers) total += container.chunk_bytes + kContainerCost;
  std::vector<Range> ranges;
  std::uint64_t before = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < containers.size(); ++i) {
    before += containers[i].chunk_bytes + kContainerCost;
    const bool last_range = ranges.size() + 1 == count;
    if (i + 1 < containers.size() && (last_range || before < total / count * (ranges.size() + 1))) continue;
    ranges.push_back({begin, i + 1});
    begin = i + 1;
  }
  return ranges;
}

using Task = std::function<absl::Status()>;

absl::Status RunTask(const Task& task, std::atomic<bool>* stop) noexcept {
  absl::Status status;
  try {
    status = task();
  } catch (const std::exception& error) {
    status = ResourceExhausted("while verifying: {}", error.what());
  }
  if (!status.ok()) stop->store(true, std::memory_order_relaxed);
  return status;
}

// Runs the tasks, the last one on this thread, as well as those for which there is no thread. The first error by order.
absl::Status RunTogether(std::span<const Task> tasks, std::atomic<bool>* stop) {
  std::vector<absl::Status> results(tasks.size());
  {
    std::vector<std::jthread> threads;
    threads.reserve(tasks.size());
    std::size_t started = 0;
    try {
      for (; started + 1 < tasks.size(); ++started) {
        threads.emplace_back([&, i = started] { results[i] = RunTask(tasks[i], stop); });
      }
    } catch (const std::system_error&) {  // no further thread to be had
    }
    for (std::size_t i = started; i < tasks.size(); ++i) results[i] = RunTask(tasks[i], stop);
  }
  for (const absl::Status& result : results) CAIRN_RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Verdict> VerifyData(std::string_view name, const FileMetadata& metadata, const ReadAt& read,
                                   std::size_t threads) {
  const std::vector<Container>& containers = metadata.layout.containers;
  CAIRN_CHECK(metadata.chunk_hashes.size() == containers.size());
  std::atomic<bool> stop = false;
  const Source source{.name = name, .metadata = metadata, .read = read, .stop = stop};
  // The checksum over all data is one long stream: it has a thread of its own, if there are two.
  const bool serial = TableOf(metadata.letter).metadata_first;
  const std::size_t for_chunks = threads <= 1 ? 1 : threads - (serial ? 1 : 0);
  const std::vector<Range> ranges = RangesOf(containers, for_chunks);
  std::vector<std::vector<BadChunk>> bad(ranges.size());
  Verdict verdict;
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    tasks.push_back([&, i]() -> absl::Status {
      CAIRN_ASSIGN_OR_RETURN(bad[i], ChunkVerifier(source, ranges[i]).Run());
      return absl::OkStatus();
    });
  }
  const auto checksum = [&]() -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(verdict.bad_checksum, CompareChecksum(source));
    return absl::OkStatus();
  };
  if (serial && threads > 1) tasks.push_back(checksum);
  CAIRN_RETURN_IF_ERROR(RunTogether(tasks, &stop));
  if (serial && threads <= 1) CAIRN_RETURN_IF_ERROR(RunTask(checksum, &stop));
  for (std::vector<BadChunk>& part : bad) {
    verdict.bad.insert(verdict.bad.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  }
  return verdict;
}

}  // namespace cairn::ftiff

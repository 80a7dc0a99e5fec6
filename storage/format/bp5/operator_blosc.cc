// Number of bytes, the library's version, 0, number of chunks, chunks. Without the two last ones: an older layout of
// one chunk. Blosc 1 is read; what blosc 2 writes has another format, and is named.
#include <blosc.h>

#include <algorithm>

#include "storage/format/bp5/operator_codecs.h"

namespace cairn::bp5 {
namespace {

// Of a chunk's head.
constexpr std::size_t kBytesAt = 4, kStoredBytesAt = 12;

struct Chunk {
  std::span<const std::byte> stored;
  std::uint64_t bytes = 0;
};

std::uint32_t NumberAt(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t number;
  std::memcpy(&number, &bytes[at], sizeof number);
  return number;
}

// The chunk at the beginning of `stored`, as its head says it.
absl::StatusOr<Chunk> ChunkAt(std::span<const std::byte> stored) {
  if (stored.size() < BLOSC_MIN_HEADER_LENGTH) return DataLoss("{} bytes are too few for a chunk", stored.size());
  const auto version = std::to_integer<int>(stored[0]);
  if (version > BLOSC_VERSION_FORMAT) {
    return FailedPrecondition("a chunk of format {}: that of blosc 2 is not undone here", version);
  }
  const std::uint64_t stored_bytes = NumberAt(stored, kStoredBytesAt);
  if (stored_bytes < BLOSC_MIN_HEADER_LENGTH || stored_bytes > stored.size()) {
    return DataLoss("a chunk of {} bytes, {} are left", stored_bytes, stored.size());
  }
  Chunk chunk{.stored = stored.first(stored_bytes), .bytes = NumberAt(stored, kBytesAt)};
  std::size_t bytes = 0;
  if (blosc_cbuffer_validate(chunk.stored.data(), chunk.stored.size(), &bytes) != 0 || bytes != chunk.bytes) {
    return DataLoss("a chunk of {} bytes is none of blosc's", stored_bytes);
  }
  return chunk;
}

// All chunks, which must have so many bytes. `count`: how many chunks there are to be; 0: one.
absl::StatusOr<std::vector<Chunk>> ChunksIn(std::span<const std::byte> stored, std::uint32_t count,
                                            std::uint64_t bytes) {
  std::vector<Chunk> chunks;
  for (std::uint64_t left = bytes; left > 0;) {
    CAIRN_ASSIGN_OR_RETURN(const Chunk chunk, ChunkAt(stored));
    if (chunk.bytes == 0 || chunk.bytes > left) return DataLoss("a chunk has {} bytes, {} are left", chunk.bytes, left);
    left -= chunk.bytes;
    stored = stored.subspan(chunk.stored.size());
    chunks.push_back(chunk);
  }
  if (chunks.size() != std::max<std::size_t>(count, 1)) return DataLoss("{} chunks, not {}", chunks.size(), count);
  return chunks;
}

}  // namespace

absl::StatusOr<Memory> UndoBlosc(OperatorBytes stored, std::uint64_t bytes) {
  CAIRN_ASSIGN_OR_RETURN(const auto says, stored.Take<std::uint64_t>("the number of bytes"));
  if (says != bytes) return DataLoss("{} bytes, its elements are {}", says, bytes);
  CAIRN_RETURN_IF_ERROR(stored.Take(3, "the library's version").status());
  OperatorBytes behind = stored;
  CAIRN_ASSIGN_OR_RETURN(const auto format, behind.Take<std::uint32_t>("the number of chunks"));
  CAIRN_ASSIGN_OR_RETURN(const auto count, behind.Take<std::uint32_t>("the number of chunks"));
  const bool older = format != 0;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Chunk> chunks,
                         ChunksIn(older ? stored.rest() : behind.rest(), older ? 1 : count, bytes));
  CAIRN_ASSIGN_OR_RETURN(Memory elements, MakeMemory(bytes));
  std::uint64_t done = 0;
  for (const Chunk& chunk : chunks) {
    const int got = blosc_decompress_ctx(chunk.stored.data(), elements.get() + done, chunk.bytes, 1);
    if (got < 0 || static_cast<std::uint64_t>(got) != chunk.bytes) {
      return DataLoss("blosc answers {} for a chunk of {} bytes", got, chunk.bytes);
    }
    done += chunk.bytes;
  }
  return elements;
}

}  // namespace cairn::bp5

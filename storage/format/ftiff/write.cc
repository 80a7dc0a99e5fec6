#include "storage/format/ftiff/write.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/md5_lanes.h"
#include "storage/base/md5_stream.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/id_hash.h"
#include "storage/format/ftiff/records.h"

namespace cairn::ftiff {
namespace {

constexpr std::size_t kBufferBytes = 4 << 20;
constexpr std::size_t kPartsMax = 4096;  // bounds what is kept of the chunks in the buffer

// What chunks must have.
struct Expected {
  std::span<const Md5Digest> hashes;  // one per container, or empty: nothing is expected
  std::string_view origin;            // for errors
};

// Takes a file's bytes front to back through one buffer. When that is full, the chunks in it are hashed, as many at
// once as there are lanes, and it is written.
class Stream {
 public:
  // `all`, if not null, hashes everything that passes.
  Stream(const FileLayout& layout, std::uint64_t begin, Expected expected, Md5Stream* all, const ReadVariable& read,
         const WriteAt& write)
      : layout_(layout),
        expected_(expected),
        read_(read),
        write_(write),
        all_(all),
        at_(begin),
        buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)),
        hashes_(layout.containers.size()) {}

  // The chunk of a container with content, read from the variable.
  absl::Status Chunk(std::size_t index) {
    const Container& container = layout_.containers[index];
    std::uint64_t done = 0;
    do {
      CAIRN_ASSIGN_OR_RETURN(const auto room, Room(container.chunk_bytes - done));
      if (!room.empty()) CAIRN_RETURN_IF_ERROR(read_(container.id, container.variable_offset + done, room));
      done += room.size();
      parts_.push_back({.container = index, .bytes = room, .last = done == container.chunk_bytes});
      if (parts_.size() == kPartsMax) CAIRN_RETURN_IF_ERROR(HashParts({}));
    } while (done < container.chunk_bytes);
    return absl::OkStatus();
  }

  absl::Status Bytes(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      CAIRN_ASSIGN_OR_RETURN(const auto room, Room(bytes.size()));
      std::memcpy(room.data(), bytes.data(), room.size());
      bytes = bytes.subspan(room.size());
    }
    return absl::OkStatus();
  }

  absl::Status Zeros(std::uint64_t count) {
    while (count > 0) {
      CAIRN_ASSIGN_OR_RETURN(const auto room, Room(count));
      std::fill(room.begin(), room.end(), std::byte{0});
      count -= room.size();
    }
    return absl::OkStatus();
  }

  // Hashes and writes what is in the buffer. To be called last, too.
  absl::Status Flush() {
    std::vector<Md5Lane> lanes;
    if (all_ != nullptr) lanes.push_back(all_->Take({buffer_.get(), filled_}));
    CAIRN_RETURN_IF_ERROR(HashParts(std::move(lanes)));
    if (filled_ > 0) CAIRN_RETURN_IF_ERROR(write_(at_, {buffer_.get(), filled_}));
    at_ += filled_;
    filled_ = 0;
    return absl::OkStatus();
  }

  // Of the chunks that were taken; others' are zeros. Complete after the last Flush.
  const std::vector<Md5Digest>& hashes() const { return hashes_; }

 private:
  struct Part {
    std::size_t container;
    std::span<const std::byte> bytes;
    bool last;
  };

  // The next place in the buffer, of at most `wanted` bytes; empty only if none are wanted.
  absl::StatusOr<std::span<std::byte>> Room(std::uint64_t wanted) {
    if (filled_ == kBufferBytes) CAIRN_RETURN_IF_ERROR(Flush());
    const std::size_t bytes = std::min<std::uint64_t>(wanted, kBufferBytes - filled_);
    const std::span<std::byte> room = {buffer_.get() + filled_, bytes};
    filled_ += bytes;
    return room;
  }

  // Hashes the parts of chunks in the buffer and, with them, `lanes`.
  absl::Status HashParts(std::vector<Md5Lane> lanes) {
    std::vector<Md5Stream> chunks(parts_.size());
    if (!parts_.empty()) chunks.front() = std::exchange(open_, Md5Stream{});
    for (std::size_t i = 0; i < parts_.size(); ++i) lanes.push_back(chunks[i].Take(parts_[i].bytes));
    Md5Advance(lanes);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].last) {
        open_ = chunks[i];
        continue;
      }
      hashes_[parts_[i].container] = chunks[i].Finish();
      CAIRN_RETURN_IF_ERROR(Compare(parts_[i].container));
    }
    parts_.clear();
    return absl::OkStatus();
  }

  absl::Status Compare(std::size_t index) const {
    if (expected_.hashes.empty() || hashes_[index] == expected_.hashes[index]) return absl::OkStatus();
    const Container& container = layout_.containers[index];
    return DataLoss("container {} of variable {}: MD5 of the {} bytes read is {}, expected {} {}", container.index,
                    container.id, container.chunk_bytes, HexOf(hashes_[index]), HexOf(expected_.hashes[index]),
                    expected_.origin);
  }

  const FileLayout& layout_;
  const Expected expected_;
  const ReadVariable& read_;
  const WriteAt& write_;
  Md5Stream* const all_;
  std::uint64_t at_;  // in the file, of the buffer
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t filled_ = 0;
  std::vector<Part> parts_;
  std::vector<Md5Digest> hashes_;
  Md5Stream open_;  // of the chunk that goes on in the next buffer; a fresh one if none does
};

// That the file can be told in the format's numbers, and no sum here overflows.
absl::Status CheckSizes(const FileToWrite& file) {
  const FileLayout& layout = file.layout;
  std::uint64_t room = std::numeric_limits<std::int64_t>::max();
  const auto take = [&room](std::uint64_t bytes) {
    if (bytes > room) return false;
    room -= bytes;
    return true;
  };
  bool fits = take(layout.meta_bytes(file.letter));
  std::uint64_t data_bytes = 0;
  for (const Container& container : layout.containers) {
    fits = fits && take(container.container_bytes);
    if (!fits) return InvalidArgument("the file would be longer than a file can be");
    data_bytes += container.container_bytes;
    const std::uint64_t chunk_bytes_max = container.has_content ? container.container_bytes : 0;
    if (container.chunk_bytes > chunk_bytes_max) {
      return InvalidArgument("container {} of variable {}: a chunk of {} bytes, at most {} fit", container.index,
                             container.id, container.chunk_bytes, chunk_bytes_max);
    }
  }
  std::uint64_t containers = 0;
  for (const std::uint32_t count : layout.block_containers) containers += count;
  if (containers != layout.containers.size() || data_bytes != layout.data_bytes) {
    return InvalidArgument("{} containers of {} bytes in all, but blocks of {} and {} bytes", layout.containers.size(),
                           data_bytes, containers, layout.data_bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckRegistered(const FileToWrite& file) {
  if (file.letter != Letter::kA || file.registered.empty()) return absl::OkStatus();
  IdSet missing;
  for (const std::int32_t id : file.registered) {
    if (!missing.insert(id).second) return InvalidArgument("variable {} is registered twice", id);
  }
  IdSet there;
  for (const Container& container : file.layout.containers) {
    if (!there.insert(container.id).second) continue;
    if (missing.erase(container.id) == 0) return InvalidArgument("variable {} is not registered", container.id);
  }
  if (missing.empty()) return absl::OkStatus();
  return InvalidArgument("variable {} is registered, but has no container", *missing.begin());
}

// A container as it is in the file: its chunk, if it has content, and zeros.
absl::Status Put(const Container& container, std::size_t index, Stream* stream) {
  if (container.has_content) CAIRN_RETURN_IF_ERROR(stream->Chunk(index));
  return stream->Zeros(container.container_bytes - container.chunk_bytes);
}

// Puts what is stored of containers without content between the hashes of the others: the last hash that each had, or
// that of nothing where `last` is empty.
std::vector<Md5Digest> WithHashesOfEmptied(const FileLayout& layout, std::vector<Md5Digest> hashes,
                                           std::span<const Md5Digest> last) {
  const Md5Digest of_nothing = Md5({});
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (!layout.containers[i].has_content) hashes[i] = last.empty() ? of_nothing : last[i];
  }
  return hashes;
}

// As the file tells it when it is read.
std::vector<std::int32_t> RegisteredIn(const FileToWrite& file) {
  if (file.letter == Letter::kA && !file.registered.empty()) return file.registered;
  std::vector<std::int32_t> ids;
  for (const Container& container : file.layout.containers) {
    if (container.index == 0) ids.push_back(container.id);
  }
  return ids;
}

// `record`: the file record, whose first two fields are the same in all layouts.
FileMetadata Written(const FileToWrite& file, FileLayout placed, std::vector<Md5Digest> hashes,
                     std::span<const std::byte> record) {
  FileMetadata metadata;
  metadata.letter = file.letter;
  metadata.header = file.header;
  metadata.file_bytes = placed.file_bytes(file.letter);
  metadata.layout = std::move(placed);
  metadata.chunk_hashes = std::move(hashes);
  metadata.registered = RegisteredIn(file);
  metadata.checksum_hex.assign(reinterpret_cast<const char*>(record.data()), kChecksumBytes - 1);
  std::memcpy(metadata.record_hash.data(), record.data() + kMetadataHashOffset, metadata.record_hash.size());
  return metadata;
}

absl::StatusOr<FileMetadata> WriteF(const FileToWrite& file, const ReadVariable& read, const WriteAt& write) {
  FileLayout placed = Placed(file.layout, Letter::kF);
  Stream stream(placed, 0, {.hashes = file.chunk_hashes, .origin = "as given"}, nullptr, read, write);
  for (std::size_t i = 0; i < placed.containers.size(); ++i) {
    CAIRN_RETURN_IF_ERROR(Put(placed.containers[i], i, &stream));
  }
  CAIRN_RETURN_IF_ERROR(stream.Flush());
  std::vector<Md5Digest> hashes = WithHashesOfEmptied(placed, stream.hashes(), file.chunk_hashes);
  const std::vector<std::byte> metadata = EncodeMetadata(placed, hashes, file.header);
  CAIRN_RETURN_IF_ERROR(write(placed.data_bytes, metadata));
  const auto trailer = std::span(metadata).last(kLayoutF.file_record_bytes);
  FileMetadata written = Written(file, std::move(placed), std::move(hashes), trailer);
  written.header.timestamp_ns &= std::numeric_limits<std::uint32_t>::max();
  return written;
}

// The hashes of all chunks, which in layout A come before them in the file. Without given ones everything is read once
// more.
absl::StatusOr<std::vector<Md5Digest>> HashesForA(const FileToWrite& file, const FileLayout& placed,
                                                  const ReadVariable& read) {
  if (!file.chunk_hashes.empty()) return WithHashesOfEmptied(placed, file.chunk_hashes, {});
  const WriteAt nowhere = [](std::uint64_t, std::span<const std::byte>) { return absl::OkStatus(); };
  Stream stream(placed, 0, {}, nullptr, read, nowhere);
  for (std::size_t i = 0; i < placed.containers.size(); ++i) {
    if (placed.containers[i].has_content) CAIRN_RETURN_IF_ERROR(stream.Chunk(i));
  }
  CAIRN_RETURN_IF_ERROR(stream.Flush());
  return WithHashesOfEmptied(placed, stream.hashes(), {});
}

absl::StatusOr<FileMetadata> WriteA(const FileToWrite& file, const ReadVariable& read, const WriteAt& write) {
  FileLayout placed = Placed(file.layout, Letter::kA);
  CAIRN_ASSIGN_OR_RETURN(std::vector<Md5Digest> hashes, HashesForA(file, placed, read));
  const std::string_view origin = file.chunk_hashes.empty() ? "as first read" : "as given";
  Md5Stream all;
  Stream stream(placed, kFileRecordBytesA, {.hashes = hashes, .origin = origin}, &all, read, write);
  const std::vector<std::vector<std::byte>> blocks = EncodeBlocksA(placed, file.registered, hashes);
  std::size_t next = 0;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    CAIRN_RETURN_IF_ERROR(stream.Bytes(blocks[block]));
    for (const std::size_t end = next + placed.block_containers[block]; next < end; ++next) {
      CAIRN_RETURN_IF_ERROR(Put(placed.containers[next], next, &stream));
    }
  }
  CAIRN_RETURN_IF_ERROR(stream.Flush());
  const std::vector<std::byte> record = EncodeFileRecordA(placed, file.header, all.Finish());
  CAIRN_RETURN_IF_ERROR(write(0, record));
  FileMetadata written = Written(file, std::move(placed), std::move(hashes), record);
  written.header.checkpoint_id = 0;
  return written;
}

}  // namespace

absl::StatusOr<FileMetadata> WriteFile(const FileToWrite& file, const ReadVariable& read, const WriteAt& write) {
  CAIRN_CHECK(file.letter == Letter::kA || file.letter == Letter::kF);
  CAIRN_CHECK(file.chunk_hashes.empty() || file.chunk_hashes.size() == file.layout.containers.size());
  CAIRN_RETURN_IF_ERROR(CheckSizes(file));
  CAIRN_RETURN_IF_ERROR(CheckRegistered(file));
  return file.letter == Letter::kA ? WriteA(file, read, write) : WriteF(file, read, write);
}

}  // namespace cairn::ftiff

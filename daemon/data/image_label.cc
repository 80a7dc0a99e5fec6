#include "daemon/data/image_label.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "proto/label.pb.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/framed/framed.h"

namespace cairn {
namespace {

constexpr std::uint64_t kSealOffset = 0, kTriesOffset = 8, kFrameOffset = 16;
constexpr std::uint64_t kTextBytesMax = 4096;
constexpr FramedKind kKind = {
    .magic = "CAIRNLBL", .what = "a label", .version = 1, .bytes_max = kLabelBytes - kFrameOffset};

bool WriteNumber(int fd, std::uint64_t offset, std::uint64_t number) {
  return ::pwrite(fd, &number, sizeof number, static_cast<off_t>(offset)) == sizeof number;
}

absl::StatusOr<std::uint64_t> ReadNumber(int fd, std::uint64_t offset) {
  std::uint64_t number = 0;
  if (::pread(fd, &number, sizeof number, static_cast<off_t>(offset)) == sizeof number) return number;
  return DataLoss("a label: offset {}: {}", offset, std::strerror(errno));
}

absl::StatusOr<label::Label> Parse(const std::string& frame) {
  CAIRN_ASSIGN_OR_RETURN(const std::string_view message, FramedMessage(kKind, "a label", frame));
  label::Label label;
  if (label.ParseFromArray(message.data(), static_cast<int>(message.size()))) return label;
  return DataLoss("a label: offset {}: {} bytes that are not its message", kFramedMessageOffset, message.size());
}

void PutLayout(const ftiff::FileLayout& layout, label::Label* label) {
  for (const ftiff::Container& container : layout.containers) {
    label->add_id(container.id);
    label->add_index(container.index);
    label->add_has_content(container.has_content);
    label->add_in_file_before(container.in_file_before);
    label->add_variable_offset(container.variable_offset);
    label->add_file_offset(container.file_offset);
    label->add_chunk_bytes(container.chunk_bytes);
    label->add_container_bytes(container.container_bytes);
  }
  label->mutable_block_containers()->Assign(layout.block_containers.begin(), layout.block_containers.end());
  label->set_data_bytes(layout.data_bytes);
}

absl::StatusOr<ftiff::FileLayout> LayoutIn(const label::Label& label) {
  const int count = label.id_size();
  for (const int column :
       {label.index_size(), label.has_content_size(), label.in_file_before_size(), label.variable_offset_size(),
        label.file_offset_size(), label.chunk_bytes_size(), label.container_bytes_size()}) {
    if (column != count) return DataLoss("a label: container columns of {} and {} entries", count, column);
  }
  ftiff::FileLayout layout;
  layout.data_bytes = label.data_bytes();
  for (int i = 0; i < count; ++i) {
    layout.containers.push_back({.id = label.id(i),
                                 .index = label.index(i),
                                 .has_content = label.has_content(i),
                                 .in_file_before = label.in_file_before(i),
                                 .variable_offset = label.variable_offset(i),
                                 .file_offset = label.file_offset(i),
                                 .chunk_bytes = label.chunk_bytes(i),
                                 .container_bytes = label.container_bytes(i)});
  }
  layout.block_containers.assign(label.block_containers().begin(), label.block_containers().end());
  std::uint64_t in_blocks = 0;
  for (const std::uint32_t containers : layout.block_containers) in_blocks += containers;
  if (in_blocks != layout.containers.size()) {
    return DataLoss("a label: block_containers: {} in blocks, of {}", in_blocks, layout.containers.size());
  }
  return layout;
}

// The containers follow each other in the file, and their chunks lie within.
absl::Status CheckPlaces(const ftiff::FileLayout& layout, const SealedMemory& image) {
  if (layout.data_bytes > image.bytes) {
    return DataLoss("a label: data_bytes: {} in an image of {}", layout.data_bytes, image.bytes);
  }
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < layout.containers.size(); ++i) {
    const ftiff::Container& container = layout.containers[i];
    if (container.file_offset < end || container.file_offset > layout.data_bytes ||
        container.container_bytes > layout.data_bytes - container.file_offset) {
      return DataLoss("a label: container {}: {} bytes at {} behind {}, of {}", i, container.container_bytes,
                      container.file_offset, end, layout.data_bytes);
    }
    if (container.chunk_bytes > container.container_bytes || container.index < 0) {
      return DataLoss("a label: container {}: index {}, {} bytes in use of {}", i, container.index,
                      container.chunk_bytes, container.container_bytes);
    }
    end = container.file_offset + container.container_bytes;
  }
  return absl::OkStatus();
}

// Each variable's bytes are in the containers, each once.
absl::Status CheckContent(const catalogue::Catalogue& catalogue, const ftiff::FileLayout& layout) {
  std::map<std::int32_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>> chunks;  // offset, bytes
  for (const local::Variable& variable : catalogue.variables()) chunks[variable.id()];
  for (const ftiff::Container& container : layout.containers) {
    const auto of = chunks.find(container.id);
    if (of == chunks.end()) return DataLoss("a label: id: {} is no variable", container.id);
    if (!container.has_content) continue;
    of->second.emplace_back(container.variable_offset, container.chunk_bytes);
  }
  for (const local::Variable& variable : catalogue.variables()) {
    auto& parts = chunks[variable.id()];
    std::ranges::sort(parts);
    std::uint64_t end = 0;
    for (const auto& [offset, bytes] : parts) {
      if (offset != end)
        return DataLoss("a label: variable {}: {} bytes at {}, not at {}", variable.id(), bytes, offset, end);
      end += bytes;
    }
    if (end != variable.bytes()) {
      return DataLoss("a label: variable {}: {} of {} bytes", variable.id(), end, variable.bytes());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPart(const catalogue::Catalogue& catalogue) {
  if (catalogue.dataset() > std::numeric_limits<std::int32_t>::max()) {
    return DataLoss("a label: dataset: {}", catalogue.dataset());
  }
  if (catalogue.launch() == 0) return DataLoss("a label: launch: is 0");
  if (catalogue.files() || catalogue.file_size() != 0 || catalogue.placement_size() != 0) {
    return DataLoss("a label: part: names files");
  }
  if (catalogue.variables().empty()) return DataLoss("a label: part: no variables");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Md5Digest>> HashesIn(const label::Label& label) {
  std::vector<Md5Digest> hashes(label.last_hashes().size() / sizeof(Md5Digest));
  if (label.last_hashes().size() % sizeof(Md5Digest) != 0 ||
      hashes.size() > static_cast<std::size_t>(label.id_size())) {
    return DataLoss("a label: last_hashes: {} bytes for {} containers", label.last_hashes().size(), label.id_size());
  }
  if (!hashes.empty()) std::memcpy(hashes.data(), label.last_hashes().data(), label.last_hashes().size());
  return hashes;
}

}  // namespace

absl::StatusOr<std::string> EncodeLabel(const CapturedPart& part, const SealedMemory& image) {
  label::Label label;
  label.set_image(image.inode);
  label.set_image_bytes(image.bytes);
  label.set_part(EncodeCatalogue(part.catalogue));
  label.set_name(part.name);
  label.set_user(part.user);
  label.set_job(part.job);
  label.set_mark(part.mark);
  label.set_created_us(part.created_us);
  label.set_layout_a(part.letter == ftiff::Letter::kA);
  PutLayout(part.layout, &label);
  label.set_last_hashes(part.last_hashes.data(), part.last_hashes.size() * sizeof(Md5Digest));
  if (FramedBytes(label) <= kKind.bytes_max) return EncodeFramed(kKind, label);
  return ResourceExhausted("a label of {} bytes, at most {} are possible", FramedBytes(label), kKind.bytes_max);
}

absl::StatusOr<CapturedPart> DecodeLabel(const std::string& frame, const SealedMemory& image) {
  CAIRN_ASSIGN_OR_RETURN(const label::Label label, Parse(frame));
  if (label.image() != image.inode || label.image_bytes() != image.bytes) {
    return DataLoss("a label: image: {} of {} bytes, not {} of {}", label.image(), label.image_bytes(), image.inode,
                    image.bytes);
  }
  for (const std::string* text : {&label.name(), &label.user(), &label.job(), &label.mark()}) {
    if (text->size() > kTextBytesMax || text->find('\0') != std::string::npos) {
      return DataLoss("a label: a text of {} bytes, at most {} without a NUL are possible", text->size(),
                      kTextBytesMax);
    }
  }
  CapturedPart part{.catalogue = {},
                    .name = label.name(),
                    .user = label.user(),
                    .job = label.job(),
                    .mark = label.mark(),
                    .created_us = label.created_us(),
                    .letter = label.layout_a() ? ftiff::Letter::kA : ftiff::Letter::kF,
                    .layout = {},
                    .last_hashes = {}};
  CAIRN_ASSIGN_OR_RETURN(part.catalogue, DecodeCatalogue("a label: part", label.part()));
  CAIRN_RETURN_IF_ERROR(CheckPart(part.catalogue));
  CAIRN_ASSIGN_OR_RETURN(part.layout, LayoutIn(label));
  CAIRN_RETURN_IF_ERROR(CheckPlaces(part.layout, image));
  CAIRN_RETURN_IF_ERROR(CheckContent(part.catalogue, part.layout));
  CAIRN_ASSIGN_OR_RETURN(part.last_hashes, HashesIn(label));
  return part;
}

// --- To be written ---

bool ImageLabel::Clear() {
  if (sealed_ && !WriteNumber(fd_.get(), kSealOffset, 0)) return false;
  sealed_ = false;
  bytes_ = 0;
  return true;
}

absl::Status ImageLabel::Write(const CapturedPart& part, const SealedMemory& image) {
  if (sealed_) return FailedPrecondition("a label: it is sealed");
  bytes_ = 0;
  CAIRN_ASSIGN_OR_RETURN(const std::string frame, EncodeLabel(part, image));
  const ssize_t written = ::pwrite(fd_.get(), frame.data(), frame.size(), kFrameOffset);
  if (written != static_cast<ssize_t>(frame.size())) {
    return ResourceExhausted("a label of {} bytes: {}", frame.size(), std::strerror(errno));
  }
  bytes_ = frame.size();
  return absl::OkStatus();
}

void ImageLabel::Seal() {
  if (bytes_ != 0) sealed_ = WriteNumber(fd_.get(), kSealOffset, bytes_);
}

// --- To be taken up ---

bool IsLabel(const SealedMemory& memory) {
  return memory.bytes == kLabelBytes;
}

absl::StatusOr<std::optional<std::string>> ReadLabel(int fd, std::uint64_t tries_max) {
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t bytes, ReadNumber(fd, kSealOffset));
  if (bytes == 0) return std::nullopt;
  if (bytes > kKind.bytes_max) return DataLoss("a label: offset {}: a frame of {} bytes", kSealOffset, bytes);
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t tries, ReadNumber(fd, kTriesOffset));
  if (tries >= tries_max) return ResourceExhausted("a label: it was tried {} times to take up its image", tries);
  std::string frame(bytes, '\0');
  if (::pread(fd, frame.data(), frame.size(), kFrameOffset) != static_cast<ssize_t>(frame.size())) {
    return DataLoss("a label: offset {}: less than {} bytes", kFrameOffset, frame.size());
  }
  return frame;
}

void CountTry(int fd, int by) {
  const absl::StatusOr<std::uint64_t> tries = ReadNumber(fd, kTriesOffset);
  if (tries.ok()) WriteNumber(fd, kTriesOffset, *tries + static_cast<std::uint64_t>(by));
}

void UnsealLabel(int fd) {
  WriteNumber(fd, kSealOffset, 0);
}

std::uint64_t ImageOfLabel(const std::string& frame) {
  const absl::StatusOr<label::Label> label = Parse(frame);
  return label.ok() ? label->image() : 0;
}

}  // namespace cairn

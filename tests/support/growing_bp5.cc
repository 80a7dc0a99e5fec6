#include "tests/support/growing_bp5.h"

#include <cstring>
#include <span>

#include "storage/base/status.h"
#include "storage/file/bpdir/directory.h"
#include "storage/format/bp5/selection.h"

namespace cairn {
namespace {

std::uint64_t Element(std::uint64_t tag, std::uint64_t i) {
  return tag * 1'000'003 + i * 17;
}

absl::Status Cut(Disk& disk, const std::string& path, std::uint64_t bytes) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, disk.Open(path, {.writable = true}));
  return file->Truncate(bytes);
}

absl::StatusOr<std::uint64_t> ReadTag(const bp5::Metadata& metadata, std::uint32_t step) {
  const auto number = metadata.FindVariable("tag");
  if (!number) return DataLoss("step {} has no tag", step);
  CAIRN_ASSIGN_OR_RETURN(const std::span<const std::byte> at, metadata.Scalar(*number, step, 0));
  std::uint64_t tag = 0;
  if (at.size() == sizeof tag) std::memcpy(&tag, at.data(), sizeof tag);
  return tag;
}

absl::Status CheckStep(bpdir::Directory& directory, std::uint32_t step) {
  const bp5::Metadata& metadata = directory.metadata();
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t tag, ReadTag(metadata, step));
  const auto x = metadata.FindVariable("x");
  if (!x) return DataLoss("no x");
  CAIRN_ASSIGN_OR_RETURN(const Extents shape, metadata.Shape(*x, step));
  std::vector<std::uint64_t> read(shape[0]);
  CAIRN_ASSIGN_OR_RETURN(const bool covered, bp5::ReadSelection(metadata, *x, step, {{0}, {shape[0]}}, directory.data(),
                                                                std::as_writable_bytes(std::span(read))));
  if (!covered) return DataLoss("step {}: holes", step);
  for (std::uint64_t i = 0; i < read.size(); ++i) {
    if (read[i] != Element(tag, i)) return DataLoss("step {} of tag {}: element {} is another's", step, tag, i);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GrowingBp5::Create(std::uint32_t id) {
  CAIRN_ASSIGN_OR_RETURN(writer_, bpdir::Writer::Create(disk_, path_, {.active = true, .id = id}));
  return absl::OkStatus();
}

absl::Status GrowingBp5::Step() {
  const std::uint32_t step = writer_->steps();
  const std::uint64_t tag = seed_ * 1000 + step + 1;
  const std::vector<std::uint32_t> subfiles = {0, 1};
  std::vector<bp5::EncodedStep> encoded;
  std::vector<bp5::WriterData> data;
  for (std::uint32_t w = 0; w < 2; ++w) {
    std::vector<std::uint64_t> values(elements_);
    for (std::uint64_t i = 0; i < elements_; ++i) values[i] = Element(tag, w * elements_ + i);
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t position, writer_->WriteData(w, std::as_bytes(std::span(values))));
    data.push_back({.flushed = {}, .position = position});
    bp5::Put number;
    number.name = "tag";
    number.type = bp5::Type::kUint64;
    number.value.assign(reinterpret_cast<const char*>(&tag), sizeof tag);
    bp5::Put x;
    x.name = "x";
    x.kind = bp5::Kind::kGlobalArray;
    x.type = bp5::Type::kUint64;
    x.shape = {2 * elements_};
    x.blocks.resize(1);
    x.blocks[0].box = {{w * elements_}, {elements_}};
    std::vector<bp5::Put> puts = {number, x};
    for (std::uint32_t i = 1; i <= step / 3; ++i) {
      number.name = fmt::format("n{}", i);
      puts.push_back(number);
    }
    CAIRN_ASSIGN_OR_RETURN(bp5::EncodedStep record, encoders_[w].Encode(puts, (elements_ * 8 + 15) / 16 * 16));
    encoded.push_back(std::move(record));
  }
  return writer_->EndStep(encoded, data, subfiles);
}

absl::Status GrowingBp5::CutTo(std::uint32_t steps, std::uint64_t seed) {
  writer_ = nullptr;
  std::uint64_t index = 64;
  if (steps > 0) {
    CAIRN_ASSIGN_OR_RETURN(const auto directory, bpdir::Directory::Open(bpdir::ReadFiles(disk_, path_)));
    index = directory->metadata().index_end(steps - 1);
  }
  CAIRN_RETURN_IF_ERROR(Cut(disk_, path_ + "/md.idx", index));
  CAIRN_ASSIGN_OR_RETURN(writer_, bpdir::Writer::Append(disk_, path_, /*take_over=*/true));
  encoders_ = std::vector<bp5::WriterEncoder>(2);
  seed_ = seed;
  return absl::OkStatus();
}

absl::StatusOr<std::uint32_t> WholeSteps(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const auto directory, bpdir::Directory::Open(bpdir::ReadFiles(disk, path)));
  const std::uint32_t steps = directory->metadata().steps();
  for (std::uint32_t step = 0; step < steps; ++step) CAIRN_RETURN_IF_ERROR(CheckStep(*directory, step));
  return steps;
}

std::uint64_t TagOf(Disk& disk, const std::string& path, std::uint32_t step) {
  const auto directory = bpdir::Directory::Open(bpdir::ReadFiles(disk, path));
  if (!directory.ok() || step >= (*directory)->metadata().steps()) return 0;
  return ReadTag((*directory)->metadata(), step).value_or(0);
}

bool IsActive(Disk& disk, const std::string& path) {
  const auto index = ReadWhole(disk, path + "/md.idx", 1 << 30);
  return index.ok() && index->size() >= 64 && (*index)[bp5::kActiveOffset] == 1;
}

}  // namespace cairn

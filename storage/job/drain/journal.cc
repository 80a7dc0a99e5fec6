#include "storage/job/drain/journal.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/base/status.h"

namespace cairn::drain {
namespace {

constexpr std::string_view kHead = "cairn drain journal 2\n";
constexpr std::size_t kFrameBytes = 8;               // size and CRC
constexpr std::size_t kFieldsBytes = 7 * 8 + 4 + 1;  // of a record, before its path
constexpr std::size_t kRecordBytesMax = kFieldsBytes + (64 << 10);
constexpr std::size_t kBeforeMax = 64;        // drains in a row that were killed before they renamed
constexpr std::uint64_t kReplacedMax = 4096;  // records, before they are worth a rewrite

static_assert(std::endian::native == std::endian::little);

template <typename Integer>
void Put(Integer value, std::string& bytes) {
  static_assert(std::is_integral_v<Integer>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename Integer>
void Get(std::string_view& bytes, Integer* value) {
  std::memcpy(value, bytes.data(), sizeof *value);
  bytes.remove_prefix(sizeof *value);
}

std::uint32_t SumOf(std::string_view bytes) {
  return Crc32c(std::as_bytes(std::span(bytes)));
}

void PutRecord(const std::string& path, const Record& record, std::string& bytes) {
  std::string body;
  const Identity& source = record.source;
  const Made& there = record.there;
  for (const std::uint64_t field : {source.inode, source.bytes, there.inode, there.bytes}) Put(field, body);
  for (const std::int64_t field : {source.mtime_ns, source.ctime_ns, there.mtime_ns}) Put(field, body);
  Put(record.crc32c, body);
  Put(static_cast<std::uint8_t>(record.ours ? 1 : 0), body);
  body += path;
  Put(static_cast<std::uint32_t>(body.size()), bytes);
  Put(SumOf(body), bytes);
  bytes += body;
}

// REQUIRES: at least kFieldsBytes.
Record GetRecord(std::string_view body, std::string* path) {
  Record record;
  Identity& source = record.source;
  Made& there = record.there;
  for (std::uint64_t* field : {&source.inode, &source.bytes, &there.inode, &there.bytes}) Get(body, field);
  for (std::int64_t* field : {&source.mtime_ns, &source.ctime_ns, &there.mtime_ns}) Get(body, field);
  std::uint8_t ours = 0;
  Get(body, &record.crc32c);
  Get(body, &ours);
  record.ours = ours == 1;
  *path = body;
  return record;
}

// The bytes of the record at the front; none: it is cut off, or does not fit.
std::optional<std::string_view> FrontRecord(std::string_view bytes) {
  if (bytes.size() < kFrameBytes) return std::nullopt;
  std::uint32_t size = 0, sum = 0;
  Get(bytes, &size);
  Get(bytes, &sum);
  if (size < kFieldsBytes || size > kRecordBytesMax || bytes.size() < size) return std::nullopt;
  const std::string_view body = bytes.substr(0, size);
  if (SumOf(body) != sum) return std::nullopt;
  return body;
}

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(Tree& target, const std::string& folder) {
  std::unique_ptr<Journal> journal(new Journal(target, folder));
  CAIRN_ASSIGN_OR_RETURN(journal->file_, target.OpenToWrite(folder + "/journal"));
  CAIRN_ASSIGN_OR_RETURN(const bool whole, journal->Read());
  if (!whole) CAIRN_RETURN_IF_ERROR(journal->file_->Truncate(journal->end_));
  if (journal->end_ == 0) journal->unwritten_ = kHead;
  CAIRN_RETURN_IF_ERROR(journal->Shrink());
  return journal;
}

absl::StatusOr<std::unique_ptr<Journal>> Journal::Look(Tree& target, const std::string& folder) {
  std::unique_ptr<Journal> journal(new Journal(target, folder));
  auto file = target.Open(folder + "/journal");
  if (absl::IsNotFound(file.status())) return journal;
  if (!file.ok()) return file.status();
  journal->file_ = *std::move(file);
  CAIRN_RETURN_IF_ERROR(journal->Read().status());
  return journal;
}

absl::StatusOr<bool> Journal::Read() {
  std::string bytes;
  std::vector<std::byte> buffer(1 << 20);
  std::uint64_t read = 0;
  bool headed = false;
  for (;;) {
    CAIRN_ASSIGN_OR_RETURN(const std::size_t n, file_->ReadAt(read, buffer));
    if (n == 0) break;
    read += n;
    bytes.append(reinterpret_cast<const char*>(buffer.data()), n);
    if (!headed && bytes.size() >= kHead.size()) {
      if (!bytes.starts_with(kHead)) {
        return FailedPrecondition("{}/journal: not a journal of version 2: another release has written it", folder_);
      }
      headed = true;
      end_ = kHead.size();
      bytes.erase(0, kHead.size());
    }
    if (!headed) continue;
    std::string_view left = bytes;
    while (const auto body = FrontRecord(left)) {
      std::string path;
      const Record record = GetRecord(*body, &path);
      Take(path, record);
      left.remove_prefix(kFrameBytes + body->size());
      end_ += kFrameBytes + body->size();
      ++in_file_;
    }
    bytes.erase(0, bytes.size() - left.size());
    if (bytes.size() > kFrameBytes + kRecordBytesMax) break;  // what is in front does not fit
  }
  return read == end_;
}

const Record* Journal::Find(const std::string& path) const {
  const auto found = records_.find(path);
  return found == records_.end() ? nullptr : &found->second;
}

void Journal::Take(const std::string& path, Record record) {
  const auto [known, added] = records_.try_emplace(path);
  if (!added) {
    record.before = std::move(known->second.before);
    if (record.before.size() == kBeforeMax) record.before.erase(record.before.begin());
    const Record& old = known->second;
    if (old.ours && old.there != record.there) record.before.push_back(old.there);
  }
  known->second = std::move(record);
}

void Journal::Confirm(const std::string& path) {
  Record& record = records_.at(path);
  record.confirmed = true;
  record.before.clear();
}

void Journal::Doubt(const std::string& path) {
  if (const auto known = records_.find(path); known != records_.end()) known->second.confirmed = false;
}

void Journal::Add(const std::string& path, const Record& record) {
  Take(path, record);
  PutRecord(path, record, unwritten_);
  ++in_file_;
}

absl::Status Journal::Write() {
  if (unwritten_.empty()) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(file_->WriteAt(end_, BytesOf(unwritten_)));
  end_ += unwritten_.size();
  unwritten_.clear();
  return absl::OkStatus();
}

absl::Status Journal::Shrink() {
  if (in_file_ <= 2 * records_.size() + kReplacedMax) return absl::OkStatus();
  std::uint64_t needed = 0;
  for (const auto& [path, record] : records_) needed += 1 + record.before.size();
  return in_file_ > 2 * needed ? Rewrite() : absl::OkStatus();
}

absl::Status Journal::Rewrite() {
  const std::string work = folder_ + "/journal.new";
  if (const absl::Status removed = target_.Remove(work); !removed.ok() && !absl::IsNotFound(removed)) return removed;
  CAIRN_ASSIGN_OR_RETURN(auto file, target_.Create(work, 0600));
  std::string bytes(kHead);
  std::uint64_t end = 0, in_file = 0;
  const auto write = [&]() -> absl::Status {
    CAIRN_RETURN_IF_ERROR(file->WriteAt(end, BytesOf(bytes)));
    end += bytes.size();
    bytes.clear();
    return absl::OkStatus();
  };
  for (const auto& [path, record] : records_) {
    for (const Made& made : record.before) {
      Record earlier;
      earlier.there = made;
      earlier.ours = true;
      PutRecord(path, earlier, bytes);
    }
    PutRecord(path, record, bytes);
    in_file += 1 + record.before.size();
    if (bytes.size() > (1 << 20)) CAIRN_RETURN_IF_ERROR(write());
  }
  CAIRN_RETURN_IF_ERROR(write());
  CAIRN_RETURN_IF_ERROR(file->Sync());
  CAIRN_RETURN_IF_ERROR(target_.Rename(work, folder_ + "/journal"));
  CAIRN_RETURN_IF_ERROR(target_.SyncFolder(folder_));
  file_ = std::move(file);
  end_ = end;
  in_file_ = in_file;
  unwritten_.clear();  // it is among them
  return absl::OkStatus();
}

}  // namespace cairn::drain

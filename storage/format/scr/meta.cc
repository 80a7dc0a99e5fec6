#include "storage/format/scr/meta.h"

#include <utility>

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/scr/fields.h"

namespace cairn::scr {
namespace {

using kvtree::Tree;

constexpr std::size_t kMetaKeys = 22;  // that PutMeta and PutFile write, at most
constexpr std::uint64_t kNanosecondsMax = 999'999'999;

constexpr std::pair<FileType, std::string_view> kTypes[] = {
    {FileType::kFull, "FULL"},
    {FileType::kPartner, "PARTNER"},
    {FileType::kXor, "XOR"},
};

bool IsBaseName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

template <typename T>
absl::StatusOr<T> GetNumber(const meta::Field<T>& field, const Tree& tree) {
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t value, tree.GetUnsigned(field.key));
  if (value > field.max) return DataLoss("{} is {}, more than {}", field.key, value, field.max);
  return static_cast<T>(value);
}

template <typename T>
void PutOptional(const meta::Field<T>& field, const std::optional<T>& value, Tree& tree) {
  if (value) {
    meta::Set(field, *value, tree);
  } else {
    tree.Erase(field.key);
  }
}

void PutString(const meta::Field<std::string>& field, const std::string& value, Tree& tree) {
  PutText(field.key, value, tree);
  if (!field.second.empty()) PutText(field.second, value, tree);
}

}  // namespace

namespace meta {

template <>
void Set(const Field<std::string>& field, const std::string& value, Tree& tree) {
  tree.Set(field.key, value);
  if (!field.second.empty()) tree.Set(field.second, value);
}

template <>
void Set(const Field<FileType>& field, const FileType& value, Tree& tree) {
  for (const auto& [type, name] : kTypes) {
    if (type == value) tree.Set(field.key, name);
  }
}

template <>
void Set(const Field<bool>& field, const bool& value, Tree& tree) {
  tree.SetBool(field.key, value);
}

template <>
void Set(const Field<std::uint32_t>& field, const std::uint32_t& value, Tree& tree) {
  if (field.form == Form::kCrc32) {
    tree.SetCrc32(field.key, value);
  } else {
    tree.Set(field.key, std::uint64_t{value});
  }
}

template <>
void Set(const Field<std::uint64_t>& field, const std::uint64_t& value, Tree& tree) {
  tree.Set(field.key, value);
}

template <>
void Set(const Field<timespec>& field, const timespec& value, Tree& tree) {
  tree.SetInt(field.key, value.tv_sec);
  tree.SetInt(field.second, value.tv_nsec);
}

template <>
absl::StatusOr<std::string> Get(const Field<std::string>& field, const Tree& tree) {
  absl::StatusOr<std::string> value = tree.GetString(field.key);
  if (absl::IsNotFound(value.status()) && !field.second.empty()) value = tree.GetString(field.second);
  if (!value.ok() || field.form == Form::kPlain) return value;
  if (value->empty()) return NotFound("no {}", field.key);
  if (field.form == Form::kDirectory && !IsHarmlessAbsolute(*value)) {
    return DataLoss("{} {} is not absolute or leads upwards", field.key, Quoted(*value));
  }
  if (field.form == Form::kBaseName && !IsBaseName(*value)) {
    return DataLoss("{} {} is no base name", field.key, Quoted(*value));
  }
  return value;
}

template <>
absl::StatusOr<FileType> Get(const Field<FileType>& field, const Tree& tree) {
  const std::optional<std::string_view> text = tree.Get(field.key);
  if (!text) return NotFound("no {}", field.key);
  for (const auto& [type, name] : kTypes) {
    if (*text == name) return type;
  }
  return DataLoss("{} is {}, not FULL, PARTNER or XOR", field.key, Quoted(*text));
}

template <>
absl::StatusOr<bool> Get(const Field<bool>& field, const Tree& tree) {
  return tree.GetBool(field.key);
}

template <>
absl::StatusOr<std::uint32_t> Get(const Field<std::uint32_t>& field, const Tree& tree) {
  return field.form == Form::kCrc32 ? tree.GetCrc32(field.key) : GetNumber(field, tree);
}

template <>
absl::StatusOr<std::uint64_t> Get(const Field<std::uint64_t>& field, const Tree& tree) {
  return GetNumber(field, tree);
}

template <>
absl::StatusOr<timespec> Get(const Field<timespec>& field, const Tree& tree) {
  timespec value{};
  CAIRN_ASSIGN_OR_RETURN(value.tv_sec, tree.GetInt(field.key));
  CAIRN_RETURN_IF_ERROR(TakeUpTo(kNanosecondsMax, tree, field.second, value.tv_nsec));
  return value;
}

}  // namespace meta

void PutStat(const Meta& meta, Tree& tree) {
  meta::Set(meta::kSize, meta.bytes, tree);
  meta::Set(meta::kMode, meta.mode, tree);
  meta::Set(meta::kUid, meta.uid, tree);
  meta::Set(meta::kGid, meta.gid, tree);
  meta::Set(meta::kAtime, meta.atime, tree);
  meta::Set(meta::kCtime, meta.ctime, tree);
  meta::Set(meta::kMtime, meta.mtime, tree);
}

void PutMeta(const Meta& meta, Tree& tree) {
  tree.Reserve(kMetaKeys);
  PutString(meta::kOrig, meta.original, tree);
  PutString(meta::kPath, meta.directory, tree);
  PutString(meta::kName, meta.name, tree);
  meta::Set(meta::kType, meta.type, tree);
  meta::Set(meta::kRanks, meta.ranks, tree);
  meta::Set(meta::kComplete, meta.complete, tree);
  PutStat(meta, tree);
  PutOptional(meta::kCrc, meta.crc32, tree);
  PutOptional(meta::kCheckpoint, meta.dataset, tree);
  PutOptional(meta::kRank, meta.rank, tree);
}

absl::Status TakeStat(const Tree& tree, Meta& meta) {
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kSize, tree), meta.bytes));
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kMode, tree), meta.mode));
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kUid, tree), meta.uid));
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kGid, tree), meta.gid));
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kAtime, tree), meta.atime));
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kCtime, tree), meta.ctime));
  return Take(meta::Get(meta::kMtime, tree), meta.mtime);
}

absl::StatusOr<Meta> GetMeta(const Tree& tree) {
  Meta meta;
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kType, tree), meta.type));
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kOrig, tree), meta.original));
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kPath, tree), meta.directory));
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kName, tree), meta.name));
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kRanks, tree), meta.ranks));
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kComplete, tree), meta.complete));
  CAIRN_RETURN_IF_ERROR(TakeStat(tree, meta));
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kCrc, tree), meta.crc32));
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kCheckpoint, tree), meta.dataset));
  CAIRN_RETURN_IF_ERROR(Take(meta::Get(meta::kRank, tree), meta.rank));
  return meta;
}

absl::Status CheckCached(const Meta& meta, std::uint64_t bytes) {
  if (!meta.complete) return FailedPrecondition("COMPLETE is 0: it was never completed");
  if (meta.bytes != bytes) return DataLoss("SIZE is {}, but the file has {} bytes", meta.bytes, bytes);
  return absl::OkStatus();
}

}  // namespace cairn::scr

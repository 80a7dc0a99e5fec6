#include "storage/format/bp5/writer_format.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>
#include <utility>

#include "storage/base/status.h"

namespace cairn::bp5 {
namespace {

constexpr std::string_view kInteger = "integer", kUnsigned = "unsigned integer", kFloat = "float";

std::uint32_t Align(std::uint64_t at, std::uint32_t to) {
  return static_cast<std::uint32_t>((at + to - 1) / to * to);
}

std::string ScalarFieldType(Type type) {
  switch (type) {
    case Type::kUint8:
    case Type::kUint16:
    case Type::kUint32:
    case Type::kUint64:
      return std::string(kUnsigned);
    case Type::kFloat:
    case Type::kDouble:
    case Type::kLongDouble:
      return std::string(kFloat);
    case Type::kComplexFloat:
      return "complex4";
    case Type::kComplexDouble:
      return "complex8";
    case Type::kString:
      return "string";
    default:
      return std::string(kInteger);
  }
}

std::string ArrayFieldType(Type type) {
  return IsOrdered(type) ? fmt::format("MetaArrayMM{}", ElementBytes(type)) : "MetaArray";
}

NewField FieldOf(const FieldSpec& spec) {
  const char kind = static_cast<char>(spec.kind);
  if (IsArray(spec.kind)) {
    return {.name = fmt::format("BP{}_{}_{}_{}", kind, ElementBytes(spec.type), static_cast<int>(spec.type), spec.name),
            .type = ArrayFieldType(spec.type),
            .element_bytes = IsOrdered(spec.type) ? kArrayRecordBytesWithMinMax : kArrayRecordBytes};
  }
  return {.name = fmt::format("BP{}_{}", kind, spec.name),
          .type = ScalarFieldType(spec.type),
          .element_bytes = spec.type == Type::kString ? 8 : ElementBytes(spec.type)};
}

NewStructure ArrayStructure(Type type) {
  NewStructure structure{.name = ArrayFieldType(type),
                         .fixed_bytes = kArrayRecordBytes,
                         .fields = {{"Dims", "integer", 8, 0},
                                    {"BlockCount", "integer", 8, 8},
                                    {"DBCount", "integer", 8, 16},
                                    {"Shape", "integer[Dims]", 8, 24},
                                    {"Count", "integer[DBCount]", 8, 32},
                                    {"Offset", "integer[DBCount]", 8, 40},
                                    {"DataBlockLocation", "integer[BlockCount]", 8, 48}}};
  if (!IsOrdered(type)) return structure;
  structure.fixed_bytes = kArrayRecordBytesWithMinMax;
  structure.fields.push_back(
      {"MinMax", fmt::format("char[{}][BlockCount]", 2 * ElementBytes(type)), 1, kArrayRecordBytes});
  return structure;
}

NewStructure ComplexStructure(Type type) {
  const std::uint32_t part = ElementBytes(type) / 2;
  return {.name = ScalarFieldType(type),
          .fixed_bytes = 2 * part,
          .alignment = part,
          .fields = {{"real", std::string(kFloat), part, 0}, {"imag", std::string(kFloat), part, part}}};
}

std::vector<NewStructure> UsedBy(std::span<const FieldSpec> specs) {
  std::vector<NewStructure> used;
  std::set<std::string> names;
  for (const FieldSpec& spec : specs) {
    const bool is_array = IsArray(spec.kind);
    if (!is_array && spec.type != Type::kComplexFloat && spec.type != Type::kComplexDouble) continue;
    if (!names.insert(is_array ? ArrayFieldType(spec.type) : ScalarFieldType(spec.type)).second) continue;
    used.push_back(is_array ? ArrayStructure(spec.type) : ComplexStructure(spec.type));
  }
  return used;
}

// Readers take an identifier with such a hash for one of another kind (section 13, rule 5).
bool LooksForeign(const FormatId& id) {
  return std::all_of(id.bytes.begin() + 4, id.bytes.begin() + 8, [](std::uint8_t byte) { return byte == 0; });
}

bool Equal(const WriterFormat& format, std::span<const FieldSpec> specs) {
  return std::ranges::equal(format.fields(), specs, [](const WriterFormat::FieldPlace& field, const FieldSpec& spec) {
    return field.kind == spec.kind && field.type == spec.type && field.name == spec.name;
  });
}

std::size_t HashOf(std::span<const FieldSpec> specs) {
  std::size_t hash = specs.size();
  for (const FieldSpec& spec : specs) {
    const std::size_t kind = static_cast<std::size_t>(spec.kind) << 8 | static_cast<std::size_t>(spec.type);
    hash = (hash ^ std::hash<std::string_view>()(spec.name) ^ kind) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

// All formats that somebody has, and the last few that were asked for, so that writers that come one after the other
// share theirs, too.
class Shared {
 public:
  std::shared_ptr<const WriterFormat> Find(std::size_t hash, std::span<const FieldSpec> specs) {
    absl::MutexLock lock(&mutex_);
    return FindLocked(hash, specs);
  }

  // Answers the one that was added meanwhile, if there is such.
  std::shared_ptr<const WriterFormat> Add(std::size_t hash, std::span<const FieldSpec> specs,
                                          std::shared_ptr<const WriterFormat> format) {
    absl::MutexLock lock(&mutex_);
    if (std::shared_ptr<const WriterFormat> other = FindLocked(hash, specs)) return other;
    if (known_.size() >= sweep_at_) {
      std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
      sweep_at_ = 2 * known_.size() + kKeptMax;
    }
    known_.emplace(hash, format);
    Keep(format);
    return format;
  }

 private:
  static constexpr std::size_t kKeptMax = 16,
                               kKeptBytesMax = 8 << 20;  // of blocks; a format has about three times that

  std::shared_ptr<const WriterFormat> FindLocked(std::size_t hash, std::span<const FieldSpec> specs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto [begin, end] = known_.equal_range(hash);
    for (auto at = begin; at != end; ++at) {
      std::shared_ptr<const WriterFormat> format = at->second.lock();
      if (format != nullptr && Equal(*format, specs)) {
        Keep(format);
        return format;
      }
    }
    return nullptr;
  }

  void Keep(const std::shared_ptr<const WriterFormat>& format) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!kept_.empty() && kept_.front() == format) return;
    if (const auto found = std::ranges::find(kept_, format); found != kept_.end()) {
      kept_bytes_ -= format->block().bytes.size();
      kept_.erase(found);
    }
    kept_.push_front(format);
    kept_bytes_ += format->block().bytes.size();
    while (kept_.size() > kKeptMax || (kept_bytes_ > kKeptBytesMax && kept_.size() > 1)) {
      kept_bytes_ -= kept_.back()->block().bytes.size();
      kept_.pop_back();
    }
  }

  absl::Mutex mutex_;
  std::unordered_multimap<std::size_t, std::weak_ptr<const WriterFormat>> known_ ABSL_GUARDED_BY(mutex_);
  std::size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = kKeptMax;
  std::deque<std::shared_ptr<const WriterFormat>> kept_ ABSL_GUARDED_BY(mutex_);  // the last used first
  std::size_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

Shared& TheShared() {
  static Shared& shared = *new Shared;  // never destroyed: static objects may have encoders
  return shared;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const WriterFormat>> WriterFormat::For(std::span<const FieldSpec> specs) {
  const std::size_t hash = HashOf(specs);
  if (std::shared_ptr<const WriterFormat> format = TheShared().Find(hash, specs)) return format;
  CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<const WriterFormat> format, Make(specs));
  return TheShared().Add(hash, specs, std::move(format));
}

absl::StatusOr<std::shared_ptr<const WriterFormat>> WriterFormat::Make(std::span<const FieldSpec> specs) {
  NewStructure top{.name = "MetaData",
                   .fields = {{"BitFieldCount", "integer", 8, 0},
                              {"BitField", "integer[BitFieldCount]", 8, 8},
                              {"DataBlockSize", "integer", 8, 16}}};
  std::uint64_t end = 24;
  std::shared_ptr<WriterFormat> format(new WriterFormat);
  format->fields_.reserve(specs.size());  // places_ refers to the names
  format->places_.reserve(specs.size());
  for (const FieldSpec& spec : specs) {
    NewField field = FieldOf(spec);
    // Records would be too large long before their offsets overflow.
    if (end > (std::uint64_t{1} << 30)) return InvalidArgument("{}: too many variables before it", spec.name);
    field.offset = Align(end, field.element_bytes);  // as the reference writer does; multiples of 8 would do for arrays
    end = std::uint64_t{field.offset} + field.element_bytes;
    if (field.type == kFloat && field.element_bytes == 16) top.alignment = 16;
    format->fields_.push_back({std::string(spec.name), spec.kind, spec.type, field.offset});
    const std::uint32_t place = static_cast<std::uint32_t>(format->fields_.size() - 1);
    if (!format->places_.emplace(format->fields_.back().name, place).second) {
      return InvalidArgument("{}: put twice in a step", spec.name);
    }
    top.fields.push_back(std::move(field));
  }
  top.fixed_bytes = static_cast<std::uint32_t>(end);
  do {
    CAIRN_ASSIGN_OR_RETURN(format->block_, EncodeFormat(top, UsedBy(specs)));
    format->fixed_bytes_ = std::exchange(top.fixed_bytes, top.fixed_bytes + 8);
  } while (LooksForeign(format->block_.id));
  return format;
}

}  // namespace cairn::bp5

#include "storage/format/bp5/encode.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/format/bp5/attribute_encode.h"
#include "storage/format/bp5/put_check.h"
#include "storage/format/bp5/record.h"
#include "storage/format/bp5/writer_format.h"

namespace cairn::bp5 {
namespace {

static_assert(std::endian::native == std::endian::little);

// After so many steps on end in which less than half of the format's fields were written, the last of them starts
// afresh. With as many new variables in each step a format then has one, two and three times these fields in turn. So
// on average a record has one unused field (at most 64 bytes) for each that is used, which in a global array has 112
// with its variable parts: the metadata stays below twice the records, formats included (bp5_bench: 1.8). A third step
// would miss that; with one alone a writer that puts little in every second step would change its format in each.
constexpr std::uint32_t kSparseSteps = 2;

constexpr std::uint32_t kUnplaced = ~std::uint32_t{0};

std::uint64_t VariableBytes(const Put& put) {
  if (!IsArray(put.kind)) return put.value.size() + 1;
  const std::uint64_t dimensions = put.blocks.front().box.count.size(), blocks = put.blocks.size();
  std::uint64_t numbers = dimensions * blocks + blocks;  // counts, locations
  numbers += put.shape.size();                           // not of local arrays
  if (put.kind == Kind::kGlobalArray) numbers += dimensions * blocks;
  return 8 * numbers + (IsOrdered(put.type) ? 2 * ElementBytes(put.type) * blocks : 0);
}

void FillArray(const Put& put, std::uint64_t at, RecordWriter& record) {
  const std::uint64_t dimensions = put.blocks.front().box.count.size(), blocks = put.blocks.size();
  record.SetNumber(at, dimensions);
  record.SetNumber(at + 8, blocks);
  record.SetNumber(at + 16, dimensions * blocks);
  if (!put.shape.empty()) {
    record.SetNumber(at + 24, record.BeginArray());
    for (const std::uint64_t extent : put.shape) record.AddNumber(extent);
  }
  record.SetNumber(at + 32, record.BeginArray());
  for (const PutBlock& block : put.blocks) {
    for (const std::uint64_t count : block.box.count) record.AddNumber(count);
  }
  if (put.kind == Kind::kGlobalArray) {
    record.SetNumber(at + 40, record.BeginArray());
    for (const PutBlock& block : put.blocks) {
      for (const std::uint64_t start : block.box.start) record.AddNumber(start);
    }
  }
  record.SetNumber(at + 48, record.BeginArray());
  for (const PutBlock& block : put.blocks) record.AddNumber(block.location);
  if (!IsOrdered(put.type)) return;
  record.SetNumber(at + kArrayRecordBytes, record.BeginArray());
  // One of them unknown: that of the whole is, too.
  const bool known =
      std::ranges::all_of(put.blocks, [](const PutBlock& block) { return !block.min_max.empty() || Empty(block.box); });
  for (const PutBlock& block : put.blocks) {
    record.AddBytes(known && !Empty(block.box) ? block.min_max : NoMinMaxOf(put.type));
  }
}

void FillValue(const Put& put, std::uint64_t at, RecordWriter& record) {
  if (put.type == Type::kString) {
    // An empty text has a target, too: ADIOS2 follows the pointer of a string that was written, null or not.
    record.SetNumber(at, record.AddString(put.value));
  } else {
    record.SetBytes(at, put.value);
  }
}

// `put_of`: of each field, the place among `puts`, or kUnplaced.
std::string EncodeRecord(const WriterFormat& format, std::span<const Put> puts, std::span<const std::uint32_t> put_of,
                         std::uint64_t data_block_bytes) {
  std::size_t last = 0, fields = put_of.size();
  std::uint64_t variable_bytes = 8 * (fields / 64 + 1);
  for (const Put& put : puts) variable_bytes += VariableBytes(put) + 8;  // before an array up to 7 bytes of padding
  for (std::size_t i = 0; i < fields; ++i) {
    if (put_of[i] != kUnplaced) last = i + 1;
  }
  RecordWriter record(format.block().id, format.fixed_bytes(), variable_bytes);
  record.SetNumber(16, data_block_bytes);
  if (last > 0) {
    record.SetNumber(0, (last + 63) / 64);
    record.SetNumber(8, record.BeginArray());
  }
  for (std::size_t begin = 0; begin < last; begin += 64) {
    std::uint64_t word = 0;
    for (std::size_t i = begin; i < std::min(last, begin + 64); ++i) {
      word |= std::uint64_t{put_of[i] != kUnplaced} << (i - begin);
    }
    record.AddNumber(word);
  }
  for (std::size_t i = 0; i < last; ++i) {
    if (put_of[i] == kUnplaced) continue;
    const Put& put = puts[put_of[i]];
    const std::uint64_t at = format.fields()[i].offset;
    IsArray(put.kind) ? FillArray(put, at, record) : FillValue(put, at, record);
  }
  return std::move(record).Finish();
}

struct Known {
  Kind kind;
  Type type;
  std::uint32_t dimensions;
  friend bool operator==(const Known&, const Known&) = default;
};

Known KnownOf(const Put& put) {
  const std::size_t dimensions = put.blocks.empty() ? 0 : put.blocks.front().box.count.size();
  return {put.kind, put.type, static_cast<std::uint32_t>(dimensions)};
}

absl::Status Same(const Put& put, const Known& before) {
  const Known now = KnownOf(put);
  if (now == before) return absl::OkStatus();
  return InvalidArgument("{}: kind {}, type {}, {} dimensions, but {}, {}, {} in a step before", put.name,
                         static_cast<char>(now.kind), NameOf(now.type), now.dimensions, static_cast<char>(before.kind),
                         NameOf(before.type), before.dimensions);
}

}  // namespace

struct WriterEncoder::Impl {
  // What a step asks for, before the writer takes it over.
  struct Step {
    std::shared_ptr<const WriterFormat> format;
    std::vector<std::uint32_t> put_of;  // by field
    std::uint32_t sparse_steps = 0;
    bool fresh = false;
  };

  absl::StatusOr<Step> Plan(std::span<const Put> puts) const;
  // Of the fields that the format has; answers the places of the puts that are new.
  absl::StatusOr<std::vector<std::uint32_t>> Place(std::span<const Put> puts, std::vector<std::uint32_t>& put_of) const;
  void TakeOver(const Step& step, std::span<const Put> puts);

  std::shared_ptr<const WriterFormat> format;      // null: none yet
  std::vector<std::uint32_t> dimensions;           // by field
  std::unordered_map<std::string, Known> dropped;  // variables of formats before this one
  std::uint32_t sparse_steps = 0;                  // the last ones on end
};

absl::StatusOr<std::vector<std::uint32_t>> WriterEncoder::Impl::Place(std::span<const Put> puts,
                                                                      std::vector<std::uint32_t>& put_of) const {
  std::vector<std::uint32_t> added;
  std::size_t next = 0;  // most often the same variables come in the same order
  for (std::uint32_t i = 0; i < puts.size(); ++i) {
    std::optional<std::uint32_t> field;
    if (next < put_of.size() && format->fields()[next].name == puts[i].name) {
      field = next;
    } else if (format != nullptr) {
      field = format->Find(puts[i].name);
    }
    if (field) {
      next = *field + 1;
      if (std::exchange(put_of[*field], i) != kUnplaced)
        return InvalidArgument("{}: put twice in a step", puts[i].name);
      const WriterFormat::FieldPlace& place = format->fields()[*field];
      CAIRN_RETURN_IF_ERROR(Same(puts[i], {place.kind, place.type, dimensions[*field]}));
      continue;
    }
    added.push_back(i);
    if (dropped.empty()) continue;
    if (const auto before = dropped.find(puts[i].name); before != dropped.end()) {
      CAIRN_RETURN_IF_ERROR(Same(puts[i], before->second));
    }
  }
  return added;
}

absl::StatusOr<WriterEncoder::Impl::Step> WriterEncoder::Impl::Plan(std::span<const Put> puts) const {
  Step step;
  step.format = format;
  step.put_of.assign(format == nullptr ? 0 : format->fields().size(), kUnplaced);
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> added, Place(puts, step.put_of));
  const std::size_t fields = step.put_of.size() + added.size();
  step.sparse_steps = puts.size() < fields - puts.size() ? sparse_steps + 1 : 0;
  step.fresh = step.sparse_steps == kSparseSteps;
  if (format != nullptr && added.empty() && !step.fresh) return step;

  std::vector<FieldSpec> specs;
  specs.reserve(fields);
  if (step.fresh) {
    step.sparse_steps = 0;
    for (const Put& put : puts) specs.push_back({put.name, put.kind, put.type});
    step.put_of.resize(puts.size());
    for (std::uint32_t i = 0; i < puts.size(); ++i) step.put_of[i] = i;
  } else {
    if (format != nullptr) {
      for (const WriterFormat::FieldPlace& field : format->fields()) specs.push_back(field.spec());
    }
    for (const std::uint32_t i : added) specs.push_back({puts[i].name, puts[i].kind, puts[i].type});
    step.put_of.insert(step.put_of.end(), added.begin(), added.end());
  }
  CAIRN_ASSIGN_OR_RETURN(step.format, WriterFormat::For(specs));
  return step;
}

void WriterEncoder::Impl::TakeOver(const Step& step, std::span<const Put> puts) {
  if (step.fresh) {
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      const WriterFormat::FieldPlace& field = format->fields()[i];
      dropped.insert_or_assign(field.name, Known{field.kind, field.type, dimensions[i]});
    }
    dimensions.clear();
  }
  for (std::size_t i = dimensions.size(); i < step.put_of.size(); ++i) {
    dimensions.push_back(KnownOf(puts[step.put_of[i]]).dimensions);
  }
  format = step.format;
  sparse_steps = step.sparse_steps;
}

WriterEncoder::WriterEncoder() : impl_(std::make_unique<Impl>()) {}
WriterEncoder::~WriterEncoder() = default;
WriterEncoder::WriterEncoder(WriterEncoder&&) noexcept = default;
WriterEncoder& WriterEncoder::operator=(WriterEncoder&&) noexcept = default;

absl::StatusOr<EncodedStep> WriterEncoder::Encode(std::span<const Put> puts, std::uint64_t data_block_bytes,
                                                  std::span<const Attribute> attributes) {
  if (data_block_bytes % 16 != 0) return InvalidArgument("{} bytes of data are no multiple of 16", data_block_bytes);
  for (const Put& put : puts) CAIRN_RETURN_IF_ERROR(CheckPut(put, data_block_bytes));
  EncodedStep encoded;
  if (!attributes.empty()) {
    CAIRN_ASSIGN_OR_RETURN(encoded.attributes, EncodeAttributes(attributes));
    encoded.attributes_format = AttributesFormat();
  }
  CAIRN_ASSIGN_OR_RETURN(const Impl::Step step, impl_->Plan(puts));
  encoded.format = {step.format, &step.format->block()};
  encoded.record = EncodeRecord(*step.format, puts, step.put_of, data_block_bytes);
  impl_->TakeOver(step, puts);
  return encoded;
}

}  // namespace cairn::bp5

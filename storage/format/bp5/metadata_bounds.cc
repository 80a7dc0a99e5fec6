// Min and max: walked block by block, or kept of whole steps.
#include <absl/container/flat_hash_map.h>
#include <absl/container/node_hash_map.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/format/bp5/metadata_impl.h"
#include "storage/format/bp5/range.h"
#include "storage/format/bp5/step_bounds.h"

namespace cairn::bp5 {
namespace {

// Steps of fewer writers have few blocks for each question.
constexpr std::uint32_t kWritersMin = 4;
// One of so many variables, one at least, may be asked for before all are looked at.
constexpr std::uint32_t kAskedOf = 64, kAskedMin = 1;

bool HasElements(const Block& block) {
  for (std::size_t d = 0; d < block.dimensions(); ++d) {
    if (block.count[d] == 0) return false;
  }
  return true;
}

// Blocks with elements, by whether their bounds are known.
struct Seen {
  std::uint64_t with = 0, without = 0;
};

// What was found so far.
struct Found {
  MinMax bounds;
  bool known = false;

  template <typename T>
  void Add(const std::byte* min, const std::byte* max) {
    T low, high;
    std::memcpy(&low, bounds.min.data(), sizeof(T));
    std::memcpy(&high, bounds.max.data(), sizeof(T));
    const Widened widened = Widen(min, max, low, high, known);
    if (widened.low) std::memcpy(bounds.min.data(), min, sizeof(T));  // some types have bytes that are no value
    if (widened.high) std::memcpy(bounds.max.data(), max, sizeof(T));
  }
};

// Block by block, value by value.
template <typename T>
absl::Status WalkStep(const Metadata& metadata, VariableNumber variable, std::uint32_t step, Found& found, Seen& seen) {
  if (IsArray(metadata.variables()[variable].kind)) {
    BlockWalk walk = metadata.Blocks(variable, step);
    while (walk.Next()) {
      if (walk.block().min != nullptr) {
        found.template Add<T>(walk.block().min, walk.block().max);
        ++seen.with;
      } else if (HasElements(walk.block())) {
        ++seen.without;
      }
    }
    return walk.status();
  }
  for (std::uint32_t writer = 0; writer < metadata.writers(step); ++writer) {
    const std::byte* const value = metadata.Find(variable, step, writer);
    if (value != nullptr) found.template Add<T>(value, value);
  }
  return absl::OkStatus();
}

// Where a block is that is the only one in its record, and has bounds: from the record's base on.
struct SingleBlock {
  std::uint32_t column = 0;
  std::uint64_t count = 0, offset = 0, min_max = 0;

  // nullopt: there are others.
  static std::optional<SingleBlock> Of(const ArrayCursor& cursor, const std::byte* base, std::uint32_t column) {
    if (cursor.left != 1 || cursor.min_max == nullptr) return std::nullopt;
    const auto place = [base](const std::byte* at) {
      return at == nullptr ? 0 : static_cast<std::uint64_t>(at - base);
    };
    return SingleBlock{column, place(cursor.count), place(cursor.offset), place(cursor.min_max)};
  }
  [[gnu::always_inline]] ArrayCursor In(const std::byte* base) const {
    ArrayCursor cursor;
    cursor.left = 1;
    cursor.count = base + count;
    cursor.offset = base + offset;
    cursor.min_max = base + min_max;
    return cursor;
  }
};

// An array of a step while its records are looked at.
class Column {
 public:
  // REQUIRES: IsKept.
  Column(VariableNumber number, const Variable& variable) : type_(variable.type), traits_(TraitsOf(variable)) {
    bounds_.variable = number;
  }

  // Opens a record as BlockWalk would. False: it would find something wrong.
  bool Open(const std::byte* base, std::uint64_t length, const ArrayPlace& place, ArrayCursor& cursor) {
    sound_ &= LoadU64(base + place.offset) == traits_.dimensions &&
              OpenArrayRecord(base, length, place, traits_, cursor) == nullptr;
    if (shape_ == nullptr && cursor.left != 0) shape_ = cursor.shape;
    return sound_;
  }

  // Takes the blocks of a record.
  void Add(ArrayCursor cursor) {
    WithOrderedType(type_, [&](auto zero) {
      State<decltype(zero)> state(*this);
      for (; cursor.left != 0 && state.Take(cursor); cursor.Skip(traits_, 1)) {
      }
    });
  }

  // The same of records at `bases` that have one block each.
  void Add(std::span<const std::byte* const> bases, const SingleBlock& block) {
    WithOrderedType(type_, [&](auto zero) {
      State<decltype(zero)> state(*this);
      for (const std::byte* const base : bases) {
        if (!state.Take(block.In(base))) return;
      }
    });
  }

  VariableNumber variable() const { return bounds_.variable; }
  void AppendTo(std::vector<ArrayBounds>& arrays) const {
    if (!sound_ || without_ > ~std::uint32_t{0}) return;
    arrays.push_back(bounds_);
    arrays.back().without = static_cast<std::uint32_t>(without_);
  }

 private:
  // What changes with each block, in variables of its own: bytes that are written might be anything's.
  template <typename T>
  class State {
   public:
    explicit State(Column& column)
        : column_(column), traits_(column.traits_), shape_(column.shape_), known_(column.bounds_.known) {
      std::memcpy(&low_, column.bounds_.min.data(), kBytes);
      std::memcpy(&high_, column.bounds_.max.data(), kBytes);
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
      std::memcpy(column_.bounds_.min.data(), &low_, kBytes);
      std::memcpy(column_.bounds_.max.data(), &high_, kBytes);
      column_.bounds_.known = known_;
      column_.without_ += without_;
    }

    // False: BlockWalk would find something wrong.
    [[gnu::always_inline]] bool Take(const ArrayCursor& cursor) {
      BlockExtent extent;
      if (CheckBlock(cursor, shape_, traits_, extent) != nullptr) {
        column_.sound_ = false;
        return false;
      }
      const std::byte* const min = MinMaxAt(cursor, traits_, extent);
      if (min != nullptr) {
        Widen(min, min + sizeof(T), low_, high_, known_);
      } else if (!extent.empty) {
        ++without_;
      }
      return true;
    }

   private:
    static constexpr std::size_t kBytes = std::min(sizeof(T), sizeof(ArrayBounds::min));

    Column& column_;
    const ArrayTraits traits_;
    const std::byte* const shape_;
    T low_{}, high_{};
    std::uint64_t without_ = 0;
    bool known_;
  };

  Type type_;
  bool sound_ = true;  // BlockWalk would find nothing wrong
  ArrayTraits traits_;
  const std::byte* shape_ = nullptr;  // that of the lowest writer
  ArrayBounds bounds_;
  std::uint64_t without_ = 0;
};

// The arrays of a format, and what was found of them in the record that was opened last.
struct ArrayFormat {
  struct Field {
    ArrayPlace place;
    std::uint32_t column = 0;
  };
  struct Opened {
    std::uint32_t column = 0;
    ArrayCursor cursor;
  };

  std::uint32_t used = 0, fixed_bytes = 0;
  std::vector<Field> fields;
  const std::byte* base = nullptr;
  std::uint64_t length = 0;
  std::uint32_t first_word = 0;
  std::vector<SingleBlock> single;
  std::vector<Opened> others;
};

// Whether StepBounds keeps it.
bool IsKept(const Variable& variable) {
  return (variable.kind == Kind::kGlobalArray || variable.kind == Kind::kLocalArray) && variable.dimensions != 0 &&
         variable.element_bytes <= sizeof(ArrayBounds::min) && WithOrderedType(variable.type, [](auto) {});
}

}  // namespace

// Goes over a step's records once.
class Metadata::Impl::BoundsPass {
 public:
  BoundsPass(const Impl& impl, std::uint32_t step) : impl_(impl), step_(impl.steps[step]) {}

  std::vector<ArrayBounds> Run() {
    for (std::uint32_t writer = 0; writer < step_.writers; ++writer) Add(impl_.records[step_.first_record + writer]);
    AddAlike();
    std::vector<ArrayBounds> arrays;
    arrays.reserve(columns_.size());
    for (const Column& column : columns_) column.AppendTo(arrays);
    if (!std::ranges::is_sorted(arrays, {}, &ArrayBounds::variable)) {
      std::ranges::sort(arrays, {}, &ArrayBounds::variable);
    }
    return arrays;
  }

 private:
  // Records that are looked at together: few enough to stay in the cache while one array after the other is.
  static constexpr std::size_t kAlikeMax = 16;
  static constexpr std::uint64_t kFetchBytesMax = std::uint64_t{64} << 10;

  ArrayFormat& FormatOf(std::uint32_t used) {
    if (format_ != nullptr && format_->used == used) return *format_;
    const auto [entry, is_new] = formats_.try_emplace(used);
    if (is_new) LookAt(used, entry->second);
    return entry->second;
  }

  void LookAt(std::uint32_t used, ArrayFormat& format) {
    const Template& places = impl_.templates[used].places;
    format.used = used;
    format.fixed_bytes = impl_.templates[used].fixed_bytes;
    format.fields.reserve(places.bits());
    columns_.reserve(std::max<std::size_t>(columns_.size(), places.bits()));
    for (std::uint32_t bit = 0; bit < places.bits(); ++bit) {
      const VariableNumber variable = places.VariableOf(bit);
      if (!IsKept(impl_.variables[variable])) continue;
      format.fields.push_back({PlaceOf(places.Find(variable), format.fixed_bytes), ColumnOf(variable)});
    }
  }

  // Most steps have one format: then each variable comes once.
  std::uint32_t ColumnOf(VariableNumber variable) {
    const auto next = static_cast<std::uint32_t>(columns_.size());
    if (formats_.size() > 1) {
      for (; mapped_ < next; ++mapped_) column_of_.emplace(columns_[mapped_].variable(), mapped_);
      if (const auto found = column_of_.find(variable); found != column_of_.end()) return found->second;
    }
    columns_.emplace_back(variable, impl_.variables[variable]);
    return next;
  }

  // Most writers' records differ in nothing but where they are: then what was found of one's fields holds for the next.
  bool IsAsLast(const Record& record, const ArrayFormat& format) const {
    constexpr std::uint32_t kHead = 24;  // bit field and size of data
    if (format.base == nullptr || format.length != record.length || format.first_word != record.first_word)
      return false;
    return std::memcmp(record.base + kHead, format.base + kHead, format.fixed_bytes - kHead) == 0;
  }

  // Opens the record's fields, and takes their blocks.
  void Open(const Record& record, ArrayFormat& format) {
    format.single.clear();
    format.others.clear();
    const std::uint64_t* const bits = &impl_.words[record.first_word];
    for (const ArrayFormat::Field& field : format.fields) {
      if ((bits[field.place.word] & field.place.mask) == 0) continue;
      Column& column = columns_[field.column];
      ArrayCursor cursor;
      if (!column.Open(record.base, record.length, field.place, cursor)) continue;
      column.Add(cursor);
      if (const auto single = SingleBlock::Of(cursor, record.base, field.column)) {
        format.single.push_back(*single);
      } else {
        format.others.push_back({field.column, cursor});
      }
    }
    format.base = record.base;
    format.length = record.length;
    format.first_word = record.first_word;
  }

  void Add(const Record& record) {
    ArrayFormat& format = FormatOf(record.used);
    if (&format == format_ && IsAsLast(record, format)) {
      const std::uint64_t end = std::min(record.length, kFetchBytesMax);
      for (std::uint64_t at = format.fixed_bytes; at < end; at += 64) {
        __builtin_prefetch(record.base + at);
      }
      alike_.push_back(record.base);
      if (alike_.size() == kAlikeMax) AddAlike();
      return;
    }
    AddAlike();
    Open(record, format);
    format_ = &format;
  }

  // Takes the records that are as the one of `format_` that was opened.
  void AddAlike() {
    if (alike_.empty()) return;
    for (const SingleBlock& block : format_->single) columns_[block.column].Add(alike_, block);
    for (const ArrayFormat::Opened& field : format_->others) {
      for (const std::byte* const base : alike_) columns_[field.column].Add(field.cursor.MovedBy(base - format_->base));
    }
    alike_.clear();
  }

  const Impl& impl_;
  const Step& step_;
  std::vector<Column> columns_;
  absl::flat_hash_map<VariableNumber, std::uint32_t> column_of_;  // of the first `mapped_`
  std::uint32_t mapped_ = 0;
  absl::node_hash_map<std::uint32_t, ArrayFormat> formats_;
  ArrayFormat* format_ = nullptr;        // of the record that was opened last
  std::vector<const std::byte*> alike_;  // records as that one, not yet looked at
};

std::optional<ArrayBounds> Metadata::Impl::BoundsIn(VariableNumber variable, std::uint32_t step) {
  if (steps[step].writers < kWritersMin || !IsKept(variables[variable])) return std::nullopt;
  absl::MutexLock lock(&bounds_mutex);
  if (bounds.size() <= step) bounds.resize(steps.size());
  StepBounds& of_step = bounds[step];
  if (!of_step.made()) {
    const Record& first = records[steps[step].first_record];
    if (of_step.Ask() <= std::max(kAskedMin, templates[first.used].places.bits() / kAskedOf)) return std::nullopt;
    of_step.Make(BoundsPass(*this, step).Run());
  }
  const ArrayBounds* const found = of_step.Find(variable);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

absl::StatusOr<std::optional<MinMax>> Metadata::MinMaxOver(VariableNumber variable,
                                                           std::span<const std::uint32_t> steps) const {
  absl::Status status;
  Found found;
  WithOrderedType(impl_->variables[variable].type, [&](auto zero) {
    using T = decltype(zero);
    for (const std::uint32_t step : steps) {
      Seen seen;
      if (const std::optional<ArrayBounds> kept = impl_->BoundsIn(variable, step)) {
        seen = {.with = kept->known ? 1u : 0u, .without = kept->without};
        if (kept->known) found.template Add<T>(kept->min.data(), kept->max.data());
      } else {
        status = WalkStep<T>(*this, variable, step, found, seen);
        if (!status.ok()) return;
      }
      found.bounds.blocks_without += seen.without;
      found.bounds.steps_without += seen.without > 0 && seen.with == 0 ? 1 : 0;
    }
  });
  if (!status.ok()) return status;
  return found.known ? std::optional(found.bounds) : std::nullopt;
}

absl::StatusOr<std::optional<MinMax>> Metadata::MinMaxOf(VariableNumber variable, std::uint32_t step) const {
  if (variable >= impl_->variables.size() || step >= impl_->steps.size()) return std::nullopt;
  return MinMaxOver(variable, std::span(&step, 1));
}

absl::StatusOr<std::optional<MinMax>> Metadata::MinMaxOf(VariableNumber variable) const {
  if (variable >= impl_->variables.size()) return std::nullopt;
  return MinMaxOver(variable, impl_->variables[variable].steps);
}

}  // namespace cairn::bp5

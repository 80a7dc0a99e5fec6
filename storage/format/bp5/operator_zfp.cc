// Number of dimensions, the block's extents, type, the library's version, parameters as pairs of texts, a stream of
// zfp's without a head of its own.
#include <zfp.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "storage/format/bp5/operator_codecs.h"

namespace cairn::bp5 {
namespace {

constexpr double kRateMax = 1024;
// Where the library may read behind what it needs.
constexpr std::uint64_t kSlackBytes = 256;
// The dimensions that are left: ADIOS2 2.8 to 2.10 merge the slowest until there are three, later ones until four.
constexpr std::size_t kMergedTo[] = {4, 3};

struct CloseField {
  void operator()(zfp_field* field) const { zfp_field_free(field); }
};
struct CloseStream {
  void operator()(zfp_stream* stream) const { zfp_stream_close(stream); }
};
struct CloseBits {
  void operator()(bitstream* bits) const { stream_close(bits); }
};

// What a block says of itself.
struct Head {
  std::vector<std::uint64_t> extents;
  std::map<std::string, std::string> parameters;
  std::span<const std::byte> bits;
};

absl::StatusOr<std::string> TakeText(OperatorBytes& stored) {
  CAIRN_ASSIGN_OR_RETURN(const auto bytes, stored.Take<std::uint8_t>("a parameter"));
  CAIRN_ASSIGN_OR_RETURN(const auto text, stored.Take(bytes, "a parameter"));
  return std::string(reinterpret_cast<const char*>(text.data()), text.size());
}

absl::StatusOr<Head> TakeHead(OperatorBytes stored, Type type, std::uint64_t bytes) {
  constexpr std::uint64_t kDimensionsMax = 64;
  Head head;
  CAIRN_ASSIGN_OR_RETURN(const auto dimensions, stored.Take<std::uint64_t>("the number of dimensions"));
  if (dimensions < 1 || dimensions > kDimensionsMax) return DataLoss("{} dimensions", dimensions);
  std::uint64_t product = ElementBytes(type);
  for (std::uint64_t d = 0; d < dimensions; ++d) {
    CAIRN_ASSIGN_OR_RETURN(const auto extent, stored.Take<std::uint64_t>("the extents"));
    if (extent == 0 || __builtin_mul_overflow(product, extent, &product)) return DataLoss("an extent of {}", extent);
    head.extents.push_back(extent);
  }
  if (product != bytes) return DataLoss("its extents make {} bytes, its elements are {}", product, bytes);
  CAIRN_ASSIGN_OR_RETURN(const auto number, stored.Take<std::uint32_t>("the type"));
  if (number != static_cast<std::uint32_t>(type)) return DataLoss("type {}, not {}", number, NameOf(type));
  CAIRN_RETURN_IF_ERROR(stored.Take(3, "the library's version").status());
  CAIRN_ASSIGN_OR_RETURN(const auto parameters, stored.Take<std::uint8_t>("the number of parameters"));
  for (int i = 0; i < parameters; ++i) {
    CAIRN_ASSIGN_OR_RETURN(std::string name, TakeText(stored));
    CAIRN_ASSIGN_OR_RETURN(head.parameters[std::move(name)], TakeText(stored));
  }
  head.bits = stored.rest();
  return head;
}

std::optional<zfp_type> ZfpTypeOf(Type type) {
  switch (type) {
    case Type::kInt32:
      return zfp_type_int32;
    case Type::kInt64:
      return zfp_type_int64;
    case Type::kFloat:
    case Type::kComplexFloat:
      return zfp_type_float;
    case Type::kDouble:
    case Type::kComplexDouble:
      return zfp_type_double;
    default:
      return std::nullopt;
  }
}

// As ADIOS2 does it: extents of 1 go, the slowest are merged, complex numbers are pairs.
std::vector<std::uint64_t> Merged(std::vector<std::uint64_t> extents, Type type, std::size_t to) {
  std::erase(extents, 1u);
  while (extents.size() > to) {
    extents[1] *= extents[0];
    extents.erase(extents.begin());
  }
  const bool pairs = type == Type::kComplexFloat || type == Type::kComplexDouble;
  if (pairs && !extents.empty()) extents.back() *= 2;
  return extents;
}

absl::StatusOr<double> NumberOf(const std::string& name, std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || !std::isfinite(number)) return DataLoss("parameter {}: no number", name);
  return number;
}

// One decoding: as many dimensions as `extents`.
class ZfpDecoder {
 public:
  ZfpDecoder(const Head& head, zfp_type type, std::vector<std::uint64_t> extents)
      : head_(head), type_(type), extents_(std::move(extents)), stream_(zfp_stream_open(nullptr)) {}

  // The elements, `bytes` of them. nullptr: so many dimensions do not make use of all that is stored.
  absl::StatusOr<Memory> Run(std::uint64_t bytes) {
    if (stream_ == nullptr) return ResourceExhausted("no memory for zfp");
    CAIRN_RETURN_IF_ERROR(SetMode());
    field_.reset(MakeField());
    if (field_ == nullptr) return ResourceExhausted("no memory for zfp");
    // Each block of 4 to the power of the dimensions takes a bit at least, and as many as the rate says.
    const std::uint64_t bits = 8 * head_.bits.size(), least = std::max<std::uint64_t>(stream_->minbits, 1);
    if (least > bits || Blocks() > bits / least) return nullptr;
    // The library does not look where its input ends: so that lies in as many bytes as it may need at most.
    const std::uint64_t needed = zfp_stream_maximum_size(stream_.get(), field_.get());
    const std::uint64_t room = std::max<std::uint64_t>(needed, head_.bits.size()) + kSlackBytes;
    CAIRN_ASSIGN_OR_RETURN(const Memory copy, MakeMemory(room));
    std::memcpy(copy.get(), head_.bits.data(), head_.bits.size());
    std::memset(copy.get() + head_.bits.size(), 0, room - head_.bits.size());
    const std::unique_ptr<bitstream, CloseBits> input(stream_open(copy.get(), room));
    if (input == nullptr) return ResourceExhausted("no memory for zfp");
    zfp_stream_set_bit_stream(stream_.get(), input.get());
    zfp_stream_rewind(stream_.get());
    CAIRN_ASSIGN_OR_RETURN(Memory elements, MakeMemory(bytes));
    zfp_field_set_pointer(field_.get(), elements.get());
    if (zfp_decompress(stream_.get(), field_.get()) == 0) return nullptr;
    const std::uint64_t used = stream_rtell(input.get());
    if (used > bits || bits - used >= stream_word_bits) return nullptr;
    return elements;
  }

 private:
  absl::Status SetMode() {
    int modes = 0;
    for (const auto& [name, text] : head_.parameters) {
      if (name != "accuracy" && name != "rate" && name != "precision") continue;
      ++modes;
      CAIRN_ASSIGN_OR_RETURN(const double number, NumberOf(name, text));
      if (name == "accuracy") {
        zfp_stream_set_accuracy(stream_.get(), number);
      } else if (number <= 0 || number > kRateMax) {
        return DataLoss("parameter {}: {}", name, number);
      } else if (name == "rate") {
        zfp_stream_set_rate(stream_.get(), number, type_, static_cast<unsigned>(extents_.size()), 0);
      } else {
        zfp_stream_set_precision(stream_.get(), static_cast<unsigned>(number));
      }
    }
    if (modes > 1) return DataLoss("accuracy, rate and precision exclude each other");
    zfp_stream_set_execution(stream_.get(), zfp_exec_serial);
    return absl::OkStatus();
  }

  // The first extent is zfp's fastest, though it is the slowest of the block: so ADIOS2 hands them over.
  zfp_field* MakeField() const {
    const std::vector<std::uint64_t>& n = extents_;
    if (n.size() == 1) return zfp_field_1d(nullptr, type_, n[0]);
    if (n.size() == 2) return zfp_field_2d(nullptr, type_, n[0], n[1]);
    if (n.size() == 3) return zfp_field_3d(nullptr, type_, n[0], n[1], n[2]);
    return zfp_field_4d(nullptr, type_, n[0], n[1], n[2], n[3]);
  }

  std::uint64_t Blocks() const {
    std::uint64_t blocks = 1;  // no more than there are elements
    for (const std::uint64_t extent : extents_) blocks *= (extent + 3) / 4;
    return blocks;
  }

  const Head& head_;
  const zfp_type type_;
  const std::vector<std::uint64_t> extents_;
  std::unique_ptr<zfp_stream, CloseStream> stream_;
  std::unique_ptr<zfp_field, CloseField> field_;
};

}  // namespace

absl::StatusOr<Memory> UndoZfp(OperatorBytes stored, Type type, std::uint64_t bytes) {
  const std::optional<zfp_type> zfp_type = ZfpTypeOf(type);
  if (!zfp_type) return DataLoss("it does not compress elements of type {}", NameOf(type));
  CAIRN_ASSIGN_OR_RETURN(const Head head, TakeHead(stored, type, bytes));
  Memory elements;
  std::vector<std::uint64_t> before;
  for (const std::size_t to : kMergedTo) {
    std::vector<std::uint64_t> extents = Merged(head.extents, type, to);
    if (extents.empty()) return DataLoss("a single element");
    if (extents == before) break;
    before = extents;
    CAIRN_ASSIGN_OR_RETURN(Memory found, ZfpDecoder(head, *zfp_type, std::move(extents)).Run(bytes));
    if (found == nullptr) continue;
    if (elements != nullptr) {
      return FailedPrecondition("in four dimensions or in three, which nothing tells: not undone here");
    }
    elements = std::move(found);
  }
  if (elements == nullptr) return DataLoss("its {} bytes are no whole stream", head.bits.size());
  return elements;
}

}  // namespace cairn::bp5

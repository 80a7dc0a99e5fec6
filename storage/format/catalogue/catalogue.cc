#include "storage/format/catalogue/catalogue.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <limits>
#include <unordered_set>

#include "proto/frame.h"
#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/format/framed/framed.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/placement/placement.h"

namespace cairn {
namespace {

constexpr FramedKind kKind = {
    .magic = "CAIRNCAT", .what = "a catalogue", .version = 1, .bytes_max = kCatalogueBytesMax};

// The names: a checkpoint file's own one, or what an application's file is normalized to.
absl::Status CheckName(std::string_view field, const std::string& name) {
  const absl::StatusOr<std::string> normal = NormalizeFileName("", name);
  if (!normal.ok()) return Annotate(normal.status(), field);
  if (*normal != name) return InvalidArgument("{}: \"{}\" is not normalized: \"{}\"", field, name, *normal);
  return absl::OkStatus();
}

absl::Status CheckFile(const std::string& field, const catalogue::FileEntry& file) {
  CAIRN_RETURN_IF_ERROR(CheckName(field + ".name", file.name()));
  CAIRN_RETURN_IF_ERROR(CheckName(field + ".prefix_name", file.prefix_name()));
  if (file.bytes() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return InvalidArgument("{}.bytes: {} are more than a file can have", field, file.bytes());
  }
  const std::uint64_t blocks = (file.bytes() + kCrcBlockBytes - 1) / kCrcBlockBytes;
  if (static_cast<std::uint64_t>(file.crc32c_size()) != blocks) {
    return InvalidArgument("{}.crc32c: {} values, expected {} for {} bytes", field, file.crc32c_size(), blocks,
                           file.bytes());
  }
  if (file.original().size() > CAIRN_NAME_BYTES_MAX || file.original().find('\0') != std::string::npos) {
    return InvalidArgument("{}.original: {} bytes, at most {} without a NUL are possible", field,
                           file.original().size(), CAIRN_NAME_BYTES_MAX);
  }
  if (!catalogue::VerifiedBy_IsValid(file.verified_by())) {
    return InvalidArgument("{}.verified_by: {} is none", field, static_cast<int>(file.verified_by()));
  }
  if (file.mtime_ns() > 999'999'999 || file.atime_ns() > 999'999'999) {
    return InvalidArgument("{}: times of {} and {} nanoseconds, expected less than a second", field, file.mtime_ns(),
                           file.atime_ns());
  }
  return absl::OkStatus();
}

absl::Status CheckBox(const std::string& field, const local::Variable& variable) {
  const int dimensions = variable.shape_size();
  if (dimensions < 1 || dimensions > static_cast<int>(CAIRN_DIMENSIONS_MAX)) {
    return InvalidArgument("{}.shape: {} dimensions, expected 1 to {}", field, dimensions, CAIRN_DIMENSIONS_MAX);
  }
  if (variable.box_start_size() != dimensions || variable.box_count_size() != dimensions) {
    return InvalidArgument("{}: box of {} and {} dimensions in a shape of {}", field, variable.box_start_size(),
                           variable.box_count_size(), dimensions);
  }
  std::uint64_t count = 1;
  for (int d = 0; d < dimensions; ++d) {
    if (variable.box_start(d) > variable.shape(d) ||
        variable.box_count(d) > variable.shape(d) - variable.box_start(d)) {
      return InvalidArgument("{}: box at {} of {} leaves the shape {} in dimension {}", field, variable.box_start(d),
                             variable.box_count(d), variable.shape(d), d);
    }
    if (__builtin_mul_overflow(count, variable.box_count(d), &count)) {
      return InvalidArgument("{}.box_count: more than 2^64 elements", field);
    }
  }
  if (count != variable.count()) {
    return InvalidArgument("{}.count: {}, expected the box's {}", field, variable.count(), count);
  }
  return absl::OkStatus();
}

absl::Status CheckVariable(const std::string& field, const local::Variable& variable) {
  constexpr std::uint64_t kElementBytesMax = 16;
  constexpr std::uint32_t kTypeMax = 15;  // BP5 specification, section 7
  if (variable.id() < 0) return InvalidArgument("{}.id: {} is negative", field, variable.id());
  if (variable.type() > kTypeMax) {
    return InvalidArgument("{}.type: {}, expected 0 (unknown) to {}", field, variable.type(), kTypeMax);
  }
  if (variable.type() == 0 && (variable.kind() != local::PLAIN || !variable.name().empty())) {
    return InvalidArgument("{}.type: 0 (unknown), but it has a kind or a name", field);
  }
  if (variable.type() == 0 && variable.count() != variable.bytes()) {
    return InvalidArgument("{}.count: {}, expected the {} bytes of unknown type", field, variable.count(),
                           variable.bytes());
  }
  const std::uint64_t count = variable.count(), bytes = variable.bytes();
  if (count == 0 ? bytes != 0 : bytes % count != 0 || bytes / count < 1 || bytes / count > kElementBytesMax) {
    return InvalidArgument("{}.bytes: {} do not fit {} elements", field, bytes, count);
  }
  if (variable.name().size() > CAIRN_NAME_BYTES_MAX) {
    return InvalidArgument("{}.name: {} bytes, at most {} are possible", field, variable.name().size(),
                           CAIRN_NAME_BYTES_MAX);
  }
  if (!local::Kind_IsValid(variable.kind())) {
    return InvalidArgument("{}.kind: {} is none", field, static_cast<int>(variable.kind()));
  }
  if (variable.kind() != local::PLAIN && variable.name().empty()) return InvalidArgument("{}.name: is empty", field);
  if (variable.kind() == local::ARRAY) return CheckBox(field, variable);
  if (variable.shape_size() + variable.box_start_size() + variable.box_count_size() != 0) {
    return InvalidArgument("{}: only an array has a shape and a box", field);
  }
  return absl::OkStatus();
}

absl::Status CheckIdentity(const catalogue::Catalogue& catalogue) {
  if (!RunId::Parse(catalogue.run()).ok()) return InvalidArgument("run: not 32 hexadecimal digits");
  if (catalogue.dataset() == 0) return InvalidArgument("dataset: is 0");
  if (catalogue.nranks() < 1 || catalogue.nranks() > CAIRN_RANKS_MAX) {
    return InvalidArgument("nranks: {}, expected 1 to {}", catalogue.nranks(), CAIRN_RANKS_MAX);
  }
  if (catalogue.rank() >= catalogue.nranks()) {
    return InvalidArgument("rank: {}, expected less than {}", catalogue.rank(), catalogue.nranks());
  }
  return absl::OkStatus();
}

struct Counts {
  std::uint64_t variables = 0, files = 0, placements = 0, runs = 0;
};

absl::Status CheckCounts(const Counts& counts) {
  if (counts.variables > CAIRN_VARIABLES_MAX) {
    return InvalidArgument("variables: {}, at most {} are possible", counts.variables, CAIRN_VARIABLES_MAX);
  }
  if (counts.files > kCatalogueFilesMax) {
    return InvalidArgument("file: {} entries, at most {} are possible", counts.files, kCatalogueFilesMax);
  }
  if (counts.placements > CAIRN_VARIABLES_MAX || counts.runs > ftiff::kContainersMax) {
    return InvalidArgument("placement: {} with {} runs, at most {} with {} are possible", counts.placements,
                           counts.runs, CAIRN_VARIABLES_MAX, ftiff::kContainersMax);
  }
  return absl::OkStatus();
}

// Counts the runs of a placement; false: it cannot be read.
bool CountRuns(google::protobuf::io::CodedInputStream& input, std::uint64_t& runs) {
  using google::protobuf::internal::WireFormatLite;
  std::uint32_t bytes = 0;
  if (!input.ReadVarint32(&bytes)) return false;
  const auto limit = input.PushLimit(static_cast<int>(bytes));
  while (const std::uint32_t tag = input.ReadTag()) {
    runs += WireFormatLite::GetTagFieldNumber(tag) == catalogue::Placement::kRunFieldNumber;
    if (!WireFormatLite::SkipField(&input, tag)) return false;
  }
  const bool whole = input.BytesUntilLimit() == 0;
  input.PopLimit(limit);
  return whole;
}

// Counts the message's variables, files and runs without making them: an empty one takes 2 bytes here, but far more in
// memory.
absl::Status CountBeforeParsing(std::string_view message) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const std::uint8_t*>(message.data()),
                                               static_cast<int>(message.size()));
  Counts counts;
  while (const std::uint32_t tag = input.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    counts.variables += field == catalogue::Catalogue::kVariablesFieldNumber;
    counts.files += field == catalogue::Catalogue::kFileFieldNumber;
    const bool places = field == catalogue::Catalogue::kPlacementFieldNumber &&
                        WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    counts.placements += places;
    if (places ? !CountRuns(input, counts.runs) : !WireFormatLite::SkipField(&input, tag)) {
      return InvalidArgument("the message cannot be read");
    }
  }
  return CheckCounts(counts);
}

}  // namespace

absl::Status ValidateCatalogue(const catalogue::Catalogue& catalogue) {
  CAIRN_RETURN_IF_ERROR(CheckIdentity(catalogue));
  Counts counts{.variables = static_cast<std::uint64_t>(catalogue.variables_size()),
                .files = static_cast<std::uint64_t>(catalogue.file_size()),
                .placements = static_cast<std::uint64_t>(catalogue.placement_size())};
  for (const catalogue::Placement& placement : catalogue.placement()) counts.runs += placement.run_size();
  CAIRN_RETURN_IF_ERROR(CheckCounts(counts));
  if (catalogue.files() && catalogue.variables_size() > 0) {
    return InvalidArgument("variables: {} in a dataset of the application's own files", catalogue.variables_size());
  }
  if (!catalogue.files() && catalogue.file_size() > 1) {
    return InvalidArgument("file: {} entries, expected one checkpoint file or none", catalogue.file_size());
  }
  std::unordered_set<std::int32_t> ids;
  for (int i = 0; i < catalogue.variables_size(); ++i) {
    const std::string field = fmt::format("variables[{}]", i);
    CAIRN_RETURN_IF_ERROR(CheckVariable(field, catalogue.variables(i)));
    if (!ids.insert(catalogue.variables(i).id()).second) {
      return InvalidArgument("{}.id: {} comes twice", field, catalogue.variables(i).id());
    }
  }
  if (const absl::Status placed = view::CheckPlacement(catalogue); !placed.ok()) {
    return InvalidArgument("{}", MessageOf(placed));
  }
  std::unordered_set<std::string_view> names, prefix_names;
  for (int i = 0; i < catalogue.file_size(); ++i) {
    const catalogue::FileEntry& file = catalogue.file(i);
    const std::string field = fmt::format("file[{}]", i);
    CAIRN_RETURN_IF_ERROR(CheckFile(field, file));
    if (!names.insert(file.name()).second) return InvalidArgument("{}.name: {} comes twice", field, file.name());
    if (!prefix_names.insert(file.prefix_name()).second) {
      return InvalidArgument("{}.prefix_name: {} comes twice", field, file.prefix_name());
    }
  }
  return absl::OkStatus();
}

std::string EncodeCatalogue(const catalogue::Catalogue& catalogue) {
  return EncodeFramed(kKind, catalogue);
}

std::uint64_t CatalogueFileBytes(const catalogue::Catalogue& catalogue) {
  return FramedBytes(catalogue);
}

absl::StatusOr<catalogue::Catalogue> DecodeCatalogue(std::string_view name, std::string_view file) {
  CAIRN_ASSIGN_OR_RETURN(const std::string_view message, FramedMessage(kKind, name, file));
  const auto refused = [name](const absl::Status& status) {
    return DataLoss("{}: offset {}: {}", name, kFramedMessageOffset, MessageOf(status));
  };
  if (const absl::Status status = CountBeforeParsing(message); !status.ok()) return refused(status);
  catalogue::Catalogue catalogue;
  if (!catalogue.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return DataLoss("{}: offset {}: {} bytes that are not a catalogue's message", name, kFramedMessageOffset,
                    message.size());
  }
  if (const absl::Status status = ValidateCatalogue(catalogue); !status.ok()) return refused(status);
  return catalogue;
}

}  // namespace cairn

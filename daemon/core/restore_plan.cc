#include "daemon/core/restore_plan.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/ftiff/codec.h"

namespace cairn {
namespace {

const local::Variable* FindStored(const catalogue::Catalogue& catalogue, std::int32_t id) {
  for (const local::Variable& variable : catalogue.variables()) {
    if (variable.id() == id) return &variable;
  }
  return nullptr;
}

bool SameDims(const google::protobuf::RepeatedField<std::uint64_t>& a,
              const google::protobuf::RepeatedField<std::uint64_t>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

absl::Status Compare(const local::Variable& stored, const local::Variable& asked) {
  auto differs = [&](std::string_view what, const auto& had, const auto& wants) {
    return FailedPrecondition("variable {} differs: it was stored with {} {}, here it has {}", asked.id(), what, had,
                              wants);
  };
  if (stored.kind() != asked.kind())
    return differs("kind", local::Kind_Name(stored.kind()), local::Kind_Name(asked.kind()));
  if (stored.kind() != local::PLAIN && stored.name() != asked.name())
    return differs("name", stored.name(), asked.name());
  if (stored.type() != asked.type()) return differs("type", stored.type(), asked.type());
  if (stored.kind() == local::ARRAY) {
    if (!SameDims(stored.shape(), asked.shape())) {
      return FailedPrecondition("variable {} (\"{}\") differs: the array was stored with another shape", asked.id(),
                                asked.name());
    }
    if (!SameDims(stored.box_start(), asked.box_start()) || !SameDims(stored.box_count(), asked.box_count())) {
      return FailedPrecondition("variable {} (\"{}\") differs: this rank stored another box of the array", asked.id(),
                                asked.name());
    }
  }
  if (stored.count() != asked.count()) return differs("count", stored.count(), asked.count());
  return absl::OkStatus();
}

// Of another system's checkpoint nothing is known but ids and sizes.
bool TypeIsUnknown(const local::Variable& stored) {
  return stored.type() == 0;
}

absl::Status CompareBytes(const local::Variable& stored, const local::Variable& asked) {
  if (stored.bytes() == asked.bytes()) return absl::OkStatus();
  return FailedPrecondition("variable {} differs: it was stored with {} bytes of unknown type, here it has {}",
                            asked.id(), stored.bytes(), asked.bytes());
}

// A value comes from the lowest rank that stored it. One of unknown type was nobody's promise to be the same on all
// ranks: each rank gets its own, as in the system that it came from.
const local::Variable* FindValue(const Dataset& dataset, std::int32_t id, Rank rank, Rank* from) {
  for (Rank other = 0; other < dataset.nranks; ++other) {
    const local::Variable* stored = FindStored(dataset.parts[other].catalogue, id);
    if (stored == nullptr) continue;
    *from = TypeIsUnknown(*stored) ? rank : other;
    return stored;
  }
  return nullptr;
}

absl::StatusOr<Wanted> MatchOne(const Dataset& dataset, Rank rank, std::uint32_t nranks, const local::Variable& asked) {
  Wanted wanted{.id = asked.id(), .rank = rank, .bytes = asked.bytes()};
  const local::Variable* stored = nullptr;
  if (asked.kind() == local::VALUE) stored = FindValue(dataset, asked.id(), rank, &wanted.rank);
  if (asked.kind() != local::VALUE || (stored != nullptr && TypeIsUnknown(*stored))) {
    if (nranks != dataset.nranks) {
      return FailedPrecondition(
          "variable {} belongs to one rank each: dataset {} was stored by {} ranks, this launch "
          "has {}",
          asked.id(), dataset.id, dataset.nranks, nranks);
    }
    stored = FindStored(dataset.parts[rank].catalogue, asked.id());
  }
  if (stored == nullptr) return NotFound("variable {} is not in dataset {}", asked.id(), dataset.id);
  CAIRN_RETURN_IF_ERROR(TypeIsUnknown(*stored) ? CompareBytes(*stored, asked) : Compare(*stored, asked));
  return wanted;
}

}  // namespace

absl::StatusOr<ftiff::FileMetadata> ReadMetadata(Disk& disk, const RestoreSource& source) {
  if (!source.kept) {
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file, disk.Open(source.path, {}));
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
    if (info.bytes != source.file_bytes) {
      return DataLoss("{}: {} bytes, the catalogue says {}", source.path, info.bytes, source.file_bytes);
    }
    return ftiff::DecodeMetadata(source.path, info.bytes, [&file](std::uint64_t offset, std::span<std::byte> target) {
      return file->ReadAt(offset, target);
    });
  }
  const KeptImage& kept = *source.kept;
  const std::uint64_t bytes = kept.data_bytes + kept.metadata.size();
  return ftiff::DecodeMetadata("image", bytes, [&kept, bytes](std::uint64_t offset, std::span<std::byte> target) {
    if (offset > bytes || target.size() > bytes - offset) return DataLoss("image: ends at byte {}", bytes);
    // Metadata may be asked for together with data in front of it; the image is the client's, so this is a copy.
    const std::size_t in_data =
        offset < kept.data_bytes ? std::min<std::uint64_t>(target.size(), kept.data_bytes - offset) : 0;
    if (in_data > 0) std::memcpy(target.data(), kept.image->bytes().data() + offset, in_data);
    if (in_data < target.size()) {
      std::memcpy(target.data() + in_data, kept.metadata.data() + (offset + in_data - kept.data_bytes),
                  target.size() - in_data);
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<Wanted>> Match(const Dataset& dataset, Rank rank, std::uint32_t nranks,
                                          const VariableList& variables) {
  std::vector<Wanted> wanted;
  for (int i = 0; i < variables.size(); ++i) {
    CAIRN_ASSIGN_OR_RETURN(Wanted one, MatchOne(dataset, rank, nranks, variables.at(i)));
    one.variable = static_cast<std::uint32_t>(i);
    wanted.push_back(one);
  }
  return wanted;
}

absl::StatusOr<std::vector<RestorePiece>> FindPieces(Disk& disk, const std::vector<RestoreSource>& sources,
                                                     const std::vector<Rank>& ranks, const std::vector<Wanted>& wanted,
                                                     std::size_t* bad, std::vector<ftiff::FileMetadata>* metadata_of) {
  std::vector<RestorePiece> pieces;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    *bad = s;
    CAIRN_ASSIGN_OR_RETURN(ftiff::FileMetadata metadata, ReadMetadata(disk, sources[s]));
    std::map<std::int32_t, const Wanted*> by_id;
    for (const Wanted& one : wanted) {
      if (one.rank == ranks[s]) by_id[one.id] = &one;
    }
    std::map<std::int32_t, std::uint64_t> found;
    for (const ftiff::Container& container : metadata.layout.containers) {
      auto one = by_id.find(container.id);
      if (one == by_id.end() || !container.has_content || container.chunk_bytes == 0) continue;
      if (container.variable_offset > one->second->bytes ||
          container.chunk_bytes > one->second->bytes - container.variable_offset) {
        return DataLoss("{}: variable {}: a container at {} + {} leaves its {} bytes", sources[s].path, container.id,
                        container.variable_offset, container.chunk_bytes, one->second->bytes);
      }
      found[container.id] += container.chunk_bytes;
      pieces.push_back({.variable = one->second->variable,
                        .variable_offset = container.variable_offset,
                        .source = s,
                        .file_offset = container.file_offset,
                        .bytes = container.chunk_bytes});
    }
    for (const auto& [id, one] : by_id) {
      if (found[id] != one->bytes) {
        return DataLoss("{}: variable {}: {} of {} bytes are there", sources[s].path, id, found[id], one->bytes);
      }
    }
    if (metadata_of != nullptr) metadata_of->push_back(std::move(metadata));
  }
  return pieces;
}

}  // namespace cairn

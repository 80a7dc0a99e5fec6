#include "storage/file/bpdir/directory.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/bpdir/names.h"
#include "storage/file/bpdir/step_check.h"
#include "storage/format/bp5/walk.h"

namespace cairn::bpdir {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;  // of md.idx at once
// A record of a gigabyte is one of a hundred million positions; sparse files claim any size.
constexpr std::uint64_t kIndexBytesMax = std::uint64_t{1} << 30;

class Subfiles final : public bp5::ByteSource {
 public:
  explicit Subfiles(std::shared_ptr<FileSource> files) : files_(std::move(files)) {}
  absl::Status Read(std::uint32_t subfile, std::uint64_t offset, std::span<std::byte> target) override {
    return files_->Read(NameOf(subfile), offset, target);
  }
  std::span<const std::byte> InPlace(std::uint32_t subfile, std::uint64_t offset, std::uint64_t bytes) override {
    return files_->InPlace(NameOf(subfile), offset, bytes);
  }

 private:
  static std::string NameOf(std::uint32_t subfile) { return fmt::format("data.{}", subfile); }

  const std::shared_ptr<FileSource> files_;
};

// All that was found in the files so far.
struct State {
  explicit State(std::unique_ptr<FileSource> source) : files(std::move(source)), data(files) {}

  const std::shared_ptr<FileSource> files;
  Subfiles data;
  bp5::Metadata metadata;
  bool active = false;
  absl::Status ending;
  // What must be as it is for what was found to be there still: of md.idx the header, and the bytes from `last_begin`
  // to where it was taken, which are the last record at least.
  std::vector<std::byte> header, last;
  std::uint64_t last_begin = 0;
};

absl::StatusOr<std::uint64_t> BytesOrNone(FileSource& files, const std::string& name) {
  auto bytes = files.Bytes(name);
  if (absl::IsNotFound(bytes.status())) return 0;
  return bytes;
}

absl::StatusOr<std::vector<std::byte>> ReadIndex(FileSource& files, std::uint64_t begin, std::uint64_t end) {
  if (end - begin > kIndexBytesMax) {
    return ResourceExhausted("{}: {} bytes are too many to be looked at", files.NameOf(kIndexName), end - begin);
  }
  std::vector<std::byte> bytes(end - begin);
  CAIRN_RETURN_IF_ERROR(files.Read(kIndexName, begin, bytes));
  return bytes;
}

// Of md.0 held at once, unless a single step is larger: so that no more is in memory than what proved to be steps.
constexpr std::uint64_t kGroupBytes = std::uint64_t{4} << 20;

// Complete records of md.idx that are taken at once, and what they need of md.0.
struct Group {
  std::size_t index_bytes = 0;
  std::uint64_t begin = 0, end = 0;  // equal: nothing
  std::optional<StepPlace> large;    // a single step larger than groups are
};

// Where a step's record says that it is; nullopt: nowhere in `metadata_bytes` of md.0, which whoever decodes it says.
std::optional<StepPlace> PlaceOf(std::span<const std::byte> body, std::uint64_t metadata_bytes) {
  const bp5::StepBody step(body);
  const std::uint64_t positions = step.positions.size() / 8;
  if (positions == 0 || step.flushes > positions + bp5::kIndexNumbersBeforeList) return std::nullopt;
  const StepPlace place{step.metadata_begin, step.metadata_bytes, positions / step.PositionsEach()};
  if (place.begin > metadata_bytes || place.bytes > metadata_bytes - place.begin) return std::nullopt;
  if (place.bytes < 8 || place.writers > (place.bytes - 8) / 16) return std::nullopt;
  return place;
}

// The first records of a tail, none if none is complete.
Group FirstGroup(std::span<const std::byte> records, std::uint64_t metadata_bytes) {
  Group group;
  for (bp5::IndexWalk walk(records, 0); walk.Next();) {
    const bp5::IndexRecord& record = walk.record();
    const auto place = record.head.is_step() ? PlaceOf(record.body, metadata_bytes) : std::nullopt;
    if (place) {
      const bool first = group.begin == group.end;
      const std::uint64_t begin = first ? place->begin : std::min(group.begin, place->begin);
      const std::uint64_t end = std::max(group.end, place->begin + place->bytes);
      if (!first && end - begin > kGroupBytes) break;
      if (end - begin > kGroupBytes) group.large = place;
      group.begin = begin;
      group.end = end;
    }
    group.index_bytes = walk.offset();
  }
  return group;
}

// Keeps the bytes from behind the step before the last one on. `taken`: of md.idx from `begin` on.
void KeepLast(State& state, std::uint64_t begin, std::span<const std::byte> taken) {
  if (state.last.empty()) state.last_begin = begin;
  state.last.insert(state.last.end(), taken.begin(), taken.end());
  const std::uint32_t steps = state.metadata.steps();
  const std::uint64_t keep = std::max<std::uint64_t>(
      steps >= 2 ? state.metadata.index_end(steps - 2) : bp5::kIndexHeaderBytes, state.last_begin);
  const std::uint64_t before = std::min<std::uint64_t>(keep - state.last_begin, state.last.size());
  state.last.erase(state.last.begin(), state.last.begin() + static_cast<std::ptrdiff_t>(before));
  state.last_begin += before;
}

// Gives `tail` to the metadata, or releases what of it was held.
absl::Status Extend(State& state, const bp5::Metadata::Tail& tail) {
  const absl::Status taken = state.metadata.Extend(tail);
  if (taken.ok()) return taken;
  state.files->Release(tail.formats);
  state.files->Release(tail.metadata);
  return Annotate(taken, state.files->NameOf(""));
}

// Takes the new formats, and the header of md.idx if it is the first time (else it is empty).
absl::Status TakeFormats(State& state, std::span<const std::byte> header) {
  FileSource& files = *state.files;
  const std::uint64_t begin = state.metadata.formats_bytes();
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t end, BytesOrNone(files, kFormatsName));
  bp5::Metadata::Tail tail;
  tail.index = header;
  if (end > begin) {
    CAIRN_ASSIGN_OR_RETURN(tail.formats, files.Hold(kFormatsName, begin, end - begin));
  }
  CAIRN_RETURN_IF_ERROR(Extend(state, tail));
  if (header.empty()) return absl::OkStatus();
  state.header.assign(header.begin(), header.end());
  state.last_begin = bp5::kIndexHeaderBytes;
  return absl::OkStatus();
}

// A step that claims to be large is looked at while it is read.
absl::StatusOr<std::span<const std::byte>> HoldGroup(State& state, const Group& group) {
  FileSource& files = *state.files;
  if (!group.large) return files.Hold(kMetadataName, group.begin, group.end - group.begin);
  StepCheck check(state.metadata, files.NameOf(kMetadataName), *group.large);
  return files.HoldIf(kMetadataName, group.begin, group.end - group.begin,
                      [&](std::span<const std::byte> so_far) { return check.Take(so_far); });
}

absl::Status TakeGroup(State& state, std::span<const std::byte> records, const Group& group) {
  const std::uint64_t index_begin = state.metadata.index_bytes();
  bp5::Metadata::Tail tail;
  tail.index = records.first(group.index_bytes);
  tail.metadata_begin = group.begin;
  if (group.end > group.begin) {
    CAIRN_ASSIGN_OR_RETURN(tail.metadata, HoldGroup(state, group));
  }
  CAIRN_RETURN_IF_ERROR(Extend(state, tail));
  KeepLast(state, index_begin, tail.index);
  return absl::OkStatus();
}

// Records speak of bytes of a file that is not there: that is what is wrong, not the records.
absl::Status WhyDamaged(FileSource& files, const absl::Status& damage) {
  if (!absl::IsDataLoss(damage)) return damage;
  for (const char* const name : {kMetadataName, kFormatsName}) {
    if (!absl::IsNotFound(files.Bytes(name).status())) continue;
    return DataLoss("{}: missing, and {} has steps", files.NameOf(name), kIndexName);
  }
  return damage;
}

// Takes what came to the files, md.idx first: what its complete records speak of was written before them.
absl::Status TakePiece(State& state, std::uint64_t index_end) {
  const std::uint64_t index_begin = state.metadata.index_bytes();
  if (index_end < bp5::kIndexHeaderBytes || index_end == index_begin) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::byte> index, ReadIndex(*state.files, index_begin, index_end));
  const std::size_t head = index_begin == 0 ? bp5::kIndexHeaderBytes : 0;
  std::span<const std::byte> records = std::span(index).subspan(head);
  if (head == 0 && !bp5::IndexWalk(records, index_begin).Next()) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(TakeFormats(state, std::span(index).first(head)));
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t metadata_bytes, BytesOrNone(*state.files, kMetadataName));
  while (true) {
    const Group group = FirstGroup(records, metadata_bytes);
    if (group.index_bytes == 0) return absl::OkStatus();
    CAIRN_RETURN_IF_ERROR(TakeGroup(state, records, group));
    records = records.subspan(group.index_bytes);
  }
}

// Piece by piece, so that a large md.idx, or a sparse one that is refused with its first record, is never in memory.
absl::Status TakeTail(State& state, std::uint64_t index_end) {
  for (std::uint64_t piece = kPieceBytes;;) {
    const std::uint64_t begin = state.metadata.index_bytes();
    const std::uint64_t end = std::min(index_end, begin + piece);
    if (const absl::Status taken = TakePiece(state, end); !taken.ok()) return WhyDamaged(*state.files, taken);
    if (end == index_end) return absl::OkStatus();
    piece = state.metadata.index_bytes() > begin ? kPieceBytes : 2 * piece;  // not even one record: a longer one
  }
}

// The header as it is now; empty: there is none yet.
absl::StatusOr<std::vector<std::byte>> ReadHeader(FileSource& files, std::uint64_t index_end) {
  if (index_end < bp5::kIndexHeaderBytes) return std::vector<std::byte>();
  return ReadIndex(files, 0, bp5::kIndexHeaderBytes);
}

bool IsActive(std::span<const std::byte> header) {
  return !header.empty() && header[bp5::IndexHeader::kActiveAt] != std::byte{0};
}

// What is behind the last step, of what a closed directory does not have; empty: nothing.
std::string Leftover(const bp5::Metadata& metadata, std::uint64_t index_bytes, std::uint64_t metadata_bytes) {
  const std::uint64_t index_taken = metadata.index_bytes(), metadata_taken = metadata.metadata_bytes();
  if (index_bytes < bp5::kIndexHeaderBytes) {
    if (metadata_bytes == 0) return {};  // made just now
    return fmt::format("md.idx: its {} bytes are no header, and md.0 has {}", index_bytes, metadata_bytes);
  }
  if (index_bytes > index_taken) {
    return fmt::format("md.idx: the record at {} is not whole in the {} bytes that are left, though it is closed",
                       index_taken, index_bytes - index_taken);
  }
  if (metadata_bytes > metadata_taken) {
    return fmt::format("md.0: {} bytes from {} on are of no step in md.idx, which is closed and ends at {}",
                       metadata_bytes - metadata_taken, metadata_taken, index_bytes);
  }
  return {};
}

// Finds out what Directory::ending answers. `index_end`: how much of md.idx was looked at, in which `header` stood.
absl::Status LookAtEnding(State& state, std::uint64_t index_end, std::span<const std::byte> header) {
  state.ending = absl::OkStatus();
  if (IsActive(header)) return absl::OkStatus();
  FileSource& files = *state.files;
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t metadata_bytes, BytesOrNone(files, kMetadataName));
  const std::string leftover = Leftover(state.metadata, index_end, metadata_bytes);
  if (leftover.empty()) return absl::OkStatus();
  // Somebody may have begun to write since md.idx was looked at: its flag is set before any file grows.
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t index_now, files.Bytes(kIndexName));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::byte> header_now, ReadHeader(files, index_now));
  if (index_now != index_end || IsActive(header_now)) return absl::OkStatus();
  state.ending = DataLoss("{}: {}: steps are missing", files.NameOf(""), leftover);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<State>> Load(std::unique_ptr<FileSource> files) {
  auto state = std::make_unique<State>(std::move(files));
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t index_end, state->files->Bytes(kIndexName));
  CAIRN_RETURN_IF_ERROR(TakeTail(*state, index_end));
  state->active = IsActive(state->header);
  CAIRN_RETURN_IF_ERROR(LookAtEnding(*state, index_end, state->header));
  return state;
}

// Whether what was found is not there any more.
absl::StatusOr<bool> IsAnother(const State& state, std::vector<std::byte> header, std::uint64_t index_end) {
  if (state.header.empty()) return false;  // nothing was found
  if (header.empty() || index_end < state.metadata.index_bytes()) return true;
  header[bp5::IndexHeader::kActiveAt] = state.header[bp5::IndexHeader::kActiveAt];
  if (header != state.header) return true;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::byte> last,
                         ReadIndex(*state.files, state.last_begin, state.metadata.index_bytes()));
  if (last != state.last) return true;
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t formats, BytesOrNone(*state.files, kFormatsName));
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t metadata, BytesOrNone(*state.files, kMetadataName));
  return formats < state.metadata.formats_bytes() || metadata < state.metadata.metadata_bytes();
}

// Data mapped, too, if it is closed just now.
absl::StatusOr<std::unique_ptr<FileSource>> FilesAt(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<FileSource> files, MapHeldFiles(path));
  CAIRN_ASSIGN_OR_RETURN(const std::uint64_t index_end, files->Bytes(kIndexName));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::byte> header, ReadHeader(*files, index_end));
  if (header.empty() || IsActive(header)) return files;
  return MapFiles(path);
}

// What a catalogue knows does not change any more, whatever its flag says.
absl::StatusOr<std::unique_ptr<FileSource>> FilesOf(const std::string& path, std::shared_ptr<const KnownSums> sums) {
  if (sums == nullptr) return FilesAt(path);
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<FileSource> files, MapFiles(path));
  return CheckFiles(std::move(files), std::move(sums));
}

class DirectoryImpl final : public Directory {
 public:
  // `path`: empty, or what the files are chosen by anew when the directory was replaced; `sums` are theirs.
  DirectoryImpl(std::unique_ptr<State> state, std::string path, std::shared_ptr<const KnownSums> sums)
      : state_(std::move(state)), path_(std::move(path)), sums_(std::move(sums)) {}

  absl::StatusOr<Change> Refresh() override {
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t index_end, state_->files->Bytes(kIndexName));
    CAIRN_ASSIGN_OR_RETURN(const std::vector<std::byte> header, ReadHeader(*state_->files, index_end));
    CAIRN_ASSIGN_OR_RETURN(const bool another, IsAnother(*state_, header, index_end));
    if (another) return LoadAnew();
    const std::uint32_t steps = state_->metadata.steps();
    CAIRN_RETURN_IF_ERROR(TakeTail(*state_, index_end));
    state_->active = IsActive(header);
    CAIRN_RETURN_IF_ERROR(LookAtEnding(*state_, index_end, header));
    return state_->metadata.steps() > steps ? Change::kGrown : Change::kNone;
  }

  const bp5::Metadata& metadata() const override { return state_->metadata; }
  bool active() const override { return state_->active; }
  const absl::Status& ending() const override { return state_->ending; }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    const std::uint64_t gaps = state_->metadata.metadata_bytes() - state_->metadata.steps_bytes();
    if (gaps > 0) {
      notes.push_back(fmt::format("{}: {} bytes between steps are of no step in md.idx: a writer may have died there",
                                  state_->files->NameOf(kMetadataName), gaps));
    }
    return notes;
  }
  bp5::ByteSource& data() override { return state_->data; }
  absl::Status CheckHeld() const override { return state_->files->CheckHeld(); }
  std::shared_ptr<const void> Pin() const override { return state_->files; }

 private:
  absl::StatusOr<Change> LoadAnew() {
    std::unique_ptr<FileSource> files;
    if (path_.empty()) {
      files = state_->files->Anew();
    } else {
      CAIRN_ASSIGN_OR_RETURN(files, FilesOf(path_, sums_));
    }
    CAIRN_ASSIGN_OR_RETURN(state_, Load(std::move(files)));
    return Change::kReplaced;
  }

  std::unique_ptr<State> state_;
  const std::string path_;
  const std::shared_ptr<const KnownSums> sums_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Directory>> Directory::Open(std::unique_ptr<FileSource> files) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<State> state, Load(std::move(files)));
  return std::make_unique<DirectoryImpl>(std::move(state), "", nullptr);
}

absl::StatusOr<std::unique_ptr<Directory>> Directory::Open(const std::string& path,
                                                           std::shared_ptr<const KnownSums> sums) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<FileSource> files, FilesOf(path, sums));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<State> state, Load(std::move(files)));
  return std::make_unique<DirectoryImpl>(std::move(state), path, std::move(sums));
}

}  // namespace cairn::bpdir

#include "storage/file/fti/coded_group.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "storage/base/status.h"
#include "storage/file/fti/code.h"
#include "storage/file/fti/last_byte.h"
#include "storage/file/fti/opened.h"

namespace cairn::fti {
namespace {

// Where the file record at the front of a file of layout A or B has `fs` (section 2.1).
constexpr std::uint64_t kLengthOffsetA = 64, kLengthOffsetB = 57;

using Paths = std::map<std::uint32_t, std::string>;

struct Shard {
  std::unique_ptr<File> file;
  std::uint64_t bytes = 0;        // of a checkpoint file
  std::uint64_t shard_bytes = 0;  // maxFs
  ftiff::Letter letter = ftiff::Letter::kF;
  bool is_code = false;

  ReadShard Reader() const {
    File* const borrowed = file.get();
    if (!is_code) return DataShard(*borrowed, bytes, shard_bytes, HasLengthWord(letter));
    return [borrowed](std::uint64_t offset, std::span<std::byte> target) { return borrowed->ReadAt(offset, target); };
  }
};

absl::StatusOr<Shard> OpenData(Disk& disk, const std::string& path, std::int32_t id) {
  CAIRN_ASSIGN_OR_RETURN(OpenedFile opened, OpenRankFile(disk, path, id));
  const std::int64_t shard_bytes = opened.metadata.header.file_bytes_max;
  const ftiff::Letter letter = opened.metadata.letter;
  const std::uint64_t least = opened.bytes + (HasLengthWord(letter) ? sizeof(std::uint64_t) : 0);
  if (shard_bytes < 0 || static_cast<std::uint64_t>(shard_bytes) < least) {
    return DataLoss("{}: maxFs is {}, expected at least {}", path, shard_bytes, least);
  }
  return Shard{.file = std::move(opened.file),
               .bytes = opened.bytes,
               .shard_bytes = static_cast<std::uint64_t>(shard_bytes),
               .letter = letter,
               .is_code = false};
}

absl::StatusOr<Shard> OpenCode(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(OpenedCode opened, OpenCodeFile(disk, path));
  CAIRN_RETURN_IF_ERROR(VerifyCodeFile(opened));
  return Shard{.file = std::move(opened.file),
               .bytes = opened.record.code_bytes,
               .shard_bytes = opened.record.code_bytes,
               .letter = opened.record.letter,
               .is_code = true};
}

class Rebuilder {
 public:
  Rebuilder(Disk& disk, const GroupRemains& remains, const CheckRebuilt& check)
      : disk_(disk), remains_(remains), check_(check) {}

  absl::StatusOr<RebuiltGroup> Run(Paths targets) {
    OpenAll();
    KeepThoseThatFit();
    if (shards_.size() < remains_.size) {
      return DataLoss("{} of {} data and code files are left, {} are needed{}{}", shards_.size(), 2 * remains_.size,
                      remains_.size, damaged_.empty() ? "" : ": ", fmt::join(damaged_, "; "));
    }
    RebuiltGroup rebuilt;
    for (const std::vector<std::uint32_t>& sources : Tries()) {
      CAIRN_RETURN_IF_ERROR(Try(sources, targets, rebuilt.wrong));
      if (targets.empty()) break;
    }
    rebuilt.warnings = std::move(damaged_);
    return rebuilt;
  }

 private:
  void Keep(std::uint32_t number, absl::StatusOr<Shard> shard) {
    if (shard.ok()) {
      shards_.emplace(number, *std::move(shard));
    } else {
      damaged_.emplace_back(MessageOf(shard.status()));
    }
  }

  void OpenAll() {
    for (const auto& [member, path] : remains_.files) Keep(member, OpenData(disk_, path, remains_.id));
    for (const auto& [member, path] : remains_.codes) Keep(remains_.size + member, OpenCode(disk_, path));
  }

  // All shards of a group have the same length: that of most of them, should some say another.
  void KeepThoseThatFit() {
    std::map<std::pair<std::uint64_t, bool>, std::size_t> votes;
    for (const auto& [number, shard] : shards_) ++votes[{shard.shard_bytes, HasLengthWord(shard.letter)}];
    std::size_t most = 0;
    for (const auto& [kind, count] : votes) {
      if (count > most) std::tie(most, shard_bytes_, length_word_) = std::tuple(count, kind.first, kind.second);
    }
    std::erase_if(shards_, [this](const auto& entry) {
      const Shard& shard = entry.second;
      if (shard.shard_bytes == shard_bytes_ && HasLengthWord(shard.letter) == length_word_) return false;
      damaged_.push_back(fmt::format("{}: encoded with {} bytes, the rest of its group with {}", shard.file->path(),
                                     shard.shard_bytes, shard_bytes_));
      return true;
    });
  }

  // Which k shards to use, the first choice first; none twice.
  std::vector<std::vector<std::uint32_t>> Tries() const {
    std::vector<std::uint32_t> data_first, code_first;
    for (const auto& [number, shard] : shards_) data_first.push_back(number);
    const auto code = std::find_if(data_first.begin(), data_first.end(),
                                   [this](std::uint32_t number) { return number >= remains_.size; });
    std::rotate_copy(data_first.begin(), code, data_first.end(), std::back_inserter(code_first));
    std::vector<std::vector<std::uint32_t>> tries;
    const auto add = [&](std::vector<std::uint32_t> sources) {
      if (sources.size() < remains_.size) return;
      sources.resize(remains_.size);
      std::sort(sources.begin(), sources.end());
      if (std::find(tries.begin(), tries.end(), sources) == tries.end()) tries.push_back(std::move(sources));
    };
    add(data_first);
    add(code_first);
    for (auto data = data_first.begin(); data != code; ++data) {
      std::vector<std::uint32_t> without = code_first;
      std::erase(without, *data);
      add(std::move(without));
    }
    return tries;
  }

  // Takes those that are right out of `targets` and `wrong`.
  absl::Status Try(const std::vector<std::uint32_t>& sources, Paths& targets,
                   std::map<std::uint32_t, absl::Status>& wrong) {
    std::vector<std::unique_ptr<File>> files;
    CAIRN_RETURN_IF_ERROR(Mix(sources, targets, files));
    std::size_t next = 0;
    for (auto target = targets.begin(); target != targets.end();) {
      const auto& [member, path] = *target;
      absl::Status status = CutToLength(*files[next++]);
      if (!status.ok() && !absl::IsDataLoss(status)) return status;
      if (status.ok()) status = check_(member, path);
      if (status.ok()) {
        wrong.erase(member);
        target = targets.erase(target);
      } else {
        wrong.emplace(member, std::move(status));
        ++target;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Mix(const std::vector<std::uint32_t>& present, const Paths& targets,
                   std::vector<std::unique_ptr<File>>& files) {
    std::vector<std::uint32_t> wanted;
    std::vector<WriteShard> writers;
    for (const auto& [member, path] : targets) {
      wanted.push_back(member);
      CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file, disk_.Open(path, {.writable = true, .create = true}));
      writers.push_back([borrowed = file.get()](std::uint64_t offset, std::span<const std::byte> bytes) {
        return borrowed->WriteAt(offset, bytes);
      });
      files.push_back(std::move(file));
    }
    CAIRN_ASSIGN_OR_RETURN(const Recipe recipe, MakeRecipe(remains_.size, present, wanted));
    std::vector<ReadShard> readers;
    for (const std::uint32_t source : recipe.sources) readers.push_back(shards_.at(source).Reader());
    return MixShards(recipe, shard_bytes_, readers, writers);
  }

  // C to F: the length is behind the file. A and B: it is in the record at the front, the one whose layout is right.
  absl::Status CutToLength(File& file) {
    std::optional<std::uint64_t> bytes;
    if (length_word_) {
      CAIRN_ASSIGN_OR_RETURN(
          bytes, NumberAt(file, shard_bytes_ - std::min<std::uint64_t>(shard_bytes_, sizeof(std::uint64_t))));
    } else {
      const bool is_a = shards_.begin()->second.letter == ftiff::Letter::kA;
      CAIRN_ASSIGN_OR_RETURN(bytes, NumberAt(file, is_a ? kLengthOffsetA : kLengthOffsetB));
    }
    const std::uint64_t most = shard_bytes_ - (length_word_ ? sizeof(std::uint64_t) : 0);
    if (!bytes.has_value() || *bytes > most) {
      return DataLoss("{}: rebuilt with a length of {} bytes, at most {} are possible", file.path(), bytes.value_or(0),
                      most);
    }
    CAIRN_RETURN_IF_ERROR(file.Truncate(*bytes));
    // The code words of the last byte have lost their upper halves.
    return !length_word_ && shard_bytes_ % 2 != 0 && *bytes == shard_bytes_ ? MendLastByte(file) : absl::OkStatus();
  }

  // nullopt: the file is too short to hold one.
  absl::StatusOr<std::optional<std::uint64_t>> NumberAt(File& file, std::uint64_t offset) {
    std::uint64_t number = 0;
    if (shard_bytes_ < sizeof number || offset > shard_bytes_ - sizeof number) return std::nullopt;
    CAIRN_RETURN_IF_ERROR(file.ReadAt(offset, std::as_writable_bytes(std::span(&number, 1))));
    return number;
  }

  Disk& disk_;
  const GroupRemains& remains_;
  const CheckRebuilt& check_;
  std::map<std::uint32_t, Shard> shards_;
  std::uint64_t shard_bytes_ = 0;
  bool length_word_ = false;
  std::vector<std::string> damaged_;
};

}  // namespace

absl::StatusOr<RebuiltGroup> RebuildGroup(Disk& disk, const GroupRemains& remains,
                                          const std::map<std::uint32_t, std::string>& targets,
                                          const CheckRebuilt& check) {
  return Rebuilder(disk, remains, check).Run(targets);
}

}  // namespace cairn::fti

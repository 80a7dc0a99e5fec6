#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/clock.h"
#include "storage/base/md5_stream.h"
#include "storage/base/status.h"
#include "storage/file/fti/code.h"
#include "storage/file/fti/execution.h"
#include "storage/file/fti/infer.h"
#include "storage/file/fti/ini.h"
#include "storage/file/fti/names.h"
#include "storage/file/fti/opened.h"

namespace cairn::fti {
namespace {

constexpr std::size_t kPathBytesMax = 255;           // FTI keeps paths in 256 bytes
constexpr std::size_t kExecutionBytesMax = 200;      // section 8
constexpr std::int32_t kVariableIdDefault = 102400;  // max_var_id, if the configuration does not say it
constexpr std::size_t kCopyBytes = 1 << 20;
constexpr std::uint32_t kDirectoryMode = 0700;

std::uint64_t NowNs() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(WallNow().time_since_epoch()).count());
}

absl::Status CheckGroups(const Export& what) {
  if (what.level != Level::kPartner && what.level != Level::kEncoded) return absl::OkStatus();
  const std::uint32_t group = what.topology.group_size, least = what.letter == ftiff::Letter::kA ? 3 : 2;
  if (group >= least && group <= kCodedGroupMax) return absl::OkStatus();
  return InvalidArgument("level {} in layout {} needs groups of {} to {} nodes, not of {}",
                         static_cast<int>(what.level), static_cast<char>(what.letter), least, kCodedGroupMax, group);
}

absl::Status CheckRanks(const Export& what) {
  std::size_t writers = 0;
  for (std::uint32_t rank = 0; rank < what.topology.ranks; ++rank) writers += what.topology.writes(rank) ? 1 : 0;
  if (what.ranks.size() != writers) {
    return InvalidArgument("{} ranks' variables for {} application ranks", what.ranks.size(), writers);
  }
  for (std::size_t i = 0; i < what.ranks.size(); ++i) {
    if (what.ranks[i].layout.containers.empty()) {
      return InvalidArgument("application rank {} has no variables: FTI needs a file of every rank", i);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckExport(const Export& what) {
  CAIRN_RETURN_IF_ERROR(CheckTopology(what.topology));
  if (what.level < Level::kLocal || what.level > Level::kGlobal) {
    return InvalidArgument("level {} is not exported, only 1 to 4", static_cast<int>(what.level));
  }
  if (what.letter != ftiff::Letter::kA && what.letter != ftiff::Letter::kF) {
    return InvalidArgument("layout {} is not written, only A and F", static_cast<char>(what.letter));
  }
  if (what.id < 0) return InvalidArgument("checkpoint id {} is negative", what.id);
  const std::string& id = what.execution;
  if (id.empty() || id == "." || id == ".." || id.size() > kExecutionBytesMax || id.find('/') != std::string::npos ||
      !IsPlainValue(id)) {
    return InvalidArgument("\"{}\" cannot be an execution's id in FTI's configuration", id);
  }
  if (what.folder.empty() || what.folder[0] != '/') return InvalidArgument("\"{}\" is not absolute", what.folder);
  if (!IsPlainValue(what.folder)) return InvalidArgument("{}: not a path for FTI's configuration", what.folder);
  CAIRN_RETURN_IF_ERROR(CheckGroups(what));
  return CheckRanks(what);
}

absl::Status CopyFile(Disk& disk, const std::string& from, const std::string& to) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> source, disk.Open(from, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, source->Info());
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> target, disk.Open(to, {.writable = true, .create = true}));
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kCopyBytes, info.bytes));
  for (std::uint64_t offset = 0; offset < info.bytes; offset += buffer.size()) {
    const auto piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), info.bytes - offset));
    CAIRN_RETURN_IF_ERROR(source->ReadAt(offset, piece));
    CAIRN_RETURN_IF_ERROR(target->WriteAt(offset, piece));
  }
  return target->Sync();
}

// A code file as it grows: its bytes come front to back.
class CodeWriter {
 public:
  explicit CodeWriter(std::unique_ptr<File> file) : file_(std::move(file)) {}

  absl::Status Append(std::uint64_t offset, std::span<const std::byte> bytes) {
    hash_.Append(bytes);
    return file_->WriteAt(offset, bytes);
  }

  // `record`: all but the checksum.
  absl::Status Finish(ftiff::EncodedFile record) {
    record.checksum_hex = HexOf(hash_.Finish());
    CAIRN_RETURN_IF_ERROR(file_->WriteAt(record.code_bytes, ftiff::EncodeEncodedRecord(record)));
    return file_->Sync();
  }

 private:
  std::unique_ptr<File> file_;
  Md5Stream hash_;
};

// All code shards out of all data shards.
Recipe EncodingRecipe(std::uint32_t k) {
  std::vector<std::uint32_t> data(k), code(k);
  std::iota(data.begin(), data.end(), 0);
  std::iota(code.begin(), code.end(), k);
  absl::StatusOr<Recipe> recipe = MakeRecipe(k, data, code);
  CAIRN_CHECK(recipe.ok());  // nothing is missing
  return *std::move(recipe);
}

class Exporter {
 public:
  Exporter(Disk& disk, const Export& what) : disk_(disk), what_(what), topology_(what.topology), now_ns_(NowNs()) {}

  absl::Status Run() {
    std::size_t next = 0;
    for (std::uint32_t rank = 0; rank < topology_.ranks; ++rank) {
      if (topology_.writes(rank)) source_[rank] = &what_.ranks[next++];
    }
    CAIRN_RETURN_IF_ERROR(CheckPaths());
    CAIRN_RETURN_IF_ERROR(TakeFolder());
    absl::Status status = WriteAll();
    if (!status.ok()) RemoveAll();
    return status;
  }

 private:
  std::string FolderOf(std::uint32_t rank) const {
    if (what_.level == Level::kGlobal) return fmt::format("{}/Global/{}/l4", what_.folder, what_.execution);
    return fmt::format("{}/Local/node{}/{}/l{}", what_.folder, rank / topology_.node_size, what_.execution,
                       static_cast<int>(what_.level));
  }
  std::string PathOf(FileKind kind, std::uint32_t rank) const {
    return FolderOf(rank) + "/" + MakeFileName({.kind = kind, .id = what_.id, .rank = rank});
  }
  std::uint64_t BytesOf(std::uint32_t rank) const { return source_.at(rank)->layout.file_bytes(what_.letter); }

  // A restart at any level goes through the last node's `tmp`, which has the longest paths of all.
  absl::Status CheckPaths() const {
    const std::string longest =
        fmt::format("{}/Local/node{}/{}/tmp/{}", what_.folder, topology_.nodes() - 1, what_.execution,
                    MakeFileName({.kind = FileKind::kRank, .id = what_.id, .rank = topology_.ranks - 1}));
    if (longest.size() <= kPathBytesMax) return absl::OkStatus();
    return InvalidArgument("{}: {} bytes, but FTI's paths have at most {}", longest, longest.size(), kPathBytesMax);
  }

  absl::Status TakeFolder() {
    CAIRN_RETURN_IF_ERROR(MakeDirectories(disk_, what_.folder, kDirectoryMode));
    CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk_.List(what_.folder));
    if (!names.empty()) return AlreadyExists("{}: not empty: there is {}", what_.folder, names.front());
    return absl::OkStatus();
  }

  absl::Status WriteAll() {
    std::set<std::string> folders;
    for (const auto& [rank, source] : source_) folders.insert(FolderOf(rank));
    for (const char* base : {"/Local", "/Global"}) {  // FTI expects both
      CAIRN_RETURN_IF_ERROR(MakeDirectories(disk_, what_.folder + base, kDirectoryMode));
    }
    for (const std::string& folder : folders) CAIRN_RETURN_IF_ERROR(MakeDirectories(disk_, folder, kDirectoryMode));
    for (const auto& [rank, source] : source_) CAIRN_RETURN_IF_ERROR(WriteRank(rank, *source));
    if (what_.level == Level::kPartner) CAIRN_RETURN_IF_ERROR(WriteCopies());
    if (what_.level == Level::kEncoded) CAIRN_RETURN_IF_ERROR(WriteCodes());
    for (const std::string& folder : folders) CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(folder));
    const std::string metadata = fmt::format("{}/Meta/{}", what_.folder, what_.execution);
    CAIRN_RETURN_IF_ERROR(MakeDirectories(disk_, metadata, kDirectoryMode));
    CAIRN_RETURN_IF_ERROR(ReplaceFile(disk_, metadata + "/Topology.fti", TopologyText()));
    return ReplaceFile(disk_, what_.folder + "/config.fti", ConfigText());
  }

  // What the encoding makes of the files of `rank`'s group: its largest one, in F and its length; in A even, since the
  // code files have no room for the last half of an odd number's last word.
  std::uint64_t ShardBytes(std::uint32_t rank) const {
    std::uint64_t most = 0;
    for (const std::uint32_t member : topology_.GroupOf(rank)) most = std::max(most, BytesOf(member));
    return what_.letter == ftiff::Letter::kA ? most + most % 2 : most + sizeof(std::uint64_t);
  }

  absl::Status WriteRank(std::uint32_t rank, const Export::Rank& source) {
    ftiff::FileHeader header = {.checkpoint_id = what_.id, .timestamp_ns = now_ns_};
    if (what_.level == Level::kEncoded) header.file_bytes_max = static_cast<std::int64_t>(ShardBytes(rank));
    if (what_.level == Level::kPartner)
      header.partner_bytes = static_cast<std::int64_t>(BytesOf(topology_.LeftOf(rank)));
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file,
                           disk_.Open(PathOf(FileKind::kRank, rank), {.writable = true, .create = true}));
    const ftiff::WriteAt write = [&file](std::uint64_t offset, std::span<const std::byte> bytes) {
      return file->WriteAt(offset, bytes);
    };
    const auto written = ftiff::WriteFile({.letter = what_.letter,
                                           .header = header,
                                           .layout = source.layout,
                                           .chunk_hashes = {},
                                           .registered = source.registered},
                                          source.read, write);
    if (!written.ok()) return Annotate(written.status(), fmt::format("rank {}", rank));
    CAIRN_CHECK(written->file_bytes == BytesOf(rank));
    return file->Sync();
  }

  absl::Status WriteCopies() {
    for (const auto& [rank, source] : source_) {
      CAIRN_RETURN_IF_ERROR(
          CopyFile(disk_, PathOf(FileKind::kRank, topology_.LeftOf(rank)), PathOf(FileKind::kCopy, rank)));
    }
    return absl::OkStatus();
  }

  absl::Status WriteCodes() {
    for (const auto& [rank, source] : source_) {
      if (topology_.group_rank(rank) == 0) CAIRN_RETURN_IF_ERROR(WriteCodesOf(topology_.GroupOf(rank)));
    }
    return absl::OkStatus();
  }

  absl::Status WriteCodesOf(const std::vector<std::uint32_t>& group) {
    const std::uint64_t shard_bytes = ShardBytes(group.front());
    std::vector<std::unique_ptr<File>> files;
    std::vector<std::unique_ptr<CodeWriter>> writers;
    std::vector<ReadShard> sources;
    std::vector<WriteShard> targets;
    for (const std::uint32_t rank : group) {
      CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file, disk_.Open(PathOf(FileKind::kRank, rank), {}));
      sources.push_back(DataShard(*file, BytesOf(rank), shard_bytes, HasLengthWord(what_.letter)));
      files.push_back(std::move(file));
      CAIRN_ASSIGN_OR_RETURN(file, disk_.Open(PathOf(FileKind::kCode, rank), {.writable = true, .create = true}));
      writers.push_back(std::make_unique<CodeWriter>(std::move(file)));
      targets.push_back([writer = writers.back().get()](std::uint64_t offset, std::span<const std::byte> bytes) {
        return writer->Append(offset, bytes);
      });
    }
    CAIRN_RETURN_IF_ERROR(
        MixShards(EncodingRecipe(static_cast<std::uint32_t>(group.size())), shard_bytes, sources, targets));
    for (std::size_t i = 0; i < group.size(); ++i) {
      CAIRN_RETURN_IF_ERROR(writers[i]->Finish({.letter = what_.letter,
                                                .checkpoint_id = what_.id,
                                                .timestamp_ns = now_ns_,
                                                .code_bytes = shard_bytes,
                                                .checkpoint_bytes = BytesOf(group[i]),
                                                .checksum_hex = {}}));
    }
    return absl::OkStatus();
  }

  std::string TopologyText() const {
    IniSection hosts = {"topology", {}};
    for (std::uint32_t node = 0; node < topology_.nodes(); ++node) {
      hosts.second.emplace_back(std::to_string(node), fmt::format("node{}", node));
    }
    return PrintIni({hosts});
  }

  std::int32_t VariableIdMax() const {
    std::int32_t most = 0;
    for (const Export::Rank& rank : what_.ranks) {
      for (const ftiff::Container& container : rank.layout.containers) most = std::max(most, container.id);
    }
    return most;
  }

  // All the keys that some release needs; the rest are its defaults. Checkpoint intervals are the application's.
  std::string ConfigText() const {
    std::vector<IniSection> sections = DefaultSections();
    if (const std::int32_t most = VariableIdMax(); most > kVariableIdDefault) {
      sections.front().second.emplace_back("max_var_id", std::to_string(most));
    }
    return PrintIni(sections);
  }

  std::vector<IniSection> DefaultSections() const {
    return {{"basic",
             {{"node_size", std::to_string(topology_.node_size)},
              {"group_size", std::to_string(topology_.group_size)},
              {"ckpt_dir", what_.folder + "/Local"},
              {"glbl_dir", what_.folder + "/Global"},
              {"meta_dir", what_.folder + "/Meta"},
              {"ckpt_io", "3"},
              {"ckpt_l1", "0"},
              {"ckpt_l2", "0"},
              {"ckpt_l3", "0"},
              {"ckpt_l4", "0"},
              {"dcp_l4", "0"},
              {"head", topology_.heads ? "1" : "0"},
              {"inline_l2", "1"},
              {"inline_l3", "1"},
              {"inline_l4", "1"},
              {"keep_last_ckpt", "0"},
              {"keep_l4_ckpt", "0"},
              {"verbosity", "2"},
              {"max_sync_intv", "512"},
              {"enable_dcp", "0"},
              {"dcp_mode", "1"},
              {"dcp_block_size", "1024"},
              {"dcp_stack_size", "5"},
              {"enable_staging", "0"}}},
            {"restart", {{"failure", "1"}, {"exec_id", what_.execution}}},
            {"injection", {{"rank", "0"}, {"number", "0"}, {"position", "0"}, {"frequency", "0"}}},
            {"advanced",
             {{"block_size", "1024"},
              {"transfer_size", "16"},
              {"mpi_tag", "2612"},
              {"local_test", "1"},
              {"general_tag", "2612"},
              {"ckpt_tag", "711"},
              {"stage_tag", "406"},
              {"final_tag", "3107"}}}};
  }

  void RemoveAll() {
    for (const char* name : {"/config.fti", "/Meta", "/Global", "/Local"}) {
      RemoveTree(disk_, what_.folder + name).IgnoreError();  // the first error counts
    }
  }

  Disk& disk_;
  const Export& what_;
  const Topology& topology_;
  const std::uint64_t now_ns_;
  std::map<std::uint32_t, const Export::Rank*> source_;  // by FTI's rank
};

}  // namespace

absl::Status Write(Disk& disk, const Export& what) {
  CAIRN_RETURN_IF_ERROR(CheckExport(what));
  return Exporter(disk, what).Run();
}

}  // namespace cairn::fti

#include "storage/format/scr/rank2file.h"

#include <set>
#include <string_view>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/scr/fields.h"

namespace cairn::scr {
namespace {

using kvtree::Tree;
using Load = std::function<absl::StatusOr<Tree>(const std::string& suffix)>;

constexpr std::uint64_t kBlockBytesMin = 128;  // more than an entry of an upper level packs to, so that levels shrink
constexpr std::uint64_t kLevelMax = 8;         // 1 MiB of entries a level: two are enough for any int of ranks

// What one level lists: a rank, or the first rank of a part, and the tree under it.
using Entries = std::vector<std::pair<std::uint64_t, Tree>>;

std::string SuffixOf(std::uint64_t level, std::uint64_t writer) {
  return fmt::format(".{}.{}", level, writer);
}

Tree MakePart(std::uint64_t ranks, std::uint64_t level, Entries entries) {
  Tree part;
  Tree& list = part.At("RANK");
  for (auto& [rank, tree] : entries) list.At(std::to_string(rank)) = std::move(tree);
  part.Set("LEVEL", level);
  part.Set("RANKS", ranks);
  return part;
}

// Splits by the place of each entry when all are laid end to end.
std::vector<Entries> Split(Entries entries, std::uint64_t block_bytes) {
  std::vector<Entries> pieces;
  std::uint64_t begin = 0;
  for (auto& entry : entries) {
    const std::uint64_t end = begin + kvtree::PackedBytes(entry.second);
    if (pieces.empty() || begin / block_bytes != (end - 1) / block_bytes) pieces.emplace_back();
    pieces.back().push_back(std::move(entry));
    begin = end;
  }
  return pieces;
}

Entries FileEntries(const std::vector<std::vector<std::string>>& files) {
  Entries entries;
  entries.reserve(files.size());
  for (const std::vector<std::string>& names : files) {
    Tree tree;
    // A new key goes to the front: from behind, the file keeps the order.
    for (auto name = names.rbegin(); name != names.rend(); ++name) tree.At("FILE").At(*name);
    entries.emplace_back(entries.size(), std::move(tree));
  }
  return entries;
}

class Reader {
 public:
  explicit Reader(const Load& load) : load_(load) {}

  absl::StatusOr<Rank2File> Read() {
    CAIRN_ASSIGN_OR_RETURN(const Tree root, load_(""));
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t level, LevelOf("", root));
    if (absl::Status status = TakeUpTo(kIntMax, root, "RANKS", result_.ranks); !status.ok()) {
      return Annotate(status, "rank2file");
    }
    CAIRN_RETURN_IF_ERROR(ReadTree("", root, level));
    if (result_.ranks == 0 && !result_.files.empty()) result_.ranks = result_.files.rbegin()->first + 1;
    if (!result_.files.empty() && result_.files.rbegin()->first >= result_.ranks) {
      return DataLoss("rank2file: rank {} of {}", result_.files.rbegin()->first, result_.ranks);
    }
    return std::move(result_);
  }

 private:
  absl::StatusOr<std::uint64_t> LevelOf(std::string_view suffix, const Tree& tree) {
    std::uint64_t level = 0;  // a part without it lists files
    if (absl::Status status = TakeUpTo(kLevelMax, tree, "LEVEL", level); !status.ok()) {
      return Annotate(status, fmt::format("rank2file{}", suffix));
    }
    return level;
  }

  absl::Status ReadTree(const std::string& suffix, const Tree& tree, std::uint64_t level) {
    const Tree* list = tree.Find("RANK");
    if (list == nullptr) return absl::OkStatus();
    for (const auto& [key, entry] : list->elements()) {
      const absl::StatusOr<std::uint64_t> rank = NumberKey(key, "rank", 0);
      if (!rank.ok()) return Annotate(rank.status(), fmt::format("rank2file{}", suffix));
      CAIRN_RETURN_IF_ERROR(level == 0 ? ReadFiles(suffix, static_cast<Rank>(*rank), entry)
                                       : ReadPart(suffix, *rank, entry, level - 1));
    }
    return absl::OkStatus();
  }

  absl::Status ReadFiles(const std::string& suffix, Rank rank, const Tree& entry) {
    const Tree* names = entry.Find("FILE");
    if (names == nullptr) return absl::OkStatus();
    const auto [at, fresh] = result_.files.try_emplace(rank);
    if (!fresh) return DataLoss("rank2file{}: rank {} is in another part, too", suffix, rank);
    for (const auto& [name, nothing] : names->elements()) {
      if (!IsHarmlessRelative(name)) {
        return DataLoss("rank2file{}: rank {}: {} is not a path below the prefix", suffix, rank, Quoted(name));
      }
      at->second.push_back(name);
    }
    return absl::OkStatus();
  }

  // Only the suffix that a part of this writer and level has is accepted: nothing else is ever opened.
  absl::Status ReadPart(const std::string& suffix, std::uint64_t writer, const Tree& entry, std::uint64_t level) {
    const std::string part = SuffixOf(level, writer);
    if (entry.Get("FILE") != part) {
      return DataLoss("rank2file{}: part {} is called {}, not '{}'", suffix, writer,
                      Quoted(entry.Get("FILE").value_or("")), part);
    }
    if (entry.Get("OFFSET").value_or("0") != "0") {
      return DataLoss("rank2file{}: part {} begins at {}", suffix, writer, Quoted(*entry.Get("OFFSET")));
    }
    // Else few parts that list each other often could keep a reader busy for ever.
    if (!seen_.insert(part).second) return DataLoss("rank2file{}: part {} is listed twice", suffix, part);
    CAIRN_ASSIGN_OR_RETURN(const Tree tree, load_(part));
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t found, LevelOf(part, tree));
    if (found != level && tree.Find("LEVEL") != nullptr) {
      return DataLoss("rank2file{}: level {}, not {}", part, found, level);
    }
    return ReadTree(part, tree, level);
  }

  const Load& load_;
  std::set<std::string> seen_;
  Rank2File result_;
};

}  // namespace

std::map<std::string, Tree> MakeRank2File(const std::vector<std::vector<std::string>>& files,
                                          std::uint64_t block_bytes) {
  CAIRN_CHECK(block_bytes >= kBlockBytesMin);
  const std::uint64_t ranks = files.size();
  std::map<std::string, Tree> trees;
  Entries entries = FileEntries(files);
  for (std::uint64_t level = 0;; ++level) {
    std::vector<Entries> pieces = Split(std::move(entries), block_bytes);
    // The files are always a level of their own, below the root.
    if (level > 0 && pieces.size() <= 1) {
      trees.emplace("", MakePart(ranks, level, pieces.empty() ? Entries() : std::move(pieces.front())));
      return trees;
    }
    entries.clear();
    for (Entries& piece : pieces) {
      const std::uint64_t writer = piece.front().first;
      const std::string suffix = SuffixOf(level, writer);
      trees.emplace(suffix, MakePart(ranks, level, std::move(piece)));
      Tree part;
      part.Set("OFFSET", "0");
      part.Set("FILE", suffix);
      entries.emplace_back(writer, std::move(part));
    }
  }
}

absl::StatusOr<Rank2File> GetRank2File(const Load& load) {
  return Reader(load).Read();
}

}  // namespace cairn::scr

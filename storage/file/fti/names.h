// The names of FTI's files and folders. Source: FTI-FF specification, sections 6.3, 7 and 8. Pure.
#ifndef CAIRN_STORAGE_FILE_FTI_NAMES_H_
#define CAIRN_STORAGE_FILE_FTI_NAMES_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::fti {

enum class FileKind {
  kRank,          // Ckpt<id>-Rank<r>.fti: a rank's checkpoint file
  kCopy,          // Ckpt<id>-Pcof<r>.fti: held by rank r, of its left neighbour
  kCode,          // Ckpt<id>-RSed<r>.fti
  kDifferential,  // dCPFile-Rank<r>.fti: the id is in the file alone
};

std::string_view PluralOf(FileKind kind);  // "checkpoint files", as people call them

struct FileName {
  FileKind kind = FileKind::kRank;
  std::int32_t id = 0;  // kDifferential: 0
  std::uint32_t rank = 0;
  friend bool operator==(const FileName&, const FileName&) = default;
};

inline constexpr std::int32_t kCheckpointIdMax = std::numeric_limits<std::int32_t>::max();  // FTI keeps ids as int
inline constexpr std::uint32_t kRanksMax = 1 << 20;  // names of greater ranks are taken for no names of FTI's

// Strict: decimal numbers without sign or padding, nothing before or behind. Else nullopt.
std::optional<FileName> ParseFileName(std::string_view name);
std::string MakeFileName(const FileName& name);

// The place k of "node<k>" (local_test = 1), k < kRanksMax.
std::optional<std::uint32_t> ParseNodeFolder(std::string_view name);

// What the folders below an execution's mean.
enum class LevelFolder {
  kLocal,         // l1
  kPartner,       // l2
  kEncoded,       // l3
  kGlobal,        // l4, and l4_archive with former ones
  kReplica,       // lL4Dir: the nodes' replica of level 4
  kDifferential,  // dCP
};
std::optional<LevelFolder> ParseLevelFolder(std::string_view name);

// Text metadata and differential files of FTI's other I/O modes (section 12): what is found with such is not FTI-FF.
bool IsOtherModeName(std::string_view name);

}  // namespace cairn::fti

#endif  // CAIRN_STORAGE_FILE_FTI_NAMES_H_

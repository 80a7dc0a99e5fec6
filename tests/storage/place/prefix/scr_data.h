// What the application of SCR's vectors wrote, and copies of its prefixes to work on.
#ifndef CAIRN_TESTS_STORAGE_PLACE_PREFIX_SCR_DATA_H_
#define CAIRN_TESTS_STORAGE_PLACE_PREFIX_SCR_DATA_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "storage/base/ids.h"

namespace cairn::testing {

// As the vectors' README has it: byte `at` of a file of a rank.
inline char ScrByte(std::string_view dataset, Rank rank, std::uint32_t index, std::uint64_t at) {
  std::uint32_t fold = 0;
  for (const char c : dataset) fold = fold * 131 + static_cast<unsigned char>(c);
  return static_cast<char>(fold + 17 * rank + 29 * index + 7 * at + (at >> 8));
}

inline std::string ScrApplicationData(std::string_view dataset, Rank rank, std::uint32_t index, std::uint64_t bytes) {
  std::string data;
  for (std::uint64_t at = 0; at < bytes; ++at) data += ScrByte(dataset, rank, index, at);
  return data;
}

// rank_<r>.ckpt has index 0, extra_<r>_<index>.dat its own.
inline std::uint32_t ScrIndexOf(const std::string& name) {
  if (!name.ends_with(".dat")) return 0;
  return static_cast<std::uint32_t>(std::stoul(name.substr(name.rfind('_') + 1)));
}

// The vectors may be read-only; the copy is not.
inline void CopyWritable(const std::string& from, const std::string& to) {
  namespace fs = std::filesystem;
  fs::create_directories(to);
  fs::copy(from, to, fs::copy_options::recursive);
  fs::permissions(to, fs::perms::owner_all, fs::perm_options::add);
  for (const auto& entry : fs::recursive_directory_iterator(to)) {
    fs::permissions(entry.path(), entry.is_directory() ? fs::perms::owner_all : fs::perms::owner_write,
                    fs::perm_options::add);
  }
}

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_PLACE_PREFIX_SCR_DATA_H_

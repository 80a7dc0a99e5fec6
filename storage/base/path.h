// Names of files and folders as text: no file system is asked. Thread-safe.
#ifndef CAIRN_STORAGE_BASE_PATH_H_
#define CAIRN_STORAGE_BASE_PATH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

std::string ParentOf(const std::string& path);  // "/a/b" -> "/a", "/a" -> "/", "/" -> "/"
std::string BaseOf(const std::string& path);    // "/a/b" -> "b"

// Work names end in kWorkSuffix plus 16 random hex digits; what carries it is garbage after a crash. A name that would
// become too long for the file system is cut before the suffix.
inline constexpr std::string_view kWorkSuffix = ".cairn-work";
std::string WorkName(const std::string& path);
bool IsWorkName(std::string_view name);

// A number as Cairn puts it into names: decimal, no sign, no leading zero, below 2^63. `name` = stem + number.
std::optional<std::uint64_t> NumberAfter(std::string_view name, std::string_view stem);

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_PATH_H_

// Numbers, times and foreign text as people read them, and tables of them.
#ifndef CAIRN_CLIENT_CLI_TEXT_H_
#define CAIRN_CLIENT_CLI_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::cli {

std::string Bytes(std::uint64_t bytes);                         // "0 B", "1.5 GiB"
std::string Count(std::uint64_t count, std::string_view what);  // "1 file", "3 files"
std::string Duration(std::uint64_t ms);                         // "850 ms", "2 m 3 s", "4 d 7 h"
std::string LocalTime(std::int64_t us_since_epoch);             // "2024-05-01 13:00:59"; "-" for 0
// Since then, for people: "just now", "12 s ago", "3 h ago", "5 d ago"; a date if it is more than 30 days. "-" for 0,
// the time itself if it is still to come.
std::string Ago(std::int64_t us_since_epoch, std::int64_t now_us);
std::string Percent(std::uint64_t part, std::uint64_t whole);

// Text from files and daemons, fit for a terminal: control characters as '?'.
std::string Clean(std::string_view text);

// "[#####.....]", `width` characters inside.
std::string Bar(std::uint64_t part, std::uint64_t whole, std::size_t width);

// The columns that `text`, which has no line ends, takes on a terminal: characters, not bytes. Colours take none.
std::size_t ColumnsOf(std::string_view text);

// As many characters of `text`, which has no line ends, as `columns`. Colours (ECMA-48's SGR) are switched off where it
// is cut.
std::string FirstColumns(std::string_view text, std::size_t columns);

// Rows of cells as columns, two spaces between them, with line ends and no spaces at them. The first row is the head.
// `right`: columns of numbers. Cells may be coloured.
std::string Table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_TEXT_H_

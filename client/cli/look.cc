#include "client/cli/look.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "client/cli/text.h"

namespace cairn::cli {
namespace {

bool IsUtf8(std::string_view locale) {
  std::string letters;
  for (const char c : locale) {
    if (c != '-') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters.find("utf8") != std::string::npos;
}

// Parameters of ECMA-48's SGR.
std::string_view CodeOfPaint(Paint paint) {
  switch (paint) {
    case Paint::kHead:
      return "1";
    case Paint::kDim:
      return "2";
    case Paint::kGood:
      return "32";
    case Paint::kKept:
      return "36";
    case Paint::kBusy:
      return "33";
    case Paint::kBad:
      return "1;31";
  }
  return "0";
}

}  // namespace

Look LookOf(bool terminal, ColourWhen when, const std::function<const char*(const char* name)>& variable) {
  const auto text = [&](const char* name) {
    const char* const value = variable(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  const bool always = when == ColourWhen::kAlways;
  Look look;
  look.people = terminal || always;
  look.redraws = terminal && !text("TERM").empty() && text("TERM") != "dumb";
  look.colours = always || (when == ColourWhen::kAuto && look.redraws && text("NO_COLOR").empty());
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first that is set counts
    if (text(name).empty()) continue;
    look.blocks = IsUtf8(text(name));
    break;
  }
  return look;
}

std::string Painted(const Look& look, Paint paint, std::string_view text) {
  if (!look.colours || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", CodeOfPaint(paint), text);
}

std::string RunHead(const Look& look, std::string_view run, std::string_view prefix) {
  const std::string name = fmt::format("run {}", run.empty() ? "of SCR" : run.substr(0, 8));
  return fmt::format("{}  {}\n", Painted(look, Paint::kHead, name), Clean(prefix));
}

std::string BarPicture(const Look& look, std::uint64_t part, std::uint64_t whole, std::size_t width) {
  if (!look.blocks) return Bar(part, whole, width);
  const std::string ascii = Bar(part, whole, width);
  std::string bar;
  for (const char c : ascii) bar += c == '#' ? "█" : c == '.' ? "░" : "";
  return bar;
}

}  // namespace cairn::cli

// How output looks: plain lines for scripts, or pictures and colours for people at a terminal.
#ifndef CAIRN_CLIENT_CLI_LOOK_H_
#define CAIRN_CLIENT_CLI_LOOK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace cairn::cli {

struct Look {
  bool people = false;   // pictures, ages and few columns; else the lines that scripts know
  bool colours = false;  // only with `people`
  bool blocks = false;   // the terminal shows UTF-8: block characters in pictures; else ASCII
  bool redraws = false;  // standard output is a terminal whose cursor can be moved
};

enum class ColourWhen { kAuto, kAlways, kNever };

// `variable` reads the environment: NO_COLOR (not empty: no colours with kAuto), TERM (none or "dumb": no colours with
// kAuto, no redrawing), LC_ALL, LC_CTYPE and LANG (which characters). kAlways looks as on a terminal in a pipe, too.
Look LookOf(bool terminal, ColourWhen when, const std::function<const char*(const char* name)>& variable);

enum class Paint {
  kHead,  // names what follows
  kDim,   // matters less
  kGood,  // safe on the prefix
  kKept,  // safe from some losses
  kBusy,  // on its way
  kBad,   // failed, damaged, hung
};

// `text` as it is, without colours.
std::string Painted(const Look& look, Paint paint, std::string_view text);

// The line that a run's status or datasets begin with, ended. `run` empty: SCR's.
std::string RunHead(const Look& look, std::string_view run, std::string_view prefix);

inline constexpr std::size_t kProgressBarWidth = 12;  // a line that has the bar fits into 80 columns

// `width` characters, and brackets in ASCII: "[####......]".
std::string BarPicture(const Look& look, std::uint64_t part, std::uint64_t whole, std::size_t width);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_LOOK_H_

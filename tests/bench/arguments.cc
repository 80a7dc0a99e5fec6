#include "tests/bench/arguments.h"

#include <errno.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace cairn::bench {
namespace {

constexpr int kUsage = 2;  // what a program ends with that cannot read its arguments

bool IsOption(const Argument& argument) {
  return argument.name.starts_with("--");
}
bool TakesAllLeft(const Argument& argument) {
  return argument.name.ends_with("...");
}
std::string_view OptionOf(const Argument& argument) {
  return std::string_view(argument.name).substr(0, argument.name.find(' '));
}

[[noreturn]] void PrintHelp(std::string_view about, const std::vector<Argument>& arguments) {
  std::string usage, lines;
  std::size_t widest = 0;
  for (const Argument& argument : arguments) widest = std::max(widest, argument.name.size());
  for (const Argument& argument : arguments) {
    usage += fmt::format(" [{}]", argument.name);
    const std::string& by_default = argument.value.by_default;
    lines += fmt::format("  {:<{}}  {}{}\n", argument.name, widest, argument.help,
                         by_default.empty() ? std::string() : fmt::format(" (default {})", by_default));
  }
  fmt::print("usage: {}{}\n{}\n{}", program_invocation_short_name, usage, about, lines);
  std::exit(EXIT_SUCCESS);
}

void Take(const Argument& argument, std::string_view value) {
  if (!argument.value.take(value)) RefuseArguments(fmt::format("{}: not \"{}\"", argument.name, value));
}

}  // namespace

void RefuseArguments(const std::string& why) {
  fmt::print(stderr, "{0}: {1}\n{0} --help says what there is\n", program_invocation_short_name, why);
  std::exit(kUsage);
}

void ReadArguments(int argc, char** argv, std::string_view about, const std::vector<Argument>& arguments) {
  const std::vector<std::string_view> given(argv + 1, argv + argc);
  if (std::ranges::find(given, "--help") != given.end()) PrintHelp(about, arguments);
  auto place = std::ranges::find_if_not(arguments, IsOption);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].starts_with("-")) {
      const auto option = std::ranges::find_if(
          arguments, [&](const Argument& one) { return IsOption(one) && OptionOf(one) == given[i]; });
      if (option == arguments.end()) RefuseArguments(fmt::format("unknown option {}", given[i]));
      if (++i == given.size()) RefuseArguments(fmt::format("{}: its value is missing", option->name));
      Take(*option, given[i]);
    } else {
      if (place == arguments.end()) RefuseArguments(fmt::format("unknown argument {}", given[i]));
      Take(*place, given[i]);
      if (!TakesAllLeft(*place)) place = std::find_if_not(place + 1, arguments.end(), IsOption);
    }
  }
}

Value Text(std::string& text) {
  std::string by_default = text;
  std::ranges::replace(by_default, '\n', ' ');
  return {.take =
              [&text](std::string_view given) {
                text = given;
                return true;
              },
          .by_default = std::move(by_default)};
}

Value OneOf(std::string& text, std::vector<std::string> choices) {
  return {.take =
              [&text, choices = std::move(choices)](std::string_view given) {
                if (std::ranges::find(choices, given) == choices.end()) return false;
                text = given;
                return true;
              },
          .by_default = text};
}

}  // namespace cairn::bench

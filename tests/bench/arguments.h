// The arguments of a bench program. A run takes minutes: what is not known here ends the program before it measures.
#ifndef CAIRN_TESTS_BENCH_ARGUMENTS_H_
#define CAIRN_TESTS_BENCH_ARGUMENTS_H_

#include <fmt/format.h>

#include <charconv>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace cairn::bench {

// How an argument's value is read, and its default.
struct Value {
  std::function<bool(std::string_view)> take;  // false: it is no such value
  std::string by_default;                      // for --help; empty: none, or `help` says it
};

struct Argument {
  // "--ranks N": an option and what its value is. "ROUNDS": a value by its place, in the order of the list. One that
  // ends with "...", the last, takes all that are left.
  std::string name;
  std::string help;
  Value value;
};

// With --help: prints `about` and a line for each argument, and ends the program with 0. What is not known, or has no
// value of its kind, ends it with 2 and a message. What is not given stays as it is.
void ReadArguments(int argc, char** argv, std::string_view about, const std::vector<Argument>& arguments);
// Ends the program with 2 in the same way: for what no single value can be blamed for.
[[noreturn]] void RefuseArguments(const std::string& why);

inline constexpr std::size_t kMibMax = std::size_t{1} << 20;  // so that as many bytes can be counted

// --- Values; the variables are borrowed, and hold the defaults ---

Value Text(std::string& text);
Value OneOf(std::string& text, std::vector<std::string> choices);
template <std::integral T>
bool ReadNumber(std::string_view text, T least, T most, T& number) {
  T read{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (error != std::errc() || end != text.data() + text.size() || read < least || read > most) return false;
  number = read;
  return true;
}
template <std::integral T>
Value Number(T& number, std::type_identity_t<T> least = 1,
             std::type_identity_t<T> most = std::numeric_limits<T>::max()) {
  return {.take = [&number, least, most](std::string_view text) { return ReadNumber(text, least, most, number); },
          .by_default = fmt::format("{}", number)};
}
// With commas between them. What is given takes the place of the defaults; given again, it comes in addition.
template <std::integral T>
Value Numbers(std::vector<T>& numbers, std::type_identity_t<T> least = 1,
              std::type_identity_t<T> most = std::numeric_limits<T>::max()) {
  return {.take =
              [&numbers, least, most, first = true](std::string_view text) mutable {
                if (first) numbers.clear();
                first = false;
                for (;;) {
                  const std::string_view one = text.substr(0, text.find(','));
                  if (!ReadNumber<T>(one, least, most, numbers.emplace_back())) return false;
                  if (one.size() == text.size()) return true;
                  text.remove_prefix(one.size() + 1);
                }
              },
          .by_default = fmt::format("{}", fmt::join(numbers, ","))};
}

}  // namespace cairn::bench

#endif  // CAIRN_TESTS_BENCH_ARGUMENTS_H_

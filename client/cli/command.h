// Commands and their options, as they are declared. CLI11 stays behind this: what its templates and inline functions
// cost a compiler is several times the rest of a command.
#ifndef CAIRN_CLIENT_CLI_COMMAND_H_
#define CAIRN_CLIENT_CLI_COMMAND_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cairn::cli {

// An option or argument of a command. To be copied; lasts as long as the command line.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option Required(bool required = true) const;
  // Returns what is wrong with the text; "": nothing.
  Option Check(std::function<std::string(const std::string& text)> check) const;
  Option OneOf(const std::vector<std::string>& words) const;
  Option Between(int min, int max) const;    // help says so
  Option AtLeast(int min) const;             // help does not
  Option ValueName(const char* name) const;  // in help, instead of the type's
  Option OneValue() const;                   // each time it is given, although it is a list
  Option ShowDefault() const;
  Option Needs(Option other) const;
  Option Excludes(Option other) const;
  Option Group(const char* name) const;  // its heading in help
  std::size_t count() const;             // how often it was given

 private:
  CLI::Option* option_;
};

// A command, or the program itself. Likewise. Names and texts are those of help.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command AddCommand(const char* name, const std::string& about) const;
  void RequireCommand(std::size_t min, std::size_t max) const;
  bool HasCommand() const;  // one of its commands was given

  Option AddFlag(const char* names, bool& value, const std::string& text) const;
  // `value` is borrowed until the command has run. For the types that command.cc lists.
  template <typename Value>
  Option AddOption(const char* names, Value& value, const std::string& text) const;
  Option AddOption(const char* names, std::function<void(const std::string&)> take, const std::string& text) const;
  Option Get(const char* name) const;

  void Footer(const std::string& text) const;
  // Before its options are read, and after all of the line was.
  void OnReached(std::function<void()> call) const;
  void OnParsed(std::function<void()> call) const;

 private:
  CLI::App* app_;
};

// From a call while a line is parsed: it is wrong (exit code 2).
[[noreturn]] void RefuseValue(const std::string& name, const std::string& why);
[[noreturn]] void RefuseWithout(const std::string& name);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_COMMAND_H_

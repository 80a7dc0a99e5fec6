#include "client/cli/command.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace cairn::cli {

Option Option::Required(bool required) const {
  option_->required(required);
  return *this;
}

Option Option::Check(std::function<std::string(const std::string& text)> check) const {
  option_->check(std::move(check));
  return *this;
}

Option Option::OneOf(const std::vector<std::string>& words) const {
  option_->check(CLI::IsMember(words));
  return *this;
}

Option Option::Between(int min, int max) const {
  option_->check(CLI::Range(min, max));
  return *this;
}

Option Option::AtLeast(int min) const {
  option_->check(CLI::Range(min, std::numeric_limits<int>::max()).description(""));
  return *this;
}

Option Option::ValueName(const char* name) const {
  option_->type_name(name);
  return *this;
}

Option Option::OneValue() const {
  option_->allow_extra_args(false);
  return *this;
}

Option Option::ShowDefault() const {
  option_->capture_default_str();
  return *this;
}

Option Option::Needs(Option other) const {
  option_->needs(other.option_);
  return *this;
}

Option Option::Excludes(Option other) const {
  option_->excludes(other.option_);
  return *this;
}

Option Option::Group(const char* name) const {
  option_->group(name);
  return *this;
}

std::size_t Option::count() const {
  return option_->count();
}

Command Command::AddCommand(const char* name, const std::string& about) const {
  return Command(app_->add_subcommand(name, about));
}

void Command::RequireCommand(std::size_t min, std::size_t max) const {
  app_->require_subcommand(min, max);
}

bool Command::HasCommand() const {
  return !app_->get_subcommands().empty();
}

Option Command::AddFlag(const char* names, bool& value, const std::string& text) const {
  return Option(app_->add_flag(names, value, text));
}

template <typename Value>
Option Command::AddOption(const char* names, Value& value, const std::string& text) const {
  return Option(app_->add_option(names, value, text));
}
template Option Command::AddOption(const char*, std::string&, const std::string&) const;
template Option Command::AddOption(const char*, std::vector<std::string>&, const std::string&) const;
template Option Command::AddOption(const char*, std::int32_t&, const std::string&) const;
template Option Command::AddOption(const char*, std::optional<std::int32_t>&, const std::string&) const;
template Option Command::AddOption(const char*, std::uint32_t&, const std::string&) const;
template Option Command::AddOption(const char*, std::optional<std::uint32_t>&, const std::string&) const;
template Option Command::AddOption(const char*, std::int64_t&, const std::string&) const;
template Option Command::AddOption(const char*, std::uint64_t&, const std::string&) const;
template Option Command::AddOption(const char*, std::optional<std::uint64_t>&, const std::string&) const;
template Option Command::AddOption(const char*, std::vector<std::uint64_t>&, const std::string&) const;

Option Command::AddOption(const char* names, std::function<void(const std::string&)> take,
                          const std::string& text) const {
  return Option(app_->add_option_function<std::string>(names, std::move(take), text));
}

Option Command::Get(const char* name) const {
  return Option(app_->get_option(name));
}

void Command::Footer(const std::string& text) const {
  app_->footer(text);
}

void Command::OnReached(std::function<void()> call) const {
  app_->preparse_callback([call = std::move(call)](std::size_t) { call(); });
}

void Command::OnParsed(std::function<void()> call) const {
  app_->callback(std::move(call));
}

void RefuseValue(const std::string& name, const std::string& why) {
  throw CLI::ValidationError(name, why);
}

void RefuseWithout(const std::string& name) {
  throw CLI::RequiredError(name);
}

}  // namespace cairn::cli

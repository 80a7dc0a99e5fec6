#include "client/cli/bp/json_out.h"

#include "client/cli/bp/value.h"

namespace cairn::cli {

void JsonOut::NewLine() {
  out_.Write("\n");
  out_.Write(std::string(2 * levels_.size(), ' '));
}

void JsonOut::BeforeItem() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) return;
  Level& level = levels_.back();
  if (!level.empty) out_.Write(level.flat ? ", " : ",");
  if (!level.flat) NewLine();
  level.empty = false;
}

JsonOut& JsonOut::Key(std::string_view name) {
  BeforeItem();
  out_.Write(JsonString(name));
  out_.Write(": ");
  after_key_ = true;
  return *this;
}

JsonOut& JsonOut::Begin(char bracket, bool flat) {
  BeforeItem();
  out_.Write({&bracket, 1});
  levels_.push_back({.flat = flat || (!levels_.empty() && levels_.back().flat)});
  return *this;
}

JsonOut& JsonOut::End(char bracket) {
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.flat && !level.empty) NewLine();
  out_.Write({&bracket, 1});
  return *this;
}

JsonOut& JsonOut::Literal(std::string_view json) {
  BeforeItem();
  out_.Write(json);
  return *this;
}

JsonOut& JsonOut::Text(std::string_view text) {
  return Literal(JsonString(text));
}

JsonOut& JsonOut::Number(std::uint64_t number) {
  return Literal(std::to_string(number));
}

JsonOut& JsonOut::Numbers(std::span<const std::uint64_t> numbers) {
  BeginArray(true);
  for (const std::uint64_t number : numbers) Number(number);
  return EndArray();
}

void JsonOut::Finish() {
  out_.Write("\n");
}

}  // namespace cairn::cli

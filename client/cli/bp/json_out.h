// JSON as it is made, without a tree of it in memory: for listings of any length and numbers of any precision.
#ifndef CAIRN_CLIENT_CLI_BP_JSON_OUT_H_
#define CAIRN_CLIENT_CLI_BP_JSON_OUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/bp/text_out.h"

namespace cairn::cli {

// Commas and line ends are its own. An object or array that is `flat` stays on one line, with all that is in it.
class JsonOut {
 public:
  explicit JsonOut(TextOut& out) : out_(out) {}

  JsonOut& Key(std::string_view name);
  JsonOut& BeginObject(bool flat = false) { return Begin('{', flat); }
  JsonOut& EndObject() { return End('}'); }
  JsonOut& BeginArray(bool flat = false) { return Begin('[', flat); }
  JsonOut& EndArray() { return End(']'); }

  JsonOut& Literal(std::string_view json);  // as it is
  JsonOut& Text(std::string_view text);
  JsonOut& Number(std::uint64_t number);
  JsonOut& Bool(bool value) { return Literal(value ? "true" : "false"); }
  JsonOut& Numbers(std::span<const std::uint64_t> numbers);
  void Finish();  // a line end behind all

 private:
  struct Level {
    bool flat = false, empty = true;
  };
  void BeforeItem();
  void NewLine();
  JsonOut& Begin(char bracket, bool flat);
  JsonOut& End(char bracket);

  TextOut& out_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_JSON_OUT_H_

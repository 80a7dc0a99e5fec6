// One table of all fields: what the file, the flags, --help and --print-config are made from.
#ifndef CAIRN_DAEMON_CONFIG_FIELDS_H_
#define CAIRN_DAEMON_CONFIG_FIELDS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "daemon/config/config.h"

namespace cairn {

enum class FieldKind { kText, kPath, kSize, kRate, kDuration, kNumber, kSwitch, kChoice };

struct Field {
  std::string_view key;  // "flush.every"
  FieldKind kind;
  std::string_view help;  // one line; ends without a full stop
  // Where it lies: by kind std::string, std::uint64_t, std::uint32_t or bool.
  std::variant<std::string* (*)(Config&), std::uint64_t* (*)(Config&), std::uint32_t* (*)(Config&), bool* (*)(Config&)>
      place;
  std::uint64_t min = 0;  // of numbers, sizes and durations; of a rate that is not 0
  std::uint64_t max = ~std::uint64_t{0};
  std::string_view no = "false", yes = "true";  // of switches and choices
};

// In the order of the file: top level first, then section by section.
std::span<const Field> Fields();
const Field* FindField(std::string_view key);

// What a field was called by earlier versions.
struct OldName {
  std::string_view old_key, key;
};
std::span<const OldName> OldNames();
const OldName* FindOldName(std::string_view old_key);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CONFIG_FIELDS_H_

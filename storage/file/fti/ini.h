// The INI files of FTI: its configuration, Topology.fti, Checkpoint.fti. Pure: text in, structures out.
// Read tolerantly, since people write them: names in any case, comments behind ';' and '#', values in quotes, what is
// neither section nor key passed over and told. Source: FTI-FF specification, sections 8 and 12.
//
// inih (55) was tried in its place: it cuts lines, section names (at 49 bytes) and quoted values and gives no error,
// tells no handler the line, and keeps its settings in globals of the process.
#ifndef CAIRN_STORAGE_FILE_FTI_INI_H_
#define CAIRN_STORAGE_FILE_FTI_INI_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::fti {

class Ini {
 public:
  static constexpr std::size_t kBytesMax = 4 << 20;  // of text
  static constexpr std::size_t kLineBytesMax = 4096;
  static constexpr std::size_t kEntriesMax = 1 << 18;  // sections and keys

  struct Entry {
    std::string key;  // lower case
    std::string value;
    std::size_t line = 0;
  };
  struct Section {
    std::string name;  // lower case; "" before the first section
    std::vector<Entry> entries;
  };

  // `name` goes into errors, which name the line.
  //   kInvalidArgument  beyond the bounds, or bytes that no text has (zero)
  static absl::StatusOr<Ini> Parse(std::string_view name, std::string_view text);

  // The value given last, or nullptr. Names in lower case.
  const Entry* Find(std::string_view section, std::string_view key) const;
  // The number there, or nullopt if the key is not there or empty.
  //   kInvalidArgument  no number from `min` to `max`
  absl::StatusOr<std::optional<std::int64_t>> FindNumber(std::string_view section, std::string_view key,
                                                         std::int64_t min, std::int64_t max) const;

  const std::string& name() const { return name_; }
  const std::vector<Section>& sections() const { return sections_; }            // in order; one may come twice
  const std::vector<std::size_t>& passed_over() const { return passed_over_; }  // lines, the first 16

 private:
  std::string name_;
  std::vector<Section> sections_;
  std::vector<std::size_t> passed_over_;
};

// Whether a value survives the reader of FTI: text without control characters, quotes, ';' and '#', and without blanks
// at its ends.
bool IsPlainValue(std::string_view value);

// The text of sections with their keys and values, in the form that FTI writes itself.
// REQUIRES: all values are plain.
using IniSection = std::pair<std::string_view, std::vector<std::pair<std::string, std::string>>>;
std::string PrintIni(const std::vector<IniSection>& sections);

}  // namespace cairn::fti

#endif  // CAIRN_STORAGE_FILE_FTI_INI_H_

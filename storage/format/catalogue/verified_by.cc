#include "storage/format/catalogue/verified_by.h"

#include <algorithm>

namespace cairn {

VerifiedCounts CountVerified(const std::vector<catalogue::Catalogue>& catalogues) {
  VerifiedCounts counts;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      if (file.verified_by() != catalogue::NOT_NOTED) ++counts[file.verified_by()];
    }
  }
  return counts;
}

std::vector<std::string> UnverifiedFiles(const std::vector<catalogue::Catalogue>& catalogues) {
  std::vector<std::string> names;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      if (file.verified_by() == catalogue::NOTHING) names.push_back(file.prefix_name());
    }
  }
  return names;
}

google::protobuf::RepeatedField<int> VerifiedByOf(const catalogue::Catalogue& catalogue) {
  google::protobuf::RepeatedField<int> verified_by;
  for (const catalogue::FileEntry& file : catalogue.file()) verified_by.Add(file.verified_by());
  const bool noted =
      std::any_of(verified_by.begin(), verified_by.end(), [](int by) { return by != catalogue::NOT_NOTED; });
  if (!noted) verified_by.Clear();
  return verified_by;
}

}  // namespace cairn

// By what the bytes of adopted files were verified, over the catalogues of a dataset. Pure.
#ifndef CAIRN_STORAGE_FORMAT_CATALOGUE_VERIFIED_BY_H_
#define CAIRN_STORAGE_FORMAT_CATALOGUE_VERIFIED_BY_H_

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"

namespace cairn {

// How many files were verified by what. Those of which it is not noted are left out: what was not adopted has none.
using VerifiedCounts = std::map<catalogue::VerifiedBy, std::uint64_t>;
VerifiedCounts CountVerified(const std::vector<catalogue::Catalogue>& catalogues);

// Below the prefix, those that nothing has verified, in order of ranks.
std::vector<std::string> UnverifiedFiles(const std::vector<catalogue::Catalogue>& catalogues);

// Of each of the rank's files; empty if it is noted of none.
google::protobuf::RepeatedField<int> VerifiedByOf(const catalogue::Catalogue& catalogue);

}  // namespace cairn

#endif  // CAIRN_STORAGE_FORMAT_CATALOGUE_VERIFIED_BY_H_

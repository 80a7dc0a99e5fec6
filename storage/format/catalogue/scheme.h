// The redundancy scheme that an application has asked for. Pure.
#ifndef CAIRN_STORAGE_FORMAT_CATALOGUE_SCHEME_H_
#define CAIRN_STORAGE_FORMAT_CATALOGUE_SCHEME_H_

#include <string_view>

#include "proto/local.pb.h"

namespace cairn {

// As redundancy.scheme has it: single, partner, xor, rs, folder. Empty: none was given, or it is not known here.
std::string_view NameOfScheme(local::Scheme scheme);

}  // namespace cairn

#endif  // CAIRN_STORAGE_FORMAT_CATALOGUE_SCHEME_H_

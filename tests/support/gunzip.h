// Test vectors may be gzip compressed.
#ifndef CAIRN_TESTS_SUPPORT_GUNZIP_H_
#define CAIRN_TESTS_SUPPORT_GUNZIP_H_

#include <cstddef>
#include <optional>
#include <string>

namespace cairn::testing {

// nullopt: not a gzip file, or more than `bytes_max` bytes are in it.
std::optional<std::string> Gunzip(std::string packed, std::size_t bytes_max);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_GUNZIP_H_

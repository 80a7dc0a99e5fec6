// Sizes as people read them.
#ifndef CAIRN_STORAGE_BASE_SIZE_TEXT_H_
#define CAIRN_STORAGE_BASE_SIZE_TEXT_H_

#include <cstdint>
#include <string>

namespace cairn {

std::string SizeText(std::uint64_t bytes);  // "0 B", "1.5 GiB": rounded; exact below 1 KiB

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_SIZE_TEXT_H_

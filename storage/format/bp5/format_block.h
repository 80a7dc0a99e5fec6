// How many bytes the parts of a format block have: BP5 specification, section 5.
#ifndef CAIRN_STORAGE_FORMAT_BP5_FORMAT_BLOCK_H_
#define CAIRN_STORAGE_FORMAT_BP5_FORMAT_BLOCK_H_

#include <cstddef>

namespace cairn::bp5 {

inline constexpr std::size_t kBlockHeaderBytes = 8, kStructureHeaderBytes = 28, kFieldBytes = 16;

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_FORMAT_BLOCK_H_

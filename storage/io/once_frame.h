// How the bytes of a record that is made once (create_once.h) lie in its file: plainly, or in a frame, which lets a
// reader tell a whole record from a torn one. Pure; what follows from it is in disk.h (ReadWhole) and create_once.h.
//
// A frame, little-endian: magic (16 bytes), u64 bytes of content, u32 kind, u32 CRC32C of those 28 bytes and the
// content; then the content, which ends with the file. The kind says whether the content was synced before the file
// got its name: then a frame that does not fit is damage, else its maker may have died together with the power.
#ifndef CAIRN_STORAGE_IO_ONCE_FRAME_H_
#define CAIRN_STORAGE_IO_ONCE_FRAME_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn {

inline constexpr std::size_t kFrameBytes = 32;  // in front of the content

enum class FrameState {
  kPlain,       // no frame: the bytes are the content
  kWhole,       // the content is what follows the first kFrameBytes
  kIncomplete,  // never made, as far as can be known
  kDamaged,     // was whole once
};

std::string Frame(std::string_view content, bool synced);
FrameState StateOfFrame(std::string_view file);

// What a power failure may leave of a file that was never synced, besides a torn frame: nothing, or its size over
// zeros. `head`: the first kFrameBytes, or all that there are.
bool IsLeftover(std::string_view head);

// May a record be written plainly? Not if it could be taken for a frame or for a leftover.
bool MayBePlain(std::string_view content);

// Work files of the makers of `path` are called so, and no others. They lie beside it and begin with this.
std::string OnceWorkName(const std::string& path);
std::string OnceWorkStem(const std::string& path);  // without the directory

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_ONCE_FRAME_H_

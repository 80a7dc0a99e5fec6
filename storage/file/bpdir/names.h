// The files of a BP5 directory, besides data.<n>.
#ifndef CAIRN_STORAGE_FILE_BPDIR_NAMES_H_
#define CAIRN_STORAGE_FILE_BPDIR_NAMES_H_

namespace cairn::bpdir {

inline constexpr char kIndexName[] = "md.idx", kMetadataName[] = "md.0", kFormatsName[] = "mmd.0";

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_FILE_BPDIR_NAMES_H_

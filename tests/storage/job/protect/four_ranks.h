// Four ranks on four nodes, one set, with files that are no whole blocks, on a disk of a test's own.
#ifndef CAIRN_TESTS_STORAGE_JOB_PROTECT_FOUR_RANKS_H_
#define CAIRN_TESTS_STORAGE_JOB_PROTECT_FOUR_RANKS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "storage/base/path.h"
#include "storage/io/disk.h"
#include "storage/job/protect/protect.h"
#include "tests/storage/file/redundancy/scr_cache.h"
#include "tests/support/status_matchers.h"

namespace cairn::testing {

// A file that is there, of which SCR's records say that it is `recorded`.
inline void NoteFile(Disk& disk, const std::string& recorded, const std::string& path, ProtectSource& source) {
  ASSERT_OK_AND_ASSIGN(const FileInfo info, disk.Info(path));
  catalogue::FileEntry sums;
  ASSERT_OK(ChecksumFile(disk, path, info, false, &sums));
  scr::Meta meta;
  meta.bytes = info.bytes;
  source.disk = &disk;
  source.member.files.emplace_back(recorded, meta);
  source.paths.push_back(path);
  source.sums.push_back(sums);
}

inline void AddFile(Disk& disk, const std::string& path, std::uint64_t seed, std::uint64_t bytes,
                    ProtectSource& source) {
  EXPECT_OK(MakeDirectories(disk, ParentOf(path)));
  std::string content;
  for (std::uint64_t i = 0; i < bytes; ++i) content.push_back(static_cast<char>((i * 2654435761u + seed * 97) >> 7));
  PutBytes(disk, path, content);
  NoteFile(disk, path, path, source);
}

inline std::vector<ProtectSource> FourRanks(Disk& disk, scr::Scheme scheme) {
  std::vector<ProtectSource> set(4);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    set[rank].member.descriptor = {.scheme = scheme,
                                   .groups = 1,
                                   .group = 0,
                                   .ranks = 4,
                                   .rank = rank,
                                   .world_ranks = 4,
                                   .world_rank = rank,
                                   .replicas = scheme == scr::Scheme::kPartner ? 1u : 0u,
                                   .checksums = scheme == scr::Scheme::kRs ? 2u : 0u};
    const std::string folder = "/node" + std::to_string(rank) + "/scr.dataset.1/";
    AddFile(disk, folder + "a.dat", rank, (3 << 20) + 1000 * rank, set[rank]);
    AddFile(disk, folder + "empty.dat", rank, 0, set[rank]);
    AddFile(disk, folder + "b.dat", rank + 10, 12'345, set[rank]);
  }
  return set;
}

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_JOB_PROTECT_FOUR_RANKS_H_

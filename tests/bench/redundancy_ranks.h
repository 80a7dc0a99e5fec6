// A redundancy set of six ranks with a file each, in memory (/dev/shm), and what Cairn does with them.
#ifndef CAIRN_TESTS_BENCH_REDUNDANCY_RANKS_H_
#define CAIRN_TESTS_BENCH_REDUNDANCY_RANKS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/io/posix_disk.h"
#include "storage/job/protect/protect.h"
#include "storage/job/protect/rebuilt_disk.h"

namespace cairn::bench {

inline constexpr std::uint32_t kMembers = 6;

// Ends the program with a message.
void Check(const absl::Status& status);
template <typename T>
T Checked(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

class Ranks {
 public:
  Ranks(scr::Scheme scheme, std::uint64_t bytes);  // of each rank's file
  ~Ranks();
  Ranks(const Ranks&) = delete;

  scr::Scheme scheme() const { return scheme_; }
  const std::string& folder() const { return folder_; }  // "<rank>/data" and "<rank>/.scr" are below it
  Disk& disk() { return *disk_; }                        // of this node
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t chunk_bytes() const { return HeaderOf(0).chunk_bytes; }
  std::span<const std::byte> BytesOf(std::uint32_t rank) const {
    return {reinterpret_cast<const std::byte*>(memory_[rank].data()), static_cast<std::size_t>(bytes_)};
  }
  // The ranks' files as `disk` has them, where they lie below `root` (this node's: disk(), folder()).
  std::vector<ProtectSource> SetOn(Disk& disk, const std::string& root) const;

  // What `rank` keeps for the others, made of their files where `set` has them, under its name here.
  catalogue::FileEntry Protect(const std::vector<ProtectSource>& set, std::uint32_t rank, const std::string& over = "");
  // The same, written over what it kept for a dataset before, if this was called before: as the cache does it
  // (storage/place/cache/spare_files.h).
  void ProtectOver(const std::vector<ProtectSource>& set, std::uint32_t rank);
  // For all of them: Rebuilt needs it.
  void ProtectAll();
  // Reads member 0's file, made of what the others have and keep, where `disk` has these below `root`.
  using Take = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;
  void Rebuild(Disk& disk, const std::string& root, const Take& take) const;

 private:
  struct alignas(64) Line {  // as what is read from files lies in memory
    std::uint64_t words[8];
  };
  scr::RedundancyHeader HeaderOf(std::uint32_t rank) const;

  const scr::Scheme scheme_;
  const std::uint64_t bytes_;
  const std::string folder_;
  const std::unique_ptr<Disk> disk_;
  std::vector<ProtectSource> set_;
  std::vector<std::vector<Line>> memory_;   // by rank
  std::vector<catalogue::FileEntry> kept_;  // by rank
  std::string spare_;                       // what ProtectOver has made last
};

}  // namespace cairn::bench

#endif  // CAIRN_TESTS_BENCH_REDUNDANCY_RANKS_H_

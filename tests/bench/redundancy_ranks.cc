#include "tests/bench/redundancy_ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "storage/base/status.h"
#include "storage/format/scr/redset.h"

namespace cairn::bench {
namespace {

constexpr std::uint64_t kBlock = 1 << 20;

scr::SetDescriptor DescriptorOf(scr::Scheme scheme, std::uint32_t rank) {
  return {.scheme = scheme,
          .groups = 1,
          .group = 0,
          .ranks = kMembers,
          .rank = rank,
          .world_ranks = kMembers,
          .world_rank = rank,
          .replicas = scheme == scr::Scheme::kPartner ? 1u : 0u,
          .checksums = scheme == scr::Scheme::kRs ? 2u : 0u};
}

std::string FileOf(const std::string& root, std::uint32_t rank) {
  return fmt::format("{}/{}/data", root, rank);
}

std::string RecordsOf(const std::string& root, std::uint32_t rank) {
  return fmt::format("{}/{}/.scr", root, rank);
}

}  // namespace

void Check(const absl::Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "redundancy_bench: {}\n", MessageOf(status));
  std::exit(1);
}

Ranks::Ranks(scr::Scheme scheme, std::uint64_t bytes)
    : scheme_(scheme),
      bytes_(bytes),
      folder_(fmt::format("/dev/shm/cairn-redundancy-bench-{}", ::getpid())),
      disk_(MakePosixDisk()) {
  std::mt19937_64 random(7);
  for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
    std::vector<Line>& lines = memory_.emplace_back((bytes + sizeof(Line) - 1) / sizeof(Line));
    for (Line& line : lines) std::ranges::generate(line.words, random);
    Check(MakeDirectories(*disk_, RecordsOf(folder_, rank)));
    const std::string path = FileOf(folder_, rank);
    const auto file = Checked(disk_->Open(path, {.writable = true, .create = true}));
    Check(file->WriteAt(0, BytesOf(rank)));
    ProtectSource source;
    source.member.descriptor = DescriptorOf(scheme, rank);
    source.disk = disk_.get();
    source.paths = {path};
    source.sums.resize(1);
    Check(ChecksumFile(*disk_, path, Checked(file->Info()), false, &source.sums[0]));
    scr::Meta meta;
    meta.bytes = bytes;
    source.member.files.emplace_back(path, meta);
    set_.push_back(std::move(source));
  }
}

Ranks::~Ranks() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::vector<ProtectSource> Ranks::SetOn(Disk& disk, const std::string& root) const {
  std::vector<ProtectSource> set = set_;
  for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
    set[rank].disk = &disk;
    set[rank].paths = {FileOf(root, rank)};
  }
  return set;
}

scr::RedundancyHeader Ranks::HeaderOf(std::uint32_t rank) const {
  std::vector<scr::SetMember> members;
  for (const ProtectSource& one : set_) members.push_back(one.member);
  return scr::HeaderOf(members, rank);
}

catalogue::FileEntry Ranks::Protect(const std::vector<ProtectSource>& set, std::uint32_t rank,
                                    const std::string& over) {
  Throttle throttle(0);
  TransferProgress progress;
  return Checked(
      WriteRedundancy(*disk_, RecordsOf(folder_, rank), scr::RedsetKind::kData, set, rank, throttle, progress, over));
}

void Ranks::ProtectOver(const std::vector<ProtectSource>& set, std::uint32_t rank) {
  const auto made = Protect(set, rank, spare_);
  spare_ = folder_ + "/spare";
  Check(disk_->Rename(RecordsOf(folder_, rank) + "/" + made.name(), spare_));
}

void Ranks::ProtectAll() {
  kept_.clear();
  for (std::uint32_t rank = 0; rank < kMembers; ++rank) kept_.push_back(Protect(set_, rank));
}

void Ranks::Rebuild(Disk& disk, const std::string& root, const Take& take) const {
  std::vector<RebuildSource> sources;
  for (ProtectSource& files : SetOn(disk, root)) {
    const auto rank = static_cast<std::uint32_t>(sources.size());
    RebuildSource source{.files = std::move(files), .kept = std::nullopt};
    if (rank == 0) {
      source.files.disk = nullptr;
      source.files.sums.clear();
    } else {
      source.kept = KeptFile{.disk = &disk,
                             .path = RecordsOf(root, rank) + "/" + kept_[rank].name(),
                             .sums = kept_[rank],
                             .header_bytes = kept_[rank].bytes() - HeaderOf(rank).payload_bytes()};
    }
    sources.push_back(std::move(source));
  }
  const std::string path = sources[0].files.paths[0];
  Throttle throttle(0);
  TransferProgress progress;
  const auto rebuilt = Checked(MakeRebuiltDisk(std::move(sources), 0, throttle, progress));
  const auto file = Checked(rebuilt->Open(path, {}));
  std::vector<std::byte> block(kBlock);
  for (std::uint64_t at = 0; at < bytes_; at += kBlock) {
    const auto part = std::span(block).first(static_cast<std::size_t>(std::min(kBlock, bytes_ - at)));
    Check(file->ReadAt(at, part));
    take(at, part);
  }
}

}  // namespace cairn::bench

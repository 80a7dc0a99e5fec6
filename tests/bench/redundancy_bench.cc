// What a rank keeps for the others of a set of six, made and used, against the arithmetic alone (ISA-L's own call over
// the same bytes, in memory) and against moving the bytes that it needs. Files lie in memory (/dev/shm): no disk and no
// network is in it.
//   redundancy_bench [pairs] [MiB per rank]
#include <fmt/format.h>
#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/clock.h"
#include "storage/base/status.h"
#include "storage/file/redundancy/payload.h"
#include "storage/format/scr/redset.h"
#include "storage/io/posix_disk.h"
#include "storage/job/protect/protect.h"
#include "storage/job/protect/rebuilt_disk.h"
#include "tests/bench/ratio.h"

namespace cairn::bench {
namespace {

constexpr std::uint32_t kMembers = 6;
constexpr std::size_t kBlock = 1 << 20;

void Check(const absl::Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "redundancy_bench: {}\n", MessageOf(status));
  std::exit(1);
}

template <typename T>
T Checked(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

double SecondsOf(const std::function<void()>& work) {
  const auto begin = SteadyNow();
  work();
  return std::chrono::duration<double>(SteadyNow() - begin).count();
}

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

// Six ranks with a file each, in memory, on one disk.
class Ranks {
 public:
  Ranks(scr::Scheme scheme, std::uint64_t bytes)
      : folder_(fmt::format("/dev/shm/cairn-redundancy-bench-{}", ::getpid())), disk_(MakePosixDisk()) {
    std::mt19937_64 random(7);
    for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
      std::vector<std::uint64_t> words(bytes / 8);
      for (std::uint64_t& word : words) word = random();
      Check(MakeDirectories(*disk_, RecordsOf(rank)));
      const std::string path = fmt::format("{}/{}/data", folder_, rank);
      const auto file = Checked(disk_->Open(path, {.writable = true, .create = true}));
      Check(file->WriteAt(0, std::as_bytes(std::span(words))));
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
      for (const std::uint64_t word : words) memory_.push_back(word);
    }
    std::vector<scr::SetMember> members;
    for (const ProtectSource& source : set_) members.push_back(source.member);
    chunk_bytes_ = scr::HeaderOf(members, 0).chunk_bytes;
    bytes_ = bytes;
  }
  ~Ranks() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Ranks(const Ranks&) = delete;

  std::string RecordsOf(std::uint32_t rank) const { return fmt::format("{}/{}/.scr", folder_, rank); }
  const std::byte* BytesOf(std::uint32_t rank) const {
    return reinterpret_cast<const std::byte*>(memory_.data()) + rank * bytes_;
  }
  Disk& disk() { return *disk_; }
  std::vector<ProtectSource>& set() { return set_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t chunk_bytes() const { return chunk_bytes_; }

 private:
  const std::string folder_;
  const std::unique_ptr<Disk> disk_;
  std::vector<ProtectSource> set_;
  std::vector<std::uint64_t> memory_;  // of all, one after the other
  std::uint64_t bytes_ = 0, chunk_bytes_ = 0;
};

// --- Limits ---

// As many bytes in and out as member 0 has to do with, MiB by MiB as anybody would, of memory that is there.
class Arithmetic {
 public:
  Arithmetic(const Ranks& ranks, scr::Scheme scheme) : ranks_(ranks), scheme_(scheme), out_(kBlock + 64) {
    // One row of factors: their values do not matter for the speed.
    std::vector<unsigned char> matrix(kMembers * kMembers);
    gf_gen_cauchy1_matrix(matrix.data(), kMembers, kMembers - 2);
    tables_.resize(32 * kMembers);
    ec_init_tables(kMembers - 2, 1, matrix.data() + (kMembers - 2) * (kMembers - 2), tables_.data());
  }
  void Do() {
    const int stripes = scheme_ == scr::Scheme::kRs ? 2 : 1, inputs = scheme_ == scr::Scheme::kRs ? 4 : 5;
    for (int stripe = 0; stripe < stripes; ++stripe) {
      for (std::uint64_t at = 0; at < ranks_.chunk_bytes(); at += kBlock) {
        const auto count = static_cast<int>(std::min<std::uint64_t>(kBlock, ranks_.chunk_bytes() - at));
        Mix(inputs, at, count / 64 * 64);
      }
    }
  }

 private:
  void Mix(int inputs, std::uint64_t at, int count) {
    std::vector<void*> all;
    for (int i = 0; i < inputs; ++i) {
      all.push_back(const_cast<std::byte*>(ranks_.BytesOf(static_cast<std::uint32_t>(i + 1)) + at));
    }
    all.push_back(Aligned());
    if (scheme_ == scr::Scheme::kXor) {
      CAIRN_CHECK(xor_gen(inputs + 1, count, all.data()) == 0);
      return;
    }
    auto* out = static_cast<unsigned char*>(Aligned());
    ec_encode_data(count, inputs, 1, tables_.data(), reinterpret_cast<unsigned char**>(all.data()), &out);
  }
  void* Aligned() {
    void* at = out_.data();
    std::size_t room = out_.size();
    return std::align(64, kBlock, at, room);
  }

  const Ranks& ranks_;
  const scr::Scheme scheme_;
  std::vector<std::byte> out_;
  std::vector<unsigned char> tables_;
};

// The files of these ranks, read once into memory.
void Move(Ranks& ranks, const std::vector<std::uint32_t>& which, std::uint64_t bytes_of_each) {
  std::vector<std::byte> block(kBlock);
  for (const std::uint32_t rank : which) {
    const auto file = Checked(ranks.disk().Open(ranks.set()[rank].paths[0], {}));
    for (std::uint64_t at = 0; at < bytes_of_each; at += kBlock) {
      const std::size_t count = std::min<std::uint64_t>(kBlock, bytes_of_each - at);
      Check(file->ReadAt(at, std::span(block).first(count)));
    }
  }
}

// --- Ours ---

// The arithmetic as Cairn streams it: from memory into memory.
void MixStreamed(Ranks& ranks, scr::Scheme scheme, std::vector<std::byte>& out) {
  redundancy::Set set{.scheme = scheme,
                      .replicas = 0,
                      .checksums = scheme == scr::Scheme::kRs ? 2u : 0u,
                      .chunk_bytes = ranks.chunk_bytes(),
                      .members = {}};
  for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
    const std::byte* const from = ranks.BytesOf(rank);
    set.members.push_back({.bytes = ranks.bytes(),
                           .data =
                               [from](std::uint64_t offset, std::span<std::byte> target) {
                                 std::memcpy(target.data(), from + offset, target.size());
                                 return absl::OkStatus();
                               },
                           .payload = {}});
  }
  out.resize(redundancy::PayloadBytes(set, 0));
  const auto put = [&out](std::uint64_t offset, std::span<const std::byte> bytes) {
    std::memcpy(out.data() + offset, bytes.data(), bytes.size());
    return absl::OkStatus();
  };
  Check(redundancy::Rebuild(set, {{0, {.data = {}, .payload = put}}}).status());
}

catalogue::FileEntry Protect(Ranks& ranks, std::uint32_t rank) {
  Throttle throttle(0);
  TransferProgress progress;
  return Checked(WriteRedundancy(ranks.disk(), ranks.RecordsOf(rank), scr::RedsetKind::kData, ranks.set(), rank,
                                 throttle, progress));
}

// Member 0's file, of what the others have.
void Rebuild(Ranks& ranks, const std::vector<catalogue::FileEntry>& kept) {
  std::vector<RebuildSource> sources;
  for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
    RebuildSource source{.files = ranks.set()[rank], .kept = std::nullopt};
    if (rank == 0) {
      source.files.disk = nullptr;
      source.files.sums.clear();
    } else {
      std::vector<scr::SetMember> members;
      for (const ProtectSource& one : ranks.set()) members.push_back(one.member);
      const std::uint64_t payload = scr::HeaderOf(members, rank).payload_bytes();
      source.kept = KeptFile{.disk = &ranks.disk(),
                             .path = ranks.RecordsOf(rank) + "/" + kept[rank].name(),
                             .sums = kept[rank],
                             .header_bytes = kept[rank].bytes() - payload};
    }
    sources.push_back(std::move(source));
  }
  Throttle throttle(0);
  TransferProgress progress;
  const auto disk = Checked(MakeRebuiltDisk(std::move(sources), 0, throttle, progress));
  const auto file = Checked(disk->Open(ranks.set()[0].paths[0], {}));
  std::vector<std::byte> block(kBlock);
  for (std::uint64_t at = 0; at < ranks.bytes(); at += kBlock) {
    const std::size_t count = std::min<std::uint64_t>(kBlock, ranks.bytes() - at);
    Check(file->ReadAt(at, std::span(block).first(count)));
    CAIRN_CHECK(std::memcmp(block.data(), ranks.BytesOf(0) + at, count) == 0);
  }
}

void Measure(const std::string& name, scr::Scheme scheme, int pairs, std::uint64_t bytes) {
  Ranks ranks(scheme, bytes);
  Arithmetic arithmetic(ranks, scheme);
  std::vector<std::byte> out;
  std::vector<catalogue::FileEntry> kept;
  for (std::uint32_t rank = 0; rank < kMembers; ++rank) kept.push_back(Protect(ranks, rank));
  std::vector<std::uint32_t> left;
  for (std::uint32_t rank = 1; rank < kMembers; ++rank) left.push_back(rank);
  std::vector<Ratio> streamed, written, rebuilt;
  for (int i = 0; i < pairs; ++i) {
    const double limit = SecondsOf([&] { arithmetic.Do(); });
    streamed.push_back({limit, SecondsOf([&] { MixStreamed(ranks, scheme, out); })});
    written.push_back({SecondsOf([&] { arithmetic.Do(); }), SecondsOf([&] { Protect(ranks, 0); })});
    // Of XOR all that the others have, and what they keep; of RS four of them are enough.
    const std::vector<std::uint32_t> needed(left.begin(), left.end() - (scheme == scr::Scheme::kRs ? 1 : 0));
    const double moved = SecondsOf([&] { Move(ranks, needed, ranks.bytes()); });
    rebuilt.push_back({SecondsOf([&] { Rebuild(ranks, kept); }), moved});
  }
  PrintRatios(name + ": arithmetic as it is streamed", streamed, "ISA-L alone", /*inverse=*/true);
  PrintRatios(name + ": what a rank keeps, checked, written, with checksums", written, "ISA-L alone", true);
  PrintRatios(name + ": a rank's file made anew, checked", rebuilt, "reading the files of those that are left");
}

int Main(int argc, char** argv) {
  const int pairs = argc > 1 ? std::atoi(argv[1]) : 15;
  const int mib = argc > 2 ? std::atoi(argv[2]) : 60;
  if (pairs < 1 || mib < 1 || mib > 1024) {
    fmt::print(stderr, "usage: redundancy_bench [pairs, from 1] [MiB per rank, 1 to 1024]\n");
    return 2;
  }
  const std::uint64_t bytes = static_cast<std::uint64_t>(mib) << 20;
  Measure("xor over 6", scr::Scheme::kXor, pairs, bytes);
  Measure("rs(4+2)", scr::Scheme::kRs, pairs, bytes);
  return 0;
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  return cairn::bench::Main(argc, argv);
}

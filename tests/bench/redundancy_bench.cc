// What a rank keeps for the others of a set of six, made and used: against the arithmetic alone (ISA-L's own call over
// the same bytes, in memory) and against moving the bytes that it needs. Files lie in memory (/dev/shm), no disk is in
// it. Where a network is in it, that is the transport between nodes (daemon/bulk), both ends of it in this process.
#include <fmt/format.h>
#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "proto/redundancy.pb.h"
#include "storage/base/check.h"
#include "storage/base/clock.h"
#include "storage/file/redundancy/payload.h"
#include "tests/bench/arguments.h"
#include "tests/bench/bulk_nodes.h"
#include "tests/bench/ratio.h"
#include "tests/bench/redundancy_ranks.h"

namespace cairn::bench {
namespace {

constexpr std::size_t kBlock = 1 << 20;

double SecondsOf(const std::function<void()>& work) {
  const auto begin = SteadyNow();
  work();
  return std::chrono::duration<double>(SteadyNow() - begin).count();
}

// Each comes first by turns. As PrintRatios takes them with `inverse`, `a` is the limit.
std::vector<Ratio> Pairs(int count, const std::function<void()>& a, const std::function<void()>& b) {
  a();  // memory is there, connections are
  b();
  std::vector<Ratio> pairs(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (const bool first : {true, false}) {
      if (first == (i % 2 == 0))
        pairs[i].measured = SecondsOf(a);
      else
        pairs[i].limit = SecondsOf(b);
    }
  }
  return pairs;
}

// Where the arithmetic's results go: all to their own place, or each block to the place of the one before.
enum class Result { kKept, kPassedOn };

// --- Limits ---

// As many bytes in and out as member 0 has to do with, MiB by MiB as anybody would, of memory that is there.
class Arithmetic {
 public:
  explicit Arithmetic(const Ranks& ranks)
      : ranks_(ranks), rs_(ranks.scheme() == scr::Scheme::kRs), out_(2 * ranks.chunk_bytes() / sizeof(Line) + 1) {
    // One row of factors: their values do not matter for the speed.
    std::vector<unsigned char> matrix(kMembers * kMembers);
    gf_gen_cauchy1_matrix(matrix.data(), kMembers, kMembers - 2);
    tables_.resize(32 * kMembers);
    ec_init_tables(kMembers - 2, 1, matrix.data() + (kMembers - 2) * (kMembers - 2), tables_.data());
  }
  void Do(Result result) {
    const std::uint64_t chunk = ranks_.chunk_bytes();
    for (std::uint64_t stripe = 0; stripe < (rs_ ? 2 : 1); ++stripe) {
      for (std::uint64_t at = 0; at < chunk; at += kBlock) {
        const auto count = static_cast<int>(std::min<std::uint64_t>(kBlock, chunk - at));
        Mix(stripe * chunk + at, result == Result::kKept ? stripe * chunk + at : 0, count / 64 * 64);
      }
    }
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  void Mix(std::uint64_t from, std::uint64_t to, int count) {
    std::vector<void*> all;
    for (std::uint32_t i = 0; i < (rs_ ? 4 : 5); ++i) {
      all.push_back(const_cast<std::byte*>(ranks_.BytesOf(i + 1).data()) + from);
    }
    auto* out = reinterpret_cast<unsigned char*>(out_.data()) + to / 64 * 64;
    if (rs_) {
      ec_encode_data(count, 4, 1, tables_.data(), reinterpret_cast<unsigned char**>(all.data()), &out);
      return;
    }
    all.push_back(out);
    CAIRN_CHECK(xor_gen(static_cast<int>(all.size()), count, all.data()) == 0);
  }

  const Ranks& ranks_;
  const bool rs_;
  std::vector<Line> out_;
  std::vector<unsigned char> tables_;
};

// The files of so many of the others, read once, as much at a time as `target` has.
void Move(Disk& disk, const std::string& root, std::uint32_t others, std::uint64_t bytes, std::span<std::byte> target) {
  for (std::uint32_t rank = 1; rank <= others; ++rank) {
    const auto file = Checked(disk.Open(fmt::format("{}/{}/data", root, rank), {}));
    for (std::uint64_t at = 0; at < bytes; at += target.size()) {
      Check(
          file->ReadAt(at, target.first(static_cast<std::size_t>(std::min<std::uint64_t>(target.size(), bytes - at)))));
    }
  }
}

// --- Ours ---

// The arithmetic as Cairn streams it, of memory.
class Streamed {
 public:
  explicit Streamed(const Ranks& ranks)
      : set_{.scheme = ranks.scheme(),
             .replicas = 0,
             .checksums = ranks.scheme() == scr::Scheme::kRs ? 2u : 0u,
             .chunk_bytes = ranks.chunk_bytes(),
             .members = {}} {
    for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
      const std::span<const std::byte> from = ranks.BytesOf(rank);
      redundancy::Source data = [from](std::uint64_t offset, std::span<std::byte> target) {
        std::memcpy(target.data(), from.data() + offset, target.size());
        return absl::OkStatus();
      };
      // As files' blocks are lent (storage/job/protect/checked_source.h).
      data.lend = [from](std::uint64_t offset, std::uint64_t bytes_max) -> absl::StatusOr<std::span<const std::byte>> {
        return from.subspan(offset, std::min(bytes_max, kBlock - offset % kBlock));
      };
      set_.members.push_back({.bytes = ranks.bytes(), .data = std::move(data), .payload = {}});
    }
    out_.resize(redundancy::PayloadBytes(set_, 0));
  }
  void Do(Result result) {
    const auto put = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
      if (result == Result::kKept) std::memcpy(out_.data() + offset, bytes.data(), bytes.size());
      return absl::OkStatus();
    };
    Check(redundancy::Rebuild(set_, {{0, {.data = {}, .payload = put}}}).status());
  }

 private:
  redundancy::Set set_;
  std::vector<std::byte> out_;
};

// --- Pairs ---

void MeasureArithmetic(const std::string& name, Ranks& ranks, int pairs) {
  Arithmetic arithmetic(ranks);
  Streamed streamed(ranks);
  for (const Result result : {Result::kPassedOn, Result::kKept}) {
    PrintRatios(fmt::format("{}: arithmetic as it is streamed, results {}", name,
                            result == Result::kKept ? "kept in memory" : "passed on block by block"),
                Pairs(
                    pairs, [&] { arithmetic.Do(result); }, [&] { streamed.Do(result); }),
                "ISA-L alone", /*inverse=*/true);
  }
  const std::vector<ProtectSource> set = ranks.SetOn(ranks.disk(), ranks.folder());
  PrintRatios(name + ": what a rank keeps, checked, written, with checksums",
              Pairs(
                  pairs, [&] { arithmetic.Do(Result::kPassedOn); }, [&] { ranks.Protect(set, 0); }),
              "ISA-L alone", true);
}

void MeasureRebuild(const std::string& name, Ranks& ranks, Disk& others, int pairs) {
  ranks.ProtectAll();
  // Of XOR all that the others have, and what they keep; of RS so much of four of them is enough.
  const std::uint32_t needed = ranks.scheme() == scr::Scheme::kRs ? 4 : 5;
  std::vector<std::byte> target(ranks.bytes());
  const std::span<std::byte> block = std::span(target).first(kBlock);
  const auto is_right = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    CAIRN_CHECK(std::memcmp(bytes.data(), ranks.BytesOf(0).data() + offset, bytes.size()) == 0);
  };
  const auto nothing = [](std::uint64_t, std::span<const std::byte>) {};
  ranks.Rebuild(others, "", is_right);
  PrintRatios(name + ": a rank's file made anew, checked",
              Pairs(
                  pairs, [&] { ranks.Rebuild(ranks.disk(), ranks.folder(), nothing); },
                  [&] { Move(ranks.disk(), ranks.folder(), needed, ranks.bytes(), block); }),
              "reading what it is made of");
  PrintRatios(
      name + ": the same, of what other nodes have",
      Pairs(
          pairs, [&] { ranks.Rebuild(others, "", nothing); }, [&] { Move(others, "", needed, ranks.bytes(), target); }),
      "moving what it is made of");
}

void MeasureCopy(Ranks& ranks, BulkNodes& nodes, PlainTls& plain, int pairs) {
  const std::vector<ProtectSource> set = ranks.SetOn(nodes.files(), "");
  std::vector<std::byte> target(ranks.bytes());
  const auto copy = [&] { ranks.Protect(set, 1); };           // rank 0's file
  const auto copy_over = [&] { ranks.ProtectOver(set, 1); };  // as each one after the first few
  const std::string name = "partner: a rank's file of another node, checked, written, with checksums";
  const auto by_transport = [&] { Move(nodes.files(), "", 1, ranks.bytes(), target); };
  PrintRatios(name,
              Pairs(
                  pairs, [&] { plain.Fetch(ranks.BytesOf(0), target); }, copy),
              "plain TLS, memory to memory", /*inverse=*/true);
  // The copy is a new file, whose pages the kernel has to find first. So it is here.
  const std::string path = ranks.folder() + "/plain";
  const auto file_by_plain_tls = [&] {
    plain.Fetch(ranks.BytesOf(0), target);
    const auto file = Checked(ranks.disk().Open(path, {.writable = true, .create = true}));
    Check(file->WriteAt(0, target));
    Check(file->Sync());
  };
  PrintRatios(name, Pairs(pairs, file_by_plain_tls, copy), "plain TLS into memory, and then into a new file", true);
  PrintRatios(name + ", a new file", Pairs(pairs, by_transport, copy), "the same transport into memory", true);
  PrintRatios(name + ", over an older one", Pairs(pairs, by_transport, copy_over), "the same transport into memory",
              true);
}

void Measure(int pairs, std::uint64_t bytes) {
  const auto authority = NewBulkAuthority();
  PlainTls plain(*authority, BulkOptions{}.connections_max);
  for (const auto& [name, scheme] : {std::pair{"xor over 6", scr::Scheme::kXor}, {"rs(4+2)", scr::Scheme::kRs}}) {
    Ranks ranks(scheme, bytes);
    BulkNodes nodes(authority, ranks.folder());
    MeasureArithmetic(name, ranks, pairs);
    MeasureRebuild(name, ranks, nodes.files(), pairs);
  }
  Ranks ranks(scr::Scheme::kPartner, bytes);
  BulkNodes nodes(authority, ranks.folder());
  MeasureCopy(ranks, nodes, plain, pairs);
}

int Main(int argc, char** argv) {
  int pairs = 15, mib = 60, more = 0;
  ReadArguments(argc, argv, "What a rank keeps for the others of its set, made and used.",
                {{"PAIRS", "so many times", Number(pairs)},
                 {"MIB", "of each rank", Number(mib, 1, 1024)},
                 {"BYTES", "more of each rank, so that chunks begin anywhere", Number(more, 0, (1 << 20) - 1)}});
  std::signal(SIGPIPE, SIG_IGN);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  spdlog::set_level(spdlog::level::warn);
  Measure(pairs, (static_cast<std::uint64_t>(mib) << 20) + static_cast<std::uint64_t>(more));
  return 0;
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  return cairn::bench::Main(argc, argv);
}

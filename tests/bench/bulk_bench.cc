// A file of another node, fetched through the Disk that the core is given, against plain TLS 1.3 with the same
// certificates, memory to memory, over as many connections (bulk_nodes.h). The file is on /dev/shm. All in one process,
// connections are there before the first pair.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/clock.h"
#include "storage/io/posix_disk.h"
#include "tests/bench/arguments.h"
#include "tests/bench/bulk_nodes.h"
#include "tests/bench/ratio.h"

namespace cairn {
namespace {

using bench::Ratio;

constexpr std::size_t kBytes = 256u << 20;

double Seconds(const auto& work) {
  const auto begun = SteadyNow();
  work();
  return std::chrono::duration<double>(SteadyNow() - begun).count();
}

void Measure(const std::string& folder, std::span<const std::byte> source, std::size_t connections, int pairs) {
  const auto authority = bench::NewBulkAuthority();
  bench::BulkNodes nodes(authority, folder, connections);
  bench::PlainTls plain(*authority, connections);
  const auto file = nodes.files().Open("/file", {});
  CAIRN_CHECK(file.ok());
  std::vector<std::byte> target(kBytes);
  const auto check = [&] {
    CAIRN_CHECK(std::memcmp(target.data(), source.data(), kBytes) == 0);
    std::memset(target.data(), 0, kBytes);
  };
  const auto fetch = [&] { CAIRN_CHECK((*file)->ReadAt(0, target).ok()); };
  fetch();
  check();
  plain.Fetch(source, target);
  check();
  std::vector<Ratio> ratios;
  for (int i = 0; i < pairs; ++i) {
    Ratio pair;
    for (const bool first : {true, false}) {
      if (first == (i % 2 == 0)) {
        pair.limit = Seconds(fetch);
      } else {
        pair.measured = Seconds([&] { plain.Fetch(source, target); });
      }
      check();
    }
    ratios.push_back(pair);
  }
  const Ratio median = bench::Median(ratios);
  bench::PrintRatios(fmt::format("{} MiB over {} connection(s), {:.2f} GB/s against {:.2f}", kBytes >> 20, connections,
                                 kBytes / median.limit / 1e9, kBytes / median.measured / 1e9),
                     ratios, "plain TLS", /*inverse=*/true);
  std::fflush(stdout);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  int pairs = 21;
  cairn::bench::ReadArguments(argc, argv, "A file of another node, against plain TLS.",
                              {{"PAIRS", "so many times", cairn::bench::Number(pairs)}});
  std::signal(SIGPIPE, SIG_IGN);
  spdlog::set_level(spdlog::level::warn);
  std::string folder = "/dev/shm/cairn-bulk-XXXXXX";
  CAIRN_CHECK(::mkdtemp(folder.data()) != nullptr);
  std::vector<std::byte> source(cairn::kBytes);
  std::uint64_t state = 88172645463325252u;
  for (std::byte& byte : source) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<std::byte>(state);
  }
  const std::string path = folder + "/file";
  {
    const auto disk = cairn::MakePosixDisk();
    const auto file = disk->Open(path, {.writable = true, .create = true});
    CAIRN_CHECK(file.ok() && (*file)->WriteAt(0, source).ok());
  }
  for (const std::size_t connections : {1, 2, 4}) cairn::Measure(folder, source, connections, pairs);
  ::unlink(path.c_str());
  ::rmdir(folder.c_str());
  return 0;
}

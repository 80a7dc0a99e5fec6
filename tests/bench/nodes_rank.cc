// A rank of nodes_bench: checkpoints as often as it is told, each waited for until it is on the prefix. Prints a line
// for each: milliseconds until the call was over, from then on until `local`, and until `prefix`.
//
// usage: nodes_rank STEPS KIB
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "client/cairn.h"

namespace {

int Fail(const char* what, cairn_session* session) {
  fmt::print("{}: {}\n", what, cairn_error(session));
  return 1;
}

double MsSince(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count();
}

int Run(std::uint64_t steps, std::size_t bytes) {
  cairn_session* session = nullptr;
  const cairn_options options = CAIRN_OPTIONS_INIT;
  if (cairn_open(&options, &session) != CAIRN_OK) return Fail("open", nullptr);
  std::vector<std::uint64_t> words(bytes / 8);
  if (cairn_protect(session, 1, words.data(), words.size(), CAIRN_UINT64) != CAIRN_OK) return Fail("protect", session);
  for (std::uint64_t step = 1; step <= steps; ++step) {
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = step * 0x9E3779B97F4A7C15u + i;
    std::uint64_t dataset = 0;
    const auto begun = std::chrono::steady_clock::now();
    if (cairn_checkpoint(session, step, &dataset) != CAIRN_OK) return Fail("checkpoint", session);
    const double blocked = MsSince(begun);
    if (cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 60'000) != CAIRN_OK) return Fail("local", session);
    const double local = MsSince(begun) - blocked;
    if (cairn_wait(session, dataset, CAIRN_LEVEL_PREFIX, 120'000) != CAIRN_OK) return Fail("prefix", session);
    fmt::print("{:.3f} {:.3f} {:.3f}\n", blocked, local, MsSince(begun) - blocked);
  }
  return cairn_close(session) == CAIRN_OK ? 0 : Fail("close", session);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return Run(std::strtoull(argv[1], nullptr, 10), std::strtoull(argv[2], nullptr, 10) << 10);
}

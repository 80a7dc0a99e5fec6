// An application whose ranks write a BP5 directory together, with CAIRN_GROWING.
//
//   growing_client --steps N --go FILE [--cut K] [--more M] [--invalid]
//
// Rank 0 writes N steps of "fields.bp" where it is routed to and prints "written"; every rank waits until FILE is
// there. Then rank 0 cuts the directory to K steps, writes M more and closes it, and all end the output (--invalid: not
// valid) and wait for it to be on the prefix. Exit: 0 done, 1 with what failed.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "client/cairn.h"
#include "storage/io/posix_disk.h"
#include "tests/support/growing_bp5.h"

namespace {

struct Options {
  std::uint32_t steps = 0, more = 0;
  int cut = -1;
  bool valid = true;
  std::string go;
};

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto next = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (name == "--steps") options.steps = static_cast<std::uint32_t>(std::stoul(next()));
    if (name == "--more") options.more = static_cast<std::uint32_t>(std::stoul(next()));
    if (name == "--cut") options.cut = std::stoi(next());
    if (name == "--go") options.go = next();
    if (name == "--invalid") options.valid = false;
  }
  return options;
}

int Fail(const std::string& what) {
  fmt::print("{}\n", what);
  std::fflush(stdout);
  return 1;
}

absl::Status Write(cairn::GrowingBp5& job, std::uint32_t steps) {
  absl::Status status;
  for (std::uint32_t i = 0; i < steps && status.ok(); ++i) status = job.Step();
  return status;
}

absl::Status GoOn(cairn::GrowingBp5& job, const Options& options) {
  absl::Status status;
  if (options.cut >= 0) status = job.CutTo(static_cast<std::uint32_t>(options.cut), /*seed=*/7);
  if (status.ok()) status = Write(job, options.more);
  return status.ok() ? job.Close() : status;
}

int Run(const Options& options) {
  cairn_session* session = nullptr;
  cairn_options opening = CAIRN_OPTIONS_INIT;
  if (cairn_open(&opening, &session) != CAIRN_OK) return Fail(cairn_error(nullptr));
  std::uint64_t dataset = 0;
  char path[4096];
  if (cairn_output_begin(session, 1, CAIRN_OUTPUT | CAIRN_GROWING, &dataset) != CAIRN_OK ||
      cairn_route_file(session, "fields.bp/", path, sizeof path) != CAIRN_OK) {
    return Fail(cairn_error(session));
  }
  const char* rank = std::getenv("CAIRN_RANK");
  const bool writes = rank == nullptr || std::string(rank) == "0";
  const auto disk = cairn::MakePosixDisk();
  cairn::GrowingBp5 job(*disk, path);
  if (writes) {
    absl::Status status = job.Create(/*id=*/7);
    if (status.ok()) status = Write(job, options.steps);
    if (!status.ok()) return Fail(status.ToString());
  }
  fmt::print("written {}\n", dataset);
  std::fflush(stdout);
  while (access(options.go.c_str(), F_OK) != 0) poll(nullptr, 0, 10);
  if (writes) {
    if (const absl::Status status = GoOn(job, options); !status.ok()) return Fail(status.ToString());
  }
  if (cairn_output_end(session, options.valid ? 1 : 0) != CAIRN_OK) return Fail(cairn_error(session));
  if (options.valid && cairn_wait(session, dataset, CAIRN_LEVEL_PREFIX, 60000) != CAIRN_OK) {
    return Fail(cairn_error(session));
  }
  cairn_close(session);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return Run(Parse(argc, argv));
}

// `cairn extract`: one variable out of a checkpoint file. Needs no daemon.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "client/cli/commands.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/output_file.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/errno_status.h"
#include "storage/io/posix_disk.h"
#include "storage/job/extract/extract.h"

namespace cairn::cli {
namespace {

constexpr const char* kExtractFooter =
    "The output has the variable's bytes as the application had them in memory, whatever containers hold them. The\n"
    "command compares all hashes on the way. If a chunk is damaged, it names the chunk and leaves no output.\n"
    "\n"
    "Examples:\n"
    "  cairn extract Ckpt17-Rank0.fti --var 2 -o u.bin\n"
    "  cairn extract Ckpt17-Rank0.fti --var 2 -o - | od -A d -t f8 | head\n"
    "\n"
    "Exit codes: 0 done; 1 refused or failed; 4 no such file or variable; 5 the variable is damaged.";

struct ExtractOptions {
  std::string file;
  std::int32_t variable = 0;
  std::string output;  // "-": standard output, unless that is a terminal
  bool force = false;
};

absl::Status WriteToStandardOutput(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t taken = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0) return ErrnoStatus(errno, "standard output");
    bytes = bytes.subspan(static_cast<std::size_t>(taken));
  }
  return absl::OkStatus();
}

struct Extracted {
  std::uint64_t bytes = 0;
  std::size_t containers = 0;
  std::string output;
};

absl::StatusOr<Extracted> Extract(const ExtractOptions& options) {
  const auto disk = MakePosixDisk();
  CAIRN_ASSIGN_OR_RETURN(const std::string path, ResolveFile(options.file));
  CAIRN_ASSIGN_OR_RETURN(const StoredVariable variable, StoredVariable::Open(*disk, path, options.variable));
  Extracted extracted{.bytes = variable.bytes(), .containers = variable.containers(), .output = "-"};
  if (options.output == "-") {
    CAIRN_RETURN_IF_ERROR(variable.Stream(WriteToStandardOutput));
    return extracted;
  }
  CAIRN_ASSIGN_OR_RETURN(
      const auto output,
      OutputFile::Create(
          *disk, options.output,
          {.input = path, .force = options.force, .mode = variable.file_mode() | 0600, .bytes = extracted.bytes}));
  CAIRN_RETURN_IF_ERROR(variable.Copy(
      [&](std::uint64_t offset, std::span<const std::byte> bytes) { return output->WriteAt(offset, bytes); }));
  CAIRN_RETURN_IF_ERROR(output->Commit());
  extracted.output = output->path();
  return extracted;
}

ExitCode RunExtract(const Context& context, const ExtractOptions& options) {
  const bool to_pipe = options.output == "-";
  if (to_pipe && context.terminal) {
    return Complain(InvalidArgument("a terminal cannot show the bytes of a variable: redirect them or name a file"));
  }
  const auto extracted = Extract(options);
  if (!extracted.ok()) return ComplainOfFile(extracted.status());
  if (to_pipe) return ExitCode::kOk;
  if (context.json) {
    Print(Dump({{"file", options.file},
                {"variable", options.variable},
                {"bytes", extracted->bytes},
                {"containers", extracted->containers},
                {"output", extracted->output}}));
  } else {
    Print(fmt::format("{}: variable {}, {} bytes ({})\n", Clean(extracted->output), options.variable, extracted->bytes,
                      Bytes(extracted->bytes)));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddExtractCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<ExtractOptions>();
  const Command extract = app.AddCommand("extract", "Take one variable out of a checkpoint file; needs no daemon");
  extract.AddOption("FILE", options->file, "An FTI-FF checkpoint file").Required();
  extract.AddOption("--var", options->variable, "The variable's id, as `cairn inspect` shows it").Required();
  AddOutput(extract, options->output, options->force, "The file to make; - is standard output");
  extract.Footer(kExtractFooter);
  SetRun(extract, line, options, RunExtract);
}

}  // namespace cairn::cli

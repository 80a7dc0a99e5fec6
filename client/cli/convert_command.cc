// `cairn convert`: a checkpoint file again in layout A or F. Needs no daemon.
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/file_argument.h"
#include "client/cli/json.h"
#include "client/cli/options.h"
#include "client/cli/output_file.h"
#include "client/cli/text.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/job/convert/convert.h"

namespace cairn::cli {
namespace {

constexpr const char* kConvertFooter =
    "FTI 1.1 reads layout A, the documented one; FTI after 1.6 reads layout F. The command reads all six layouts.\n"
    "It keeps contents, checkpoint number, timestamp and the levels' sizes. It does not convert a damaged file.\n"
    "Layouts A and B hold no checkpoint number: it comes from the file's name (Ckpt<id>-Rank<r>.fti).\n"
    "\n"
    "Packing: keep makes the same containers, so that FTI can go on with the file's history; exact makes one\n"
    "container for each variable, without padding.\n"
    "\n"
    "Examples:\n"
    "  cairn convert old/Ckpt17-Rank0.fti --layout F -o new/Ckpt17-Rank0.fti\n"
    "  cairn convert Ckpt17-Rank0.fti --layout A --packing exact -o /tmp/Ckpt17-Rank0.fti\n"
    "\n"
    "Exit codes: 0 done; 1 refused or failed; 4 no such file; 5 the file is damaged.";

struct ConvertArguments {
  std::string file;
  std::string layout, packing = "keep";
  std::string output;
  bool force = false;
};

struct ConvertedFile {
  std::string output;
  bool exact = false;
  ftiff::FileMetadata metadata;
};

absl::StatusOr<ConvertedFile> Convert(const ConvertArguments& options) {
  const auto disk = MakePosixDisk();
  CAIRN_ASSIGN_OR_RETURN(const std::string path, ResolveFile(options.file));
  CAIRN_ASSIGN_OR_RETURN(Conversion conversion,
                         Conversion::Plan(*disk, path,
                                          {.letter = options.layout == "A" ? ftiff::Letter::kA : ftiff::Letter::kF,
                                           .exact = options.packing == "exact"}));
  CAIRN_ASSIGN_OR_RETURN(
      const auto output,
      OutputFile::Create(
          *disk, options.output,
          {.input = path, .force = options.force, .mode = conversion.file_mode() | 0600, .bytes = conversion.bytes()}));
  CAIRN_ASSIGN_OR_RETURN(Converted converted,
                         conversion.Run(output->path(), [&](std::uint64_t offset, std::span<const std::byte> bytes) {
                           return output->WriteAt(offset, bytes);
                         }));
  CAIRN_RETURN_IF_ERROR(output->Commit());
  for (const std::string& note : converted.notes) Note(note);
  return ConvertedFile{
      .output = output->path(), .exact = conversion.exact(), .metadata = std::move(converted.metadata)};
}

ExitCode RunConvert(const Context& context, const ConvertArguments& options) {
  const auto converted = Convert(options);
  if (!converted.ok()) return ComplainOfFile(converted.status());
  const ftiff::FileMetadata& metadata = converted->metadata;
  const std::size_t containers = metadata.layout.containers.size();
  if (context.json) {
    Print(Dump({{"file", options.file},
                {"output", converted->output},
                {"layout", std::string(1, static_cast<char>(metadata.letter))},
                {"packing", converted->exact ? "exact" : "keep"},
                {"ckptId", metadata.header.checkpoint_id},
                {"containers", containers},
                {"bytes", metadata.file_bytes}}));
  } else {
    Print(fmt::format("{}: layout {}, {}, {} bytes ({})\n", Clean(converted->output),
                      static_cast<char>(metadata.letter), Count(containers, "container"), metadata.file_bytes,
                      Bytes(metadata.file_bytes)));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddConvertCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<ConvertArguments>();
  const Command convert = app.AddCommand("convert", "Write a checkpoint file again in layout A or F; needs no daemon");
  convert.AddOption("FILE", options->file, "An FTI-FF checkpoint file of any layout").Required();
  convert.AddOption("--layout", options->layout, "A or F").Required().OneOf({"A", "F"});
  convert.AddOption("--packing", options->packing, "keep (default): the same containers; exact: one for each variable")
      .OneOf({"keep", "exact"});
  AddOutput(convert, options->output, options->force, "The file to make");
  convert.Footer(kConvertFooter);
  SetRun(convert, line, options, RunConvert);
}

}  // namespace cairn::cli

#include "client/cli/bp/vars_command.h"

#include "client/cli/bp/listing.h"
#include "client/cli/bp/place.h"
#include "client/cli/bp/raw.h"
#include "client/cli/bp/text_out.h"
#include "client/cli/file_argument.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"

namespace cairn::cli {
namespace {

// As far as it goes: a damaged directory is what this is for.
absl::Status WriteRaw(Disk& disk, const BpPlace& place, TextOut& out) {
  const auto files = BpFiles(disk, place);
  absl::Status first = WriteRawIndex(*files, out);
  const absl::Status formats = WriteRawFormats(*files, out);
  if (first.ok()) first = formats;
  const auto directory = OpenBp(disk, place);
  if (!directory.ok()) return directory.status();
  WriteRawRecords((*directory)->metadata(), out);
  return first;
}

absl::Status List(const Context& context, Disk& disk, const BpPlace& place, const VarsOptions& options, TextOut& out) {
  CAIRN_ASSIGN_OR_RETURN(const auto directory, OpenBp(disk, place));
  ListingOptions listing{.patterns = place.rest, .blocks = options.blocks, .attributes = options.attributes};
  listing.patterns.insert(listing.patterns.end(), options.names.begin(), options.names.end());
  const auto list = context.json ? ListAsJson : ListAsText;
  return AtPlace(list(place, directory->metadata(), listing, out), place);
}

}  // namespace

ExitCode ComplainOfBp(const absl::Status& status) {
  const ExitCode code = ComplainOfFile(status);
  return absl::IsInvalidArgument(status) ? ExitCode::kUsage : code;
}

ExitCode RunVars(const Context& context, const VarsOptions& options) {
  if (options.raw && context.json) return ComplainOfBp(InvalidArgument("--raw is text: there is no JSON of it"));
  const auto disk = MakePosixDisk();
  const auto place = FindBpPlace(context, *disk, options.arguments);
  if (!place.ok()) return ComplainOfBp(place.status());
  if (!context.json) {
    for (const std::string& note : place->notes) Note(note);
  }
  TextOut out;
  const absl::Status status = options.raw ? WriteRaw(*disk, *place, out) : List(context, *disk, *place, options, out);
  out.Flush();
  return status.ok() ? ExitCode::kOk : ComplainOfBp(status);
}

}  // namespace cairn::cli

// `cairn verify`: reads every byte and compares it with what was noted when it was written. Needs no daemon, except to
// find the prefix of a run that is given by name or identity.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/file_argument.h"
#include "client/cli/options.h"
#include "client/cli/run_prefix.h"
#include "client/cli/verify_report.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/job/verify/verify_files.h"
#include "storage/job/verify/verify_prefix.h"

namespace cairn::cli {
namespace {

constexpr const char* kVerifyFooter =
    "Of an FTI-FF file the command checks its metadata, every chunk's hash, the file's checksum, and whether the\n"
    "checkpoint's number in the name (Ckpt<id>-Rank<r>.fti) is the one in the file. It names damaged containers. If\n"
    "you name several files of one folder, it checks that all are of one checkpoint. Of a run it compares every\n"
    "file with its catalogue, and SCR's lists (summary.scr, rank2file) with both. It says\n"
    "  sizes only   SCR's own datasets and redundancy files have no checksums: only their sizes were compared;\n"
    "  as adopted   nothing could verify the bytes when `cairn adopt` took them: they are as they were then;\n"
    "  failed       a restart from this dataset has failed: no restart uses it until `cairn index add`;\n"
    "  removed      the dataset was removed, by policy or by `cairn rm`, while the command looked at it.\n"
    "BP5 directories have no checksums of their own: see `cairn vars`.\n"
    "\n"
    "Examples:\n"
    "  cairn verify Ckpt17-Rank*.fti\n"
    "  cairn verify /local/node0/2018-03-02_14-13-20/l1\n"
    "  cairn verify /scratch/me/heat --dataset 17\n"
    "\n"
    "Exit codes: 0 all is right; 5 something is damaged; 4 something is missing; 1 a dataset is failed, or any\n"
    "other error.";

struct VerifyOptions {
  std::vector<std::string> targets;  // files, folders of FTI, prefixes, or runs that the daemon knows
  DatasetId dataset = 0;             // not 0: only this one of each run
};

// All targets are looked at, whatever is wrong with some: kDamaged if any is damaged, else the first error.
ExitCode RunVerify(const Context& context, const VerifyOptions& options) {
  const auto disk = MakePosixDisk();
  VerifyReport report(context.json);
  const verify::Report tell = [&report](const verify::Finding& finding) { report.Add(finding); };
  verify::FileVerifier files(*disk, tell);
  for (const std::string& target : options.targets) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(target, error);
    if (!error && std::filesystem::is_directory(path, error)) {
      verify::VerifyDirectory(*disk, path.string(), options.dataset, files, tell);
    } else if (!error) {
      files.Verify(path.string());
    } else if (target.find('/') != std::string::npos) {
      tell({.target = target, .dataset = {}, .status = NotFound("{}", error.message())});
    } else if (const auto prefix = FindPrefix(context, target); prefix.ok()) {
      verify::VerifyPrefix(*disk, *prefix, options.dataset, tell);
    } else {
      tell({.target = target, .dataset = {}, .status = prefix.status()});
    }
  }
  files.CompareRanks();
  return report.Finish();
}

}  // namespace

void AddVerifyCommand(Command app, CommandLine& line) {
  const auto options = std::make_shared<VerifyOptions>();
  const Command verify =
      app.AddCommand("verify", "Read every byte of runs or files and compare it with its checksums; needs no daemon");
  verify
      .AddOption("RUN|FILE", options->targets,
                 "Prefixes, runs, folders of FTI, FTI-FF files, kvtree files or "
                 "catalogues")
      .Required();
  verify.AddOption("--dataset", options->dataset, "Only this dataset of each run");
  verify.Footer(kVerifyFooter);
  SetRun(verify, line, options, RunVerify);
}

}  // namespace cairn::cli

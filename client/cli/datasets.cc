#include "client/cli/datasets.h"

#include <functional>
#include <memory>
#include <utility>

#include "client/cli/admin_client.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/scheme.h"
#include "storage/format/catalogue/verified_by.h"
#include "storage/io/disk.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/prefix.h"

namespace cairn::cli {
namespace {

admin::DatasetRow RowOf(const Prefix& prefix, const CommittedDataset& dataset) {
  const scr::Descriptor& descriptor = dataset.descriptor;
  admin::DatasetRow row;
  if (prefix.run() != RunId()) row.set_run(prefix.run().Hex());
  row.set_prefix(prefix.path());
  row.set_dataset(descriptor.id);
  row.set_launch(descriptor.launch.value_or(0));
  row.set_step(descriptor.step.value_or(0));
  row.set_nranks(descriptor.ranks.value_or(0));
  row.set_checkpoint(descriptor.checkpoint);
  row.set_output(descriptor.output);
  row.set_files(descriptor.own_files || !dataset.by_cairn);
  row.set_level(local::PREFIX);
  row.set_state("whole");
  row.set_in_prefix(true);
  row.set_bytes(descriptor.bytes);
  row.set_created_us(descriptor.created_us);
  row.set_unverified_files(descriptor.unverified_files);
  return row;
}

// Datasets that are committed on the prefix, by id. kNotFound: `path` is no run's prefix.
absl::StatusOr<admin::ListReply> ListPrefix(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::OpenReadOnly(disk, path));
  CAIRN_ASSIGN_OR_RETURN(const auto committed, prefix->Committed());
  admin::ListReply reply;
  for (const auto& [id, dataset] : committed) *reply.add_datasets() = RowOf(*prefix, dataset);
  return reply;
}

// One of them, with its ranks as its catalogues have them; no ranks if SCR itself wrote it. kNotFound, kDataLoss.
absl::StatusOr<admin::ShowReply> ShowPrefix(Disk& disk, const std::string& path, DatasetId id) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::OpenReadOnly(disk, path));
  CAIRN_ASSIGN_OR_RETURN(const auto committed, prefix->Committed());
  const auto found = committed.find(id);
  if (found == committed.end()) return NotFound("{}: no dataset {} is committed there", path, id);
  admin::ShowReply reply;
  *reply.mutable_dataset() = RowOf(*prefix, found->second);
  if (!found->second.by_cairn) return reply;
  CAIRN_ASSIGN_OR_RETURN(const auto catalogues, prefix->Catalogues(id));
  if (!catalogues.empty() && CheckAsked(AskedIn(catalogues.front())).ok()) {
    ShowAsked(AskedIn(catalogues.front()), reply);
  }
  std::uint64_t written_by_all = 0;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    admin::RankRow& rank = *reply.add_ranks();
    rank.set_rank(catalogue.rank());
    rank.set_level(local::PREFIX);
    *rank.mutable_variables() = catalogue.variables();
    *rank.mutable_verified_by() = VerifiedByOf(catalogue);
    std::uint64_t bytes = 0, written = 0;
    for (const catalogue::FileEntry& file : catalogue.file()) {
      rank.add_files(file.prefix_name());
      bytes += file.bytes();
      written += file.bytes_written();
    }
    rank.set_bytes(bytes);
    rank.set_bytes_written(written);
    written_by_all += written;
  }
  reply.mutable_dataset()->set_bytes_written(written_by_all);
  return reply;
}

// Asks the daemon; a prefix can also be read without one.
template <typename Reply>
absl::StatusOr<Answer<Reply>> AskOrRead(const Context& context, const RunArgument& run,
                                        const std::function<absl::StatusOr<Reply>(AdminClient&)>& ask,
                                        const std::function<absl::StatusOr<Reply>(Disk&)>& read) {
  const auto daemon = context.Daemon();
  if (daemon.ok()) {
    absl::StatusOr<Reply> reply = ask(**daemon);
    if (reply.ok()) return Answer<Reply>{.reply = *std::move(reply)};
    if (!run.is_directory || !absl::IsNotFound(reply.status())) return reply.status();
  } else if (!absl::IsUnavailable(daemon.status())) {
    return daemon.status();
  } else if (run.text.find('/') == std::string::npos) {
    return daemon.status();
  } else if (!run.is_directory) {
    return NotFound("{}: no such directory, and no daemon that may know it as a run", run.text);
  }
  const auto disk = MakePosixDisk();
  CAIRN_ASSIGN_OR_RETURN(Reply reply, read(*disk));
  return Answer<Reply>{.reply = std::move(reply), .from_prefix = true};
}

}  // namespace

absl::StatusOr<Answer<admin::ListReply>> ListDatasets(const Context& context, const std::string& run, bool this_node) {
  const RunArgument argument = ParseRun(run);
  return AskOrRead<admin::ListReply>(
      context, argument,
      [&](AdminClient& daemon) {
        admin::ListRequest request;
        request.set_run(argument.text);
        request.set_this_node_only(this_node);
        return daemon.List(request);
      },
      [&](Disk& disk) { return ListPrefix(disk, argument.text); });
}

absl::StatusOr<Answer<admin::ShowReply>> ShowDataset(const Context& context, const std::string& run, DatasetId id,
                                                     bool this_node) {
  const RunArgument argument = ParseRun(run);
  return AskOrRead<admin::ShowReply>(
      context, argument,
      [&](AdminClient& daemon) {
        admin::DatasetRequest request;
        request.set_run(argument.text);
        request.set_dataset(id);
        request.set_this_node_only(this_node);
        return daemon.Show(request);
      },
      [&](Disk& disk) { return ShowPrefix(disk, argument.text, id); });
}

}  // namespace cairn::cli

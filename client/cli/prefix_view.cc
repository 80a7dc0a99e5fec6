#include "client/cli/prefix_view.h"

#include <memory>

#include "storage/base/status.h"
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
  return row;
}

}  // namespace

absl::StatusOr<admin::ListReply> ListPrefix(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::OpenReadOnly(disk, path));
  CAIRN_ASSIGN_OR_RETURN(const auto committed, prefix->Committed());
  admin::ListReply reply;
  for (const auto& [id, dataset] : committed) *reply.add_datasets() = RowOf(*prefix, dataset);
  return reply;
}

absl::StatusOr<admin::ShowReply> ShowPrefix(Disk& disk, const std::string& path, DatasetId id) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::OpenReadOnly(disk, path));
  CAIRN_ASSIGN_OR_RETURN(const auto committed, prefix->Committed());
  const auto found = committed.find(id);
  if (found == committed.end()) return NotFound("{}: no dataset {} is committed there", path, id);
  admin::ShowReply reply;
  *reply.mutable_dataset() = RowOf(*prefix, found->second);
  if (!found->second.by_cairn) return reply;
  CAIRN_ASSIGN_OR_RETURN(const auto catalogues, prefix->Catalogues(id));
  std::uint64_t written_by_all = 0;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    admin::RankRow& rank = *reply.add_ranks();
    rank.set_rank(catalogue.rank());
    rank.set_level(local::PREFIX);
    *rank.mutable_variables() = catalogue.variables();
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

}  // namespace cairn::cli

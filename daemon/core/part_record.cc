#include "daemon/core/part_record.h"

#include <utility>

#include "storage/format/catalogue/catalogue.h"
#include "storage/format/placement/placement.h"
#include "storage/place/names.h"

namespace cairn {

catalogue::Catalogue PartRecord(const RunId& run, const Dataset& dataset, Rank rank, const VariableList& variables) {
  catalogue::Catalogue catalogue;
  catalogue.set_run(run.Hex());
  catalogue.set_launch(dataset.launch);
  catalogue.set_dataset(dataset.id);
  catalogue.set_step(dataset.step);
  catalogue.set_rank(rank);
  catalogue.set_nranks(dataset.nranks);
  PutAsked(dataset.scheme, catalogue);
  *catalogue.mutable_variables() = variables;
  return catalogue;
}

void PutFile(const CaptureResult& result, ftiff::Letter letter, catalogue::Catalogue* catalogue) {
  if (catalogue->variables().empty()) return;
  catalogue::FileEntry& file = *catalogue->add_file();
  file.set_name(CheckpointFileName(catalogue->dataset(), catalogue->rank()));
  file.set_prefix_name(CheckpointPrefixName(catalogue->dataset(), catalogue->rank()));
  file.set_bytes(result.file_bytes);
  file.set_bytes_written(result.bytes_written);
  file.mutable_crc32c()->Assign(result.crc32c.begin(), result.crc32c.end());
  file.set_crc32(result.crc32);
  file.set_has_crc32(true);
  for (catalogue::Placement& placement :
       view::PlacementOf(*catalogue, ftiff::Placed(result.layout, letter), result.bounds)) {
    *catalogue->add_placement() = std::move(placement);
  }
}

}  // namespace cairn

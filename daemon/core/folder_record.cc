#include "daemon/core/folder_record.h"

#include <utility>

namespace cairn {

bool IsOf(const kept::Whole& record, const Dataset& dataset) {
  return dataset.launch == record.launch() && dataset.mark == record.mark() && dataset.step == record.step() &&
         dataset.nranks == record.nranks();
}

kept::Whole FolderRecordOf(const RunId& run, const Dataset& dataset) {
  kept::Whole record;
  record.set_run(run.Hex());
  record.set_launch(dataset.launch);
  record.set_mark(dataset.mark);
  record.set_dataset(dataset.id);
  record.set_step(dataset.step);
  record.set_attempt(dataset.attempt);
  record.set_nranks(dataset.nranks);
  record.set_files(dataset.kind.files);
  record.set_checkpoint(dataset.kind.checkpoint);
  record.set_output(dataset.kind.output);
  record.set_created_us(dataset.created_us);
  record.set_ordinal(dataset.ordinal);
  record.set_name(dataset.name);
  record.set_user(dataset.user);
  record.set_job(dataset.job);
  return record;
}

Dataset DatasetOf(const kept::Whole& record, std::vector<catalogue::Catalogue> ranks) {
  Dataset dataset;
  dataset.id = record.dataset();
  dataset.launch = record.launch();
  dataset.mark = record.mark();
  dataset.step = record.step();
  dataset.attempt = record.attempt();
  dataset.kind = {.files = record.files(), .checkpoint = record.checkpoint(), .output = record.output()};
  dataset.created_us = record.created_us();
  dataset.ordinal = record.ordinal();
  dataset.name = record.name();
  dataset.user = record.user();
  dataset.job = record.job();
  dataset.folder = Place::kWhole;
  PutParts(dataset, std::move(ranks));
  return dataset;
}

}  // namespace cairn

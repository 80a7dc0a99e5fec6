// The calls on a run's prefix.
#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/reader/cairn_reader.h"
#include "client/reader/dataset.h"
#include "client/reader/guard.h"
#include "client/reader/handle.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/prefix.h"

using cairn::CommittedDataset;
using cairn::Disk;
using cairn::Prefix;
using cairn::reader::Guard;

struct cairn_reader_run {
  explicit cairn_reader_run(std::unique_ptr<Prefix> opened) : prefix(std::move(opened)) {}

  const std::unique_ptr<Prefix> prefix;
  mutable absl::Mutex mutex;
  std::vector<CommittedDataset> datasets ABSL_GUARDED_BY(mutex);  // by id
};

namespace {

// Never destroyed: in a child of a process that forked its thread is not there to be waited for.
Disk& SharedDisk() {
  static Disk& disk = *cairn::MakePosixDisk({.engine = {.io_uring = false, .threads = 1}}).release();
  return disk;
}

absl::StatusOr<std::vector<CommittedDataset>> LookAt(Prefix& prefix) {
  CAIRN_ASSIGN_OR_RETURN(const auto committed, prefix.Committed());
  std::vector<CommittedDataset> datasets;
  for (const auto& [id, dataset] : committed) datasets.push_back(dataset);
  return datasets;
}

absl::Status OpenRun(const char* path, cairn_reader_run** run) {
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(path, error);
  if (error) return cairn::NotFound("{}: {}", path, error.message());
  CAIRN_ASSIGN_OR_RETURN(auto prefix, Prefix::OpenReadOnly(SharedDisk(), resolved.string()));
  CAIRN_ASSIGN_OR_RETURN(auto datasets, LookAt(*prefix));
  auto opened = std::make_unique<cairn_reader_run>(std::move(prefix));
  {
    absl::MutexLock lock(&opened->mutex);
    opened->datasets = std::move(datasets);
  }
  *run = opened.release();
  return absl::OkStatus();
}

cairn_reader_dataset_info InfoOf(const CommittedDataset& dataset) {
  const cairn::scr::Descriptor& descriptor = dataset.descriptor;
  cairn_reader_dataset_info info{};
  info.dataset = descriptor.id;
  info.step = descriptor.step.value_or(0);
  info.launch = descriptor.launch.value_or(0);
  info.bytes = descriptor.bytes;
  info.created_us = descriptor.created_us;
  info.nranks = descriptor.ranks.value_or(0);
  info.checkpoint = descriptor.checkpoint ? 1 : 0;
  info.output = descriptor.output ? 1 : 0;
  info.files = descriptor.own_files || !dataset.by_cairn ? 1 : 0;
  return info;
}

bool Has(const cairn_reader_run& run, std::uint64_t id) {
  absl::ReaderMutexLock lock(&run.mutex);
  for (const CommittedDataset& dataset : run.datasets) {
    if (dataset.descriptor.id == id) return true;
  }
  return false;
}

// Options as of any version: what the caller does not know of is 0.
absl::StatusOr<cairn_reader_options> OptionsOf(const cairn_reader_options* given) {
  cairn_reader_options options{};
  if (given == nullptr) return options;
  CAIRN_RETURN_IF_ERROR(cairn::reader::CheckSize(given));
  std::memcpy(&options, given, std::min(given->struct_size, sizeof options));
  return options;
}

absl::Status OpenDataset(cairn_reader_run* run, uint64_t dataset, const cairn_reader_options* given,
                         cairn_reader** reader) {
  if (reader == nullptr) return absl::InvalidArgumentError("the pointer for the handle is NULL");
  *reader = nullptr;
  if (run == nullptr) return absl::InvalidArgumentError("no run");
  CAIRN_ASSIGN_OR_RETURN(const cairn_reader_options options, OptionsOf(given));
  if (!Has(*run, dataset)) return cairn::NotFound("{}: no dataset {}", run->prefix->path(), dataset);
  CAIRN_ASSIGN_OR_RETURN(auto opened,
                         cairn::reader::OpenDataset(SharedDisk(), *run->prefix, dataset, options.no_check == 0));
  *reader = cairn::reader::MakeHandle(std::move(opened.directory), std::move(opened.notes));
  return absl::OkStatus();
}

}  // namespace

int cairn_reader_open_run(const char* prefix, cairn_reader_run** run) {
  return Guard([&]() -> absl::Status {
    if (run == nullptr) return absl::InvalidArgumentError("the pointer for the handle is NULL");
    *run = nullptr;
    if (prefix == nullptr) return absl::InvalidArgumentError("no prefix");
    return OpenRun(prefix, run);
  });
}

void cairn_reader_close_run(cairn_reader_run* run) {
  delete run;
}

int cairn_reader_refresh_run(cairn_reader_run* run) {
  return Guard([&]() -> absl::Status {
    if (run == nullptr) return absl::InvalidArgumentError("no run");
    CAIRN_ASSIGN_OR_RETURN(auto datasets, LookAt(*run->prefix));
    absl::MutexLock lock(&run->mutex);
    run->datasets = std::move(datasets);
    return absl::OkStatus();
  });
}

uint64_t cairn_reader_datasets(const cairn_reader_run* run) {
  if (run == nullptr) return 0;
  absl::ReaderMutexLock lock(&run->mutex);
  return run->datasets.size();
}

int cairn_reader_dataset(const cairn_reader_run* run, uint64_t index, cairn_reader_dataset_info* info) {
  return Guard([&]() -> absl::Status {
    if (run == nullptr) return absl::InvalidArgumentError("no run");
    CAIRN_RETURN_IF_ERROR(cairn::reader::CheckSize(info));
    absl::ReaderMutexLock lock(&run->mutex);
    if (index >= run->datasets.size()) return cairn::NotFound("there are {} datasets", run->datasets.size());
    cairn::reader::Give(InfoOf(run->datasets[index]), info);
    return absl::OkStatus();
  });
}

int cairn_reader_open_dataset(cairn_reader_run* run, uint64_t dataset, cairn_reader** reader) {
  return Guard([&] { return OpenDataset(run, dataset, nullptr, reader); });
}

int cairn_reader_open_dataset_with(cairn_reader_run* run, uint64_t dataset, const cairn_reader_options* options,
                                   cairn_reader** reader) {
  return Guard([&] { return OpenDataset(run, dataset, options, reader); });
}

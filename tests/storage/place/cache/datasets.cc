#include "tests/storage/place/cache/datasets.h"

#include <algorithm>
#include <span>

#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"

namespace cairn {

RunId TestRun(std::uint8_t number) {
  RunId run;
  run.bytes.fill(std::byte{number});
  return run;
}

std::string TestContent(std::uint64_t seed, std::size_t bytes) {
  std::string content(bytes, '\0');
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (char& c : content) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(state >> 56);
  }
  return content;
}

catalogue::FileEntry TestEntry(const std::string& name, const std::string& prefix_name, const std::string& content) {
  catalogue::FileEntry entry;
  entry.set_name(name);
  entry.set_prefix_name(prefix_name);
  entry.set_bytes(content.size());
  const auto bytes = std::as_bytes(std::span(content));
  for (std::size_t at = 0; at < bytes.size(); at += kCrcBlockBytes) {
    entry.add_crc32c(Crc32c(bytes.subspan(at, std::min<std::size_t>(kCrcBlockBytes, bytes.size() - at))));
  }
  entry.set_crc32(Crc32(bytes));
  entry.set_has_crc32(true);
  return entry;
}

catalogue::Catalogue EmptyCatalogue(const RunId& run, DatasetId id, Rank rank, std::uint32_t nranks) {
  catalogue::Catalogue catalogue;
  catalogue.set_run(run.Hex());
  catalogue.set_launch(1);
  catalogue.set_dataset(id);
  catalogue.set_step(10 * id);
  catalogue.set_rank(rank);
  catalogue.set_nranks(nranks);
  return catalogue;
}

catalogue::Catalogue TestCatalogue(const RunId& run, DatasetId id, Rank rank, std::uint32_t nranks,
                                   const std::string& content) {
  catalogue::Catalogue catalogue = EmptyCatalogue(run, id, rank, nranks);
  const std::string name = CheckpointFileName(id, rank);
  *catalogue.add_file() = TestEntry(name, fmt::format("ckpt.{}/{}", id, name), content);
  return catalogue;
}

scr::Descriptor TestDescriptor(DatasetId id, std::uint32_t nranks) {
  scr::Descriptor descriptor;
  descriptor.id = id;
  descriptor.name = fmt::format("ckpt.{}", id);
  descriptor.created_us = 1'700'000'000'000'000 + static_cast<std::int64_t>(id);
  descriptor.user = "alice";
  descriptor.job_id = "4242";
  descriptor.launch = 1;
  descriptor.step = 10 * id;
  descriptor.ranks = nranks;
  return descriptor;
}

absl::Status WriteTestFile(Disk& disk, const std::string& path, const std::string& content) {
  CAIRN_ASSIGN_OR_RETURN(const auto file, disk.Open(path, {.writable = true, .create = true}));
  if (!content.empty()) CAIRN_RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(content))));
  return file->Sync();
}

}  // namespace cairn

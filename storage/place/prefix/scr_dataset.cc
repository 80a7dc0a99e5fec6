#include "storage/place/prefix/scr_dataset.h"

#include "storage/base/path.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "proto/frame.h"
#include "storage/base/caught.h"
#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/prefix/inside.h"

namespace cairn {
namespace {

constexpr std::size_t kReadersMax = 4;
// So many ranks are taken without their being listed: much memory for a large number in a small file is not.
constexpr std::uint64_t kUnlistedRanksMax = 8192;

// What does not fit is damage, whatever code it came with; the storage's own trouble is not.
absl::Status AsDamage(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return DataLoss("{}", MessageOf(status));
    default:
      return status;
  }
}

absl::Status CheckSummary(SharedRecords& records, DatasetId id) {
  const auto summary = records.ReadScrSummary(id);
  if (!summary.ok()) return AsDamage(summary.status());
  return absl::OkStatus();
}

absl::StatusOr<scr::Descriptor> Completed(scr::Descriptor descriptor, std::uint32_t ranks) {
  if (ranks == 0 || ranks > CAIRN_RANKS_MAX) {
    return DataLoss("rank2file of dataset {}: RANKS {}, 1 to {} are possible", descriptor.id, ranks, CAIRN_RANKS_MAX);
  }
  descriptor.ranks = ranks;
  descriptor.own_files = true;
  descriptor.step = descriptor.checkpoint_id.value_or(descriptor.id);
  return descriptor;
}

// The whole list of a dataset, which must name all of its ranks if they are many, with files or without.
absl::StatusOr<scr::Rank2File> ReadList(Disk& disk, SharedRecords& records, DatasetId id) {
  std::uint64_t named = 0;
  CAIRN_ASSIGN_OR_RETURN(scr::Rank2File listed, ReadRank2File(disk, records.DatasetFolder(id), &named));
  if (listed.ranks <= kUnlistedRanksMax || named >= listed.ranks) return listed;
  return DataLoss("rank2file of dataset {}: RANKS {}, but {} are listed", id, listed.ranks, named);
}

// META of a rank's files, by their base names.
using Metas = std::multimap<std::string, scr::Meta, std::less<>>;

// A scavenge leaves the filemaps; else there are none.
absl::StatusOr<Metas> ReadMetas(Disk& disk, const std::string& folder, Rank rank) {
  Metas metas;
  const std::string path = fmt::format("{}/filemap_{}", folder, rank);
  const auto tree = ReadTree(disk, path);
  if (absl::IsNotFound(tree.status())) return metas;
  if (!tree.ok()) return AsDamage(tree.status());
  auto filemap = scr::GetFilemap(*tree);
  if (!filemap.ok()) return DataLoss("{}: {}", path, MessageOf(filemap.status()));
  for (auto& [cached, meta] : filemap->files) {
    if (!meta.directory.empty() && meta.complete) metas.emplace(meta.name, std::move(meta));
  }
  return metas;
}

// The prefix may have another path now than when the filemap was written.
const scr::Meta* FindMeta(const Metas& metas, const std::string& name) {
  const scr::Meta* found = nullptr;
  const auto [begin, end] = metas.equal_range(BaseOf("/" + name));
  for (auto at = begin; at != end; ++at) {
    if (!(at->second.directory + "/" + at->second.name).ends_with("/" + name)) continue;
    if (found != nullptr) return nullptr;  // two that it could be
    found = &at->second;
  }
  return found;
}

// One file of a rank, as rank2file names it.
absl::StatusOr<FlushedFile> LookAtFile(Inside& inside, const Metas& metas, const std::string& name) {
  FlushedFile file{.name = name, .info = {}, .crc32 = {}};
  CAIRN_ASSIGN_OR_RETURN(file.info, inside.Find(name));
  if (const scr::Meta* meta = FindMeta(metas, name)) {
    if (meta->bytes != file.info.bytes) {
      return DataLoss("{}: {} bytes, its filemap says {}", name, file.info.bytes, meta->bytes);
    }
    file.crc32 = meta->crc32;
  }
  return file;
}

absl::Status CheckSums(const FlushedDataset& dataset) {
  if (!dataset.descriptor.complete) return absl::OkStatus();  // FILES and SIZE come with it
  std::uint64_t files = 0, bytes = 0;
  for (const auto& of_rank : dataset.files) {
    files += of_rank.size();
    for (const FlushedFile& file : of_rank) bytes += file.info.bytes;
  }
  const scr::Descriptor& descriptor = dataset.descriptor;
  if (descriptor.files == 0 && descriptor.bytes == 0) return absl::OkStatus();
  if (files != descriptor.files || bytes != descriptor.bytes) {
    return DataLoss("dataset {}: {} files of {} bytes are there, its descriptor says {} of {}", descriptor.id, files,
                    bytes, descriptor.files, descriptor.bytes);
  }
  return absl::OkStatus();
}

// Each file once, by a few threads; the first error in the order of the files.
absl::Status ChecksumAll(Disk& disk, const std::string& prefix, const FlushedDataset& dataset,
                         std::vector<catalogue::Catalogue>& catalogues) {
  struct Job {
    const FlushedFile* file;
    catalogue::FileEntry* entry;
    absl::Status status;
  };
  std::vector<Job> jobs;
  for (Rank rank = 0; rank < catalogues.size(); ++rank) {
    for (const FlushedFile& file : dataset.files[rank]) {
      catalogue::FileEntry& entry = *catalogues[rank].add_file();
      entry.set_name(file.name);
      entry.set_prefix_name(file.name);
      jobs.push_back({.file = &file, .entry = &entry, .status = absl::OkStatus()});
    }
  }
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size() && !failed; i = next++) {
      Job& job = jobs[i];
      const std::string path = prefix + "/" + job.file->name;
      job.status = Caught([&] { return ChecksumFile(disk, path, job.file->info, /*sync=*/false, job.entry); });
      if (job.status.ok() && job.file->crc32 && *job.file->crc32 != job.entry->crc32()) {
        job.status = DataLoss("{}: CRC32 is {:#x}, its filemap says {:#x}", path, job.entry->crc32(), *job.file->crc32);
      }
      if (!job.status.ok()) failed = true;
    }
  };
  {
    std::vector<std::jthread> readers;
    try {
      for (std::size_t i = 1; i < std::min(kReadersMax, jobs.size()); ++i) readers.emplace_back(work);
    } catch (const std::system_error&) {
      // No more threads are to be had: those that there are do it.
    }
    work();
  }
  for (const Job& job : jobs) {
    if (absl::IsNotFound(job.status) || absl::IsInvalidArgument(job.status)) return AsDamage(job.status);
    CAIRN_RETURN_IF_ERROR(job.status);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<scr::Rank2File> ReadRank2File(Disk& disk, const std::string& folder, std::uint64_t* named) {
  const auto load = [&](const std::string& suffix) -> absl::StatusOr<kvtree::Tree> {
    auto tree = ReadTree(disk, folder + "/rank2file" + suffix);
    if (tree.ok() && named != nullptr && tree->GetUnsigned("LEVEL").value_or(0) == 0) {
      if (const kvtree::Tree* ranks = tree->Find("RANK"); ranks != nullptr) *named += ranks->size();
    }
    return tree;
  };
  auto read = scr::GetRank2File(load);
  if (absl::IsDataLoss(read.status())) return Annotate(read.status(), folder);
  if (!read.ok()) return AsDamage(read.status());
  return read;
}

absl::StatusOr<std::set<std::string>> ListedNames(Disk& disk, const std::string& folder) {
  CAIRN_ASSIGN_OR_RETURN(const scr::Rank2File listed, ReadRank2File(disk, folder));
  std::set<std::string> names;
  for (const auto& [rank, files] : listed.files) {
    for (const std::string& file : files) {
      auto normal = NormalizeFileName("", file);
      if (normal.ok()) names.insert(*std::move(normal));
    }
  }
  return names;
}

absl::StatusOr<scr::Descriptor> DescribeScrDataset(Disk& disk, SharedRecords& records,
                                                   const scr::Descriptor& descriptor) {
  CAIRN_RETURN_IF_ERROR(CheckSummary(records, descriptor.id));
  const std::string path = records.DatasetFolder(descriptor.id) + "/rank2file";
  const auto root = ReadTree(disk, path);
  if (!root.ok()) return AsDamage(root.status());
  const auto ranks = root->GetUnsigned("RANKS");
  if (!ranks.ok()) return DataLoss("{}: {}", path, MessageOf(ranks.status()));
  if (*ranks > kUnlistedRanksMax && *ranks <= CAIRN_RANKS_MAX) {
    CAIRN_RETURN_IF_ERROR(ReadList(disk, records, descriptor.id).status());
  }
  return Completed(descriptor, static_cast<std::uint32_t>(std::min<std::uint64_t>(*ranks, UINT32_MAX)));
}

absl::StatusOr<FlushedDataset> LookAtScrDataset(Disk& disk, const std::string& prefix, SharedRecords& records,
                                                const scr::Descriptor& descriptor) {
  CAIRN_RETURN_IF_ERROR(CheckSummary(records, descriptor.id));
  const std::string folder = records.DatasetFolder(descriptor.id);
  CAIRN_ASSIGN_OR_RETURN(const scr::Rank2File listed, ReadList(disk, records, descriptor.id));
  FlushedDataset dataset;
  CAIRN_ASSIGN_OR_RETURN(dataset.descriptor, Completed(descriptor, listed.ranks));
  dataset.files.resize(listed.ranks);
  Inside inside(disk, prefix);
  std::set<std::string> seen;
  for (const auto& [rank, names] : listed.files) {
    CAIRN_ASSIGN_OR_RETURN(const Metas metas, ReadMetas(disk, folder, rank));
    for (const std::string& name : names) {
      const auto normal = NormalizeFileName(prefix, name);
      if (!normal.ok()) return DataLoss("{}/rank2file: rank {}: {}", folder, rank, MessageOf(normal.status()));
      if (!seen.insert(*normal).second) continue;
      auto file = LookAtFile(inside, metas, *normal);
      if (!file.ok()) return AsDamage(Annotate(file.status(), fmt::format("dataset {}, rank {}", descriptor.id, rank)));
      dataset.files[rank].push_back(*std::move(file));
    }
  }
  CAIRN_RETURN_IF_ERROR(CheckSums(dataset));
  return dataset;
}

absl::StatusOr<std::vector<catalogue::Catalogue>> ReadScrCatalogues(Disk& disk, const std::string& prefix,
                                                                    SharedRecords& records,
                                                                    const scr::Descriptor& descriptor) {
  CAIRN_ASSIGN_OR_RETURN(const FlushedDataset dataset, LookAtScrDataset(disk, prefix, records, descriptor));
  std::vector<catalogue::Catalogue> catalogues(dataset.files.size());
  for (Rank rank = 0; rank < catalogues.size(); ++rank) {
    catalogue::Catalogue& catalogue = catalogues[rank];
    catalogue.set_run(records.identity().run.Hex());
    catalogue.set_launch(0);
    catalogue.set_dataset(descriptor.id);
    catalogue.set_step(*dataset.descriptor.step);
    catalogue.set_rank(rank);
    catalogue.set_nranks(*dataset.descriptor.ranks);
    catalogue.set_files(true);
  }
  CAIRN_RETURN_IF_ERROR(ChecksumAll(disk, prefix, dataset, catalogues));
  for (const catalogue::Catalogue& catalogue : catalogues) {
    if (const absl::Status sound = ValidateCatalogue(catalogue); !sound.ok()) {
      return DataLoss("dataset {}, rank {}: {}", descriptor.id, catalogue.rank(), MessageOf(sound));
    }
  }
  return catalogues;
}

}  // namespace cairn

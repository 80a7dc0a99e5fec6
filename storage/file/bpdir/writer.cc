#include "storage/file/bpdir/writer.h"

#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/bpdir/append.h"
#include "storage/file/bpdir/names.h"
#include "storage/format/bp5/metadata.h"
#include "storage/io/create_once.h"

namespace cairn::bpdir {
namespace {

constexpr std::uint64_t kHeaderBytes = 64, kDataAlignment = 16, kMetadataAlignment = 8;
constexpr std::uint64_t kWholeBytesMax = std::uint64_t{1} << 34;  // of a file that is read to be gone on with

std::uint64_t AlignUp(std::uint64_t bytes, std::uint64_t to) {
  return (bytes + to - 1) / to * to;
}

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string In(const std::string& directory, std::string_view name) {
  return fmt::format("{}/{}", directory, name);
}

// As it is, or empty.
absl::StatusOr<std::unique_ptr<File>> OpenOrMake(Disk& disk, const std::string& path) {
  absl::StatusOr<std::unique_ptr<File>> made = disk.Open(path, {.writable = true, .create = true, .exclusive = true});
  if (made.status().code() != absl::StatusCode::kAlreadyExists) return made;
  return disk.Open(path, {.writable = true});
}

absl::Status CutTo(File& file, std::uint64_t bytes) {
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file.Info());
  return info.bytes > bytes ? file.Truncate(bytes) : absl::OkStatus();
}

class WriterImpl : public Writer {
 public:
  WriterImpl(Disk& disk, std::string path) : disk_(disk), path_(std::move(path)) {}

  absl::Status Make(const bp5::IndexOptions& options);
  absl::Status GoOn(bool take_over);

  std::uint32_t steps() const override { return steps_; }
  absl::StatusOr<std::uint64_t> WriteData(std::uint32_t subfile, std::span<const std::byte> bytes) override;
  absl::Status EndStep(std::span<const bp5::EncodedStep> writers, std::span<const bp5::WriterData> data,
                       std::span<const std::uint32_t> subfiles) override;
  absl::Status Close() override;

 private:
  // One of the metadata files.
  struct Growing {
    std::unique_ptr<File> file;
    std::uint64_t bytes = 0;
  };

  absl::Status OpenMetadataFiles();
  absl::Status Learn(const bp5::Metadata& metadata, std::string_view formats);
  absl::Status CutOff();
  absl::Status CutData(const std::string& name, std::uint32_t subfile);

  absl::Status Ready() const;
  absl::Status Put(std::uint32_t subfile, std::span<const std::byte> bytes);
  absl::StatusOr<File*> DataFile(std::uint32_t subfile);
  absl::Status Commit(const StepBytes& step);

  Disk& disk_;
  const std::string path_;
  Growing index_, metadata_, formats_;
  StepAssembler assembler_;
  std::uint32_t steps_ = 0;
  std::map<std::uint32_t, std::uint64_t> data_ends_;           // where the next data goes
  std::map<std::uint32_t, std::unique_ptr<File>> data_files_;  // written to since the last step
  bool new_names_ = false;                                     // of data files, not durable yet
  absl::Status failed_, index_failed_;
  bool closed_ = false;
};

absl::Status WriterImpl::OpenMetadataFiles() {
  CAIRN_ASSIGN_OR_RETURN(metadata_.file, OpenOrMake(disk_, In(path_, kMetadataName)));
  CAIRN_ASSIGN_OR_RETURN(formats_.file, OpenOrMake(disk_, In(path_, kFormatsName)));
  return absl::OkStatus();
}

absl::Status WriterImpl::Make(const bp5::IndexOptions& options) {
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk_, path_));
  // An empty one is what a maker leaves that died where there are neither links nor RENAME_NOREPLACE.
  if (const auto index = disk_.Info(In(path_, kIndexName)); index.ok() && index->bytes != 0) {
    return AlreadyExists("{}: has an md.idx", path_);
  }
  CAIRN_RETURN_IF_ERROR(OpenMetadataFiles());
  bp5::IndexOptions active = options;
  active.active = true;
  // Complete or not there, and of two makers one gets it; that one may touch the others. Makes their names durable,
  // too.
  CAIRN_RETURN_IF_ERROR(
      CreateFileOnce(disk_, In(path_, kIndexName), bp5::EncodeIndexHeader(active), {.framed = false}));
  CAIRN_ASSIGN_OR_RETURN(index_.file, disk_.Open(In(path_, kIndexName), {.writable = true}));
  index_.bytes = kHeaderBytes;
  return CutOff();
}

absl::Status WriterImpl::GoOn(bool take_over) {
  CAIRN_ASSIGN_OR_RETURN(index_.file, disk_.Open(In(path_, kIndexName), {.writable = true}));
  CAIRN_RETURN_IF_ERROR(OpenMetadataFiles());
  CAIRN_ASSIGN_OR_RETURN(const std::string index, ReadWhole(disk_, In(path_, kIndexName), kWholeBytesMax));
  CAIRN_ASSIGN_OR_RETURN(const std::string formats, ReadWhole(disk_, In(path_, kFormatsName), kWholeBytesMax));
  CAIRN_ASSIGN_OR_RETURN(const std::string steps, ReadWhole(disk_, In(path_, kMetadataName), kWholeBytesMax));
  if (index.size() < kHeaderBytes) return DataLoss("{}: md.idx: {} bytes are no header", path_, index.size());
  bp5::Metadata metadata;
  CAIRN_RETURN_IF_ERROR(Annotate(
      metadata.Extend({.index = BytesOf(index), .formats = BytesOf(formats), .metadata = BytesOf(steps)}), path_));
  if (metadata.header().active && !take_over) {
    return FailedPrecondition("{}: somebody else is writing it, or has not closed it", path_);
  }
  CAIRN_RETURN_IF_ERROR(Learn(metadata, formats));
  new_names_ = true;  // perhaps
  // The next record goes where no other is any more before the bytes change that it speaks of.
  CAIRN_RETURN_IF_ERROR(CutTo(*index_.file, index_.bytes));
  CAIRN_RETURN_IF_ERROR(WriteSynced(*index_.file, bp5::kActiveOffset, "\1"));
  return CutOff();
}

absl::Status WriterImpl::Learn(const bp5::Metadata& metadata, std::string_view formats) {
  steps_ = metadata.steps();
  index_.bytes = kHeaderBytes;
  if (steps_ == 0) return absl::OkStatus();
  const std::uint32_t last = steps_ - 1;
  index_.bytes = metadata.index_end(last);
  metadata_.bytes = AlignUp(metadata.metadata_bytes(), kMetadataAlignment);
  formats_.bytes = metadata.formats_end(last);
  std::set<bp5::FormatId> known;
  // Metadata has checked that these entries are whole.
  for (std::uint64_t at = 0; at < formats_.bytes;) {
    std::uint64_t lengths[2];
    bp5::FormatId id;
    std::memcpy(lengths, formats.data() + at, sizeof(lengths));
    std::memcpy(id.bytes.data(), formats.data() + at + sizeof(lengths), id.bytes.size());
    known.insert(id);
    at += sizeof(lengths) + lengths[0] + lengths[1];
  }
  std::vector<std::uint32_t> subfiles;
  for (std::uint32_t w = 0; w < metadata.writers(last); ++w) subfiles.push_back(metadata.subfile(last, w));
  assembler_ = StepAssembler(metadata_.bytes, std::move(known), std::move(subfiles));
  CAIRN_ASSIGN_OR_RETURN(data_ends_, metadata.SubfileBytes(last));
  return absl::OkStatus();
}

absl::Status WriterImpl::CutOff() {
  CAIRN_RETURN_IF_ERROR(CutTo(*metadata_.file, metadata_.bytes));
  CAIRN_RETURN_IF_ERROR(CutTo(*formats_.file, formats_.bytes));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk_.List(path_));
  for (const std::string& name : names) {
    if (const std::optional<std::uint32_t> subfile = SubfileOf(name)) CAIRN_RETURN_IF_ERROR(CutData(name, *subfile));
  }
  for (auto& [subfile, end] : data_ends_) end = AlignUp(end, kDataAlignment);
  return absl::OkStatus();
}

absl::Status WriterImpl::CutData(const std::string& name, std::uint32_t subfile) {
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk_.Info(In(path_, name)));
  const auto found = data_ends_.find(subfile);
  const std::uint64_t wanted = found == data_ends_.end() ? 0 : found->second;
  if (!info.is_regular() || info.bytes <= wanted) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, disk_.Open(In(path_, name), {.writable = true}));
  return file->Truncate(wanted);
}

absl::Status WriterImpl::Ready() const {
  if (closed_) return FailedPrecondition("{}: closed", path_);
  return failed_;
}

absl::StatusOr<File*> WriterImpl::DataFile(std::uint32_t subfile) {
  std::unique_ptr<File>& file = data_files_[subfile];
  if (file == nullptr) {
    CAIRN_ASSIGN_OR_RETURN(file, OpenOrMake(disk_, In(path_, DataName(subfile))));
    new_names_ = true;  // perhaps
  }
  return file.get();
}

absl::Status WriterImpl::Put(std::uint32_t subfile, std::span<const std::byte> bytes) {
  CAIRN_ASSIGN_OR_RETURN(File* const file, DataFile(subfile));
  std::uint64_t& end = data_ends_[subfile];
  CAIRN_RETURN_IF_ERROR(file->WriteAt(end, bytes));
  end += bytes.size();
  const std::string padding(AlignUp(end, kDataAlignment) - end, '\0');
  if (!padding.empty()) CAIRN_RETURN_IF_ERROR(file->WriteAt(end, BytesOf(padding)));
  end += padding.size();
  return absl::OkStatus();
}

absl::StatusOr<std::uint64_t> WriterImpl::WriteData(std::uint32_t subfile, std::span<const std::byte> bytes) {
  CAIRN_RETURN_IF_ERROR(Ready());
  const std::uint64_t position = data_ends_[subfile];
  if (!bytes.empty()) failed_ = Put(subfile, bytes);
  CAIRN_RETURN_IF_ERROR(failed_);
  return position;
}

absl::Status WriterImpl::EndStep(std::span<const bp5::EncodedStep> writers, std::span<const bp5::WriterData> data,
                                 std::span<const std::uint32_t> subfiles) {
  CAIRN_RETURN_IF_ERROR(Ready());
  if (writers.empty() || data.size() != writers.size() || subfiles.size() != writers.size()) {
    return InvalidArgument("{}: a step of {} writers, {} places of data and {} subfiles", path_, writers.size(),
                           data.size(), subfiles.size());
  }
  for (std::size_t w = 0; w < writers.size(); ++w) {
    if (writers[w].format == nullptr || data[w].flushed.size() != data[0].flushed.size()) {
      return InvalidArgument("{}: writer {} has no record, or not {} flushes", path_, w, data[0].flushed.size());
    }
  }
  failed_ = Commit(assembler_.Append(writers, data, subfiles));
  CAIRN_RETURN_IF_ERROR(failed_);
  ++steps_;
  return absl::OkStatus();
}

absl::Status WriterImpl::Commit(const StepBytes& step) {
  for (const auto& [subfile, file] : data_files_) CAIRN_RETURN_IF_ERROR(file->Sync());
  if (new_names_) CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(path_));
  new_names_ = false;
  data_files_.clear();
  if (!step.formats.empty()) {
    CAIRN_RETURN_IF_ERROR(AppendAtOnce(*formats_.file, formats_.bytes, step.formats, kLengthInFormats));
    formats_.bytes += step.formats.size();
  }
  CAIRN_RETURN_IF_ERROR(WriteSynced(*metadata_.file, metadata_.bytes, step.metadata));
  metadata_.bytes += step.metadata.size();
  index_failed_ = AppendAtOnce(*index_.file, index_.bytes, step.index, kLengthInIndex);
  if (!index_failed_.ok()) {
    index_.file->Truncate(index_.bytes).IgnoreError();  // readers on this node need not see what may be lost
    return index_failed_;
  }
  index_.bytes += step.index.size();
  return absl::OkStatus();
}

absl::Status WriterImpl::Close() {
  if (closed_) return FailedPrecondition("{}: closed", path_);
  closed_ = true;
  CAIRN_RETURN_IF_ERROR(index_failed_);
  if (!failed_.ok()) {
    // What a failed step has left there would be taken for a step that was lost.
    CAIRN_RETURN_IF_ERROR(CutTo(*metadata_.file, metadata_.bytes));
    CAIRN_RETURN_IF_ERROR(metadata_.file->Sync());
  }
  return WriteSynced(*index_.file, bp5::kActiveOffset, std::string_view("\0", 1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Writer>> Writer::Create(Disk& disk, const std::string& path,
                                                       const bp5::IndexOptions& options) {
  auto writer = std::make_unique<WriterImpl>(disk, path);
  CAIRN_RETURN_IF_ERROR(writer->Make(options));
  return writer;
}

absl::StatusOr<std::unique_ptr<Writer>> Writer::Append(Disk& disk, const std::string& path, bool take_over) {
  auto writer = std::make_unique<WriterImpl>(disk, path);
  CAIRN_RETURN_IF_ERROR(writer->GoOn(take_over));
  return writer;
}

}  // namespace cairn::bpdir

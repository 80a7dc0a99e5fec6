#include "storage/file/bpdir/memory_source.h"

#include <algorithm>
#include <utility>

#include "storage/base/status.h"

namespace cairn::bpdir {
namespace {

class MemoryFiles final : public FileSource {
 public:
  MemoryFiles(std::shared_ptr<const MemoryDirectory> directory, std::unique_ptr<FileSource> below)
      : directory_(std::move(directory)), below_(std::move(below)) {}

  absl::StatusOr<std::uint64_t> Bytes(const std::string& name) override {
    if (const std::string* const held = Held(name)) return held->size();
    CAIRN_ASSIGN_OR_RETURN(const std::string place, Place(name));
    return below_->Bytes(place);
  }

  absl::Status Read(const std::string& name, std::uint64_t offset, std::span<std::byte> target) override {
    if (Held(name) != nullptr) {
      CAIRN_ASSIGN_OR_RETURN(const auto bytes, FileSource::Hold(name, offset, target.size()));
      std::copy(bytes.begin(), bytes.end(), target.begin());
      return absl::OkStatus();
    }
    CAIRN_ASSIGN_OR_RETURN(const std::string place, Place(name));
    return below_->Read(place, offset, target);
  }

  absl::StatusOr<std::span<const std::byte>> HoldIf(const std::string& name, std::uint64_t offset, std::uint64_t bytes,
                                                    const PrefixCheck& check) override {
    if (const std::string* const held = Held(name)) {
      if (offset > held->size() || bytes > held->size() - offset) {
        return DataLoss("{}: has {} bytes, not {} from {} on", NameOf(name), held->size(), bytes, offset);
      }
      return std::as_bytes(std::span(*held)).subspan(offset, bytes);
    }
    CAIRN_ASSIGN_OR_RETURN(const std::string place, Place(name));
    return below_->HoldIf(place, offset, bytes, check);
  }

  void Release(std::span<const std::byte> held) override { below_->Release(held); }  // which does not know ours
  absl::Status CheckHeld() override { return below_->CheckHeld(); }

  std::span<const std::byte> InPlace(const std::string& name, std::uint64_t offset, std::uint64_t bytes) override {
    const auto place = Place(name);
    return place.ok() ? below_->InPlace(*place, offset, bytes) : std::span<const std::byte>();
  }

  std::string NameOf(const std::string& name) const override {
    if (name.empty()) return directory_->title;
    const auto data = directory_->data.find(name);
    return data != directory_->data.end() ? below_->NameOf(data->second) : directory_->title + ": " + name;
  }

  std::unique_ptr<FileSource> Anew() const override {
    return std::make_unique<MemoryFiles>(directory_, below_->Anew());
  }

 private:
  const std::string* Held(const std::string& name) const {
    const auto found = directory_->held.find(name);
    return found == directory_->held.end() ? nullptr : &found->second;
  }

  absl::StatusOr<std::string> Place(const std::string& name) const {
    const auto found = directory_->data.find(name);
    if (found == directory_->data.end()) return NotFound("{}: no such file", NameOf(name));
    return found->second;
  }

  const std::shared_ptr<const MemoryDirectory> directory_;
  const std::unique_ptr<FileSource> below_;
};

}  // namespace

std::unique_ptr<FileSource> FilesInMemory(std::shared_ptr<const MemoryDirectory> directory,
                                          std::unique_ptr<FileSource> below) {
  return std::make_unique<MemoryFiles>(std::move(directory), std::move(below));
}

}  // namespace cairn::bpdir

#include "storage/file/bpdir/checked_source.h"

#include <utility>

#include "storage/base/status.h"
#include "storage/file/bpdir/held_bytes.h"

namespace cairn::bpdir {
namespace {

class CheckedFiles final : public FileSource {
 public:
  CheckedFiles(std::unique_ptr<FileSource> below, std::shared_ptr<const KnownSums> sums)
      : below_(std::move(below)), sums_(std::move(sums)) {
    for (const auto& [name, file] : *sums_) blocks_.try_emplace(name, file);
  }

  absl::StatusOr<std::uint64_t> Bytes(const std::string& name) override {
    const auto known = sums_->find(name);
    if (known == sums_->end()) return Unknown(name);
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t bytes, below_->Bytes(name));
    if (bytes == known->second.bytes) return bytes;
    return DataLoss("{}: has {} bytes, its catalogue says {}", NameOf(name), bytes, known->second.bytes);
  }

  absl::Status Read(const std::string& name, std::uint64_t offset, std::span<std::byte> target) override {
    const auto blocks = blocks_.find(name);
    if (blocks == blocks_.end()) return Unknown(name);
    return blocks->second.Read(NameOf(name), offset, target, [&](std::uint64_t at, std::span<std::byte> bytes) {
      return below_->Read(name, at, bytes);
    });
  }

  absl::StatusOr<std::span<const std::byte>> HoldIf(const std::string& name, std::uint64_t offset, std::uint64_t bytes,
                                                    const PrefixCheck& check) override {
    const auto mapped = InPlace(name, offset, bytes);
    if (!mapped.empty()) return mapped;
    return held_.Hold(NameOf(name), bytes, check,
                      [&](std::uint64_t at, std::span<std::byte> target) { return Read(name, offset + at, target); });
  }
  void Release(std::span<const std::byte> held) override { held_.Release(held); }
  absl::Status CheckHeld() override { return below_->CheckHeld(); }

  std::span<const std::byte> InPlace(const std::string& name, std::uint64_t offset, std::uint64_t bytes) override {
    const auto blocks = blocks_.find(name);
    if (blocks == blocks_.end() || bytes == 0) return {};
    const CheckedBlocks::Range range = blocks->second.BlocksOf(offset, bytes);
    const auto whole = below_->InPlace(name, range.begin, range.bytes);
    if (whole.empty() || !blocks->second.Compare(NameOf(name), range.begin, whole).ok()) return {};
    return whole.subspan(offset - range.begin, bytes);
  }

  std::string NameOf(const std::string& name) const override { return below_->NameOf(name); }
  std::unique_ptr<FileSource> Anew() const override { return std::make_unique<CheckedFiles>(below_->Anew(), sums_); }

 private:
  absl::Status Unknown(const std::string& name) const {
    return NotFound("{}: not in the catalogues of its dataset", NameOf(name));
  }

  const std::unique_ptr<FileSource> below_;
  const std::shared_ptr<const KnownSums> sums_;
  std::map<std::string, CheckedBlocks> blocks_;  // of all in `sums_`, to which they refer
  HeldBytes held_;
};

}  // namespace

std::unique_ptr<FileSource> CheckFiles(std::unique_ptr<FileSource> below, std::shared_ptr<const KnownSums> sums) {
  if (sums == nullptr) return below;
  return std::make_unique<CheckedFiles>(std::move(below), std::move(sums));
}

}  // namespace cairn::bpdir

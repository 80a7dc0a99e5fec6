#include "client/reader/view_source.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "storage/base/status.h"

namespace cairn::reader {
namespace {

// What every copy of the source shares.
struct View {
  std::string prefix, folder;
  std::map<std::string, std::string> metadata;  // by name
  std::map<std::string, std::string> links;     // name of a data file to its place below the prefix
};

class ViewSource final : public bpdir::FileSource {
 public:
  ViewSource(std::shared_ptr<const View> view, std::unique_ptr<bpdir::FileSource> prefix)
      : view_(std::move(view)), prefix_(std::move(prefix)) {}

  absl::StatusOr<std::uint64_t> Bytes(const std::string& name) override {
    if (const std::string* bytes = InMemory(name)) return bytes->size();
    CAIRN_ASSIGN_OR_RETURN(const std::string place, Place(name));
    return prefix_->Bytes(place);
  }
  absl::Status Read(const std::string& name, std::uint64_t offset, std::span<std::byte> target) override {
    if (InMemory(name) != nullptr) {
      CAIRN_ASSIGN_OR_RETURN(const auto held, Hold(name, offset, target.size()));
      if (!held.empty()) std::memcpy(target.data(), held.data(), held.size());
      return absl::OkStatus();
    }
    CAIRN_ASSIGN_OR_RETURN(const std::string place, Place(name));
    return prefix_->Read(place, offset, target);
  }
  absl::StatusOr<std::span<const std::byte>> Hold(const std::string& name, std::uint64_t offset,
                                                  std::uint64_t bytes) override {
    if (const std::string* all = InMemory(name)) {
      if (offset > all->size() || bytes > all->size() - offset) {
        return DataLoss("{}: has {} bytes, not {} from {} on", NameOf(name), all->size(), bytes, offset);
      }
      return std::as_bytes(std::span(*all)).subspan(offset, bytes);
    }
    CAIRN_ASSIGN_OR_RETURN(const std::string place, Place(name));
    return prefix_->Hold(place, offset, bytes);
  }
  void Release(std::span<const std::byte>) override {}  // nothing was made to be held
  std::span<const std::byte> InPlace(const std::string& name, std::uint64_t offset, std::uint64_t bytes) override {
    const auto place = Place(name);
    return place.ok() ? prefix_->InPlace(*place, offset, bytes) : std::span<const std::byte>();
  }
  std::string NameOf(const std::string& name) const override {
    return fmt::format("{}/{}/{} (in memory)", view_->prefix, view_->folder, name);
  }
  std::unique_ptr<bpdir::FileSource> Anew() const override {
    return std::make_unique<ViewSource>(view_, prefix_->Anew());
  }

 private:
  const std::string* InMemory(const std::string& name) const {
    const auto found = view_->metadata.find(name);
    return found == view_->metadata.end() ? nullptr : &found->second;
  }
  absl::StatusOr<std::string> Place(const std::string& name) const {
    const auto found = view_->links.find(name);
    if (found == view_->links.end()) return NotFound("{}: no such file", NameOf(name));
    return found->second;
  }

  const std::shared_ptr<const View> view_;
  const std::unique_ptr<bpdir::FileSource> prefix_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<bpdir::FileSource>> SourceOfView(const std::string& prefix, const std::string& folder,
                                                                view::ViewFiles files) {
  auto view = std::make_shared<View>();
  view->prefix = prefix;
  view->folder = folder;
  view->metadata["md.idx"] = std::move(files.index);
  view->metadata["md.0"] = std::move(files.metadata);
  view->metadata["mmd.0"] = std::move(files.formats);
  for (const view::Link& link : files.links) {
    const std::string place = (std::filesystem::path(folder) / link.target).lexically_normal().string();
    if (place.starts_with('/') || place.starts_with("..")) {
      return DataLoss("{}: {} is a link to {}, out of the prefix", prefix, link.name, link.target);
    }
    view->links[link.name] = place;
  }
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<bpdir::FileSource> mapped, bpdir::MapFiles(prefix));
  return std::make_unique<ViewSource>(std::move(view), std::move(mapped));
}

}  // namespace cairn::reader

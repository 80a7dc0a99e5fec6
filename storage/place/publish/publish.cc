#include "storage/place/publish/publish.h"

namespace cairn {
namespace {

class InPrefix final : public PublishRecords {
 public:
  InPrefix(Prefix& prefix, LaunchId committer) : prefix_(prefix), committer_(committer) {}

  const std::string& path() const override { return prefix_.path(); }
  absl::StatusOr<Withdrawn> Withdraw(DatasetId by, const std::set<std::string>& names) override {
    return prefix_.Withdraw(by, names, committer_);
  }
  absl::Status Replace(const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues,
                       Replacement* replacement) override {
    return prefix_.Replace(descriptor, catalogues, committer_, replacement);
  }
  absl::Status StoreCatalogue(const catalogue::Catalogue& catalogue) override {
    return prefix_.StoreCatalogue(catalogue);
  }
  absl::Status Commit(const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues) override {
    return prefix_.Commit(descriptor, catalogues, committer_);
  }
  absl::Status Remove(DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) override {
    return prefix_.Remove(id, catalogues);
  }
  void MakeView(DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) override {
    prefix_.MakeView(id, catalogues);
  }

 private:
  Prefix& prefix_;
  const LaunchId committer_;
};

}  // namespace

absl::Status Publish(Disk& disk, Prefix& prefix, const Publication& what, Published* published) {
  InPrefix records(prefix, what.committer);
  return Publish(disk, records, what, published);
}

void RemoveWithdrawn(Prefix& prefix, const Withdrawn& withdrawn, std::vector<std::string>* warnings) {
  InPrefix records(prefix, /*committer=*/0);  // they were withdrawn
  RemoveWithdrawn(records, withdrawn, warnings);
}

}  // namespace cairn

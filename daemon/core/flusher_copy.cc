// The first step of a flush, the copy: by this node, and by those that have the other parts.
#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/descriptor.h"
#include "daemon/core/flusher.h"
#include "storage/base/status.h"

namespace cairn {

bool Flusher::IsHere(const Dataset& dataset, Rank rank) {
  return dataset.in_cache() && !dataset.parts[rank].elsewhere;
}

void Flusher::Copy(const JobPtr& job) {
  const Dataset& dataset = *job->dataset;
  job->state = Job::State::kCopying;
  job->committer = given_.keeper.committer();
  job->started = context_.now();
  job->progress->bytes_done = 0;
  job->progress->compared = 0;
  job->descriptor = DescriptorOf(dataset, true);
  job->catalogues = CataloguesOf(dataset);
  job->here.clear();
  job->there.clear();
  for (Rank rank = 0; rank < dataset.nranks; ++rank) {
    if (IsHere(dataset, rank)) {
      job->here.push_back(job->catalogues[rank]);
    } else {
      job->there.insert(rank);
    }
  }
  job->progress->queued = true;
  given_.slots.CopyBegins(job->progress, context_.now());
  LookAgain();
  ++job->tries;
  // Of what others have alone they will know what to do, and a daemon after this one would not.
  if (!job->here.empty() && given_.record.Begun(dataset.id)) given_.record.Store();
  if (!job->there.empty()) return CopyOverNodes(job);
  CopyHere(job, [this, job](StepResult result) { CopyEnded(job, std::move(result)); });
}

// What nodes have that have no link to this one is read over the network; what no node has, that is there, in the
// folder that is redundant itself.
absl::Status Flusher::FindElsewhere(Job& job) const {
  const Dataset& dataset = *job.dataset;
  job.elsewhere.clear();
  std::set<Rank> left = job.there;
  for (const NodeId& node : HoldersOf(dataset)) {
    const bool asked = given_.away.HasLink(node);
    const auto member = given_.nodes.Find(node);
    if (!asked && !member && dataset.in_folder()) continue;
    if (!asked && !member) return Unavailable("node {}, which has parts of it, is not there", node.substr(0, 8));
    Elsewhere elsewhere{.disk = asked ? nullptr : given_.nodes.FilesOf(*member),
                        .folder = FolderOnOtherNode(dataset.id),
                        .catalogues = {}};
    for (Rank rank = 0; rank < dataset.parts.size(); ++rank) {
      if (!dataset.parts[rank].elsewhere || dataset.parts[rank].node != node) continue;
      elsewhere.catalogues.push_back(dataset.parts[rank].catalogue);
      left.erase(rank);
    }
    if (!asked) job.elsewhere.push_back(std::move(elsewhere));
  }
  if (left.empty()) return absl::OkStatus();
  if (!dataset.in_folder()) return Unavailable("nobody knows where rank {}'s part is", *left.begin());
  Elsewhere& folder = job.elsewhere.emplace_back();
  folder.disk = std::shared_ptr<Disk>(std::shared_ptr<Disk>(), &given_.tier.disk());
  folder.folder = given_.tier.PathOf(dataset.id);
  folder.redundant = true;
  for (const Rank rank : left) folder.catalogues.push_back(dataset.parts[rank].catalogue);
  return absl::OkStatus();
}

// All nodes at the same time. Who is asked to copy has the dataset announced on the prefix by then, or soon after.
void Flusher::CopyOverNodes(const JobPtr& job) {
  if (const absl::Status found = FindElsewhere(*job); !found.ok()) {
    return context_.loop().Post([this, job, found] {
      StepResult result;
      result.visited.status = found;
      CopyEnded(job, std::move(result));
    });
  }
  struct Both {
    int left = 2;
    StepResult result;
    OrderEnded there;
  };
  const auto both = std::make_shared<Both>();
  const auto ended = [this, job, both] {
    if (--both->left > 0) return;
    if (both->result.visited.status.ok() && !both->there.status.ok()) {
      both->result.visited.status = both->there.status;
      both->result.damaged_there = both->there.damaged_file;
      both->result.in_folder = false;
    }
    const bool look = both->result.visited.status.ok() && job->dataset->kind.files;
    look ? FindBrought(job, std::move(both->result)) : CopyEnded(job, std::move(both->result));
  };
  CopyHere(job, [this, job, both, ended](StepResult result) {
    both->result = std::move(result);
    given_.slots.CopyEnds(job->progress);  // what others still copy is no hang of this node's file system
    ended();
  });
  given_.away.Copy(*job->dataset, job->committer, [both, ended](const OrderEnded& copied) {
    both->there = copied;
    ended();
  });
}

// Where others have put their ranks' files.
void Flusher::FindBrought(const JobPtr& job, StepResult result) {
  std::vector<catalogue::Catalogue> there;
  for (const Rank rank : job->there) there.push_back(job->catalogues[rank]);
  auto find = [this, job, result = std::move(result), there = std::move(there),
               visit = given_.gate.MakeVisitor()]() mutable {
    result.visited = visit([&](Prefix& prefix) {
      auto files = FilesBrought(context_.env.prefix_disk, prefix, there, given_.slots.throttle, *job->progress);
      if (!files.ok()) return files.status();
      std::ranges::move(*files, std::back_inserter(result.outcome.copied));
      return absl::OkStatus();
    });
    return std::move(result);
  };
  RunBlocking(context_.env.pools.flush, given_.gate.path(), context_.loop(), std::move(find),
              [this, job](StepResult found) { CopyEnded(job, std::move(found)); });
}

void Flusher::CopyHere(const JobPtr& job, std::function<void(StepResult)> then) {
  const Dataset& dataset = *job->dataset;
  auto copy = [this, job, folder = given_.folder->DatasetPath(dataset.id), file = given_.flush_file,
               grown = given_.record.Grown(dataset.id), visit = given_.gate.MakeVisitor()] {
    job->progress->queued = false;
    StepResult result;
    result.visited = visit([&](Prefix& prefix) {
      result.outcome = CopyDataset(
          {context_.env.cache_disk, folder, job->descriptor, job->here, grown},
          {.disk = context_.env.prefix_disk, .prefix = prefix, .flush_file = *file, .committer = job->committer},
          given_.slots.throttle, *job->progress);
      for (const Elsewhere& elsewhere : job->elsewhere) {
        if (!result.outcome.status.ok()) break;
        const FlushOutcome part = CopyPart({*elsewhere.disk, elsewhere.folder, job->descriptor, elsewhere.catalogues},
                                           context_.env.prefix_disk, prefix, given_.slots.throttle, *job->progress);
        result.outcome.status = part.status;
        result.damaged_there = part.damaged_file;
        result.in_folder = elsewhere.redundant;
      }
      return result.outcome.status;
    });
    return result;
  };
  const bool from_folder = std::ranges::any_of(job->elsewhere, &Elsewhere::redundant);
  const std::string lane = from_folder ? given_.tier.LaneTo(given_.gate.path()) : given_.gate.path();
  RunBlocking(context_.env.pools.flush, lane, context_.loop(), std::move(copy), std::move(then));
}

void Flusher::CopyEnded(const JobPtr& job, StepResult result) {
  given_.slots.CopyEnds(job->progress);
  result.outcome.status = result.visited.status;
  TakeFindings(*job, result);
  if (!result.outcome.status.ok() && result.in_folder) given_.tier.LookAgain();
  if (absl::IsDataLoss(result.outcome.status) && !result.damaged_there.empty() && result.in_folder) {
    End(*job);
    given_.tier.FoundDamaged(job->dataset, std::string(MessageOf(result.outcome.status)));
  } else if (absl::IsDataLoss(result.outcome.status) && !result.damaged_there.empty()) {
    PartIsBad(job, result.damaged_there, result.outcome.status);
  } else if (!result.outcome.status.ok()) {
    Failed(job, result.outcome);
  } else if (context_.quiescing() || given_.gate.replaced() || job->progress->stop) {
    End(*job);  // the next start goes on with what has arrived
  } else {
    job->state = Job::State::kCopied;
    job->copied = std::move(result.outcome.copied);
  }
  reports_.on_step();
}

}  // namespace cairn

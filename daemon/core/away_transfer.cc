#include "daemon/core/away_transfer.h"

#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr int kLevelsMax = 16;  // of rows in rows; more than the dimensions that an array can have

}  // namespace

peer::Wanted ToMessage(const Wanted& wanted) {
  peer::Wanted message;
  message.set_variable(wanted.variable);
  message.set_id(wanted.id);
  message.set_rank(wanted.rank);
  message.set_bytes(wanted.bytes);
  for (const RowPattern& pattern : wanted.rows) {
    peer::Rows& rows = *message.add_rows();
    rows.set_a_begin(pattern.a_begin);
    rows.set_b_begin(pattern.b_begin);
    rows.set_row(pattern.row);
    for (const RowPattern::Level& level : pattern.levels) {
      rows.add_count(level.count);
      rows.add_a_stride(level.a_stride);
      rows.add_b_stride(level.b_stride);
    }
  }
  return message;
}

absl::StatusOr<Wanted> FromMessage(const peer::Wanted& message) {
  Wanted wanted{.variable = message.variable(), .id = message.id(), .rank = message.rank(), .bytes = message.bytes()};
  for (const peer::Rows& rows : message.rows()) {
    if (rows.count_size() > kLevelsMax || rows.a_stride_size() != rows.count_size() ||
        rows.b_stride_size() != rows.count_size()) {
      return InvalidArgument("wanted.rows.count: {} levels", rows.count_size());
    }
    RowPattern pattern{.a_begin = rows.a_begin(), .b_begin = rows.b_begin(), .row = rows.row(), .levels = {}};
    std::uint64_t all = 1;
    for (int i = 0; i < rows.count_size(); ++i) {
      if (rows.count(i) == 0 || __builtin_mul_overflow(all, rows.count(i), &all)) {
        return InvalidArgument("wanted.rows.count: no number of rows");
      }
      pattern.levels.push_back({.count = rows.count(i), .a_stride = rows.a_stride(i), .b_stride = rows.b_stride(i)});
    }
    wanted.rows.push_back(std::move(pattern));
  }
  return wanted;
}

Away::Moved AwayTransfer::Ender() {
  return [self = shared_from_this()](const absl::Status& status, std::size_t copy, bool delivered) {
    const bool not_known = copy == SIZE_MAX && !status.ok();  // the link is lost, or the process is
    if (!not_known) self->delivered_ = delivered;
    if (const Then then = std::exchange(self->then_, nullptr)) then(status, copy);
  };
}

void AwayTransfer::Find(ChosenCopies copies, std::vector<Wanted> wanted, bool own_file, Then then) {
  copies_ = std::move(copies);
  then_ = std::move(then);
  peer::Find step;
  step.set_dataset(dataset_->id);
  step.set_own_file(own_file);
  for (std::size_t i = 0; i < copies_.ranks.size(); ++i) {
    peer::Source& source = *step.add_sources();
    source.set_rank(copies_.ranks[i]);
    source.set_tier(static_cast<local::Tier>(copies_.tiers[i]));
    source.set_node(copies_.nodes[i]);
    *source.mutable_file() = dataset_->parts[copies_.ranks[i]].catalogue.file(0);
  }
  for (const Wanted& one : wanted) *step.add_wanted() = ToMessage(one);
  *step.mutable_variables() = variables_;
  away_.Find(*call_->connection(), call_->number(), std::move(step), Ender());
}

// Until its daemon says otherwise, part of it may be in the application's memory.
void AwayTransfer::Start(Then then) {
  then_ = std::move(then);
  delivered_ = true;
  away_.Start(*call_->connection(), call_->number(), Ender());
}

absl::Status AwayTransfer::Copied(const local::Copied&) {
  return InvalidArgument("what a rank has copied is its own daemon's to hear");
}

void AwayTransfer::Abort() {
  then_ = nullptr;
  away_.Abandon(*call_->connection(), call_->number());
}

}  // namespace cairn

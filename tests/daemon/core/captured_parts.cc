#include "tests/daemon/core/captured_parts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "daemon/data/image.h"
#include "daemon/data/plan.h"
#include "storage/base/sealed_memory.h"
#include "storage/format/ftiff/layout.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr std::uint64_t kBytes = 3'000'000, kSmall = 24;

std::vector<ftiff::VariableSize> Sizes() {
  return {{.id = 1, .bytes = kBytes}, {.id = 2, .bytes = kSmall}};
}

}  // namespace

CapturedPart CapturedPartOf(const RunId& run, DatasetId dataset, Rank rank, std::uint32_t nranks) {
  CapturedPart part;
  catalogue::Catalogue& catalogue = part.catalogue;
  catalogue.set_run(run.Hex());
  catalogue.set_launch(2);
  catalogue.set_dataset(dataset);
  catalogue.set_step(50);
  catalogue.set_rank(rank);
  catalogue.set_nranks(nranks);
  for (const ftiff::VariableSize& size : Sizes()) {
    local::Variable& variable = *catalogue.add_variables();
    variable.set_id(size.id);
    variable.set_type(1);
    variable.set_count(size.bytes);
    variable.set_bytes(size.bytes);
  }
  part.name = "ckpt." + std::to_string(dataset);
  part.user = "alice";
  part.job = "run";
  part.mark = "m";
  part.created_us = 1'700'000'000'000'000;
  part.layout = *ftiff::PlanFresh(Sizes(), ftiff::Packing::kAligned);
  return part;
}

std::string CapturedBytes(Rank rank, std::uint64_t bytes) {
  std::string data(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 31 + i / 251 + rank);
  return data;
}

UniqueFd CapturedImage(const CapturedPart& part) {
  auto memory = MakeSealedMemory("test", 2 * Image::kAlignment);
  EXPECT_OK(memory.status());
  const std::string old(2 * Image::kAlignment, '\x5a');
  EXPECT_EQ(::pwrite(memory->get(), old.data(), old.size(), 0), static_cast<ssize_t>(old.size()));
  const Rank rank = part.catalogue.rank();
  const std::string data[] = {CapturedBytes(rank, kBytes), CapturedBytes(rank, kSmall)};
  const auto plan = MakePlan(part.layout, Sizes(), old.size());
  EXPECT_OK(plan.status());
  for (const PlanPiece& piece : *plan) {
    EXPECT_EQ(::pwrite(memory->get(), data[piece.variable].data() + piece.variable_offset, piece.bytes,
                       static_cast<off_t>(piece.image_offset)),
              static_cast<ssize_t>(piece.bytes));
  }
  return *std::move(memory);
}

void LeaveCaptured(LastingDeposits& deposits, const CapturedPart& part, bool sealed) {
  UniqueFd image = CapturedImage(part);
  const SealedMemory memory = *LookAtMemory(image.get());
  auto label = MakeSealedMemory("test", kLabelBytes);
  ASSERT_OK(label.status());
  ImageLabel writer(UniqueFd(::dup(label->get())));
  ASSERT_OK(writer.Write(part, memory));
  if (sealed) writer.Seal();
  deposits.Hold(std::move(image));
  deposits.Hold(*std::move(label));
}

}  // namespace cairn

#include "tests/storage/file/fti/sample_export.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/status_matchers.h"

namespace cairn::testing {

std::byte SampleExport::ByteOf(std::size_t index, std::int32_t id, std::uint64_t offset) {
  return static_cast<std::byte>(31 * index + 7 * static_cast<std::uint64_t>(id) + offset * 11 + (offset >> 8) * 13);
}

SampleExport::SampleExport(const fti::Topology& topology, fti::Level level, ftiff::Letter letter, std::int32_t id) {
  what.topology = topology;
  what.level = level;
  what.letter = letter;
  what.id = id;
  std::size_t index = 0;
  for (std::uint32_t rank = 0; rank < topology.ranks; ++rank) {
    if (!topology.writes(rank)) continue;
    const std::array<ftiff::VariableSize, 2> variables = {
        {{.id = 1, .bytes = 1001 + 77 * index}, {.id = 40, .bytes = 501 * (index % 3)}}};
    absl::StatusOr<ftiff::FileLayout> layout = ftiff::PlanFresh(variables, ftiff::Packing::kExact);
    EXPECT_OK(layout);
    what.ranks.push_back({.layout = *std::move(layout),
                          .read = [index](std::int32_t variable, std::uint64_t offset, std::span<std::byte> target) {
                            for (std::size_t i = 0; i < target.size(); ++i) {
                              target[i] = ByteOf(index, variable, offset + i);
                            }
                            return absl::OkStatus();
                          }});
    ++index;
  }
}

}  // namespace cairn::testing

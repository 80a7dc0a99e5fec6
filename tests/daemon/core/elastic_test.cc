// Boxes put together from the boxes of other decompositions, byte by byte against brute force: from Match over
// FindPieces to the plan, through files whose containers cut rows anywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "daemon/core/assembly.h"
#include "daemon/core/restore_plan.h"
#include "daemon/core/rows.h"
#include "daemon/data/restore_plan.h"
#include "storage/base/checksum.h"
#include "storage/format/ftiff/codec.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using Random = std::mt19937_64;

std::uint64_t Seed() {
  const char* given = std::getenv("CAIRN_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

std::uint64_t Below(Random& random, std::uint64_t bound) {
  return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random);
}

// Cuts [0, extent) into `parts` uneven ones, some perhaps empty.
std::vector<std::uint64_t> Cuts(Random& random, std::uint64_t extent, std::size_t parts) {
  std::vector<std::uint64_t> cuts = {0, extent};
  while (cuts.size() < parts + 1) cuts.push_back(Below(random, extent + 1));
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

// One box per rank: a grid of uneven cuts, each box grown by `ghosts` where there is room.
std::vector<Box> Decompose(Random& random, const Extents& shape, std::uint64_t ghosts) {
  std::vector<Box> boxes = {{.start = {}, .count = {}}};
  for (const std::uint64_t extent : shape) {
    const std::vector<std::uint64_t> cuts = Cuts(random, extent, 1 + Below(random, 3));
    std::vector<Box> next;
    for (const Box& box : boxes) {
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        const std::uint64_t low = cuts[i] - std::min(cuts[i], ghosts);
        const std::uint64_t high = std::min(cuts[i + 1] + ghosts, extent);
        Box wider = box;
        wider.start.push_back(low);
        wider.count.push_back(high - low);
        next.push_back(std::move(wider));
      }
    }
    boxes = std::move(next);
  }
  std::shuffle(boxes.begin(), boxes.end(), random);
  return boxes;
}

// Calls visit(place in the packed box, place in the packed shape) for each element.
template <typename Visit>
void ForEachElement(const Box& box, const Extents& shape, Visit visit) {
  const std::uint64_t elements = Elements(box.count).value_or(0);
  for (std::uint64_t i = 0; i < elements; ++i) {
    std::uint64_t rest = i, place = 0, stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      place += (box.start[d] + rest % box.count[d]) * stride;
      rest /= box.count[d];
      stride *= shape[d];
    }
    visit(i, place);
  }
}

// --- Assemble ---

TEST(AssembleTest, EveryElementComesOnceFromTheHighestRankThatHasIt) {
  const std::uint64_t seed = Seed();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  Random random(seed);
  for (int round = 0; round < 400; ++round) {
    Extents shape(1 + Below(random, 4));
    for (std::uint64_t& extent : shape) extent = 1 + Below(random, 9);
    std::vector<Box> boxes = Decompose(random, shape, Below(random, 3));
    if (Below(random, 3) == 0) boxes.resize(1 + Below(random, boxes.size()));  // holes
    std::vector<StoredBox> stored;
    const std::uint64_t all = *Elements(shape);
    std::vector<std::int64_t> owner(all, -1);
    for (Rank rank = 0; rank < boxes.size(); ++rank) {
      stored.push_back({rank, boxes[rank]});
      ForEachElement(boxes[rank], shape, [&](std::uint64_t, std::uint64_t at) { owner[at] = rank; });
    }
    const Box wanted = Decompose(random, shape, Below(random, 2)).front();
    ASSERT_OK_AND_ASSIGN(const Assembly assembly, Assemble(wanted, stored, 1 << 20));
    std::map<std::uint64_t, Rank> found;
    for (const Share& share : assembly.shares) {
      for (const Box& part : share.parts) {
        EXPECT_TRUE(Inside(part, share.from.box) && Inside(part, wanted));
        ForEachElement(part, shape, [&](std::uint64_t, std::uint64_t at) {
          EXPECT_TRUE(found.emplace(at, share.from.rank).second) << "twice";
        });
      }
    }
    std::optional<std::uint64_t> hole;
    ForEachElement(wanted, shape, [&](std::uint64_t, std::uint64_t at) {
      if (owner[at] < 0) {
        if (!hole) hole = at;
        EXPECT_FALSE(found.contains(at));
      } else {
        ASSERT_TRUE(found.contains(at));
        EXPECT_EQ(found[at], owner[at]);
      }
    });
    ASSERT_EQ(assembly.hole.has_value(), hole.has_value());
    if (!hole) continue;
    std::uint64_t first = 0;
    const Box corner{.start = assembly.hole->start, .count = Extents(shape.size(), 1)};
    ForEachElement(corner, shape, [&](std::uint64_t, std::uint64_t at) { first = at; });
    EXPECT_EQ(first, *hole);
  }
}

TEST(AssembleTest, BoxesThatDoNotOverlapAreNotCut) {
  Random random(7);
  for (int round = 0; round < 100; ++round) {
    const Extents shape = {9, 8, 7};
    std::vector<StoredBox> stored;
    for (const Box& box : Decompose(random, shape, 0)) {
      if (!Empty(box)) stored.push_back({static_cast<Rank>(stored.size()), box});
    }
    ASSERT_OK_AND_ASSIGN(const Assembly assembly, Assemble({.start = {0, 0, 0}, .count = shape}, stored, 1 << 20));
    EXPECT_EQ(assembly.shares.size(), stored.size());
    for (const Share& share : assembly.shares) EXPECT_EQ(share.parts.size(), 1u);
  }
}

TEST(AssembleTest, WorkIsBounded) {
  // Lines across a plane, every second one: each cuts what is left into ever more boxes.
  std::vector<StoredBox> stored;
  constexpr std::uint64_t kLines = 100;
  for (std::uint64_t i = 0; i < kLines; ++i) {
    stored.push_back({static_cast<Rank>(stored.size()), {.start = {2 * i, 0}, .count = {1, 2 * kLines}}});
    stored.push_back({static_cast<Rank>(stored.size()), {.start = {0, 2 * i}, .count = {2 * kLines, 1}}});
  }
  const Box all{.start = {0, 0}, .count = {2 * kLines, 2 * kLines}};
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, Assemble(all, stored, 10000), "too many ways");
  ASSERT_OK_AND_ASSIGN(const Assembly assembly, Assemble(all, stored, 1u << 30));
  EXPECT_GT(assembly.work, 10000);
  EXPECT_OK(Assemble(all, stored, assembly.work));
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, Assemble(all, stored, assembly.work - 1), "too many ways");
}

TEST(CheckPieceTest, RowsLieInTheFileAndDoNotOverlap) {
  const RestoreSource source{.path = "/f", .kept = nullptr, .file_bytes = 1000, .crc32c = {}};
  const auto check = [&](std::uint64_t offset, std::uint64_t bytes, std::uint64_t rows, std::uint64_t stride) {
    return CheckPiece({&source, 1}, {.variable = 0,
                                     .variable_offset = 0,
                                     .source = 0,
                                     .file_offset = offset,
                                     .bytes = bytes,
                                     .rows = rows,
                                     .variable_stride = bytes,
                                     .file_stride = stride});
  };
  EXPECT_OK(check(0, 10, 100, 10));
  EXPECT_OK(check(900, 10, 10, 10));
  EXPECT_OK(check(990, 10, 1, 0));
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, check(901, 10, 10, 10), "beyond");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, check(0, 10, 10, 111), "beyond");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, check(0, 10, 0, 10), "0 rows");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, check(0, 10, 2, 9), "9 apart");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, check(0, 10, ~0ull, 10), "beyond");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, check(0, 10, 3, std::uint64_t{1} << 63), "beyond");
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, check(~0ull, 10, 1, 0), "beyond");
}

// --- From the files to the variable ---

std::uint64_t RowsOf(const std::vector<RestorePiece>& pieces) {
  std::uint64_t rows = 0;
  for (const RestorePiece& piece : pieces) rows += piece.rows;
  return rows;
}

class ElasticTest : public ::testing::Test {
 protected:
  struct Problem {
    Extents shape;
    std::uint32_t type = 1;
    std::uint64_t element = 1;
    std::string global;  // what the highest ranks have stored
    std::vector<bool> stored;
  };

  static local::Variable VariableOf(const Problem& problem, const Box& box) {
    local::Variable variable;
    variable.set_id(3);
    variable.set_kind(local::ARRAY);
    variable.set_type(problem.type);
    variable.set_name("u");
    variable.set_count(*Elements(box.count));
    variable.set_bytes(variable.count() * problem.element);
    variable.mutable_shape()->Assign(problem.shape.begin(), problem.shape.end());
    variable.mutable_box_start()->Assign(box.start.begin(), box.start.end());
    variable.mutable_box_count()->Assign(box.count.begin(), box.count.end());
    return variable;
  }

  // Stores rank's box with bytes of its own and notes them in `global`.
  void Store(Problem& problem, Rank rank, const Box& box, ftiff::Packing packing, Random& random) {
    const local::Variable variable = VariableOf(problem, box);
    std::string bytes(variable.bytes(), 0);
    for (char& byte : bytes) byte = static_cast<char>(Below(random, 256));
    ForEachElement(box, problem.shape, [&](std::uint64_t i, std::uint64_t at) {
      problem.global.replace(at * problem.element, problem.element, bytes, i * problem.element, problem.element);
      problem.stored[at] = true;
    });
    const std::vector<ftiff::VariableSize> sizes = {{1, 100 + rank}, {3, bytes.size()}};
    ASSERT_OK_AND_ASSIGN(const ftiff::FileLayout layout, ftiff::PlanFresh(sizes, packing));
    std::string file(layout.data_bytes, 0);
    std::vector<Md5Digest> hashes;
    for (const ftiff::Container& container : layout.containers) {
      if (container.id == 3) {
        file.replace(container.file_offset, container.chunk_bytes, bytes, container.variable_offset,
                     container.chunk_bytes);
      }
      hashes.push_back(Md5(std::as_bytes(std::span(file).subspan(container.file_offset, container.chunk_bytes))));
    }
    const std::vector<std::byte> metadata = ftiff::EncodeMetadata(layout, hashes, {.checkpoint_id = 5});
    file.append(reinterpret_cast<const char*>(metadata.data()), metadata.size());
    const std::string path = "/rank" + std::to_string(rank);
    ASSERT_OK_AND_ASSIGN(auto handle, disk_.Open(path, {.writable = true, .create = true}));
    ASSERT_OK(handle->Truncate(0));
    ASSERT_OK(handle->WriteAt(0, std::as_bytes(std::span(file))));
    RestoreSource source{.path = path, .kept = nullptr, .file_bytes = file.size(), .crc32c = {}};
    for (std::size_t at = 0; at < file.size(); at += kCrcBlockBytes) {
      source.crc32c.push_back(
          Crc32c(std::as_bytes(std::span(file)).subspan(at, std::min<std::size_t>(kCrcBlockBytes, file.size() - at))));
    }
    files_.push_back(std::move(file));
    sources_.push_back(std::move(source));
    *dataset_.parts[rank].catalogue.add_variables() = variable;
  }

  // What a client that follows the plan has in the end; 0x55 where nothing came.
  std::string Follow(const std::vector<Wanted>& wanted, std::uint64_t bytes) {
    std::vector<RestoreSource> sources;
    std::vector<Rank> ranks;
    for (const Wanted& one : wanted) {
      if (one.bytes == 0) continue;
      sources.push_back(sources_[one.rank]);
      ranks.push_back(one.rank);
    }
    std::size_t bad = 0;
    auto pieces = FindPieces(disk_, sources, ranks, wanted, &bad);
    EXPECT_OK(pieces);
    if (!pieces.ok()) return {};
    const RestorePlan plan = PlanRestore(sources, *pieces, 1 << 20);
    std::string variable(bytes, 0x55);
    std::vector<bool> seen(bytes);
    std::size_t next = 0;
    for (const RestoreBlock& block : plan.blocks) {
      const std::string& file = files_[ranks[block.source]];
      for (; next < block.pieces_end; ++next) {
        const PlanPiece& piece = plan.pieces[next];
        for (std::uint64_t row = 0; row < piece.rows; ++row) {
          const std::uint64_t at = piece.image_offset + row * piece.file_stride - block.slot * kWindowBytes;
          EXPECT_LE(at + piece.bytes, block.bytes);
          const std::uint64_t to = piece.variable_offset + row * piece.variable_stride;
          EXPECT_LE(to + piece.bytes, bytes);
          for (std::uint64_t i = 0; i < piece.bytes; ++i) {
            EXPECT_FALSE(seen[to + i]) << "twice";
            seen[to + i] = true;
            variable[to + i] = file[block.index * kWindowBytes + at + i];
          }
        }
      }
    }
    EXPECT_EQ(next, plan.pieces.size());
    return variable;
  }

  static std::string Expected(const Problem& problem, const Box& box) {
    std::string bytes(*Elements(box.count) * problem.element, 0x55);
    ForEachElement(box, problem.shape, [&](std::uint64_t i, std::uint64_t at) {
      if (!problem.stored[at]) return;
      bytes.replace(i * problem.element, problem.element, problem.global, at * problem.element, problem.element);
    });
    return bytes;
  }

  Problem Make(const Extents& shape, std::uint32_t type) {
    Problem problem{.shape = shape, .type = type, .element = ElementBytes(type), .global = {}, .stored = {}};
    problem.global.resize(*Elements(shape) * problem.element);
    problem.stored.resize(*Elements(shape));
    files_.clear();
    sources_.clear();
    dataset_ = Dataset();
    dataset_.id = 5;
    return problem;
  }

  void StoreAll(Problem& problem, const std::vector<Box>& boxes, ftiff::Packing packing, Random& random) {
    dataset_.nranks = static_cast<std::uint32_t>(boxes.size());
    dataset_.parts.resize(boxes.size());
    for (Rank rank = 0; rank < boxes.size(); ++rank) Store(problem, rank, boxes[rank], packing, random);
  }

  FakeDisk disk_;
  Dataset dataset_;
  std::vector<std::string> files_;  // by rank, as the sources
  std::vector<RestoreSource> sources_;
};

TEST_F(ElasticTest, AnyDecompositionComesBackInAnyOther) {
  const std::uint64_t seed = Seed();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  Random random(seed);
  constexpr std::uint32_t kTypes[] = {5, 6, 9, 10, 13};  // of 1, 2, 4, 8 and 16 bytes
  for (int round = 0; round < 120; ++round) {
    Extents shape(1 + Below(random, 4));
    for (std::uint64_t& extent : shape) extent = 1 + Below(random, shape.size() == 1 ? 3000 : 36 / shape.size());
    Problem problem = Make(shape, kTypes[Below(random, std::size(kTypes))]);
    std::vector<Box> stored = Decompose(random, shape, Below(random, 3));
    const bool holes = Below(random, 3) == 0;
    if (holes) stored.resize(1 + Below(random, stored.size()));
    StoreAll(problem, stored, Below(random, 2) == 0 ? ftiff::Packing::kExact : ftiff::Packing::kAligned, random);
    const std::vector<Box> wanted = Decompose(random, shape, Below(random, 3));
    const auto nranks = static_cast<std::uint32_t>(wanted.size());
    for (Rank rank = 0; rank < nranks; ++rank) {
      if (nranks == stored.size() && wanted[rank] == stored[rank]) continue;  // its own, whatever others have
      local::Variable asked = VariableOf(problem, wanted[rank]);
      const std::string expected = Expected(problem, wanted[rank]);
      bool missing = false;
      ForEachElement(wanted[rank], shape,
                     [&](std::uint64_t, std::uint64_t at) { missing = missing || !problem.stored[at]; });
      VariableList list;
      *list.Add() = asked;
      if (missing) {
        EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Match(dataset_, rank, nranks, list).status(), "no rank");
        list.Mutable(0)->set_holes(true);
      }
      ASSERT_OK_AND_ASSIGN(const std::vector<Wanted> match, Match(dataset_, rank, nranks, list));
      ASSERT_TRUE(Follow(match, asked.bytes()) == expected) << "round " << round << ", rank " << rank;
    }
  }
}

TEST_F(ElasticTest, RowsOfColumnsAreFewPiecesHoweverManyTheyAre) {
  // 6 MiB of doubles in rows of 512; a narrow strip of columns: 1536 rows, one piece per MiB of the file, and per
  // container.
  Random random(3);
  Problem problem = Make({1536, 512}, 10);
  StoreAll(problem, {{.start = {0, 0}, .count = {1536, 512}}}, ftiff::Packing::kAligned, random);
  const Box strip{.start = {0, 100}, .count = {1536, 3}};
  VariableList list;
  *list.Add() = VariableOf(problem, strip);
  ASSERT_OK_AND_ASSIGN(const std::vector<Wanted> match, Match(dataset_, 1, 2, list));
  EXPECT_TRUE(Follow(match, 1536 * 24) == Expected(problem, strip));
  std::size_t bad = 0;
  ASSERT_OK_AND_ASSIGN(const std::vector<RestorePiece> pieces, FindPieces(disk_, {sources_[0]}, {0}, match, &bad));
  EXPECT_EQ(RowsOf(pieces), 1536u);
  EXPECT_LE(PlanRestore({&sources_[0], 1}, pieces, 0).pieces.size(), 12u);
}

TEST_F(ElasticTest, RowsAreCutWhereContainersAndBlocksEnd) {
  Random random(6);
  Problem problem = Make({3, 401, 701}, 10);  // 6.4 MiB, nothing in it is aligned
  StoreAll(problem, {{.start = {0, 0, 0}, .count = {3, 200, 701}}, {.start = {0, 200, 0}, .count = {3, 201, 701}}},
           ftiff::Packing::kAligned, random);
  const Box boxes[] = {{.start = {0, 0, 350}, .count = {3, 401, 351}},
                       {.start = {1, 17, 0}, .count = {2, 380, 701}},
                       {.start = {0, 3, 1}, .count = {3, 397, 699}}};
  for (const Box& box : boxes) {
    VariableList list;
    *list.Add() = VariableOf(problem, box);
    ASSERT_OK_AND_ASSIGN(const std::vector<Wanted> match, Match(dataset_, 0, 3, list));
    const std::string expected = Expected(problem, box);
    EXPECT_TRUE(Follow(match, list[0].bytes()) == expected);
  }
}

TEST_F(ElasticTest, InFourDimensionsTheLevelWithMostRowsGoesTogether) {
  Random random(4);
  Problem problem = Make({3, 40, 2, 30}, 10);
  const Extents shape = problem.shape;
  StoreAll(problem, {{.start = {0, 0, 0, 0}, .count = shape}}, ftiff::Packing::kAligned, random);
  const Box box{.start = {0, 1, 0, 7}, .count = {3, 38, 2, 5}};
  VariableList list;
  *list.Add() = VariableOf(problem, box);
  ASSERT_OK_AND_ASSIGN(const std::vector<Wanted> match, Match(dataset_, 1, 2, list));
  EXPECT_TRUE(Follow(match, list[0].bytes()) == Expected(problem, box));
  std::size_t bad = 0;
  ASSERT_OK_AND_ASSIGN(const std::vector<RestorePiece> pieces, FindPieces(disk_, {sources_[0]}, {0}, match, &bad));
  EXPECT_EQ(RowsOf(pieces), 3u * 38 * 2);
  EXPECT_LE(pieces.size(), 6u);
}

TEST_F(ElasticTest, ContainersThatLeaveGapsAreDamage) {
  Random random(5);
  Problem problem = Make({1000}, 5);
  StoreAll(problem, {{.start = {0}, .count = {1000}}}, ftiff::Packing::kAligned, random);
  // The metadata says that the container holds other bytes of the variable than the catalogue.
  ASSERT_OK_AND_ASSIGN(ftiff::FileMetadata metadata, ReadMetadata(disk_, sources_[0]));
  VariableList list;
  *list.Add() = VariableOf(problem, {.start = {10}, .count = {20}});
  ASSERT_OK_AND_ASSIGN(std::vector<Wanted> match, Match(dataset_, 1, 2, list));
  match[0].bytes = 1001;
  std::size_t bad = 7;
  EXPECT_STATUS(absl::StatusCode::kDataLoss, FindPieces(disk_, {sources_[0]}, {0}, match, &bad), "1000 of 1001");
  EXPECT_EQ(bad, 0u);
}

}  // namespace
}  // namespace cairn

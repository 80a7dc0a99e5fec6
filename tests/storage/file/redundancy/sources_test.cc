// Sets whose members lend their bytes and hear what is expected: the result is that of members that only read.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/redundancy/payload.h"
#include "tests/support/status_matchers.h"

namespace cairn::redundancy {
namespace {

using scr::Scheme;

// A file in pieces: it lends up to the end of a piece, and spoils with the next call what it lent before.
class Pieces {
 public:
  Pieces(std::string bytes, std::size_t piece) : bytes_(std::move(bytes)), piece_(piece) {}

  Source AsSource() {
    Source source = [this](std::uint64_t offset, std::span<std::byte> target) { return Copy(offset, target); };
    source.lend = [this](std::uint64_t offset, std::uint64_t bytes_max) -> absl::StatusOr<std::span<const std::byte>> {
      std::ranges::fill(lent_, std::byte{0xee});
      lent_ = std::vector<std::byte>(std::min<std::size_t>(bytes_max, piece_ - offset % piece_));
      if (offset + lent_.size() > bytes_.size()) lent_.resize(bytes_.size() - offset);
      CAIRN_RETURN_IF_ERROR(Copy(offset, lent_));
      return lent_;
    };
    source.expect = [this](std::uint64_t offset, std::uint64_t bytes) {
      EXPECT_GT(bytes, 0u);
      EXPECT_LE(offset + bytes, bytes_.size());
      expected_.emplace_back(offset, offset + bytes);
    };
    return source;
  }

 private:
  absl::Status Copy(std::uint64_t offset, std::span<std::byte> target) {
    EXPECT_LE(offset + target.size(), bytes_.size());
    const bool expected = std::ranges::any_of(
        expected_, [&](const auto& range) { return range.first <= offset && offset + target.size() <= range.second; });
    EXPECT_TRUE(expected) << target.size() << " bytes at " << offset;
    std::ranges::copy(std::as_bytes(std::span(bytes_)).subspan(offset, target.size()), target.begin());
    return absl::OkStatus();
  }

  const std::string bytes_;
  const std::size_t piece_;
  std::vector<std::byte> lent_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> expected_;
};

std::string RandomBytes(std::uint64_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string made;
  for (std::uint64_t i = 0; i < bytes; ++i) made += static_cast<char>(random());
  return made;
}

ReadAt Reader(const std::string& bytes) {
  return [&bytes](std::uint64_t offset, std::span<std::byte> target) {
    std::ranges::copy(std::as_bytes(std::span(bytes)).subspan(offset, target.size()), target.begin());
    return absl::OkStatus();
  };
}

class SourcesTest : public ::testing::TestWithParam<std::pair<Scheme, std::uint32_t>> {
 protected:
  // Members of so many bytes, with payloads; those only read.
  Set Make(const std::vector<std::uint64_t>& sizes) {
    const auto [scheme, k] = GetParam();
    Set set{.scheme = scheme, .replicas = k, .checksums = k, .chunk_bytes = 0, .members = {}};
    for (const std::uint64_t bytes : sizes) data_.push_back(RandomBytes(bytes, data_.size()));
    if (scheme != Scheme::kPartner) {
      const std::uint64_t parts = sizes.size() - k;
      set.chunk_bytes = (std::ranges::max(sizes) + parts - 1) / parts;
    }
    for (const std::string& data : data_) {
      set.members.push_back({.bytes = data.size(), .data = Reader(data), .payload = {}});
    }
    payloads_.resize(sizes.size());
    for (std::uint32_t member = 0; member < sizes.size(); ++member) payloads_[member] = PayloadOf(set, member);
    return set;
  }

  // Made alone, so in order.
  static std::string PayloadOf(const Set& set, std::uint32_t member) {
    std::string payload;
    const WriteAt append = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
      EXPECT_EQ(offset, payload.size());
      payload.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return absl::OkStatus();
    };
    EXPECT_OK(Rebuild(set, {{member, {.data = {}, .payload = append}}}));
    EXPECT_EQ(payload.size(), PayloadBytes(set, member));
    return payload;
  }

  std::vector<std::string> data_, payloads_;
};

TEST_P(SourcesTest, APayloadThatAloneIsWantedComesInOrder) {
  const Set set = Make({300'000, 299'999, 0, 70'001, 5, 280'000});
  std::map<std::uint32_t, Targets> all;
  std::vector<std::string> together(set.members.size());
  for (std::uint32_t member = 0; member < set.members.size(); ++member) {
    together[member].resize(PayloadBytes(set, member));
    all[member].payload = [&to = together[member]](std::uint64_t offset, std::span<const std::byte> bytes) {
      std::ranges::copy(bytes, std::as_writable_bytes(std::span(to)).begin() + static_cast<std::ptrdiff_t>(offset));
      return absl::OkStatus();
    };
  }
  ASSERT_OK(Rebuild(set, all));
  EXPECT_EQ(together, payloads_);
}

TEST_P(SourcesTest, WhatIsLentMakesWhatIsReadMakes) {
  for (const std::size_t piece : {std::size_t{1} << 30, std::size_t{64} << 10, std::size_t{10'007}}) {
    SCOPED_TRACE(piece);
    data_.clear();
    Set set = Make({300'000, 299'999, 0, 70'001, 5, 280'000});
    std::vector<std::unique_ptr<Pieces>> pieces;
    const auto lend = [&](const std::string& bytes) {
      return pieces.emplace_back(std::make_unique<Pieces>(bytes, piece))->AsSource();
    };
    for (std::uint32_t member = 0; member < set.members.size(); ++member) {
      set.members[member].data = lend(data_[member]);
    }
    for (std::uint32_t member = 0; member < set.members.size(); ++member) {
      EXPECT_EQ(PayloadOf(set, member), payloads_[member]) << member;
      set.members[member].payload = lend(payloads_[member]);
    }
    set.members[0].data = {};
    set.members[0].payload = {};
    std::string made(data_[0].size(), 'x');
    for (std::size_t at = 0; at < made.size(); at += 77'777) {
      const auto part = std::as_writable_bytes(std::span(made)).subspan(at);
      ASSERT_OK(ReadLost(set, 0, at, part.first(std::min<std::size_t>(77'777, part.size()))));
    }
    EXPECT_EQ(made, data_[0]);
    EXPECT_EQ(PayloadOf(set, 0), payloads_[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, SourcesTest,
                         ::testing::Values(std::pair{Scheme::kPartner, 1u}, std::pair{Scheme::kPartner, 3u},
                                           std::pair{Scheme::kXor, 1u}, std::pair{Scheme::kRs, 1u},
                                           std::pair{Scheme::kRs, 2u}, std::pair{Scheme::kRs, 4u}));

}  // namespace
}  // namespace cairn::redundancy

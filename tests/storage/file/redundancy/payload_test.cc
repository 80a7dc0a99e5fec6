// Payloads of sets that a test makes: against a plain model of the code, with everything lost that may be.
#include "storage/file/redundancy/payload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "storage/file/redundancy/gf256.h"
#include "tests/support/status_matchers.h"

namespace cairn::redundancy {
namespace {

using scr::Scheme;

// --- A model without any of the library's arithmetic: V, T and their product as the specification has them ---

std::uint8_t SlowMultiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (; b != 0; b >>= 1) {
    if ((b & 1) != 0) product ^= a;
    a <<= 1;
    if ((a & 0x100) != 0) a ^= 0x11d;
  }
  return static_cast<std::uint8_t>(product);
}

std::uint8_t SlowInverse(std::uint8_t a) {
  for (std::uint32_t b = 1; b < 256; ++b) {
    if (SlowMultiply(a, b) == 1) return static_cast<std::uint8_t>(b);
  }
  return 0;
}

Matrix SlowRows(std::uint32_t n, std::uint32_t k) {
  Matrix work(n + k, Row(n));
  for (std::uint32_t i = 0; i < n + k; ++i) {
    std::uint8_t power = 1;
    for (std::uint32_t j = 0; j < n; ++j) {
      work[i][j] = power;
      power = SlowMultiply(power, i);
    }
  }
  // Operations on columns that make the upper part the identity make the whole M.
  for (std::uint32_t column = 0; column < n; ++column) {
    std::uint32_t pivot = column;
    while (work[column][pivot] == 0) ++pivot;
    for (Row& row : work) std::swap(row[column], row[pivot]);
    const std::uint8_t scale = SlowInverse(work[column][column]);
    for (Row& row : work) row[column] = SlowMultiply(row[column], scale);
    for (std::uint32_t other = 0; other < n; ++other) {
      const std::uint8_t factor = work[column][other];
      if (other == column || factor == 0) continue;
      for (Row& row : work) row[other] ^= SlowMultiply(row[column], factor);
    }
  }
  return {work.begin() + n, work.end()};
}

struct Held {
  std::string data, payload;
};

// Byte by byte, as the specification says.
void Encode(Scheme scheme, std::uint32_t k, std::uint64_t chunk, std::vector<Held>* members) {
  const auto n = static_cast<std::uint32_t>(members->size());
  if (scheme == Scheme::kPartner) {
    for (std::uint32_t r = 0; r < n; ++r) {
      for (std::uint32_t i = 1; i <= k; ++i) (*members)[r].payload += (*members)[(r + n - i) % n].data;
    }
    return;
  }
  const Matrix rows = scheme == Scheme::kRs ? SlowRows(n, k) : Matrix(1, Row(n, 1));
  for (Held& member : *members) member.payload.assign(k * chunk, '\0');
  std::vector<std::uint64_t> next(n, 0);
  for (std::uint32_t stripe = 0; stripe < n; ++stripe) {
    std::vector<bool> holds(n, false);
    for (std::uint32_t i = 0; i < k; ++i) holds[(stripe + n - i) % n] = true;
    for (std::uint32_t s = 0; s < n; ++s) {
      if (holds[s]) continue;
      const std::uint64_t from = next[s]++ * chunk;
      for (std::uint64_t at = 0; at < chunk && from + at < (*members)[s].data.size(); ++at) {
        const auto byte = static_cast<std::uint8_t>((*members)[s].data[from + at]);
        for (std::uint32_t i = 0; i < k; ++i) {
          char& sum = (*members)[(stripe + n - i) % n].payload[i * chunk + at];
          sum = static_cast<char>(sum ^ SlowMultiply(rows[i][s], byte));
        }
      }
    }
  }
}

class Sample {
 public:
  Sample(Scheme scheme, std::uint32_t k, const std::vector<std::uint64_t>& sizes, std::uint64_t seed = 1)
      : scheme_(scheme), k_(k) {
    std::mt19937_64 random(seed);
    std::uint64_t most = 0;
    for (const std::uint64_t bytes : sizes) {
      most = std::max(most, bytes);
      Held member;
      for (std::uint64_t i = 0; i < bytes; ++i) member.data += static_cast<char>(random());
      held_.push_back(std::move(member));
    }
    if (scheme != Scheme::kPartner && sizes.size() > k) {
      chunk_ = std::max<std::uint64_t>(1, (most + sizes.size() - k - 1) / (sizes.size() - k));
    }
    Encode(scheme, k, chunk_, &held_);
    sizes_ = sizes;
  }

  Set View() {
    Set set{.scheme = scheme_, .replicas = 0, .checksums = 0, .chunk_bytes = chunk_, .members = {}};
    (scheme_ == Scheme::kPartner ? set.replicas : set.checksums) = k_;
    for (std::size_t r = 0; r < held_.size(); ++r) {
      set.members.push_back({.bytes = sizes_[r], .data = Reader(&held_[r].data), .payload = Reader(&held_[r].payload)});
    }
    return set;
  }
  // What a member of `set` has lost, here and there.
  void ExpectRead(const Set& set, std::uint32_t member) {
    const std::string& wanted = held_[member].data;
    EXPECT_OK(CheckLost(set, member));
    std::mt19937_64 random(member);
    for (int i = 0; i < 8; ++i) {
      const std::size_t begin = i == 0 ? 0 : random() % (wanted.size() + 1);
      const std::size_t count = i == 0 ? wanted.size() : random() % (wanted.size() - begin + 1);
      std::string read(count, 'x');
      ASSERT_OK(ReadLost(set, member, begin, std::as_writable_bytes(std::span(read))));
      ASSERT_TRUE(read == wanted.substr(begin, count)) << "member " << member << ", " << count << " at " << begin;
    }
  }
  // Loses the members, rebuilds them, and compares.
  void ExpectRebuilt(const std::vector<std::uint32_t>& lost, bool data = true, bool payload = true) {
    Set set = View();
    std::vector<Held> made(held_.size());
    std::map<std::uint32_t, Targets> targets;
    for (const std::uint32_t member : lost) {
      made[member].data.assign(held_[member].data.size(), 'x');
      made[member].payload.assign(held_[member].payload.size(), 'x');
      if (data) set.members[member].data = {};
      if (payload) set.members[member].payload = {};
      targets[member] = {.data = Writer(&made[member].data), .payload = Writer(&made[member].payload)};
    }
    ASSERT_OK_AND_ASSIGN(const auto difference, Rebuild(set, targets));
    EXPECT_FALSE(difference.has_value());
    for (const std::uint32_t member : lost) {
      EXPECT_TRUE(!data || made[member].data == held_[member].data) << "member " << member;
      EXPECT_TRUE(!payload || made[member].payload == held_[member].payload) << "member " << member;
      if (data) ExpectRead(set, member);
    }
  }
  std::vector<Held>& held() { return held_; }

  static ReadAt Reader(const std::string* bytes) {
    return [bytes](std::uint64_t offset, std::span<std::byte> target) -> absl::Status {
      if (offset > bytes->size() || target.size() > bytes->size() - offset) return DataLoss("read beyond the end");
      std::copy_n(bytes->data() + offset, target.size(), reinterpret_cast<char*>(target.data()));
      return absl::OkStatus();
    };
  }
  static WriteAt Writer(std::string* bytes) {
    return [bytes](std::uint64_t offset, std::span<const std::byte> from) -> absl::Status {
      if (offset > bytes->size() || from.size() > bytes->size() - offset) return DataLoss("written beyond the end");
      std::copy_n(reinterpret_cast<const char*>(from.data()), from.size(), bytes->data() + offset);
      return absl::OkStatus();
    };
  }

 private:
  const Scheme scheme_;
  const std::uint32_t k_;
  std::uint64_t chunk_ = 0;
  std::vector<Held> held_;
  std::vector<std::uint64_t> sizes_;
};

TEST(Gf256Test, TheFieldAndTheRowsAreThoseOfTheSpecification) {
  for (std::uint32_t a = 0; a < 256; ++a) {
    for (std::uint32_t b = 0; b < 256; ++b) {
      ASSERT_EQ(Multiply(static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b)), SlowMultiply(a, b));
    }
  }
  EXPECT_EQ(ChecksumRow(3, 1), (Row{15, 8, 6}));
  EXPECT_EQ(ChecksumRow(4, 0), (Row{27, 28, 18, 20}));
  EXPECT_EQ(ChecksumRow(4, 1), (Row{28, 27, 20, 18}));
  EXPECT_EQ(ChecksumRow(5, 2), (Row{15, 14, 14, 15, 1}));
  EXPECT_EQ(ChecksumRow(8, 0), (Row{26, 132, 186, 51, 231, 16, 198, 39}));
  for (const auto& [n, k] : {std::pair{2u, 1u}, {7u, 3u}, {30u, 29u}, {200u, 56u}, {255u, 1u}}) {
    const Matrix rows = SlowRows(n, k);
    for (std::uint32_t i = 0; i < k; ++i) ASSERT_EQ(ChecksumRow(n, i), rows[i]) << n << ", " << k << ", " << i;
  }
}

TEST(PayloadTest, EverySchemeVerifiesAndRebuildsWhateverItMayLose) {
  const std::vector<std::uint64_t> sizes = {1537, 4097, 0, 900};
  for (const auto& [scheme, k] : {std::pair{Scheme::kPartner, 1u},
                                  {Scheme::kPartner, 2u},
                                  {Scheme::kXor, 1u},
                                  {Scheme::kRs, 1u},
                                  {Scheme::kRs, 2u},
                                  {Scheme::kRs, 3u}}) {
    SCOPED_TRACE(::testing::Message() << "scheme " << static_cast<int>(scheme) << ", " << k);
    Sample sample(scheme, k, sizes);
    ASSERT_OK_AND_ASSIGN(const auto difference, Verify(sample.View()));
    EXPECT_FALSE(difference.has_value());
    for (std::uint32_t lost = 0; lost < 4; ++lost) {
      sample.ExpectRebuilt({lost});
      sample.ExpectRebuilt({lost}, true, false);
      sample.ExpectRebuilt({lost}, false, true);
      if (k >= 2) sample.ExpectRebuilt({lost, (lost + 1) % 4});
    }
    sample.ExpectRebuilt({0, 1, 2, 3}, false, true);  // payloads alone can be made at any time
  }
}

TEST(PayloadTest, TwoMembersOfTwoEachKeepTheOther) {
  Sample partner(Scheme::kPartner, 1, {10, 20});
  partner.ExpectRebuilt({0});
  Sample parity(Scheme::kXor, 1, {300000, 20});
  parity.ExpectRebuilt({0});
  parity.ExpectRebuilt({1});
}

TEST(PayloadTest, FilesWithoutBytesHaveAPayloadOfOneByteAChunk) {
  Sample sample(Scheme::kRs, 2, {0, 0, 0});
  EXPECT_EQ(PayloadBytes(sample.View(), 0), 2u);
  sample.ExpectRebuilt({1, 2});
}

TEST(PayloadTest, WhatIsLargerThanABlockIsMadeInSeveral) {
  for (const auto& [scheme, k] : {std::pair{Scheme::kPartner, 1u}, {Scheme::kXor, 1u}, {Scheme::kRs, 2u}}) {
    Sample sample(scheme, k, {2500001, 1, 2400000});
    sample.ExpectRebuilt({0});
    sample.ExpectRebuilt({2});
    sample.held()[2].data[2399999] ^= 1;
    ASSERT_OK_AND_ASSIGN(const auto difference, Verify(sample.View()));
    EXPECT_TRUE(difference.has_value());
  }
}

TEST(PayloadTest, AnyFlippedByteIsNoticedAndItsPlaceTold) {
  for (const auto& [scheme, k] : {std::pair{Scheme::kPartner, 1u}, {Scheme::kXor, 1u}, {Scheme::kRs, 2u}}) {
    Sample sample(scheme, k, {50, 31, 0, 7});
    for (std::uint32_t member = 0; member < 4; ++member) {
      for (std::string* bytes : {&sample.held()[member].data, &sample.held()[member].payload}) {
        for (std::size_t at = 0; at < bytes->size(); ++at) {
          (*bytes)[at] ^= 4;
          ASSERT_OK_AND_ASSIGN(const auto difference, Verify(sample.View()));
          ASSERT_TRUE(difference.has_value()) << member << ", " << at;
          if (bytes == &sample.held()[member].payload) {
            EXPECT_EQ(difference->member, member);
            EXPECT_EQ(difference->offset, at);
          }
          ASSERT_OK_AND_ASSIGN(const auto damaged, FindDamaged(sample.View()));
          if (scheme == Scheme::kRs) {
            EXPECT_EQ(damaged, member);
          } else {
            EXPECT_FALSE(damaged.has_value());
          }
          (*bytes)[at] ^= 4;
        }
      }
    }
  }
}

// --- What is compared with nothing ---

bool Has(const Ranges& ranges, std::uint64_t at) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [at](const Range& range) { return range.begin <= at && at < range.end; });
}

std::uint64_t BytesOf(const Ranges& ranges) {
  std::uint64_t bytes = 0;
  for (const Range& range : ranges) bytes += range.end - range.begin;
  return bytes;
}

// All that the members have, but for what is lost.
Set Without(Sample& sample, const std::vector<std::uint32_t>& data, const std::vector<std::uint32_t>& payloads) {
  Set set = sample.View();
  for (const std::uint32_t member : data) set.members[member].data = {};
  for (const std::uint32_t member : payloads) set.members[member].payload = {};
  return set;
}

TEST(PayloadTest, WithAllThereNothingIsUnchecked) {
  for (const auto& [scheme, k] : {std::pair{Scheme::kPartner, 1u}, {Scheme::kXor, 1u}, {Scheme::kRs, 2u}}) {
    Sample sample(scheme, k, {50, 31, 0, 7});
    for (const Ranges& ranges : Unchecked(sample.View())) EXPECT_TRUE(ranges.empty());
  }
  Sample single(Scheme::kSingle, 0, {5});
  EXPECT_EQ(BytesOf(Unchecked(single.View())[0]), 5u);
}

TEST(PayloadTest, ACopyThatIsLostLeavesItsOwnerAndTheCopiedUnchecked) {
  Sample sample(Scheme::kPartner, 1, {50, 31, 12, 7});
  const std::vector<Ranges> unchecked = Unchecked(Without(sample, {1}, {1}));
  EXPECT_EQ(BytesOf(unchecked[0]), 50u) << "its copy was in the payload that is lost";
  EXPECT_EQ(BytesOf(unchecked[1]), 31u) << "one copy is left";
  EXPECT_EQ(BytesOf(unchecked[2]) + BytesOf(unchecked[3]), 0u);
  Sample two(Scheme::kPartner, 2, {50, 31, 12, 7});
  for (const Ranges& ranges : Unchecked(Without(two, {1}, {1}))) EXPECT_TRUE(ranges.empty());
}

// A chunk that lies behind the end of the lost file is known to be zeros: parity tells of the others there.
TEST(PayloadTest, BehindTheEndOfALostFileParityStillTells) {
  Sample sample(Scheme::kXor, 1, {9, 9, 3, 9});  // chunks of 3
  const std::vector<Ranges> unchecked = Unchecked(Without(sample, {2}, {}));
  EXPECT_EQ(BytesOf(unchecked[2]), 3u);
  EXPECT_EQ(BytesOf(unchecked[0]), 0u) << "it has no chunk in the stripe where the lost bytes are";
  for (const std::uint32_t member : {1u, 3u}) EXPECT_EQ(BytesOf(unchecked[member]), 3u) << member;
  ASSERT_EQ(Unchecked(Without(sample, {2}, {2}))[0].size(), 1u) << "nor has the stripe of the lost checksum any";
}

TEST(PayloadTest, OfRsAnyChecksumToSpareChecksAll) {
  Sample sample(Scheme::kRs, 2, {50, 31, 12, 7});
  for (const Ranges& ranges : Unchecked(Without(sample, {1}, {1}))) EXPECT_TRUE(ranges.empty());
  const std::vector<Ranges> unchecked = Unchecked(Without(sample, {1, 3}, {1, 3}));
  for (std::uint32_t member = 0; member < 4; ++member) EXPECT_GT(BytesOf(unchecked[member]), 0u) << member;
}

// A flipped bit in a file shows exactly where something is compared; and what is rebuilt wrongly without a difference
// is all said to be unchecked.
void ExpectWhatShowsIsChecked(Sample& sample, const std::vector<std::uint32_t>& data,
                              const std::vector<std::uint32_t>& payloads) {
  const Set set = Without(sample, data, payloads);
  const std::vector<Ranges> unchecked = Unchecked(set);
  const std::vector<Held> whole = sample.held();
  for (std::uint32_t member = 0; member < whole.size(); ++member) {
    for (const bool of_data : {true, false}) {
      if (of_data ? !set.members[member].data : !set.members[member].payload) continue;
      std::string& bytes = of_data ? sample.held()[member].data : sample.held()[member].payload;
      for (std::size_t at = 0; at < bytes.size(); ++at) {
        bytes[at] ^= 16;
        std::vector<Held> made(whole.size());
        std::map<std::uint32_t, Targets> targets;
        for (const std::uint32_t lost : data) {
          made[lost].data.assign(whole[lost].data.size(), 'x');
          targets[lost].data = Sample::Writer(&made[lost].data);
        }
        ASSERT_OK_AND_ASSIGN(const auto difference, Rebuild(set, targets));
        if (of_data) {
          ASSERT_EQ(difference.has_value(), !Has(unchecked[member], at)) << "member " << member << " at " << at;
        }
        for (const std::uint32_t lost : data) {
          for (std::size_t i = 0; !difference && i < made[lost].data.size(); ++i) {
            ASSERT_TRUE(made[lost].data[i] == whole[lost].data[i] || Has(unchecked[lost], i)) << lost << " at " << i;
          }
        }
        bytes[at] ^= 16;
      }
    }
  }
}

TEST(PayloadTest, InRandomSetsDamageShowsWhereverItIsNotSaidToBeUnchecked) {
  const char* const given = std::getenv("CAIRN_TEST_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  for (std::uint64_t seed = first; seed < first + (given != nullptr ? 1 : 150); ++seed) {
    SCOPED_TRACE(::testing::Message() << "CAIRN_TEST_SEED=" << seed);
    std::mt19937_64 random(seed);
    const auto n = static_cast<std::uint32_t>(2 + random() % 6);
    constexpr Scheme kSchemes[] = {Scheme::kPartner, Scheme::kXor, Scheme::kRs};
    const Scheme scheme = kSchemes[random() % 3];
    const std::uint32_t k = scheme == Scheme::kXor ? 1 : static_cast<std::uint32_t>(1 + random() % (n - 1));
    std::vector<std::uint64_t> sizes;
    for (std::uint32_t i = 0; i < n; ++i) sizes.push_back(random() % 4 == 0 ? 0 : random() % 40);
    Sample sample(scheme, k, sizes, seed);
    std::vector<std::uint32_t> members(n);
    for (std::uint32_t i = 0; i < n; ++i) members[i] = i;
    std::shuffle(members.begin(), members.end(), random);
    const std::uint32_t bears = scheme == Scheme::kPartner ? 1 : k;
    members.resize(random() % (bears + 1));
    const std::uint64_t what = random() % 4;
    ExpectWhatShowsIsChecked(sample, what == 0 ? std::vector<std::uint32_t>() : members,
                             what == 1 ? std::vector<std::uint32_t>() : members);
    if (HasFailure()) return;
  }
}

TEST(PayloadTest, ASpareChecksumProvesARebuildAndFindsTheDamagedMember) {
  Sample sample(Scheme::kRs, 3, {50, 31, 12, 7, 60, 3});
  Set set = sample.View();
  set.members[1].data = {};
  set.members[1].payload = {};
  sample.held()[4].data[59] ^= 1;
  ASSERT_OK_AND_ASSIGN(const auto difference, Verify(set));
  EXPECT_TRUE(difference.has_value());
  ASSERT_OK_AND_ASSIGN(const auto damaged, FindDamaged(set));
  EXPECT_EQ(damaged, 4u);
  sample.held()[2].payload[0] ^= 1;
  ASSERT_OK_AND_ASSIGN(const auto two, FindDamaged(set));
  EXPECT_FALSE(two.has_value());
}

TEST(PayloadTest, MoreLossesThanTheSchemeBearsAreDataLossAndWriteNothing) {
  for (const auto& [scheme, k, lost] :
       {std::tuple{Scheme::kPartner, 1u, 2u}, {Scheme::kXor, 1u, 2u}, {Scheme::kRs, 2u, 3u}}) {
    Sample sample(scheme, k, {50, 31, 12, 7});
    Set set = sample.View();
    std::map<std::uint32_t, Targets> targets;
    bool written = false;
    for (std::uint32_t member = 0; member < lost; ++member) {
      set.members[member].data = {};
      set.members[member].payload = {};
      targets[member].data = [&](std::uint64_t, std::span<const std::byte>) {
        written = true;
        return absl::OkStatus();
      };
    }
    EXPECT_STATUS(absl::StatusCode::kDataLoss, Rebuild(set, targets), "lost");
    EXPECT_FALSE(written);
    EXPECT_STATUS(absl::StatusCode::kDataLoss, CheckLost(set, 0), "lost");
    std::byte byte{};
    EXPECT_STATUS(absl::StatusCode::kDataLoss, ReadLost(set, 0, 49, {&byte, 1}), "lost");
    EXPECT_OK(Verify(set)) << "what nobody wants may be lost";
  }
  Sample single(Scheme::kSingle, 0, {5});
  EXPECT_OK(Verify(single.View()));
  EXPECT_STATUS(absl::StatusCode::kDataLoss,
                Rebuild(single.View(), {{0, {.data = [](auto, auto) { return absl::OkStatus(); }, .payload = {}}}}),
                "no redundancy");
}

TEST(PayloadTest, NumbersThatContradictEachOtherAreRefused) {
  const auto refused = [](Scheme scheme, std::uint32_t k, std::vector<std::uint64_t> sizes, std::uint64_t chunk) {
    Set set{.scheme = scheme, .replicas = k, .checksums = k, .chunk_bytes = chunk, .members = {}};
    for (const std::uint64_t bytes : sizes) set.members.push_back({.bytes = bytes, .data = {}, .payload = {}});
    return absl::IsDataLoss(Check(set)) && absl::IsDataLoss(Verify(set).status());
  };
  EXPECT_FALSE(refused(Scheme::kXor, 0, {4097, 1, 2, 3}, 1366));
  EXPECT_TRUE(refused(Scheme::kXor, 0, {4097, 1, 2, 3}, 1365));
  EXPECT_TRUE(refused(Scheme::kXor, 0, {4097, 1, 2, 3}, 1367));
  EXPECT_TRUE(refused(Scheme::kXor, 0, {4097}, 4097));
  EXPECT_TRUE(refused(Scheme::kXor, 0, {}, 1));
  EXPECT_TRUE(refused(Scheme::kXor, 0, std::vector<std::uint64_t>(kMembersMax + 1), 1));
  EXPECT_TRUE(refused(Scheme::kXor, 0, {UINT64_MAX, 1}, UINT64_MAX));
  EXPECT_FALSE(refused(Scheme::kRs, 2, {4097, 1, 2, 3}, 2049));
  EXPECT_TRUE(refused(Scheme::kRs, 4, {4097, 1, 2, 3}, 2049));
  EXPECT_TRUE(refused(Scheme::kRs, 0, {4097, 1, 2, 3}, 1025));
  EXPECT_TRUE(refused(Scheme::kRs, 2, std::vector<std::uint64_t>(255), 1));
  EXPECT_FALSE(refused(Scheme::kPartner, 1, {5, 6}, 0));
  EXPECT_TRUE(refused(Scheme::kPartner, 2, {5, 6}, 0));
  EXPECT_TRUE(refused(Scheme::kPartner, 0, {5, 6}, 0));
  EXPECT_TRUE(refused(Scheme::kPartner, 1, {UINT64_MAX / 2, UINT64_MAX / 2, 2}, 0));
  EXPECT_TRUE(refused(Scheme::kSingle, 0, {5, 6}, 0));
}

TEST(PayloadTest, ErrorsOfTheFunctionsPassThrough) {
  for (const auto& [scheme, k] : {std::pair{Scheme::kPartner, 1u}, {Scheme::kXor, 1u}, {Scheme::kRs, 2u}}) {
    Sample sample(scheme, k, {50, 31, 12});
    Set set = sample.View();
    set.members[1].data = [](std::uint64_t, std::span<std::byte>) { return absl::UnavailableError("no disk"); };
    EXPECT_STATUS(absl::StatusCode::kUnavailable, Verify(set), "no disk");
    set = sample.View();
    set.members[0].data = {};
    const Targets full{.data = [](auto, auto) { return absl::ResourceExhaustedError("full"); }, .payload = {}};
    EXPECT_STATUS(absl::StatusCode::kResourceExhausted, Rebuild(set, {{0, full}}), "full");
  }
}

TEST(PayloadTest, RandomSetsAgreeWithThePlainModel) {
  const char* const given = std::getenv("CAIRN_TEST_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  for (std::uint64_t seed = first; seed < first + (given != nullptr ? 1 : 150); ++seed) {
    SCOPED_TRACE(::testing::Message() << "CAIRN_TEST_SEED=" << seed);
    std::mt19937_64 random(seed);
    const auto n = static_cast<std::uint32_t>(2 + random() % 14);
    const auto k = static_cast<std::uint32_t>(1 + random() % (n - 1));
    std::vector<std::uint64_t> sizes;
    for (std::uint32_t i = 0; i < n; ++i) sizes.push_back(random() % 8 == 0 ? 0 : random() % 3000);
    const Scheme scheme = k == 1 && random() % 2 == 0 ? Scheme::kXor : Scheme::kRs;
    Sample sample(scheme, k, sizes, seed);
    ASSERT_OK_AND_ASSIGN(const auto difference, Verify(sample.View()));
    EXPECT_FALSE(difference.has_value());
    std::vector<std::uint32_t> members(n);
    for (std::uint32_t i = 0; i < n; ++i) members[i] = i;
    std::shuffle(members.begin(), members.end(), random);
    members.resize(1 + random() % k);
    sample.ExpectRebuilt(members, random() % 4 != 0, random() % 4 != 0);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace cairn::redundancy

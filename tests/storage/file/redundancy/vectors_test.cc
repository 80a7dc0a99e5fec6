// The sets that SCR itself has written: payloads agree with the data, and what one node (or as many as the scheme
// bears) had is made again byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/path.h"
#include "storage/file/redundancy/logical_file.h"
#include "storage/file/redundancy/payload.h"
#include "storage/format/kvtree/tree.h"
#include "tests/storage/file/redundancy/scr_cache.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn::redundancy {
namespace {

constexpr char kRoot[] = "/cache";

// One member's redundancy file and files, as its own header names them.
struct Source {
  std::string header;  // path of its redundancy file
  std::uint64_t header_bytes = 0, payload_bytes = 0;
  std::vector<Part> files;
};
struct TestSet {
  std::string name;  // in failures
  Set set;
  std::vector<Source> sources;  // by set rank
};

// /mnt/ssd/… of the node whose folder has the header.
std::string Mapped(const std::string& header, const std::string& recorded) {
  const std::string store = "/mnt/ssd/";
  EXPECT_TRUE(recorded.starts_with(store)) << recorded;
  const std::size_t node = header.find('/', std::string(kRoot).size() + 1);
  return header.substr(0, node) + "/" + recorded.substr(store.size());
}

class VectorSetsTest : public ::testing::Test {
 protected:
  ReadAt Reader(std::vector<Part> parts) {
    const auto file = std::make_shared<LogicalFile>(disk_, std::move(parts));
    return [file](std::uint64_t offset, std::span<std::byte> target) { return file->Read(offset, target); };
  }
  WriteAt Writer(std::vector<Part> parts) {
    for (const Part& part : parts) EXPECT_OK(MakeDirectories(disk_, ParentOf(part.path)));
    const auto file = std::make_shared<LogicalFile>(disk_, std::move(parts));
    EXPECT_OK(file->Create(0600));
    return [file](std::uint64_t offset, std::span<const std::byte> bytes) { return file->Write(offset, bytes); };
  }

  void AddMember(const std::string& path, const scr::RedsetName& name) {
    const std::string bytes = testing::GetBytes(disk_, path);
    Source source{.header = path, .files = {}};
    ASSERT_OK_AND_ASSIGN(const kvtree::Tree tree, kvtree::Decode(path, bytes, &source.header_bytes));
    source.payload_bytes = bytes.size() - source.header_bytes;
    ASSERT_OK_AND_ASSIGN(const scr::RedundancyHeader header, scr::GetRedundancyHeader(tree));
    const scr::SetMember& own = header.members.at(header.rank);
    const bool data = name.kind == scr::RedsetKind::kData;
    const std::string folder = path.substr(path.find("scr.dataset."));
    TestSet& set = sets_[fmt::format("{} {} {}", folder.substr(0, folder.find('/')), data, own.descriptor.group)];
    set.set.scheme = own.descriptor.scheme;
    set.set.replicas = own.descriptor.replicas;
    set.set.checksums = own.descriptor.checksums;
    set.set.chunk_bytes = header.chunk_bytes;
    set.set.members.resize(own.descriptor.ranks);
    set.sources.resize(own.descriptor.ranks);
    for (const auto& [file, meta] : own.files) {
      source.files.push_back({.path = Mapped(path, file), .bytes = meta.bytes});
    }
    set.set.members[header.rank] = {
        .bytes = own.bytes(),
        .data = Reader(source.files),
        .payload = Reader({{.path = path, .bytes = source.payload_bytes, .offset = source.header_bytes}})};
    set.sources[header.rank] = std::move(source);
  }

  bool Load(std::string_view scenario) {
    sets_.clear();
    EXPECT_OK(RemoveTree(disk_, kRoot));
    if (!testing::PutScenario(disk_, scenario, "nodes", kRoot)) return false;
    for (const std::string& path : testing::FilesBelow(disk_, kRoot)) {
      const auto name = scr::ParseRedsetName(BaseOf(path));
      if (name && name->what == scr::RedsetName::What::kHeader && name->scheme != scr::Scheme::kSingle) {
        AddMember(path, *name);
      }
    }
    EXPECT_FALSE(sets_.empty()) << scenario;
    return true;
  }

  // Without `lost`, the rest makes their files and payloads again, as they were.
  void ExpectRebuilt(const TestSet& from, const std::vector<std::uint32_t>& lost) {
    Set set = from.set;
    std::map<std::uint32_t, Targets> targets;
    std::map<std::string, std::string> made;  // path -> of what
    for (const std::uint32_t member : lost) {
      set.members[member].data = {};
      set.members[member].payload = {};
      std::vector<Part> files = from.sources[member].files;
      for (Part& part : files) {
        made["/made" + part.path] = part.path;
        part.path = "/made" + part.path;
      }
      targets[member].data = Writer(files);
      targets[member].payload =
          Writer({{.path = fmt::format("/made/payload.{}", member), .bytes = from.sources[member].payload_bytes}});
    }
    ASSERT_OK_AND_ASSIGN(const auto difference, Rebuild(set, targets));
    EXPECT_FALSE(difference.has_value());
    for (const auto& [copy, original] : made) {
      EXPECT_TRUE(testing::GetBytes(disk_, copy) == testing::GetBytes(disk_, original)) << original;
    }
    for (const std::uint32_t member : lost) {
      const Source& source = from.sources[member];
      EXPECT_TRUE(testing::GetBytes(disk_, fmt::format("/made/payload.{}", member)) ==
                  testing::GetBytes(disk_, source.header).substr(source.header_bytes))
          << source.header;
    }
    ASSERT_OK(RemoveTree(disk_, "/made"));
  }

  FakeDisk disk_;
  std::map<std::string, TestSet> sets_;
};

constexpr const char* kScenarios[] = {
    "partner_np3",           "xor_np4",   "xor_np4_two_sets", "xor_np4_ppn2",           "xor_np3_rank_without_files",
    "xor_np4_after_rebuild", "rs_np4_k2", "bypass_np3",       "crash_before_flush_np3",
};

TEST_F(VectorSetsTest, PayloadsAreWhatTheDataMake) {
  for (const char* scenario : kScenarios) {
    if (!Load(scenario)) return;
    for (const auto& [name, set] : sets_) {
      SCOPED_TRACE(fmt::format("{}: {}", scenario, name));
      ASSERT_OK(Check(set.set));
      for (std::uint32_t member = 0; member < set.sources.size(); ++member) {
        EXPECT_EQ(PayloadBytes(set.set, member), set.sources[member].payload_bytes) << member;
      }
      ASSERT_OK_AND_ASSIGN(const auto difference, Verify(set.set));
      EXPECT_FALSE(difference.has_value()) << "payload of " << difference->member << " at " << difference->offset;
    }
  }
}

TEST_F(VectorSetsTest, LostMembersAreMadeAgain) {
  for (const char* scenario : kScenarios) {
    if (!Load(scenario)) return;
    for (const auto& [name, set] : sets_) {
      SCOPED_TRACE(fmt::format("{}: {}", scenario, name));
      const auto members = static_cast<std::uint32_t>(set.sources.size());
      for (std::uint32_t lost = 0; lost < members; ++lost) {
        ExpectRebuilt(set, {lost});
        for (std::uint32_t other = lost + 1; set.set.checksums == 2 && other < members; ++other) {
          ExpectRebuilt(set, {lost, other});
        }
      }
    }
  }
}

// SCR itself notices none of these.
TEST_F(VectorSetsTest, AFlippedByteInDataOrPayloadIsNoticed) {
  for (const char* scenario : {"partner_np3", "xor_np4", "rs_np4_k2"}) {
    if (!Load(scenario)) return;
    for (const auto& [name, set] : sets_) {
      for (const Source& source : set.sources) {
        std::vector<std::pair<std::string, std::uint64_t>> bits = {{source.header, source.header_bytes * 8 + 5}};
        for (const Part& part : source.files) {
          if (part.bytes > 0) bits.push_back({part.path, part.bytes * 8 - 1});
        }
        for (const auto& [path, bit] : bits) {
          disk_.FlipBit(path, bit);
          ASSERT_OK_AND_ASSIGN(const auto difference, Verify(set.set));
          EXPECT_TRUE(difference.has_value()) << scenario << ": " << path;
          disk_.FlipBit(path, bit);
        }
      }
    }
  }
}

TEST_F(VectorSetsTest, AFileThatIsTooShortIsSaidToBe) {
  if (!Load("xor_np4")) return;
  const TestSet& set = sets_.begin()->second;
  ASSERT_OK_AND_ASSIGN(const auto file, disk_.Open(set.sources[1].files[0].path, {.writable = true}));
  ASSERT_OK(file->Truncate(3));
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Verify(set.set), set.sources[1].files[0].path);
}

}  // namespace
}  // namespace cairn::redundancy

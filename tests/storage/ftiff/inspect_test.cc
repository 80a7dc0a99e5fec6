#include "storage/ftiff/inspect.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/storage/ftiff/sample_file.h"

namespace cairn::ftiff {
namespace {

FileMetadata Sample() {
  const std::string file = testing::FileOf(testing::MixedLayout(), {.checkpoint_id = 12, .timestamp_ns = 77});
  return *DecodeMetadata("sample", file.size(), testing::ReaderOf(file));
}

TEST(InspectTest, TheListingHasTheFileTheBlocksAndALineForEachChunk) {
  const FileMetadata metadata = Sample();
  const std::string text = DescribeText(metadata, "Ckpt12-Rank0.fti");
  EXPECT_TRUE(text.starts_with("Ckpt12-Rank0.fti: FTI-FF layout F, 2 blocks, 5 chunks\n")) << text;
  for (const std::string& expected :
       {"  checksum     " + metadata.checksum_hex + "\n", std::string("  ckptId       12\n"),
        std::string("  dataSize     132\n"), std::string("  metaSize     420\n"), std::string("  maxFs        -1\n"),
        std::string("  timestamp    77\n"), std::string("\nblock 1: numvars 3, dbsize 104\n"),
        std::string("\nblock 2: numvars 2, dbsize 28\n")}) {
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "in\n" << text;
  }
  for (const Md5Digest& hash : metadata.chunk_hashes) {
    EXPECT_NE(text.find("  " + HexOf(hash) + "\n"), std::string::npos) << text;
  }
}

TEST(InspectTest, TheJsonHasTheSameUnderTheFormatsNames) {
  const nlohmann::json described = DescribeJson(Sample(), "Ckpt12-Rank0.fti");
  EXPECT_EQ(described["name"], "Ckpt12-Rank0.fti");
  EXPECT_EQ(described["layout"], "F");
  EXPECT_EQ(described["file"]["ckptId"], 12);
  EXPECT_EQ(described["file"]["fs"], 132 + 420);
  EXPECT_EQ(described["blocks"].size(), 2u);
  EXPECT_EQ(described["blocks"][1]["numvars"], 2);
  const nlohmann::json& chunk = described["blocks"][1]["chunks"][0];
  EXPECT_EQ(chunk["id"], 3);
  EXPECT_EQ(chunk["containerid"], 1);
  EXPECT_EQ(chunk["hascontent"], true);
  EXPECT_EQ(chunk["hasCkpt"], true);
  EXPECT_EQ(chunk["dptr"], 40);
  EXPECT_EQ(chunk["fptr"], 104);
  EXPECT_EQ(chunk["chunksize"], 17);
  EXPECT_EQ(chunk["containersize"], 20);
}

}  // namespace
}  // namespace cairn::ftiff

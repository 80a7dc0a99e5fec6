#include "storage/format/bp5/image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "storage/format/bp5/metadata.h"
#include "tests/support/status_matchers.h"

namespace cairn::bpdir {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

bp5::EncodedStep RecordOf(const std::vector<std::string>& names) {
  std::vector<bp5::Put> puts(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    puts[i].name = names[i];
    puts[i].value = "x";
  }
  return *bp5::WriterEncoder().Encode(puts, 0);
}

// The types of the records in md.idx.
std::string Records(const Image& image) {
  std::string types;
  for (std::size_t at = 64; at < image.index().size();) {
    types += image.index()[at];
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, image.index().data() + at + 1, sizeof(bytes));
    at += 9 + bytes;
  }
  return types;
}

void Append(Image& image, const std::vector<bp5::EncodedStep>& writers, const std::vector<std::uint32_t>& subfiles,
            bool new_map = false) {
  image.Append(writers, std::vector<bp5::WriterData>(writers.size()), subfiles, new_map);
}

TEST(ImageTest, AMapComesFirstAndWhereItChangesOrIsAskedFor) {
  Image image({});
  const bp5::EncodedStep record = RecordOf({"a"});
  Append(image, {record, record}, {0, 1});
  EXPECT_EQ(Records(image), "ws");
  Append(image, {record, record}, {0, 1});
  EXPECT_EQ(Records(image), "wss");
  Append(image, {record, record}, {1, 1});
  EXPECT_EQ(Records(image), "wssws");
  Append(image, {record}, {1});
  EXPECT_EQ(Records(image), "wsswsws");
  Append(image, {record}, {1}, true);
  EXPECT_EQ(Records(image), "wsswswsws");
  Append(image, {record}, {1});
  EXPECT_EQ(Records(image), "wsswswswss");
}

TEST(ImageTest, AFormatIsStoredOnceWhoeverUsesIt) {
  Image image({});
  const bp5::EncodedStep one = RecordOf({"a"}), two = RecordOf({"b"});
  Append(image, {one, two, one}, {0, 0, 0});
  const std::size_t both = bp5::EncodeFormatEntry(*one.format).size() + bp5::EncodeFormatEntry(*two.format).size();
  EXPECT_EQ(image.formats().size(), both);
  Append(image, {two, one, two}, {0, 0, 0});
  EXPECT_EQ(image.formats().size(), both);
}

TEST(ImageTest, StepsAreWhereTheirRecordsSay) {
  Image image({});
  Append(image, {RecordOf({"a"})}, {0});
  const std::size_t first = image.metadata().size();
  Append(image, {RecordOf({"a", "b"}), RecordOf({})}, {0, 0});
  bp5::Metadata metadata;
  ASSERT_OK(metadata.Extend({.index = BytesOf(image.index()),
                             .formats = BytesOf(image.formats()),
                             .metadata_begin = 0,
                             .metadata = BytesOf(image.metadata())}));
  ASSERT_EQ(metadata.steps(), 2u);
  EXPECT_EQ(metadata.metadata_end(0), first);
  EXPECT_EQ(metadata.metadata_end(1), image.metadata().size());
  EXPECT_EQ(metadata.writers(1), 2u);
}

}  // namespace
}  // namespace cairn::bpdir

// What a label says, and what is believed of one.
#include "daemon/data/image_label.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "proto/label.pb.h"
#include "storage/base/ids.h"
#include "storage/base/sealed_memory.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/framed/framed.h"
#include "storage/format/ftiff/layout.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

constexpr SealedMemory kImage{.inode = 77, .bytes = 4 << 20};
constexpr FramedKind kKind{.magic = "CAIRNLBL", .what = "a label", .version = 1, .bytes_max = kLabelBytes};
constexpr std::uint64_t kTries = 3;

catalogue::Catalogue CatalogueHere() {
  catalogue::Catalogue catalogue;
  catalogue.set_run(RunId::Random().Hex());
  catalogue.set_launch(3);
  catalogue.set_dataset(9);
  catalogue.set_step(40);
  catalogue.set_rank(1);
  catalogue.set_nranks(2);
  for (const std::int32_t id : {5, 6}) {
    local::Variable& variable = *catalogue.add_variables();
    variable.set_id(id);
    variable.set_type(3);
    variable.set_count(id == 5 ? 300'000 : 10);
    variable.set_bytes(variable.count() * 4);
  }
  return catalogue;
}

CapturedPart PartHere() {
  CapturedPart part;
  part.catalogue = CatalogueHere();
  part.name = "ckpt.9";
  part.user = "alice";
  part.job = "run-12345678";
  part.mark = "mark";
  part.created_us = 1'700'000'000'000'000;
  const std::vector<ftiff::VariableSize> sizes = {{.id = 5, .bytes = 1'200'000}, {.id = 6, .bytes = 40}};
  part.layout = *ftiff::PlanFresh(sizes, ftiff::Packing::kAligned);
  part.last_hashes.resize(part.layout.containers.size());
  return part;
}

std::string FrameHere() {
  return *EncodeLabel(PartHere(), kImage);
}

// A frame in which something has been changed on purpose: its CRC is right.
std::string Changed(const std::function<void(label::Label*)>& change) {
  const std::string frame = FrameHere();
  label::Label label;
  const auto message = FramedMessage(kKind, "test", frame);
  EXPECT_TRUE(message.ok() && label.ParseFromArray(message->data(), static_cast<int>(message->size())));
  change(&label);
  return EncodeFramed(kKind, label);
}

void ExpectNotBelieved(const std::string& frame, const std::string& why) {
  const auto part = DecodeLabel(frame, kImage);
  EXPECT_EQ(part.status().code(), absl::StatusCode::kDataLoss) << why;
  EXPECT_THAT(std::string(part.status().message()), HasSubstr(why));
}

TEST(ImageLabelTest, SaysWhatWasCaptured) {
  const CapturedPart part = PartHere();
  const auto frame = EncodeLabel(part, kImage);
  ASSERT_OK(frame.status());
  EXPECT_EQ(ImageOfLabel(*frame), 77u);
  const auto read = DecodeLabel(*frame, kImage);
  ASSERT_OK(read.status());
  EXPECT_EQ(read->catalogue.SerializeAsString(), part.catalogue.SerializeAsString());
  EXPECT_EQ(read->name, part.name);
  EXPECT_EQ(read->user, part.user);
  EXPECT_EQ(read->job, part.job);
  EXPECT_EQ(read->mark, part.mark);
  EXPECT_EQ(read->created_us, part.created_us);
  EXPECT_EQ(read->letter, part.letter);
  EXPECT_EQ(read->layout.containers, part.layout.containers);
  EXPECT_EQ(read->layout.block_containers, part.layout.block_containers);
  EXPECT_EQ(read->layout.data_bytes, part.layout.data_bytes);
  EXPECT_EQ(read->last_hashes.size(), part.last_hashes.size());
}

TEST(ImageLabelTest, AnyTruncationOrFlippedByteIsNotBelieved) {
  const std::string whole = FrameHere();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(DecodeLabel(whole.substr(0, n), kImage).ok()) << "cut at " << n;
    std::string flipped = whole;
    flipped[n] = static_cast<char>(flipped[n] ^ 0x10);
    EXPECT_FALSE(DecodeLabel(flipped, kImage).ok()) << "flipped at " << n;
  }
}

TEST(ImageLabelTest, EachFieldIsLookedAt) {
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_image(78); }), "image");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_image_bytes(2 << 20); }), "image");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_part("no catalogue"); }), "part");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_name(std::string(5000, 'x')); }), "text");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_job(std::string("a\0b", 3)); }), "text");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_data_bytes(5 << 20); }), "data_bytes");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_data_bytes(4096); }), "container");
  ExpectNotBelieved(Changed([](label::Label* label) { label->add_id(5); }), "columns");
  ExpectNotBelieved(Changed([](label::Label* label) { label->mutable_chunk_bytes()->RemoveLast(); }), "columns");
  ExpectNotBelieved(Changed([](label::Label* label) { label->add_block_containers(1); }), "block_containers");
  ExpectNotBelieved(Changed([](label::Label* label) { label->add_block_containers(0xffff'ffff); }), "block_containers");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_id(0, 7); }), "no variable");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_index(0, -1); }), "index");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_file_offset(0, ~0ull); }), "container 0");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_file_offset(1, 0); }), "container 1");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_container_bytes(0, ~0ull); }), "container 0");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_chunk_bytes(0, 1ull << 40); }), "container 0");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_chunk_bytes(0, 1); }), "variable");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_variable_offset(0, 8); }), "variable");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_has_content(0, false); }), "variable");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_last_hashes("short"); }), "last_hashes");
  ExpectNotBelieved(Changed([](label::Label* label) { label->set_last_hashes(std::string(16'000, 'x')); }),
                    "last_hashes");
}

TEST(ImageLabelTest, ThePartIsOneOfMemoryWithoutItsFile) {
  const auto with = [](const std::function<void(catalogue::Catalogue*)>& change) {
    return Changed([&change](label::Label* label) {
      catalogue::Catalogue catalogue = PartHere().catalogue;
      change(&catalogue);
      label->set_part(EncodeCatalogue(catalogue));
    });
  };
  ExpectNotBelieved(with([](catalogue::Catalogue* part) { part->set_dataset(1ull << 31); }), "dataset");
  ExpectNotBelieved(with([](catalogue::Catalogue* part) { part->set_dataset(0); }), "dataset");
  ExpectNotBelieved(with([](catalogue::Catalogue* part) { part->set_launch(0); }), "launch");
  ExpectNotBelieved(with([](catalogue::Catalogue* part) { part->set_rank(2); }), "rank");
  ExpectNotBelieved(with([](catalogue::Catalogue* part) { part->set_run("x"); }), "run");
  ExpectNotBelieved(with([](catalogue::Catalogue* part) { part->clear_variables(); }), "no variables");
  ExpectNotBelieved(with([](catalogue::Catalogue* part) {
                      part->clear_variables();
                      part->set_files(true);
                    }),
                    "files");
  ExpectNotBelieved(with([](catalogue::Catalogue* part) {
                      part->add_file()->set_name("x");
                      part->mutable_file(0)->set_prefix_name("x");
                    }),
                    "files");
}

// --- In memory ---

class LabelMemory : public ::testing::Test {
 protected:
  LabelMemory() {
    auto made = MakeSealedMemory("test", kLabelBytes);
    EXPECT_TRUE(made.ok());
    memory_ = *std::move(made);
  }
  ImageLabel Mapped() const { return ImageLabel(UniqueFd(::dup(memory_.get()))); }
  void Put(std::uint64_t offset, std::uint64_t number) const {
    EXPECT_EQ(::pwrite(memory_.get(), &number, sizeof number, static_cast<off_t>(offset)), 8);
  }
  UniqueFd memory_;
};

TEST_F(LabelMemory, IsBelievedFromItsSealUntilItIsCleared) {
  ImageLabel label = Mapped();
  const auto nothing = [this] {
    const auto frame = ReadLabel(memory_.get(), 100);
    return frame.ok() && !*frame;
  };
  EXPECT_TRUE(nothing());
  label.Seal();
  EXPECT_TRUE(nothing()) << "nothing was written";
  ASSERT_OK(label.Write(PartHere(), kImage));
  EXPECT_TRUE(nothing()) << "the bytes are still on their way";
  label.Seal();
  const auto frame = ReadLabel(memory_.get(), kTries);
  ASSERT_OK(frame.status());
  ASSERT_TRUE(frame->has_value());
  EXPECT_OK(DecodeLabel(**frame, kImage).status());
  EXPECT_FALSE(label.Write(PartHere(), kImage).ok()) << "it is sealed";
  EXPECT_TRUE(label.Clear());
  EXPECT_TRUE(nothing());
  label.Seal();
  EXPECT_TRUE(nothing()) << "what was before is not sealed again";
}

TEST_F(LabelMemory, IsTriedSoManyTimes) {
  ImageLabel label = Mapped();
  ASSERT_OK(label.Write(PartHere(), kImage));
  label.Seal();
  for (std::uint64_t i = 0; i < kTries; ++i) {
    EXPECT_OK(ReadLabel(memory_.get(), kTries).status()) << "to look is no try";
    EXPECT_OK(ReadLabel(memory_.get(), kTries).status());
    CountTry(memory_.get(), 1);
  }
  EXPECT_EQ(ReadLabel(memory_.get(), kTries).status().code(), absl::StatusCode::kResourceExhausted);
  CountTry(memory_.get(), -1);
  EXPECT_OK(ReadLabel(memory_.get(), kTries).status());
  CountTry(memory_.get(), 1);
  EXPECT_EQ(ReadLabel(memory_.get(), kTries).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(LabelMemory, ASealOfAnyLengthEndsNothing) {
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{27}, kLabelBytes, ~std::uint64_t{0}}) {
    Put(0, bytes);
    Put(8, 0);
    const auto frame = ReadLabel(memory_.get(), kTries);
    EXPECT_TRUE(!frame.ok() || !DecodeLabel(**frame, kImage).ok()) << bytes;
  }
  Put(0, 100);
  Put(8, ~std::uint64_t{0});
  EXPECT_FALSE(ReadLabel(memory_.get(), kTries).ok());
}

TEST_F(LabelMemory, ALabelIsToldFromAnImage) {
  EXPECT_TRUE(IsLabel(*LookAtMemory(memory_.get())));
  EXPECT_NE(kLabelBytes % (2 << 20), 0u) << "as images are";
}

}  // namespace
}  // namespace cairn

#include "tests/storage/format/ftiff/replay.h"

#include <gtest/gtest.h>

#include <cstring>
#include <type_traits>
#include <utility>

#include "storage/base/status.h"
#include "storage/format/ftiff/variables.h"
#include "storage/format/ftiff/write.h"
#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/support/gunzip.h"
#include "tests/support/vectors.h"

namespace cairn::ftiff::testing {
namespace {

using nlohmann::json;

constexpr int kDifferentialLevel = 8;

const std::map<std::string, std::size_t> kPrimitiveTypes = {{"CHAR", 1}, {"SHRT", 2}, {"INTG", 4}, {"LONG", 8},
                                                            {"UCHR", 1}, {"USHT", 2}, {"UINT", 4}, {"ULNG", 8},
                                                            {"SFLT", 4}, {"DBLE", 8}, {"LDBE", 16}};

// Elements whose value counts up from `first`, times `factor`.
template <typename Element>
void FillElements(std::int64_t first, std::string* bytes) {
  for (std::size_t i = 0; i < bytes->size() / sizeof(Element); ++i) {
    const std::int64_t n = first + static_cast<std::int64_t>(i);
    Element element;
    if constexpr (std::is_floating_point_v<Element>) {
      element = static_cast<Element>(static_cast<double>(n) * 0.25);
    } else {
      element = static_cast<Element>(n);
    }
    std::memcpy(bytes->data() + i * sizeof(Element), &element, sizeof(Element));
  }
}

// The x87's 80 bits in 16 bytes, the others zero.
void FillLongDoubles(std::int64_t first, std::string* bytes) {
  constexpr std::size_t kElementBytes = 16, kUsedBytes = 10;
  bytes->assign(bytes->size(), '\0');
  for (std::size_t i = 0; i < bytes->size() / kElementBytes; ++i) {
    const long double element = static_cast<long double>(first + static_cast<std::int64_t>(i)) * 0.25L;
    std::memcpy(bytes->data() + i * kElementBytes, &element, kUsedBytes);
  }
}

Md5Digest Md5Of(std::string_view bytes) {
  return Md5(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

}  // namespace

std::string LoadVector(const std::string& root, const json& file) {
  std::string bytes = ::cairn::testing::ReadVector(root + "/" + file["stored"].get<std::string>());
  if (file.value("stored_encoding", "") == "gzip") {
    bytes = ::cairn::testing::Gunzip(std::move(bytes), file["size"]).value_or("");
  }
  EXPECT_EQ(HexOf(Md5Of(bytes)), file["md5"].get<std::string>());
  return bytes;
}

Replay::Replay(const json& scenario, std::int64_t app_rank, Load load)
    : scenario_(scenario), app_rank_(app_rank), load_(std::move(load)), types_(kPrimitiveTypes) {}

bool Replay::Next() {
  const json& runs = scenario_["runs"];
  while (run_ < runs.size() && !::testing::Test::HasFailure()) {
    if (step_ == runs[run_].size()) {
      // The memory and what the library knew of its file end with the process.
      ++run_;
      step_ = 0;
      protected_.clear();
      variables_.clear();
      layout_ = {};
      hashes_.clear();
      hashed_.clear();
      last_is_in_file_ = false;
      continue;
    }
    const json& step = runs[run_][step_++];
    if (step.value("only_app_rank", app_rank_) != app_rank_) continue;
    Do(step);
    const std::string op = step["op"];
    if (op == "checkpoint" || op == "incremental_checkpoint") return !::testing::Test::HasFailure();
  }
  return false;
}

void Replay::Do(const json& step) {
  const std::string op = step["op"];
  if (op == "protect") return Protect(step);
  if (op == "mutate") return Mutate(step);
  if (op == "recover") return Recover();
  if (op == "checkpoint" || op == "incremental_checkpoint") return Checkpoint(step);
  if (op == "define_type") {
    types_[step["handle"]] = step["size"];
  } else if (op == "refill_all") {
    salt_ = step["salt"];
    for (auto& [id, variable] : variables_) Fill(&variable);
  } else {
    EXPECT_TRUE(op == "exit_without_finalize" || op == "finalize") << "a step that is not known: " << step;
  }
}

std::size_t Replay::ElementBytes(const std::string& type) const {
  const auto found = types_.find(type);
  EXPECT_NE(found, types_.end()) << type;
  return found == types_.end() ? 1 : found->second;
}

void Replay::Protect(const json& step) {
  const std::int32_t id = step["id"];
  const auto [place, is_first] = variables_.try_emplace(id);
  if (is_first) protected_.push_back(id);
  place->second = {.id = id, .type = step["type"], .count = step["count"], .bytes = {}};
  Fill(&place->second);
}

void Replay::Fill(Variable* variable) {
  variable->version = ++last_version_;
  variable->bytes.assign(variable->count * ElementBytes(variable->type), '\0');
  const std::int64_t offset = salt_ + 17 * app_rank_;
  const std::int64_t first = std::int64_t{variable->id} * 1000003 + offset;
  const std::string& type = variable->type;
  std::string* const bytes = &variable->bytes;
  if (type == "CHAR" || type == "UCHR") return FillElements<std::uint8_t>(first, bytes);
  if (type == "SHRT" || type == "USHT") return FillElements<std::uint16_t>(first, bytes);
  if (type == "INTG" || type == "UINT") return FillElements<std::uint32_t>(first, bytes);
  if (type == "LONG" || type == "ULNG") return FillElements<std::uint64_t>(first, bytes);
  if (type == "SFLT") return FillElements<float>(first, bytes);
  if (type == "DBLE") return FillElements<double>(first, bytes);
  if (type == "LDBE") return FillLongDoubles(first, bytes);
  for (std::size_t q = 0; q < bytes->size(); ++q) {
    (*bytes)[q] =
        static_cast<char>(std::int64_t{variable->id} * 31 + static_cast<std::int64_t>(7 * q + 13 * (q >> 8)) + offset);
  }
}

void Replay::Mutate(const json& step) {
  Variable& variable = variables_.at(step["id"]);
  const std::size_t element_bytes = ElementBytes(variable.type);
  const std::size_t begin = step["first"].get<std::size_t>() * element_bytes;
  const std::size_t end = begin + step["n"].get<std::size_t>() * element_bytes;
  ASSERT_LE(end, variable.bytes.size());
  variable.version = ++last_version_;
  for (std::size_t i = begin; i < end; ++i) {
    variable.bytes[i] = static_cast<char>(variable.bytes[i] + step["delta"].get<int>());
  }
}

// From the last checkpoint of the runs before: the one real file that is looked at.
void Replay::Recover() {
  const std::string file = load_(checkpoint_id_);
  const auto metadata = DecodeMetadata("recovered", file.size(), ReaderOf(file));
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  const Variables stored(metadata->layout);
  for (const VariableSize& variable : stored.sizes()) {
    std::string& bytes = variables_.at(variable.id).bytes;
    variables_.at(variable.id).version = ++last_version_;
    ASSERT_EQ(bytes.size(), variable.bytes);
    const absl::Status read =
        stored.Read("recovered", variable.id, 0, std::as_writable_bytes(std::span(bytes)), ReaderOf(file));
    ASSERT_TRUE(read.ok()) << read;
  }
  layout_ = Placed(metadata->layout, Letter::kF);
  hashes_ = metadata->chunk_hashes;
  last_is_in_file_ = true;
}

std::vector<VariableSize> Replay::Processed(const json& step) const {
  std::vector<VariableSize> sizes;
  if (step.contains("order")) {
    for (const std::int32_t id : step["order"]) sizes.push_back({id, variables_.at(id).bytes.size()});
    return sizes;
  }
  for (const std::int32_t id : protected_) sizes.push_back({id, variables_.at(id).bytes.size()});
  return ProcessingOrder(layout_, sizes);
}

void Replay::Checkpoint(const json& step) {
  checkpoint_id_ = step["ckpt_id"];
  absl::StatusOr<FileLayout> next = PlanNext(layout_, last_is_in_file_, Processed(step), Packing::kExact);
  ASSERT_TRUE(next.ok()) << next.status();
  layout_ = *std::move(next);
  last_is_in_file_ = step["level"] == kDifferentialLevel;
  hashes_.resize(layout_.containers.size());
  hashed_.resize(layout_.containers.size());
  for (std::size_t i = 0; i < hashes_.size(); ++i) {
    const Container& c = layout_.containers[i];
    const Hashed now = {variables_.at(c.id).version, c.chunk_bytes};
    if (!c.has_content || hashed_[i] == now) continue;
    hashes_[i] = Md5Of(std::string_view(memory(c.id)).substr(c.variable_offset, c.chunk_bytes));
    hashed_[i] = now;
  }
}

std::string Replay::File(Letter letter, const FileHeader& header, bool hashes_given) const {
  FileToWrite what{.letter = letter, .header = header, .layout = layout_, .chunk_hashes = {}};
  if (hashes_given) what.chunk_hashes = hashes_;
  std::string file(layout_.file_bytes(letter), '?');
  const ReadVariable read = [this](std::int32_t id, std::uint64_t offset, std::span<std::byte> target) {
    return ReaderOf(memory(id))(offset, target);
  };
  const WriteAt write = [&file](std::uint64_t offset, std::span<const std::byte> bytes) -> absl::Status {
    if (offset > file.size() || bytes.size() > file.size() - offset) return Internal("a write past the end");
    if (!bytes.empty()) std::memcpy(file.data() + offset, bytes.data(), bytes.size());
    return absl::OkStatus();
  };
  const auto written = WriteFile(what, read, write);
  EXPECT_TRUE(written.ok()) << written.status();
  EXPECT_TRUE(!written.ok() || written->file_bytes == file.size());
  return file;
}

}  // namespace cairn::ftiff::testing

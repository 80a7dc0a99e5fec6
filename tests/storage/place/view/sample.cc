#include "tests/storage/place/view/sample.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "storage/base/box.h"
#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/write.h"
#include "storage/format/placement/placement.h"

namespace cairn::view {
namespace {

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

ftiff::FileLayout LayoutOf(const SampleRank& rank, const SampleOptions& options, std::size_t number) {
  std::vector<ftiff::VariableSize> sizes;
  for (const SampleVariable& of : rank) sizes.push_back({of.variable.id(), of.bytes.size()});
  auto layout = number < options.last.size() ? ftiff::PlanNext(options.last[number], false, sizes, options.packing)
                                             : ftiff::PlanFresh(sizes, options.packing);
  CAIRN_CHECK(layout.ok());
  return *std::move(layout);
}

const SampleVariable& Find(const SampleRank& rank, std::int32_t id) {
  return *std::ranges::find(rank, id, [](const SampleVariable& of) { return of.variable.id(); });
}

std::string FileOf(const SampleRank& rank, const ftiff::FileLayout& layout, const SampleOptions& options) {
  std::string file;
  const auto read = [&](std::int32_t id, std::uint64_t offset, std::span<std::byte> target) {
    const std::string& bytes = Find(rank, id).bytes;
    CAIRN_CHECK(offset + target.size() <= bytes.size());
    std::copy_n(Bytes(bytes).begin() + static_cast<std::ptrdiff_t>(offset), target.size(), target.begin());
    return absl::OkStatus();
  };
  const auto write = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    file.resize(std::max(file.size(), offset + bytes.size()));
    std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(file)).begin() + offset);
    return absl::OkStatus();
  };
  const ftiff::FileToWrite to_write{.letter = options.letter,
                                    .header = {.checkpoint_id = static_cast<std::int32_t>(options.dataset)},
                                    .layout = layout,
                                    .chunk_hashes = {}};
  CAIRN_CHECK(ftiff::WriteFile(to_write, read, write).ok());
  return file;
}

// As a capture finds them.
std::vector<Bounds> BoundsOf(const SampleRank& rank, const catalogue::Catalogue& catalogue,
                             const ftiff::FileLayout& layout) {
  std::vector<BoundsScan> scans = ScansFor(catalogue.variables(), layout);
  std::vector<Bounds> bounds;
  for (std::size_t i = 0; i < scans.size(); ++i) {
    const ftiff::Container& container = layout.containers[i];
    scans[i].Add(Bytes(Find(rank, container.id).bytes).subspan(container.variable_offset, container.chunk_bytes));
    bounds.push_back(scans[i].Finish());
  }
  return bounds;
}

}  // namespace

SampleDataset MakeDataset(const std::vector<SampleRank>& ranks, const SampleOptions& options) {
  SampleDataset dataset;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    catalogue::Catalogue& catalogue = dataset.catalogues.emplace_back();
    catalogue.set_run("00112233445566778899aabbccddeeff");
    catalogue.set_launch(options.launch);
    catalogue.set_dataset(options.dataset);
    catalogue.set_step(options.step);
    catalogue.set_rank(static_cast<std::uint32_t>(r));
    catalogue.set_nranks(static_cast<std::uint32_t>(ranks.size()));
    for (const SampleVariable& of : ranks[r]) *catalogue.add_variables() = of.variable;
    const ftiff::FileLayout layout = LayoutOf(ranks[r], options, r);
    dataset.layouts.push_back(layout);
    dataset.files.push_back(ranks[r].empty() ? "" : FileOf(ranks[r], layout, options));
    if (ranks[r].empty()) continue;
    const std::string& content = dataset.files.back();
    catalogue::FileEntry& file = *catalogue.add_file();
    file.set_name(fmt::format("Ckpt{}-Rank{}.fti", options.dataset, r));
    file.set_prefix_name(fmt::format("ckpt.{}/{}", options.dataset, file.name()));
    file.set_bytes(content.size());
    for (std::size_t at = 0; at < content.size(); at += kCrcBlockBytes) {
      file.add_crc32c(Crc32c(Bytes(content).subspan(at, std::min(content.size() - at, std::size_t{kCrcBlockBytes}))));
    }
    file.set_crc32(Crc32(Bytes(content)));
    file.set_has_crc32(true);
    if (!options.placed) continue;
    for (auto& placement :
         PlacementOf(catalogue, ftiff::Placed(layout, options.letter), BoundsOf(ranks[r], catalogue, layout))) {
      *catalogue.add_placement() = std::move(placement);
    }
  }
  return dataset;
}

SampleVariable Plain(std::int32_t id, std::uint32_t type, std::string bytes, std::string name) {
  SampleVariable of{.variable = {}, .bytes = std::move(bytes)};
  of.variable.set_id(id);
  of.variable.set_type(type);
  of.variable.set_name(std::move(name));
  of.variable.set_bytes(of.bytes.size());
  of.variable.set_count(type == 0 ? of.bytes.size() : of.bytes.size() / ElementBytesOf(type));
  return of;
}

SampleVariable Value(std::int32_t id, std::string name, std::uint32_t type, std::string bytes) {
  SampleVariable of = Plain(id, type, std::move(bytes), std::move(name));
  of.variable.set_kind(local::VALUE);
  return of;
}

SampleVariable Array(std::int32_t id, std::string name, std::uint32_t type, std::vector<std::uint64_t> shape,
                     std::vector<std::uint64_t> start, std::vector<std::uint64_t> count, const std::string& whole) {
  const std::uint32_t element = ElementBytesOf(type);
  const Box all{Extents(shape.size(), 0), Extents(shape.begin(), shape.end())};
  const Box box{Extents(start.begin(), start.end()), Extents(count.begin(), count.end())};
  std::string bytes(*Elements(box.count) * element, '\0');
  if (!Empty(box)) {
    const RowPattern pattern = PatternOf(box, all, box);
    ForEachRow(pattern, [&](std::uint64_t from, std::uint64_t to) {
      bytes.replace(to * element, pattern.row * element, whole, from * element, pattern.row * element);
    });
  }
  SampleVariable of = Plain(id, type, std::move(bytes), std::move(name));
  of.variable.set_kind(local::ARRAY);
  of.variable.mutable_shape()->Assign(shape.begin(), shape.end());
  of.variable.mutable_box_start()->Assign(start.begin(), start.end());
  of.variable.mutable_box_count()->Assign(count.begin(), count.end());
  return of;
}

Reader::Reader(const ViewFiles& view, const std::map<std::string, std::string>& files) : view_(view) {
  for (const Link& link : view_.links) {
    EXPECT_TRUE(link.name.starts_with("data."));
    subfiles_[static_cast<std::uint32_t>(std::stoul(link.name.substr(5)))] = files.at(link.target);
  }
  const absl::Status status = metadata_.Extend({.index = Bytes(view_.index),
                                                .formats = Bytes(view_.formats),
                                                .metadata_begin = 0,
                                                .metadata = Bytes(view_.metadata)});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(metadata_.index_bytes(), view_.index.size());
}

absl::Status Reader::Read(std::uint32_t subfile, std::uint64_t offset, std::span<std::byte> target) {
  const auto file = subfiles_.find(subfile);
  if (file == subfiles_.end()) return NotFound("no data.{}", subfile);
  if (offset > file->second.size() || target.size() > file->second.size() - offset) return DataLoss("too short");
  std::copy_n(Bytes(file->second).begin() + static_cast<std::ptrdiff_t>(offset), target.size(), target.begin());
  return absl::OkStatus();
}

bp5::VariableNumber Reader::Number(const std::string& name) const {
  const auto number = metadata_.FindVariable(name);
  EXPECT_TRUE(number.has_value()) << name;
  CAIRN_CHECK(number.has_value());
  return *number;
}

std::string Reader::All(const std::string& name, std::uint32_t step) {
  const auto shape = metadata_.Shape(Number(name), step);
  EXPECT_TRUE(shape.ok()) << shape.status();
  return Select(name, {Extents(shape->size(), 0), *shape}, step);
}

std::string Reader::Select(const std::string& name, const Box& box, std::uint32_t step) {
  std::string bytes(*Elements(box.count) * Of(name).element_bytes, '\0');
  const auto covered =
      bp5::ReadSelection(metadata_, Number(name), step, box, *this, std::as_writable_bytes(std::span(bytes)));
  EXPECT_TRUE(covered.ok()) << covered.status();
  EXPECT_TRUE(covered.ok() && *covered) << name << " has holes";
  return bytes;
}

std::string Reader::Block(const std::string& name, std::uint64_t id, std::uint32_t step) {
  bp5::BlockWalk walk = metadata_.Blocks(Number(name), step);
  while (walk.Next()) {
    if (walk.block().id != id) continue;
    std::string bytes(walk.block().stored_bytes, '\0');
    const absl::Status read =
        bp5::ReadBlock(metadata_, Number(name), step, id, {}, *this, std::as_writable_bytes(std::span(bytes)));
    EXPECT_TRUE(read.ok()) << read;
    return bytes;
  }
  ADD_FAILURE() << name << " has no block " << id << ": " << walk.status();
  return {};
}

std::string Reader::Scalar(const std::string& name, std::uint32_t writer, std::uint32_t step) {
  const auto bytes = metadata_.Scalar(Number(name), step, writer);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  if (!bytes.ok()) return {};
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

std::vector<std::pair<std::uint32_t, std::string>> Reader::Bounds(const std::string& name, std::uint32_t step) {
  std::vector<std::pair<std::uint32_t, std::string>> bounds;
  const std::uint32_t element = Of(name).element_bytes;
  bp5::BlockWalk walk = metadata_.Blocks(Number(name), step);
  while (walk.Next()) {
    std::string text;
    if (walk.block().min != nullptr) {
      text.append(reinterpret_cast<const char*>(walk.block().min), element);
      text.append(reinterpret_cast<const char*>(walk.block().max), element);
    }
    bounds.emplace_back(walk.block().writer, std::move(text));
  }
  EXPECT_TRUE(walk.status().ok()) << walk.status();
  return bounds;
}

std::map<std::string, std::string> FilesOf(const SampleDataset& dataset, const std::string& to_prefix) {
  std::map<std::string, std::string> files;
  for (std::size_t r = 0; r < dataset.files.size(); ++r) {
    for (const auto& file : dataset.catalogues[r].file())
      files[to_prefix + "/" + file.prefix_name()] = dataset.files[r];
  }
  return files;
}

}  // namespace cairn::view

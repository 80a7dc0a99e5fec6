#include "tests/client/cli/file_fixture.h"

#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>

#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/write.h"

namespace cairn::testing {
namespace {

std::vector<ftiff::VariableSize> SizesOf(const Contents& contents) {
  std::vector<ftiff::VariableSize> sizes;
  for (const auto& [id, bytes] : contents) sizes.push_back({.id = id, .bytes = bytes.size()});
  return sizes;
}

}  // namespace

std::string MakeCheckpoint(const std::vector<Contents>& checkpoints, const CheckpointOptions& options) {
  auto layout = ftiff::PlanFresh(SizesOf(checkpoints.front()), options.packing);
  for (std::size_t i = 1; i < checkpoints.size() && layout.ok(); ++i) {
    layout = ftiff::PlanNext(*layout, /*last_is_restored=*/false, SizesOf(checkpoints[i]), options.packing);
  }
  if (!layout.ok()) {
    ADD_FAILURE() << layout.status();
    return {};
  }
  std::map<std::int32_t, const std::string*> variables;
  for (const auto& [id, bytes] : checkpoints.back()) variables[id] = &bytes;
  std::string file;
  const auto read = [&](std::int32_t id, std::uint64_t offset, std::span<std::byte> target) {
    std::memcpy(target.data(), variables.at(id)->data() + offset, target.size());
    return absl::OkStatus();
  };
  const auto write = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    file.resize(std::max(file.size(), offset + bytes.size()));
    std::memcpy(file.data() + offset, bytes.data(), bytes.size());
    return absl::OkStatus();
  };
  // What containers without content had last.
  std::vector<Md5Digest> hashes;
  for (const ftiff::Container& container : layout->containers) {
    const std::string chunk = container.has_content
                                  ? variables.at(container.id)->substr(container.variable_offset, container.chunk_bytes)
                                  : "what was here";
    hashes.push_back(Md5(std::as_bytes(std::span(chunk))));
  }
  const auto written = ftiff::WriteFile(
      {.letter = options.letter, .header = options.header, .layout = *layout, .chunk_hashes = hashes}, read, write);
  EXPECT_TRUE(written.ok()) << written.status();
  return file;
}

std::string MakeCodeFile(const std::string& code, std::int32_t checkpoint_id) {
  const auto record = ftiff::EncodeEncodedRecord({.letter = ftiff::Letter::kF,
                                                  .checkpoint_id = checkpoint_id,
                                                  .timestamp_ns = 5,
                                                  .code_bytes = code.size(),
                                                  .checkpoint_bytes = code.size() - 8,
                                                  .checksum_hex = HexOf(Md5(std::as_bytes(std::span(code))))});
  return code + std::string(reinterpret_cast<const char*>(record.data()), record.size());
}

std::string Pattern(std::int32_t seed, std::size_t bytes) {
  std::string pattern(bytes, '\0');
  std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761u + 1;
  for (char& c : pattern) {
    state = state * 1664525u + 1013904223u;
    c = static_cast<char>(state >> 24);
  }
  return pattern;
}

FileFixture::FileFixture() {
  std::string name = ::testing::TempDir() + "cairn-files-XXXXXX";
  folder_ = std::filesystem::canonical(mkdtemp(name.data())).string();
}

FileFixture::~FileFixture() {
  std::filesystem::remove_all(folder_);
}

std::string FileFixture::Write(const std::string& name, const std::string& bytes) const {
  std::ofstream(Path(name), std::ios::binary) << bytes;
  return Path(name);
}

std::string FileFixture::Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::string> FileFixture::Names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

CairnRun FileFixture::Run(const std::vector<std::string>& arguments) const {
  return RunCairn(arguments, {{"CAIRN_ADMIN_ADDRESS", Path("none.sock")}});
}

void FileFixture::ExpectFailsWhenFilesEndAt([[maybe_unused]] std::uint64_t bytes,
                                            [[maybe_unused]] const std::vector<std::string>& arguments) const {
#ifndef __SANITIZE_THREAD__
  const std::vector<std::string> names = Names();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = bytes;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const CairnRun run = Run(arguments);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ExpectSaid(run, 1, "File too large");
  EXPECT_EQ(Names(), names);
#endif
}

nlohmann::json FileFixture::RunJson(std::vector<std::string> arguments, int exit_code) const {
  arguments.push_back("--json");
  const CairnRun run = Run(arguments);
  EXPECT_EQ(run.exit_code, exit_code) << run.out << run.err;
  nlohmann::json json = nlohmann::json::parse(run.out, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(json.is_discarded()) << run.out << run.err;
  return json.is_discarded() ? nlohmann::json::object() : json;
}

void FileFixture::ExpectSaid(const CairnRun& run, int exit_code, std::string_view part) {
  EXPECT_EQ(run.exit_code, exit_code) << run.out << run.err;
  EXPECT_NE((run.out + run.err).find(part), std::string::npos) << part << "\n--\n" << run.out << run.err;
}

}  // namespace cairn::testing

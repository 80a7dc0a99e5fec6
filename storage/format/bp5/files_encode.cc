#include <algorithm>
#include <cstring>
#include <set>

#include "storage/base/check.h"
#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/walk.h"

namespace cairn::bp5 {
namespace {

// The version of ADIOS2 whose layout this is, as two places of the header have it: BP5 specification, section 3.
constexpr std::string_view kAdiosVersion = "2<0", kHeaderText = "ADIOS-BP v2.<.0 Index Table";

void AddNumber(std::uint64_t number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace

std::string EncodeIndexHeader(const IndexOptions& options) {
  std::string header(kIndexHeaderBytes, '\0');
  header.replace(0, kHeaderText.size(), kHeaderText);
  header.replace(32, kAdiosVersion.size(), kAdiosVersion);
  header[37] = 5;
  header[38] = 2;
  header[kActiveOffset] = options.active ? 1 : 0;
  header[40] = options.column_major ? 'y' : 'n';
  std::memcpy(header.data() + 42, &options.id, sizeof(options.id));
  return header;
}

std::string EncodeWriterMap(std::span<const std::uint32_t> subfiles, std::uint32_t aggregators) {
  std::uint64_t end = 0;
  for (const std::uint32_t subfile : subfiles) end = std::max(end, std::uint64_t{subfile} + 1);
  std::string record = "w";
  AddNumber(8 * (3 + subfiles.size()), record);
  AddNumber(subfiles.size(), record);
  AddNumber(aggregators, record);
  AddNumber(end, record);
  for (const std::uint32_t subfile : subfiles) AddNumber(subfile, record);
  return record;
}

std::string EncodeStepMetadata(std::span<const EncodedStep> writers) {
  std::vector<std::string_view> attributes;
  std::set<std::string_view> seen;
  std::uint64_t bytes = 16 * writers.size();
  for (const EncodedStep& writer : writers) {
    bytes += writer.record.size();
    if (writer.attributes_format == nullptr || !seen.insert(writer.attributes).second) continue;
    attributes.push_back(writer.attributes);
    bytes += writer.attributes.size();
  }
  std::string metadata;
  metadata.reserve(8 + bytes);
  AddNumber(bytes, metadata);
  for (const EncodedStep& writer : writers) AddNumber(writer.record.size(), metadata);
  for (std::size_t i = 0; i < writers.size(); ++i)
    AddNumber(i < attributes.size() ? attributes[i].size() : 0, metadata);
  for (const EncodedStep& writer : writers) metadata += writer.record;
  for (const std::string_view record : attributes) metadata += record;
  return metadata;
}

std::string EncodeStepRecord(std::uint64_t metadata_offset, std::uint64_t metadata_bytes,
                             std::span<const WriterData> writers) {
  const std::size_t flushes = writers.empty() ? 0 : writers.front().flushed.size();
  std::string record = "s";
  record.reserve(9 + 8 * (3 + writers.size() * (2 * flushes + 1)));
  AddNumber(8 * (3 + writers.size() * (2 * flushes + 1)), record);
  AddNumber(metadata_offset, record);
  AddNumber(metadata_bytes, record);
  AddNumber(flushes, record);
  for (const WriterData& writer : writers) {
    CAIRN_CHECK(writer.flushed.size() == flushes);
    for (const auto& [position, bytes] : writer.flushed) {
      AddNumber(position, record);
      AddNumber(bytes, record);
    }
    AddNumber(writer.position, record);
  }
  return record;
}

std::string EncodeFormatEntry(const FormatBlock& block) {
  const std::uint64_t padding = -block.bytes.size() % 8;
  std::string entry;
  AddNumber(block.id.bytes.size(), entry);
  AddNumber(block.bytes.size() + padding, entry);
  entry.append(reinterpret_cast<const char*>(block.id.bytes.data()), block.id.bytes.size());
  entry += block.bytes;
  entry.append(padding, '\0');
  return entry;
}

}  // namespace cairn::bp5

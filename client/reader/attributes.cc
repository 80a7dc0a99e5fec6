// The calls on attributes.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/reader/cairn_reader.h"
#include "client/reader/guard.h"
#include "client/reader/handle.h"
#include "storage/base/status.h"
#include "storage/format/bp5/metadata.h"

struct cairn_reader_attributes {
  struct One {
    cairn::bp5::Attribute attribute;
    std::vector<const char*> strings;  // into attribute.strings
  };
  std::vector<One> list;
};

namespace {

std::unique_ptr<cairn_reader_attributes> ListOf(std::map<std::string, cairn::bp5::Attribute> attributes) {
  auto opened = std::make_unique<cairn_reader_attributes>();
  opened->list.reserve(attributes.size());  // what points into them stays right
  for (auto& [name, attribute] : attributes) {
    auto& one = opened->list.emplace_back();
    one.attribute = std::move(attribute);
    for (const std::string& text : one.attribute.strings) one.strings.push_back(text.c_str());
  }
  return opened;
}

cairn_reader_attribute_info InfoOf(const cairn_reader_attributes::One& one) {
  const cairn::bp5::Attribute& attribute = one.attribute;
  cairn_reader_attribute_info info{};
  info.name = attribute.name.c_str();
  info.type = static_cast<std::int32_t>(attribute.type);
  info.single = attribute.single ? 1 : 0;
  if (attribute.type == cairn::bp5::Type::kString) {
    info.count = one.strings.size();
    info.strings = one.strings.data();
  } else {
    info.count = attribute.values.size() / cairn::bp5::ElementBytes(attribute.type);
    info.values = attribute.values.data();
  }
  return info;
}

}  // namespace

int cairn_reader_open_attributes(cairn_reader* reader, uint64_t step, cairn_reader_attributes** attributes) {
  return cairn::reader::Guard([&]() -> absl::Status {
    if (attributes == nullptr) return absl::InvalidArgumentError("the pointer for the handle is NULL");
    *attributes = nullptr;
    if (reader == nullptr) return absl::InvalidArgumentError("no reader");
    absl::ReaderMutexLock lock(&reader->mutex);
    CAIRN_RETURN_IF_ERROR(reader->directory->CheckHeld());
    const cairn::bp5::Metadata& metadata = reader->directory->metadata();
    if (step >= metadata.steps()) return cairn::NotFound("there are {} steps, and no step {}", metadata.steps(), step);
    CAIRN_ASSIGN_OR_RETURN(auto found, metadata.Attributes(static_cast<std::uint32_t>(step)));
    *attributes = ListOf(std::move(found)).release();
    return absl::OkStatus();
  });
}

void cairn_reader_close_attributes(cairn_reader_attributes* attributes) {
  delete attributes;
}

uint64_t cairn_reader_attribute_count(const cairn_reader_attributes* attributes) {
  return attributes == nullptr ? 0 : attributes->list.size();
}

int cairn_reader_attribute(const cairn_reader_attributes* attributes, uint64_t index,
                           cairn_reader_attribute_info* info) {
  return cairn::reader::Guard([&]() -> absl::Status {
    if (attributes == nullptr) return absl::InvalidArgumentError("no attributes");
    CAIRN_RETURN_IF_ERROR(cairn::reader::CheckSize(info));
    if (index >= attributes->list.size()) return cairn::NotFound("there are {} attributes", attributes->list.size());
    cairn::reader::Give(InfoOf(attributes->list[index]), info);
    return absl::OkStatus();
  });
}

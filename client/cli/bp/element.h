// Elements of one array variable as text: numbers, or structs field by field as their own format describes them.
#ifndef CAIRN_CLIENT_CLI_BP_ELEMENT_H_
#define CAIRN_CLIENT_CLI_BP_ELEMENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/format/bp5/metadata.h"

namespace cairn::cli {

// A field of a struct: `count` numbers behind one another.
struct ElementField {
  std::string name;
  bp5::Type type = bp5::Type::kInt8;
  std::uint32_t offset = 0;
  std::uint32_t count = 1;
  bool single = true;  // no array of one
};

class Element {
 public:
  // Borrows nothing that goes with the metadata's next change but the names of fields, which are copied.
  Element(const bp5::Metadata& metadata, const bp5::Variable& variable);

  std::uint32_t bytes() const { return bytes_; }
  // Structs whose format is flat (numbers and arrays of them); else empty: shown as bytes in hex.
  const std::vector<ElementField>& fields() const { return fields_; }
  const std::string& struct_name() const { return struct_name_; }

  void AppendExact(std::string& out, const std::byte* at) const;  // "{id: 0, x: [0, 1]}"
  void AppendJson(std::string& out, const std::byte* at) const;   // {"id": 0, "x": [0, 1]}

 private:
  bp5::Type type_;
  std::uint32_t bytes_;
  std::string struct_name_;
  std::vector<ElementField> fields_;
};

// The type as a listing names it: "double", "struct particle".
std::string TypeText(const Element& element, const bp5::Variable& variable);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_ELEMENT_H_

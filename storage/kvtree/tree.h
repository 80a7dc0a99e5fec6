// SCR's hash of hashes and its file format. Source: SCR specification, section 1. Pure codec, no I/O.
#ifndef CAIRN_STORAGE_KVTREE_TREE_H_
#define CAIRN_STORAGE_KVTREE_TREE_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::kvtree {

// An ordered list of (key, child tree); keys are unique. A value is a key whose child is empty. Order carries no
// meaning but is kept from file to file; a new key goes to the front, as the original does.
class Tree {
 public:
  using Element = std::pair<std::string, Tree>;

  bool empty() const { return elements_.empty(); }
  std::size_t size() const { return elements_.size(); }
  const std::vector<Element>& elements() const { return elements_; }  // in file order
  std::vector<Element>& elements() { return elements_; }

  const Tree* Find(std::string_view key) const;  // nullptr: not there
  Tree* Find(std::string_view key);
  const Tree* FindPath(std::initializer_list<std::string_view> keys) const;
  Tree& At(std::string_view key);                // makes it (at the front) if it is not there
  Tree& SetEmpty(std::string_view key);          // as At, but the child is emptied and the key moved to the front
  bool Erase(std::string_view key);              // false: was not there
  void Merge(const Tree& other);                 // other's elements into this, recursively

  // Single values: `Set("SIZE", "10")` replaces whatever was under SIZE.
  void Set(std::string_view key, std::string_view value);
  void Set(std::string_view key, std::uint64_t value);
  void SetInt(std::string_view key, std::int64_t value);
  void SetBool(std::string_view key, bool value);
  void SetCrc32(std::string_view key, std::uint32_t value);  // 0x…, zero is 0
  std::optional<std::string_view> Get(std::string_view key) const;  // the first value under key
  // kNotFound: no such key; kDataLoss: the value is no such number (the message names the key and the text).
  absl::StatusOr<std::string> GetString(std::string_view key) const;
  absl::StatusOr<std::uint64_t> GetUnsigned(std::string_view key) const;
  absl::StatusOr<std::int64_t> GetInt(std::string_view key) const;
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::uint32_t> GetCrc32(std::string_view key) const;

  // As maps: order does not count.
  bool SameAs(const Tree& other) const;

 private:
  std::vector<Element> elements_;
};

inline constexpr std::uint64_t kFileBytesMax = 64u << 20;
inline constexpr int kDepthMax = 256;

// A whole file: header, tree, CRC.
std::string Encode(const Tree& tree);

// kDataLoss, naming `name`, section and offset. `declared_bytes`, if given, receives where a payload behind begins.
absl::StatusOr<Tree> Decode(std::string_view name, std::string_view file, std::uint64_t* declared_bytes = nullptr);

// One key per line, two spaces per level, the first level indented by two; file order (as SCR's printer).
std::string Print(const Tree& tree);

}  // namespace cairn::kvtree

#endif  // CAIRN_STORAGE_KVTREE_TREE_H_

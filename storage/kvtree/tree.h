// SCR's hash of hashes and its file format. Source: SCR specification, section 1. Pure codec, no I/O.
// Thread-safety: const methods may run concurrently.
#ifndef CAIRN_STORAGE_KVTREE_TREE_H_
#define CAIRN_STORAGE_KVTREE_TREE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/kvtree/key_index.h"

namespace cairn::kvtree {

// An ordered list of (key, child tree); keys are unique. A value is a key whose child is empty. Order carries no
// meaning but is kept from file to file; a new key goes to the front, as the original does.
// Finding and adding a key take constant time, however wide the level is; erasing one takes time in its width.
class Tree {
 public:
  using Element = std::pair<std::string, Tree>;

  Tree() = default;
  Tree(const Tree& other);
  Tree(Tree&&) noexcept = default;
  Tree& operator=(const Tree& other);
  Tree& operator=(Tree&&) noexcept = default;
  ~Tree() = default;

  bool empty() const { return newest_last_.empty(); }
  std::size_t size() const { return newest_last_.size(); }

  // The elements in file order: for (const auto& [key, child] : tree.elements()). Valid until the tree changes; change
  // a child through Find or At.
  class Elements {
   public:
    auto begin() const { return std::make_reverse_iterator(data_ + size_); }
    auto end() const { return std::make_reverse_iterator(data_); }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    const Element& front() const { return data_[size_ - 1]; }
    const Element& operator[](std::size_t at) const { return data_[size_ - 1 - at]; }

   private:
    friend class Tree;
    Elements(const Element* data, std::size_t size) : data_(data), size_(size) {}

    const Element* data_;  // newest last
    std::size_t size_;
  };
  Elements elements() const { return {newest_last_.data(), newest_last_.size()}; }

  const Tree* Find(std::string_view key) const;  // nullptr: not there. Valid until this level changes
  Tree* Find(std::string_view key);
  const Tree* FindPath(std::initializer_list<std::string_view> keys) const;
  Tree& At(std::string_view key);        // makes it (at the front) if it is not there
  Tree& SetEmpty(std::string_view key);  // as At, but the child is emptied and the key moved to the front
  bool Erase(std::string_view key);      // false: was not there
  void Merge(const Tree& other);         // other's elements into this, recursively. REQUIRES: no part of this
  void Sort();                           // by key as strings, on each level below, too

  // Single values: `Set("SIZE", "10")` replaces whatever was under SIZE, and moves it to the front.
  void Set(std::string_view key, std::string_view value);
  void Set(std::string_view key, std::uint64_t value);
  void SetInt(std::string_view key, std::int64_t value);
  void SetBool(std::string_view key, bool value);
  void SetCrc32(std::string_view key, std::uint32_t value);         // 0x…, zero is 0
  std::optional<std::string_view> Get(std::string_view key) const;  // the first value under key
  // kNotFound: no such key, or no value under it; kDataLoss: the value is no such number (the message names the key
  // and the text).
  absl::StatusOr<std::string> GetString(std::string_view key) const;
  absl::StatusOr<std::uint64_t> GetUnsigned(std::string_view key) const;
  absl::StatusOr<std::int64_t> GetInt(std::string_view key) const;
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::uint32_t> GetCrc32(std::string_view key) const;

  // As maps: order does not count.
  bool SameAs(const Tree& other) const;

 private:
  friend class LevelReader;

  std::optional<std::size_t> PositionOf(std::string_view key) const;
  Tree& Append(std::string key, Tree child);  // to the front of the file order. REQUIRES: not there
  void BuildIndex();

  // The reverse of the file order, so that the front, where new keys go, is where a vector grows.
  std::vector<Element> newest_last_;
  std::unique_ptr<KeyIndex> index_;  // exists while the level is too wide for a linear search
};

inline constexpr std::uint64_t kFileBytesMax = 64u << 20;
inline constexpr int kDepthMax = 256;  // levels of keys

// Whether a file of this tree could be read again. Ask before encoding what others have named.
//   kInvalidArgument  a key has a NUL in it (the message names the key), the file would be larger than kFileBytesMax,
//                     or deeper than kDepthMax
absl::Status Encodable(const Tree& tree);

// A whole file: header, tree, CRC. REQUIRES: Encodable(tree).ok().
std::string Encode(const Tree& tree);

// Bytes of the tree alone, as it is packed in a file.
std::uint64_t PackedBytes(const Tree& tree);

// `name` says in errors which file it is. `declared_bytes`, if given, receives where a payload behind begins.
//   kNotFound  zero bytes long: as good as missing (an empty tree only in a file that is made by locking it)
//   kDataLoss  not a whole, undamaged tree within the limits above; the message names section and offset
absl::StatusOr<Tree> Decode(std::string_view name, std::string_view file, std::uint64_t* declared_bytes = nullptr);

// One key per line, two spaces per level, the first level indented by two; file order (as SCR's printer).
std::string Print(const Tree& tree);

}  // namespace cairn::kvtree

#endif  // CAIRN_STORAGE_KVTREE_TREE_H_

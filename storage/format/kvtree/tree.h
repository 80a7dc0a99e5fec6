// SCR's hash of hashes and its file format. Source: SCR specification, section 1. Pure codec, no I/O.
// Thread-safety: const methods may run concurrently.
#ifndef CAIRN_STORAGE_FORMAT_KVTREE_TREE_H_
#define CAIRN_STORAGE_FORMAT_KVTREE_TREE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/format/kvtree/chunked_list.h"
#include "storage/format/kvtree/key_index.h"

namespace cairn::kvtree {

// By bytes, or those that are numbers by their value (and before all others, which follow by bytes).
enum class SortBy : std::uint8_t { kText, kNumber };
enum class Direction : std::uint8_t { kAscending, kDescending };

// An ordered list of (key, child tree); keys are unique. A value is a key whose child is empty. Order carries no
// meaning but is kept from file to file; a new key goes to the front, as the original does.
// Finding and adding a key take constant time, however wide the level is; erasing one takes time in its width. Copies
// share their levels: a copy costs nothing, and a change of it copies what is near to it (chunked_list.h).
class Tree {
 public:
  Tree() = default;
  Tree(const Tree& other);
  Tree(Tree&& other) noexcept;  // `other` is then empty
  Tree& operator=(const Tree& other);
  Tree& operator=(Tree&& other) noexcept;
  ~Tree();

  bool empty() const;
  std::size_t size() const;

  // The elements in file order: for (const auto& [key, child] : tree.elements()). To change a child, ask for it by Find
  // or At: that, like any change, ends what elements, Find and Get of this tree have given before.
  class Elements;
  Elements elements() const;

  const Tree* Find(std::string_view key) const;  // nullptr: not there
  Tree* Find(std::string_view key);
  const Tree* FindPath(std::initializer_list<std::string_view> keys) const;
  Tree& At(std::string_view key);        // makes it (at the front) if it is not there
  Tree& SetEmpty(std::string_view key);  // as At, but the child is emptied and the key moved to the front
  bool Erase(std::string_view key);      // false: was not there
  void Merge(const Tree& other);         // other's elements into this, recursively. REQUIRES: no part of this
  void Reserve(std::size_t elements);    // room for so many, for speed alone
  void Sort();                           // by key as text, on each level below, too
  void SortLevel(SortBy by, Direction direction = Direction::kAscending);  // this level alone
  // The keys in such an order, valid as long as the elements.
  std::vector<std::string_view> SortedKeys(SortBy by, Direction direction = Direction::kAscending) const;

  // Single values: `Set("SIZE", "10")` replaces whatever was under SIZE, and moves it to the front.
  void Set(std::string_view key, std::string_view value);
  void Set(std::string_view key, std::uint64_t value);
  void SetInt(std::string_view key, std::int64_t value);
  void SetBool(std::string_view key, bool value);
  void SetCrc32(std::string_view key, std::uint32_t value);         // 0x…, zero is 0
  void SetDouble(std::string_view key, double value);               // six decimals. REQUIRES: finite
  std::optional<std::string_view> Get(std::string_view key) const;  // the first value under key
  // kNotFound: no such key, or no value under it; kDataLoss: the value is no such number, or out of its range (the
  // message names the key and the text).
  absl::StatusOr<std::string> GetString(std::string_view key) const;
  absl::StatusOr<std::uint64_t> GetUnsigned(std::string_view key) const;
  absl::StatusOr<std::int64_t> GetInt(std::string_view key) const;
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::uint32_t> GetCrc32(std::string_view key) const;
  absl::StatusOr<double> GetDouble(std::string_view key) const;  // finite; a decimal number of any form

  // As maps: order does not count.
  bool SameAs(const Tree& other) const;
  // How many of the last elements are known to be the same in both without a look at them: what a copy that was changed
  // still shares with its original.
  std::size_t SharedAtTheEnd(const Tree& other) const;

 private:
  friend class LevelReader;
  friend class LevelWriter;
  struct Level;
  struct Packed;
  struct Item {
    const std::string& first;
    const Tree& second;
  };

  static const Tree kNothing;

  // REQUIRES: level_.
  Level& Open() const;  // to read it
  Level& Change();      // to change it: it is this tree's alone afterwards

  Item ItemAt(std::size_t position) const;
  Level& Widen();
  Tree& Append(std::string_view key);   // to the front of the file order. REQUIRES: not there
  void AppendValue(std::string value);  // the same, without children

  // Nearly every tree of a record is a value: one key without children. It is kept here, without a level of its own,
  // unless the key is empty. So a filemap of many files needs half the memory and far fewer allocations.
  std::string value_;
  std::shared_ptr<Level> level_;  // if it exists, `value_` is empty
};

// A level as it was in its file, with all below it, checked already. Most of a large record is never looked at when one
// entry of it changes: it stays like this, and goes into the new file as it is.
struct Tree::Packed {
  Packed(std::shared_ptr<const std::string> owner, std::string_view view, int depth)
      : file(std::move(owner)), bytes(view), levels(depth) {}

  std::shared_ptr<const std::string> file;
  std::string_view bytes;  // of the file
  int levels;              // of keys, in there
  std::once_flag opened;
};

struct Tree::Level {
  using Element = std::pair<std::string, Tree>;

  Level() = default;
  Level(const Level& other);

  std::optional<std::size_t> PositionOf(std::string_view key, std::size_t from = 0) const;
  Tree& Append(std::string_view key);
  void Erase(std::size_t position);

  // A level whose elements come in file order is filled from its end: room for `count`, each put in its place, and
  // what was not needed dropped from the beginning.
  void FillFromBehind(std::size_t count);
  Tree& Fill(std::size_t at, std::string_view key);
  void DropUnfilled(std::size_t count);

  void BuildIndex();
  void Unpack();  // codec.cc; more than one thread may come at once

  // The reverse of the file order, so that the front, where new keys go, is where a vector grows.
  ChunkedList<Element> newest_last;
  std::unique_ptr<KeyIndex> index;  // exists while the level is too wide for a linear search
  // Exists while nothing was changed since the level was read. The above is empty until someone looks.
  std::unique_ptr<Packed> packed;
};

class Tree::Elements {
 public:
  class Iterator {
   public:
    Item operator*() const { return tree_->ItemAt(left_ - 1); }
    Iterator& operator++() {
      --left_;
      return *this;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    friend class Elements;
    Iterator(const Tree* tree, std::size_t left) : tree_(tree), left_(left) {}

    const Tree* tree_;
    std::size_t left_;
  };

  Iterator begin() const { return {tree_, size()}; }
  Iterator end() const { return {tree_, 0}; }
  std::size_t size() const { return tree_->size(); }
  bool empty() const { return tree_->empty(); }
  Item front() const { return tree_->ItemAt(size() - 1); }
  Item operator[](std::size_t at) const { return tree_->ItemAt(size() - 1 - at); }

 private:
  friend class Tree;
  explicit Elements(const Tree* tree) : tree_(tree) {}

  const Tree* tree_;
};

inline Tree::~Tree() = default;
inline Tree::Tree(Tree&& other) noexcept
    : value_(std::exchange(other.value_, {})), level_(std::exchange(other.level_, nullptr)) {}
inline Tree::Level& Tree::Open() const {
  if (level_->packed) level_->Unpack();
  return *level_;
}
inline bool Tree::empty() const {
  return level_ ? !level_->packed && level_->newest_last.empty() : value_.empty();
}
inline Tree::Item Tree::ItemAt(std::size_t position) const {
  if (!level_) return {value_, kNothing};
  const Level::Element& element = Open().newest_last[position];
  return {element.first, element.second};
}
inline Tree::Elements Tree::elements() const {
  return Elements(this);
}
inline std::size_t Tree::size() const {
  return level_ ? Open().newest_last.size() : !value_.empty();
}

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

#endif  // CAIRN_STORAGE_FORMAT_KVTREE_TREE_H_

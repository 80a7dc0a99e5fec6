#include <endian.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/kvtree/tree.h"

namespace cairn::kvtree {
namespace {

// SCR specification, 1.2. All integers big-endian.
constexpr std::uint32_t kMagic = 0x951fc3f5;
constexpr std::uint32_t kTypeAndVersion = 0x00010001;
constexpr std::uint32_t kFlagCrc = 1;
constexpr std::uint64_t kHeaderBytes = 20;
constexpr std::uint64_t kCrcBytes = 4;
constexpr std::uint64_t kCountBytes = 4;
constexpr std::uint64_t kElementBytesMin = 5;  // one NUL and the count of an empty tree

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::uint64_t LoadBig(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

void PrintLevel(const Tree& tree, std::size_t indent, std::string& text) {
  for (const auto& [key, child] : tree.elements()) {
    text.append(indent, ' ').append(key).push_back('\n');
    PrintLevel(child, indent + 2, text);
  }
}

}  // namespace

// Packs trees. What was read and never changed goes in as it was.
class LevelWriter {
 public:
  static std::uint64_t PackedBytes(const Tree& tree) {
    if (const Tree::Packed* packed = PackedOf(tree)) return packed->bytes.size();
    std::uint64_t bytes = kCountBytes;
    for (const auto& [key, child] : tree.elements()) bytes += key.size() + 1 + PackedBytes(child);
    return bytes;
  }

  // Adds up `bytes` of the packed tree, and checks what Encodable promises about keys and levels.
  static absl::Status Measure(const Tree& tree, int depth, std::uint64_t& bytes) {
    const Tree::Packed* const packed = PackedOf(tree);
    bytes += packed != nullptr ? packed->bytes.size() : kCountBytes;
    if (tree.empty()) return absl::OkStatus();
    if (depth + (packed != nullptr ? packed->levels : 1) > kDepthMax) {
      return InvalidArgument("kvtree: more than {} levels", kDepthMax);
    }
    if (packed != nullptr) return absl::OkStatus();
    for (const auto& [key, child] : tree.elements()) {
      if (const std::size_t nul = key.find('\0'); nul != std::string::npos) {
        return InvalidArgument("kvtree: key {} has a NUL at {}", Quoted(key), nul);
      }
      bytes += key.size() + 1;
      CAIRN_RETURN_IF_ERROR(Measure(child, depth + 1, bytes));
    }
    return absl::OkStatus();
  }

  // Into a buffer that was measured before.
  explicit LevelWriter(char* at) : at_(at) {}

  void Put32(std::uint32_t value) {
    const std::uint32_t big = htobe32(value);
    std::memcpy(at_, &big, sizeof(big));
    at_ += sizeof(big);
  }
  // What Encodable says of keys and levels is checked on the way.
  void PutTree(const Tree& tree, int depth = 0) {
    if (const Tree::Packed* packed = PackedOf(tree)) {
      CAIRN_CHECK(depth + packed->levels <= kDepthMax);
      std::memcpy(at_, packed->bytes.data(), packed->bytes.size());
      at_ += packed->bytes.size();
      return;
    }
    CAIRN_CHECK(tree.empty() || depth < kDepthMax);
    Put32(static_cast<std::uint32_t>(tree.size()));
    for (const auto& [key, child] : tree.elements()) {
      CAIRN_CHECK(std::memchr(key.data(), '\0', key.size()) == nullptr);
      std::memcpy(at_, key.c_str(), key.size() + 1);
      at_ += key.size() + 1;
      PutTree(child, depth + 1);
    }
  }
  const char* at() const { return at_; }

 private:
  static const Tree::Packed* PackedOf(const Tree& tree) { return tree.level_ ? tree.level_->packed.get() : nullptr; }

  char* at_;
};

// Reads packed trees out of foreign bytes.
class LevelReader {
 public:
  // `file` ends where the tree must end at the latest.
  LevelReader(std::string_view name, std::string_view file) : name_(name), file_(file) {}

  absl::StatusOr<Tree> Read() {
    Tree tree;
    if (!ReadLevel(tree, 0)) return error_;
    return tree;
  }

  // A level that Read has left packed.
  static Tree Unpack(std::string_view packed) {
    LevelReader reader("", packed);
    reader.at_ = 0;
    reader.leaves_packed_ = false;
    Tree tree;
    CAIRN_CHECK(reader.ReadLevel(tree, 0));  // Read has looked at every byte of it
    return tree;
  }

  std::uint64_t at() const { return at_; }

 private:
  // The functions below answer false after Fail: a status for each of many small elements would cost more than they.
  template <typename... Args>
  bool Fail(fmt::format_string<Args...> format, Args&&... args) {
    error_ = DataLoss("{}: kvtree tree, offset {}: {}", name_, at_, fmt::format(format, std::forward<Args>(args)...));
    return false;
  }

  std::uint64_t left() const { return file_.size() - at_; }

  bool ReadCount(int depth, std::uint32_t& count) {
    if (left() < kCountBytes) return Fail("no room for an element count");
    count = static_cast<std::uint32_t>(LoadBig(file_.substr(at_, kCountBytes)));
    // What the levels above still wait for has to fit behind, too. So all counts together, and the room reserved for
    // them, are bounded by the size of the file.
    if ((count + pending_) * kElementBytesMin > left() - kCountBytes) {
      return Fail("{} elements cannot fit in {} bytes", count, left() - kCountBytes);
    }
    if (count > 0 && depth == kDepthMax) return Fail("more than {} levels", kDepthMax);
    at_ += kCountBytes;
    return true;
  }

  bool ReadKey(std::string_view& key) {
    const void* const end = std::memchr(file_.data() + at_, '\0', left());
    if (end == nullptr) return Fail("key without an end");
    key = file_.substr(at_, static_cast<std::size_t>(static_cast<const char*>(end) - file_.data()) - at_);
    at_ += key.size() + 1;
    return true;
  }

  // A tree that is no more than a value.
  bool IsValue() const { return file_.substr(at_, kCountBytes) == std::string_view("\0\0\0\0", kCountBytes); }

  // One bit of 64: keys that have different ones are not equal, which is most of what there is to find out of a level.
  static std::uint64_t TraitOf(std::string_view key) {
    if (key.empty()) return 1;
    const auto first = static_cast<unsigned char>(key.front()), last = static_cast<unsigned char>(key.back());
    return std::uint64_t{1} << ((key.size() * 7 + first * 11u + last) % 64);
  }

  // Into an empty tree, or into one that an equal key has filled before: the trees of equal keys are merged.
  bool ReadLevel(Tree& tree, int depth) {
    std::uint32_t count;
    if (!ReadCount(depth, count)) return false;
    if (count == 0) return true;
    if (leaves_packed_ && tree.empty() && count >= kPackedMin && count <= kPackedMax) {
      return LeavePacked(tree, count, depth);
    }
    std::string_view key;
    if (!ReadKey(key)) return false;
    if (count == 1 && tree.empty() && IsValue()) {
      tree.AppendValue(std::string(key));
      at_ += kCountBytes;
      return true;
    }
    const bool merging = !tree.empty();
    Tree::Level& level = tree.Widen();
    std::size_t unfilled = merging ? 0 : count;
    if (!merging) level.FillFromBehind(count);
    pending_ += count;
    std::uint64_t seen = merging ? ~std::uint64_t{0} : 0;
    while (true) {
      --pending_;
      const std::uint64_t trait = TraitOf(key);
      const std::optional<std::size_t> twin = (seen & trait) != 0 ? level.PositionOf(key, unfilled) : std::nullopt;
      seen |= trait;
      Tree& child = twin      ? level.newest_last.At(*twin).second
                    : merging ? level.Append(key)
                              : level.Fill(--unfilled, key);
      if (!ReadLevel(child, depth + 1)) return false;
      if (--count == 0) break;
      if (!ReadKey(key)) return false;
    }
    level.DropUnfilled(unfilled);
    return true;
  }

  // What makes most of a large record: META of a file, the descriptor of a dataset.
  static constexpr std::uint32_t kPackedMin = 8, kPackedMax = 64;

  bool LeavePacked(Tree& tree, std::uint32_t count, int depth) {
    const std::uint64_t begin = at_ - kCountBytes;
    int deepest = depth;
    if (!Pass(count, depth, deepest)) return false;
    if (!owner_) owner_ = std::make_shared<const std::string>(file_);
    const std::string_view bytes = std::string_view(*owner_).substr(begin, at_ - begin);
    tree.level_ = std::make_shared<Tree::Level>();
    tree.level_->packed = std::make_unique<Tree::Packed>(owner_, bytes, deepest - depth + 1);
    return true;
  }

  // Over a level's elements, and all below: checked as if they were read.
  bool Pass(std::uint32_t count, int depth, int& deepest) {
    deepest = std::max(deepest, depth);
    pending_ += count;
    for (; count > 0; --count) {
      --pending_;
      std::string_view key;
      std::uint32_t below;
      if (!ReadKey(key) || !ReadCount(depth + 1, below)) return false;
      if (below > 0 && !Pass(below, depth + 1, deepest)) return false;
    }
    return true;
  }

  std::string_view name_;
  std::string_view file_;
  bool leaves_packed_ = true;
  std::shared_ptr<const std::string> owner_;  // of what was left packed: a copy of `file_`
  std::uint64_t at_ = kHeaderBytes;
  std::uint64_t pending_ = 0;  // elements announced by the levels above and not yet begun
  absl::Status error_;
};

void Tree::Level::Unpack() {
  std::call_once(packed->opened, [this] {
    Tree tree = LevelReader::Unpack(packed->bytes);
    Level& level = tree.Widen();
    newest_last = std::move(level.newest_last);
    index = std::move(level.index);
  });
}

std::uint64_t PackedBytes(const Tree& tree) {
  return LevelWriter::PackedBytes(tree);
}

absl::Status Encodable(const Tree& tree) {
  std::uint64_t bytes = kHeaderBytes + kCrcBytes;
  CAIRN_RETURN_IF_ERROR(LevelWriter::Measure(tree, 0, bytes));
  if (bytes > kFileBytesMax) return InvalidArgument("kvtree: {} bytes, more than {}", bytes, kFileBytesMax);
  return absl::OkStatus();
}

std::string Encode(const Tree& tree) {
  const std::uint64_t bytes = kHeaderBytes + PackedBytes(tree) + kCrcBytes;
  CAIRN_CHECK(bytes <= kFileBytesMax);
  std::string file(bytes, '\0');
  LevelWriter packer(file.data());
  packer.Put32(kMagic);
  packer.Put32(kTypeAndVersion);
  packer.Put32(static_cast<std::uint32_t>(bytes >> 32));
  packer.Put32(static_cast<std::uint32_t>(bytes));
  packer.Put32(kFlagCrc);
  packer.PutTree(tree);
  packer.Put32(Crc32(BytesOf(std::string_view(file).substr(0, bytes - kCrcBytes))));
  CAIRN_CHECK(packer.at() == file.data() + file.size());
  return file;
}

absl::StatusOr<Tree> Decode(std::string_view name, std::string_view file, std::uint64_t* declared_bytes) {
  if (file.empty()) return NotFound("{}: zero bytes long", name);
  if (file.size() < kHeaderBytes)
    return DataLoss("{}: kvtree header, offset {}: the file ends in it", name, file.size());
  if (LoadBig(file.substr(0, 4)) != kMagic) return DataLoss("{}: kvtree header, offset 0: no kvtree file", name);
  if (LoadBig(file.substr(4, 4)) != kTypeAndVersion) {
    return DataLoss("{}: kvtree header, offset 4: type {} version {}, not type 1 version 1", name,
                    LoadBig(file.substr(4, 2)), LoadBig(file.substr(6, 2)));
  }
  const std::uint64_t declared = LoadBig(file.substr(8, 8));
  if (declared < kHeaderBytes || declared > file.size() || declared > kFileBytesMax) {
    return DataLoss("{}: kvtree header, offset 8: declared size {} in a file of {} bytes (at most {})", name, declared,
                    file.size(), kFileBytesMax);
  }
  std::uint64_t tree_end = declared;
  if ((LoadBig(file.substr(16, 4)) & kFlagCrc) != 0) {
    if (declared < kHeaderBytes + kCrcBytes) return DataLoss("{}: kvtree CRC, offset 20: no room for it", name);
    tree_end -= kCrcBytes;
    const auto stored = static_cast<std::uint32_t>(LoadBig(file.substr(tree_end, kCrcBytes)));
    const std::uint32_t found = Crc32(BytesOf(file.substr(0, tree_end)));
    if (stored != found) {
      return DataLoss("{}: kvtree CRC, offset {}: {:#010x}, the bytes give {:#010x}", name, tree_end, stored, found);
    }
  }
  LevelReader reader(name, file.substr(0, tree_end));
  CAIRN_ASSIGN_OR_RETURN(Tree tree, reader.Read());
  // Bytes between tree and CRC are harmless. Without a CRC they may be one whose flag was lost.
  if (tree_end == declared && reader.at() != declared) {
    return DataLoss("{}: kvtree header, offset 16: flags say no CRC, but {} bytes follow the tree at {}", name,
                    declared - reader.at(), reader.at());
  }
  if (declared_bytes != nullptr) *declared_bytes = declared;
  return tree;
}

std::string Print(const Tree& tree) {
  std::string text;
  PrintLevel(tree, 2, text);
  return text;
}

}  // namespace cairn::kvtree

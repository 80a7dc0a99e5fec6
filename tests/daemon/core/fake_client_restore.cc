// How a FakeClient restores and reads: through images, Pieces, and files that it reads straight.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "storage/base/checksum.h"
#include "tests/daemon/core/fake_client.h"

namespace cairn {

std::uint64_t FakeClient::SendRestore(DatasetId id, const Memory& memory, std::uint32_t deadline_ms) {
  local::Request request;
  request.set_deadline_ms(deadline_ms);
  request.mutable_restore()->set_dataset(id);
  for (const Protected& one : memory) {
    local::Variable& variable = *request.mutable_restore()->add_variables();
    variable = one.variable;
    if (memory_) variable.set_memory(*memory_ + 1);
  }
  return Send(std::move(request));
}

namespace {

std::uint64_t RowsOf(const local::Plan& plan, int piece) {
  return plan.rows_size() == 0 ? 1 : plan.rows(piece);
}

// False: a block is not there, or not as it should be.
bool ReadStraight(const local::Straight& straight, const UniqueFd& file, Memory& memory) {
  int block = 0;
  for (int run = 0; run < straight.blocks_size(); ++run) {
    std::string& bytes = memory.at(straight.variable(run)).bytes;
    for (std::uint64_t i = 0; i < straight.blocks(run); ++i, ++block) {
      std::string read(kCrcBlockBytes, '\0');
      const auto at = static_cast<off_t>(straight.file_offset(run) + i * kCrcBlockBytes);
      if (::pread(file.get(), read.data(), read.size(), at) != static_cast<ssize_t>(read.size())) return false;
      if (Crc32c(std::as_bytes(std::span(read))) != straight.crc32c(block)) return false;
      bytes.replace(straight.variable_offset(run) + i * kCrcBlockBytes, kCrcBlockBytes, read);
    }
  }
  return true;
}

}  // namespace

FakeClient::Restored FakeClient::TakeRestore(std::uint64_t call, Memory& memory) {
  Restored restored;
  local::Plan plan;
  std::shared_ptr<Mapping> image;
  std::vector<local::Straight> straight;
  std::uint64_t done = 0;
  std::uint32_t round = 0, files = 0;
  bool planned = false, whole = false;
  // Also when the daemon is lost meanwhile. What it says during the restore is how it was before.
  const struct Mark {
    bool& spoiled;
    const bool &planned, &whole;
    const Restored& restored;
    ~Mark() {
      if (whole ? planned : restored.pieces_copied + restored.files_read > 0) spoiled = !whole;
    }
  } mark{spoiled_, planned, whole, restored};
  auto copied = [&](std::uint64_t pieces, bool straight_failed = false) {
    restored.pieces_copied += pieces - done;
    done = pieces;
    local::Request request;
    request.mutable_copied()->set_pieces(pieces);
    request.mutable_copied()->set_round(round);
    request.mutable_copied()->set_straight(files);
    request.mutable_copied()->set_straight_failed(straight_failed);
    Send(std::move(request));
  };
  while (true) {
    const Arrived arrived = Take(call);
    const local::Reply& reply = arrived.reply;
    restored.code = CodeOfReply(reply);
    restored.message = reply.status().message();
    if (restored.code != local::OK) return restored;
    if (reply.has_restore_end()) {
      restored.tier = reply.restore_end().tier();
      whole = true;
      EXPECT_EQ(done, static_cast<std::uint64_t>(plan.bytes_size()));
      EXPECT_EQ(files, straight.size());
      return restored;
    }
    if (reply.has_restore()) {
      planned = true;
      plan = reply.restore().plan();
      round = reply.restore().round();
      straight.assign(reply.restore().straight().begin(), reply.restore().straight().end());
      done = 0;
      files = 0;
      Remember(arrived, reply.restore().image());
      image = std::exchange(image_, nullptr);
    } else if (reply.has_straight_file()) {
      EXPECT_EQ(reply.straight_file().round(), round);
      EXPECT_EQ(reply.straight_file().index(), files);
      const bool readable = !on_file_ || on_file_(files);
      const bool read = readable && ReadStraight(straight.at(files), *arrived.file, memory);
      if (read) ++files, ++restored.files_read;
      copied(done, !read);
    } else if (reply.has_ready()) {
      for (std::uint64_t i = done; i < reply.ready().pieces(); ++i) {
        const int at = static_cast<int>(i);
        std::string& bytes = memory.at(plan.variable(at)).bytes;
        for (std::uint64_t row = 0; row < RowsOf(plan, at); ++row) {
          const std::uint64_t to = plan.variable_offset(at) + (row > 0 ? row * plan.variable_stride(at) : 0);
          const std::uint64_t from = plan.image_offset(at) + (row > 0 ? row * plan.image_stride(at) : 0);
          bytes.replace(to, plan.bytes(at), reinterpret_cast<const char*>(image->bytes().data()) + from,
                        plan.bytes(at));
        }
      }
      copied(reply.ready().pieces());
    } else if (reply.has_piece()) {
      const local::Piece& piece = reply.piece();
      EXPECT_EQ(piece.index(), done);
      EXPECT_EQ(Crc32c(std::as_bytes(std::span(piece.data()))), piece.crc32c());
      const int at = static_cast<int>(done);
      std::string& bytes = memory.at(plan.variable(at)).bytes;
      EXPECT_EQ(piece.offset(), plan.variable_offset(at));
      EXPECT_EQ(piece.data().size(), RowsOf(plan, at) * plan.bytes(at));
      for (std::uint64_t row = 0; row < RowsOf(plan, at); ++row) {
        bytes.replace(piece.offset() + (row > 0 ? row * plan.variable_stride(at) : 0), plan.bytes(at), piece.data(),
                      row * plan.bytes(at), plan.bytes(at));
      }
      copied(done + 1);
    }
  }
}

std::uint64_t FakeClient::SendRead(DatasetId id, const Protected& out) {
  local::Request request;
  local::Read& read = *request.mutable_read();
  read.set_dataset(id);
  read.set_name(out.variable.name());
  *read.mutable_start() = out.variable.box_start();
  *read.mutable_count() = out.variable.box_count();
  read.set_holes(out.variable.holes());
  return Send(std::move(request));
}

FakeClient::Restored FakeClient::Read(DatasetId id, Protected& out) {
  Memory memory = {out};
  const bool spoiled = spoiled_;
  const Restored restored = TakeRestore(SendRead(id, out), memory);
  spoiled_ = spoiled;  // `out` is not protected
  out = std::move(memory.front());
  return restored;
}

}  // namespace cairn

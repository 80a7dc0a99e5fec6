// What a label says of an image, so that another daemon can take up what this one has only captured
// (daemon/core/README.md, "Taken up after a crash"). A label is memory of its own, which no client gets:
//
//   0   8   bytes of the frame; 0: nothing is in the image. Written last, at once: the seal
//   8   8   how often it was tried to take it up
//   16  n   the frame (storage/format/framed/framed.h): magic "CAIRNLBL", version 1, proto/label.proto
//
// Any process of this user can have changed a label on purpose: what is read is copied once, and validated.
#ifndef CAIRN_DAEMON_DATA_IMAGE_LABEL_H_
#define CAIRN_DAEMON_DATA_IMAGE_LABEL_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/checksum.h"
#include "storage/base/sealed_memory.h"
#include "storage/base/unique_fd.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/ftiff/letter.h"

namespace cairn {

// Of the memory: some 100 000 containers. No image has so many, since these are multiples of 2 MiB.
inline constexpr std::uint64_t kLabelBytes = (4 << 20) - 4096;

struct CapturedPart {
  catalogue::Catalogue catalogue;  // without file and placement
  std::string name, user, job, mark;
  std::int64_t created_us = 0;
  ftiff::Letter letter = ftiff::Letter::kF;
  ftiff::FileLayout layout;            // F's offsets, which are those in the image
  std::vector<Md5Digest> last_hashes;  // as Capture::Spec's
};

// Pure. `image`: that it lies in. kResourceExhausted: it is too long for a label.
absl::StatusOr<std::string> EncodeLabel(const CapturedPart& part, const SealedMemory& image);
// kDataLoss, naming the field, or kFailedPrecondition (a newer version): it is not to be believed. Of what is returned
// all places are in the image, and the containers hold each variable once. Memory is bounded by a small multiple of
// the frame.
absl::StatusOr<CapturedPart> DecodeLabel(const std::string& frame, const SealedMemory& image);

// The daemon's side that writes. One thread at a time.
class ImageLabel {
 public:
  // `fd`: kLabelBytes of memory.
  explicit ImageLabel(UniqueFd fd) : fd_(std::move(fd)) {}

  // Nothing is in the image. Microseconds, as the others. False: it still says what it said.
  bool Clear();
  // What is about to be in it; after Clear. An error: it has none, and Seal does nothing.
  absl::Status Write(const CapturedPart& part, const SealedMemory& image);
  // It is in it, whole.
  void Seal();
  bool written() const { return bytes_ != 0; }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::uint64_t bytes_ = 0;  // of the frame that is written; 0: none
  bool sealed_ = false;
};

// The side that takes up. `fd`: sealed memory.
bool IsLabel(const SealedMemory& memory);
// The frame; none: nothing is in the image.
//   kDataLoss            the seal is no length that a frame can have
//   kResourceExhausted   it was tried `tries_max` times or more
absl::StatusOr<std::optional<std::string>> ReadLabel(int fd, std::uint64_t tries_max);
// Adds to the tries: +1 before anything that may end the process for this label's sake, -1 if it has not. A label whose
// turn did not come is not counted.
void CountTry(int fd, int by);
// Nobody is to believe it any more.
void UnsealLabel(int fd);
// The image that a frame is of, by inode, without believing anything else; 0: it cannot be told.
std::uint64_t ImageOfLabel(const std::string& frame);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_IMAGE_LABEL_H_

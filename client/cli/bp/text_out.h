// Where listings of any length go: collected in a buffer, given up once nobody reads.
#ifndef CAIRN_CLIENT_CLI_BP_TEXT_OUT_H_
#define CAIRN_CLIENT_CLI_BP_TEXT_OUT_H_

#include <cstdio>
#include <string>
#include <string_view>

namespace cairn::cli {

class TextOut {
 public:
  explicit TextOut(std::FILE* file = stdout) : file_(file) {}  // borrowed
  ~TextOut() { Flush(); }
  TextOut(const TextOut&) = delete;
  TextOut& operator=(const TextOut&) = delete;

  void Write(std::string_view text) {
    buffer_.append(text);
    if (buffer_.size() >= kBufferBytes) Flush();
  }
  // Before something else is printed, or an error is told.
  void Flush() {
    if (!broken_ && !buffer_.empty()) broken_ = std::fwrite(buffer_.data(), 1, buffer_.size(), file_) < buffer_.size();
    if (!broken_) broken_ = std::fflush(file_) != 0;
    buffer_.clear();
  }
  // Nothing more arrives: the pipe is closed, the disk is full. Who has much to say stops.
  bool broken() const { return broken_; }

 private:
  static constexpr std::size_t kBufferBytes = 1 << 16;
  std::FILE* const file_;
  std::string buffer_;
  bool broken_ = false;
};

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_TEXT_OUT_H_

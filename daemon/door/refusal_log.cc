#include "daemon/door/refusal_log.h"

#include <spdlog/spdlog.h>

namespace cairn {

void RefusalLog::Write(std::string_view peer, const Refusal& refusal, Time now) {
  Kind& kind = kinds_[static_cast<std::size_t>(refusal.flaw)];
  if (kind.lines == 0 || now - kind.since >= kWhile) {
    if (kind.dropped > 0) spdlog::warn("peers refused: {} more lines such as the next one were left out", kind.dropped);
    kind = {.since = now};
  }
  if (kind.lines == kLinesMax) {
    ++kind.dropped;
    return;
  }
  ++kind.lines;
  spdlog::warn("peer {}: refused: {}", peer, refusal.text);
}

}  // namespace cairn

// What a daemon tells clients on other hosts of itself, in a file that only its user can read: ".cairn/ingest.<node>"
// below a run's prefix. Lines of text: a head with a version, "address HOST:PORT", "name NAME", then in PEM the
// authority of the daemon's certificate, and a certificate with its key for the client to show. Who can read the file
// may come in; who listens at the address without a certificate of that authority for that name is not the daemon.
// Version 1.
#ifndef CAIRN_PROTO_ANNOUNCEMENT_H_
#define CAIRN_PROTO_ANNOUNCEMENT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn {

inline constexpr char kAnnouncementStem[] = "ingest.";  // then the node: 32 hex digits
inline constexpr std::size_t kAnnouncementBytesMax = 64 << 10;

struct Announcement {
  std::string address;                      // host:port
  std::string name;                         // in the daemon's certificate
  std::string authority, certificate, key;  // PEM, one block each
  friend bool operator==(const Announcement&, const Announcement&) = default;
};

inline std::string EncodeAnnouncement(const Announcement& announcement) {
  return "cairn ingest 1\naddress " + announcement.address + "\nname " + announcement.name + "\n" +
         announcement.authority + announcement.certificate + announcement.key;
}

namespace announcement_internal {

// The rest of the line behind `begin`, of printable characters; empty: the text does not begin so.
inline std::string TakeLine(std::string_view begin, std::string_view* text) {
  const std::size_t end = text->find('\n');
  if (end == text->npos || !text->starts_with(begin)) return {};
  const std::string line(text->substr(begin.size(), end - begin.size()));
  for (const char c : line) {
    if (c <= 0x20 || c >= 0x7f) return {};
  }
  text->remove_prefix(end + 1);
  return line;
}

// "-----BEGIN <label>-----" to the end of its end line; empty: the text does not begin so.
inline std::string TakeBlock(std::string_view label, std::string_view* text) {
  const std::string begin = "-----BEGIN " + std::string(label) + "-----\n";
  const std::string end = "-----END " + std::string(label) + "-----\n";
  const std::size_t at = text->starts_with(begin) ? text->find(end) : text->npos;
  if (at == text->npos) return {};
  const std::string block(text->substr(0, at + end.size()));
  text->remove_prefix(block.size());
  return block;
}

}  // namespace announcement_internal

// Exactly what EncodeAnnouncement writes. False: anything else. Whether the blocks are what their labels say is for
// whoever uses them.
inline bool ParseAnnouncement(std::string_view text, Announcement* announcement) {
  using announcement_internal::TakeBlock;
  using announcement_internal::TakeLine;
  constexpr std::string_view kHead = "cairn ingest 1\n";
  if (text.size() > kAnnouncementBytesMax || !text.starts_with(kHead)) return false;
  text.remove_prefix(kHead.size());
  announcement->address = TakeLine("address ", &text);
  announcement->name = TakeLine("name ", &text);
  announcement->authority = TakeBlock("CERTIFICATE", &text);
  announcement->certificate = TakeBlock("CERTIFICATE", &text);
  announcement->key = TakeBlock("PRIVATE KEY", &text);
  return !announcement->address.empty() && !announcement->name.empty() && !announcement->authority.empty() &&
         !announcement->certificate.empty() && !announcement->key.empty() && text.empty();
}

}  // namespace cairn

#endif  // CAIRN_PROTO_ANNOUNCEMENT_H_

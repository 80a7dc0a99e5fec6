#include "client/cli/mechanisms.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "client/cli/text.h"

namespace cairn::cli {
namespace {

constexpr const char* kNoImage = "the daemon has made no image yet";

// Of the engine's name as the daemon says it.
bool IsWithoutUring(std::string_view engine) {
  return engine == "threads";
}
bool IsWithoutUringForSome(std::string_view engine) {
  return engine == "io_uring, threads";
}

// "io_uring for the cache".
std::string TellEngine(const admin::Mechanisms::OfDisk& told, std::string_view place) {
  if (IsWithoutUringForSome(told.engine())) return fmt::format("threads for some file systems of {}", place);
  return fmt::format("{} for {}", Clean(told.engine()), place);
}

}  // namespace

std::string TellEngines(const admin::Mechanisms& told) {
  const std::string& engine = told.cache().engine();
  if (engine == told.prefix().engine() && !IsWithoutUringForSome(engine)) {
    return fmt::format("the daemon uses {}", Clean(engine));
  }
  return fmt::format("the daemon uses {}, {}", TellEngine(told.cache(), "the cache"),
                     TellEngine(told.prefix(), "its prefixes"));
}

std::string TellHugePages(const admin::Mechanisms& told) {
  if (told.images() == 0) return kNoImage;
  return fmt::format("the daemon uses them for {} of {} images", told.images_huge(), told.images());
}

std::string TellPinning(const admin::Mechanisms& told) {
  if (told.images() == 0) return kNoImage;
  return fmt::format("the daemon has pinned {} of {} images", told.images_pinned(), told.images());
}

std::string TellBackground(const admin::Mechanisms& told) {
  const std::string& priority = told.background_io_priority();
  if (priority.empty()) return "";  // a daemon that is older does not say it
  const std::string limit = told.background_bytes_per_s() == 0
                                ? std::string("no limit")
                                : fmt::format("{}/s together", Bytes(told.background_bytes_per_s()));
  return fmt::format("the daemon gives copies that nobody waits for {}, and {} beside captures and restores",
                     priority == "none" ? "none" : Clean(priority), limit);
}

std::string TellDirectIo(const admin::Mechanisms::OfDisk& told, std::string_view of) {
  if (told.direct_off()) return "the daemon does not use it: its settings have it off";
  if (told.files() == 0) return fmt::format("the daemon has opened no file of {} for it yet", of);
  return fmt::format("the daemon uses it for {} of {} files of {}", told.files_direct(), told.files(), of);
}

std::string TellHanding(const admin::Mechanisms::OfDisk& told) {
  if (told.files_asked() == 0) return "the daemon was asked for none yet";
  return fmt::format("the daemon has let applications read {} of {} files so", told.files_handed(), told.files_asked());
}

bool LacksUring(const admin::Mechanisms& told) {
  const auto lacks = [](std::string_view engine) { return IsWithoutUring(engine) || IsWithoutUringForSome(engine); };
  return lacks(told.cache().engine()) || lacks(told.prefix().engine());
}

std::string TellRefused(const admin::Mechanisms& told) {
  std::vector<std::string> refused;
  const auto uring = [&refused](const std::string& engine, const char* place) {
    if (IsWithoutUring(engine)) refused.push_back(fmt::format("io_uring for {}", place));
    if (IsWithoutUringForSome(engine)) refused.push_back(fmt::format("io_uring for some file systems of {}", place));
  };
  if (IsWithoutUring(told.cache().engine()) && IsWithoutUring(told.prefix().engine())) {
    refused.emplace_back("io_uring");
  } else {
    uring(told.cache().engine(), "the cache");
    uring(told.prefix().engine(), "prefixes");
  }
  const auto count = [&](const char* mechanism, std::uint64_t used, std::uint64_t all, const char* what) {
    if (used < all) refused.push_back(fmt::format("{} ({} of {}{})", mechanism, all - used, all, what));
  };
  count("huge pages for images", told.images_huge(), told.images(), "");
  count("pinned images", told.images_pinned(), told.images(), "");
  count("direct I/O in the cache", told.cache().files_direct(), told.cache().files(), " files");
  count("direct I/O on the prefix", told.prefix().files_direct(), told.prefix().files(), " files of all prefixes");
  if (!told.cache().direct_off()) {
    count("restores straight into memory", told.cache().files_handed(), told.cache().files_asked(), " files");
  }
  return fmt::format("{}", fmt::join(refused, ", "));
}

}  // namespace cairn::cli

#include "client/cli/mechanisms.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "client/cli/text.h"

namespace cairn::cli {
namespace {

constexpr const char* kThreads = "threads";

constexpr const char* kNoImage = "the daemon has made no image yet";

}  // namespace

std::string TellEngines(const admin::Mechanisms& told) {
  const std::string cache = Clean(told.cache().engine()), prefix = Clean(told.prefix().engine());
  if (cache == prefix) return fmt::format("the daemon uses {}", cache);
  return fmt::format("the daemon uses {} for the cache, {} for the prefix", cache, prefix);
}

std::string TellHugePages(const admin::Mechanisms& told) {
  if (told.images() == 0) return kNoImage;
  return fmt::format("the daemon uses them for {} of {} images", told.images_huge(), told.images());
}

std::string TellPinning(const admin::Mechanisms& told) {
  if (told.images() == 0) return kNoImage;
  return fmt::format("the daemon has pinned {} of {} images", told.images_pinned(), told.images());
}

std::string TellDirectIo(const admin::Mechanisms::OfDisk& told) {
  if (told.files() == 0) return "the daemon has opened no file for it yet";
  return fmt::format("the daemon uses it for {} of {} files", told.files_direct(), told.files());
}

std::string TellRefused(const admin::Mechanisms& told) {
  std::vector<std::string> refused;
  const bool cache = told.cache().engine() == kThreads, prefix = told.prefix().engine() == kThreads;
  if (cache || prefix) {
    refused.push_back(fmt::format("io_uring{}", !prefix ? " for the cache" : !cache ? " for the prefix" : ""));
  }
  const auto count = [&](const char* mechanism, std::uint64_t used, std::uint64_t all, const char* what) {
    if (used < all) refused.push_back(fmt::format("{} for {} of {} {}", mechanism, all - used, all, what));
  };
  count("huge pages", told.images_huge(), told.images(), "images");
  count("pinning", told.images_pinned(), told.images(), "images");
  count("direct I/O", told.cache().files_direct(), told.cache().files(), "files of the cache");
  count("direct I/O", told.prefix().files_direct(), told.prefix().files(), "files of the prefix");
  return fmt::format("{}", fmt::join(refused, ", "));
}

}  // namespace cairn::cli

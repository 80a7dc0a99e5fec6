#include "storage/place/age.h"

namespace cairn {
namespace {

using Maker = Age::Maker;

// Do their times tell which one is newer?
bool Timed(const Age& a, const Age& b) {
  return a.created_us != 0 && b.created_us != 0 && a.created_us != b.created_us;
}

bool ScrsIsNewer(const Age& scrs, const Age& of_launch) {
  return scrs.id > of_launch.id || (Timed(scrs, of_launch) && scrs.created_us > of_launch.created_us);
}

}  // namespace

bool IsNewer(const Age& a, const Age& b) {
  if (a.maker == Maker::kScr && b.maker == Maker::kLaunch) return ScrsIsNewer(a, b);
  if (a.maker == Maker::kLaunch && b.maker == Maker::kScr) return !ScrsIsNewer(b, a);
  if (a.maker == Maker::kLaunch && b.maker == Maker::kLaunch) {
    return a.launch != b.launch ? a.launch > b.launch : a.id > b.id;
  }
  return Timed(a, b) ? a.created_us > b.created_us : a.id > b.id;
}

}  // namespace cairn

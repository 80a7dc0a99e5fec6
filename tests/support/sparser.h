// Under a sanitizer each try takes five to twenty times as long. Where thousands of them differ only in the instant at
// which something happens, and all in one thread, so many times fewer are made then.
#ifndef CAIRN_TESTS_SUPPORT_SPARSER_H_
#define CAIRN_TESTS_SUPPORT_SPARSER_H_

namespace cairn {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSparser = 8;
#else
inline constexpr int kSparser = 1;
#endif

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_SPARSER_H_

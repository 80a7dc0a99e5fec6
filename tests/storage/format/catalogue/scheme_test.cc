// Redundancy schemes as text, both ways.
#include "storage/format/catalogue/scheme.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

TEST(SchemeTest, WhatTextOfSchemeSaysIsReadAsTheSame) {
  for (const AskedScheme& asked :
       {AskedScheme(local::SCHEME_SINGLE), AskedScheme(local::SCHEME_PARTNER), AskedScheme(local::SCHEME_XOR),
        AskedScheme(local::SCHEME_RS), AskedScheme(local::SCHEME_FOLDER), AskedScheme(local::SCHEME_XOR, 2, 1),
        AskedScheme(local::SCHEME_XOR, 64, 1), AskedScheme(local::SCHEME_RS, 6, 2),
        AskedScheme(local::SCHEME_RS, 64, 63)}) {
    const std::string text = TextOfScheme(asked);
    ASSERT_OK_AND_ASSIGN(const AskedScheme read, ParseScheme(text));
    EXPECT_EQ(read, asked) << text;
  }
}

TEST(SchemeTest, WhatIsNoSchemeIsRefused) {
  for (const char* text :
       {"",         "raid6",           "rs ",     "RS",       "rs:",        "rs:4",        "rs:+2",    "rs:4+",
        "rs:4+0",   "rs:0+2",          "rs:04+2", "rs:4+2 ",  "rs: 4+2",    "rs:4+-2",     "rs:4+2+1", "rs:63+2",
        "rs:100+2", "rs:4294967300+2", "xor:4+2", "xor:64+1", "single:4+2", "partner:1+1", "folder:",  ":4+2",
        "not given"}) {
    EXPECT_EQ(ParseScheme(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace cairn

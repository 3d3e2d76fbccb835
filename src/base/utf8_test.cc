#include "base/utf8.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Utf8, OverlongFormsSurrogatesAndTornBytesAreNot) {
  EXPECT_TRUE(is_utf8("aé€😀"));
  for (std::string_view bytes : {"\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xed\xa0\x80",
                                 "\xf4\x90\x80\x80", "\xff", "\x80", "\xc3", "\xe2\x82"})
    EXPECT_FALSE(is_utf8(bytes));
}

TEST(Utf8, WhatActsOnATerminalIsNotPrintable) {
  EXPECT_TRUE(is_printable("größe 64 日本 😀"));
  for (std::string_view words :
       {"a\nb", "\t", "\x1b[2J", "\x7f", "\xc2\x9b", "\u202egnp", "\u2066", "\u2028", "\xff"})
    EXPECT_FALSE(is_printable(words)) << escape_controls(words);
}

TEST(Utf8, WhatActsOnATerminalIsSpelledOut) {
  EXPECT_EQ(escape_controls("\tplain é\x1b]0;title\x07"), "\tplain é^[]0;title^G");
  EXPECT_EQ(escape_controls(std::string_view("\0\x7f\xff", 3)), "^@^?<FF>");
  EXPECT_EQ(escape_controls("a\u202eb\u009b"), "a<U+202E>b<U+009B>");
}

}  // namespace
}  // namespace lockstep

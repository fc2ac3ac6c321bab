#include "muster/testing/xml_escape.h"

#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace testing {
namespace {

TEST(XmlEscapeTest, MarkupAndWhiteSpaceAreEscaped) {
  EXPECT_EQ(XmlEscape("a <&\"> 'b'\t\r\n"), "a &lt;&amp;&quot;&gt; 'b'&#9;&#13;&#10;");
  EXPECT_EQ(XmlEscape(""), "");
}

TEST(XmlEscapeTest, ControlCharactersAreReplaced) {
  EXPECT_EQ(XmlEscape(std::string("\0\x01\x1b[0m\x7f", 7)), "???[0m?");
}

TEST(XmlEscapeTest, WellFormedUtf8StaysAsItIs) {
  for (const char* text : {
           "Z\xC3\xBCrich",      // u with a diaeresis
           "\xE2\x82\xAC",       // the euro's sign
           "\xED\x9F\xBF",       // U+D7FF, the last before the surrogates
           "\xEE\x80\x80",       // U+E000, the first after them
           "\xEF\xBF\xBD",       // U+FFFD
           "\xF0\x90\x80\x80",   // U+10000
           "\xF0\x9F\x98\x80",   // a face
           "\xF4\x8F\xBF\xBD!",  // U+10FFFD
       }) {
    EXPECT_EQ(XmlEscape(text), text);
  }
}

TEST(XmlEscapeTest, EachByteOfWhatIsNotUtf8IsReplaced) {
  EXPECT_EQ(XmlEscape("Z\xFCrich"), "Z?rich");        // Latin-1
  EXPECT_EQ(XmlEscape("\x80|\xBF"), "?|?");           // without a first byte
  EXPECT_EQ(XmlEscape("\xC3"), "?");                  // cut off
  EXPECT_EQ(XmlEscape("\xE2\x82|"), "??|");           // broken
  EXPECT_EQ(XmlEscape("\xE2\xC3\xBC"), "?\xC3\xBC");  // what follows is fine
  EXPECT_EQ(XmlEscape("\xF0\x9F\x98"), "???");
  EXPECT_EQ(XmlEscape("\xC0\xAF|\xC1\xBF"), "??|??");  // overlong
  EXPECT_EQ(XmlEscape("\xE0\x80\xAF|\xE0\x9F\xBF"), "???|???");
  EXPECT_EQ(XmlEscape("\xF0\x80\x80\xAF"), "????");
  EXPECT_EQ(XmlEscape("\xED\xA0\x80|\xED\xBF\xBF"), "???|???");  // surrogates
  EXPECT_EQ(XmlEscape("\xF4\x90\x80\x80"), "????");              // beyond U+10FFFF
  EXPECT_EQ(XmlEscape("\xF5\xFE\xFF"), "???");
}

TEST(XmlEscapeTest, WhatIsNoCharacterOfXmlIsReplaced) {
  EXPECT_EQ(XmlEscape("\xEF\xBF\xBE|\xEF\xBF\xBF"), "???|???");
}

}  // namespace
}  // namespace testing
}  // namespace muster

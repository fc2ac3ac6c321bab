#include "muster/testing/xml_escape.h"

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {
namespace testing {
namespace {

// How many bytes the well-formed UTF-8 sequence has that `text` begins with; 0 for none, and for
// U+FFFE and U+FFFF, which are no characters of XML. (Unicode, table 3-7.)
size_t SequenceAt(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : static_cast<unsigned char>(0);
  };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  size_t length = 0;
  // Of the second byte: without these limits some say what a shorter sequence says, or half of a
  // UTF-16 pair, or more than U+10FFFF.
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  if (first == 0xEF && byte(1) == 0xBF && byte(2) >= 0xBE) return 0;
  return length;
}

}  // namespace

std::string XmlEscape(absl::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const size_t length = SequenceAt(text);
    const absl::string_view character = text.substr(0, length == 0 ? 1 : length);
    text.remove_prefix(character.size());
    switch (character[0]) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\t':
        escaped += "&#9;";
        break;
      case '\n':
        escaped += "&#10;";
        break;
      case '\r':
        escaped += "&#13;";
        break;
      default: {
        const unsigned char byte = static_cast<unsigned char>(character[0]);
        if (length == 0 || byte < 0x20 || byte == 0x7F) {
          escaped += '?';
        } else {
          escaped.append(character.data(), character.size());
        }
      }
    }
  }
  return escaped;
}

}  // namespace testing
}  // namespace muster

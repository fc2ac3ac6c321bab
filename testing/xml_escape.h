// Any bytes as the text of an XML 1.0 attribute in UTF-8: what tests print need not be text.
//
//   absl::StrCat("<failure message=\"", XmlEscape(message), "\"/>")
#ifndef MUSTER_TESTING_XML_ESCAPE_H_
#define MUSTER_TESTING_XML_ESCAPE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {
namespace testing {

// A '?' stands for each byte of what XML has no way to say: control characters, and what is not
// well-formed UTF-8.
std::string XmlEscape(absl::string_view text);

}  // namespace testing
}  // namespace muster

#endif  // MUSTER_TESTING_XML_ESCAPE_H_

// Reads fields of JSON objects that came from another process: each wrong shape is a Status, never
// an exception.
#ifndef MUSTER_CORE_LIFECYCLE_JSON_FIELDS_H_
#define MUSTER_CORE_LIFECYCLE_JSON_FIELDS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace muster::lifecycle_internal {

// Remembers the first error; after it every read gives a default. `what` is for the message ("group
// record").
class JsonFields {
 public:
  JsonFields(absl::string_view what, absl::string_view text) : what_(what) {
    // The parser takes any depth; copying what it made recurses, and would end on the stack's guard
    // page.
    bool deep = false;
    json_ = nlohmann::json::parse(
        text,
        [&](int depth, auto, const nlohmann::json&) {
          return depth <= kMaxDepth || !(deep = true);
        },
        /*allow_exceptions=*/false);
    if (deep) Fail("it is nested too deeply");
    if (!json_.is_object()) Fail("it is not a JSON object");
  }
  JsonFields(absl::string_view what, nlohmann::json json) : what_(what), json_(std::move(json)) {
    if (!json_.is_object()) Fail("it is not a JSON object");
  }

  bool Has(const char* name) const { return status_.ok() && json_.contains(name); }

  int64_t Int(const char* name) {
    const nlohmann::json* field = Find(name);
    if (field == nullptr) return 0;
    // An integer that is written without a sign is unsigned for the parser, and may be too large
    // for us.
    const bool fits = field->is_number_integer() &&
                      (!field->is_number_unsigned() ||
                       field->get<uint64_t>() <= std::numeric_limits<int64_t>::max());
    if (!fits) return Fail(absl::StrCat("'", name, "' is not an integer")), 0;
    return field->get<int64_t>();
  }
  // A count, a number or a rank.
  int64_t IntUpTo(const char* name, int64_t limit) {
    const int64_t value = Int(name);
    if (value >= 0 && value <= limit) return value;
    return Fail(absl::StrCat("'", name, "' is ", value)), 0;
  }
  uint64_t Unsigned(const char* name) {
    const nlohmann::json* field = Find(name);
    if (field == nullptr) return 0;
    if (!field->is_number_unsigned()) {
      return Fail(absl::StrCat("'", name, "' is not an unsigned integer")), 0;
    }
    return field->get<uint64_t>();
  }
  std::string String(const char* name) {
    const nlohmann::json* field = Find(name);
    if (field == nullptr) return "";
    if (!field->is_string()) return Fail(absl::StrCat("'", name, "' is not a string")), "";
    return field->get<std::string>();
  }
  nlohmann::json Array(const char* name) {
    const nlohmann::json* field = Find(name);
    if (field == nullptr || field->is_array()) {
      return field == nullptr ? nlohmann::json::array() : *field;
    }
    return Fail(absl::StrCat("'", name, "' is not an array")), nlohmann::json::array();
  }
  nlohmann::json Object(const char* name) {
    const nlohmann::json* field = Find(name);
    if (field == nullptr || field->is_object()) {
      return field == nullptr ? nlohmann::json::object() : *field;
    }
    return Fail(absl::StrCat("'", name, "' is not an object")), nlohmann::json::object();
  }

  void Fail(absl::string_view why) {
    if (status_.ok()) status_ = absl::DataLossError(absl::StrCat("malformed ", what_, ": ", why));
  }
  const absl::Status& status() const { return status_; }

 private:
  static constexpr int kMaxDepth = 4;  // ours: an object, an object or array in it, its elements

  const nlohmann::json* Find(const char* name) {
    if (!status_.ok()) return nullptr;
    auto it = json_.find(name);
    if (it != json_.end()) return &*it;
    Fail(absl::StrCat("no '", name, "'"));
    return nullptr;
  }

  std::string what_;
  nlohmann::json json_;
  absl::Status status_;
};

// One line of text; bytes that are no UTF-8 (a user's message may hold any) are replaced.
inline std::string Dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// What a user's message may take in the store: the record of a group is bounded, and a rank that
// fails with a book must not be kept from telling the others.
inline constexpr size_t kMaxTextBytes = 4096;
inline std::string Bounded(absl::string_view text) {
  // With room for our own note: cut once, not twice.
  if (text.size() <= kMaxTextBytes + 64) return std::string(text);
  return absl::StrCat(text.substr(0, kMaxTextBytes), "... (", text.size(), " bytes)");
}

inline nlohmann::json StatusToJson(const absl::Status& status) {
  return {{"code", static_cast<int>(status.code())}, {"message", Bounded(status.message())}};
}

// A status that is not OK.
inline absl::Status StatusFromJson(JsonFields& parent, const char* name) {
  JsonFields fields(name, parent.Object(name));
  const int64_t code = fields.Int("code");
  std::string message = fields.String("message");
  if (!fields.status().ok()) return parent.Fail(fields.status().message()), absl::OkStatus();
  if (code <= 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    return parent.Fail(absl::StrCat("'", name, "' has the code ", code)), absl::OkStatus();
  }
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

}  // namespace muster::lifecycle_internal

#endif  // MUSTER_CORE_LIFECYCLE_JSON_FIELDS_H_

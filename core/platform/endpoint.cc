#include "muster/core/platform/endpoint.h"

#include <sys/un.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

constexpr int kMaxPort = 65535;
constexpr size_t kMaxHost = 255;
constexpr absl::string_view kUnix = "unix:";
constexpr size_t kMaxUnixPath = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace

std::string Endpoint::ToString() const {
  if (absl::StrContains(host, ':')) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

std::optional<Endpoint> ParseEndpoint(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return std::nullopt;
  absl::string_view host = text.substr(0, colon);
  const bool brackets = absl::ConsumePrefix(&host, "[");
  if (brackets && !absl::ConsumeSuffix(&host, "]")) return std::nullopt;
  if (brackets != absl::StrContains(host, ':') || !IsHost(host)) return std::nullopt;
  const std::optional<int> port = ParseDigits(text.substr(colon + 1), kMaxPort);
  if (!port.has_value()) return std::nullopt;
  return Endpoint{std::string(host), static_cast<uint16_t>(*port)};
}

std::optional<std::string> ParseUnixAddress(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, kUnix) || !absl::StartsWith(text, "/") ||
      text.size() > kMaxUnixPath || !std::all_of(text.begin(), text.end(), [](char c) {
        return absl::ascii_isprint(static_cast<unsigned char>(c));
      })) {
    return std::nullopt;
  }
  return std::string(text);
}

std::string UnixAddress(absl::string_view path) { return absl::StrCat(kUnix, path); }

bool IsHost(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxHost &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' ||
                  c == '_' || c == ':';
         });
}

bool IsLoopbackHost(absl::string_view host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

std::optional<int> ParseDigits(absl::string_view text, int max) {
  int value = 0;
  if (!std::all_of(text.begin(), text.end(),
                   [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }) ||
      !absl::SimpleAtoi(text, &value) || value > max) {
    return std::nullopt;
  }
  return value;
}

}  // namespace muster

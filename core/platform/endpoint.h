// "host:port" and "unix:/path" as a user writes them. Nothing is looked up.
//
//   const std::optional<Endpoint> endpoint = ParseEndpoint("[::1]:29500");
//   if (!endpoint.has_value()) ...   // the caller knows what it was meant to be, and says so
#ifndef MUSTER_CORE_PLATFORM_ENDPOINT_H_
#define MUSTER_CORE_PLATFORM_ENDPOINT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

struct Endpoint {
  std::string host;   // a name, or a number without brackets
  uint16_t port = 0;  // 0: any free one, where somebody listens

  std::string ToString() const;  // "127.0.0.1:41231", "[::1]:41231"
};

// Nothing where `text` is none: a host as IsHost says (an IPv6 number in brackets, and nothing else
// in them), a colon, and digits from 0 to 65535.
std::optional<Endpoint> ParseEndpoint(absl::string_view text);

// The path of "unix:/path", the address of a socket that only processes of this host reach. Nothing
// where `text` is none: the path is absolute, as long as the system takes (107 bytes), and
// printable.
std::optional<std::string> ParseUnixAddress(absl::string_view text);

// "unix:/path". Whether the system takes it, ParseUnixAddress tells.
std::string UnixAddress(absl::string_view path);

// Letters, digits, dots, dashes, underscores and colons: a name, or a number of either family.
bool IsHost(absl::string_view text);

// Whether only processes of this host can reach `host`. A name but "localhost" is not looked up:
// what it means may differ between hosts.
bool IsLoopbackHost(absl::string_view host);

// Digits only, at most `max`: absl::SimpleAtoi alone would take " 1", "+1" and "-0" as well.
std::optional<int> ParseDigits(absl::string_view text, int max);

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_ENDPOINT_H_

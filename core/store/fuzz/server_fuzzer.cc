// A connection to the store's server that says anything: it ends, bounded, and the honest session
// beside it goes on.
//
// The first byte says how far the connection is honest:
//   0  a stranger: the rest is what it sends
//   1  a stranger that has sent a right Hello and got its Challenge
//   2  a session: the rest comes over its connection without a seal
//   3  a session that seals what it sends: the rest are messages, each after its length (2 bytes,
//      little endian)

#include <algorithm>
#include <string>
#include <vector>

#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "muster/core/store/fuzz/fuzz_server.h"
#include "muster/core/store/fuzz/fuzz_target.h"
#include "muster/core/store/fuzz/real_messages.h"
#include "muster/core/store/wire.h"

namespace muster::store_fuzz {
namespace {

using store_internal::EncodeFrame;
using store_internal::MessageOf;

// What inputs leave in the store counts up to here.
constexpr int kInputsPerServer = 500;

FuzzServer& Server() {
  static int inputs = 0;
  // The last one is left to the end of the process: its thread has state of libcrypto, which that
  // has given up by the time when destructors of statics run.
  static FuzzServer* server = nullptr;
  if (inputs++ % kInputsPerServer == 0) {
    // Refusals are logged, which is no find. A threshold counts only once the log is initialised.
    absl::SetMinLogLevel(absl::LogSeverityAtLeast::kFatal);
    delete server;
    server = new FuzzServer();
  }
  return *server;
}

void SendMessages(FuzzConnection& connection, absl::string_view rest) {
  while (rest.size() >= 2) {
    const size_t length =
        static_cast<unsigned char>(rest[0]) + 256 * static_cast<unsigned char>(rest[1]);
    rest.remove_prefix(2);
    const size_t count = std::min(length, rest.size());
    if (!connection.SendSealed(rest.substr(0, count))) return;
    rest.remove_prefix(count);
  }
}

std::string WithLength(absl::string_view message) {
  const char length[] = {static_cast<char>(message.size()), static_cast<char>(message.size() >> 8)};
  return absl::StrCat(absl::string_view(length, 2), message);
}

}  // namespace

std::vector<Seed> Seeds() {
  std::vector<Seed> seeds;
  std::string greeting(1, '\0');
  for (const NamedMessage& named : Greetings()) {
    const std::string frame = EncodeFrame(named.message);
    seeds.push_back({absl::StrCat("stranger_", named.name), '\0' + frame});
    seeds.push_back({absl::StrCat("greeted_", named.name), '\1' + frame});
    greeting += frame;
  }
  seeds.push_back({"greeting", greeting});
  seeds.push_back({"http", std::string(1, '\0') + "GET / HTTP/1.1\r\n\r\n"});
  std::string session = "\3";
  for (const auto& messages : {Requests(), Responses()}) {
    for (const NamedMessage& named : messages) {
      const std::string frame = EncodeFrame(named.message);
      seeds.push_back({absl::StrCat("unsealed_", named.name), '\2' + frame});
      seeds.push_back({absl::StrCat("session_", named.name), '\3' + WithLength(MessageOf(frame))});
      if (named.name != "leave") session += WithLength(MessageOf(frame));
    }
  }
  seeds.push_back({"session", session});
  return seeds;
}

}  // namespace muster::store_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using muster::store_fuzz::FuzzConnection;
  if (size == 0) return 0;
  muster::store_fuzz::FuzzServer& server = muster::store_fuzz::Server();
  const absl::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  {
    FuzzConnection connection(server.address());
    switch (data[0] % 4) {
      case 0:
        connection.Send(rest);
        break;
      case 1:
        connection.Greet();
        connection.Send(rest);
        break;
      case 2:
        connection.Open(1);
        connection.Send(rest);
        break;
      default:
        connection.Open(1);
        muster::store_fuzz::SendMessages(connection, rest);
        break;
    }
    connection.Finish();
  }
  server.CheckHonestSession();
  return 0;
}

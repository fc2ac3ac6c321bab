// A store's server that says anything to a client: its attempt or its session ends, bounded, and
// every callback runs once.
//
// The first byte says how far the server is honest:
//   0  not at all: the rest is its answer to Hello
//   1  it has shown that it knows the token: the rest is its answer to Open
//   2  a session is open: the rest comes over its connection without a seal
//   3  the same, and the server seals what it sends: the rest are messages, each after its length
//      (2 bytes, little endian)

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <vector>

#include "absl/base/log_severity.h"
#include "absl/log/check.h"
#include "absl/log/globals.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/time.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/store/fuzz/fuzz_server.h"
#include "muster/core/store/fuzz/fuzz_target.h"
#include "muster/core/store/fuzz/real_messages.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"
#include "muster/core/store/tcp_handshake.h"
#include "muster/core/store/tcp_store.h"
#include "muster/core/store/wire.h"

namespace muster::store_fuzz {
namespace {

using store_internal::EncodeFrame;
using store_internal::MessageOf;

constexpr absl::Duration kHang = absl::Seconds(60);
// Requests of each kind that wait: the seeds answer to small numbers.
constexpr int kRequests = 4;

struct Place {
  Place() {
    // What a client says of the server that it lost is no find.
    absl::SetMinLogLevel(absl::LogSeverityAtLeast::kFatal);
    absl::StatusOr<std::unique_ptr<ControlThread>> started = ControlThread::Start();
    CHECK_OK(started);
    control = *std::move(started);
  }
  LyingServer server;
  std::unique_ptr<ControlThread> control;
};

Place& ThePlace() {
  static Place* const place = new Place();
  return *place;
}

SessionInfo Info() { return {1, FuzzServer::kWorldSize, "a", 101, 7}; }

// One attempt, of which nothing but its end is expected.
void TryToOpen() {
  store_internal::HandshakeOptions options{ThePlace().server.address(), LyingServer::token(),
                                           Info(), absl::InfiniteDuration(),
                                           MonotonicNow() + kHang};
  options.max_attempts = 1;
  const auto opened = store_internal::OpenSession(options);
  CHECK(!opened.ok()) << "nobody who had the token said Welcome";
}

// Everything that a client can ask, over a connection that ends.
void UseSession() {
  TcpStore::Options options;
  options.address = ThePlace().server.address();
  options.token = LyingServer::token();
  options.session = Info();
  options.heartbeat_timeout = absl::InfiniteDuration();
  options.deadline = MonotonicNow() + kHang;
  options.control_thread = ThePlace().control.get();
  absl::StatusOr<std::unique_ptr<TcpStore>> store = TcpStore::Connect(options);
  CHECK_OK(store);
  const absl::Time never = absl::InfiniteFuture();
  absl::BlockingCounter pending(kRequests * 5);
  const auto answered = [&pending](const auto&) { pending.DecrementCount(); };
  for (int i = 0; i < kRequests; ++i) {
    (*store)->Get("k", never, answered);
    (*store)->Set("k", "v", Lifetime::kPersistent, never, answered);
    (*store)->CompareAndSet("k", 0, "v", Lifetime::kSession, never, answered);
    (*store)->Gather(absl::StrCat("g", i), 1, 2, "v", never, answered);
    auto ended = std::make_shared<bool>(false);
    (*store)->Watch("", [&pending, ended](const auto& batch) {
      CHECK(!*ended) << "after the end of its watch";
      if (batch.ok()) return;
      *ended = true;
      pending.DecrementCount();
    });
  }
  // At the latest at the end of the connection.
  pending.Wait();
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
  for (const NamedMessage& named : Greetings()) {
    const std::string frame = EncodeFrame(named.message);
    seeds.push_back({absl::StrCat("unproven_", named.name), '\0' + frame});
    seeds.push_back({absl::StrCat("proven_", named.name), '\1' + frame});
  }
  seeds.push_back({"http", std::string(1, '\0') + "HTTP/1.1 400 Bad Request\r\n\r\n"});
  std::string session = "\3";
  for (const auto& messages : {Requests(), Responses(), Greetings()}) {
    for (const NamedMessage& named : messages) {
      const std::string frame = EncodeFrame(named.message);
      seeds.push_back({absl::StrCat("unsealed_", named.name), '\2' + frame});
      seeds.push_back({absl::StrCat("session_", named.name), '\3' + WithLength(MessageOf(frame))});
    }
  }
  for (const NamedMessage& named : Responses()) {
    session += WithLength(MessageOf(EncodeFrame(named.message)));
  }
  seeds.push_back({"session", session});
  return seeds;
}

}  // namespace muster::store_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using muster::store_fuzz::FuzzConnection;
  if (size == 0) return 0;
  const int honesty = data[0] % 4;
  const absl::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  muster::store_fuzz::ThePlace();
  std::thread liar([honesty, rest] {
    const std::unique_ptr<FuzzConnection> connection =
        muster::store_fuzz::ThePlace().server.Accept();
    if (honesty == 0) {
      connection->Receive();
    } else {
      connection->Challenge();
    }
    if (honesty >= 2) {
      connection->Welcome();
      // Then the session is open, and nothing that follows is taken for a part of the greeting.
      connection->Receive();
    }
    if (honesty == 3) {
      muster::store_fuzz::SendMessages(*connection, rest);
    } else {
      connection->Send(rest);
    }
    connection->Finish();
  });
  if (honesty < 2) {
    muster::store_fuzz::TryToOpen();
  } else {
    muster::store_fuzz::UseSession();
  }
  liar.join();
  return 0;
}

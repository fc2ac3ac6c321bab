#include "muster/core/store/fuzz/real_messages.h"

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/store.h"

namespace muster::store_fuzz {

using store_internal::Request;
using store_internal::Response;

std::vector<NamedMessage> Greetings() {
  using store_internal::kNonceBytes;
  store_internal::Open open;
  open.proof = std::string(32, 'p');
  open.session = {1, 3, "host b", 812, 0xfedcba9876543210u};
  open.heartbeat_timeout = absl::Seconds(10);
  return {
      {"hello", store_internal::Hello{store_internal::kWireVersion, std::string(kNonceBytes, 'n')}},
      {"old_hello", store_internal::Hello{1, "n"}},
      {"challenge", store_internal::Challenge{std::string(kNonceBytes, 'm'), std::string(32, 'q')}},
      {"open", open},
      {"welcome", store_internal::Welcome{"rank 0, host a, pid 7"}},
      {"refused", store_internal::Refused{absl::AlreadyExistsError("rank 1 is here")}}};
}

std::vector<NamedMessage> Responses() {
  Response answer;
  answer.id = 9;
  answer.swapped = true;
  answer.revision = 11;
  answer.entry = {"k", "v", 10};
  answer.values = {"", "one", std::string(300, 'x')};
  Response failed;
  failed.id = 3;
  failed.status = absl::NotFoundError("no key");
  Response batch;
  batch.kind = Response::Kind::kWatchBatch;
  batch.id = 4;
  batch.events = {{WatchEvent::Kind::kPut, {"a", "1", 5}},
                  {WatchEvent::Kind::kDelete, {"b", "", 6}}};
  return {{"answer", answer}, {"failed", failed}, {"batch", batch}};
}

std::vector<NamedMessage> Requests() {
  const auto request = [](Request::Type type, const std::string& key) {
    Request made;
    made.type = type;
    made.id = 5;
    made.key = key;
    return made;
  };
  Request set = request(Request::Type::kSet, "group/train");
  set.value = "muster-group 1";
  Request session_key = set;
  session_key.lifetime = Lifetime::kSession;
  Request compare = request(Request::Type::kCompareAndSet, "group/train");
  compare.value = "other";
  compare.expected = 2;
  Request gather = request(Request::Type::kGather, "connect/train/1");
  gather.rank = 1;
  gather.size = 2;
  gather.value = "127.0.0.1:1";
  gather.timeout = absl::Milliseconds(1);
  Request alone = gather;
  alone.rank = 0;
  alone.size = 1;
  Request withdraw = request(Request::Type::kWithdraw, "connect/train/1");
  withdraw.rank = 1;
  withdraw.value = "enough";
  Request leave = request(Request::Type::kLeave, "");
  leave.value = "done";
  return {{"get", request(Request::Type::kGet, "group/train")},
          {"set", set},
          {"set_session_key", session_key},
          {"set_session_record", request(Request::Type::kSet, "session/0")},
          {"compare_and_set", compare},
          {"delete", request(Request::Type::kDelete, "group/train")},
          {"watch", request(Request::Type::kWatch, "session/")},
          {"watch_all", request(Request::Type::kWatch, "")},
          {"unwatch", request(Request::Type::kUnwatch, "")},
          {"gather", gather},
          {"gather_alone", alone},
          {"withdraw", withdraw},
          {"leave", leave},
          {"heartbeat", Request()}};
}

}  // namespace muster::store_fuzz

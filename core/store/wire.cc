#include "muster/core/store/wire.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster::store_internal {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kMaxStatusBytes = 16384;
constexpr absl::string_view kMagic = "muster-store";
constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max();

enum class Type : uint8_t {
  kHello = 1,
  kChallenge = 2,
  kOpen = 3,
  kWelcome = 4,
  kRefused = 5,
  kRequest = 16,
  kResponse = 17,
};

// `size`: of the whole frame, of which `head` is the beginning.
void SetLength(std::string* head, size_t size) {
  const uint32_t length = static_cast<uint32_t>(size - kLengthBytes);
  for (size_t i = 0; i < kLengthBytes; ++i) (*head)[i] = static_cast<char>(length >> (8 * i));
}

class Writer {
 public:
  explicit Writer(Type type) : bytes_(kLengthBytes, '\0') { U8(static_cast<uint8_t>(type)); }

  void U8(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void U32(uint32_t value) { Little(value, 4); }
  void U64(uint64_t value) { Little(value, 8); }
  void I32(int32_t value) { U32(static_cast<uint32_t>(value)); }
  void I64(int64_t value) { U64(static_cast<uint64_t>(value)); }
  void Text(absl::string_view text) {
    U32(static_cast<uint32_t>(text.size()));
    bytes_.append(text.data(), text.size());
  }
  void Duration(absl::Duration duration) {
    I64(duration == absl::InfiniteDuration() ? kInfinite : absl::ToInt64Microseconds(duration));
  }
  void Status(const absl::Status& status) {
    U8(static_cast<uint8_t>(status.code()));
    Text(status.message().substr(0, kMaxStatusBytes));
  }

  std::string Frame() && {
    SetLength(&bytes_, bytes_.size());
    return std::move(bytes_);
  }
  // What was written since, without the beginning of a frame.
  std::string Fields() && { return std::move(bytes_).substr(kLengthBytes + 1); }

 private:
  void Little(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  std::string bytes_;
};

// Reads fields until something is wrong; then everything reads as zero and ok() is false.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : rest_(bytes) {}

  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && rest_.empty(); }
  void Refuse() { ok_ = false; }

  uint8_t U8() { return static_cast<uint8_t>(Little(1)); }
  uint32_t U32() { return static_cast<uint32_t>(Little(4)); }
  uint64_t U64() { return Little(8); }
  int32_t I32() { return static_cast<int32_t>(U32()); }
  int64_t I64() { return static_cast<int64_t>(U64()); }
  bool Bool() {
    const uint8_t value = U8();
    if (value > 1) Refuse();
    return value == 1;
  }
  std::string Text() {
    const uint32_t size = U32();
    if (!ok_ || size > rest_.size()) {
      Refuse();
      return "";
    }
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  absl::Duration Duration() {
    const int64_t microseconds = I64();
    return microseconds == kInfinite ? absl::InfiniteDuration() : absl::Microseconds(microseconds);
  }
  absl::Status Status() {
    const uint8_t code = U8();
    const std::string message = Text();
    if (code > static_cast<uint8_t>(absl::StatusCode::kUnauthenticated)) Refuse();
    if (!ok_ || code == 0) return absl::OkStatus();
    return absl::Status(static_cast<absl::StatusCode>(code), message);
  }
  // A number of things of at least `each` bytes: more than there is room for is refused before
  // anything is made for it.
  uint32_t Count(size_t each) {
    const uint32_t count = U32();
    if (count <= rest_.size() / each) return count;
    Refuse();
    return 0;
  }

 private:
  uint64_t Little(size_t bytes) {
    if (!ok_ || rest_.size() < bytes) {
      Refuse();
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
    }
    rest_.remove_prefix(bytes);
    return value;
  }

  absl::string_view rest_;
  bool ok_ = true;
};

constexpr size_t kMinEntryBytes = 4 + 4 + 8;

void Put(Writer& writer, const Entry& entry) {
  writer.Text(entry.key);
  writer.Text(entry.value);
  writer.I64(entry.revision);
}

Entry TakeEntry(Reader& reader) {
  Entry entry;
  entry.key = reader.Text();
  entry.value = reader.Text();
  entry.revision = reader.I64();
  return entry;
}

void PutHead(Writer& writer, const Response& response) {
  writer.U8(static_cast<uint8_t>(response.kind));
  writer.U64(response.id);
  writer.Status(response.status);
  writer.U8(response.swapped ? 1 : 0);
  writer.I64(response.revision);
  Put(writer, response.entry);
}

void PutValues(Writer& writer, absl::Span<const std::string> values) {
  writer.U32(static_cast<uint32_t>(values.size()));
  for (const std::string& value : values) writer.Text(value);
}

void PutEvents(Writer& writer, absl::Span<const WatchEvent> events) {
  writer.U32(static_cast<uint32_t>(events.size()));
  for (const WatchEvent& event : events) {
    writer.U8(event.kind == WatchEvent::Kind::kDelete ? 1 : 0);
    Put(writer, event.entry);
  }
}

void Put(Writer& writer, const SessionInfo& info) {
  writer.I32(info.rank);
  writer.I32(info.world_size);
  writer.Text(absl::string_view(info.host).substr(0, 1024));
  writer.I64(info.pid);
  writer.U64(info.incarnation);
}

SessionInfo TakeSessionInfo(Reader& reader) {
  SessionInfo info;
  info.rank = reader.I32();
  info.world_size = reader.I32();
  info.host = reader.Text();
  info.pid = reader.I64();
  info.incarnation = reader.U64();
  return info;
}

struct Encoder {
  std::string operator()(const Hello& hello) const {
    Writer writer(Type::kHello);
    writer.Text(kMagic);
    writer.U32(hello.version);
    writer.Text(hello.nonce);
    return std::move(writer).Frame();
  }
  std::string operator()(const Challenge& challenge) const {
    Writer writer(Type::kChallenge);
    writer.Text(challenge.nonce);
    writer.Text(challenge.proof);
    return std::move(writer).Frame();
  }
  std::string operator()(const Open& open) const {
    Writer writer(Type::kOpen);
    writer.Text(open.proof);
    Put(writer, open.session);
    writer.Duration(open.heartbeat_timeout);
    return std::move(writer).Frame();
  }
  std::string operator()(const Welcome& welcome) const {
    Writer writer(Type::kWelcome);
    writer.Text(absl::string_view(welcome.who).substr(0, 1024));
    return std::move(writer).Frame();
  }
  std::string operator()(const Refused& refused) const {
    Writer writer(Type::kRefused);
    writer.Status(absl::Status(refused.status.code(), refused.status.message().substr(0, 4096)));
    return std::move(writer).Frame();
  }
  std::string operator()(const Request& request) const {
    Writer writer(Type::kRequest);
    writer.U8(static_cast<uint8_t>(request.type));
    writer.U64(request.id);
    writer.Text(request.key);
    writer.Text(request.value);
    writer.I64(request.expected);
    writer.U8(request.lifetime == Lifetime::kSession ? 1 : 0);
    writer.I32(request.rank);
    writer.I32(request.size);
    writer.Duration(request.timeout);
    writer.U32(static_cast<uint32_t>(request.members.size()));
    for (const int32_t member : request.members) writer.I32(member);
    writer.Text(request.waits_in);
    return std::move(writer).Frame();
  }
  std::string operator()(const Response& response) const {
    Writer writer(Type::kResponse);
    PutHead(writer, response);
    PutValues(writer, response.values);
    PutEvents(writer, response.events);
    return std::move(writer).Frame();
  }
};

Hello TakeHello(Reader& reader) {
  Hello hello;
  if (reader.Text() != kMagic) reader.Refuse();
  hello.version = reader.U32();
  hello.nonce = reader.Text();
  return hello;
}

Request TakeRequest(Reader& reader) {
  Request request;
  const uint8_t type = reader.U8();
  if (type < static_cast<uint8_t>(Request::Type::kGet) ||
      type > static_cast<uint8_t>(Request::Type::kHeartbeat)) {
    reader.Refuse();
  }
  request.type = static_cast<Request::Type>(type);
  request.id = reader.U64();
  request.key = reader.Text();
  request.value = reader.Text();
  request.expected = reader.I64();
  request.lifetime = reader.Bool() ? Lifetime::kSession : Lifetime::kPersistent;
  request.rank = reader.I32();
  request.size = reader.I32();
  request.timeout = reader.Duration();
  const uint32_t members = reader.Count(sizeof(int32_t));
  request.members.reserve(members);
  for (uint32_t i = 0; i < members && reader.ok(); ++i) request.members.push_back(reader.I32());
  request.waits_in = reader.Text();
  return request;
}

Response TakeResponse(Reader& reader) {
  Response response;
  const uint8_t kind = reader.U8();
  if (kind != static_cast<uint8_t>(Response::Kind::kAnswer) &&
      kind != static_cast<uint8_t>(Response::Kind::kWatchBatch)) {
    reader.Refuse();
  }
  response.kind = static_cast<Response::Kind>(kind);
  response.id = reader.U64();
  response.status = reader.Status();
  response.swapped = reader.Bool();
  response.revision = reader.I64();
  response.entry = TakeEntry(reader);
  const uint32_t values = reader.Count(4);
  for (uint32_t i = 0; i < values && reader.ok(); ++i) response.values.push_back(reader.Text());
  const uint32_t events = reader.Count(1 + kMinEntryBytes);
  for (uint32_t i = 0; i < events && reader.ok(); ++i) {
    WatchEvent event;
    event.kind = reader.Bool() ? WatchEvent::Kind::kDelete : WatchEvent::Kind::kPut;
    event.entry = TakeEntry(reader);
    response.events.push_back(std::move(event));
  }
  return response;
}

Message Take(Type type, Reader& reader) {
  switch (type) {
    case Type::kHello:
      return TakeHello(reader);
    case Type::kChallenge: {
      Challenge challenge;
      challenge.nonce = reader.Text();
      challenge.proof = reader.Text();
      return challenge;
    }
    case Type::kOpen: {
      Open open;
      open.proof = reader.Text();
      open.session = TakeSessionInfo(reader);
      open.heartbeat_timeout = reader.Duration();
      return open;
    }
    case Type::kWelcome:
      return Welcome{reader.Text()};
    case Type::kRefused: {
      Refused refused{reader.Status()};
      if (refused.status.ok()) reader.Refuse();
      return refused;
    }
    case Type::kRequest:
      return TakeRequest(reader);
    case Type::kResponse:
      return TakeResponse(reader);
  }
  reader.Refuse();
  return Refused();
}

}  // namespace

std::string EncodeFrame(const Message& message) { return std::visit(Encoder(), message); }

std::string EncodeValues(absl::Span<const std::string> values) {
  Writer writer(Type::kResponse);
  PutValues(writer, values);
  return std::move(writer).Fields();
}

FrameParts EncodeAnswer(const Response& response, std::shared_ptr<const std::string> values) {
  Writer head(Type::kResponse);
  PutHead(head, response);
  Writer tail(Type::kResponse);
  PutEvents(tail, response.events);
  FrameParts frame{std::move(head).Frame(), std::move(values), std::move(tail).Fields()};
  SetLength(&frame.head, frame.size());
  return frame;
}

absl::string_view MessageOf(absl::string_view frame) { return frame.substr(kLengthBytes); }

void ExtendFrame(std::string* frame, absl::string_view tail) {
  frame->append(tail.data(), tail.size());
  SetLength(frame, frame->size());
}

void ExtendFrame(FrameParts* frame, absl::string_view tail) {
  frame->tail.append(tail.data(), tail.size());
  SetLength(&frame->head, frame->size());
}

absl::StatusOr<Message> DecodeBody(absl::string_view body) {
  Reader reader(body);
  const uint8_t type = reader.U8();
  Message message = Take(static_cast<Type>(type), reader);
  if (!reader.AtEnd()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a malformed frame of type ", type, " and ", body.size(), " bytes"));
  }
  return message;
}

absl::StatusOr<std::optional<absl::string_view>> FrameReader::Next() {
  // The buffer moves up only when at least half of it has been given out, so that many small frames
  // cost no more than their bytes.
  if (begin_ > 0 && begin_ >= buffer_.size() - begin_) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  if (pending() < kLengthBytes) return std::nullopt;
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<size_t>(static_cast<unsigned char>(buffer_[begin_ + i])) << (8 * i);
  }
  if (length > max_body_) {
    return absl::InvalidArgumentError(
        absl::StrCat("a frame of ", length, " bytes, the limit is ", max_body_));
  }
  if (pending() < kLengthBytes + length) return std::nullopt;
  const absl::string_view body = absl::string_view(buffer_).substr(begin_ + kLengthBytes, length);
  begin_ += kLengthBytes + length;
  return body;
}

}  // namespace muster::store_internal

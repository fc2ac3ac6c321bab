#include "muster/testing/rank_events.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/read_file.h"

namespace muster {
namespace testing {
namespace {

constexpr absl::string_view kOutcomes[] = {"running", "passed", "failed", "skipped"};

std::string Now() { return absl::StrCat(absl::ToInt64Nanoseconds(HostTime())); }

// One line: the kind, the time, then escaped fields.
class LineParser {
 public:
  absl::Status Add(absl::string_view line, RankRecord* record) {
    std::vector<std::string> fields;
    for (const absl::string_view escaped : absl::StrSplit(line, '\t')) {
      std::string field;
      if (!absl::CUnescape(escaped, &field)) return Bad(line);
      fields.push_back(std::move(field));
    }
    int64_t nanoseconds = 0;
    if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &nanoseconds)) return Bad(line);
    const absl::Duration at = absl::Nanoseconds(nanoseconds);
    const std::string& kind = fields[0];
    const bool in_test = record->running() != nullptr;
    if (kind == "start" && fields.size() == 4) {
      TestRecord test;
      test.suite = fields[2];
      test.name = fields[3];
      test.started = at;
      record->tests.push_back(std::move(test));
      return absl::OkStatus();
    }
    if (kind == "fail" && fields.size() == 4) {
      TestFailure failure{at, fields[2], fields[3]};
      std::vector<TestFailure>& list = in_test ? record->tests.back().failures : record->outside;
      list.push_back(std::move(failure));
      return absl::OkStatus();
    }
    if (kind == "leak" && fields.size() == 4) {
      record->leaked.push_back({fields[2], fields[3]});
      return absl::OkStatus();
    }
    if (kind == "end" && fields.size() == 3 && in_test) {
      for (int i = 0; i < 4; ++i) {
        if (fields[2] != kOutcomes[i]) continue;
        record->tests.back().outcome = static_cast<TestRecord::Outcome>(i);
        record->tests.back().ended = at;
        return absl::OkStatus();
      }
    }
    int code = 0;
    if (kind == "finished" && fields.size() == 3 && absl::SimpleAtoi(fields[2], &code)) {
      record->finished_with = code;
      return absl::OkStatus();
    }
    return Bad(line);
  }

 private:
  static absl::Status Bad(absl::string_view line) {
    return absl::DataLossError(
        absl::StrCat("not an event of a rank: \"", absl::CHexEscape(line), "\""));
  }
};

}  // namespace

absl::Duration HostTime() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

absl::Duration ToHostTime(absl::Time time) {
  // Again where the scheduler came between the two readings: who failed first is a matter of
  // milliseconds.
  constexpr int kTries = 100;
  absl::Duration host;
  for (int i = 0; i < kTries; ++i) {
    const absl::Duration before = HostTime();
    host = before - (MonotonicNow() - time);
    if (HostTime() - before < absl::Microseconds(100)) break;
  }
  return host;
}

const TestRecord* RankRecord::running() const {
  const bool there = !tests.empty() && tests.back().outcome == TestRecord::Outcome::kRunning;
  return there ? &tests.back() : nullptr;
}

absl::StatusOr<std::unique_ptr<RankEventWriter>> RankEventWriter::Open(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
  }
  return absl::WrapUnique(new RankEventWriter(std::move(fd)));
}

RankEventWriter::RankEventWriter(UniqueFd fd) : fd_(std::move(fd)) {}

void RankEventWriter::Started(absl::string_view suite, absl::string_view name) {
  Write({"start", Now(), std::string(suite), std::string(name)});
}

void RankEventWriter::Failed(absl::string_view where, absl::string_view message) {
  Write({"fail", Now(), std::string(where), std::string(message)});
}

void RankEventWriter::Leaked(absl::string_view test, absl::string_view group) {
  Write({"leak", Now(), std::string(test), std::string(group)});
}

void RankEventWriter::Ended(TestRecord::Outcome outcome) {
  Write({"end", Now(), std::string(kOutcomes[static_cast<int>(outcome)])});
}

void RankEventWriter::Finished(int code) { Write({"finished", Now(), absl::StrCat(code)}); }

void RankEventWriter::Write(const std::vector<std::string>& fields) {
  const auto escape = [](std::string* out, const std::string& field) {
    absl::StrAppend(out, absl::CEscape(field));
  };
  const std::string line = absl::StrCat(absl::StrJoin(fields, "\t", escape), "\n");
  // One write, so that a crash on another thread leaves a whole line or none.
  (void)!write(fd_.get(), line.data(), line.size());
}

absl::StatusOr<RankRecord> ReadRankEvents(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  // A rank that has not begun has none.
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  return ParseRankEvents(text.value_or(""));
}

absl::StatusOr<RankRecord> ParseRankEvents(absl::string_view text) {
  RankRecord record;
  LineParser parser;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == absl::string_view::npos) break;
    absl::Status status = parser.Add(text.substr(0, end), &record);
    if (!status.ok()) return status;
    text.remove_prefix(end + 1);
  }
  return record;
}

}  // namespace testing
}  // namespace muster

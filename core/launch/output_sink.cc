#include "muster/core/launch/output_sink.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {
namespace {

constexpr int kUsualColumns = 80;
// ECMA-48: to the first column; erase to the end of the line.
constexpr absl::string_view kEraseLine = "\r\x1b[K";

// At most `count` characters of UTF-8: a bar that wraps cannot be taken away again. A wide
// character counts as one.
absl::string_view FirstCharacters(absl::string_view text, int count) {
  size_t end = 0;
  for (; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (begins && count-- <= 0) break;
  }
  return text.substr(0, end);
}

}  // namespace

PrefixedOutput::PrefixedOutput(int ranks, int output_fd, int errors_fd)
    : terminal_(isatty(output_fd) == 1 ? output_fd : -1),
      errors_join_output_(terminal_ >= 0 && isatty(errors_fd) == 1),
      output_(output_fd),
      errors_(errors_fd) {
  const LinePrefixer::Mode mode = terminal_ >= 0 ? LinePrefixer::kRedraw : LinePrefixer::kKeep;
  for (int rank = 0; rank < ranks; ++rank) {
    ranks_.push_back({LinePrefixer(rank, mode), LinePrefixer(rank)});
  }
}

LinePrefixer& PrefixedOutput::Prefixer(int rank, OutputStream stream) {
  Rank& found = ranks_[static_cast<size_t>(rank)];
  return stream == OutputStream::kOutput ? found.output : found.errors;
}

void PrefixedOutput::Write(int rank, OutputStream stream, absl::string_view bytes) {
  std::string lines;
  Prefixer(rank, stream).Add(bytes, &lines);
  Show(rank, stream, lines);
}

void PrefixedOutput::Finish(int rank, OutputStream stream) {
  std::string lines;
  Prefixer(rank, stream).Finish(&lines);
  Show(rank, stream, lines);
}

int PrefixedOutput::columns() const {
  if (terminal_ < 0) return 0;
  winsize window = {};
  if (ioctl(terminal_, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return kUsualColumns;
  return window.ws_col;
}

void PrefixedOutput::Show(int rank, OutputStream stream, absl::string_view lines) {
  if (&Queue(stream) != &output_) {
    Queue(stream).Add(lines);
    return;
  }
  std::string bar = bar_;
  if (stream == OutputStream::kOutput) {
    std::string redrawn = Prefixer(rank, stream).bar();
    if (!redrawn.empty() || rank == bar_rank_) {
      bar = std::move(redrawn);
      bar_rank_ = bar.empty() ? -1 : rank;
    }
  }
  bar.resize(FirstCharacters(bar, columns() - 1).size());
  if (lines.empty() && bar == bar_) return;
  if (!bar_.empty()) output_.Add(kEraseLine);
  output_.Add(absl::StrCat(lines, bar));
  bar_ = std::move(bar);
}

absl::StatusOr<std::unique_ptr<RankLogs>> RankLogs::Create(const std::string& folder, int ranks) {
  auto logs = absl::WrapUnique(new RankLogs());
  for (int rank = 0; rank < ranks; ++rank) {
    Log log;
    log.path = absl::StrCat(folder, "/rank", rank, ".log");
    log.fd =
        UniqueFd(open(log.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
    log.fd.MoveAboveStandard();
    if (!log.fd.valid()) {
      return absl::UnavailableError(absl::StrCat("cannot write ", log.path, ": ", strerror(errno)));
    }
    logs->logs_.push_back(std::move(log));
  }
  return logs;
}

void RankLogs::Write(int rank, OutputStream, absl::string_view bytes) {
  const int fd = logs_[static_cast<size_t>(rank)].fd.get();
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    // A full disk: the job goes on without its log.
    if (n < 0) return;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace muster

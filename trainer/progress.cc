#include "muster/trainer/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/log/log.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "muster/core/platform/environment.h"

namespace muster {
namespace {

constexpr absl::Duration kRedraw = absl::Milliseconds(100);
constexpr int kBarWidth = 24;
constexpr int kLeastBarWidth = 8;  // before a number is left out

class FileOutput final : public ProgressOutput {
 public:
  // `columns` counts where `file` does not know its own.
  FileOutput(std::FILE* file, bool is_terminal, int columns)
      : file_(file), is_terminal_(is_terminal), columns_(columns) {}

  bool is_terminal() const override { return is_terminal_; }
  int columns() const override {
    winsize size = {};
    const bool known = ioctl(fileno(file_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : columns_;
  }
  void Write(absl::string_view text) noexcept override {
    std::fwrite(text.data(), 1, text.size(), file_);
    std::fflush(file_);  // a line that waits in a buffer tells nobody how it goes
  }

 private:
  std::FILE* const file_;
  const bool is_terminal_;
  const int columns_;
};

class LogOutput final : public ProgressOutput {
 public:
  bool is_terminal() const override { return false; }
  void Write(absl::string_view text) noexcept override {
    LOG(INFO) << absl::StripSuffix(text, "\n");
  }
};

// "[======>      ]" with `width` characters inside.
std::string Bar(int64_t done, int64_t total, int width) {
  const int filled = static_cast<int>(total > 0 ? done * width / total : 0);
  std::string bar(filled, '=');
  if (filled < width) bar.append(1, '>').append(width - filled - 1, ' ');
  return absl::StrCat("[", bar, "]");
}

}  // namespace

std::unique_ptr<ProgressOutput> ProgressOutput::OfFile(std::FILE* file) {
  return std::make_unique<FileOutput>(file, isatty(fileno(file)) == 1, kUsualColumns);
}

std::unique_ptr<ProgressOutput> ProgressOutput::OfStandardOutput(const Environment& environment) {
  const bool is_terminal = isatty(STDOUT_FILENO) == 1;
  const bool through_launcher =
      !is_terminal && environment.Get("MUSTER_TERMINAL").value_or("") == "1";
  int columns = 0;
  if (!absl::SimpleAtoi(environment.Get("COLUMNS").value_or(""), &columns) || columns < 1) {
    columns = kUsualColumns;
  }
  if (through_launcher) {
    columns -= static_cast<int>(
        absl::StrCat("[", environment.Get("MUSTER_RANK").value_or("0"), "] ").size());
  }
  return std::make_unique<FileOutput>(stdout, is_terminal || through_launcher, columns);
}

std::unique_ptr<ProgressOutput> ProgressOutput::OfLog() { return std::make_unique<LogOutput>(); }

void Progress::Update(absl::string_view label, int64_t done, int64_t total, const MetricSums& sums,
                      double samples_per_second) {
  if (output_ == nullptr || !output_->is_terminal()) return;
  const absl::Time now = now_();
  if (now < next_draw_) return;
  next_draw_ = now + kRedraw;
  const size_t width = Width();
  std::vector<std::string> numbers = {absl::StrFormat("%d/%d", done, total),
                                      absl::StrFormat("loss %.4f", sums.mean_loss())};
  if (sums.has_accuracy()) numbers.push_back(absl::StrFormat("accuracy %.4f", sums.accuracy()));
  numbers.push_back(absl::StrFormat("%.0f samples/s", samples_per_second));
  std::string text;
  for (; !numbers.empty(); numbers.pop_back()) {
    const std::string behind = absl::StrCat(" ", absl::StrJoin(numbers, "  "));
    const int64_t room = static_cast<int64_t>(width) -
                         static_cast<int64_t>(label.size() + std::strlen(" []") + behind.size());
    if (room < kLeastBarWidth) continue;
    const int bar = static_cast<int>(std::min<int64_t>(room, kBarWidth));
    text = absl::StrCat(label, " ", Bar(done, total, bar), behind);
    break;
  }
  if (text.empty()) text = absl::StrFormat("%s %d/%d", label, done, total).substr(0, width);
  const size_t length = text.size();
  // A shorter bar covers the rest of a longer one.
  const size_t covered = std::min(drawn_, width);
  if (length < covered) text.append(covered - length, ' ');
  output_->Write(absl::StrCat("\r", text));
  drawn_ = std::max(length, covered);
}

size_t Progress::Width() const {
  // In the last column the cursor of some terminals is in the next line already.
  return static_cast<size_t>(std::max(output_->columns() - 1, 1));
}

void Progress::Line(absl::string_view text) {
  if (output_ == nullptr) return;
  EraseBar();
  output_->Write(absl::StrCat(text, "\n"));
}

void Progress::EraseBar() {
  if (drawn_ == 0) return;
  output_->Write(absl::StrCat("\r", std::string(std::min(drawn_, Width()), ' '), "\r"));
  drawn_ = 0;
  next_draw_ = absl::InfinitePast();
}

}  // namespace muster

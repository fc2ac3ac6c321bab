#include "muster/trainer/progress.h"

#include <unistd.h>

#include <algorithm>

#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "muster/core/platform/environment.h"

namespace muster {
namespace {

constexpr absl::Duration kRedraw = absl::Milliseconds(100);
constexpr int kBarWidth = 24;

class FileOutput final : public ProgressOutput {
 public:
  FileOutput(std::FILE* file, bool is_terminal) : file_(file), is_terminal_(is_terminal) {}

  bool is_terminal() const override { return is_terminal_; }
  void Write(absl::string_view text) override {
    std::fwrite(text.data(), 1, text.size(), file_);
    std::fflush(file_);  // a line that waits in a buffer tells nobody how it goes
  }

 private:
  std::FILE* const file_;
  const bool is_terminal_;
};

class LogOutput final : public ProgressOutput {
 public:
  bool is_terminal() const override { return false; }
  void Write(absl::string_view text) override { LOG(INFO) << absl::StripSuffix(text, "\n"); }
};

}  // namespace

std::unique_ptr<ProgressOutput> ProgressOutput::OfFile(std::FILE* file) {
  return std::make_unique<FileOutput>(file, isatty(fileno(file)) == 1);
}

std::unique_ptr<ProgressOutput> ProgressOutput::OfStandardOutput(const Environment& environment) {
  const bool is_terminal =
      isatty(STDOUT_FILENO) == 1 || environment.Get("MUSTER_TERMINAL").value_or("") == "1";
  return std::make_unique<FileOutput>(stdout, is_terminal);
}

std::unique_ptr<ProgressOutput> ProgressOutput::OfLog() { return std::make_unique<LogOutput>(); }

void Progress::Update(absl::string_view label, int64_t done, int64_t total, const MetricSums& sums,
                      double samples_per_second) {
  if (output_ == nullptr || !output_->is_terminal()) return;
  const absl::Time now = now_();
  if (now < next_draw_) return;
  next_draw_ = now + kRedraw;
  const int filled = static_cast<int>(total > 0 ? done * kBarWidth / total : 0);
  std::string bar(filled, '=');
  if (filled < kBarWidth) bar.append(1, '>').append(kBarWidth - filled - 1, ' ');
  std::string text =
      absl::StrFormat("%s [%s] %d/%d  loss %.4f  accuracy %.4f  %.0f samples/s", label, bar, done,
                      total, sums.mean_loss(), sums.accuracy(), samples_per_second);
  const size_t length = text.size();
  // A shorter bar covers the rest of a longer one.
  if (length < drawn_) text.append(drawn_ - length, ' ');
  output_->Write(absl::StrCat("\r", text));
  drawn_ = std::max(length, drawn_);
}

void Progress::Line(absl::string_view text) {
  if (output_ == nullptr) return;
  EraseBar();
  output_->Write(absl::StrCat(text, "\n"));
}

void Progress::EraseBar() {
  if (drawn_ == 0) return;
  output_->Write(absl::StrCat("\r", std::string(drawn_, ' '), "\r"));
  drawn_ = 0;
  next_draw_ = absl::InfinitePast();
}

}  // namespace muster

#include "muster/core/group/helper_thread.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {

HelperThread::~HelperThread() {
  if (thread_.get_id() == std::this_thread::get_id()) Abandon();
  Join();
}

absl::Status HelperThread::Start(absl::AnyInvocable<void()> task) {
  Join();
  // The one library call here that throws: std::thread reports a system without threads left by an
  // exception.
  try {
    thread_ = std::thread(std::move(task));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no thread could be started: ", error.what(),
                     "; look at the process and memory limits (ulimit -u, cgroup pids.max)"));
  }
  return absl::OkStatus();
}

void HelperThread::Join() {
  if (thread_.joinable()) thread_.join();
}

void HelperThread::Abandon() {
  if (thread_.joinable()) thread_.detach();
}

}  // namespace muster

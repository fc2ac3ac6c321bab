// What waits to be sent over several streams, counted together. What they share counts once, for as
// long as one of them holds it.
//
//   auto account = std::make_shared<QueueAccount>();
//   std::shared_ptr<const std::string> shared = QueueAccount::Share(account, std::move(bytes));
#ifndef MUSTER_CORE_STORE_QUEUE_ACCOUNT_H_
#define MUSTER_CORE_STORE_QUEUE_ACCOUNT_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace muster::store_internal {

// Thread-safe: the last holder may end after the thread that counted.
class QueueAccount {
 public:
  void Add(size_t bytes) { bytes_ += bytes; }
  void Remove(size_t bytes) { bytes_ -= bytes; }
  size_t bytes() const { return bytes_; }

  // `bytes`, in `account` until nobody holds them any more.
  static std::shared_ptr<const std::string> Share(std::shared_ptr<QueueAccount> account,
                                                  std::string bytes) {
    const size_t size = bytes.size();
    account->Add(size);
    return std::shared_ptr<const std::string>(
        new std::string(std::move(bytes)),
        [account = std::move(account), size](const std::string* shared) {
          account->Remove(size);
          delete shared;
        });
  }

 private:
  std::atomic<size_t> bytes_{0};
};

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_QUEUE_ACCOUNT_H_

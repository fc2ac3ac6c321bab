// Each message of the store's wire as the code sends it, for seeds.
#ifndef MUSTER_CORE_STORE_FUZZ_REAL_MESSAGES_H_
#define MUSTER_CORE_STORE_FUZZ_REAL_MESSAGES_H_

#include <string>
#include <vector>

#include "muster/core/store/wire.h"

namespace muster::store_fuzz {

struct NamedMessage {
  std::string name;
  store_internal::Message message;
};

// The greeting and the server's answers.
std::vector<NamedMessage> Greetings();
std::vector<NamedMessage> Responses();
// One request of each type.
std::vector<NamedMessage> Requests();

}  // namespace muster::store_fuzz

#endif  // MUSTER_CORE_STORE_FUZZ_REAL_MESSAGES_H_

// Reads the tables of docs/scenarios.md and compares them with the tests that they name.
//
//   std::vector<std::string> wrong = CheckScenarios(markdown, read_file);
#ifndef MUSTER_DOCS_SCENARIO_TABLE_H_
#define MUSTER_DOCS_SCENARIO_TABLE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

// A file of the repository by its path from the root; nullopt: there is none.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

// Every table whose last column is "kept by" is looked at. What is wrong, a line each: a row that
// names no test, a target that its package does not have, a test that is in no source of its
// target.
std::vector<std::string> CheckScenarios(absl::string_view markdown, const FileReader& read);

// How many rows the tables have.
int CountScenarios(absl::string_view markdown);

}  // namespace muster

#endif  // MUSTER_DOCS_SCENARIO_TABLE_H_

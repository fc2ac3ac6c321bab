// Plants the mistakes of protocol_mutations.txt in copies of the sources:
//
//   mutator protocol_mutations.txt NAMES_OUT (SOURCE OUT)...
//
// Lines that a mistake takes away stay, under the condition that it was not asked for, so one
// program has them all and one compilation. An edit whose lines are not found exactly once is an
// error: whoever changes them in the protocol changes them in the list.
#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace {

struct Edit {
  int mutation = 0;
  std::string file;
  std::vector<std::string> before;  // without the space around each line
  std::vector<std::string> after;
};

struct Mutation {
  std::string name;
  std::string breaks;
};

struct Plan {
  std::vector<Mutation> mutations;
  std::vector<Edit> edits;
};

std::vector<std::string> Lines(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::vector<std::string> lines = absl::StrSplit(text.str(), '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// "mutation NAME", "breaks PROMISE: WORDS", then edits: "file NAME", lines with "- " and after them
// lines with "+ ". "#" comments.
Plan Read(const std::string& path) {
  Plan plan;
  std::string file;
  bool open = false;  // an edit that still takes lines
  for (const std::string& line : Lines(path)) {
    absl::string_view rest = line;
    if (rest.empty() || rest[0] == '#') {
      open = false;
    } else if (absl::ConsumePrefix(&rest, "mutation ")) {
      plan.mutations.push_back({std::string(rest), ""});
      open = false;
    } else if (absl::ConsumePrefix(&rest, "breaks ") && !plan.mutations.empty()) {
      plan.mutations.back().breaks = std::string(rest);
      open = false;
    } else if (absl::ConsumePrefix(&rest, "file ")) {
      file = std::string(rest);
      open = false;
    } else if (absl::ConsumePrefix(&rest, "-")) {
      if (!open || !plan.edits.back().after.empty()) {
        plan.edits.push_back({static_cast<int>(plan.mutations.size()), file, {}, {}});
        open = true;
      }
      plan.edits.back().before.emplace_back(absl::StripAsciiWhitespace(rest));
    } else if (absl::ConsumePrefix(&rest, "+") && open) {
      plan.edits.back().after.emplace_back(rest);
    } else {
      std::cerr << path << ": cannot read '" << line << "'\n";
      exit(1);
    }
  }
  return plan;
}

void Apply(const Edit& edit, std::vector<std::string>& source) {
  const auto same = [](const std::string& line, const std::string& wanted) {
    return absl::StripAsciiWhitespace(line) == wanted;
  };
  const auto begin = edit.before.begin();
  const auto end = edit.before.end();
  const auto found = std::search(source.begin(), source.end(), begin, end, same);
  if (found == source.end() ||
      std::search(found + 1, source.end(), begin, end, same) != source.end()) {
    std::cerr << "in " << edit.file << (found == source.end() ? " there is no" : " there is twice")
              << "\n  " << absl::StrJoin(edit.before, "\n  ")
              << "\nwhich protocol_mutations.txt wants to change: change it there, too\n";
    exit(1);
  }
  std::vector<std::string> planted = {
      absl::StrCat("if (::muster::simulation::IsPlanted(", edit.mutation, ")) {")};
  planted.insert(planted.end(), edit.after.begin(), edit.after.end());
  planted.push_back("} else {");
  const auto last = found + static_cast<std::ptrdiff_t>(edit.before.size());
  planted.insert(planted.end(), found, last);
  planted.push_back("}");
  source.insert(source.erase(found, last), planted.begin(), planted.end());
}

void WriteNames(const Plan& plan, const std::string& path) {
  std::ofstream out(path);
  out << "#include \"muster/core/lifecycle/simulation/protocol_mutations.h\"\n"
         "namespace muster::simulation {\n"
         "namespace {\nint planted = 0;\n}\n"
         "std::vector<ProtocolMutation> ProtocolMutations() { return {\n";
  for (const Mutation& mutation : plan.mutations) {
    out << "  {\"" << mutation.name << "\", \"" << mutation.breaks << "\"},\n";
  }
  out << "}; }\n"
         "void PlantProtocolMutation(int number) { planted = number; }\n"
         "bool IsPlanted(int number) { return planted == number; }\n"
         "}  // namespace muster::simulation\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5 || argc % 2 == 0) {
    std::cerr << "usage: mutator MUTATIONS NAMES_OUT (SOURCE OUT)...\n";
    return 2;
  }
  const Plan plan = Read(argv[1]);
  WriteNames(plan, argv[2]);
  size_t applied = 0;
  for (int i = 3; i + 1 < argc; i += 2) {
    std::vector<std::string> source = Lines(argv[i]);
    for (const Edit& edit : plan.edits) {
      if (!absl::EndsWith(argv[i], absl::StrCat("/", edit.file))) continue;
      Apply(edit, source);
      ++applied;
    }
    std::ofstream out(argv[i + 1]);
    out << "#include \"muster/core/lifecycle/simulation/protocol_mutations.h\"\n"
        << absl::StrJoin(source, "\n") << "\n";
  }
  if (applied == plan.edits.size()) return 0;
  std::cerr << argv[1] << ": " << plan.edits.size() - applied
            << " edits name no file that is here\n";
  return 1;
}

#include "muster/docs/scenario_table.h"

#include <functional>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace muster {
namespace {

struct Row {
  std::string where;  // "line 14 (PT#119196)"
  std::string kept_by;
};

std::vector<std::string> CellsOf(absl::string_view line) {
  std::vector<std::string> cells;
  if (!absl::StartsWith(line, "|")) return cells;
  std::vector<absl::string_view> parts = absl::StrSplit(line, '|');
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    cells.emplace_back(absl::StripAsciiWhitespace(parts[i]));
  }
  return cells;
}

std::vector<Row> RowsOf(absl::string_view markdown) {
  std::vector<Row> rows;
  size_t columns = 0;  // of the table that we are in, when it is one of ours
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(markdown, '\n')) {
    ++number;
    const std::vector<std::string> cells = CellsOf(line);
    if (cells.empty()) {
      columns = 0;
    } else if (cells.back() == "kept by") {
      columns = cells.size();
    } else if (columns > 0 && !absl::StartsWith(cells[0], "--")) {
      rows.push_back({absl::StrCat("line ", number, " (", cells[0], ")"),
                      cells.size() == columns ? cells.back() : ""});
    }
  }
  return rows;
}

std::vector<std::smatch> Matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

// The call in a BUILD file that makes this target; "" without one.
std::string CallThatMakes(const std::string& build, const std::string& name) {
  static const std::regex call(R"re((?:^|\n)\w+\((?:\n    [^\n]*)+\n\))re");
  const std::string has_name = absl::StrCat("\n    name = \"", name, "\",");
  for (const std::smatch& found : Matches(build, call)) {
    if (absl::StrContains(found.str(), has_name)) return found.str();
  }
  return "";
}

bool HasTest(const std::string& source, const std::string& suite, const std::string& test) {
  const std::regex macro(absl::StrCat("TEST(?:_F|_P)?\\(", suite, ",\\s*", test, "\\)"));
  return std::regex_search(source, macro);
}

class Checker {
 public:
  explicit Checker(const FileReader& read) : read_(read) {}

  void Check(const Row& row) {
    // `//core/group:group_test` and then `GroupTest.OnlyTheLastHolderCloses`, one or more.
    static const std::regex named(R"re(`(?://([\w/]+):(\w+)|(\w+)\.(\w+))`)re");
    std::string target;
    std::vector<std::string> sources;
    int tests = 0;
    for (const std::smatch& found : Matches(row.kept_by, named)) {
      if (found[2].matched) {
        target = absl::StrCat("//", found[1].str(), ":", found[2].str());
        sources = SourcesOf(row, found[1], found[2]);
        continue;
      }
      ++tests;
      const std::string test = absl::StrCat(found[3].str(), ".", found[4].str());
      if (target.empty()) Wrong(row, absl::StrCat("the test ", test, " has no target before it"));
      bool there = sources.empty();  // which has been said
      for (const std::string& source : sources) there |= HasTest(source, found[3], found[4]);
      if (!there) Wrong(row, absl::StrCat(target, " has no test ", test));
    }
    if (tests == 0) Wrong(row, "no test keeps it");
  }

  std::vector<std::string> wrong() && { return std::move(wrong_); }

 private:
  void Wrong(const Row& row, absl::string_view what) {
    wrong_.push_back(absl::StrCat("docs/scenarios.md, ", row.where, ": ", what));
  }

  std::vector<std::string> SourcesOf(const Row& row, const std::string& package,
                                     const std::string& name) {
    std::vector<std::string> sources;
    const std::optional<std::string> build = read_(absl::StrCat(package, "/BUILD.bazel"));
    if (!build.has_value()) {
      Wrong(row, absl::StrCat("there is no package //", package));
      return sources;
    }
    const std::string call = CallThatMakes(*build, name);
    if (call.empty()) {
      Wrong(row, absl::StrCat("there is no target //", package, ":", name));
      return sources;
    }
    static const std::regex list(R"re(\n    srcs = \[([^\]]*)\])re");
    static const std::regex file(R"re("([\w/.]+\.cc)")re");
    for (const std::smatch& srcs : Matches(call, list)) {
      const std::string files = srcs[1].str();
      for (const std::smatch& found : Matches(files, file)) {
        const std::string path = absl::StrCat(package, "/", found[1].str());
        const std::optional<std::string> text = read_(path);
        if (text.has_value()) {
          sources.push_back(*text);
        } else {
          Wrong(row, absl::StrCat(path, " is not there"));
        }
      }
    }
    if (sources.empty()) {
      Wrong(row, absl::StrCat("//", package, ":", name, " is no test: it has no sources"));
    }
    return sources;
  }

  const FileReader& read_;
  std::vector<std::string> wrong_;
};

}  // namespace

std::vector<std::string> CheckScenarios(absl::string_view markdown, const FileReader& read) {
  Checker checker(read);
  for (const Row& row : RowsOf(markdown)) checker.Check(row);
  return std::move(checker).wrong();
}

int CountScenarios(absl::string_view markdown) { return static_cast<int>(RowsOf(markdown).size()); }

}  // namespace muster

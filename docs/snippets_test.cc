// Does what the documents show hold? Their C++ is in a file of docs/snippets, which is compiled and
// run; their macros, labels, links and tests are there. The documents and all that they name are
// data of this test.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

std::string Read(const fs::path& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in) << path << " is not among this test's data";
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The working directory of a test is the root of the repository, as far as its data goes.
std::vector<fs::path> FilesIn(const fs::path& folder, absl::string_view extension) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == std::string(extension)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<fs::path> Documents() {
  std::vector<fs::path> documents = FilesIn("docs", ".md");
  documents.push_back("README.md");
  return documents;
}

struct Block {
  std::string where;  // "docs/start.md:31"
  std::string text;
};

// The blocks between ```LANGUAGE and ```.
std::vector<Block> BlocksIn(const fs::path& document, absl::string_view language) {
  std::vector<Block> blocks;
  const std::string fence = absl::StrCat("```", language);
  bool inside = false;
  int number = 0;
  const std::string text = Read(document);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (!inside && line == fence) {
      inside = true;
      blocks.push_back({absl::StrCat(document.string(), ":", number), ""});
    } else if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      absl::StrAppend(&blocks.back().text, line, "\n");
    }
  }
  return blocks;
}

// Without indentation and empty lines, which a document may change.
std::string Plain(absl::string_view text) {
  std::string plain = "\n";
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view stripped = absl::StripAsciiWhitespace(line);
    if (!stripped.empty()) absl::StrAppend(&plain, stripped, "\n");
  }
  return plain;
}

std::vector<std::smatch> Matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

TEST(SnippetsTest, TheCppOfTheDocumentsIsCompiled) {
  std::vector<std::string> sources;
  for (const fs::path& file : FilesIn("docs/snippets", ".cc")) sources.push_back(Plain(Read(file)));
  int blocks = 0;
  for (const fs::path& document : Documents()) {
    for (const Block& block : BlocksIn(document, "cpp")) {
      ++blocks;
      const std::string wanted = Plain(block.text);
      EXPECT_TRUE(
          std::any_of(sources.begin(), sources.end(),
                      [&](const std::string& source) { return absl::StrContains(source, wanted); }))
          << block.where << ": this block is in no file of docs/snippets";
    }
  }
  EXPECT_GT(blocks, 5);
}

TEST(SnippetsTest, TheMacrosOfTheBuildFilesExist) {
  const std::set<std::string> of_bazel = {"bazel_dep", "local_path_override", "local_repository",
                                          "http_archive"};
  const std::regex load(R"re(load\("@(\w+)//([^:"]*):([^"]+)", "(\w+)"\))re");
  const std::regex call(R"re((?:^|\n)(\w+)\()re");
  for (const fs::path& document : Documents()) {
    for (const Block& block : BlocksIn(document, "python")) {
      std::set<std::string> known = of_bazel;
      for (const std::smatch& found : Matches(block.text, load)) {
        known.insert(found[4]);
        if (found[1] != "muster") continue;
        const std::string file = absl::StrCat(found[2].str(), "/", found[3].str());
        EXPECT_TRUE(absl::StrContains(Read(file), absl::StrCat("\ndef ", found[4].str(), "(")))
            << block.where << ": " << file << " has no " << found[4];
      }
      for (const std::smatch& found : Matches(block.text, call)) {
        if (found[1] == "load") continue;
        EXPECT_EQ(known.count(found[1]), 1) << block.where << ": nothing loads " << found[1];
      }
    }
  }
}

// Those are built and tested. All that the document may say otherwise is where the checkout lies.
TEST(SnippetsTest, TheImportersDeclareWhatTheImportSays) {
  const std::vector<Block> blocks = BlocksIn("docs/import.md", "python");
  const std::vector<std::string> importers = {"testing/importers/bzlmod/MODULE.bazel",
                                              "testing/importers/workspace/WORKSPACE"};
  ASSERT_EQ(blocks.size(), importers.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::string importer = Plain(Read(importers[i]));
    const std::string block =
        absl::StrReplaceAll(blocks[i].text, {{"\"../muster\"", "\"../../..\""}});
    size_t at = 0;
    for (const absl::string_view line : absl::StrSplit(block, '\n')) {
      if (line.empty() || line[0] == '#') continue;
      const size_t found = importer.find(Plain(line), at);
      ASSERT_NE(found, std::string::npos)
          << blocks[i].where << ": " << importers[i] << " has no line, or not here: " << line;
      at = found + 1;
    }
    EXPECT_GT(at, 0u) << blocks[i].where;
  }
}

TEST(SnippetsTest, TheFlagsOfTheImportAreTheImporters) {
  const std::vector<Block> blocks = BlocksIn("docs/import.md", "bazelrc");
  ASSERT_EQ(blocks.size(), 1u);
  for (const std::string importer : {"bzlmod", "workspace"}) {
    const std::string file = absl::StrCat("testing/importers/", importer, "/.bazelrc");
    EXPECT_TRUE(absl::StrContains(Plain(Read(file)), Plain(blocks[0].text)))
        << blocks[0].where << ": " << file << " does not have these lines";
  }
}

// The calls of a BUILD file by the name that each gives, as a bag of words: the documents may lay
// them out in another way. Users write cc_library and @muster where we have macros and no name.
std::map<std::string, std::multiset<std::string>> TargetsIn(const std::string& build) {
  const std::regex call(R"re((?:^|\n)(?:muster_)?(\w+\([^)]*?\bname = "([^"]+)"[^)]*\n\)))re");
  const std::regex word(R"re("[^"]*"|\w+)re");
  const std::string code = std::regex_replace(build, std::regex("#[^\n]*"), "");
  std::map<std::string, std::multiset<std::string>> targets;
  for (const std::smatch& found : Matches(code, call)) {
    const std::string text = absl::StrReplaceAll(found[1].str(), {{"\"@muster//", "\"//"}});
    for (const std::smatch& part : Matches(text, word)) targets[found[2]].insert(part.str());
  }
  return targets;
}

TEST(SnippetsTest, TheTargetsOfTheDocumentsAreThoseThatAreBuilt) {
  const auto built = TargetsIn(Read("docs/snippets/BUILD.bazel"));
  int targets = 0;
  for (const fs::path& document : Documents()) {
    if (document == "docs/import.md") continue;
    for (const Block& block : BlocksIn(document, "python")) {
      for (const auto& [name, words] : TargetsIn(block.text)) {
        ++targets;
        const auto ours = built.find(name);
        ASSERT_NE(ours, built.end()) << block.where << ": docs/snippets has no " << name;
        EXPECT_EQ(words, ours->second) << block.where << ": " << name;
      }
    }
  }
  EXPECT_GT(targets, 4);
}

TEST(SnippetsTest, TheLabelsOfTheDocumentsExist) {
  const std::regex label(
      R"re((?:@muster|bazelw (?:run|build|test)[^\n`]*? )//([\w/]+)(?::([\w.]+)|(?!\w|:)))re");
  int labels = 0;
  for (const fs::path& document : Documents()) {
    const std::string text = Read(document);
    for (const std::smatch& found : Matches(text, label)) {
      const fs::path package = found[1].str();
      const std::string name = found[2].matched ? found[2].str() : package.filename().string();
      ++labels;
      if (fs::exists(package / name)) continue;
      EXPECT_TRUE(
          absl::StrContains(Read(package / "BUILD.bazel"), absl::StrCat("name = \"", name, "\",")))
          << document << ": there is no " << found.str();
    }
  }
  EXPECT_GT(labels, 10);
}

// Of the top-level folders; what a .bzl file names is the macro's business.
TEST(SnippetsTest, EveryPublicTargetIsInTheTableOfTheImport) {
  const std::string table = Read("docs/import.md");
  const std::regex rule(R"re(\n\w+\(\n    name = "(\w+)",\n(?:(?!\)\n).*\n)*\)\n)re");
  const absl::string_view kPublic = "visibility = [\"//visibility:public\"]";
  int targets = 0;
  for (const std::string folder : {"backends", "core", "testing", "tools", "trainer"}) {
    const std::string build = Read(folder + "/BUILD.bazel");
    const bool by_default = absl::StrContains(build, absl::StrCat("default_", kPublic));
    std::string macros;
    for (const fs::path& file : FilesIn(folder, ".bzl")) macros += Read(file);
    for (const std::smatch& found : Matches(build, rule)) {
      const std::string name = found[1].str();
      const bool is_public = absl::StrContains(found.str(), kPublic) ||
                             (by_default && !absl::StrContains(found.str(), "visibility = "));
      if (!is_public || absl::StrContains(macros, absl::StrCat("//testing:", name, "\""))) continue;
      ++targets;
      const std::string label =
          absl::StrCat("@muster//", folder, name == folder ? "" : absl::StrCat(":", name));
      EXPECT_TRUE(absl::StrContains(table, absl::StrCat("`", label, "`")))
          << label << " is not in the table";
    }
  }
  EXPECT_GT(targets, 12);
}

TEST(SnippetsTest, TheLinksOfTheDocumentsLeadSomewhere) {
  const std::regex link(R"re(\]\(([^)#:]+)(?:#[^)]*)?\))re");
  for (const fs::path& document : Documents()) {
    const std::string text = Read(document);
    for (const std::smatch& found : Matches(text, link)) {
      const fs::path target = (document.parent_path() / found[1].str()).lexically_normal();
      EXPECT_TRUE(fs::exists(target)) << document << ": the link to " << target << " is dead";
    }
  }
}

// "`GroupTest.OnlyTheLastHolderCloses`" in docs/lifecycle.md.
TEST(SnippetsTest, TheTestsThatKeepThePromisesExist) {
  std::string sources;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(".")) {
    if (absl::EndsWith(entry.path().string(), "_test.cc")) sources += Read(entry.path());
  }
  const std::regex name(R"re(`([A-Z]\w+)\.([A-Z]\w+)`)re");
  const std::regex macro(R"re((?:TEST|TEST_F|TEST_P)\((\w+),\s*(\w+)\))re");
  std::set<std::pair<std::string, std::string>> there;
  for (const std::smatch& found : Matches(sources, macro)) there.insert({found[1], found[2]});
  const std::string text = Read("docs/lifecycle.md");
  int tests = 0;
  for (const std::smatch& found : Matches(text, name)) {
    ++tests;
    EXPECT_EQ(there.count({found[1], found[2]}), 1) << "docs/lifecycle.md: no test " << found.str();
  }
  EXPECT_GT(tests, 10);
}

// Every message that docs/troubleshooting.md explains fits into one cell.
TEST(SnippetsTest, EveryRowOfTheTroubleshootingTablesHasTwoCells) {
  const std::string text = Read("docs/troubleshooting.md");
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (!absl::StartsWith(line, "| `")) continue;
    const std::string plain = std::regex_replace(std::string(line), std::regex(R"(\\\|)"), "");
    EXPECT_EQ(std::count(plain.begin(), plain.end(), '|'), 3)
        << "docs/troubleshooting.md:" << number;
  }
}

}  // namespace
}  // namespace muster

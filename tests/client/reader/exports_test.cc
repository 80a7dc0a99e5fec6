// libcairn_reader.so as users load it: the calls of cairn_reader.h, and nothing else.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace cairn {
namespace {

std::string Output(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  char part[4096];
  for (std::size_t n; (n = std::fread(part, 1, sizeof part, pipe.get())) > 0;) text.append(part, n);
  return text;
}

TEST(ReaderExportsTest, TheCallsOfTheHeaderAreExportedAndNothingElse) {
  std::ifstream file("client/reader/cairn_reader.h");
  std::stringstream header;
  header << file.rdbuf();
  std::set<std::string> declared, exported;
  const std::string text = std::regex_replace(header.str(), std::regex(R"(/\*[^*]*\*+([^/*][^*]*\*+)*/)"), "");
  const std::regex call(R"((cairn_reader_\w+)\()");
  for (std::sregex_iterator found(text.begin(), text.end(), call), end; found != end; ++found) {
    declared.insert((*found)[1]);
  }
  std::istringstream symbols(Output(std::string("nm -D --defined-only ") + std::getenv("CAIRN_LIBRARY")));
  for (std::string address, kind, name; symbols >> address >> kind >> name;) exported.insert(name);
  EXPECT_GT(declared.size(), 20u);
  EXPECT_EQ(exported, declared);
}

TEST(ReaderExportsTest, ItLoadsByItself) {
  void* library = ::dlopen(std::getenv("CAIRN_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto version = reinterpret_cast<const char* (*)()>(::dlsym(library, "cairn_reader_version"));
  ASSERT_NE(version, nullptr);
  EXPECT_STRNE(version(), "");
}

}  // namespace
}  // namespace cairn

// libcairn.so as users get it: what it exports, and what it needs.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace {

std::string Library() {
  return std::string(std::getenv("CAIRN_LIBRARY"));
}

std::string OutputOf(const std::string& command) {
  std::string output;
  std::array<char, 4096> buffer;
  FILE* pipe = popen(command.c_str(), "r");
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

// The functions that the header declares.
std::set<std::string> Declared() {
  const std::string header = OutputOf("cat client/cairn.h");
  const std::regex declaration(R"(CAIRN_API\s[^;(]*?\b(cairn_\w+)\()");
  std::set<std::string> names;
  for (std::sregex_iterator at(header.begin(), header.end(), declaration), end; at != end; ++at) {
    names.insert((*at)[1]);
  }
  return names;
}

TEST(LibraryTest, ExportsTheFunctionsOfTheHeaderAndNothingElse) {
  std::istringstream lines(OutputOf("nm -D --defined-only " + Library()));
  std::set<std::string> exported;
  for (std::string place, kind, name; lines >> place >> kind >> name;) exported.insert(name);
  EXPECT_GE(exported.size(), 21u);
  EXPECT_EQ(exported, Declared());
}

TEST(LibraryTest, NeedsTheCLibraryOnly) {
  std::istringstream lines(OutputOf("readelf -d " + Library() + " | sed -n 's/.*(NEEDED).*\\[\\(.*\\)\\]/\\1/p'"));
  // Three of them are of a build with a sanitizer.
  const std::set<std::string> allowed = {"libc.so.6",    "libm.so.6",     "libpthread.so.0", "ld-linux-x86-64.so.2",
                                         "libasan.so.8", "libubsan.so.1", "libtsan.so.2",    "ld-linux-aarch64.so.1"};
  std::set<std::string> needed;
  for (std::string name; lines >> name;) {
    needed.insert(name);
    EXPECT_TRUE(allowed.contains(name)) << name;
  }
  EXPECT_TRUE(needed.contains("libc.so.6"));
}

// Threads it starts only where CAIRN_COPY_THREADS asks for them (copiers_test.cc, settings_test.cc).
TEST(LibraryTest, CatchesNoSignalAndLeavesTheProcessAlone) {
  const std::string imported = OutputOf("nm -D --undefined-only " + Library());
  for (const char* name : {"sigaction", "signal@", "pthread_atfork", "exit@", "abort@", "printf@"}) {
    EXPECT_EQ(imported.find(std::string(" ") + name), std::string::npos) << name;
  }
}

}  // namespace

#include "tests/support/munged.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "tests/integration/process.h"

namespace cairn::testing {
namespace {

class MungedImpl final : public Munged {
 public:
  MungedImpl(std::string folder, std::unique_ptr<Process> process)
      : folder_(std::move(folder)), socket_(folder_ + "/socket"), process_(std::move(process)) {}
  ~MungedImpl() override {
    Kill();
    std::filesystem::remove_all(folder_);
  }

  const std::string& socket() const override { return socket_; }
  void Kill() override {
    if (process_->running()) process_->Signal(SIGKILL);
    process_->Wait();
  }

 private:
  const std::string folder_, socket_;
  const std::unique_ptr<Process> process_;
};

}  // namespace

std::unique_ptr<Munged> Munged::Start(const std::string& key) {
  std::string folder = "/tmp/cairn-munged-XXXXXX";  // each part of the way must let others pass, or munged refuses it
  if (::mkdtemp(folder.data()) == nullptr || ::chmod(folder.c_str(), 0711) != 0) {
    ADD_FAILURE() << "no folder for munged";
    return nullptr;
  }
  const std::string key_file = folder + "/key";
  std::ofstream(key_file, std::ios::binary) << key;
  ::chmod(key_file.c_str(), 0600);
  auto process = Process::Start(
      {.arguments = {"/usr/sbin/munged", "--foreground", "--key-file=" + key_file, "--socket=" + folder + "/socket",
                     "--pid-file=" + folder + "/pid", "--log-file=" + folder + "/log",
                     "--seed-file=" + folder + "/seed", "--num-threads=2"},
       .environment = {},
       .working_directory = folder});
  if (process == nullptr) return nullptr;
  const bool ready = process->WaitForOutput("work threads");
  auto munged = std::make_unique<MungedImpl>(folder, std::move(process));
  if (ready) return munged;
  ADD_FAILURE() << "munged does not start";
  return nullptr;
}

}  // namespace cairn::testing

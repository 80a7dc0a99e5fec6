// Runs of FTI that the test vectors describe, done again by Cairn: the steps of a run (protect, checkpoint, recover,
// …) move the layout engine and a memory that is filled by the vectors' rule.
#ifndef CAIRN_TESTS_STORAGE_FORMAT_FTIFF_REPLAY_H_
#define CAIRN_TESTS_STORAGE_FORMAT_FTIFF_REPLAY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/layout.h"

namespace cairn::ftiff::testing {

// The bytes of a file that a scenario's JSON describes, unpacked; a wrong digest fails the test. `root`: the folder of
// the vectors.
std::string LoadVector(const std::string& root, const nlohmann::json& file);

// One application rank through all runs of a scenario.
class Replay {
 public:
  // `load` gives the file of a checkpoint that a run recovers from. `scenario` is borrowed.
  using Load = std::function<std::string(std::int32_t checkpoint_id)>;
  Replay(const nlohmann::json& scenario, std::int64_t app_rank, Load load);

  // On to the next checkpoint; false: there is none left, or the test has failed.
  bool Next();

  // Of the checkpoint that was reached.
  std::int32_t checkpoint_id() const { return checkpoint_id_; }
  const FileLayout& layout() const { return layout_; }                    // F's offsets
  const std::vector<Md5Digest>& chunk_hashes() const { return hashes_; }  // emptied ones: the last hash that was
  const std::string& memory(std::int32_t id) const { return variables_.at(id).bytes; }
  // The file as Cairn writes it; `letter`: A or F. The writer is given the hashes, or it finds them itself.
  std::string File(Letter letter, const FileHeader& header, bool hashes_given) const;

 private:
  struct Variable {
    std::int32_t id = 0;
    std::string type;
    std::size_t count = 0;
    std::string bytes;
    int version = 0;  // of the bytes
  };
  // What a hash was taken of: chunks that did not change are not hashed again.
  struct Hashed {
    int version = 0;
    std::uint64_t chunk_bytes = 0;
    friend bool operator==(const Hashed&, const Hashed&) = default;
  };

  void Do(const nlohmann::json& step);
  void Protect(const nlohmann::json& step);
  void Fill(Variable* variable);
  void Mutate(const nlohmann::json& step);
  void Recover();
  void Checkpoint(const nlohmann::json& step);
  std::vector<VariableSize> Processed(const nlohmann::json& step) const;
  std::size_t ElementBytes(const std::string& type) const;

  const nlohmann::json& scenario_;
  const std::int64_t app_rank_;
  const Load load_;
  std::size_t run_ = 0, step_ = 0;
  std::int64_t salt_ = 0;
  std::map<std::string, std::size_t> types_;
  std::vector<std::int32_t> protected_;  // in the order of their first registration
  std::map<std::int32_t, Variable> variables_;
  std::int32_t checkpoint_id_ = 0;
  FileLayout layout_;
  std::vector<Md5Digest> hashes_;
  std::vector<Hashed> hashed_;
  int last_version_ = 0;
  bool last_is_in_file_ = false;  // a file was recovered, or a differential one written: its containers are there
};

}  // namespace cairn::ftiff::testing

#endif  // CAIRN_TESTS_STORAGE_FORMAT_FTIFF_REPLAY_H_

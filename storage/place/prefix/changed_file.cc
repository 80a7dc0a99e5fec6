#include "storage/place/prefix/changed_file.h"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "storage/base/modes.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/io/create_once.h"
#include "storage/place/prefix/file_stamp.h"
#include "storage/place/prefix/record_edits.h"

namespace cairn {
namespace {

// SCR leaves the access to its files to the umask (SCR specification, section 2).
constexpr std::string_view kAppliedKey = "CAIRN_APPLIED";
constexpr int kRoundsMax = 1000;  // against others

// Held over reading, changing and writing. One for each record: a prefix that hangs holds nobody else up.
std::shared_ptr<absl::Mutex> MutexOf(const std::string& path) {
  struct Known {
    absl::Mutex mutex;
    std::map<std::string, std::weak_ptr<absl::Mutex>> by_path ABSL_GUARDED_BY(mutex);
  };
  static auto* const known = new Known;  // never destroyed: threads may still use it while the process ends
  const absl::MutexLock lock(&known->mutex);
  std::erase_if(known->by_path, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<absl::Mutex>& there = known->by_path[path];
  std::shared_ptr<absl::Mutex> mutex = there.lock();
  if (mutex == nullptr) there = mutex = std::make_shared<absl::Mutex>();
  return mutex;
}

absl::StatusOr<std::vector<std::string>> ListIfThere(Disk& disk, const std::string& folder) {
  auto names = disk.List(folder);
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();
  return names;
}

std::uint64_t AppliedOf(const kvtree::Tree& record) {
  const auto applied = record.GetUnsigned(kAppliedKey);
  return applied.ok() ? *applied : 0;  // what SCR's tools have left of it: then all changes count as not applied
}

}  // namespace

struct ChangedFile::State {
  kvtree::Tree tree;                        // without CAIRN_APPLIED
  std::uint64_t applied = 0;                // of the record on disk
  std::uint64_t newest = 0;                 // the last change that there is
  bool behind = false;                      // the record on disk lacks some of `tree`
  std::shared_ptr<const std::string> text;  // the record on disk; null: there is none
  bool checked = false;                     // by Hooks::check
  FileStamp stamp = {};                     // of the record on disk
};

ChangedFile::State ChangedFile::StateOf(kvtree::Tree record, std::shared_ptr<const std::string> text) {
  State state{.tree = std::move(record), .text = std::move(text)};
  state.applied = state.newest = AppliedOf(state.tree);
  state.tree.Erase(kAppliedKey);
  return state;
}

// A writer's work file: it is there before the writer reads, so that nobody removes a change that he may not have seen.
class ChangedFile::Writing {
 public:
  static absl::StatusOr<std::unique_ptr<Writing>> Begin(Disk& disk, const std::string& path,
                                                        const std::string& changes) {
    std::string work = WorkName(changes + "/" + BaseOf(path));
    CAIRN_ASSIGN_OR_RETURN(
        std::unique_ptr<File> file,
        disk.Open(work, {.writable = true, .create = true, .exclusive = true, .mode = kPrefixFileMode}));
    return std::make_unique<Writing>(disk, path, std::move(work), std::move(file));
  }
  Writing(Disk& disk, std::string path, std::string work, std::unique_ptr<File> file)
      : disk_(disk), path_(std::move(path)), work_(std::move(work)), file_(std::move(file)) {}
  ~Writing() {
    if (!replaced_) disk_.Remove(work_).IgnoreError();  // garbage; others wait until it is old
  }
  Writing(const Writing&) = delete;

  // Has nobody taken it for abandoned, by the folder's names?
  bool Stands(const std::vector<std::string>& names) const {
    return std::binary_search(names.begin(), names.end(), BaseOf(work_));
  }
  // kNotFound: somebody has taken it for abandoned. Afterwards the directory is to be synced.
  absl::Status Replace(std::string_view text) {
    CAIRN_RETURN_IF_ERROR(file_->WriteAt(0, std::as_bytes(std::span(text))));
    CAIRN_RETURN_IF_ERROR(file_->Sync());
    CAIRN_RETURN_IF_ERROR(disk_.Rename(work_, path_));
    replaced_ = true;
    return absl::OkStatus();
  }
  // After Replace: is the record still this one?
  bool IsRecord() const {
    if (!replaced_) return false;
    const auto mine = file_->Info(), record = disk_.Info(path_);  // a file that is open keeps its inode
    return mine.ok() && record.ok() && mine->inode == record->inode && mine->device == record->device;
  }

 private:
  Disk& disk_;
  const std::string path_, work_;
  const std::unique_ptr<File> file_;
  bool replaced_ = false;
};

absl::Status MakeRecordsFolder(Disk& disk, const std::string& folder) {
  const absl::Status made = disk.MakeDirectory(folder, kPrefixFolderMode);
  if (absl::IsAlreadyExists(made)) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(made);
  return disk.SyncDirectory(ParentOf(folder));
}

ChangedFile::ChangedFile(Disk& disk, std::string folder, std::string_view stem, Hooks hooks)
    : disk_(disk),
      folder_(std::move(folder)),
      stem_(stem),
      path_(fmt::format("{}/{}.scr", folder_, stem_)),
      changes_(fmt::format("{}/{}.changes", folder_, stem_)),
      hooks_(std::move(hooks)),
      shared_mutex_(MutexOf(path_)),
      mutex_(*shared_mutex_) {}

std::string ChangedFile::PathOf(std::uint64_t change) const {
  return fmt::format("{}/{}", changes_, change);
}

std::uint64_t ChangedFile::NumberOf(std::string_view name) const {
  return NumberAfter(name, "").value_or(0);
}

bool ChangedFile::IsWorkOfRecord(std::string_view name) const {
  return IsWorkName(name) && name.substr(0, name.rfind(kWorkSuffix)) == BaseOf(path_);
}

void ChangedFile::Wait(int round) const {
  const std::chrono::milliseconds time(std::min(1 << std::min(round, 6), 50));
  if (hooks_.pause) {
    hooks_.pause(time);
  } else {
    std::this_thread::sleep_for(time);
  }
}

// --- Reading ---

absl::StatusOr<kvtree::Tree> ChangedFile::MoveAsideAndRemake(const absl::Status& why, bool* remade) const {
  CAIRN_ASSIGN_OR_RETURN(const std::string aside, MoveAside(disk_, path_, path_ + ".damaged"));
  *remade = true;
  // Another may have replaced it since it was read.
  if (auto whole = ReadTree(disk_, aside); whole.ok() && (!hooks_.check || hooks_.check(*whole).ok())) {
    disk_.Remove(aside).IgnoreError();  // a copy that nobody needs
    return whole;
  }
  hooks_.warn(fmt::format("moved aside to {}: {}", aside, MessageOf(why)));
  kvtree::Tree tree;
  if (hooks_.remake) CAIRN_RETURN_IF_ERROR(hooks_.remake(tree));
  return tree;
}

ChangedFile::State ChangedFile::Kept() const {
  const absl::MutexLock lock(&kept_mutex_);
  return kept_ != nullptr ? *kept_ : State();
}

// A tree that was changed takes several times the memory of one that was read (kvtree::Tree::Packed).
ChangedFile::State ChangedFile::Compact(State state) const {
  if (state.text->size() < kLongBytes) return state;
  auto tree = kvtree::Decode(path_, *state.text);
  if (!tree.ok()) return state;
  const bool checked = state.checked;
  state = StateOf(*std::move(tree), std::move(state.text));
  state.checked = checked;
  return state;
}

void ChangedFile::Keep(State state) const {
  if (state.text == nullptr) return;
  auto kept = std::make_shared<const State>(std::move(state));
  const absl::MutexLock lock(&kept_mutex_);
  kept_ = std::move(kept);
}

// If it is what it was when it was looked at last: with the changes that were applied to it then.
absl::StatusOr<ChangedFile::State> ChangedFile::LoadRecord(bool mend, bool* remade) const {
  State state = Kept();
  absl::Status sound;
  const std::optional<FileInfo> shows = FileStamp::Look(disk_, path_);
  if (state.text == nullptr || !state.stamp.Proves(shows)) {
    const auto now = ReadWhole(disk_, path_, kvtree::kFileBytesMax);
    if (!now.ok() || state.text == nullptr || *now != *state.text) {
      state = State();
      std::string text;
      auto tree = ReadSettled(disk_, path_, hooks_.pause, &text);
      if (absl::IsNotFound(tree.status())) return State();
      sound = tree.status();
      if (sound.ok()) state = StateOf(*std::move(tree), std::make_shared<const std::string>(std::move(text)));
    }
    state.stamp.WasRead(shows, hooks_.now ? hooks_.now() : std::chrono::steady_clock::now());
  }
  if (sound.ok() && mend && !state.checked && hooks_.check) sound = hooks_.check(state.tree);
  state.checked = state.checked || (sound.ok() && mend);
  if (sound.ok()) return state;
  if (!mend || !absl::IsDataLoss(sound)) return sound;
  CAIRN_ASSIGN_OR_RETURN(kvtree::Tree tree, MoveAsideAndRemake(sound, remade));
  return StateOf(std::move(tree), nullptr);
}

// Answers the first change that is missing and not among the `lost`; 0: none, and all others are applied.
absl::StatusOr<std::uint64_t> ChangedFile::ApplyAll(const std::vector<std::uint64_t>& numbers,
                                                    const std::set<std::uint64_t>& lost, State& state) const {
  std::uint64_t expected = state.newest + 1;
  for (const std::uint64_t number : numbers) {
    if (number <= state.newest) continue;
    const bool gap = number != expected && expected > 1;  // without CAIRN_APPLIED the history begins where it does
    if (gap && !lost.contains(expected)) return expected;
    const std::string path = PathOf(number);
    const auto edits = ReadTreeOnce(disk_, path);
    if (absl::IsNotFound(edits.status())) {
      if (!lost.contains(number)) return number;
      continue;  // never made completely: if none is behind it, the next to come makes this one
    }
    if (gap)
      hooks_.warn(
          fmt::format("{}: changes {} to {} are gone, and the file does not have them", path_, expected, number - 1));
    state.newest = number;
    expected = number + 1;
    if (absl::IsDataLoss(edits.status())) {
      hooks_.warn(fmt::format("passed over: {}", MessageOf(edits.status())));  // nobody can say what it was
      continue;
    }
    if (!edits.ok()) return edits.status();
    CAIRN_RETURN_IF_ERROR(record_edits::Apply(path, *edits, state.tree));
  }
  return std::uint64_t{0};
}

// A change that is missing may have been removed since its name was read: then a record that is read now has it. If it
// has not, nobody will ever have that change.
absl::StatusOr<ChangedFile::State> ChangedFile::Load(bool mend) const {
  std::set<std::uint64_t> lost;
  std::pair<std::uint64_t, std::uint64_t> before;  // missing, applied
  for (int look = 1; look <= kRoundsMax; ++look) {
    // The names first: of a change that was removed before, the record that is read then knows.
    CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(disk_, changes_));
    std::vector<std::uint64_t> numbers;
    for (const std::string& name : names) {
      if (const std::uint64_t number = NumberOf(name); number != 0) numbers.push_back(number);
    }
    std::sort(numbers.begin(), numbers.end());
    bool remade = false;
    auto record = LoadRecord(mend, &remade);
    if (absl::IsNotFound(record.status())) {  // another has moved it aside at the same time
      Wait(look);
      continue;
    }
    if (!record.ok()) return record.status();
    State state = *std::move(record);
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t missing, ApplyAll(numbers, lost, state));
    if (missing == 0) {
      state.behind = remade || state.newest > state.applied;
      Keep(state);
      return state;
    }
    const std::pair now(missing, state.applied);
    if (now == before) lost.insert(missing);
    before = now;
  }
  return Unavailable("{}: other processes changed it during each attempt", path_);
}

absl::StatusOr<kvtree::Tree> ChangedFile::Read() const {
  CAIRN_ASSIGN_OR_RETURN(State state, Load(/*mend=*/false));
  return std::move(state.tree);
}

absl::StatusOr<bool> ChangedFile::IsNeeded(const Change& change) const {
  const auto state = Load(/*mend=*/false);
  if (!state.ok() || (state->behind && !MayStayBehind(*state))) return true;  // whatever it is, Make finds out
  kvtree::Tree after = state->tree;
  CAIRN_RETURN_IF_ERROR(change(after));
  return !after.SameAs(state->tree);
}

// --- Changing ---

absl::Status ChangedFile::MakeIfNeeded(const Change& change) {
  CAIRN_ASSIGN_OR_RETURN(const bool needed, IsNeeded(change));
  return needed ? Make(change) : absl::OkStatus();
}

std::unique_ptr<File> ChangedFile::TakeLock() {
  if (lockless_) return nullptr;
  auto file = disk_.Open(fmt::format("{}/{}.lock", folder_, stem_),
                         {.writable = true, .create = true, .mode = kPrefixFileMode});
  if (!file.ok()) return nullptr;
  const int rounds = static_cast<int>(patient_ ? kPatience / std::chrono::milliseconds(40) : 1);
  for (int round = 0; round < rounds; ++round) {
    const absl::Status locked = (*file)->TryLock();
    patient_ = locked.ok();
    if (locked.ok()) return *std::move(file);
    lockless_ = absl::IsFailedPrecondition(locked);
    if (!absl::IsAborted(locked)) return nullptr;
    Wait(round);
  }
  return nullptr;  // whoever has it hangs
}

absl::Status ChangedFile::Make(const Change& change) {
  const absl::MutexLock lock(&mutex_);
  if (absl::IsNotFound(disk_.Info(folder_).status())) {  // made if there is anything to say
    kvtree::Tree first;
    CAIRN_RETURN_IF_ERROR(change(first));
    if (first.empty()) return absl::OkStatus();
    CAIRN_RETURN_IF_ERROR(MakeRecordsFolder(disk_, folder_));
  }
  CAIRN_RETURN_IF_ERROR(MakeRecordsFolder(disk_, changes_));
  const std::unique_ptr<File> file_lock = TakeLock();
  std::unique_ptr<Writing> writing;
  for (int round = 0; round < kRoundsMax; ++round) {
    if (writing == nullptr) {
      CAIRN_ASSIGN_OR_RETURN(writing, Writing::Begin(disk_, path_, changes_));
    }
    CAIRN_ASSIGN_OR_RETURN(State state, Load(/*mend=*/true));
    kvtree::Tree after = state.tree;
    CAIRN_RETURN_IF_ERROR(change(after));
    const kvtree::Tree edits = record_edits::Between(state.tree, after);
    if (edits.empty() && state.behind && !MayStayBehind(state)) return Finish(std::move(writing), std::move(state));
    if (edits.empty()) {  // another has made it so, but it may not be durable yet
      writing.reset();
      return Settle(nullptr, state.newest);
    }
    if (const absl::Status fits = kvtree::Encodable(edits); !fits.ok()) return Annotate(fits, path_);
    const std::string path = PathOf(state.newest + 1);
    const absl::Status made =
        CreateFileOnce(disk_, path, kvtree::Encode(edits), {.mode = kPrefixFileMode, .durable = false});
    if (absl::IsAlreadyExists(made)) {  // made of an older state than the other's change
      Wait(round);
      continue;
    }
    CAIRN_RETURN_IF_ERROR(made);
    // As long as the work file stands, no change has gone since the names were read: the number is new.
    CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk_.List(changes_));
    if (!writing->Stands(names)) {
      writing.reset();
      continue;
    }
    CAIRN_RETURN_IF_ERROR(record_edits::Apply(path, edits, state.tree));
    ++state.newest;
    if (!MayStayBehind(state)) return Finish(std::move(writing), std::move(state));
    const std::uint64_t number = state.newest;
    Keep(std::move(state));
    behind_ = number;
    return SyncChange(number);
  }
  return Unavailable("{}: other processes changed it during each attempt", path_);
}

void ChangedFile::LeaveBehind() {
  leaves_behind_ = true;
}

bool ChangedFile::MayStayBehind(const State& state) const {
  return leaves_behind_ && state.text != nullptr && state.text->size() >= kLongBytes &&
         state.newest - state.applied <= kBehindMax;
}

absl::Status ChangedFile::CatchUp() {
  const std::uint64_t before = behind_.exchange(0);  // who makes a change from here on says so again
  const absl::Status caught_up = TryCatchUp();
  std::uint64_t none = 0;
  if (!caught_up.ok()) behind_.compare_exchange_strong(none, before);
  return caught_up;
}

// Without the lock: whoever changes the record now makes a file.
absl::Status ChangedFile::TryCatchUp() {
  auto writing = Writing::Begin(disk_, path_, changes_);
  if (absl::IsNotFound(writing.status())) return absl::OkStatus();  // no folder, no changes
  if (!writing.ok()) return writing.status();
  CAIRN_ASSIGN_OR_RETURN(State state, Load(/*mend=*/true));
  if (!state.behind) return absl::OkStatus();
  const std::uint64_t number = state.newest;
  CAIRN_RETURN_IF_ERROR(Write(*writing, std::move(state)));
  const absl::MutexLock lock(&mutex_);
  return Settle(*std::move(writing), number);
}

// The change is made. Now the record is to have it, or the change itself to be durable.
absl::Status ChangedFile::Finish(std::unique_ptr<Writing> writing, State state) {
  const std::uint64_t number = state.newest;
  CAIRN_RETURN_IF_ERROR(Write(writing, std::move(state)));
  return Settle(std::move(writing), number);
}

absl::Status ChangedFile::Write(std::unique_ptr<Writing>& writing, State state) const {
  const std::uint64_t number = state.newest;
  for (int round = 0;; ++round) {
    kvtree::Tree record = state.tree;
    record.Set(kAppliedKey, state.newest);
    if (const absl::Status fits = kvtree::Encodable(record); !fits.ok()) return Annotate(fits, path_);
    auto text = std::make_shared<const std::string>(kvtree::Encode(record));
    const absl::Status replaced = writing->Replace(*text);
    if (replaced.ok()) {
      state.applied = state.newest;
      state.text = std::move(text);
      state.stamp = {};  // it is another file
      Keep(Compact(std::move(state)));
      return absl::OkStatus();
    }
    if (!absl::IsNotFound(replaced) || round == kRoundsMax) return replaced;
    CAIRN_ASSIGN_OR_RETURN(writing, Writing::Begin(disk_, path_, changes_));
    CAIRN_ASSIGN_OR_RETURN(state, Load(/*mend=*/true));
    if (state.applied >= number && !state.behind) return absl::OkStatus();
  }
}

absl::Status ChangedFile::SyncChange(std::uint64_t number) const {
  const auto file = disk_.Open(PathOf(number), {});
  if (file.ok()) CAIRN_RETURN_IF_ERROR((*file)->Sync());
  if (!file.ok() && !absl::IsNotFound(file.status())) return file.status();
  return disk_.SyncDirectory(changes_);
}

// The record that was read or written last has this change, and all before it. Durably so afterwards: if no other
// writer is at work that began before, what is the record now stays so; else the change itself is to be durable.
absl::Status ChangedFile::Settle(std::unique_ptr<Writing> writing, std::uint64_t number) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(disk_, changes_));
  const bool alone =
      std::none_of(names.begin(), names.end(), [this](const auto& name) { return IsWorkOfRecord(name); });
  const bool stays = alone && writing != nullptr && writing->IsRecord();
  writing.reset();
  if (!stays) CAIRN_RETURN_IF_ERROR(SyncChange(number));
  CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(folder_));
  RemoveApplied(names);
  return absl::OkStatus();
}

// Errors are nobody's trouble: what stays goes the next time.
void ChangedFile::RemoveApplied(const std::vector<std::string>& names) {
  const auto record = disk_.Info(path_);
  if (!record.ok()) return;
  const auto age = [&](const FileInfo& info) { return record->mtime.tv_sec - info.mtime.tv_sec; };
  std::set<std::string> writers;
  std::vector<std::uint64_t> numbers;
  for (const std::string& name : names) {
    if (const std::uint64_t number = NumberOf(name); number != 0) numbers.push_back(number);
    if (IsWorkOfRecord(name)) writers.insert(name);
  }
  if (numbers.size() < 2) return;
  std::sort(numbers.begin(), numbers.end());
  for (const std::string& name : writers) {
    const auto info = disk_.Info(changes_ + "/" + name);
    if (info.ok() && age(*info) > kAbandonedSeconds) disk_.Remove(changes_ + "/" + name).IgnoreError();
  }
  if (!draining_) draining_ = Draining{.newest = numbers.back(), .writers = writers};
  std::erase_if(draining_->writers, [&](const std::string& name) { return !writers.contains(name); });
  if (!draining_->writers.empty()) return;
  const std::uint64_t drained = draining_->newest;
  draining_.reset();
  // Several at once: each time the record is read.
  const auto oldest = disk_.Info(PathOf(numbers.front()));
  if (!oldest.ok() || age(*oldest) < 2 * kKeptSeconds) return;
  const auto tree = ReadTree(disk_, path_);
  if (!tree.ok()) return;
  const std::uint64_t last = std::min({drained, AppliedOf(*tree), numbers.back() - 1});
  for (const std::uint64_t number : numbers) {
    if (number > last) return;
    const auto info = disk_.Info(PathOf(number));
    if (info.ok() && age(*info) < kKeptSeconds) return;
    if (info.ok()) disk_.Remove(PathOf(number)).IgnoreError();
  }
}

}  // namespace cairn

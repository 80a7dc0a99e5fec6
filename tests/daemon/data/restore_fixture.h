// Restores of scenes made at random, and what they tell.
#ifndef CAIRN_TESTS_DAEMON_DATA_RESTORE_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_DATA_RESTORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/data/restore.h"
#include "tests/daemon/data/data_fixture.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {

struct End {
  absl::Status status;
  std::size_t source = 0;
};

// Waits for what a restore tells; a minute without news is an end of its own.
class Listener {
 public:
  Restore::Callbacks callbacks() {
    return {.on_ready =
                [state = state_](std::uint64_t pieces) {
                  const std::lock_guard lock(state->mutex);
                  EXPECT_FALSE(state->end.has_value()) << "ready after the end";
                  EXPECT_GT(pieces, state->ready);
                  state->ready = pieces;
                  state->changed.notify_all();
                },
            .on_end =
                [state = state_](absl::Status status, std::size_t source) {
                  const std::lock_guard lock(state->mutex);
                  EXPECT_FALSE(state->end.has_value()) << "ended twice";
                  state->end = End{std::move(status), source};
                  state->changed.notify_all();
                }};
  }

  // So many pieces are ready, more than `before`; `before` itself if the end came.
  std::uint64_t WaitForReady(std::uint64_t before) {
    std::unique_lock lock(state_->mutex);
    EXPECT_TRUE(state_->changed.wait_for(lock, std::chrono::minutes(1),
                                         [&] { return state_->end.has_value() || state_->ready > before; }));
    return std::max(before, state_->ready);
  }

  // To be asked once: the one who ends it may still let go of what it held.
  End WaitForEnd() {
    std::unique_lock lock(state_->mutex);
    EXPECT_TRUE(state_->changed.wait_for(lock, std::chrono::minutes(1), [&] { return state_->end.has_value(); }));
    return state_->end.has_value() ? std::move(*state_->end) : End{Internal("no end")};
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t ready = 0;
    std::optional<End> end;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// What there is to restore from, and what of it is wanted.
struct Scene {
  std::vector<std::string> files;  // the bytes of each source
  std::vector<RestoreSource> sources;
  std::vector<RestorePiece> pieces;
  std::vector<std::string> expected;  // by variable
};

class RestoreTest : public testing::Test {
 protected:
  RestoreTest() : seed_(TestSeed()), random_(seed_), trace_(__FILE__, __LINE__, SeedText(seed_)) {
    EXPECT_OK(fake_.MakeDirectory("/cache", 0700));
  }

  std::string RandomText(std::uint64_t bytes) {
    std::string text(bytes, '\0');
    std::generate(text.begin(), text.end(), [this] { return static_cast<char>(random_()); });
    return text;
  }

  void AddSource(Scene& scene, std::string text, bool kept, Disk& disk, const std::string& folder = "/cache") {
    RestoreSource source{.path = folder + "/file" + std::to_string(scene.sources.size()),
                         .kept = nullptr,
                         .file_bytes = text.size(),
                         .crc32c = BlockChecksums(std::as_bytes(std::span(text)))};
    if (kept) {
      source.kept = Keep(text);
    } else {
      ASSERT_OK(ReplaceFile(disk, source.path, text));
    }
    scene.sources.push_back(std::move(source));
    scene.files.push_back(std::move(text));
  }

  std::shared_ptr<const KeptImage> Keep(const std::string& text) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
    auto kept = std::make_shared<KeptImage>();
    kept->data_bytes = text.size() - std::min<std::uint64_t>(text.size(), random_() % 500);
    if (kept->data_bytes > 0) {
      absl::StatusOr<std::shared_ptr<Image>> image = Image::Make(budget_, kept->data_bytes);
      EXPECT_OK(image);
      kept->image = *std::move(image);
      std::copy_n(bytes.begin(), kept->data_bytes, kept->image->bytes().begin());
    }
    kept->metadata.assign(bytes.begin() + static_cast<std::ptrdiff_t>(kept->data_bytes), bytes.end());
    return kept;
  }

  // Variables gathered from anywhere.
  void AddPieces(Scene& scene) {
    scene.expected.resize(random_() % 6);
    for (std::uint32_t variable = 0; variable < scene.expected.size(); ++variable) {
      for (std::uint64_t n = random_() % 8; n > 0; --n) {
        const std::size_t source = random_() % scene.sources.size();
        const std::string& file = scene.files[source];
        const std::uint64_t offset = random_() % (file.size() + 1);
        const std::uint64_t bytes = std::min<std::uint64_t>(file.size() - offset, random_() % (2 << 20));
        scene.pieces.push_back({variable, scene.expected[variable].size(), source, offset, bytes});
        scene.expected[variable] += file.substr(offset, bytes);
      }
    }
    std::shuffle(scene.pieces.begin(), scene.pieces.end(), random_);
  }

  Scene RandomScene(Disk& disk, const std::string& folder = "/cache") {
    Scene scene;
    for (std::uint64_t n = 1 + random_() % 4; n > 0; --n) {
      AddSource(scene, RandomText(random_() % (3 << 20)), random_() % 3 == 0, disk, folder);
    }
    AddPieces(scene);
    return scene;
  }

  std::shared_ptr<Image> ImageOf(std::uint64_t bytes) {
    if (bytes == 0) return nullptr;
    absl::StatusOr<std::shared_ptr<Image>> image = Image::Make(budget_, bytes);
    EXPECT_OK(image);
    std::fill((*image)->bytes().begin(), (*image)->bytes().end(), std::byte{0x5A});
    return *std::move(image);
  }

  // Copies out what is ready until the end; the variables as they then are.
  End Run(const Scene& scene, Disk& disk, std::shared_ptr<Image> image, std::vector<std::string>* variables,
          SharedBlocks* shared = nullptr) {
    Listener listener;
    const auto restore =
        Restore::Start(disk, pool_, scene.sources, scene.pieces, image, listener.callbacks(), nullptr, shared);
    const std::vector<PlanPiece>& plan = restore->plan();
    for (const std::string& expected : scene.expected) variables->emplace_back(expected.size(), '?');
    for (std::uint64_t copied = 0; copied < plan.size();) {
      const std::uint64_t ready = listener.WaitForReady(copied);
      if (ready == copied) break;
      while (copied < ready) {
        const PlanPiece& piece = plan[copied++];
        const auto bytes = image->bytes().subspan(piece.image_offset, piece.bytes);
        std::copy(bytes.begin(), bytes.end(),
                  std::as_writable_bytes(std::span((*variables)[piece.variable])).begin() +
                      static_cast<std::ptrdiff_t>(piece.variable_offset));
        if (random_() % 3 != 0) continue;
        EXPECT_OK(restore->Copied(copied));
      }
      EXPECT_OK(restore->Copied(copied));
    }
    return listener.WaitForEnd();
  }

  void ExpectRestored(const Scene& scene, Disk& disk, std::shared_ptr<Image> image) {
    std::vector<std::string> variables;
    const End end = Run(scene, disk, std::move(image), &variables);
    EXPECT_OK(end.status);
    EXPECT_TRUE(variables == scene.expected);
  }

  const std::uint64_t seed_;
  std::mt19937_64 random_;
  const testing::ScopedTrace trace_;
  ImageBudget budget_{1 << 30};
  FakeDisk fake_{{.direct = true}};
  const std::unique_ptr<WorkPool> owned_pool_ = MakeWorkPool(2);
  WorkPool& pool_ = *owned_pool_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_DATA_RESTORE_FIXTURE_H_

#include "daemon/trust/munge.h"

#include <dlfcn.h>
#include <munge.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr char kLibrary[] = "libmunge.so.2";

struct Functions {
  decltype(&munge_encode) encode = nullptr;
  decltype(&munge_decode) decode = nullptr;
  decltype(&munge_ctx_create) create = nullptr;
  decltype(&munge_ctx_destroy) destroy = nullptr;
  decltype(&munge_ctx_set) set = nullptr;
  decltype(&munge_strerror) error = nullptr;
};

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

// It could not be asked. Whatever else is wrong, the credential is to blame for: also what the library does not even
// send.
bool IsOfTheDaemon(munge_err_t error) {
  return error == EMUNGE_SNAFU || error == EMUNGE_NO_MEMORY || error == EMUNGE_SOCKET || error == EMUNGE_TIMEOUT;
}

class MungeImpl final : public Munge {
 public:
  MungeImpl(const Functions& functions, std::string socket) : functions_(functions), socket_(std::move(socket)) {}

  absl::StatusOr<std::string> Encode(std::string_view payload) const override {
    const Context context(*this);
    char* text = nullptr;
    munge_err_t error = context.Ready();
    if (error == EMUNGE_SUCCESS) {
      error = functions_.set(context.get(), MUNGE_OPT_UID_RESTRICTION, ::geteuid());
    }
    if (error == EMUNGE_SUCCESS) {
      error = functions_.encode(&text, context.get(), payload.data(), static_cast<int>(payload.size()));
    }
    const std::unique_ptr<char, FreeMemory> owner(text);
    if (error != EMUNGE_SUCCESS) return Unavailable("munged makes no credential: {}", functions_.error(error));
    return std::string(text);
  }

  absl::StatusOr<Decoded> Decode(const std::string& credential) const override {
    const Context context(*this);
    void* payload = nullptr;
    int bytes = 0;
    uid_t uid = 0;
    gid_t gid = 0;
    munge_err_t error = context.Ready();
    if (error == EMUNGE_SUCCESS) {
      error = functions_.decode(credential.c_str(), context.get(), &payload, &bytes, &uid, &gid);
    }
    const std::unique_ptr<void, FreeMemory> owner(payload);
    if (IsOfTheDaemon(error)) return Unavailable("munged says nothing of it: {}", functions_.error(error));
    if (error != EMUNGE_SUCCESS) return PermissionDenied("{}", functions_.error(error));
    return Decoded{.uid = uid,
                   .payload = std::string(static_cast<const char*>(payload), static_cast<std::size_t>(bytes))};
  }

 private:
  // One call's settings.
  class Context {
   public:
    explicit Context(const MungeImpl& munge) : munge_(munge), context_(munge.functions_.create()) {}
    ~Context() {
      if (context_ != nullptr) munge_.functions_.destroy(context_);
    }
    Context(const Context&) = delete;
    munge_ctx_t get() const { return context_; }
    munge_err_t Ready() const {
      if (context_ == nullptr) return EMUNGE_NO_MEMORY;
      if (munge_.socket_.empty()) return EMUNGE_SUCCESS;
      return munge_.functions_.set(context_, MUNGE_OPT_SOCKET, munge_.socket_.c_str());
    }

   private:
    const MungeImpl& munge_;
    munge_ctx_t const context_;
  };

  const Functions functions_;
  const std::string socket_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Munge>> Munge::Load(const std::string& socket) {
  // Never closed: it stays as long as the process.
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Unavailable("MUNGE's library cannot be loaded: {}", dlerror());
  Functions functions;
  const bool found =
      Find(library, "munge_encode", functions.encode) && Find(library, "munge_decode", functions.decode) &&
      Find(library, "munge_ctx_create", functions.create) && Find(library, "munge_ctx_destroy", functions.destroy) &&
      Find(library, "munge_ctx_set", functions.set) && Find(library, "munge_strerror", functions.error);
  if (!found) return Unavailable("{} is not MUNGE's library", kLibrary);
  return std::make_shared<const MungeImpl>(functions, socket);
}

}  // namespace cairn

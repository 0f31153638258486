// MUNGE's library, by its published interface: munge.h of version 0.5.
#include <fmt/format.h>
#include <sys/types.h>

#include <cstdlib>
#include <mutex>

#include "base/attempt.h"
#include "base/background_thread.h"
#include "base/immortal.h"
#include "wire/credentials.h"
#include "wire/shared_library.h"

namespace forebay::wire {

namespace {

constexpr const char* kLibrary = "libmunge.so.2";
constexpr int kSuccess = 0, kNoMemory = 5, kSocket = 6, kTimeOut = 7,
              kForReader = 9;   // EMUNGE_…, MUNGE_OPT_UID_RESTRICTION
constexpr std::size_t kSecretMax = 1024;

struct Library {
    using Context = struct ContextOfMunge*;
    Context (*make_context)() = nullptr;
    void (*end_context)(Context) = nullptr;
    int (*set)(Context, int option, ...) = nullptr;
    int (*encode)(char** credential, Context, const void* bytes, int count) = nullptr;
    int (*decode)(const char* credential, Context, void** bytes, int* count, uid_t*, gid_t*) = nullptr;
    const char* (*words)(int error) = nullptr;
};

Result<Library> load() {
    const auto loaded = SharedLibrary::load(kLibrary);
    if (!loaded) return loaded.status().with_context("MUNGE");
    Library library;
    if (loaded.value().find("munge_ctx_create", library.make_context) &&
        loaded.value().find("munge_ctx_destroy", library.end_context) &&
        loaded.value().find("munge_ctx_set", library.set) && loaded.value().find("munge_encode", library.encode) &&
        loaded.value().find("munge_decode", library.decode) && loaded.value().find("munge_strerror", library.words))
        return library;
    return Status(Code::kUnavailable, fmt::format("{}: not MUNGE's library", kLibrary));
}

class Munge final : public Credentials {
  public:
    explicit Munge(const Library& library) noexcept : library_(library) {}

    Result<std::string> make(io::Bytes secret, std::uint32_t reader) override {
        const OwnWrite own;   // to a daemon that may end meanwhile
        const Library::Context context = library_.make_context();
        if (context == nullptr) return out_of_memory();
        char* made = nullptr;
        int outcome = library_.set(context, kForReader, static_cast<uid_t>(reader));
        if (outcome == kSuccess)
            outcome = library_.encode(&made, context, secret.data(), static_cast<int>(secret.size()));
        library_.end_context(context);
        const std::unique_ptr<char, void (*)(void*)> owned(made, std::free);
        if (outcome != kSuccess) return failure(outcome);
        return std::string(owned.get());
    }

    Result<Content> read(const std::string& credential) override {
        const OwnWrite own;
        void* bytes = nullptr;
        int count = 0;
        uid_t user = 0;
        gid_t group = 0;
        const int outcome = library_.decode(credential.c_str(), nullptr, &bytes, &count, &user, &group);
        const std::unique_ptr<void, void (*)(void*)> owned(bytes, std::free);   // a failure may leave some, too
        if (outcome != kSuccess) return failure(outcome);
        if (count < 0 || static_cast<std::size_t>(count) > kSecretMax)
            return Status(Code::kPermissionDenied, "MUNGE: a credential that is too long");
        const auto* const first = static_cast<const std::byte*>(owned.get());
        return Content{static_cast<std::uint32_t>(user), Payload(first, first + count)};
    }

  private:
    [[nodiscard]] Status failure(int outcome) const {
        if (outcome == kNoMemory) return out_of_memory();
        return {outcome == kSocket || outcome == kTimeOut ? Code::kUnavailable : Code::kPermissionDenied,
                fmt::format("MUNGE: {}", library_.words(outcome))};
    }
    const Library library_;
};

}   // namespace

Result<std::shared_ptr<Credentials>> munge_credentials() {
    static Immortal<std::mutex> mutex;
    static Immortal<std::shared_ptr<Credentials>> loaded;
    const std::lock_guard lock(*mutex);
    if (*loaded == nullptr) {
        const auto library = load();
        if (!library) return library.status();
        *loaded = std::make_shared<Munge>(library.value());
    }
    return *loaded;
}

}   // namespace forebay::wire

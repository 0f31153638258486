#include "wire/frame_seal.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/immortal.h"
#include "wire/shared_library.h"

namespace forebay::wire {

namespace {

constexpr const char* kLibrary = "libsodium.so.23";
constexpr std::size_t kStateBytes = 256;   // of Poly1305; libsodium tells its need, and that it is aligned to 16

// Functions of libsodium, by its published interface: sodium.h of version 1.0.18.
struct Library {
    int (*init)() = nullptr;
    std::size_t (*state_bytes)() = nullptr;
    int (*begin)(void* state, const unsigned char* key) = nullptr;
    int (*update)(void* state, const unsigned char* bytes, unsigned long long count) = nullptr;
    int (*end)(void* state, unsigned char* seal) = nullptr;
    int (*stream)(unsigned char* into, unsigned long long count, const unsigned char* nonce,
                  const unsigned char* key) = nullptr;
    int (*hash)(unsigned char* into, std::size_t size, const unsigned char* bytes, unsigned long long count,
                const unsigned char* key, std::size_t key_size) = nullptr;
    int (*compare)(const void*, const void*, std::size_t) = nullptr;
};

Result<Library> load() {
    const auto loaded = SharedLibrary::load(kLibrary);
    if (!loaded) return loaded.status();
    const SharedLibrary& sodium = loaded.value();
    Library library;
    const bool whole = sodium.find("sodium_init", library.init) &&
                       sodium.find("crypto_onetimeauth_statebytes", library.state_bytes) &&
                       sodium.find("crypto_onetimeauth_init", library.begin) &&
                       sodium.find("crypto_onetimeauth_update", library.update) &&
                       sodium.find("crypto_onetimeauth_final", library.end) &&
                       sodium.find("crypto_stream_chacha20_ietf", library.stream) &&
                       sodium.find("crypto_generichash", library.hash) && sodium.find("sodium_memcmp", library.compare);
    if (!whole || library.init() < 0 || library.state_bytes() > kStateBytes)
        return Status(Code::kUnavailable, fmt::format("{}: not a libsodium that can be used", kLibrary));
    return library;
}

struct Loaded {
    std::mutex mutex;
    std::optional<Library> library;
};

Loaded& loaded() {
    static Immortal<Loaded> the_library;
    return *the_library;
}

Status ensure_loaded() {
    const std::lock_guard lock(loaded().mutex);
    if (loaded().library) return Status::ok();
    const auto library = load();
    if (library) loaded().library = library.value();
    return library.status();
}

const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

}   // namespace

Result<FrameSeal> FrameSeal::with(const SealKey& key) {
    FOREBAY_TRY(ensure_loaded());
    return FrameSeal(key);
}

// The library is set once, before the first FrameSeal, so this needs no lock.
Seal FrameSeal::next(std::span<const io::Bytes> pieces) noexcept {
    const Library& library = *loaded().library;
    std::array<std::byte, 12> nonce{};
    store_le(nonce.data() + 4, frames_++);
    SealKey once;
    library.stream(raw(once.data()), once.size(), raw(nonce.data()), raw(key_.data()));
    alignas(64) std::array<std::byte, kStateBytes> state;
    library.begin(state.data(), raw(once.data()));
    for (const io::Bytes piece : pieces) library.update(state.data(), raw(piece.data()), piece.size());
    Seal seal;
    library.end(state.data(), raw(seal.data()));
    return seal;
}

bool FrameSeal::fits(std::span<const io::Bytes> pieces, const Seal& seal) noexcept {
    const Seal right = next(pieces);
    return loaded().library->compare(right.data(), seal.data(), seal.size()) == 0;
}

Result<SealKeys> derive_keys(const SealKey& shared, const SealKey& of_client, const SealKey& of_server) {
    FOREBAY_TRY(ensure_loaded());
    const Library& library = *loaded().library;
    const auto hash = [&](const SealKey& key, io::Bytes bytes) {
        SealKey made;
        library.hash(raw(made.data()), made.size(), raw(bytes.data()), bytes.size(), raw(key.data()), key.size());
        return made;
    };
    std::array<std::byte, 2 * std::tuple_size_v<SealKey>> random;
    std::copy(of_server.begin(), of_server.end(), std::copy(of_client.begin(), of_client.end(), random.begin()));
    const SealKey both = hash(shared, random);
    const auto direction = [&](std::string_view name) { return hash(both, std::as_bytes(std::span(name))); };
    return SealKeys{direction("forebay to server"), direction("forebay to client")};
}

Result<SealKey> new_secret() {
    SealKey secret;
    for (std::size_t done = 0; done < secret.size();) {
        const ssize_t got = ::getrandom(secret.data() + done, secret.size() - done, 0);
        if (got < 0 && errno != EINTR) return Status::from_errno(errno, "draw a random number");
        if (got > 0) done += static_cast<std::size_t>(got);
    }
    return secret;
}

}   // namespace forebay::wire

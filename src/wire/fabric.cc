#include "wire/fabric.h"

#ifndef FOREBAY_LIBFABRIC

namespace forebay::wire {

Result<std::shared_ptr<Fabric>> Fabric::open(Role, std::uint32_t, const std::string&) {
    return Status(Code::kUnavailable, "this build has no libfabric: its headers were not there");
}

}   // namespace forebay::wire

#else

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "base/immortal.h"
#include "io/event.h"
#include "wire/frame.h"
#include "wire/frame_seal.h"
#include "wire/shared_library.h"
#include "wire/signal_handlers.h"

namespace forebay::wire {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kLibrary = "libfabric.so.1";
// Structures only grow at their ends, and the library makes all that this file reads, so a later one will do.
constexpr std::uint32_t kVersionMin = FI_VERSION(1, 10);
constexpr std::size_t kPageBytes = 4096, kCompletions = 16;
// A provider may forget to wake its descriptor, and does not say when a connection that is being made can be used.
constexpr auto kLookAgain = 100ms, kTryAgain = 5ms;

struct Library {
    std::uint32_t (*version)() = nullptr;
    int (*getinfo)(std::uint32_t, const char*, const char*, std::uint64_t, const fi_info*, fi_info**) = nullptr;
    void (*freeinfo)(fi_info*) = nullptr;
    fi_info* (*dupinfo)(const fi_info*) = nullptr;
    int (*fabric)(fi_fabric_attr*, fid_fabric**, void*) = nullptr;
    const char* (*words)(int) = nullptr;
};

Result<Library> load() {
    const auto loaded = SharedLibrary::load(kLibrary);
    if (!loaded) return loaded.status();
    const SharedLibrary& libfabric = loaded.value();
    Library library;
    const bool whole = libfabric.find("fi_version", library.version) && libfabric.find("fi_getinfo", library.getinfo) &&
                       libfabric.find("fi_freeinfo", library.freeinfo) &&
                       libfabric.find("fi_dupinfo", library.dupinfo) && libfabric.find("fi_fabric", library.fabric) &&
                       libfabric.find("fi_strerror", library.words);
    if (!whole || library.version() < kVersionMin)
        return Status(Code::kUnavailable, fmt::format("{}: not a libfabric that can be used", kLibrary));
    return library;
}

struct CloseFid {
    template <class Fid>
    void operator()(Fid* fid) const noexcept {
        (void)fi_close(&fid->fid);
    }
};
template <class Fid>
using Owned = std::unique_ptr<Fid, CloseFid>;

struct FreeInfo {
    void (*free)(fi_info*);
    void operator()(fi_info* info) const noexcept { free(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// Whether a provider suits, with addresses of its own, or with this one of IP. ofi_rxm keeps what strangers send
// without bound.
bool suits(const fi_info& info, std::optional<std::uint32_t> host) {
    const std::string_view name = info.fabric_attr->prov_name;
    for (const std::string_view other : {"shm", "sockets", "udp", "ofi_rx", "off_", "mrail", "lnx"})
        if (name.find(other) != std::string_view::npos) return false;
    const bool is_ip = info.addr_format == FI_SOCKADDR_IN || info.addr_format == FI_SOCKADDR_IN6 ||
                       info.addr_format == FI_SOCKADDR;
    if (!host) return !is_ip;
    sockaddr_in address{};
    if (info.addr_format != FI_SOCKADDR_IN || info.src_addr == nullptr || info.src_addrlen < sizeof address)
        return false;
    std::memcpy(&address, info.src_addr, sizeof address);
    return ntohl(address.sin_addr.s_addr) == *host;
}

class Libfabric;

// What `move` has asked for. It stays until the provider has said how it ended.
struct Operation {
    fi_context2 context{};   // the provider's
    std::shared_ptr<Fabric::Buffer> buffer;
    bool done = false, abandoned = false;
    int error = 0;
};

// A client's end, in the address vector.
struct PeerEntry {
    std::vector<std::byte> address{};
    fi_addr_t number = FI_ADDR_NOTAVAIL;
    std::size_t users = 0;
};

class Libfabric final : public Fabric, public std::enable_shared_from_this<Libfabric> {
  public:
    Libfabric(const Library& library, Role role, std::uint32_t host, Info info)
        : library_(library),
          role_(role),
          host_(host),
          info_(std::move(info)),
          provider_(info_->fabric_attr->prov_name) {}

    ~Libfabric() override {
        if (!is_whole()) {
            leave_behind();
            return;
        }
        // That ends what is not complete.
        endpoint_.reset();
        addresses_.reset();
        queue_.reset();
        operations_.clear();
    }

    [[nodiscard]] Status start() {
        auto sign = io::Socket::without_peer();
        if (!sign) return sign.status();
        sign_ = std::move(sign).value();
        fid_fabric* fabric = nullptr;
        FOREBAY_TRY(check(library_.fabric(info_->fabric_attr, &fabric, nullptr), "open its fabric"));
        fabric_.reset(fabric);
        fid_domain* domain = nullptr;
        FOREBAY_TRY(check(fi_domain(fabric, info_.get(), &domain, nullptr), "open its domain"));
        domain_.reset(domain);
        fi_cq_attr queue_asked{};
        queue_asked.format = FI_CQ_FORMAT_CONTEXT;
        queue_asked.wait_obj = FI_WAIT_FD;
        fid_cq* queue = nullptr;
        FOREBAY_TRY(check(fi_cq_open(domain, &queue_asked, &queue, nullptr), "make a completion queue"));
        queue_.reset(queue);
        fi_av_attr peers_asked{};
        peers_asked.type = FI_AV_TABLE;
        fid_av* peers = nullptr;
        FOREBAY_TRY(check(fi_av_open(domain, &peers_asked, &peers, nullptr), "make an address vector"));
        addresses_.reset(peers);
        fid_ep* endpoint = nullptr;
        FOREBAY_TRY(check(fi_endpoint(domain, info_.get(), &endpoint, nullptr), "make an endpoint"));
        endpoint_.reset(endpoint);
        FOREBAY_TRY(check(fi_ep_bind(endpoint, &peers->fid, 0), "bind an endpoint"));
        FOREBAY_TRY(check(fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV), "bind an endpoint"));
        FOREBAY_TRY(check(fi_enable(endpoint), "enable an endpoint"));
        FOREBAY_TRY(check(fi_control(&queue->fid, FI_GETWAIT, &wait_), "wait for it"));
        std::size_t length = kFabricAddressMax;
        address_.resize(length);
        FOREBAY_TRY(check(fi_getname(&endpoint->fid, address_.data(), &length), "name its endpoint"));
        address_.resize(length);
        if (role_ == Role::kReaches) return Status::ok();
        memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kRegions * kDataMax)));
        return memory_ != nullptr ? Status::ok() : Status(Code::kUnavailable, "libfabric: out of memory", ENOMEM);
    }

    [[nodiscard]] const std::string& provider() const noexcept override { return provider_; }
    [[nodiscard]] io::Bytes address() const noexcept override { return address_; }
    [[nodiscard]] bool is(Role role, std::uint32_t host, const std::string& provider) const noexcept {
        return role_ == role && host_ == host && is_whole() && (provider.empty() || provider == provider_);
    }
    // A child has the same sockets, and leaves them to its parent. A program that closes descriptors that it does not
    // know, and gives their numbers to others, has closed `sign_`, too: nothing of the library is called then.
    [[nodiscard]] bool is_whole() const noexcept {
        return process_ == ::getpid() && sign_ != nullptr && sign_->is_ours();
    }
    // Something that was given up may never end: whoever comes from now on has another end.
    [[nodiscard]] bool spoiled() const noexcept { return spoiled_; }

    Result<std::unique_ptr<Region>> expose(std::size_t bytes, Access access) override;
    Status await_input(const io::Socket& socket) override;
    Result<std::shared_ptr<Peer>> find(io::Bytes address) override;
    Result<std::shared_ptr<Buffer>> make_buffer(std::size_t bytes) override;
    Status move(Way way, const Remote& remote, const std::shared_ptr<Buffer>& buffer, std::size_t bytes,
                const io::Socket& session, std::chrono::seconds patience) override;

  private:
    friend class LibfabricRegion;
    friend class LibfabricPeer;
    struct Free {
        void operator()(std::byte* memory) const noexcept { std::free(memory); }
    };

    [[nodiscard]] Status check(ssize_t outcome, const char* doing) const {
        if (outcome >= 0) return Status::ok();
        return {Code::kUnavailable,
                fmt::format("libfabric ({}): {}: {}", provider_, doing, library_.words(static_cast<int>(-outcome)))};
    }
    [[nodiscard]] bool wants(std::uint64_t mode) const noexcept {
        return (static_cast<std::uint64_t>(info_->domain_attr->mr_mode) & mode) != 0;
    }
    [[nodiscard]] Result<Owned<fid_mr>> enlist(io::MutableBytes memory, std::uint64_t access, std::uint64_t key);
    [[nodiscard]] ssize_t ask(Way way, io::MutableBytes bytes, void* local, fi_addr_t peer, const Remote& remote,
                              fi_context2& context);
    [[nodiscard]] bool progress();   // true: nothing is to be done before the descriptor is readable; under mutex_
    void complete(void* context, int error);
    void leave_behind() noexcept;

    const Library library_;
    const Role role_;
    const std::uint32_t host_;
    const pid_t process_ = ::getpid();
    Info info_;
    const std::string provider_;
    std::vector<std::byte> address_;
    std::unique_ptr<io::Socket> sign_;
    int wait_ = -1;   // readable when a call of the library would do something
    std::atomic<bool> spoiled_{false};
    // In this order: what comes later is closed first.
    Owned<fid_fabric> fabric_;
    Owned<fid_domain> domain_;
    std::unique_ptr<std::byte, Free> memory_;   // of all regions
    std::mutex mutex_;
    std::bitset<kRegions> taken_;
    std::list<Operation> operations_;   // at most one of each session, and what was given up
    std::list<PeerEntry> peers_;
    std::uint64_t local_keys_ = 0;   // so many have been given
    Owned<fid_cq> queue_;
    Owned<fid_av> addresses_;
    Owned<fid_ep> endpoint_;
};

void Libfabric::leave_behind() noexcept {
    (void)endpoint_.release();
    (void)addresses_.release();
    (void)queue_.release();
    (void)domain_.release();
    (void)fabric_.release();
}

class LibfabricRegion final : public Fabric::Region {
  public:
    LibfabricRegion(std::shared_ptr<Libfabric> end, std::size_t place, std::size_t bytes)
        : end_(std::move(end)), place_(place), bytes_(bytes) {}
    ~LibfabricRegion() override {
        if (!end_->is_whole()) {
            (void)enlisted_.release();
            return;
        }
        const std::lock_guard lock(end_->mutex_);
        enlisted_.reset();
        end_->taken_.reset(place_);
    }
    [[nodiscard]] io::MutableBytes bytes() const noexcept override {
        return {end_->memory_.get() + place_ * kDataMax, bytes_};
    }
    [[nodiscard]] std::uint64_t position() const noexcept override {
        return end_->wants(FI_MR_VIRT_ADDR) ? reinterpret_cast<std::uintptr_t>(bytes().data()) : 0;
    }
    [[nodiscard]] std::uint64_t key() const noexcept override { return fi_mr_key(enlisted_.get()); }
    void enlisted(Owned<fid_mr> memory) noexcept { enlisted_ = std::move(memory); }

  private:
    const std::shared_ptr<Libfabric> end_;
    const std::size_t place_, bytes_;
    Owned<fid_mr> enlisted_;
};

class LibfabricPeer final : public Fabric::Peer {
  public:
    explicit LibfabricPeer(std::shared_ptr<Libfabric> end) noexcept : end_(std::move(end)) {}
    ~LibfabricPeer() override {
        if (entry_ == nullptr || !end_->is_whole()) return;
        const std::lock_guard lock(end_->mutex_);
        // What was given up may need it; that end closes soon.
        if (--entry_->users > 0 || end_->spoiled_) return;
        (void)fi_av_remove(end_->addresses_.get(), &entry_->number, 1, 0);
        end_->peers_.remove_if([&](const PeerEntry& each) { return &each == entry_; });
    }
    [[nodiscard]] fi_addr_t number() const noexcept { return entry_->number; }
    // Under the end's lock.
    void use(PeerEntry& entry) noexcept {
        entry_ = &entry;
        ++entry.users;
    }

  private:
    const std::shared_ptr<Libfabric> end_;
    PeerEntry* entry_ = nullptr;
};

class LibfabricBuffer final : public Fabric::Buffer {
  public:
    LibfabricBuffer(std::size_t bytes, std::unique_ptr<io::Event> event) : event_(std::move(event)), memory_(bytes) {}
    [[nodiscard]] io::MutableBytes bytes() const noexcept override {
        return {const_cast<std::byte*>(memory_.data()), memory_.size()};
    }
    [[nodiscard]] io::Event& event() const noexcept { return *event_; }
    [[nodiscard]] void* local() const noexcept { return enlisted_ != nullptr ? fi_mr_desc(enlisted_.get()) : nullptr; }
    void enlisted(Owned<fid_mr> memory) noexcept { enlisted_ = std::move(memory); }

  private:
    const std::unique_ptr<io::Event> event_;   // what was asked for has ended
    std::vector<std::byte> memory_;
    Owned<fid_mr> enlisted_;
};

Result<Owned<fid_mr>> Libfabric::enlist(io::MutableBytes memory, std::uint64_t access, std::uint64_t key) {
    fid_mr* made = nullptr;
    FOREBAY_TRY(check(fi_mr_reg(domain_.get(), memory.data(), memory.size(), access, 0, key, 0, &made, nullptr),
                      "register memory"));
    Owned<fid_mr> enlisted(made);
    if (wants(FI_MR_ENDPOINT)) {
        FOREBAY_TRY(check(fi_mr_bind(made, &endpoint_->fid, 0), "bind memory"));
        FOREBAY_TRY(check(fi_mr_enable(made), "enable memory"));
    }
    return enlisted;
}

// Whoever guesses a key finds sealed bytes; some providers have shorter ones, or choose them.
Result<std::unique_ptr<Fabric::Region>> Libfabric::expose(std::size_t bytes, Access access) {
    if (!is_whole()) return Status(Code::kUnavailable, "libfabric: the program has closed what it had open");
    const auto random = new_secret();
    if (!random) return random.status();
    std::uint64_t key = 0;
    std::memcpy(&key, random.value().data(), sizeof key);
    const std::size_t key_bytes = info_->domain_attr->mr_key_size;
    if (key_bytes < sizeof key) key &= (std::uint64_t{1} << (8 * key_bytes)) - 1;
    std::unique_ptr<LibfabricRegion> region;
    const std::unique_lock lock(mutex_);
    std::size_t place = 0;
    while (place < kRegions && taken_[place]) ++place;
    if (bytes > kDataMax || place == kRegions) return Status(Code::kUnavailable, "no memory that can be exposed");
    const io::MutableBytes memory{memory_.get() + place * kDataMax, bytes};
    auto made = enlist(memory, access == Access::kRead ? FI_REMOTE_READ : FI_REMOTE_WRITE, key);
    if (!made) return made.status();
    region = std::make_unique<LibfabricRegion>(shared_from_this(), place, bytes);
    region->enlisted(std::move(made).value());
    taken_.set(place);
    return std::unique_ptr<Region>(std::move(region));
}

Result<std::shared_ptr<Fabric::Buffer>> Libfabric::make_buffer(std::size_t bytes) {
    auto event = io::Event::create();
    if (!event) return event.status();
    auto buffer = std::make_shared<LibfabricBuffer>(bytes, std::move(event).value());
    if (wants(FI_MR_LOCAL)) {
        const std::lock_guard lock(mutex_);
        // Nobody else may use it, but some providers want a key for it all the same, and of none twice.
        auto enlisted = enlist(buffer->bytes(), FI_READ | FI_WRITE, ++local_keys_);
        if (!enlisted) return enlisted.status();
        buffer->enlisted(std::move(enlisted).value());
    }
    return std::shared_ptr<Buffer>(std::move(buffer));
}

// Sessions of one client process share its entry. Providers do not all count how often they were given an address.
Result<std::shared_ptr<Fabric::Peer>> Libfabric::find(io::Bytes address) {
    auto peer = std::make_shared<LibfabricPeer>(shared_from_this());
    const std::lock_guard lock(mutex_);
    auto found = std::ranges::find_if(peers_,
                                      [&](const PeerEntry& each) { return std::ranges::equal(each.address, address); });
    if (found == peers_.end()) {
        std::vector<std::byte> copy(address.begin(), address.end());
        found = peers_.insert(found, PeerEntry{copy});
        copy.resize(kFabricAddressMax);   // the provider knows how long it should be
        if (fi_av_insert(addresses_.get(), copy.data(), 1, &found->number, 0, nullptr) != 1) {
            peers_.erase(found);
            return Status(Code::kUnavailable, fmt::format("libfabric ({}): not an address of a client", provider_));
        }
    }
    peer->use(*found);
    return std::shared_ptr<Peer>(std::move(peer));
}

void Libfabric::complete(void* context, int error) {
    const auto found = std::find_if(operations_.begin(), operations_.end(),
                                    [&](const Operation& each) { return &each.context == context; });
    if (found == operations_.end()) return;
    if (found->abandoned) {
        operations_.erase(found);
        return;
    }
    found->done = true;
    found->error = error;
    static_cast<LibfabricBuffer&>(*found->buffer).event().signal();
}

bool Libfabric::progress() {
    std::array<fi_cq_entry, kCompletions> ended;
    const ssize_t count = fi_cq_read(queue_.get(), ended.data(), ended.size());
    for (ssize_t i = 0; i < count; ++i) complete(ended[static_cast<std::size_t>(i)].op_context, 0);
    if (count == -FI_EAVAIL) {
        fi_cq_err_entry failed{};
        if (fi_cq_readerr(queue_.get(), &failed, 0) == 1) complete(failed.op_context, failed.err);
    }
    if (count >= 0 || count == -FI_EAVAIL) return false;
    if (count != -FI_EAGAIN) return true;   // it will not get better at once
    fid* const waited = &queue_->fid;
    std::array<fid*, 1> all{waited};
    return fi_trywait(fabric_.get(), all.data(), 1) != -FI_EAGAIN;
}

Status Libfabric::await_input(const io::Socket& socket) {
    const auto patience = socket.receiving_patience();
    const auto end = Clock::now() + patience;
    for (;;) {
        if (!socket.is_ours()) return Status::from_errno(EBADF, "wait for a socket that the program has closed");
        const bool whole = is_whole();
        bool idle = true;
        if (whole) {
            const std::lock_guard lock(mutex_);
            idle = progress();
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
        if (patience.count() != 0 && left.count() <= 0) return Status::from_errno(EAGAIN, "receive");
        const auto wait = patience.count() == 0 ? kLookAgain : std::min<std::chrono::milliseconds>(left, kLookAgain);
        std::array<pollfd, 2> look{{{socket.number(), POLLIN | POLLRDHUP, 0}, {whole ? wait_ : -1, POLLIN, 0}}};
        const int found = ::poll(look.data(), look.size(), idle ? static_cast<int>(wait.count()) : 0);
        if (found < 0 && errno != EINTR) return Status::from_errno(errno, "wait for a socket");
        if (found > 0 && look[0].revents != 0) return Status::ok();
    }
}

// Some providers forget the flags of an endpoint: that of a write says that it has ended once the bytes are there.
ssize_t Libfabric::ask(Way way, io::MutableBytes bytes, void* local, fi_addr_t peer, const Remote& remote,
                       fi_context2& context) {
    iovec piece{bytes.data(), bytes.size()};
    fi_rma_iov there{remote.position, bytes.size(), remote.key};
    fi_msg_rma message{};
    message.msg_iov = &piece;
    message.desc = &local;
    message.iov_count = message.rma_iov_count = 1;
    message.addr = peer;
    message.rma_iov = &there;
    message.context = &context;
    return way == Way::kPull ? fi_readmsg(endpoint_.get(), &message, FI_COMPLETION)
                             : fi_writemsg(endpoint_.get(), &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

Status Libfabric::move(Way way, const Remote& remote, const std::shared_ptr<Buffer>& buffer, std::size_t bytes,
                       const io::Socket& session, std::chrono::seconds patience) {
    const auto& local = static_cast<const LibfabricBuffer&>(*buffer);
    const fi_addr_t peer = static_cast<const LibfabricPeer&>(*remote.peer).number();
    const char* const doing = way == Way::kPull ? "read from a client" : "write to a client";
    const auto end = Clock::now() + patience;
    local.event().clear();
    std::unique_lock lock(mutex_);
    const auto mine = operations_.emplace(operations_.end());
    mine->buffer = buffer;
    for (bool asked = false;;) {
        if (!asked) {
            const ssize_t outcome = ask(way, {local.bytes().data(), bytes}, local.local(), peer, remote, mine->context);
            asked = outcome == 0;
            if (!asked && outcome != -FI_EAGAIN) {
                operations_.erase(mine);
                return check(outcome, doing);
            }
        }
        const bool idle = progress();
        if (mine->done) {
            const int error = mine->error;
            operations_.erase(mine);
            return check(-error, doing);
        }
        lock.unlock();
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
        const auto wait = std::clamp<std::chrono::milliseconds>(left, 0ms, asked ? kLookAgain : kTryAgain);
        std::array<pollfd, 3> look{
            {{wait_, POLLIN, 0}, {local.event().number(), POLLIN, 0}, {session.number(), POLLRDHUP, 0}}};
        (void)::poll(look.data(), look.size(), idle ? static_cast<int>(wait.count()) : 0);
        lock.lock();
        if ((look[2].revents == 0 && left.count() > 0) || mine->done) continue;
        if (asked) mine->abandoned = spoiled_ = true;
        else operations_.erase(mine);
        return {Code::kUnavailable, fmt::format("libfabric ({}): {}: it {}", provider_, doing,
                                                left.count() > 0 ? "has gone" : "does not come to an end")};
    }
}

// ---- ends of this process ----------------------------------------------------------------------------

struct Ends {
    std::mutex mutex;
    std::optional<Library> library;
    std::list<std::weak_ptr<Libfabric>> all;
};

Ends& ends() {
    static Immortal<Ends> the_ends;
    return *the_ends;
}

Info hints_for(const Library& library, Fabric::Role role, const std::string& provider) {
    Info hints(library.dupinfo(nullptr), {library.freeinfo});
    if (hints == nullptr) return hints;
    const bool exposes = role == Fabric::Role::kExposes;
    hints->caps = FI_RMA | FI_REMOTE_COMM | (exposes ? FI_REMOTE_READ | FI_REMOTE_WRITE : FI_READ | FI_WRITE);
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->control_progress = hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    if (!exposes) hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;                       // the answer goes another way
    if (!provider.empty()) hints->fabric_attr->prov_name = ::strdup(provider.c_str());   // `hints` frees it
    return hints;
}

// The end has the address of the connection, so that it listens on no other network, if its addresses are IP's.
Result<std::shared_ptr<Libfabric>> make(const Library& library, Fabric::Role role, std::uint32_t host,
                                        const std::string& provider) {
    const Info hints = hints_for(library, role, provider);
    Status outcome(Code::kUnavailable, "libfabric: no provider fits");
    for (const auto wanted : {std::optional<std::uint32_t>(), std::optional(host)}) {
        if (hints != nullptr && wanted) {
            hints->addr_format = FI_SOCKADDR_IN;
            hints->src_addrlen = sizeof(sockaddr_in);
            hints->src_addr = std::calloc(1, sizeof(sockaddr_in));   // `hints` frees it
        }
        if (hints == nullptr || (wanted && hints->src_addr == nullptr)) return out_of_memory();
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(host);
        if (wanted) std::memcpy(hints->src_addr, &address, sizeof address);
        fi_info* found = nullptr;
        if (library.getinfo(kVersionMin, nullptr, nullptr, 0, hints.get(), &found) != 0) continue;
        const Info list(found, {library.freeinfo});
        for (const fi_info* info = found; info != nullptr; info = info->next) {
            if (!suits(*info, wanted) || (!provider.empty() && provider != info->fabric_attr->prov_name)) continue;
            Info chosen(library.dupinfo(info), {library.freeinfo});
            if (chosen == nullptr) return out_of_memory();
            auto end = std::make_shared<Libfabric>(library, role, host, std::move(chosen));
            outcome = end->start();
            if (outcome) return end;
        }
    }
    return outcome;
}

std::atomic<pid_t> first_process{0};

}   // namespace

Result<std::shared_ptr<Fabric>> Fabric::open(Role role, std::uint32_t host, const std::string& provider) {
    // In a child of a process that has it, locks and sockets are as the parent had them.
    pid_t none = 0;
    if (!first_process.compare_exchange_strong(none, ::getpid()) && none != ::getpid())
        return Status(Code::kUnavailable, "libfabric: this process was forked from one that may use it");
    std::vector<std::shared_ptr<Libfabric>> others;   // may be the last owners by now, and go after the lock
    const std::lock_guard lock(ends().mutex);
    ends().all.remove_if([](const auto& end) { return end.expired(); });
    for (const auto& end : ends().all) {
        others.push_back(end.lock());
        if (others.back() != nullptr && others.back()->is(role, host, provider) && !others.back()->spoiled())
            return std::shared_ptr<Fabric>(others.back());
    }
    constexpr std::size_t kEndsMax = 16;
    if (ends().all.size() >= kEndsMax) return Status(Code::kUnavailable, "libfabric: too many ends are in use");
    const SignalHandlersKept kept;
    if (!ends().library) {
        const auto library = load();
        if (!library) return library.status();
        ends().library = library.value();
    }
    auto made = make(*ends().library, role, host, provider);
    if (!made) return made.status();
    ends().all.emplace_back(made.value());
    return std::shared_ptr<Fabric>(std::move(made).value());
}

}   // namespace forebay::wire

#endif

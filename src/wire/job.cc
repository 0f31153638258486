#include "wire/job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <span>
#include <system_error>

#include "base/attempt.h"
#include "base/checksum.h"
#include "io/private_file.h"
#include "wire/key_file.h"

namespace forebay::wire {

namespace {

constexpr std::size_t kNodesMax = 100'000, kPeerTextMax = 512, kNodeNameMax = 255;
constexpr std::string_view kFirstLine = "forebay peer 1", kNode = "node ", kAddress = "address ", kKey = "key ",
                           kEnded = "none";
constexpr std::size_t kFingerprintBytes = 8;

std::string_view text_of(const Getenv& getenv, const char* name) {
    const char* const value = getenv(name);
    return value == nullptr ? std::string_view() : std::string_view(value);
}

Result<std::size_t> number_of(const Getenv& getenv, const char* name) {
    const std::string_view text = text_of(getenv, name);
    if (text.empty()) return std::size_t{0};
    std::size_t number = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end)
        return Status(Code::kInvalidArgument, fmt::format("{}={}: it is not a number", name, text));
    return number;
}

bool is_name(std::string_view text) noexcept {
    return !text.empty() && text.size() <= kNodeNameMax &&
           std::ranges::all_of(text, [](char each) { return each > ' ' && each <= '~'; });
}

bool is_fingerprint(std::string_view text) noexcept {
    return text.size() == 2 * kFingerprintBytes && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Parses an address without a name lookup. Only one way to write the address is accepted.
Result<io::Address> parse_numbers(std::string_view text) {
    if (text.find_first_not_of("0123456789.:") == std::string_view::npos) {
        const auto address = io::parse_address(std::string(text));
        constexpr std::uint32_t kLastHost = 223;   // higher ones are group addresses
        if (address && address.value().port != 0 && address.value().host >> 24 != 0 &&
            address.value().host >> 24 <= kLastHost && io::format_address(address.value()) == text)
            return address;
    }
    return Status(Code::kCorrupt, "its address is none");
}

// The fingerprint reveals nothing of the key.
Result<std::string> fingerprint_of(const SealKey& key) {
    const SealKey nothing{};
    const auto derived = derive_keys(key, nothing, nothing);
    if (!derived) return derived.status();
    std::string text;
    for (const std::byte each : std::span(derived.value().to_server).first(kFingerprintBytes))
        text += fmt::format("{:02x}", std::to_integer<unsigned>(each));
    return text;
}

std::string own_name() {
    std::array<char, kNodeNameMax + 1> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0 || !is_name(name.data())) return "unknown";
    return name.data();
}

}   // namespace

Result<std::optional<Job>> find_job(const Getenv& getenv) {
    const std::string_view address = text_of(getenv, "MASTER_ADDR"), port = text_of(getenv, "MASTER_PORT");
    const auto world = number_of(getenv, "WORLD_SIZE"), local = number_of(getenv, "LOCAL_WORLD_SIZE"),
               group = number_of(getenv, "GROUP_RANK"), groups = number_of(getenv, "GROUP_WORLD_SIZE");
    for (const auto* each : {&world, &local, &group, &groups})
        if (!*each) return each->status();
    if (address.empty() || port.empty() || world.value() == 0 || local.value() == 0) return std::optional<Job>();
    const bool counted = groups.value() != 0;
    if (!counted && world.value() % local.value() != 0)
        return Status(Code::kInvalidArgument,
                      fmt::format("WORLD_SIZE={} is not a multiple of LOCAL_WORLD_SIZE={}, and GROUP_WORLD_SIZE is not "
                                  "set",
                                  world.value(), local.value()));
    Job job;
    job.nodes = counted ? groups.value() : world.value() / local.value();
    job.own = group.value();
    if (job.nodes <= 1) return std::optional<Job>();
    if (text_of(getenv, "GROUP_RANK").empty() || job.own >= job.nodes || job.nodes > kNodesMax)
        return Status(Code::kInvalidArgument,
                      fmt::format("GROUP_RANK={} is none of {} nodes", text_of(getenv, "GROUP_RANK"), job.nodes));
    job.master = fmt::format("{}:{}", address, port);
    const std::string all = fmt::format("{}\n{}\n{}\n{}", text_of(getenv, "TORCHELASTIC_RUN_ID"), job.master, job.nodes,
                                        ::geteuid());
    job.name = fmt::format("{:016x}", checksum(std::as_bytes(std::span(all))));
    return std::optional(std::move(job));
}

std::string encode(const NodePeer& peer) {
    return fmt::format("{}\n{}{}\n{}{}\n{}{}\n", kFirstLine, kNode, peer.node, kAddress,
                       peer.address ? io::format_address(*peer.address) : std::string(kEnded), kKey, peer.key);
}

Result<NodePeer> parse_node_peer(std::string_view text) {
    const Status none(Code::kCorrupt, "its content is not that of a node's file");
    std::array<std::string_view, 4> lines;
    for (std::string_view& line : lines) {
        const std::size_t end = text.find('\n');
        if (end == std::string_view::npos) return none;
        line = text.substr(0, end);
        text.remove_prefix(end + 1);
    }
    if (!text.empty() || lines[0] != kFirstLine || !lines[1].starts_with(kNode) || !lines[2].starts_with(kAddress) ||
        !lines[3].starts_with(kKey))
        return none;
    NodePeer peer;
    peer.node = lines[1].substr(kNode.size());
    peer.key = lines[3].substr(kKey.size());
    if (!is_name(peer.node) || !is_fingerprint(peer.key)) return none;
    if (const std::string_view address = lines[2].substr(kAddress.size()); address != kEnded) {
        auto parsed = parse_numbers(address);
        if (!parsed) return parsed.status();
        peer.address = std::move(parsed).value();
    }
    return peer;
}

Result<std::shared_ptr<JobFolder>> JobFolder::open(const std::string& folder, const Job& job) {
    std::shared_ptr<JobFolder> opened(new JobFolder(fmt::format("{}/.forebay-job-{}", folder, job.name), job));
    FOREBAY_TRY(opened->make());
    return opened;
}

std::string JobFolder::key_file() const { return path_ + "/key"; }

std::string JobFolder::file_of(std::size_t node) const { return fmt::format("{}/node-{}", path_, node); }

Result<SealKey> JobFolder::key() const { return read_or_make_key(key_file()); }

Status JobFolder::make() const {
    FOREBAY_TRY(io::make_private_directory(path_));
    const auto known = key();
    return known ? fingerprint_of(known.value()).status() : known.status();
}

// An earlier peer of another node may have removed the folder as the last one.
Status JobFolder::publish(const io::Address& address) const {
    FOREBAY_TRY(make());
    const auto known = key();
    if (!known) return known.status();
    const auto fingerprint = fingerprint_of(known.value());
    if (!fingerprint) return fingerprint.status();
    return io::replace_private_file(file_of(own_), encode({own_name(), address, fingerprint.value()}));
}

Result<NodePeer> JobFolder::read(std::size_t node) const {
    const std::string path = file_of(node);
    const auto text = io::read_private_file(path, kPeerTextMax);
    if (!text) return text.status();
    auto peer = parse_node_peer(text.value());
    if (!peer) return peer.status().with_context(path);
    const auto known = read_key(key_file());
    if (!known) return known.status();
    const auto fingerprint = fingerprint_of(known.value());
    if (!fingerprint) return fingerprint.status();
    if (peer.value().key != fingerprint.value())
        return Status(Code::kNotFound, fmt::format("{}: the peer of {} has another key", path, peer.value().node));
    return peer;
}

bool JobFolder::has_met(std::size_t node) const { return read(node).is_ok(); }

Result<io::Address> JobFolder::find(std::size_t node) const {
    auto peer = read(node);
    if (!peer) return peer.status();
    if (!peer.value().address)
        return Status(Code::kNotFound, fmt::format("the peer of {} has ended", peer.value().node));
    io::Address address = std::move(*peer.value().address);
    address.key_file = key_file();
    return address;
}

void JobFolder::withdraw() const noexcept {
    (void)attempt([&]() -> Status {
        auto own = read(own_);
        if (!own) return own.status();
        own.value().address.reset();
        FOREBAY_TRY(io::replace_private_file(file_of(own_), encode(own.value())));
        remove_if_all_ended();
        return Status::ok();
    });
}

void JobFolder::remove_if_all_ended() const {
    for (std::size_t node = 0; node < nodes_; ++node) {
        const auto peer = read(node);
        if (!peer || peer.value().address) return;
    }
    std::error_code ignored;
    for (std::size_t node = 0; node < nodes_; ++node) std::filesystem::remove(file_of(node), ignored);
    std::filesystem::remove(key_file(), ignored);
    std::filesystem::remove(path_, ignored);
}

}   // namespace forebay::wire

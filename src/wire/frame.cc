#include "wire/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/bytes.h"
#include "base/checksum.h"

namespace forebay::wire {

namespace {

constexpr std::uint32_t kMagic = 0x50574246;   // "FBWP"
constexpr std::size_t kCheckedBytes = 24;
constexpr std::uint32_t kOpenEmpty = 1, kOpenLocked = 2, kOpenToRead = 4, kOpenToFollow = 8, kOpenContinues = 16,
                        kOpenCached = 32;
constexpr std::size_t kCommitsHeadBytes = 16, kCommitBytes = 32;
constexpr std::uint64_t kOffsetEnd = std::numeric_limits<std::int64_t>::max();   // as off_t

Status malformed(std::string_view what) { return {Code::kCorrupt, fmt::format("malformed frame: {}", what)}; }

template <class T>
void append(Payload& payload, T value) {
    std::byte bytes[sizeof(T)];
    store_le(bytes, value);
    payload.insert(payload.end(), bytes, bytes + sizeof(T));
}

void append_text(Payload& payload, std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    payload.insert(payload.end(), bytes.begin(), bytes.end());
}

std::string text_of(io::Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}   // namespace

HeaderBytes encode(const Header& header) noexcept {
    HeaderBytes bytes{};
    store_le(bytes.data(), kMagic);
    store_le(bytes.data() + 4, kVersion);
    store_le(bytes.data() + 6, static_cast<std::uint16_t>(header.type));
    store_le(bytes.data() + 8, header.payload_bytes);
    store_le(bytes.data() + 16, header.request);
    store_le(bytes.data() + kCheckedBytes, checksum(std::span(bytes).first(kCheckedBytes)));
    return bytes;
}

Result<Header> parse_header(std::span<const std::byte, kHeaderBytes> bytes) {
    if (load_le<std::uint32_t>(bytes.data()) != kMagic) return malformed("no frame of forebay's");
    if (const auto version = load_le<std::uint16_t>(bytes.data() + 4); version != kVersion)
        return Status(Code::kUnsupported, fmt::format("frame of version {}; this side knows {}", version, kVersion));
    if (load_le<std::uint64_t>(bytes.data() + kCheckedBytes) != checksum(bytes.first(kCheckedBytes)))
        return malformed("checksum of the header");
    const auto type = load_le<std::uint16_t>(bytes.data() + 6);
    if (type < static_cast<std::uint16_t>(Type::kHello) || type > static_cast<std::uint16_t>(kLastType))
        return malformed("type");
    Header header{static_cast<Type>(type), load_le<std::uint32_t>(bytes.data() + 8),
                  load_le<std::uint64_t>(bytes.data() + 16)};
    if (header.payload_bytes > kPayloadMax) return malformed("length");
    if (load_le<std::uint32_t>(bytes.data() + 12) != 0) return malformed("flags");
    return header;
}

Payload encode(const Hello& message) {
    Payload payload;
    append(payload, message.lowest);
    append(payload, message.highest);
    append(payload, message.pid);
    return payload;
}

Payload encode(const Welcome& message) {
    Payload payload;
    append(payload, message.version);
    append(payload, std::uint16_t{0});
    append(payload, message.credit_frames);
    append(payload, message.credit_bytes);
    append(payload, std::uint32_t{0});
    append(payload, message.epoch);
    return payload;
}

namespace {

std::uint32_t flags_of(const Open& message) noexcept {
    switch (message.purpose) {
        case Purpose::kRead: return kOpenToRead;
        case Purpose::kFollow: return kOpenToFollow;
        case Purpose::kReadCached: return kOpenCached;
        case Purpose::kWrite: break;
    }
    return (message.empty ? kOpenEmpty : 0) | (message.locked ? kOpenLocked : 0) |
           (message.continues ? kOpenContinues : 0);
}

}   // namespace

Payload encode(const Open& message) {
    Payload payload;
    append(payload, flags_of(message));
    append(payload, static_cast<std::uint32_t>(message.path.size()));
    append(payload, message.identity.device);
    append(payload, message.identity.inode);
    for (const std::uint64_t each :
         {message.seen.born_ns, message.seen.size, message.seen.modified_ns, message.seen.changed_ns})
        append(payload, each);
    append(payload, message.team.id);
    append(payload, message.team.members);
    append(payload, std::uint32_t{message.team.joins});
    append(payload, message.writer);
    append_text(payload, message.path);
    return payload;
}

Payload encode(const Opened& message) {
    Payload payload;
    append(payload, message.size);
    append_text(payload, std::string_view(message.log).substr(0, kPathMax));
    return payload;
}

Payload encode(const Read& message) {
    Payload payload;
    append(payload, message.offset);
    append(payload, message.bytes);
    append(payload, std::uint32_t{0});
    return payload;
}

Payload encode(const Status& failure) {
    Payload payload;
    append(payload, static_cast<std::uint16_t>(failure.code()));
    append(payload, std::uint16_t{0});
    append(payload, static_cast<std::uint32_t>(failure.sys_errno()));
    append_text(payload, std::string_view(failure.message()).substr(0, kTextMax));
    return payload;
}

Payload encode_size(std::uint64_t size) {
    Payload payload;
    append(payload, size);
    return payload;
}

Payload encode_number(std::uint64_t number) { return encode_size(number); }

Payload encode(const Commits& message) {
    Payload payload;
    payload.reserve(kCommitsHeadBytes + message.commits.size() * kCommitBytes);
    append(payload, static_cast<std::uint32_t>(message.commits.size()));
    append(payload, static_cast<std::uint32_t>(message.writer));
    append(payload, message.missed);
    for (const Commit& commit : message.commits) {
        append(payload, commit.number);
        append(payload, commit.time_ns);
        append(payload, commit.size);
        append(payload, commit.bytes);
    }
    return payload;
}

namespace {

void append_parts(Payload& payload, std::span<const Part> parts) {
    append(payload, static_cast<std::uint32_t>(parts.size()));
    append(payload, std::uint32_t{0});
    for (const Part& part : parts) {
        append(payload, part.offset);
        append(payload, part.bytes);
        append(payload, static_cast<std::uint32_t>(part.byte_class));
    }
}

}   // namespace

Payload encode(std::span<const Part> parts) {
    Payload payload;
    payload.reserve(kWriteHeadBytes + parts.size() * kPartBytes);
    append_parts(payload, parts);
    return payload;
}

Payload encode_exposed(std::uint64_t position, std::span<const Part> parts) {
    Payload payload;
    append(payload, position);
    append_parts(payload, parts);
    return payload;
}

Payload encode(const ReadExposed& message) {
    Payload payload = encode(message.read);
    append(payload, message.position);
    return payload;
}

Result<Hello> parse_hello(io::Bytes payload) {
    if (payload.size() != 8) return malformed("length of HELLO");
    Hello message{load_le<std::uint16_t>(payload.data()), load_le<std::uint16_t>(payload.data() + 2),
                  load_le<std::uint32_t>(payload.data() + 4)};
    if (message.lowest == 0 || message.lowest > message.highest) return malformed("versions in HELLO");
    return message;
}

Result<Welcome> parse_welcome(io::Bytes payload) {
    if (payload.size() != 24) return malformed("length of WELCOME");
    Welcome message{load_le<std::uint16_t>(payload.data()), load_le<std::uint32_t>(payload.data() + 4),
                    load_le<std::uint32_t>(payload.data() + 8), load_le<std::uint64_t>(payload.data() + 16)};
    if (message.version != kVersion || message.credit_frames == 0 || message.credit_bytes < kPayloadMax)
        return malformed("WELCOME");
    return message;
}

Result<Open> parse_open(io::Bytes payload) {
    constexpr std::size_t kFixed = 80;
    if (payload.size() <= kFixed || payload.size() > kFixed + kPathMax) return malformed("length of OPEN");
    const auto flags = load_le<std::uint32_t>(payload.data());
    const bool alone = flags == kOpenToRead || flags == kOpenToFollow || flags == kOpenCached;
    if (!alone && (flags & ~(kOpenEmpty | kOpenLocked | kOpenContinues)) != 0) return malformed("flags of OPEN");
    if (load_le<std::uint32_t>(payload.data() + 4) != payload.size() - kFixed) return malformed("path of OPEN");
    Open message;
    message.empty = (flags & kOpenEmpty) != 0;
    message.locked = (flags & kOpenLocked) != 0;
    if (flags == kOpenToRead) message.purpose = Purpose::kRead;
    if (flags == kOpenToFollow) message.purpose = Purpose::kFollow;
    if (flags == kOpenCached) message.purpose = Purpose::kReadCached;
    message.identity = {load_le<std::uint64_t>(payload.data() + 8), load_le<std::uint64_t>(payload.data() + 16)};
    message.seen = {load_le<std::uint64_t>(payload.data() + 24), load_le<std::uint64_t>(payload.data() + 32),
                    load_le<std::uint64_t>(payload.data() + 40), load_le<std::uint64_t>(payload.data() + 48)};
    const auto id = load_le<std::uint64_t>(payload.data() + 56);
    const auto number = load_le<std::uint32_t>(payload.data() + 64),
               joins = load_le<std::uint32_t>(payload.data() + 68);
    message.team = {id, number, joins == 1};
    const bool may_have = message.purpose == Purpose::kWrite || message.purpose == Purpose::kRead;
    if (joins > 1 || (message.team.joins && message.empty) || number > kMembersMax ||
        (message.team != Open::Team{} && (id == 0 || number == 0 || !may_have)))
        return malformed("team of OPEN");
    message.writer = load_le<std::uint64_t>(payload.data() + 72);
    message.continues = (flags & kOpenContinues) != 0;
    if ((message.writer != 0 && (message.purpose != Purpose::kWrite || id != 0)) ||
        (message.continues && (message.writer == 0 || message.empty)))
        return malformed("writer of OPEN");
    message.path = text_of(payload.subspan(kFixed));
    if (message.path.front() != '/' || message.path.find('\0') != std::string::npos) return malformed("path of OPEN");
    return message;
}

Result<Read> parse_read(io::Bytes payload) {
    if (payload.size() != 16) return malformed("length of READ");
    Read message{load_le<std::uint64_t>(payload.data()), load_le<std::uint32_t>(payload.data() + 8)};
    if (message.bytes > kDataMax || message.offset > kOffsetEnd - message.bytes ||
        load_le<std::uint32_t>(payload.data() + 12) != 0)
        return malformed("range of READ");
    return message;
}

Result<Opened> parse_opened(io::Bytes payload) {
    constexpr std::size_t kFixed = 8;
    if (payload.size() < kFixed || payload.size() > kFixed + kPathMax) return malformed("length of OPENED");
    const auto size = parse_size_of(payload.first(kFixed));
    if (!size) return size.status();
    Opened message{size.value(), text_of(payload.subspan(kFixed))};
    if (message.log.find('\0') != std::string::npos || (!message.log.empty() && message.log.front() != '/'))
        return malformed("path of OPENED");
    return message;
}

Result<std::uint64_t> parse_size_of(io::Bytes payload) {
    if (payload.size() != 8) return malformed("length of a size");
    const auto size = load_le<std::uint64_t>(payload.data());
    if (size > kOffsetEnd) return malformed("size");
    return size;
}

Result<std::uint64_t> parse_number(io::Bytes payload) {
    if (payload.size() != 8) return malformed("length of NEXT");
    return load_le<std::uint64_t>(payload.data());
}

Result<Commits> parse_commits(io::Bytes payload) {
    if (payload.size() < kCommitsHeadBytes) return malformed("length of COMMITS");
    const std::size_t count = load_le<std::uint32_t>(payload.data());
    const auto writer = load_le<std::uint32_t>(payload.data() + 4);
    if (count > kCommitsMax || payload.size() != kCommitsHeadBytes + count * kCommitBytes ||
        writer > static_cast<std::uint32_t>(Commits::Writer::kGone))
        return malformed("COMMITS");
    Commits message{{}, static_cast<Commits::Writer>(writer), load_le<std::uint64_t>(payload.data() + 8)};
    message.commits.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::byte* const at = payload.data() + kCommitsHeadBytes + i * kCommitBytes;
        message.commits.push_back({load_le<std::uint64_t>(at), load_le<std::uint64_t>(at + 8),
                                   load_le<std::uint64_t>(at + 16), load_le<std::uint64_t>(at + 24)});
    }
    return message;
}

Result<std::size_t> parse_expose(io::Bytes payload) {
    const auto bytes = parse_size_of(payload);
    if (!bytes) return bytes.status();
    if (bytes.value() == 0 || bytes.value() > kExposedMax) return malformed("size of EXPOSE");
    return static_cast<std::size_t>(bytes.value());
}

Result<ReadExposed> parse_read_exposed(io::Bytes payload, std::size_t exposed) {
    constexpr std::size_t kRead = 16;
    if (payload.size() != kRead + sizeof(std::uint64_t)) return malformed("length of READ_EXPOSED");
    const auto read = parse_read(payload.first(kRead));
    if (!read) return read.status();
    const auto position = load_le<std::uint64_t>(payload.data() + kRead);
    if (position > exposed || read.value().bytes > exposed - position) return malformed("position of READ_EXPOSED");
    return ReadExposed{read.value(), position};
}

Status parse_empty(io::Bytes payload) { return payload.empty() ? Status::ok() : malformed("a payload"); }

Status parse_failed(io::Bytes payload) {
    constexpr std::size_t kFixed = 8;
    if (payload.size() < kFixed || payload.size() > kFixed + kTextMax) return malformed("length of FAILED");
    const auto code = load_le<std::uint16_t>(payload.data());
    if (code == 0 || code > static_cast<std::uint16_t>(Code::kInternal)) return malformed("code of FAILED");
    const auto error = load_le<std::uint32_t>(payload.data() + 4);
    return {static_cast<Code>(code), text_of(payload.subspan(kFixed)),
            static_cast<int>(std::min<std::uint32_t>(error, std::numeric_limits<std::int16_t>::max()))};
}

// The bytes follow the table, or lie at the beginning of `exposed`.
Result<Write> Write::parse_table(io::Bytes payload, const io::Bytes* exposed) {
    if (payload.size() < kWriteHeadBytes) return malformed("length of WRITE");
    const std::size_t count = load_le<std::uint32_t>(payload.data());
    const auto reserved = load_le<std::uint32_t>(payload.data() + 4);
    if (count == 0 || count > kPartsMax || reserved != 0) return malformed("parts of WRITE");
    const io::Bytes rest = payload.subspan(kWriteHeadBytes);
    if (rest.size() < count * kPartBytes) return malformed("parts of WRITE");
    Write write(rest.first(count * kPartBytes), rest.subspan(count * kPartBytes));
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const Part part = write.part(i);
        bytes += part.bytes;
        if (part.bytes == 0 || part.offset > kOffsetEnd - part.bytes || part.byte_class > Class::kMetadata)
            return malformed("part of WRITE");
    }
    if (exposed != nullptr) {
        if (!write.bytes_.empty() || bytes > exposed->size()) return malformed("length of WRITE_EXPOSED");
        write.bytes_ = exposed->first(bytes);
    }
    if (bytes != write.bytes_.size() || bytes > kDataMax) return malformed("length of WRITE");
    return write;
}

Result<Write> Write::parse(io::Bytes payload) { return parse_table(payload, nullptr); }

Result<Write> Write::parse_exposed(io::Bytes payload, io::Bytes exposed) {
    if (payload.size() < sizeof(std::uint64_t)) return malformed("length of WRITE_EXPOSED");
    const auto position = load_le<std::uint64_t>(payload.data());
    if (position > exposed.size()) return malformed("position of WRITE_EXPOSED");
    const io::Bytes from = exposed.subspan(position);
    return parse_table(payload.subspan(sizeof position), &from);
}

Part Write::part(std::size_t index) const noexcept {
    const std::byte* const at = table_.data() + index * kPartBytes;
    return {load_le<std::uint64_t>(at), load_le<std::uint32_t>(at + 8),
            static_cast<Class>(load_le<std::uint32_t>(at + 12))};
}

}   // namespace forebay::wire

// Frames between a program and a staging server (docs/protocol.md): encoding, and parsing of untrusted bytes. Parsers
// read only their argument, allocate no memory that depends on a number in it, and refuse all that the document does
// not allow (kCorrupt). Results of parsers point into their argument. Pure functions. No call blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "wire/frame_seal.h"

namespace forebay::wire {

inline constexpr std::uint16_t kVersion = 3;
inline constexpr std::size_t kHeaderBytes = 32;
inline constexpr std::size_t kDataMax = std::size_t{1} << 20;   // bytes of a file in one frame
inline constexpr std::size_t kPartsMax = 4096;
inline constexpr std::size_t kPartBytes = 16, kWriteHeadBytes = 8;
inline constexpr std::size_t kPayloadMax = kDataMax + 64 * 1024 + kWriteHeadBytes;
inline constexpr std::size_t kPathMax = 4096, kTextMax = 4096;
inline constexpr std::size_t kOpenMax = 80 + kPathMax;
inline constexpr std::size_t kCommitsMax = 1024;        // in one frame
inline constexpr std::uint32_t kMembersMax = 1 << 20;   // of a team

enum class Type : std::uint16_t {
    kHello = 1,
    kWelcome,
    kOpen,
    kOpened,
    kWrite,
    kRead,
    kData,
    kTruncate,
    kCommit,
    kDrain,
    kSync,
    kStepAside,
    kClose,
    kDone,
    kFailed,
    kNext,   // asks for the commits after a number
    kCommits,
    kProve,    // random bytes, by which each side proves that it has the key: before HELLO, between machines
    kExpose,   // memory that both sides use, on one machine
    kWriteExposed,
    kReadExposed,
    kWorking,   // the server is still at the request, and bytes have reached the file since the last frame
};
inline constexpr Type kLastType = Type::kWorking;

struct Header {
    Type type = Type::kDone;
    std::uint32_t payload_bytes = 0;
    std::uint64_t request = 0;
};
using HeaderBytes = std::array<std::byte, kHeaderBytes>;
[[nodiscard]] HeaderBytes encode(const Header& header) noexcept;
[[nodiscard]] Result<Header> parse_header(std::span<const std::byte, kHeaderBytes> bytes);

using Payload = std::vector<std::byte>;

struct Hello {
    std::uint16_t lowest = kVersion, highest = kVersion;
    std::uint32_t pid = 0;
};
struct Welcome {
    std::uint16_t version = kVersion;
    std::uint32_t credit_frames = 0, credit_bytes = 0;
    std::uint64_t epoch = 0;   // random for each server process
};
// kRead: the file's last commit. kFollow: each commit as it comes. kReadCached: the file, through the server's cache.
enum class Purpose : std::uint8_t { kWrite, kRead, kFollow, kReadCached };
struct Open {
    bool empty = false;    // the server empties the file
    bool locked = false;   // the client has it locked, as HDF5 locks a file that it writes
    io::Identity identity;
    std::string path;
    Purpose purpose = Purpose::kWrite;
    // The file as the client sees it, for a server on another machine and for kReadCached. 0: not compared.
    struct Seen {
        std::uint64_t born_ns = 0, size = 0, modified_ns = 0, changed_ns = 0;
        friend bool operator==(const Seen&, const Seen&) = default;
    } seen{};
    // Clients that open the file together, each in a session of its own; only with kWrite and kRead. 0: none.
    struct Team {
        std::uint64_t id = 0;   // random, and equal for all of them
        std::uint32_t members = 0;
        bool joins = false;   // another member has opened it before
        friend bool operator==(const Team&, const Team&) = default;
    } team{};
    // The number of a client that writes the file alone: random, and equal at all of its servers. 0: it never
    // continues.
    std::uint64_t writer = 0;
    bool continues = false;   // after the loss of a server; it does not empty the file again
};
struct Opened {
    std::uint64_t size = 0;
    // For a writer: the directory of the file's log, or empty. For kReadCached: the name of the server's replica.
    std::string log;
};
struct Read {
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
};
enum class Class : std::uint32_t { kRaw, kMetadata };
struct Part {
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    Class byte_class = Class::kRaw;
};

// The largest memory of a client that both sides use. Its descriptor comes with the payload.
inline constexpr std::size_t kExposedMax = std::size_t{8} << 20;
struct ReadExposed {
    Read read;
    std::uint64_t position = 0;   // in that memory
};

struct Commit {
    std::uint64_t number = 0;    // 1, 2, … since the open for writing
    std::uint64_t time_ns = 0;   // since 1970
    std::uint64_t size = 0;
    std::uint64_t bytes = 0;   // written since the previous commit
};
struct Commits {
    enum class Writer : std::uint32_t { kWrites, kClosed, kGone };
    std::vector<Commit> commits;   // at most kCommitsMax
    Writer writer = Writer::kWrites;
    std::uint64_t missed = 0;   // earlier commits that the server has dropped
};

[[nodiscard]] Payload encode(const Hello& message);
[[nodiscard]] Payload encode(const Welcome& message);
[[nodiscard]] Payload encode(const Open& message);
[[nodiscard]] Payload encode(const Read& message);
[[nodiscard]] Payload encode(const Status& failure);   // FAILED; the text may be cut
[[nodiscard]] Payload encode(const Opened& message);
[[nodiscard]] Payload encode_size(std::uint64_t size);       // TRUNCATE
[[nodiscard]] Payload encode_number(std::uint64_t number);   // NEXT
[[nodiscard]] Payload encode(const Commits& message);
// Encodes the part table of a WRITE, which precedes its bytes.
[[nodiscard]] Payload encode(std::span<const Part> parts);
[[nodiscard]] Payload encode_exposed(std::uint64_t position, std::span<const Part> parts);   // WRITE_EXPOSED
[[nodiscard]] Payload encode(const ReadExposed& message);

[[nodiscard]] Result<Hello> parse_hello(io::Bytes payload);
[[nodiscard]] Result<Welcome> parse_welcome(io::Bytes payload);
[[nodiscard]] Result<Open> parse_open(io::Bytes payload);
[[nodiscard]] Result<Read> parse_read(io::Bytes payload);
[[nodiscard]] Result<Opened> parse_opened(io::Bytes payload);
[[nodiscard]] Result<std::uint64_t> parse_size_of(io::Bytes payload);
[[nodiscard]] Result<std::uint64_t> parse_number(io::Bytes payload);
[[nodiscard]] Result<Commits> parse_commits(io::Bytes payload);
// Parses EXPOSE: the bytes of memory, at most kExposedMax.
[[nodiscard]] Result<std::size_t> parse_expose(io::Bytes payload);
// `exposed` is the size of the client's exposed memory. The result fits into it.
[[nodiscard]] Result<ReadExposed> parse_read_exposed(io::Bytes payload, std::size_t exposed);
[[nodiscard]] Status parse_empty(io::Bytes payload);
// Returns the failure in a FAILED, or kCorrupt if it has none.
[[nodiscard]] Status parse_failed(io::Bytes payload);

class Write {
  public:
    [[nodiscard]] static Result<Write> parse(io::Bytes payload);
    // Parses a WRITE_EXPOSED. Its bytes lie in exposed memory of the client, and may change at any time.
    [[nodiscard]] static Result<Write> parse_exposed(io::Bytes payload, io::Bytes exposed);
    [[nodiscard]] std::size_t count() const noexcept { return table_.size() / kPartBytes; }
    [[nodiscard]] Part part(std::size_t index) const noexcept;
    [[nodiscard]] io::Bytes bytes() const noexcept { return bytes_; }   // of all parts, in order

  private:
    Write(io::Bytes table, io::Bytes bytes) noexcept : table_(table), bytes_(bytes) {}
    [[nodiscard]] static Result<Write> parse_table(io::Bytes payload, const io::Bytes* exposed);
    io::Bytes table_, bytes_;
};

}   // namespace forebay::wire

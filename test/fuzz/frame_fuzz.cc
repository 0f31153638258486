// Frames that somebody else has made up (docs/protocol.md): no parser touches anything outside of them, and what is
// accepted keeps to its limits.
#include <cstdio>
#include <cstdlib>

#include "wire/frame.h"

namespace {

using namespace forebay;

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

void parse_payload(io::Bytes payload) {
    (void)wire::parse_hello(payload);
    (void)wire::parse_welcome(payload);
    (void)wire::parse_size_of(payload);
    (void)wire::parse_number(payload);
    if (const auto opened = wire::parse_opened(payload))
        require(opened.value().log.size() <= wire::kPathMax, "a path is bounded");
    (void)wire::parse_empty(payload);
    if (const auto commits = wire::parse_commits(payload))
        require(commits.value().commits.size() <= wire::kCommitsMax, "a list of commits is bounded");
    require(!wire::parse_failed(payload).is_ok(), "a failure is one");
    if (const auto read = wire::parse_read(payload)) require(read.value().bytes <= wire::kDataMax, "a read is bounded");
    static const wire::Payload memory(5000);
    if (const auto exposed = wire::Write::parse_exposed(payload, memory)) {
        const io::Bytes bytes = exposed.value().bytes();
        require(bytes.data() >= memory.data() && bytes.data() + bytes.size() <= memory.data() + memory.size(),
                "bytes lie in the memory");
    }
    if (const auto read = wire::parse_read_exposed(payload, memory.size()))
        require(read.value().position + read.value().read.bytes <= memory.size(), "and so does what is read");
    if (const auto bytes = wire::parse_expose(payload))
        require(bytes.value() <= wire::kExposedMax, "memory is bounded");
    if (const auto open = wire::parse_open(payload)) {
        require(open.value().path.front() == '/' && open.value().path.size() <= wire::kPathMax, "a path is one");
        const bool alone = open.value().purpose == wire::Purpose::kReadCached;
        require(!alone || open.value().team == wire::Open::Team{}, "who reads through the cache is in no team");
        require(!alone || (!open.value().empty && !open.value().locked), "and changes nothing");
    }
    const auto write = wire::Write::parse(payload);
    if (!write) return;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < write.value().count(); ++i) bytes += write.value().part(i).bytes;
    require(bytes == write.value().bytes().size() && bytes <= wire::kDataMax, "parts and bytes agree");
}

}   // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const io::Bytes input(reinterpret_cast<const std::byte*>(data), size);
    if (input.size() >= wire::kHeaderBytes)
        if (const auto header = wire::parse_header(input.first<wire::kHeaderBytes>()))
            require(header.value().payload_bytes <= wire::kPayloadMax, "a length is bounded");
    parse_payload(input);
    return 0;
}

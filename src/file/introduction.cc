#include "file/introduction.h"

#include <array>
#include <cstring>

#include "base/checksum.h"

namespace forebay::file {

namespace {

void put(std::vector<std::byte>& to, const void* from, std::size_t size) {
    const auto* const at = static_cast<const std::byte*>(from);
    to.insert(to.end(), at, at + size);
}

}   // namespace

std::vector<std::byte> encode(const Introduction& mine) {
    std::vector<std::byte> told;
    const std::array<std::uint64_t, 9> numbers{mine.process.pid, mine.process.start_ticks, mine.staged,
                                               mine.log,         mine.segment_bytes,       mine.segments_max,
                                               mine.node.size(), mine.directory.size(),    mine.durable};
    put(told, numbers.data(), sizeof numbers);
    put(told, mine.process.boot_id.data(), mine.process.boot_id.size());
    put(told, mine.node.data(), mine.node.size());
    put(told, mine.directory.data(), mine.directory.size());
    return told;
}

Result<Introduction> decode(io::Bytes told) {
    std::array<std::uint64_t, 9> numbers{};
    Introduction one;
    const std::size_t fixed = sizeof numbers + one.process.boot_id.size();
    if (told.size() >= fixed) std::memcpy(numbers.data(), told.data(), sizeof numbers);
    if (told.size() < fixed || told.size() - fixed != numbers[6] + numbers[7])
        return Status(Code::kInternal, "another rank runs another forebay");
    one.process.pid = numbers[0];
    one.process.start_ticks = numbers[1];
    std::memcpy(one.process.boot_id.data(), told.data() + sizeof numbers, one.process.boot_id.size());
    one.staged = numbers[2];
    one.log = numbers[3];
    one.segment_bytes = numbers[4];
    one.segments_max = numbers[5];
    one.durable = numbers[8];
    const auto* const text = reinterpret_cast<const char*>(told.data() + fixed);
    one.node = {text, numbers[6]};
    one.directory = {text + numbers[6], numbers[7]};
    return one;
}

std::uint64_t group_of(const Introduction& drainer) noexcept {
    std::array<std::byte, sizeof drainer.process + sizeof drainer.log> named;
    std::memcpy(named.data(), &drainer.process, sizeof drainer.process);
    std::memcpy(named.data() + sizeof drainer.process, &drainer.log, sizeof drainer.log);
    return checksum(named) | 1;
}

}   // namespace forebay::file

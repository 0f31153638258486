#include "fault_rules.h"

#include <cstring>

#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "quantity.h"

namespace forebay::slowfs {

namespace {

constexpr int kErrnoMax = 200;   // above what Linux uses

Status invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Status parse_errno(std::string_view text, FaultRule& rule) {
    for (int candidate = 1; candidate < kErrnoMax; ++candidate) {
        const char* name = ::strerrorname_np(candidate);
        if (name != nullptr && text == name) {
            rule.error = candidate;
            return Status::ok();
        }
    }
    return not_a("an error name, such as EIO, ENOSPC, EDQUOT or ESTALE", text);
}

Status parse_short(std::string_view text, FaultRule& rule) {
    if (text == "half") {
        rule.short_half = true;
        return Status::ok();
    }
    auto size = parse_size(text);
    // A successful write of zero bytes has no defined meaning.
    if (!size || size.value() == 0) return not_a("half or a size above 0", text);
    rule.short_bytes = size.value();
    return Status::ok();
}

Status parse_hang(std::string_view text, FaultRule& rule) {
    rule.hang = true;
    if (text.empty()) return Status::ok();
    auto limit = parse_duration_ns(text);
    if (!limit) return limit.status();
    rule.hang_ns_max = limit.value();
    if (rule.hang_ns_max == 0) return not_a("a duration above 0", text);
    return Status::ok();
}

Status parse_number(std::string_view text, std::uint64_t& number) {
    auto value = parse_count(text);
    if (!value) return value.status();
    number = value.value();
    return Status::ok();
}

Status parse_offset(std::string_view text, FaultRule& rule) {
    const std::size_t dots = text.find("..");
    if (dots == std::string_view::npos) return not_a("a range of bytes, such as 4096..8192", text);
    rule.has_offset = true;
    if (const auto begin = text.substr(0, dots); !begin.empty()) {
        auto value = parse_size(begin);
        if (!value) return value.status();
        rule.offset_begin = value.value();
    }
    if (const auto end = text.substr(dots + 2); !end.empty()) {
        auto value = parse_size(end);
        if (!value) return value.status();
        rule.offset_end = value.value();
    }
    if (rule.offset_begin >= rule.offset_end) return not_a("a range of bytes: it is empty", text);
    return Status::ok();
}

Status parse_pair(std::string_view pair, FaultRule& rule) {
    const std::size_t equals = pair.find('=');
    const std::string_view key = pair.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : pair.substr(equals + 1);
    if (key == "hang") return parse_hang(value, rule);
    if (pair == "late") {
        rule.late = true;
        return Status::ok();
    }
    if (value.empty()) return invalid("'" + std::string(pair) + "' is not key=value");
    if (key == "op") {
        auto ops = parse_ops(value);
        if (ops) rule.ops = ops.value();
        return ops.status();
    }
    if (key == "errno") return parse_errno(value, rule);
    if (key == "short") return parse_short(value, rule);
    if (key == "after") return parse_number(value, rule.after);
    if (key == "count") return parse_number(value, rule.count);
    if (key == "offset") return parse_offset(value, rule);
    if (key == "path") {
        rule.path = value;
        return Status::ok();
    }
    return invalid("unknown key '" + std::string(key) +
                   "'; known are op, errno, short, late, hang, after, count, offset, path");
}

bool path_matches(const std::string& pattern, const std::string& path) {
    if (pattern.find('/') != std::string::npos) {
        return ::fnmatch(pattern.c_str() + (pattern.front() == '/' ? 1 : 0), path.c_str(), 0) == 0;
    }
    const std::size_t slash = path.rfind('/');
    return ::fnmatch(pattern.c_str(), path.c_str() + (slash == std::string::npos ? 0 : slash + 1), 0) == 0;
}

}   // namespace

Result<FaultRule> FaultRule::parse(std::string_view text) {
    FaultRule rule;
    rule.text = text;
    const auto context = [&](const Status& status) {
        return status.with_context("fault rule '" + std::string(text) + "'");
    };
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        if (Status status = parse_pair(text.substr(begin, end - begin), rule); !status) return context(status);
        begin = end + 1;
    }
    OpSet transfers;
    transfers.set(index_of(Op::kRead)).set(index_of(Op::kWrite));
    const bool is_short = rule.short_half || rule.short_bytes != 0;
    if (rule.ops.none()) return context(invalid("op= is missing"));
    if (rule.error == 0 && !is_short && !rule.hang)
        return context(invalid("one of errno=, short= and hang is missing"));
    if (rule.error != 0 && is_short) return context(invalid("errno= and short= exclude each other"));
    if (is_short && (rule.ops & ~transfers).any())
        return context(invalid("short= is for op=read, write or read|write"));
    OpSet writes;
    writes.set(index_of(Op::kWrite));
    if (rule.late && (rule.ops != writes || rule.error == 0))
        return context(invalid("late is for op=write, with errno="));
    transfers.set(index_of(Op::kFallocate));
    if (rule.has_offset && (rule.ops & ~transfers).any()) {
        return context(invalid("offset= is for op=read, write and fallocate"));
    }
    if (rule.count == 0) return context(invalid("count=0 never happens"));
    return rule;
}

bool FaultRule::matches(Op op, std::uint64_t offset, std::uint64_t size_bytes,
                        const std::function<std::string()>& path_of) const {
    if (!ops.test(index_of(op))) return false;
    if (has_offset && !(offset < offset_end && offset + size_bytes > offset_begin)) return false;
    return path.empty() || path_matches(path, path_of());
}

Fault FaultRule::fault_of(std::uint64_t size_bytes) const {
    Fault fault{.error = error, .late = late, .hang = hang, .hang_ns_max = hang_ns_max};
    if (short_half) fault.size_bytes_max = std::max<std::uint64_t>(size_bytes / 2, 1);
    if (short_bytes != 0) fault.size_bytes_max = short_bytes;
    return fault;
}

void FaultRules::add(FaultRule rule) {
    const std::scoped_lock lock(mutex_);
    entries_.push_back({.rule = std::move(rule)});
    empty_ = false;
}

void FaultRules::clear() {
    const std::scoped_lock lock(mutex_);
    entries_.clear();
    empty_ = true;
}

Fault FaultRules::next(Op op, std::uint64_t offset, std::uint64_t size_bytes,
                       const std::function<std::string()>& path_of) {
    Fault fault;
    if (empty_) return fault;
    bool decided = false;
    const std::scoped_lock lock(mutex_);
    for (Entry& entry : entries_) {
        if (!entry.rule.matches(op, offset, size_bytes, path_of)) continue;
        entry.matched += 1;
        if (decided || entry.matched <= entry.rule.after || entry.hit >= entry.rule.count) continue;
        entry.hit += 1;
        fault = entry.rule.fault_of(size_bytes);
        decided = true;
    }
    return fault;
}

std::vector<FaultRules::Tally> FaultRules::tallies() const {
    const std::scoped_lock lock(mutex_);
    std::vector<Tally> tallies;
    tallies.reserve(entries_.size());
    for (const Entry& entry : entries_) {
        tallies.push_back({.rule = entry.rule.text, .matched = entry.matched, .hit = entry.hit});
    }
    return tallies;
}

}   // namespace forebay::slowfs

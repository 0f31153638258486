#include "node/team.h"

#include <fmt/format.h>

#include <cstring>
#include <string>

namespace forebay::node {

namespace {

struct Failure {
    std::int32_t code = 0;
    std::int32_t sys_errno = 0;
};

}   // namespace

Status Team::agree(const Status& mine) {
    std::vector<std::byte> told;
    if (!mine) {
        const Failure failure{static_cast<std::int32_t>(mine.code()), mine.sys_errno()};
        const std::string& message = mine.message();
        told.resize(sizeof failure + message.size());
        std::memcpy(told.data(), &failure, sizeof failure);
        std::memcpy(told.data() + sizeof failure, message.data(), message.size());
    }
    auto gathered = gather(told);
    if (!gathered) return mine ? gathered.status() : mine;
    for (std::size_t member = 0; member < gathered.value().size(); ++member) {
        const auto& said = gathered.value()[member];
        if (said.size() < sizeof(Failure)) continue;
        if (member == static_cast<std::size_t>(rank())) return mine;
        Failure failure;
        std::memcpy(&failure, said.data(), sizeof failure);
        const std::string message(reinterpret_cast<const char*>(said.data()) + sizeof failure, said.size() - sizeof failure);
        return Status(static_cast<Code>(failure.code), message, failure.sys_errno).with_context(fmt::format("rank {}", member));
    }
    return Status::ok();
}

}   // namespace forebay::node

#include "wire/failover.h"

#include <cerrno>
#include <chrono>
#include <optional>

namespace forebay::wire {

Result<ClientSession> Failover::connect(const Open& message, bool* unanswered) {
    auto session = open_session(setup_.server, setup_.patience_s, message, unanswered, setup_.lock.lock());
    if (!session) return session;
    log_ = session.value().opened.log;
    log_seen_ = setup_.sees && !log_.empty() && session.value().connection->socket().is_local() && setup_.sees(log_);
    return session;
}

Status Failover::await_server(const std::function<Status()>& attempt) {
    const auto begin = std::chrono::steady_clock::now();
    io::ListenerWatch watch(setup_.server);
    for (;;) {
        const Status why = attempt();
        if (why) return why;
        // A server without room may have room later. The client waits for that only if it cannot continue otherwise.
        const bool awaits_room = why.sys_errno() == EUSERS && !may_recover_file();
        if ((why.code() == Code::kUnsupported && !awaits_room) || why.code() == Code::kPermissionDenied) return why;
        const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                                  begin);
        const auto left = std::chrono::milliseconds(std::chrono::seconds(setup_.patience_s)) - waited;
        if (setup_.patience_s != 0 && left.count() <= 0) return why;
        watch.await(setup_.patience_s != 0 ? std::optional(left) : std::nullopt);
    }
}

Status Failover::recover_file(std::uint64_t writer, const Status& why) {
    if (!may_recover_file()) return {Code::kUnsupported, "its log cannot be reached from here"};
    return setup_.recover_file(log_, writer, why);
}

}   // namespace forebay::wire

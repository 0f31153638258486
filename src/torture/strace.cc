#include "torture/strace.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "base/clock.h"

namespace forebay::torture {

namespace {

std::string find_in_path(std::string_view name) {
    const char* const variable = std::getenv("PATH");
    for (std::string_view rest = variable != nullptr ? variable : "/usr/bin:/bin"; !rest.empty();) {
        const std::size_t end = rest.find(':');
        const std::string path = fmt::format("{}/{}", rest.substr(0, end), name);
        if (path.front() == '/' && ::access(path.c_str(), X_OK) == 0) return path;
        rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
    return {};
}

}   // namespace

Result<Strace> find_working_strace(Ground& ground, std::uint64_t patience_ns) {
    const std::string program = find_in_path("strace");
    if (program.empty()) return Strace{{}, "there is no strace"};
    Strace strace;
    // Older kernels lack the filter. Then strace slows down all calls.
    for (const bool filtered : {true, false}) {
        strace.command = {program, "-f", "-qq", "-o", "/dev/null"};
        if (filtered) strace.command.push_back("--seccomp-bpf");
        for (const std::string& argument : {std::string("-e"), fmt::format("trace={}", kWriteCalls), std::string("-e")})
            strace.command.push_back(argument);
        std::vector<std::string> command = strace.command;
        command.insert(command.end(), {"inject=write:signal=KILL:when=1", ground.self, "--version"});
        auto probe = Killable::start(ground.signals, command, ground.words_file());
        if (!probe) return probe.status();
        const auto end = probe.value().wait(monotonic_ns() + patience_ns);
        if (!end) return end.status();
        if (end.value() == Killable::Event::kEnded && WIFSIGNALED(probe.value().wait_status())) return strace;
    }
    const std::string words = ground.words();
    return Strace{{}, "strace cannot trace here" + (words.empty() ? words : ": " + words.substr(0, words.find('\n')))};
}

}   // namespace forebay::torture

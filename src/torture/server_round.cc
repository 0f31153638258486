#include "torture/server_round.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "cli/exit_status.h"
#include "torture/cutting_proxy.h"

namespace forebay::torture {

namespace {

using Verdict = Judgement::Verdict;

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kSessionsMax = 4;
constexpr std::uint64_t kRoundOperationsMin = 5, kRoundOperationsMore = 150;
constexpr std::uint64_t kSoonNs = 60 * kMs, kRoundLaterNs = 1500 * kMs;   // after a client's start
constexpr std::uint64_t kStandsStillNs = 2000 * kMs, kServerGoneNs = 1500 * kMs;
constexpr std::uint64_t kPauseUs = 20'000;    // between two operations of a client that computes
constexpr std::size_t kSocketPathMax = 100;   // the system takes 107 bytes
constexpr std::uint64_t kPatienceMoreS =
    60;   // seconds for a client: its patience, and half a minute for each of two answers

// The message of a client that lost its server (hdf5/driver/forwarding.cc).
constexpr const char* kWithoutServer = "is written directly from now on";

std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
}

}   // namespace

ServerRound::ServerRound(Ground& ground, const TortureOrder& order, ServerHarm harm, std::uint64_t seed)
    : ground_(ground),
      order_(order),
      harm_(harm),
      seed_(seed),
      dice_(~seed),
      tcp_(harm == ServerHarm::kCut || dice_.one_in(2) || ground.nls().size() > kSocketPathMax),
      lineage_(Workload::initial(seed)) {}

Status ServerRound::fail(Judgement judgement) {
    if (!found_) found_ = std::move(judgement);
    return {Code::kInternal, found_->what};
}

Status ServerRound::fail(Verdict verdict, std::string what) {
    return fail(Judgement{.verdict = verdict, .what = std::move(what)});
}

Result<Killable> ServerRound::start(std::vector<std::string> command, const std::string& name) {
    return Killable::start(ground_.signals, command, ground_.words_file(name));
}

Status ServerRound::await_end(Killable& process, const char* what, std::uint64_t within_ns) {
    const auto end = process.wait(monotonic_ns() + within_ns);
    if (!end) return end.status();
    if (end.value() == Killable::Event::kEnded) return Status::ok();
    if (end.value() == Killable::Event::kInterrupted) return {Code::kUnavailable, "interrupted"};
    return fail(Verdict::kHung, fmt::format("{} did not end within {} s", what, within_ns / 1'000'000'000));
}

Result<Judgement> ServerRound::run() {
    Status fought = prepare();
    const std::uint64_t sessions = 1 + dice_.below(kSessionsMax);
    for (std::uint64_t i = 0; fought && i < sessions && !lineage_.loose(); ++i) fought = run_session();
    if (fought) fought = end_server();
    if (proxy_) {
        (void)proxy_->wait(monotonic_ns());
        figures_.cuts = static_cast<std::uint64_t>(std::ranges::count(proxy_->output(), kCutLetter));
    }
    server_.reset();   // a failure may have left them
    proxy_.reset();
    readers_.clear();
    dying_.clear();
    if (found_) return *found_;
    if (!fought) return fought;
    return Judgement{};
}

Status ServerRound::prepare() {
    FOREBAY_TRY(ground_.prepare(Workload::initial(seed_)));
    FOREBAY_TRY(start_server());
    client_.file = ground_.file();
    client_.spoil = order_.spoil;
    client_.nls = dice_.one_in(2) ? ground_.nls() : ground_.nls() + "/none";
    client_.server = "unix:" + ground_.nls() + "/s";
    if (!tcp_) return Status::ok();
    auto proxy = start({ground_.self, kProxyCommand, "--server", fmt::format("127.0.0.1:{}", port_)}, "proxy");
    if (!proxy) return proxy.status();
    proxy_.emplace(std::move(proxy).value());
    auto event = proxy_->wait(monotonic_ns() + order_.hang_ns, 1);
    while (event && event.value() == Killable::Event::kOutput && !proxy_->output().ends_with('\n'))
        event = proxy_->wait(monotonic_ns() + order_.hang_ns, proxy_->output().size() + 1);
    if (!event) return event.status();
    if (!proxy_->output().ends_with('\n')) return {Code::kIo, "the proxy does not start: " + ground_.words("proxy")};
    client_.server = "127.0.0.1:" + proxy_->output().substr(0, proxy_->output().size() - 1);
    return Status::ok();
}

// Starts the server at the address of the previous one. A dying server keeps the address until its current call ends.
Status ServerRound::start_server() {
    const std::string address = tcp_ ? fmt::format("127.0.0.1:{}", port_) : "unix:" + ground_.nls() + "/s";
    std::vector<std::string> command{ground_.self,
                                     kUnderCommand,
                                     ground_.command,
                                     "serve",
                                     "--listen",
                                     address,
                                     "--nls",
                                     ground_.nls(),
                                     "--size",
                                     "256MiB",
                                     "--clients-max",
                                     "4",
                                     "-o",
                                     "registry=" + ground_.nls()};
    for (const auto& settings : {Workload::settings(seed_), order_.settings})
        for (const std::string& setting : settings) command.insert(command.end(), {"-o", setting});
    const std::uint64_t deadline_ns = monotonic_ns() + order_.hang_ns;
    for (;;) {
        auto started = start(command, "server");
        if (!started) return started.status();
        Killable process = std::move(started).value();
        auto event = process.wait(deadline_ns, 1);
        while (event && event.value() == Killable::Event::kOutput && !process.output().ends_with('\n'))
            event = process.wait(deadline_ns, process.output().size() + 1);
        if (!event) return event.status();
        if (event.value() == Killable::Event::kInterrupted) return {Code::kUnavailable, "interrupted"};
        if (event.value() == Killable::Event::kOutput) {
            const std::string& line = process.output();
            if (tcp_) port_ = static_cast<std::uint16_t>(std::stoul(line.substr(line.rfind(':') + 1)));
            server_.emplace(std::move(process));
            return Status::ok();
        }
        if (event.value() == Killable::Event::kTime)
            return fail(Verdict::kHung, "the server does not get ready: " + ground_.words("server"));
        if (figures_.sessions == 0) return {Code::kIo, "the server does not start: " + ground_.words("server")};
        const auto living = std::find_if(dying_.begin(), dying_.end(), [](const auto& each) { return !each.ended(); });
        if (living == dying_.end())
            return fail(Verdict::kLost, "the server does not start again: " + ground_.words("server"));
        FOREBAY_TRY(await_end(*living, "a server that was killed", order_.hang_ns));
    }
}

Status ServerRound::end_server() {
    if (server_runs()) {
        const bool killed = dice_.one_in(2);
        if (killed) server_->kill();
        else server_->signal(SIGTERM);
        FOREBAY_TRY(await_end(*server_, "the server", order_.hang_ns));
        const int status = server_->wait_status();
        if (!killed && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
            return fail(Verdict::kLost, "the server failed at its end: " + ground_.words("server"));
        if (!killed && !lineage_.loose()) {
            const auto content = ground_.content();
            if (!content) return content.status();
            Judgement judgement = lineage_.judge(content.value());
            if (judgement.verdict != Verdict::kRecovered) {
                judgement.what = "after the end of the server " + judgement.what;
                return fail(std::move(judgement));
            }
        }
    }
    for (Killable& each : dying_) FOREBAY_TRY(await_end(each, "a server that was killed", order_.hang_ns));
    return Status::ok();
}

void ServerRound::add_harm(ServerHarm harm, std::vector<Act>& acts) {
    const auto instant = [&] { return dice_.below(dice_.one_in(3) ? kSoonNs : kRoundLaterNs); };
    const std::uint64_t at_ns = instant();
    switch (harm) {
        case ServerHarm::kCut: acts.push_back({at_ns, Deed::kCut}); break;
        case ServerHarm::kKillClient: acts.push_back({at_ns, Deed::kKillClient}); break;
        case ServerHarm::kKillServer:
            acts.push_back({at_ns, Deed::kKillServer});
            // In one case of six the next client finds no server, or the round ends without.
            if (!dice_.one_in(6))
                acts.push_back({at_ns + (dice_.one_in(2) ? 0 : dice_.below(kServerGoneNs)), Deed::kStartServer});
            break;
        case ServerHarm::kStop:
            acts.push_back({at_ns, dice_.one_in(2)           ? Deed::kStopServer
                                   : tcp_ && dice_.one_in(2) ? Deed::kStopNetwork
                                                             : Deed::kStopClient});
            acts.push_back({at_ns + dice_.below(kStandsStillNs), Deed::kContinue});
            break;
        case ServerHarm::kAll:
            for (std::uint64_t count = 1 + dice_.below(4); count > 0; --count) {
                const auto which = static_cast<ServerHarm>(dice_.below(4));
                add_harm(which == ServerHarm::kCut && !tcp_ ? ServerHarm::kKillServer : which, acts);
            }
            break;
    }
}

std::vector<ServerRound::Act> ServerRound::schedule() {
    std::vector<Act> acts;
    add_harm(harm_, acts);
    if (harm_ == ServerHarm::kCut)
        for (std::uint64_t more = dice_.below(3); more > 0; --more) add_harm(harm_, acts);
    if (!client_.session.empties)
        for (std::uint64_t readers = dice_.below(3); readers > 0; --readers)
            acts.push_back({dice_.below(kRoundLaterNs), Deed::kStartReader});
    std::stable_sort(acts.begin(), acts.end(), [](const Act& a, const Act& b) { return a.at_ns < b.at_ns; });
    return acts;
}

Status ServerRound::carry_out(Deed deed, Killable& client) {
    const auto stop = [&](std::optional<Killable>& process) {
        if (!process) return;
        process->signal(SIGSTOP);
        ++figures_.stops;
    };
    switch (deed) {
        case Deed::kCut:
            if (!proxy_) break;
            proxy_->signal(SIGUSR1);
            break;
        case Deed::kKillClient:
            if (killed_ || client.ended()) break;
            client.kill();
            killed_ = true;
            ++figures_.clients_killed;
            break;
        case Deed::kKillServer:
            if (!server_runs()) break;
            server_->kill();
            dying_.push_back(std::move(*server_));
            server_.reset();
            ++figures_.servers_killed;
            break;
        case Deed::kStartServer: return server_runs() ? Status::ok() : start_server();
        case Deed::kStopClient:
            if (client.ended()) break;
            client.signal(SIGSTOP);
            ++figures_.stops;
            break;
        case Deed::kStopServer: stop(server_); break;
        case Deed::kStopNetwork: stop(proxy_); break;
        case Deed::kContinue:
            client.signal(SIGCONT);
            if (server_) server_->signal(SIGCONT);
            if (proxy_) proxy_->signal(SIGCONT);
            break;
        case Deed::kStartReader: {
            // A reader waits until the file is recovered. Half of the time there is no such reader.
            if (client.ended() && dice_.one_in(2)) break;
            const std::string name = fmt::format("reader-{}", readers_.size());
            ClientOrder order = client_;
            order.session = {};
            std::vector<std::string> command{ground_.self, kReaderCommand};
            for (std::string& argument : arguments_of(order)) command.push_back(std::move(argument));
            auto started = start(command, name);
            if (!started) return started.status();
            readers_.push_back({std::move(started).value(), understand(client.output()).good_commits});
            break;
        }
    }
    return Status::ok();
}

// If the client ends early, the rest of the plan follows at once, while the server may still handle that client's end.
Status ServerRound::await_client(Killable& client, const std::vector<Act>& acts) {
    const std::uint64_t begin_ns = monotonic_ns();
    for (const Act& act : acts) {
        const auto event = client.wait(begin_ns + act.at_ns);
        if (!event) return event.status();
        if (event.value() == Killable::Event::kInterrupted) return {Code::kUnavailable, "interrupted"};
        FOREBAY_TRY(carry_out(act.deed, client));
    }
    return await_end(client, "a client", order_.hang_ns + (client_.patience_s + kPatienceMoreS) * 1'000 * kMs);
}

Status ServerRound::run_session() {
    Session& session = client_.session;
    session = {.seed = seed_ * 16 + ++figures_.sessions,
               .operations = kRoundOperationsMin + dice_.below(kRoundOperationsMore),
               .empties = dice_.one_in(10)};
    client_.patience_s = dice_.one_in(3) ? 2 : 6;
    client_.pause_us = dice_.one_in(2) ? 0 : kPauseUs;
    killed_ = false;
    if (!server_runs()) FOREBAY_TRY(start_server());
    std::vector<std::string> command{ground_.self, kClientCommand};
    for (std::string& argument : arguments_of(client_)) command.push_back(std::move(argument));
    auto client = start(command, "client");
    if (!client) return client.status();
    FOREBAY_TRY(await_client(client.value(), schedule()));
    FOREBAY_TRY(judge_client(client.value(), session));
    FOREBAY_TRY(judge_readers());
    if (!server_runs()) return Status::ok();
    // The next client mostly starts at once.
    const auto event = server_->wait(monotonic_ns() + (dice_.one_in(4) ? dice_.below(kRoundLaterNs) : 0));
    if (!event) return event.status();
    if (event.value() == Killable::Event::kEnded)
        return fail(Verdict::kWrong, "the server has ended by itself: " + ground_.words("server"));
    return Status::ok();
}

Status ServerRound::judge_client(const Killable& client, const Session& session) {
    const Told told = understand(client.output());
    const int status = client.wait_status();
    if (WIFSIGNALED(status) && !(killed_ && WTERMSIG(status) == SIGKILL))
        return fail(Verdict::kWrong, fmt::format("the client was ended by signal {}", WTERMSIG(status)));
    const bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == cli::kExitFine;
    if (ended_well && !told.closed_well)
        return fail(Verdict::kUnreported, "a client ended with 0, and has not closed its file");
    const bool direct = text_of(ground_.words_file("client")).find(kWithoutServer) != std::string::npos;
    Judgement judgement = lineage_.end(session, told, direct);
    if (judgement.verdict != Verdict::kRecovered) return fail(std::move(judgement));
    commits_ += told.good_commits;
    told_ += told.failures;
    figures_.committed_bytes += lineage_.committed_bytes();
    figures_.closed += told.closed_well;
    figures_.refused += told.refused;
    figures_.direct += direct;
    figures_.failed += !told.closed_well && !told.refused && !killed_;
    return told.closed_well ? compare_closed() : Status::ok();
}

// Compares without the server, before any next client.
Status ServerRound::compare_closed() {
    const auto content = ground_.content();
    if (!content) return content.status();
    Judgement judgement = lineage_.judge(content.value());
    if (judgement.verdict == Verdict::kRecovered) return Status::ok();
    judgement.what = "after a close that succeeded " + judgement.what;
    return fail(std::move(judgement));
}

Status ServerRound::judge_readers() {
    for (Reader& reader : readers_) {
        FOREBAY_TRY(await_end(reader.process, "a reader",
                              order_.hang_ns + (client_.patience_s + kPatienceMoreS) * 1'000 * kMs));
        const int status = reader.process.wait_status();
        if (WIFSIGNALED(status))
            return fail(Verdict::kWrong, fmt::format("a reader was ended by signal {}", WTERMSIG(status)));
        const Told told = understand(reader.process.output());
        ++figures_.readers;
        figures_.readers_refused += told.refused;
        for (const std::uint64_t seen : told.seen) {
            Judgement judgement = lineage_.read(seen, reader.good_commits);
            if (judgement.verdict != Verdict::kRecovered) return fail(std::move(judgement));
        }
        if (told.seen.size() == 2 && told.seen[0] != told.seen[1])
            return fail(Verdict::kWrong, "a reader found two states of the file while it had it open");
    }
    readers_.clear();
    return Status::ok();
}

}   // namespace forebay::torture

// One round of `forebay torture --server`: a staging server, one client after another that writes a file, readers
// beside them, and harm at random instants. A seed decides all but the exact instants.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "torture/campaign.h"
#include "torture/ground.h"
#include "torture/killable.h"
#include "torture/lineage.h"
#include "torture/server_client.h"

namespace forebay::torture {

enum class ServerHarm : std::uint8_t { kCut, kKillClient, kKillServer, kStop, kAll };

class ServerRound {
  public:
    ServerRound(Ground& ground, const TortureOrder& order, ServerHarm harm, std::uint64_t seed);
    // Runs until all processes have ended. kRecovered: no check failed yet; `lineage` then has the allowed states after
    // `forebay recover`. Fails if the round cannot run here, or was interrupted.
    [[nodiscard]] Result<Judgement> run();

    [[nodiscard]] const Lineage& lineage() const noexcept { return lineage_; }
    [[nodiscard]] const ServerFigures& figures() const noexcept { return figures_; }
    [[nodiscard]] std::uint64_t commits() const noexcept { return commits_; }
    [[nodiscard]] std::uint64_t told() const noexcept { return told_; }

  private:
    enum class Deed : std::uint8_t {
        kCut,
        kKillClient,
        kKillServer,
        kStartServer,
        kStopClient,
        kStopServer,
        kStopNetwork,
        kContinue,
        kStartReader
    };
    struct Act {
        std::uint64_t at_ns = 0;   // after the client's start
        Deed deed = Deed::kCut;
    };
    struct Reader {
        Killable process;
        std::uint64_t good_commits = 0;   // good commits that the client had reported before
    };
    // An error of these functions is a finding, which `fail` has kept.
    [[nodiscard]] Status prepare();
    [[nodiscard]] Status start_server();
    [[nodiscard]] Status run_session();
    [[nodiscard]] std::vector<Act> schedule();
    void add_harm(ServerHarm harm, std::vector<Act>& acts);
    [[nodiscard]] Status carry_out(Deed deed, Killable& client);
    [[nodiscard]] Status await_client(Killable& client, const std::vector<Act>& acts);
    [[nodiscard]] Status judge_client(const Killable& client, const Session& session);
    [[nodiscard]] Status judge_readers();
    [[nodiscard]] Status compare_closed();
    [[nodiscard]] Status end_server();
    [[nodiscard]] Status await_end(Killable& process, const char* what, std::uint64_t within_ns);
    [[nodiscard]] Status fail(Judgement judgement);
    [[nodiscard]] Status fail(Judgement::Verdict verdict, std::string what);
    [[nodiscard]] Result<Killable> start(std::vector<std::string> command, const std::string& name);
    [[nodiscard]] bool server_runs() const noexcept { return server_.has_value(); }

    Ground& ground_;
    const TortureOrder& order_;
    const ServerHarm harm_;
    const std::uint64_t seed_;
    Dice dice_;
    const bool tcp_;
    Lineage lineage_;
    ServerFigures figures_;
    std::uint64_t commits_ = 0, told_ = 0;
    std::optional<Judgement> found_{};
    std::uint16_t port_ = 0;   // of the server; 0 before its first start
    ClientOrder client_{};     // of the current session
    std::optional<Killable> server_{}, proxy_{};
    std::list<Killable> dying_{};   // killed servers
    std::list<Reader> readers_{};
    bool killed_ = false;   // the round killed the client
};

}   // namespace forebay::torture

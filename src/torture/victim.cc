#include "torture/victim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>

#include "base/options.h"
#include "cli/exit_status.h"
#include "io/path.h"
#include "io/posix_file.h"
#include "stage/engine.h"
#include "torture/fault_victim.h"
#include "torture/told.h"
#include "torture/workload.h"

namespace forebay::torture {

namespace {

constexpr std::uint64_t kBulkWrite = std::uint64_t{1} << 20;

Status follow_workload(stage::StagedFile& file, std::uint64_t seed) {
    Workload workload(seed);
    std::vector<std::byte> buffer;
    for (;;) {
        const Operation operation = workload.next();
        FOREBAY_TRY(perform(file, operation, buffer));
        if (operation.kind == Operation::Kind::kCommit && !tell("c")) return Status::ok();
    }
}

// Bytes below the size at the last commit wait for the next commit. So all of them are in the log at that commit.
Status write_in_bulk(stage::StagedFile& file, std::uint64_t bytes) {
    FOREBAY_TRY(file.truncate(bytes));
    FOREBAY_TRY(file.commit());
    std::vector<std::byte> buffer(kBulkWrite);
    for (std::uint64_t offset = 0; offset < bytes; offset += buffer.size()) {
        buffer.resize(std::min(kBulkWrite, bytes - offset));
        fill(buffer, offset);
        FOREBAY_TRY(file.write(offset, buffer, stage::ByteClass::kRaw));
    }
    FOREBAY_TRY(file.commit());
    (void)tell("c");
    for (;;) ::pause();
}

Status live(const VictimOrder& order) {
    // Ends this process with its parent, which is to kill it.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return Status::from_errno(errno, "ask for a signal at the parent's death");
    ::signal(SIGPIPE, SIG_IGN);
    std::string options = Workload::connector_string(order.seed, order.nls);
    if (order.bulk_bytes > 0)
        options = fmt::format("nls={};strict=on;size={}", quote_connector_value(as_staging_device(order.nls)),
                              order.bulk_bytes + order.bulk_bytes / 4 + (std::uint64_t{64} << 20));
    for (const std::string& setting : order.settings) {
        FOREBAY_TRY(check_setting(setting));
        const std::size_t sign = setting.find('=');
        options += fmt::format(";{}={}", setting.substr(0, sign), quote_connector_value(setting.substr(sign + 1)));
    }
    options += fmt::format(";registry={}",
                           quote_connector_value(order.nls));   // commands of the user do not look there
    const LoadedOptions loaded = load_options(options, [](const char*) -> const char* { return nullptr; });
    if (!loaded.problems.empty()) return loaded.problems.front();
    if (!order.fault.empty()) return live_with_a_fault(order, loaded);
    const int descriptor = ::open(order.file.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return Status::from_errno(errno, "open " + order.file);
    const auto engine = stage::Engine::create(loaded);
    auto attached = engine->attach({io::adopt_posix_file(descriptor, io::complete_path(order.file)), true});
    if (!attached) return attached.status();
    stage::StagedFile& file = *attached.value().file;
    if (!file.staged()) return {Code::kInternal, order.file + " is not staged: " + attached.value().warning};
    return order.bulk_bytes > 0 ? write_in_bulk(file, order.bulk_bytes) : follow_workload(file, order.seed);
}

}   // namespace

std::vector<std::string> arguments_of(const VictimOrder& order) {
    std::vector<std::string> arguments{kVictimCommand, "--seed",  std::to_string(order.seed),
                                       "--nls",        order.nls, "--file",
                                       order.file,     "--bulk",  std::to_string(order.bulk_bytes)};
    for (const std::string& setting : order.settings) arguments.insert(arguments.end(), {"--option", setting});
    if (order.fault.empty()) return arguments;
    arguments.insert(arguments.end(),
                     {"--fault", order.fault, "--nth", std::to_string(order.nth), "--operations",
                      std::to_string(order.operations), "--spoil", std::to_string(static_cast<int>(order.spoil))});
    if (order.for_ever) arguments.push_back("--for-ever");
    if (order.close) arguments.push_back("--close");
    return arguments;
}

// The judgement relies on these options: the place of the log, staging of the file, and enough room for each commit.
Status check_setting(const std::string& setting) {
    const std::size_t sign = setting.find('=');
    if (sign == std::string::npos)
        return {Code::kInvalidArgument,
                fmt::format("-o {}: expected name=value, for example -o durability=node", setting)};
    const std::string name = setting.substr(0, sign);
    FOREBAY_TRY(check_option(name, setting.substr(sign + 1), "-o"));
    for (const std::string_view own : {"nls", "stage", "strict", "size"})
        if (name == own)
            return {Code::kInvalidArgument,
                    fmt::format("-o {}: torture sets {} itself{}", setting, name, name == "nls" ? ": see --nls" : "")};
    return Status::ok();
}

void add_victim(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand(kVictimCommand, "Write to a file until torture kills this process");
    command->group("");   // internal: no help lists it
    auto order = std::make_shared<VictimOrder>();
    command->add_option("--seed", order->seed)->required();
    command->add_option("--nls", order->nls)->required();
    command->add_option("--file", order->file)->required();
    command->add_option("--bulk", order->bulk_bytes);
    command->add_option("--option", order->settings)->allow_extra_args(false);
    command->add_option("--fault", order->fault);
    command->add_option("--nth", order->nth);
    command->add_option("--operations", order->operations);
    command->add_option("--spoil", order->spoil);
    command->add_flag("--for-ever", order->for_ever);
    command->add_flag("--close", order->close);
    command->callback([order, &exit_status] {
        const Status ended = live(*order);
        if (!ended) fmt::print(stderr, "{}\n", ended.message());
        exit_status = ended && !order->fault.empty() ? cli::kExitFine : cli::kExitProblem;
    });
}

}   // namespace forebay::torture

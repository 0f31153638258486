// `forebay cache verify`: compares cached bytes with their checksums and with the files.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/options.h"
#include "cli/cache_commands.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"
#include "cli/shown.h"
#include "io/open_existing.h"
#include "io/posix_file.h"

namespace forebay::cli {

namespace {

using nlohmann::ordered_json;

struct CacheVerifyRequest {
    std::vector<std::string> names;
    std::string nls;
    bool json = false, against_source = false, all_users = false;
};

struct Checked {
    cache::ReplicaView replica;
    cache::Replica::Verified bytes;
    std::uint64_t units_left = 0;   // units that a process was storing
    bool compared = false;          // compared with the file
    std::string note;               // why the file was not compared
    bool unknown = false;           // a part was unreadable
};

std::unique_ptr<io::File> open_source(const Survey& asked, Checked& checked) {
    std::string path = checked.replica.path;
    for (const recover::Wanted& file : asked.files)
        if (cache::replica_name(file.identity) == checked.replica.name) path = file.path;
    if (path.empty()) {
        checked.note = "its path is not known: name the file";
        checked.unknown = true;
        return nullptr;
    }
    const int descriptor = io::open_patiently(path, O_RDONLY);
    if (descriptor < 0) {
        checked.note = Status::from_errno(errno, "open " + path).message();
        checked.unknown = true;
        return nullptr;
    }
    auto file = io::adopt_posix_file(descriptor, path);
    const auto identity = file->identity();
    const auto state = file->state(io::File::Ask::kTimes);
    if (identity && state && cache::version_of(identity.value(), state.value()) == checked.replica.source) return file;
    checked.note = identity && state ? "the file has changed since then: the next program that opens it reads it again"
                                     : "the file cannot be examined";
    checked.unknown = !identity || !state;
    return nullptr;
}

Checked check(cache::Store& store, const cache::ReplicaView& view, const Survey& asked, bool against_source) {
    Checked checked;
    checked.replica = view;
    const auto replica = store.existing(view.name);
    if (!replica) {
        checked.note = replica.status().message();
        checked.unknown = replica.status().code() != Code::kNotFound;
        return checked;
    }
    std::unique_ptr<io::File> source;
    if (against_source) source = open_source(asked, checked);
    checked.compared = source != nullptr;
    for (std::uint64_t unit = 0; unit < replica.value()->units(); ++unit) {
        if (replica.value()->present_blocks(unit) == 0) continue;
        const auto claim = cache::Replica::claim(replica.value(), unit);
        if (!claim) {
            ++checked.units_left;
            continue;
        }
        const auto found = replica.value()->verify(*claim, source.get());
        if (!found) {
            checked.note = found.status().message();
            checked.unknown = true;
            break;
        }
        checked.bytes.checked_bytes += found.value().checked_bytes;
        checked.bytes.damaged_bytes += found.value().damaged_bytes;
        checked.bytes.different_bytes += found.value().different_bytes;
    }
    return checked;
}

void print_checked(const std::vector<Checked>& all, const std::vector<std::string>& unseen, bool named) {
    for (const Checked& one : all) {
        fmt::print("{}\n  checked: {}{}\n", source_name(one.replica), format_size(one.bytes.checked_bytes),
                   one.compared ? ", and compared with the file" : "");
        if (one.bytes.damaged_bytes > 0)
            fmt::print("  DAMAGED, and removed: {}\n", format_size(one.bytes.damaged_bytes));
        if (one.bytes.different_bytes > 0)
            fmt::print("  DIFFERENT FROM THE FILE, and removed: {}\n", format_size(one.bytes.different_bytes));
        if (one.units_left > 0)
            fmt::print("  not checked: {} units of {} each, since a process is storing them now\n", one.units_left,
                       format_size(cache::kUnitBytes));
        if (!one.note.empty()) fmt::print("  {}\n", printable(one.note));
    }
    if (all.empty() && !named) fmt::print("Nothing is cached.\n");
    fmt::print("{}", unseen_as_text(unseen));
}

ordered_json checked_as_json(const std::vector<Checked>& all, const std::vector<std::string>& unseen) {
    ordered_json result{{"files", ordered_json::array()}, {"unseen", unseen}};
    for (const Checked& one : all)
        result["files"].push_back({{"path", one.replica.path},
                                   {"device", one.replica.source.identity.device},
                                   {"inode", one.replica.source.identity.inode},
                                   {"checked_bytes", one.bytes.checked_bytes},
                                   {"damaged_bytes", one.bytes.damaged_bytes},
                                   {"different_bytes", one.bytes.different_bytes},
                                   {"units_left", one.units_left},
                                   {"compared", one.compared},
                                   {"note", one.note}});
    return result;
}

int verify(const CacheVerifyRequest& request) {
    const auto asked = survey({request.names, request.nls, request.all_users});
    if (!asked) return complain_of_cache("verify", asked.status());
    std::vector<std::string> unseen = asked.value().unseen;
    std::vector<Checked> all;
    const Status looked = for_each_cache(asked.value(), unseen, [&](FoundCache found) {
        const auto store = open_store(std::move(found));
        FOREBAY_TRY(store.status());
        for (const cache::ReplicaView& view : store.value()->list())
            if (is_asked(asked.value(), view))
                all.push_back(check(*store.value(), view, asked.value(), request.against_source));
        return Status::ok();
    });
    if (!looked) return complain_of_cache("verify", looked);
    std::vector<cache::ReplicaView> views;
    for (const Checked& one : all) views.push_back(one.replica);
    const bool known = tell_uncached("verify", uncached(asked.value(), views), request.json);
    if (request.json)
        fmt::print("{}\n", checked_as_json(all, unseen).dump(2, ' ', false, ordered_json::error_handler_t::replace));
    else print_checked(all, unseen, asked.value().names_files());
    if (!known) return kExitUsage;
    const bool well = std::ranges::all_of(all, [](const Checked& one) {
        return one.bytes.damaged_bytes + one.bytes.different_bytes == 0;
    });
    const bool unknown = std::ranges::any_of(all, [](const Checked& one) { return one.unknown; });
    return well && unknown ? kExitUnknown : exit_status(well, unseen);
}

}   // namespace

void add_cache_verify(CLI::App& cache, int& exit_status) {
    CLI::App* command = cache.add_subcommand(
        "verify", "Compare cached bytes with their checksums, and remove the bytes that differ");
    auto request = std::make_shared<CacheVerifyRequest>();
    command->add_option("WHAT", request->names,
                        "Files, or staging areas; default: all areas of this user on this node");
    command->add_flag("--against-source", request->against_source, "Also compare with the files");
    command->add_flag("--all-users", request->all_users, "The read caches of all users (root only)");
    command->add_option("--nls", request->nls, "Also search this staging area")->type_name("DIR");
    command->add_flag("--json", request->json, "Print JSON");
    command->footer(
        exit_statuses({{"0", "all cached bytes are correct"},
                       {"1", "some were not, and are removed"},
                       {"2", "the command line or an option is wrong, or a file or staging area does not exist"},
                       {"3", "a directory could not be read, so more cached files may exist"}}));
    command->callback([request, &exit_status] { exit_status = verify(*request); });
}

}   // namespace forebay::cli

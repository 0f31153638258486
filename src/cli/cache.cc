// `forebay cache`: shows the content of the read cache, and changes it.
#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Option.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/options.h"
#include "cache/further_devices.h"
#include "cli/cache_commands.h"
#include "cli/cache_view.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/duration.h"
#include "cli/shown.h"

namespace forebay::cli {

namespace {

using nlohmann::ordered_json;

struct CacheRequest {
    std::vector<std::string> names;
    std::string nls, older_than;
    bool json = false, all = false, all_users = false;
};

void print_json(const ordered_json& object) {
    fmt::print("{}\n", object.dump(2, ' ', false, ordered_json::error_handler_t::replace));
}

void add_common(CLI::App* command, const std::shared_ptr<CacheRequest>& request) {
    command->add_option("--nls", request->nls, "Also search this staging area")->type_name("DIR");
    command->add_flag("--json", request->json, "Print JSON");
}

void add_all_users(CLI::App* command, const std::shared_ptr<CacheRequest>& request) {
    command->add_flag("--all-users", request->all_users, "The read caches of all users (root only)");
}

int list(const CacheRequest& request) {
    const auto asked = survey({request.names, request.nls, request.all_users});
    if (!asked) return complain_of_cache("list", asked.status());
    std::vector<std::string> unseen = asked.value().unseen;
    std::vector<CacheView> caches;
    const Status looked = for_each_cache(asked.value(), unseen, [&](FoundCache found) {
        CacheView view = view_of(*found.folder);
        std::erase_if(view.replicas, [&](const auto& replica) { return !is_asked(asked.value(), replica); });
        caches.push_back(std::move(view));
        return Status::ok();
    });
    if (!looked) return complain_of_cache("list", looked);
    std::vector<cache::ReplicaView> all;
    for (const CacheView& view : caches) all.insert(all.end(), view.replicas.begin(), view.replicas.end());
    const bool well = tell_uncached("list", uncached(asked.value(), all), request.json);
    if (request.json) {
        ordered_json result{{"caches", ordered_json::array()}, {"unseen", unseen}};
        for (const CacheView& view : caches) result["caches"].push_back(cache_as_json(view));
        print_json(result);
    } else {
        for (const CacheView& view : caches) fmt::print("{}", cache_as_text(view));
        if (caches.empty() && unseen.empty()) fmt::print("No staging area here has a read cache.\n");
        fmt::print("{}", unseen_as_text(unseen));
    }
    return well ? exit_status(true, unseen) : kExitUsage;
}

struct Emptied {
    cache::ReplicaView replica;
    cache::Store::Evicted evicted;
    Status status;
};

// `left` lists the replicas that remain after the store was opened.
Emptied empty(cache::Store& store, const cache::ReplicaView& view, const std::vector<cache::ReplicaView>& left) {
    if (std::ranges::none_of(left, [&](const cache::ReplicaView& one) { return one.name == view.name; }))
        return {view, {view.bytes(), 0, true}, Status::ok()};
    const auto evicted = store.evict_one(view.name);
    return {view, evicted ? evicted.value() : cache::Store::Evicted{}, evicted.status()};
}

std::string emptied_as_text(const Emptied& one) {
    const std::string name = source_name(one.replica);
    if (!one.status) return fmt::format("{}\n  NOT EVICTED: {}\n", name, one.status.message());
    if (one.evicted.removed) return fmt::format("{}\n  evicted: {}\n", name, format_size(one.evicted.bytes));
    std::string left;
    if (one.evicted.units_left > 0)
        left = fmt::format("; {} units of {} each stay, since a process is storing them now", one.evicted.units_left,
                           format_size(cache::kUnitBytes));
    return fmt::format("{}\n  in use; evicted: {}{}\n", name, format_size(one.evicted.bytes), left);
}

ordered_json emptied_as_json(const Emptied& one) {
    return {{"path", one.replica.path},
            {"device", one.replica.source.identity.device},
            {"inode", one.replica.source.identity.inode},
            {"evicted_bytes", one.evicted.bytes},
            {"removed", one.evicted.removed},
            {"units_left", one.evicted.units_left},
            {"message", one.status.message()}};
}

int evict(const CacheRequest& request) {
    const auto usage = [](const char* what) {
        fmt::print(stderr, "forebay cache evict: {}\n", what);
        return kExitUsage;
    };
    const std::uint64_t older_ns = parse_duration(request.older_than).value_or(0);
    const auto asked = survey({request.names, request.nls, request.all_users});
    if (!asked) return complain_of_cache("evict", asked.status());
    const bool by_age = !request.older_than.empty();
    if (asked.value().names_files() && (request.all || by_age)) return usage("name files, or --all, or --older-than");
    if (!asked.value().names_files() && !request.all && !by_age) return usage("name files, or --all, or --older-than");
    std::vector<std::string> unseen = asked.value().unseen;
    std::vector<Emptied> emptied;
    std::uint64_t orphans = 0;
    const std::uint64_t now_ns = realtime_ns();
    const Status done = for_each_cache(asked.value(), unseen, [&](FoundCache found) {
        if (request.all) orphans += cache::remove_orphaned_parts(*found.folder);
        // This list comes first, because opening the store removes leftovers.
        const auto views = cache::list_replicas(*found.folder);
        const auto store = open_store(std::move(found));
        FOREBAY_TRY(store.status());
        const auto left = store.value()->list();
        for (const cache::ReplicaView& view : views) {
            if (!is_asked(asked.value(), view)) continue;
            if (by_age && (view.pinned || view.used_ns + older_ns > now_ns)) continue;
            emptied.push_back(empty(*store.value(), view, left));
        }
        return Status::ok();
    });
    if (!done) return complain_of_cache("evict", done);
    std::vector<cache::ReplicaView> all;
    std::uint64_t bytes = 0;
    bool well = true;
    for (const Emptied& one : emptied) {
        all.push_back(one.replica);
        bytes += one.evicted.bytes;
        well = well && one.status.is_ok() && one.evicted.units_left == 0;
    }
    const bool known = tell_uncached("evict", uncached(asked.value(), all), request.json);
    if (request.json) {
        ordered_json result{{"evicted_bytes", bytes},
                            {"orphaned_parts", orphans},
                            {"files", ordered_json::array()},
                            {"unseen", unseen}};
        for (const Emptied& one : emptied) result["files"].push_back(emptied_as_json(one));
        print_json(result);
    } else {
        for (const Emptied& one : emptied) fmt::print("{}", emptied_as_text(one));
        if (orphans > 0)
            fmt::print("Removed {} {} of caches that are gone.\n", orphans, orphans == 1 ? "file" : "files");
        if (emptied.empty() && orphans == 0 && !asked.value().names_files()) fmt::print("Nothing to evict.\n");
        fmt::print("{}", unseen_as_text(unseen));
    }
    return known ? exit_status(well, unseen) : kExitUsage;
}

int set_pinned(const CacheRequest& request, bool pinned) {
    const char* const command = pinned ? "pin" : "unpin";
    const auto asked = survey({.names = request.names, .nls = request.nls, .files_only = true});
    if (!asked) return complain_of_cache(command, asked.status());
    std::vector<std::string> unseen = asked.value().unseen;
    std::vector<cache::ReplicaView> done, all;
    std::vector<std::string> failed;
    const Status looked = for_each_cache(asked.value(), unseen, [&](FoundCache found) {
        const auto store = open_store(std::move(found));
        FOREBAY_TRY(store.status());
        for (const cache::ReplicaView& view : store.value()->list()) {
            if (!is_asked(asked.value(), view)) continue;
            all.push_back(view);
            const auto replica = store.value()->existing(view.name);
            if (replica) {
                replica.value()->use().set_pinned(pinned);
                done.push_back(view);
            } else {
                failed.push_back(fmt::format("{}: {}", source_name(view), replica.status().message()));
            }
        }
        return Status::ok();
    });
    if (!looked) return complain_of_cache(command, looked);
    const Uncached none = uncached(asked.value(), all);
    const bool known = tell_uncached(command, none, request.json);
    if (request.json) {
        ordered_json result{
            {"pinned", pinned}, {"files", ordered_json::array()}, {"failed", failed}, {"unseen", unseen}};
        for (const cache::ReplicaView& view : done) result["files"].push_back(view.path);
        print_json(result);
    } else {
        for (const cache::ReplicaView& view : done)
            fmt::print("{}\n  {}\n", source_name(view), pinned ? "pinned" : "not pinned");
        for (const std::string& one : failed) fmt::print("FAILED: {}\n", one);
        fmt::print("{}", unseen_as_text(unseen));
    }
    if (!known) return kExitUsage;
    return exit_status(failed.empty() && none.there.empty(), unseen);
}

}   // namespace

int complain_of_cache(const std::string& command, const Status& failure) {
    fmt::print(stderr, "forebay cache {}: {}\n", command, failure.message());
    return exit_status(failure);
}

bool tell_uncached(const std::string& command, const Uncached& none, bool quiet) {
    for (const std::string& path : none.missing)
        fmt::print(stderr, "forebay cache {}: {}: no such file or directory\n", command, printable(path));
    if (!quiet)
        for (const std::string& path : none.there) fmt::print("Nothing of {} is cached.\n", printable(path));
    return none.missing.empty();
}

void add_cache_list(CLI::App& cache, int& exit_status) {
    CLI::App* command = cache.add_subcommand("list", "List the cached files");
    auto request = std::make_shared<CacheRequest>();
    command->add_option("WHAT", request->names,
                        "Files, or staging areas; default: all areas of this user on this node");
    add_all_users(command, request);
    add_common(command, request);
    command->footer(
        exit_statuses({{"0", "shown"},
                       {"2", "the command line or an option is wrong, or a file or staging area does not exist"},
                       {"3", "a directory could not be read, so more cached files may exist"}}));
    command->callback([request, &exit_status] { exit_status = list(*request); });
}

void add_cache_evict(CLI::App& cache, int& exit_status) {
    CLI::App* command = cache.add_subcommand("evict", "Remove files from the read cache; the files themselves stay");
    auto request = std::make_shared<CacheRequest>();
    command->add_option("WHAT", request->names, "Files, also pinned ones; or staging areas");
    CLI::Option* const all = command->add_flag("--all", request->all, "All files, also pinned ones");
    command
        ->add_option("--older-than", request->older_than,
                     "Files that no process has opened for this time: 90s, 15m, 12h, 7d; pinned files stay")
        ->type_name("TIME")
        ->check(why_no_duration)
        ->excludes(all);
    add_all_users(command, request);
    add_common(command, request);
    command->footer(
        exit_statuses({{"0", "done, or there was nothing to do"},
                       {"1", "part of a file stayed, since a process is storing it"},
                       {"2", "the command line or an option is wrong, or a file or staging area does not exist"},
                       {"3", "a directory could not be read, so more cached files may exist"}}));
    command->callback([request, &exit_status] { exit_status = evict(*request); });
}

void add_cache_pin(CLI::App& cache, int& exit_status) {
    for (const bool pinned : {true, false}) {
        CLI::App* command = cache.add_subcommand(pinned ? "pin" : "unpin",
                                                 pinned ? "Keep files in the cache, also when it is full"
                                                        : "Let the cache remove files when it is full");
        auto request = std::make_shared<CacheRequest>();
        command->add_option("FILE", request->names, "The files")->required();
        add_common(command, request);
        command->footer(
            exit_statuses({{"0", "done"},
                           {"1", "a file is not cached"},
                           {"2", "the command line or an option is wrong, or a file or staging area does not exist"},
                           {"3", "a directory could not be read, so more cached files may exist"}}));
        command->callback([request, pinned, &exit_status] { exit_status = set_pinned(*request, pinned); });
    }
}

void add_cache(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("cache", "The read cache: list, prefetch, evict, pin, unpin, verify");
    command->require_subcommand(1);
    command->footer("Help on one of these: forebay help cache prefetch\n");
    add_cache_list(*command, exit_status);
    add_cache_prefetch(*command, exit_status);
    add_cache_evict(*command, exit_status);
    add_cache_pin(*command, exit_status);
    add_cache_verify(*command, exit_status);
}

}   // namespace forebay::cli

// `forebay doctor`: checks if a program started here would be staged, and explains why not.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "area/staging_area.h"
#include "cli/build_facts.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/file_view.h"
#include "cli/hdf5_choice.h"
#include "cli/launch.h"
#include "cli/loaded_library.h"
#include "cli/plugin_probe.h"
#include "cli/staging_areas.h"
#include "cli/write_speed.h"
#include "ledger/ledger.h"

namespace forebay::cli {

namespace {

using nlohmann::ordered_json;

struct DoctorRequest {
    bool json = false;
    std::string target;
    std::string library;
    std::vector<std::string> program;
    std::shared_ptr<std::vector<std::string>> settings = std::make_shared<std::vector<std::string>>();
};

// The findings as `--json` prints them, from which the text is made. A problem prevents staging; a note does not.
class Examination {
  public:
    explicit Examination(const DoctorRequest& request) : request_(request) {}

    ordered_json conduct() {
        report_["forebay"]["version"] = kVersion;
        // The variables of `forebay run`, so that the options equal those of a program started by it.
        Result<Variables> variables = launch_variables(*request_.settings, "");
        if (!variables) problem(variables.status().message());
        const Variables added = variables ? variables.value() : Variables{};
        for (std::string& notice : notices_with(added)) note(std::move(notice));   // programs print them once
        LoadedOptions loaded = options_with(added);
        area::fit_to_staging_area(loaded);
        examine_plugin();
        examine_plugin_path();
        examine_options(loaded);
        examine_staging(loaded);
        if (!request_.target.empty()) examine_target();
        examine_leftovers();
        report_["problems"] = problems_;
        report_["notes"] = notes_;
        return report_;
    }

  private:
    void problem(std::string what) { problems_.push_back(std::move(what)); }
    void note(std::string what) { notes_.push_back(std::move(what)); }

    void examine_plugin() {
        ordered_json hdf5{{"prefix", nullptr},
                          {"version", nullptr},
                          {"parallel", false},
                          {"library", nullptr},
                          {"loads", false},
                          {"threadsafe", false},
                          {"passed_over", ordered_json::array()}};
        ordered_json plugin{{"file", nullptr}, {"loads", false}, {"registered", false}, {"message", ""}};
        const Result<std::string> folder = plugin_folder();
        const std::string file = folder ? plugin_file(folder.value()).value_or("") : "";
        const Result<PluginProbe> probe = folder ? probe_with_a_library(file, hdf5)
                                                 : Result<PluginProbe>(folder.status());
        if (folder) plugin["file"] = file;
        if (probe) {
            describe(probe.value(), hdf5, plugin);
        } else {
            plugin["message"] = probe.status().message();
            problem(probe.status().message());
        }
        report_["hdf5"] = std::move(hdf5);
        report_["plugin_path"] = folder ? ordered_json(folder.value()) : ordered_json();
        report_["plugin"] = std::move(plugin);
        const std::filesystem::path cache_vol = folder ? std::filesystem::path(cache_vol_folder(folder.value())) /
                                                             kCacheVolPlugin
                                                       : std::filesystem::path();
        std::error_code error;
        report_["cache_vol_plugin"] = std::filesystem::is_regular_file(cache_vol, error)
                                          ? ordered_json(cache_vol.string())
                                          : ordered_json();
    }

    // Probes with the requested library, which must load, or else with a library of this user.
    Result<PluginProbe> probe_with_a_library(const std::string& plugin, ordered_json& hdf5) {
        if (!request_.library.empty()) {
            auto probe = probe_plugin(plugin, request_.library);
            if (probe && !probe.value().library_loads)
                problem(fmt::format("the HDF5 library {} does not load, so the plugin was loaded without it: {}",
                                    request_.library, probe.value().library_message));
            return probe;
        }
        auto choice = choose_hdf5(plugin);
        FOREBAY_TRY(choice.status());
        const PluginProbe& probe = choice.value().probe;
        std::string reasons;
        for (const PassedOver& one : choice.value().passed_over) {
            hdf5["passed_over"].push_back({{"library", one.library}, {"reason", one.reason}});
            reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", one.library, one.reason);
            if (!probe.library_loads && one.too_old) problem(fmt::format("{}: {}", one.library, one.reason));
        }
        if (!probe.library_loads)
            note(fmt::format(
                "no HDF5 was found to load the plugin with ({}); forebay doctor -- PROGRAM uses the one that a "
                "program loads",
                reasons));
        else if (!reasons.empty())
            note(fmt::format("the plugin was loaded with {}, since others are not usable ({})", probe.library,
                             reasons));
        return std::move(choice).value().probe;
    }

    // Examines the plugin that HDF5 finds in a program started from this shell without `forebay run`.
    void examine_plugin_path() {
        const char* const connector = std::getenv("HDF5_VOL_CONNECTOR");
        const char* const path = std::getenv("HDF5_PLUGIN_PATH");
        const Result<std::string> own = plugin_folder();
        const std::string_view name = connector != nullptr ? std::string_view(connector) : std::string_view();
        const bool cache_vol = names_cache_vol(name);
        if ((name.substr(0, name.find_first_of(" \t")) != "forebay" && !cache_vol) || !own) return;
        const std::string wanted = cache_vol ? cache_vol_folder(own.value()) : own.value();
        const std::string set = path != nullptr ? fmt::format("HDF5_PLUGIN_PATH={}", path)
                                                : std::string("HDF5_PLUGIN_PATH is not set, and");
        constexpr std::string_view kRemedy = "eval \"$(forebay env)\"";
        std::string_view rest = path != nullptr ? std::string_view(path) : std::string_view();
        while (!rest.empty()) {
            const std::string folder(rest.substr(0, rest.find(':')));
            rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
            std::error_code error;
            if (folder.empty()) continue;
            if (!std::filesystem::is_directory(folder, error)) {
                note(fmt::format("HDF5_PLUGIN_PATH names {}, which is not a directory", folder));
                continue;
            }
            const bool has_one = cache_vol ? std::filesystem::exists(folder + "/" + kCacheVolPlugin, error)
                                           : plugin_file(folder).has_value();
            if (!has_one) continue;
            if (!std::filesystem::equivalent(folder, wanted, error))
                problem(fmt::format("{}: HDF5 finds the {} in {} first, not that of this command in {}: {}", set,
                                    cache_vol ? "Cache VOL" : "forebay", folder, wanted, kRemedy));
            return;
        }
        problem(
            fmt::format("HDF5_VOL_CONNECTOR is set to {}, but {} does not name {}: programs do not find the plugin: {}",
                        cache_vol ? "cache_ext" : "forebay", set, wanted, kRemedy));
    }

    void describe(const PluginProbe& found, ordered_json& hdf5, ordered_json& plugin) {
        if (!found.library.empty()) {
            hdf5["library"] = found.library;
            hdf5["prefix"] = found.library == kHdf5Library ? std::string(kHdf5Prefix) : prefix_of(found.library);
        }
        hdf5["loads"] = found.library_loads;
        if (found.library_loads) {
            hdf5["version"] = found.library_version;
            hdf5["parallel"] = found.library_parallel;
            hdf5["threadsafe"] = found.library_threadsafe;
        }
        plugin["loads"] = found.plugin_loads;
        plugin["registered"] = found.registered;
        plugin["message"] = found.plugin_message;
        hdf5["demands_signed_plugins"] = found.demands_signature;
        // An old library explains the failure completely.
        if (found.library_loads && is_older_than_1_14(found.library_version))
            return problem(fmt::format("HDF5 {} is too old: forebay needs 1.14.0 or later", found.library_version));
        if (found.demands_signature)
            return problem(fmt::format(
                "{} loads only signed plugins (HDF5_REQUIRE_SIGNED_PLUGINS), and does not trust the plugin {}. "
                "Sign it with h5sign and a key whose public half is in HDF5_PLUGIN_KEYSTORE, or use another HDF5",
                found.library, plugin["file"].get<std::string>()));
        if (!found.plugin_loads)
            problem(fmt::format("the plugin {} does not load: {}", plugin["file"].get<std::string>(),
                                found.plugin_message));
    }

    static std::string prefix_of(const std::string& library) {
        return std::filesystem::path(library).parent_path().parent_path().string();
    }

    void examine_options(const LoadedOptions& loaded) {
        for (const Status& bad : loaded.problems) problem(bad.message());
        for (const OptionSpec& spec : option_table())
            report_["options"][std::string(spec.name)] = {{"value", option_text(loaded.options, spec.name)},
                                                          {"source", loaded.origin_of(spec.name)}};
        if (!loaded.options.stage)
            problem(fmt::format("option stage=off ({}): forebay stages no file", loaded.origin_of("stage")));
        if (loaded.options.under_vol != "0" && loaded.options.under_vol != "native")
            problem(fmt::format("under_vol={} of the connector string: forebay stages no file above another connector",
                                loaded.options.under_vol));
    }

    void examine_staging(const LoadedOptions& loaded) {
        ordered_json staging{
            {"nls", loaded.options.nls}, {"source", loaded.origin_of("nls")}, {"usable", false}, {"message", ""}};
        describe_directory(loaded.options.nls, staging);
        if (const Result<area::StagingArea> area = area::open_staging_area(loaded)) {
            staging["usable"] = true;
            describe(area.value(), loaded, staging);
        } else {
            staging["message"] = area.status().message();
            problem(area.status().message());
        }
        staging["further_devices"] = ordered_json::array();
        for (const StagingDevice& device : loaded.options.more_devices)
            staging["further_devices"].push_back(examine_device(device, loaded));
        report_["staging"] = std::move(staging);
    }

    // A device that holds bytes of the read cache only. A program is staged without it.
    ordered_json examine_device(const StagingDevice& device, const LoadedOptions& loaded) {
        ordered_json found{{"path", device.path}, {"usable", false}, {"message", ""}, {"size", device.bytes}};
        if (device.bytes == 0) found["size"] = loaded.options.read_cache_size;
        describe_directory(device.path, found);
        const Result<area::StagingArea> area = area::open_further_area(loaded.options, device.path);
        if (!area) {
            found["message"] = area.status().message();
            note(area.status().message() + ": the read cache does not use it");
            return found;
        }
        found["usable"] = true;
        found["root"] = area.value().root;
        found["file_system"] = area.value().file_system;
        found["memory"] = area.value().is_memory;
        found["free_bytes"] = area.value().free_bytes;
        found["device_bytes"] = area.value().device_bytes;
        if (area.value().device_bytes != 0 && device.bytes > area.value().device_bytes)
            note(fmt::format("option nls: {} for {}, whose device has {}", format_size(device.bytes), device.path,
                             format_size(area.value().device_bytes)));
        return found;
    }

    void describe(const area::StagingArea& area, const LoadedOptions& loaded, ordered_json& staging) {
        staging["root"] = area.root;
        staging["file_system"] = area.file_system;
        staging["memory"] = area.is_memory;
        staging["free_bytes"] = area.free_bytes;
        staging["device_bytes"] = area.device_bytes;
        if (area.device_bytes != 0 && area.free_bytes < loaded.options.size)
            note(fmt::format(
                "{} free in {}, less than size={} ({}): when that is used, writes wait for the drain or bypass the log",
                format_size(area.free_bytes), loaded.options.nls, option_text(loaded.options, "size"),
                loaded.origin_of("size")));
        if (area.is_memory)
            note(fmt::format("{} is in memory: staged bytes count as memory of the job", loaded.options.nls));
        measure(area.root, staging);
    }

    void describe_directory(const std::string& path, ordered_json& into) {
        struct stat facts{};
        if (::lstat(path.c_str(), &facts) != 0) return;
        into["owner"] = facts.st_uid;
        into["mode"] = fmt::format("{:04o}", facts.st_mode & 07777);
        into["symbolic_link"] = S_ISLNK(facts.st_mode);
        if (S_ISDIR(facts.st_mode) && (facts.st_mode & S_IWOTH) != 0 && (facts.st_mode & S_ISVTX) == 0)
            note(fmt::format("{} is writable by all and not sticky: other users could replace staged files", path));
    }

    void measure(const std::string& directory, ordered_json& into) {
        const Result<WriteSpeed> speed = measure_write_speed(directory);
        if (!speed) return note(fmt::format("cannot measure the write speed: {}", speed.status().message()));
        into["write_bytes_per_s"] = speed.value().bytes_per_s;
        into["durable_bytes_per_s"] = speed.value().durable_bytes_per_s;
    }

    void examine_target() {
        ordered_json target = ordered_json::object();
        target["directory"] = request_.target;
        struct stat facts{};
        const bool found = ::stat(request_.target.c_str(), &facts) == 0;
        if (!found || !S_ISDIR(facts.st_mode) || ::eaccess(request_.target.c_str(), W_OK | X_OK) != 0) {
            problem(found && !S_ISDIR(facts.st_mode)
                        ? fmt::format("--target {}: not a directory", request_.target)
                        : Status::from_errno(errno, "--target " + request_.target).message());
            report_["target"] = std::move(target);
            return;
        }
        if (const auto kind = io::file_system_of(request_.target)) {
            target["file_system"] = kind.value().name;
            target["network"] = kind.value().network;
            measure(request_.target, target);
        } else {
            note(kind.status().message());
        }
        const ordered_json& staging = report_["staging"];
        if (target.contains("write_bytes_per_s") && staging.contains("write_bytes_per_s")) {
            const double ratio = staging["write_bytes_per_s"].get<double>() / target["write_bytes_per_s"].get<double>();
            target["staging_ratio"] = ratio;
            if (ratio < 1)
                note(fmt::format("the staging area is slower than {} ({:.2f} of its speed): staging gains little",
                                 request_.target, ratio));
        }
        report_["target"] = std::move(target);
    }

    void examine_leftovers() {
        const auto asked = survey({});
        if (!asked) return;   // an invalid option is reported already
        std::uint64_t dead = 0, bytes = 0;
        std::set<std::string> processes;
        for (const UserAreas& user : asked.value().users)
            for (const auto& area : user.areas) {
                const ledger::LedgerScan scan = ledger::scan_ledgers(*area);
                for (const FileView& file : files_of(scan)) {
                    if (file.state != FileState::kLeftBehind) continue;
                    ++dead;
                    for (const FileMember& member : file.members) processes.insert(member.process->directory);
                    bytes += file.pending;
                }
                for (const std::string& skipped : scan.skipped) problem("not read: " + skipped);
            }
        report_["left_behind"] = {{"processes", processes.size()}, {"files", dead}, {"bytes", bytes}};
        if (dead > 0)
            problem(fmt::format("a process died and left {} of {} in its log; "
                                "forebay status shows more, forebay recover brings the files to their last flush",
                                bytes > 0 ? format_size(bytes) : "something",
                                dead == 1 ? "a file" : fmt::format("{} files", dead)));
        for (const std::string& unseen : asked.value().unseen) note("not read: " + unseen);
    }

    const DoctorRequest& request_;
    ordered_json report_;
    std::vector<std::string> problems_, notes_;
};

std::string text_of(const ordered_json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
    return value.is_null() ? "none" : value.dump();
}

std::string speed_of(const ordered_json& section) {
    if (!section.contains("write_bytes_per_s")) return {};
    return fmt::format("{}/s, until it is on the device {}/s",
                       format_size(static_cast<std::uint64_t>(section["write_bytes_per_s"].get<double>())),
                       format_size(static_cast<std::uint64_t>(section["durable_bytes_per_s"].get<double>())));
}

void print_options(const ordered_json& options) {
    bool any = false;
    for (const auto& [name, option] : options.items()) {
        if (option["source"] == "default") continue;
        if (!any) fmt::print("options\n");
        any = true;
        fmt::print("  {:<22} {:<20} {}\n", name, text_of(option["value"]), text_of(option["source"]));
    }
    fmt::print("{}\n", any ? "  others                 at their defaults (forebay options --all)"
                           : "options          all are at their defaults");
}

void print_examined(const ordered_json& report) {
    const auto row = [](std::string_view title, const std::string& what) {
        if (!what.empty()) fmt::print("{:<16} {}\n", title, what);
    };
    const auto& hdf5 = report["hdf5"];
    const bool has_hdf5 = hdf5["loads"].get<bool>();
    if (has_hdf5)
        row("HDF5",
            fmt::format("{}, {}{}", text_of(hdf5["version"]), hdf5["parallel"].get<bool>() ? "parallel" : "serial",
                        hdf5["threadsafe"].get<bool>() ? ", thread-safe" : ""));
    else row("HDF5", "none found");
    if (!hdf5["library"].is_null())
        row("  library", fmt::format("{}{}", text_of(hdf5["library"]), has_hdf5 ? "" : " (does not load)"));
    const auto& plugin = report["plugin"];
    row("plugin", text_of(report["plugin_path"]));
    row("  loads", plugin["registered"].get<bool>() ? "yes, by HDF5" : text_of(plugin["loads"]));
    row("  as Cache VOL", text_of(report["cache_vol_plugin"]));
    const auto& staging = report["staging"];
    row("staging area", fmt::format("{} (chosen by: {})", text_of(staging["nls"]), text_of(staging["source"])));
    row("  usable", text_of(staging["usable"]));
    if (staging["usable"].get<bool>()) {
        row("  file system", text_of(staging["file_system"]));
        const bool limited = staging["device_bytes"].get<std::uint64_t>() != 0;
        row("  free", limited ? fmt::format("{} of {}", format_size(staging["free_bytes"].get<std::uint64_t>()),
                                            format_size(staging["device_bytes"].get<std::uint64_t>()))
                              : "no limit of its own");
    }
    row("  write speed", speed_of(staging));
    for (const auto& device : staging["further_devices"]) {
        row("  read cache",
            fmt::format("{}, at most {}", text_of(device["path"]), format_size(device["size"].get<std::uint64_t>())));
        if (!device["usable"].get<bool>()) {
            row("    usable", "false");
            continue;
        }
        row("    free",
            fmt::format("{} of {} ({})", format_size(device["free_bytes"].get<std::uint64_t>()),
                        format_size(device["device_bytes"].get<std::uint64_t>()), text_of(device["file_system"])));
    }
    if (report.contains("target")) {
        const auto& target = report["target"];
        row("target", fmt::format("{} ({})", text_of(target["directory"]),
                                  text_of(target.value("file_system", ordered_json("unknown")))));
        row("  write speed", speed_of(target));
        if (target.contains("staging_ratio"))
            row("  staging is", fmt::format("{:.1f} times as fast", target["staging_ratio"].get<double>()));
    }
    print_options(report["options"]);
    for (const auto& note : report["notes"]) fmt::print("note: {}\n", text_of(note));
    for (const auto& problem : report["problems"]) fmt::print("problem: {}\n", text_of(problem));
    if (!report["problems"].empty()) return;
    fmt::print("{}\n", has_hdf5 ? "All is well: programs started with forebay run are staged."
                                : "No problem was found; the plugin was not tried with HDF5.");
}

int examine(DoctorRequest& request) {
    if (!request.program.empty()) {
        const auto libraries = hdf5_libraries_of(request.program);
        const auto complain = [](std::string_view what) { fmt::print(stderr, "forebay doctor: {}\n", what); };
        if (!libraries) {
            complain(libraries.status().message());
            return kExitUsage;
        }
        if (libraries.value().empty()) {
            complain(fmt::format("{} loaded no libhdf5: it does not use HDF5, or is linked with it statically",
                                 request.program.front()));
            return kExitProblem;
        }
        // The first usable library. Debian's PyTorch loads HDF5 1.10 along with OpenCV and never calls it.
        const auto will_do = [](const std::string& library) {
            const auto probe = probe_plugin("", library);
            return probe && probe.value().library_loads && !is_older_than_1_14(probe.value().library_version);
        };
        const auto found = std::ranges::find_if(libraries.value(), will_do);
        request.library = found != libraries.value().end() ? *found : libraries.value().front();
    }
    const ordered_json report = Examination(request).conduct();
    if (request.json) fmt::print("{}\n", report.dump(2, ' ', false, ordered_json::error_handler_t::replace));
    else print_examined(report);
    return report["problems"].empty() ? kExitFine : kExitProblem;
}

}   // namespace

void add_doctor(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("doctor", "Check whether forebay can stage programs here, and why not");
    auto request = std::make_shared<DoctorRequest>();
    command->add_flag("--json", request->json, "As one JSON object");
    command->add_option("--target", request->target, "Also measure this directory, where the files are")
        ->type_name("DIR");
    command
        ->add_option(
            "--library", request->library,
            "The libhdf5 to use, for example of a Python wheel; default: that of forebay's build, else of h5cc, "
            "the dynamic linker or python3's h5py")
        ->type_name("FILE");
    command->add_option("-o,--option", *request->settings, "Use this option, as forebay run does; may be repeated")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    add_nls_option(*command, request->settings);
    command->positionals_at_end();   // from the program's name on, every argument is the program's
    command
        ->add_option("PROGRAM", request->program,
                     "Run this program without forebay, and use the libhdf5 that it loads: doctor -- python x.py")
        ->excludes("--library");
    command->footer(exit_statuses({{"0", "forebay can stage programs here"},
                                   {"1", "it cannot, or a dead process left staged bytes; the report says which"},
                                   {"2", "the command line is wrong"}}));
    command->callback([request, &exit_status] { exit_status = examine(*request); });
}

}   // namespace forebay::cli

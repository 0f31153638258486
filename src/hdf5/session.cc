#include "hdf5/session.h"

#include <pthread.h>

#include <charconv>
#include <chrono>
#include <utility>
#include <vector>

#include "hdf5/drainer.h"
#include "hdf5/driver/mpi_driver.h"
#include "hdf5/driver/serial_driver.h"
#include "hdf5/host/guard.h"
#include "hdf5/open_files.h"
#include "hdf5/telling.h"
#include "hdf5/warning.h"
#include "server/job_peers.h"
#include "stage/fork.h"
#include "wire/cache_servers.h"

namespace forebay::hdf5 {

namespace {

LoadedOptions load(const std::string& text) { return read_text(text).loaded; }

hid_t register_connector(const std::string& name_or_value) {
    const QuietErrors quiet;
    H5VL_class_value_t value = 0;
    const char* const end = name_or_value.data() + name_or_value.size();
    const auto parsed = std::from_chars(name_or_value.data(), end, value);
    const hid_t id = parsed.ec == std::errc{} && parsed.ptr == end
                         ? host().H5VLregister_connector_by_value(value, H5P_DEFAULT)
                         : host().H5VLregister_connector_by_name(name_or_value.c_str(), H5P_DEFAULT);
    if (id < 0) host().H5Eclear2(H5E_DEFAULT);
    return id;
}

}   // namespace

// A forked child needs the locks; another thread may hold one if a call here takes longer than kTurn. A thread may also
// fork in such a call: a connector beneath may start a process as it is registered.
Session::Session() {
    static constexpr std::chrono::seconds kTurn{1};
    static thread_local bool has_state = false, has_end = false;
    constexpr auto unlock = [] {
        if (std::exchange(has_end, false)) get().end_mutex_.unlock();
        if (std::exchange(has_state, false)) get().mutex_.unlock();
    };
    (void)::pthread_atfork(
        [] {
            has_state = get().mutex_.try_lock_for(kTurn);
            has_end = get().end_mutex_.try_lock_for(kTurn);
        },
        unlock, unlock);
}

Session& Session::get() {
    static Immortal<Session> session;
    return *session;
}

const Route& Session::route(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (const auto known = routes_.find(text); known != routes_.end()) return known->second;
    return routes_.emplace(text, judge(text)).first->second;
}

Route Session::judge(const std::string& text) {
    Route route;
    const TextMeaning meaning = read_text(text);
    const LoadedOptions& loaded = meaning.loaded;
    route.writes = meaning.writes;
    route.reads = meaning.reads;
    route.fails_in_event_set = meaning.fails_in_event_set;
    for (const std::string& notice : meaning.notices)
        tell(loaded.options, notice, notice == meaning.notice_of_user ? Audience::kUser : Audience::kJob);
    const auto object_to = [&](const Status& problem, ledger::AsideReason reason) {
        if (loaded.options.strict) {
            route.refusal = route.refusal.is_ok()
                                ? problem
                                : Status(route.refusal.code(), route.refusal.message() + "; " + problem.message());
        } else {
            tell(loaded.options, problem.message() + "; files are opened natively", Audience::kNode);
            route.aside = reason;
        }
    };
    if (!loaded.options.stage) route.aside = ledger::AsideReason::kDisabled;
    for (const Status& problem : loaded.problems) object_to(problem, ledger::AsideReason::kBadOption);
    if (const Status found = find_under(loaded, route); !found) object_to(found, ledger::AsideReason::kBadOption);
    if (engine_ == nullptr) {
        make_engine(loaded, text);
        writes_ = route.writes;
        reads_ = route.reads;
    } else if (engine_text_ != text) {
        // Staged bytes of one file must be in one engine, so there cannot be a second one.
        LoadedOptions first = load(engine_text_);
        first.options.stage = loaded.options.stage;
        first.options.strict = loaded.options.strict;
        first.options.under_vol = loaded.options.under_vol;
        first.options.under_info = loaded.options.under_info;
        if (to_connector_string(first.options) != to_connector_string(loaded.options))
            warn_once("the options of the first file opened hold for the process: \"" + text + "\" does not change \"" +
                      engine_text_ + "\"");
    }
    return route;
}

// Without memory the session stays as it is.
void Session::make_engine(const LoadedOptions& loaded, std::string text) {
    std::shared_ptr<stage::Engine> engine = stage::Engine::create(loaded);
    engine->warn_by([](const std::string& message) { warn_once(message); });
    if (const std::string& servers = loaded.options.read_cache_servers; loaded.options.reads_from_job()) {
        const auto warn = [options = loaded.options](const std::string& message) {
            tell(options, message, Audience::kNode);
        };
        if (auto find = server::find_job_peers(loaded, look_up_variable, warn))
            engine->read_cache().find_peers_by(std::move(find));
    } else if (!servers.empty()) {
        auto asked = wire::CacheServers::create(servers, loaded.options.server_key);
        if (asked) engine->read_cache().find_peers_by(wire::find_peers(std::move(asked).value()));
        else warn_once("option read_cache_servers: " + asked.status().message());
    }
    {
        const std::lock_guard lock(end_mutex_);
        made_.push_back(engine);
    }
    if (engine_ != nullptr) inherited_.push_back(std::move(engine_));
    engine_ = std::move(engine);
    engine_text_ = std::move(text);
    engine_generation_ = stage::fork_generation();
}

std::shared_ptr<stage::Engine> Session::engine() {
    const std::lock_guard lock(mutex_);
    if (engine_ != nullptr && engine_generation_ != stage::fork_generation())
        make_engine(load(engine_text_), engine_text_);
    return engine_;
}

namespace {

// Set by H5Pset_fapl_cache, or by hand: a temporary property of the size of a bool.
bool list_says(hid_t list, const char* property) {
    const QuietErrors quiet;
    std::size_t size = 0;
    std::uint64_t value = 0;
    if (host().H5Pexist(list, property) <= 0) return false;
    if (host().H5Pget_size(list, property, &size) < 0 || size > sizeof value) return false;
    return host().H5Pget(list, property, &value) >= 0 && value != 0;
}

bool chosen(Switch by, hid_t list, bool writable) {
    if (by != Switch::kByList) return by == Switch::kOn;
    return list_says(list, writable ? "HDF5_CACHE_WR" : "HDF5_CACHE_RD");
}

}   // namespace

namespace {

void hint_at_reads(const Options& options, hid_t list) {
    if (!identity().names_configuration) return;
    {
        const QuietErrors quiet;
        if (host().H5Pexist(list, "HDF5_CACHE_RD") > 0) return;   // it says no
    }
    tell(options,
         "files that are opened for reading are not cached: HDF5_CACHE_WR is for files that are written; to cache "
         "reads, set HDF5_CACHE_RD=yes",
         Audience::kJob);
}

}   // namespace

bool Session::wants(const Route& route, hid_t file_access_list, bool writable) const {
    return chosen(writable ? route.writes : route.reads, file_access_list, writable);
}

bool Session::wants(hid_t file_access_list, bool writable) {
    Switch by, writes;
    std::shared_ptr<stage::Engine> engine;
    {
        const std::lock_guard lock(mutex_);
        writes = writes_;
        by = writable ? writes : reads_;
        engine = engine_;
    }
    const bool wanted = chosen(by, file_access_list, writable);
    if (!wanted && !writable && by == Switch::kByList && engine != nullptr && chosen(writes, file_access_list, true))
        hint_at_reads(engine->options().options, file_access_list);
    return wanted;
}

Status Session::find_under(const LoadedOptions& loaded, Route& route) {
    const std::string& name = loaded.options.under_vol;
    const std::string what = "under_vol=" + name + " of the connector string";
    Status problem;
    hid_t id = register_connector(name);
    H5VL_class_value_t value = -1;
    if (id >= 0) host().H5VLget_value(id, &value);
    if (id < 0) {
        problem = {Code::kInvalidArgument, what + ": HDF5 knows no such connector and finds no plugin for it"};
    } else if (value == identity().value) {
        problem = {Code::kInvalidArgument, what + ": the connector cannot be its own connector beneath"};
        host().H5VLclose(id);
        id = H5I_INVALID_HID;
    } else if (!loaded.options.under_info.empty()) {
        const QuietErrors quiet;
        if (host().H5VLconnector_str_to_info(loaded.options.under_info.c_str(), id, &route.under_info) < 0)
            problem = {Code::kInvalidArgument, "under_info={" + loaded.options.under_info +
                                                   "} of the connector string: connector " + name +
                                                   " does not understand it"};
    }
    if (id < 0) {
        id = register_connector("0");
        value = H5_VOL_NATIVE;
    }
    if (value != H5_VOL_NATIVE && problem.is_ok()) route.aside = ledger::AsideReason::kUnderConnector;
    route.under_connector = id;
    return problem;
}

hid_t Session::driver() {
    const std::lock_guard lock(mutex_);
    if (driver_ < 0) driver_ = register_driver();
    return driver_;
}

hid_t Session::mpi_driver() {
    const std::lock_guard lock(mutex_);
    if (mpi_driver_ < 0) mpi_driver_ = register_mpi_driver();
    return mpi_driver_;
}

void Session::end_mpi_driver() {
    bool last;
    {
        const std::lock_guard lock(mutex_);
        mpi_driver_ = H5I_INVALID_HID;
        last = driver_ < 0;
    }
    if (last) end();
}

void Session::count_aside(ledger::AsideReason reason) {
    if (const std::shared_ptr<stage::Engine> counting = engine()) counting->count_aside(reason);
}

void Session::note_refresh() noexcept {
    refreshes_.fetch_add(1, std::memory_order_relaxed);
    try {
        if (const std::shared_ptr<stage::Engine> comparing = engine()) comparing->files().compare_cached();
    } catch (...) {   // without memory reads go on as before
    }
}

void Session::keep_unreported(Status failure) noexcept {
    const std::lock_guard lock(end_mutex_);
    if (unreported_.is_ok()) unreported_ = std::move(failure);
}

Status Session::take_unreported() {
    const std::lock_guard lock(end_mutex_);
    return std::exchange(unreported_, Status::ok());
}

void Session::forget_connectors() {
    bool driver_ends_it = false;
    {
        const std::lock_guard lock(mutex_);
        // The identifiers are gone with the library that is ending; closing them is no longer possible.
        routes_.clear();
        driver_ends_it = driver_ >= 0 || mpi_driver_ >= 0;
    }
    if (!driver_ends_it) end();
}

void Session::end_of_process() noexcept {
    // Only a fork in the midst of another thread's turn, which is short, leaves one of these locked.
    constexpr std::chrono::seconds kTurn{1};
    constexpr const char* kUnseen =
        "cannot find the staged bytes of this process at its end; run `forebay recover` to bring its files to "
        "their last flush";
    try {
        std::vector<std::shared_ptr<stage::Engine>> alive;
        {
            const std::unique_lock lock(end_mutex_, kTurn);
            if (!lock) return warn_once(kUnseen);
            for (const auto& made : made_)
                if (auto engine = made.lock()) alive.push_back(std::move(engine));
        }
        const auto shared = OpenFiles::get().all_shared_within(kTurn);
        if (!shared) warn_once(kUnseen);
        else
            for (const auto& file : *shared) file->finish_unclosed();
        for (const auto& engine : alive)
            for (const std::string& left : engine->end_of_process(
                     engine->options().options.lingers() ? leave_to_drainer : stage::Engine::LeaveTo()))
                warn_once(left);
        if (const Status failure = take_unreported(); !failure) warn_once(failure.message());
    } catch (...) {
        warn_once(
            "out of memory at the end of the process; run `forebay recover` to bring its files to their last flush");
    }
}

void Session::end() {
    {
        std::vector<std::shared_ptr<stage::Engine>> inherited;
        std::shared_ptr<stage::Engine> own;
        {
            const std::lock_guard lock(mutex_);
            inherited.swap(inherited_);
            own.swap(engine_);
            driver_ = H5I_INVALID_HID;
        }
        // No later close could report a failure of these. With close=linger end_of_process waits: HDF5 may come back.
        const bool lingers = own != nullptr && own->options().options.lingers() && !own->inherited();
        if (lingers) lingering_.push_back(std::move(own));
        else if (own != nullptr)
            if (Status failure = own->closes().await_all(); !failure) keep_unreported(std::move(failure));
    }   // they end here, without the lock
    if (const Status failure = take_unreported(); !failure) warn_once(failure.message());
}

}   // namespace forebay::hdf5

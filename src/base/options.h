// The option table: every setting forebay has, in one place.
//
// The table generates the parser, `forebay options`, `docs/options.md` and the names of the
// environment variables (`size` is FOREBAY_SIZE). A value comes from, strongest first:
//   1. the connector string      HDF5_VOL_CONNECTOR="forebay nls=/local;size=8GiB;under_vol=0;under_info={}"
//   2. the environment           FOREBAY_NLS=/local
//   3. the TOML file             FOREBAY_CONFIG=/etc/forebay.toml   (top-level keys, option names)
//   4. a default of the caller   what another product's settings come to (cache_vol/settings.h)
//   5. the table's default
// `forebay run -o` sets variables, or adds to the connector string where there is one; FOREBAY_RUN_OPTIONS tells that
// they come from there. An option given twice at the same level: the later one wins. Everything here is pure but for
// `load_options`, which reads the environment through the given function and one file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/staging_devices.h"
#include "base/status.h"

namespace forebay {

enum class OptionType : std::uint8_t { kString, kPath, kBool, kSize, kCount, kChoice, kTime };

struct OptionSpec {
    std::string_view name;   // "size"
    OptionType type;
    std::string_view default_text;   // as a user would write it: "8GiB"
    std::string_view unit;           // "bytes", "threads" or empty
    std::uint64_t minimum;           // of kSize and kCount; 0 elsewhere
    std::uint64_t maximum;           // inclusive
    std::string_view choices;        // of kChoice: "wait|through"; of kCount: words that it may be instead
    std::string_view doc;            // one line
};

// All options, in the order in which the documentation lists them. Static storage.
[[nodiscard]] std::span<const OptionSpec> option_table() noexcept;

enum class WhenFull : std::uint8_t { kWait, kThrough };
enum class OnFlush : std::uint8_t { kCommit, kDrain };
enum class OnError : std::uint8_t { kFail, kRetry, kThrough };
enum class Durability : std::uint8_t { kProcess, kNode };
enum class WithMpi : std::uint8_t { kOn, kNode, kOff };
enum class SeveralNodes : std::uint8_t { kFast, kConsistent };
enum class Prefetch : std::uint8_t { kOff, kOpen, kWritten };
enum class OnClose : std::uint8_t { kWait, kDeferred, kAuto, kLinger };

// The word number `index` of a kCount option, as its value.
[[nodiscard]] constexpr std::uint64_t word_value(std::size_t index) noexcept { return ~std::uint64_t{0} - index; }
// `revalidate`; other values are seconds.
inline constexpr std::uint64_t kRevalidateOpen = word_value(0), kRevalidateAlways = word_value(1),
                               kRevalidateNever = word_value(2);
enum class ReadCacheMode : std::uint8_t { kOff, kAuto, kOn };
enum class CacheLifetime : std::uint8_t { kPermanent, kTemporal };
enum class CacheReplacement : std::uint8_t { kLru, kLfu, kFifo, kLifo };

// Parsed values. Sizes are bytes.
struct Options {
    bool stage = true;   // off: pass everything through
    // Of option `nls`: the first directory, in which the logs live, and with it the home of the read cache; resolved:
    // never empty after load_options. Other directories hold bytes of the read cache only.
    std::string nls;
    std::uint64_t nls_bytes = 0;                   // most that the read cache takes of the first; 0: read_cache_size
    std::vector<StagingDevice> more_devices;       // the others
    std::uint64_t size = std::uint64_t{8} << 30;   // most bytes of one process's logs on the staging area
    WhenFull full = WhenFull::kWait;
    bool strict = false;                 // unusable staging: fail the open instead of running natively
    std::uint64_t drain_threads = 4;     // target writes in flight per process
    std::uint64_t stripe = 0;            // alignment of target writes; 0: the file system is asked
    OnFlush flush = OnFlush::kCommit;    // H5Fflush returns at the commit, or once drained
    OnClose close = OnClose::kWait;      // H5Fclose returns once drained, or at the commit
    OnError on_error = OnError::kFail;   // a background write to the file has failed
    std::uint64_t patience = 600;        // seconds without a byte reaching the target before a call gives up; 0: never
    Durability durability = Durability::kProcess;   // what a commit outlives: the process, or the node's loss of power
    WithMpi mpi = WithMpi::kOn;   // stage files that are opened with MPI; kNode: by ranks of one node only
    SeveralNodes nodes =
        SeveralNodes::kFast;   // kConsistent: a crash can be undone to the last commit, also with several nodes
    ReadCacheMode read_cache = ReadCacheMode::kAuto;          // kAuto: those that are read again, for this process
    std::uint64_t revalidate = kRevalidateOpen;               // when a cached file is compared with its source
    Prefetch prefetch = Prefetch::kOff;                       // which files are fetched into the read cache at the open
    std::uint64_t read_cache_size = std::uint64_t{8} << 30;   // most bytes of it, of all processes together
    CacheLifetime read_cache_lifetime = CacheLifetime::kPermanent;      // kTemporal: what nobody has open is removed
    CacheReplacement read_cache_replacement = CacheReplacement::kLru;   // which files go first when it is full
    // Staging servers of all nodes, whose read caches are asked; empty: none. Or the word "job", or "job:/FOLDER".
    std::string read_cache_servers;
    std::string deadline;     // end of the job (base/job_end.h); empty: as Slurm says, if it does
    std::string node;         // members of one name share memory; empty: those of one machine
    std::string server;       // staging server that files are written through: unix:PATH, HOST:PORT; empty: none
    std::string server_key;   // file with the key for servers on other machines; empty: the user's
    std::string stats;        // append one JSON line per closed file; empty: none
    std::string trace;        // append one JSON line per target write; empty: none
    std::string registry;     // where the areas in use are noted for commands; empty: /var/tmp, else /tmp

    // Only the connector string sets these.
    std::string under_vol = "0";   // connector beneath: value or name
    std::string under_info;        // its info string, verbatim

    // Derived from `size` (derive_from_size).
    std::uint64_t write_max = std::uint64_t{8} << 20;   // largest single target write
    std::uint64_t segment = std::uint64_t{1} << 20;     // unit of allocation and recycling in the log
    std::uint64_t reserve = std::uint64_t{512} << 20;   // log space touched ahead of a burst

    // `read_cache_servers` names no servers: the nodes of a job find each other (docs/read-cache.md, "In a job").
    [[nodiscard]] bool reads_from_job() const noexcept;
    // All directories of option `nls`, in its order: what the read cache spreads its bytes over.
    [[nodiscard]] std::vector<StagingDevice> devices() const;
    // A staging server stages the files of this process.
    [[nodiscard]] bool forwards() const noexcept { return !server.empty(); }
    // Closes are deferred, and another process drains what is left at the end of this one.
    [[nodiscard]] bool lingers() const noexcept { return close == OnClose::kLinger; }
    // Sets `write_max`, `segment` and `reserve`. To be called after `size` has changed.
    void derive_from_size() noexcept;
};

// Where a value came from, for messages: "option size=12x (FOREBAY_SIZE): not a size".
struct OptionOrigin {
    std::string name;
    std::string source;   // "connector string", "-o", "FOREBAY_SIZE", "/etc/forebay.toml:3", "default"
};

struct LoadedOptions {
    Options options;
    std::vector<OptionOrigin> origins;   // one per option in the table
    // Every unusable value, unknown option or unreadable file, each naming the option and its source.
    // The bad value is left at the next lower level's value. Empty: all is well.
    std::vector<Status> problems;
    [[nodiscard]] std::string_view origin_of(std::string_view name) const noexcept;
    // Nobody has set it: the value is the table's, or the caller's.
    [[nodiscard]] bool is_default(std::string_view name) const noexcept;
};

using Getenv = std::function<const char*(const char*)>;

// A value that counts where nothing else gives one. Its origin reads "default, by `source`", and what holds for
// defaults holds for it: a size is made to fit.
struct DefaultValue {
    std::string name, value, source;
};

// Parses and merges all levels. Never fails as a whole: see `problems`. `nls` falls back to
// $TMPDIR, then /tmp, `deadline` to $SLURM_JOB_END_TIME. Unknown FOREBAY_* variables are found by
// `names_in_environment` (may be empty). An empty variable counts as unset. Grammar of the connector string:
//   string = [ pair { ";" pair } ]     pair = name "=" value     blanks around either do not count
//   value  = "{" anything with balanced braces "}"  |  anything without ";"
[[nodiscard]] LoadedOptions load_options(std::string_view connector_string, const Getenv& getenv,
                                         std::span<const std::string> names_in_environment = {},
                                         std::span<const DefaultValue> defaults = {});

// Lowers a `size` that was not set to `most_bytes`. `why` becomes a part of its origin.
void shrink_default_size(LoadedOptions& loaded, std::uint64_t most_bytes, std::string_view why);

// "8GiB", "64k", "1048576": binary units (k, M, G, T with or without iB / B), no sign, no fraction.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);
// "8 GiB", "1.5 MiB", "17 B": for people.
[[nodiscard]] std::string format_size(std::uint64_t bytes);
// The values as a connector string that `load_options` reads back to the same Options (under_vol and
// under_info included, braces balanced). The grammar has no escape: a path with both ";" and an
// unpaired brace cannot be expressed.
[[nodiscard]] std::string to_connector_string(const Options& options);
// One value in the connector string's notation: in braces where it would be misread without.
[[nodiscard]] std::string quote_connector_value(std::string_view value);

// The table's row of this name, or null.
[[nodiscard]] const OptionSpec* find_option(std::string_view name) noexcept;
// "drain_threads" is FOREBAY_DRAIN_THREADS.
[[nodiscard]] std::string option_variable(std::string_view name);
// Would this value be accepted? The failure names option, value, `source` and the allowed range, and
// for an unknown option the nearest name there is.
[[nodiscard]] Status check_option(std::string_view name, std::string_view value, std::string_view source);
// The value of one option as a user would write it; empty for an unknown name.
[[nodiscard]] std::string option_text(const Options& options, std::string_view name);
// "1 MiB to 1 PiB", "on or off", "wait or through", or empty: what the option accepts.
[[nodiscard]] std::string option_range(const OptionSpec& spec);

// The table as the Markdown page docs/options.md.
[[nodiscard]] std::string options_as_markdown();

}   // namespace forebay

// The option table: every setting of forebay. It generates the parser, `forebay options`, `docs/options.md` and the
// names of the environment variables (`size` is FOREBAY_SIZE). The sources of a value, strongest first:
//   1. the connector string      HDF5_VOL_CONNECTOR="forebay nls=/local;size=8GiB;under_vol=0;under_info={}"
//   2. the environment           FOREBAY_NLS=/local
//   3. the TOML file             FOREBAY_CONFIG=/etc/forebay.toml   (top-level keys, option names)
//   4. a default of the caller   from another product's settings (cache_vol/settings.h)
//   5. the table's default
// `forebay run -o` sets variables, or adds to an existing connector string. FOREBAY_RUN_OPTIONS marks these values. If
// one level has an option twice, the later one wins. All functions are pure, except `load_options`, which reads one
// file, and the environment through the given function.
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
    std::string_view default_text;   // as a user writes it: "8GiB"
    std::string_view unit;           // "bytes", "threads" or empty
    std::uint64_t minimum;           // of kSize and kCount; 0 elsewhere
    std::uint64_t maximum;           // inclusive
    std::string_view choices;        // kChoice: "wait|through"; kCount: words that may replace a number
    std::string_view doc;
};

// Returns all options, in the order of the documentation. Static storage.
[[nodiscard]] std::span<const OptionSpec> option_table() noexcept;

enum class WhenFull : std::uint8_t { kWait, kThrough };
enum class OnFlush : std::uint8_t { kCommit, kDrain };
enum class OnError : std::uint8_t { kFail, kRetry, kThrough };
enum class Durability : std::uint8_t { kProcess, kNode };
enum class WithMpi : std::uint8_t { kOn, kNode, kOff };
enum class SeveralNodes : std::uint8_t { kFast, kConsistent };
enum class Prefetch : std::uint8_t { kOff, kOpen, kWritten };
enum class OnClose : std::uint8_t { kWait, kDeferred, kAuto, kLinger };

// Returns the value that encodes the word number `index` of a kCount option.
[[nodiscard]] constexpr std::uint64_t word_value(std::size_t index) noexcept { return ~std::uint64_t{0} - index; }
// Words of `revalidate`; its other values are seconds.
inline constexpr std::uint64_t kRevalidateOpen = word_value(0), kRevalidateAlways = word_value(1),
                               kRevalidateNever = word_value(2);
enum class ReadCacheMode : std::uint8_t { kOff, kAuto, kOn };
enum class CacheLifetime : std::uint8_t { kPermanent, kTemporal };
enum class CacheReplacement : std::uint8_t { kLru, kLfu, kFifo, kLifo };

// Parsed values; option_table.cc documents the options. Sizes are bytes, and times seconds.
struct Options {
    bool stage = true;
    // The first directory of option `nls`, for the logs and the home of the read cache; not empty after load_options.
    // The other directories hold only bytes of the read cache.
    std::string nls;
    std::uint64_t nls_bytes = 0;   // limit of the read cache in the first directory; 0: read_cache_size
    std::vector<StagingDevice> more_devices;
    std::uint64_t size = std::uint64_t{8} << 30;
    WhenFull full = WhenFull::kWait;
    bool strict = false;
    std::uint64_t drain_threads = 4;
    std::uint64_t stripe = 0;
    OnFlush flush = OnFlush::kCommit;
    OnClose close = OnClose::kWait;
    OnError on_error = OnError::kFail;
    std::uint64_t patience = 600;
    Durability durability = Durability::kProcess;
    WithMpi mpi = WithMpi::kOn;
    SeveralNodes nodes = SeveralNodes::kFast;
    ReadCacheMode read_cache = ReadCacheMode::kAuto;
    std::uint64_t revalidate = kRevalidateOpen;
    Prefetch prefetch = Prefetch::kOff;
    std::uint64_t read_cache_size = std::uint64_t{8} << 30;
    CacheLifetime read_cache_lifetime = CacheLifetime::kPermanent;
    CacheReplacement read_cache_replacement = CacheReplacement::kLru;
    std::string read_cache_servers;
    std::string deadline;
    std::string node;
    std::string server;
    std::string server_key;
    std::string stats;
    std::string trace;
    std::string registry;

    // Only the connector string sets these.
    std::string under_vol = "0";   // connector below: value or name
    std::string under_info;        // its info string, unchanged

    // Derived from `size` (derive_from_size).
    std::uint64_t write_max = std::uint64_t{8} << 20;   // largest single target write
    std::uint64_t segment = std::uint64_t{1} << 20;     // unit of allocation and reuse in the log
    std::uint64_t reserve = std::uint64_t{512} << 20;   // log space that is touched ahead of a burst

    // Returns true if the nodes of a job find each other (docs/read-cache.md, "In a job").
    [[nodiscard]] bool reads_from_job() const noexcept;
    // Returns all directories of option `nls`, in its order. The read cache spreads its bytes over them.
    [[nodiscard]] std::vector<StagingDevice> devices() const;
    [[nodiscard]] bool forwards() const noexcept { return !server.empty(); }
    // Returns true if closes are deferred and another process drains the rest after this process ends.
    [[nodiscard]] bool lingers() const noexcept { return close == OnClose::kLinger; }
    // Sets `write_max`, `segment` and `reserve`. Call it after each change of `size`.
    void derive_from_size() noexcept;
};

// The source of a value, for messages: "option size=12x (FOREBAY_SIZE): not a size".
struct OptionOrigin {
    std::string name;
    std::string source;   // "connector string", "-o", "FOREBAY_SIZE", "/etc/forebay.toml:3", "default"
};

struct LoadedOptions {
    Options options;
    std::vector<OptionOrigin> origins;   // one per option in the table
    // One entry for each unusable value, unknown option and unreadable file, with the option and its source. The option
    // keeps the value of the next weaker level. Empty without problems.
    std::vector<Status> problems;
    [[nodiscard]] std::string_view origin_of(std::string_view name) const noexcept;
    // Returns true if the value is the table's, or the caller's default.
    [[nodiscard]] bool is_default(std::string_view name) const noexcept;
};

using Getenv = std::function<const char*(const char*)>;

// A default of the caller. Its origin reads "default, by `source`". Like the table's, a default size is made to fit.
struct DefaultValue {
    std::string name, value, source;
};

// Parses and merges all levels. Problems go to `problems`, and the call itself never fails. `nls` falls back to
// $TMPDIR, then /tmp, and `deadline` to $SLURM_JOB_END_TIME. `names_in_environment` (may be empty) serves to find
// unknown FOREBAY_* variables. An empty variable counts as unset. Grammar of the connector string:
//   string = [ pair { ";" pair } ]     pair = name "=" value     blanks around either do not count
//   value  = "{" anything with balanced braces "}"  |  anything without ";"
[[nodiscard]] LoadedOptions load_options(std::string_view connector_string, const Getenv& getenv,
                                         std::span<const std::string> names_in_environment = {},
                                         std::span<const DefaultValue> defaults = {});

// Lowers a default `size` to `most_bytes`. `why` becomes a part of its origin.
void shrink_default_size(LoadedOptions& loaded, std::uint64_t most_bytes, std::string_view why);

// "8GiB", "64k", "1048576": binary units (k, M, G, T with or without iB / B), no sign, no fraction.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);
// Formats a size for people: "8 GiB", "1.5 MiB", "17 B".
[[nodiscard]] std::string format_size(std::uint64_t bytes);
// Returns the values as a connector string that `load_options` reads back, with under_vol and under_info (balanced
// braces). The grammar has no escape: it cannot express a path with both ";" and an unpaired brace.
[[nodiscard]] std::string to_connector_string(const Options& options);
// Returns a value in the connector string's notation, in braces where they are needed.
[[nodiscard]] std::string quote_connector_value(std::string_view value);

[[nodiscard]] const OptionSpec* find_option(std::string_view name) noexcept;
// "drain_threads" is FOREBAY_DRAIN_THREADS.
[[nodiscard]] std::string option_variable(std::string_view name);
// The failure names option, value, `source` and the allowed range, or for an unknown option the nearest one.
[[nodiscard]] Status check_option(std::string_view name, std::string_view value, std::string_view source);
// Returns an option's value as a user writes it, or empty text for an unknown name.
[[nodiscard]] std::string option_text(const Options& options, std::string_view name);
// Returns the accepted values: "1 MiB to 1 PiB", "on or off", "wait or through", or empty text.
[[nodiscard]] std::string option_range(const OptionSpec& spec);

[[nodiscard]] std::string options_as_markdown();

}   // namespace forebay

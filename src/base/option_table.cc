// The option table itself, and the page that is made from it.
#include <fmt/format.h>

#include <array>
#include <iterator>

#include "base/options.h"

namespace forebay {

namespace {

constexpr std::uint64_t kKiB = std::uint64_t{1} << 10;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kPiB = std::uint64_t{1} << 50;

using enum OptionType;

constexpr std::array kTable{
    OptionSpec{"stage", kBool, "on", "", 0, 0, "",
               "Stage written bytes on node-local storage; off passes every file through untouched."},
    OptionSpec{"nls", kPath, "", "", 0, 0, "",
               "Directory on node-local storage, absolute and not a symbolic link; empty: $TMPDIR, else /tmp. Logs "
               "live in its folder forebay-<uid>. Several with : between, such as "
               "/nvme0:/nvme1=200GiB:/dev/shm=16GiB: the read cache spreads over all of them, by their sizes, and "
               "logs stay in the first. Memory at the front of the list is filled first. A size, 1 MiB to 1 PiB, is "
               "the most that the read cache takes of that directory, instead of read_cache_size. In a path, "
               "\\= is =, and \\: is : before a slash."},
    OptionSpec{"size", kSize, "8GiB", "bytes", kMiB, kPiB, "",
               "Most space that the logs of one process take on the staging area."},
    OptionSpec{"full", kChoice, "wait", "", 0, 0, "wait|through",
               "When that space is used up:\nwait: a write waits for the drain\nthrough: it goes straight to the file"},
    OptionSpec{"strict", kBool, "off", "", 0, 0, "",
               "Opening a file fails when the staging area is unusable; off: the file is written as without forebay."},
    OptionSpec{"drain_threads", kCount, "4", "threads", 1, 256, "",
               "Writes to the files that are in flight at a time, per process. "
               "Where one drains for several ranks of its node, at least one for each of them, up to 64."},
    OptionSpec{"stripe", kSize, "0", "bytes", 0, kGiB, "",
               "Alignment of writes to the file; best the stripe size of the parallel file system. 0: "
               "what the file system names (Lustre's stripe size, or a large block size), else 1 MiB."},
    OptionSpec{
        "flush", kChoice, "commit", "", 0, 0, "commit|drain",
        "H5Fflush returns:\ncommit: when the state is committed to the log\ndrain: when it has reached the file"},
    OptionSpec{
        "close", kChoice, "wait", "", 0, 0, "wait|deferred|auto|linger",
        "The last close of a file returns:\nwait: when everything has reached the file\n"
        "deferred: when it is committed to the log, and the drain goes on behind the program\n"
        "auto: as deferred, but only where no other process can open the file\n"
        "linger: as deferred, and at the end of the program another process drains what is left, `forebay drain`; "
        "the program does not wait for it"},
    OptionSpec{"deadline", kTime, "", "", 0, 0, "",
               "End of the job. When what is staged takes more than half of the time that is left, closes and flushes "
               "wait for the drain, and writes for room. A duration counts from the start of the program; a time "
               "without Z is local. Empty: $SLURM_JOB_END_TIME, if set."},
    OptionSpec{"durability", kChoice, "process", "", 0, 0, "process|node",
               "A flush or close that has returned outlives:\nprocess: the death of the process\n"
               "node: also the node's loss of power; it syncs the log, and close the file. "
               "All staged bytes have checksums then."},
    OptionSpec{
        "on_error", kChoice, "fail", "", 0, 0, "fail|retry|through",
        "A background write to the file fails:\nfail: flushes and close try again, and report it if they fail, too\n"
        "retry: the same, after a few more attempts if it may pass\n"
        "through: as retry, and what is written from then on goes straight to the file"},
    OptionSpec{"patience", kCount, "600", "seconds", 0, 31'536'000, "",
               "A close, a flush that drains and a write that waits for room fail once nothing has reached "
               "the file for so many seconds; what is staged stays in the log. 0: they wait for ever."},
    OptionSpec{"mpi", kChoice, "on", "", 0, 0, "on|node|off",
               "Stage files that are opened for writing with MPI:\non: all\n"
               "node: only those opened by processes of one node\noff: none"},
    OptionSpec{
        "read_cache", kChoice, "auto", "", 0, 0, "off|auto|on",
        "Files that are opened read-only are read through a cache on the staging area, which all processes of the "
        "node share. Files on a local file system are left alone.\n"
        "off: no file is cached\n"
        "auto: caches a file once a process reads it repeatedly or in random order, on file systems with reliable "
        "times, unless MPI ranks open it together; the last process that has read it removes the replica\n"
        "on: caches every file; read_cache_lifetime says how long a replica stays, on file systems with reliable "
        "times"},
    OptionSpec{
        "read_cache_size", kSize, "8GiB", "bytes", kMiB, kPiB, "",
        "Most space that the read cache takes on the staging area, for all processes and files together; of each "
        "directory of option nls that has no size there."},
    OptionSpec{"read_cache_lifetime", kChoice, "permanent", "", 0, 0, "permanent|temporal",
               "What the cache holds of a file with read_cache=on:\npermanent: stays for later processes and jobs\n"
               "temporal: goes when the last process that reads the file closes it"},
    OptionSpec{
        "read_cache_replacement", kChoice, "lru", "", 0, 0, "lru|lfu|fifo|lifo",
        "When the read cache is full, files that no process has open go:\nlru: the least recently used one first\n"
        "lfu: the least often opened\nfifo: the one that was cached first\nlifo: the one that was cached last"},
    OptionSpec{
        "read_cache_servers", kString, "", "", 0, 0, "",
        "Staging servers (`forebay serve`) of all nodes that read the same files, one for each node, as HOST:PORT "
        "with commas between and in the same words everywhere. Each part of a file has one of them, which reads "
        "it from the file system for all nodes, through its node's read cache. In a job that torchrun has started no "
        "servers are needed: job, or job:/FOLDER with a folder that all nodes see, lets the job's processes find each "
        "other, and switches read_cache on. Empty: none."},
    OptionSpec{
        "revalidate", kCount, "open", "seconds", 1, 31'536'000, "open|always|never",
        "When a file in the read cache is compared with the file itself:\n"
        "open: at each open, and in the background every 5 s while it is read\n"
        "always: before each read, too\n"
        "a number: at an open if the last comparison is that many seconds old, at a read that long after the open\n"
        "never: only when a process opens it for the first time\n"
        "With a number and with never a process opens a small file again without asking the file system, as an "
        "NFS client does that caches attributes (docs/read-cache.md, \"Attribute leases\")."},
    OptionSpec{"prefetch", kChoice, "off", "", 0, 0, "off|open|written",
               "Files that are opened read-only:\noff: what is read of them goes into the read cache\n"
               "open: they are fetched into it in the background, as a whole\n"
               "written: those that the same process has written before are"},
    OptionSpec{
        "node", kString, "", "", 0, 0, "",
        "Name of this process's node; processes of one name share what they stage. Empty: those of one machine."},
    OptionSpec{"nodes", kChoice, "fast", "", 0, 0, "fast|consistent",
               "Files that several nodes write with MPI are, after a crash:\nfast: as far as they had come\n"
               "consistent: at their last flush, after recovery on every node; what is overwritten is copied first"},
    OptionSpec{
        "server", kString, "", "", 0, 0, "",
        "Staging server (`forebay serve`) that stages what is written, as unix:PATH or HOST:PORT, or several with "
        "commas between, of which each file has one. A file that another program writes through it is read as at its "
        "last flush. The ranks of a program write one file together. Empty: none."},
    OptionSpec{"server_key", kPath, "", "", 0, 0, "",
               "File with the key that a staging server and programs on other machines share, of mode 0600; "
               "`forebay serve` makes it. Empty: .config/forebay/server.key in the home directory."},
    OptionSpec{"stats", kPath, "", "", 0, 0, "",
               "File to which one line of JSON is appended per closed file and per process; empty: none."},
    OptionSpec{"trace", kPath, "", "", 0, 0, "",
               "File to which one line of JSON is appended per write to a file, wait of the program and "
               "read of a cached file; empty: none."},
    OptionSpec{"registry", kPath, "", "", 0, 0, "",
               "Directory on a local device, absolute, in which each user's staging areas are noted, "
               "so that commands find them; set it for programs and commands alike. Empty: /var/tmp, else /tmp."},
};

// A cell of a Markdown table: what would end it or be taken for a tag is escaped.
std::string cell(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '|') result += '\\';
        if (c == '<') result += "&lt;";
        else if (c == '\n') result += "<br>";
        else result += c;
    }
    return result;
}

constexpr std::string_view kIntroduction = R"(# Options

This page is made by `forebay options --markdown`; `forebay doctor` shows the values that somebody
has set and where they come from (`--json`: all values).

A value is taken from the first of these that gives one:

1. the connector string: `HDF5_VOL_CONNECTOR="forebay nls=/local;size=16GiB"`
2. the environment: `FOREBAY_NLS=/local`, `FOREBAY_SIZE=16GiB` (an empty variable counts as unset)
3. the TOML file that `FOREBAY_CONFIG` names: `nls = "/local"`, `size = "16GiB"` as top-level keys
4. the default

Given twice in one connector string, the later one counts. `forebay run -o size=16GiB -- program`
sets the variable for one program after checking it; messages name `-o` as the source then.

Sizes are whole numbers of bytes, or of k, M, G or T, which are powers of 1024: `64k`, `8MiB`,
`16G`, `1048576`. On and off may also be written true and false, yes and no, 1 and 0.

One rule holds for a value that cannot be used and for an option that does not exist, wherever it is
given. The message names the option, its source and what is allowed. A program opens its files
natively and says so once; with `strict` the open fails. A command of forebay ends with exit status
2 (`doctor` lists it as a problem: 1), and `forebay run` does not start the program.

)";

constexpr std::string_view kConnectorStringText = R"(
## The connector string

Pairs `name=value`, separated by semicolons; blanks around names and values do not count. A value
that contains semicolons stands in braces, and those inside it come in pairs:

```
HDF5_VOL_CONNECTOR="forebay nls=/local;size=16GiB;under_vol=0;under_info={}"
```

A connector string may also name the connector beneath: `under_vol` is its value or name (default 0,
HDF5's own), and `under_info` is its configuration string, in braces. Above any connector other than
HDF5's own, nothing is staged.

## Sizes that are derived from `size`

The log is allocated and given back in segments of `size` / 64, at least 64 KiB and at most 1 MiB.
`write_max`, the largest write to the file, is `size` / 64 too, from 64 KiB to 8 MiB. Ahead of a
burst of writes forebay prepares as much of the log as was in use at one time before, up to
512 MiB. On a staging area that is too small for the default `size`, forebay lowers that default. A
`size` that was set and does not fit is refused.
)";

}   // namespace

std::span<const OptionSpec> option_table() noexcept { return kTable; }

const OptionSpec* find_option(std::string_view name) noexcept {
    for (const OptionSpec& spec : kTable)
        if (spec.name == name) return &spec;
    return nullptr;
}

std::string options_as_markdown() {
    std::string page(kIntroduction);
    page += "| option | variable | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n";
    for (const OptionSpec& spec : kTable) {
        std::string allowed = option_range(spec);
        if (allowed.empty()) allowed = spec.type == kPath ? "a path" : "any text";
        fmt::format_to(std::back_inserter(page), "| `{}` | `{}` | {} | {} | {} |\n", spec.name,
                       option_variable(spec.name),
                       spec.default_text.empty() ? "" : fmt::format("`{}`", spec.default_text), cell(allowed),
                       cell(spec.doc));
    }
    page += kConnectorStringText;
    return page;
}

}   // namespace forebay

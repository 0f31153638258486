#include <fmt/format.h>

#include <array>
#include <iterator>

#include "base/options.h"

namespace forebay {

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kPiB = std::uint64_t{1} << 50;

using enum OptionType;

constexpr std::array kTable{
    OptionSpec{"stage", kBool, "on", "", 0, 0, "",
               "Stage written bytes on node-local storage; off: no file is staged."},
    OptionSpec{"nls", kPath, "", "", 0, 0, "",
               "Directory on node-local storage, absolute and not a symbolic link. Empty: $TMPDIR, else /tmp. Logs are "
               "in its folder forebay-<uid>. Several directories are separated by colons, such as "
               "/nvme0:/nvme1=200GiB:/dev/shm=16GiB. Logs stay in the first. The read cache fills directories in "
               "memory at the front of the list first, and spreads over the others. A size, 1 MiB to 1 PiB, bounds the "
               "read cache in that directory instead of read_cache_size. In a path, write \\= for =, and \\: for a "
               "colon before a slash."},
    OptionSpec{"size", kSize, "8GiB", "bytes", kMiB, kPiB, "",
               "Maximum size of the logs of one process on the staging area."},
    OptionSpec{"full", kChoice, "wait", "", 0, 0, "wait|through",
               "When the logs have used that space:\nwait: a write waits for the drain\n"
               "through: a write bypasses the log"},
    OptionSpec{"strict", kBool, "off", "", 0, 0, "",
               "If the staging area is unusable, opening a file fails; off: the file is written natively."},
    OptionSpec{"drain_threads", kCount, "4", "threads", 1, 256, "",
               "Number of concurrent writes to the files, per process. A process that drains for several ranks of its "
               "node has at least one for each rank, up to 64."},
    OptionSpec{"stripe", kSize, "0", "bytes", 0, kGiB, "",
               "Alignment of writes to the file, ideally the stripe size of the parallel file system. 0: the size that "
               "the file system reports (Lustre's stripe size, or a large block size), else 1 MiB."},
    OptionSpec{"flush", kChoice, "commit", "", 0, 0, "commit|drain",
               "H5Fflush returns:\ncommit: when the log has committed the state\n"
               "drain: when the state is in the file"},
    OptionSpec{
        "close", kChoice, "wait", "", 0, 0, "wait|deferred|auto|linger",
        "The last close of a file returns:\nwait: when everything is in the file\n"
        "deferred: when the log has committed it; the drain goes on in the background\n"
        "auto: as deferred if no other process can open the file, else as wait\n"
        "linger: as deferred; at the end of the program another process drains the rest, and the program does not "
        "wait"},
    OptionSpec{"deadline", kTime, "", "", 0, 0, "",
               "End of the job. Once draining would take more than half of the time that is left, closes and flushes "
               "wait for the drain, and writes until the rest drains in time. A duration counts from the start of the "
               "program; a time without Z is local. Empty: $SLURM_JOB_END_TIME, if set."},
    OptionSpec{"durability", kChoice, "process", "", 0, 0, "process|node",
               "A flush or close that has returned survives:\nprocess: the death of the process\n"
               "node: also a loss of power. It syncs the log, and close syncs the file. All staged bytes have "
               "checksums then."},
    OptionSpec{"on_error", kChoice, "fail", "", 0, 0, "fail|retry|through",
               "When a background write to the file fails:\n"
               "fail: flushes and close try again, and report it if they fail too\n"
               "retry: the same, after a few more attempts if the error may pass\n"
               "through: as fail, and later writes bypass the log"},
    OptionSpec{"patience", kCount, "600", "seconds", 0, 31'536'000, "",
               "A close, a flush that drains and a write that waits for room fail when no byte has reached the file "
               "for this number of seconds. Staged bytes stay in the log. 0: no limit."},
    OptionSpec{"mpi", kChoice, "on", "", 0, 0, "on|node|off",
               "Stage files that are opened for writing with MPI:\non: all\n"
               "node: only files that ranks of one node open\noff: none"},
    OptionSpec{
        "read_cache", kChoice, "auto", "", 0, 0, "off|auto|on",
        "Files that are opened read-only are read through a cache on the staging area, which all processes of the "
        "node share. Files on a local file system are not cached.\n"
        "off: no file is cached\n"
        "auto: on file systems with reliable times, a file is cached once a process reads it repeatedly or in "
        "random order, unless MPI ranks open it together. Its last reader removes the replica\n"
        "on: every file is cached; read_cache_lifetime says how long a replica stays, on file systems with reliable "
        "times"},
    OptionSpec{"read_cache_size", kSize, "8GiB", "bytes", kMiB, kPiB, "",
               "Maximum size of the read cache on the staging area, for all processes and files together. It holds for "
               "each directory of option nls that has no size there."},
    OptionSpec{"read_cache_lifetime", kChoice, "permanent", "", 0, 0, "permanent|temporal",
               "With read_cache=on, a replica:\npermanent: stays for later processes and jobs\n"
               "temporal: is removed when no process keeps it; a process keeps its open files and the last 64 that it "
               "closed"},
    OptionSpec{"read_cache_replacement", kChoice, "lru", "", 0, 0, "lru|lfu|fifo|lifo",
               "When the read cache is full, it first removes, of the files that no process has open:\n"
               "lru: the least recently used\nlfu: the least often opened\nfifo: the first that was cached\n"
               "lifo: the last that was cached"},
    OptionSpec{
        "read_cache_servers", kString, "", "", 0, 0, "",
        "Staging servers (`forebay serve`) of all nodes that read the same files, one for each node, as HOST:PORT "
        "separated by commas, the same text everywhere. Each part of a file has one server, which reads it from the "
        "file system for all nodes. A job of torchrun needs none: with the value job, or job:/FOLDER (a folder that "
        "all nodes see), its processes serve each other, and read_cache is on by default. Empty: none."},
    OptionSpec{"revalidate", kCount, "open", "seconds", 1, 31'536'000, "open|always|never",
               "When forebay compares a cached file with the file itself:\n"
               "open: at each open, and in the background every 5 s while it is read\n"
               "always: before each read, too\n"
               "a number: at an open or a read, if the last comparison is that many seconds old\n"
               "never: only at a process's first open\n"
               "With a number and with never, a process reopens a small file without asking the file system "
               "(docs/read-cache.md, \"Attribute leases\")."},
    OptionSpec{"prefetch", kChoice, "off", "", 0, 0, "off|open|written",
               "When a file is opened read-only, the read cache stores:\noff: the bytes that are read\n"
               "open: the whole file, in the background\n"
               "written: the whole file, if the same process wrote it before"},
    OptionSpec{"node", kString, "", "", 0, 0, "",
               "Name of this process's node; processes of one name share what they stage. Empty: the machine."},
    OptionSpec{"nodes", kChoice, "fast", "", 0, 0, "fast|consistent",
               "After a crash, files that several nodes write with MPI are:\n"
               "fast: as mpio would have left them, after recovery on every node\n"
               "consistent: at their last flush, after recovery on every node; bytes are copied before they are "
               "overwritten"},
    OptionSpec{
        "server", kString, "", "", 0, 0, "",
        "Staging server (`forebay serve`) that stages the files, as unix:PATH or HOST:PORT, or several separated "
        "by commas, of which each file has one. Readers of a file that another program writes through it see the "
        "last flush. The ranks of a program write one file together. Empty: none."},
    OptionSpec{"server_key", kPath, "", "", 0, 0, "",
               "File with the key that a staging server and programs on other machines share, of mode 0600; "
               "`forebay serve` makes it. Empty: .config/forebay/server.key in the home directory."},
    OptionSpec{"stats", kPath, "", "", 0, 0, "",
               "File to which forebay appends a line of JSON per closed file and per process. Empty: none."},
    OptionSpec{"trace", kPath, "", "", 0, 0, "",
               "File to which forebay appends a line of JSON per write to a file, wait of the program and read of a "
               "cached file. Empty: none."},
    OptionSpec{"registry", kPath, "", "", 0, 0, "",
               "Directory on a local device, absolute, in which forebay notes each user's staging areas, so that "
               "commands find them. Set it for programs and commands alike. Empty: /var/tmp, else /tmp."},
};

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

`forebay options --markdown` writes this page. `forebay doctor` shows the values that are set and
where they come from (`--json`: all values).

forebay takes a value from the first of these that has one:

1. the connector string: `HDF5_VOL_CONNECTOR="forebay nls=/local;size=16GiB"`
2. the environment: `FOREBAY_NLS=/local`, `FOREBAY_SIZE=16GiB` (an empty variable counts as unset)
3. the TOML file that `FOREBAY_CONFIG` names: `nls = "/local"`, `size = "16GiB"` as top-level keys
4. the default

If a connector string has an option twice, the later value counts. `forebay run -o size=16GiB`
checks the value and sets the variable for one program; messages then name `-o` as the source.

Sizes are whole numbers of bytes, or of k, M, G or T, which are powers of 1024: `64k`, `8MiB`,
`16G`, `1048576`. On and off may also be true and false, yes and no, 1 and 0.

If an option does not exist or a value is unusable, the message names the option, its source and the
allowed values. A program then opens its files natively and says so once; with `strict` the open
fails. A command of forebay ends with exit status 2 (`doctor`: 1), and `forebay run` does not start
the program.

)";

constexpr std::string_view kConnectorStringText = R"(
## The connector string

Semicolons separate the pairs `name=value`; blanks around names and values do not count. Put a value
that contains semicolons into braces; braces inside it come in pairs:

```
HDF5_VOL_CONNECTOR="forebay nls=/local;size=16GiB;under_vol=0;under_info={}"
```

`under_vol` is the value or name of the connector beneath (default 0, HDF5's own), and `under_info`
is its configuration string, in braces. Above another connector than HDF5's own, forebay stages no
file.

## Sizes that are derived from `size`

A segment of the log is `size` / 64, from 64 KiB to 1 MiB. `write_max`, the largest write to the
file, is `size` / 64 too, from 64 KiB to 8 MiB. Before a burst of writes forebay prepares as much of
the log as was in use at one time before, up to 512 MiB. If the staging device is smaller than the
default `size`, forebay lowers that default. It refuses a `size` that you set if it is larger than
the device. It does not check the free space: when that runs out, the log counts as full.
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
